"""The shape of the package: imports point one way, the numbers' side works without torch, exports exist."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcert

ROOT = Path(smoothcert.__file__).parent
# The order of the walk: a module may import from its own group and from groups before it.
ORDER = [
    ["errors", "files", "maths"],
    ["registry"],
    ["identity"],
    ["laws"],
    ["bracket"],
    ["tables"],
    ["votes"],
    ["bounds"],
    ["radius"],
    ["estimators"],
    ["regions"],
    ["threats"],
    ["views"],
    ["certificates"],
    ["promises"],
    ["records", "findings"],
    ["store"],
    ["shelf"],
    ["memory"],
    ["settling"],
    ["recertify", "ways"],
    ["metrics"],
    ["report"],
    ["data"],
    ["seeds"],
    ["noise"],
    ["models"],
    ["polling"],
    ["tuners", "smoother"],  # a tuner is handed the smoother; the smoother knows the base and the fixed tuner
    ["training", "testing"],
    ["run"],
    ["attacks"],
    ["explore"],
    ["search"],
    ["config"],
    ["cli"],
]
WITHOUT_TORCH = {name for group in ORDER[: ORDER.index(["seeds"])] for name in group} | {"config"}
RANK = {name: rank for rank, group in enumerate(ORDER) for name in group}


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


def test_the_command_line_starts_without_torch() -> None:
    program = "import sys, smoothcert.cli; assert 'torch' not in sys.modules; assert 'scipy.stats' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
