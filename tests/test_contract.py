"""The shape of the package: imports point one way, the numbers' side works without torch, exports exist."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcert

ROOT = Path(smoothcert.__file__).parent
# The order of the walk: a module or room may import from itself and from those before it.
ORDER = [
    *(
        "errors",
        "extras",
        "progress",
        "files",
        "maths",
        "registry",
        "sections",
        "plan",
        "engine",
        "identity",
        "runtimes",
        "laws",
        "votes",
        "estimators",
        "radius",
        "regions",
        "linear",
        "threats",
        "views",
    ),
    *(
        "certificates",
        "intervals",
        "records",
        "store",
        "memory",
        "metrics",
        "recertify",
        "report",
        "data",
        "fronts",
        "merge",
    ),  # all without torch
    *(
        "seeds",
        "noise",
        "sight",
        "asks",
        "models",
        "answers",
        "polling",
        "execution",
        "probing",
        "echo",
        "calibration",
        "smoother",
        "regressor",
        "cascade",
        "forecast",
        "tuners",
        "training",
    ),
    *("run", "attacks", "explore", "search", "config", "papers", "serve", "client", "testing", "cli"),
]
WITHOUT_TORCH = {*ORDER[: ORDER.index("seeds")], "config"}
RANK = {name: rank for rank, name in enumerate(ORDER)}


def modules() -> list[tuple[str, Path]]:
    """Every module of the package as (dotted name without the package, file)."""
    files = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or not path.name.startswith("__"))
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path) for path in files]


def imported(path: Path) -> set[str]:
    """The first part, after the package's name, of everything a file imports from the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "smoothcert":
            parts = node.module.split(".")[1:]
            found |= {parts[0]} if parts else {alias.name for alias in node.names}
    return found & set(RANK)


@pytest.mark.parametrize(("name", "path"), modules(), ids=lambda value: str(value) if isinstance(value, str) else "")
def test_imports_point_one_way(name: str, path: Path) -> None:
    home = name.split(".")[0]
    assert home in RANK, f"{name} has no place in the order of the walk"
    later = {other for other in imported(path) if RANK[other] > RANK[home]}
    assert not later, f"{name} imports {later}, which come after it"


def test_below_the_curtain_nothing_needs_torch() -> None:
    """Every module on the numbers' side imports in a process where importing torch raises."""
    names = [f"smoothcert.{name}" for name, _ in modules() if name.split(".")[0] in WITHOUT_TORCH]
    assert len(names) > 30
    program = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'torch':
            raise ImportError('torch is not for this side')
sys.meta_path.insert(0, Refuse())
import importlib
for name in {names!r}:
    importlib.import_module(name)
assert 'torch' not in sys.modules
slow = {{'scipy.stats', 'scipy.interpolate', 'scipy.optimize'}} & set(sys.modules)  # half a second, where nobody needs them
assert not slow, slow
import smoothcert
smoothcert.Region, smoothcert.Certificate, smoothcert.Votes, smoothcert.Bound
print(len({names!r}), 'modules without torch')
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{len(names)} modules without torch"


def test_every_public_name_exists() -> None:
    for name in smoothcert.__all__:
        assert getattr(smoothcert, name) is not None
    with pytest.raises(AttributeError, match="public names"):
        _ = smoothcert.nothing


def test_the_command_line_starts_without_torch_scipy_and_numpy() -> None:
    program = """
import sys, smoothcert.cli
sys.argv = ["smoothcert", "certify", "--help"]
try:
    smoothcert.cli.main()
except SystemExit as stop:
    assert stop.code == 0
found = {"torch", "scipy", "numpy"} & set(sys.modules)
assert not found, found
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_walk_names_everything_at_the_top_in_the_order_of_imports() -> None:
    page = (ROOT.parent.parent / "docs" / "walk.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `(\w+)` \|", page.partition("## Every name at the top")[2], flags=re.MULTILINE)
    assert names == ORDER
    assert set(names) == {name.split(".")[0] for name, _ in modules()}
