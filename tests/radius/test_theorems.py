"""docs/theorems.md: every function and every file of tests that it names exists."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs/theorems.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| claim")
]


def named(text: str) -> object:
    """What a dotted name inside the package stands for: a module, or something in one."""
    parts = text.split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(["smoothcert", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[length:], module)
    raise AttributeError(text)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:60])
def test_what_the_theorems_name_exists(row: list[str]) -> None:
    claim, functions, tests = row
    assert claim
    names = re.findall(r"`([\w.]+)`", functions)
    assert names, f"no function is named in {functions!r}"
    for name in names:
        assert named(name) is not None
    for file, _, test in (text.partition("::") for text in re.findall(r"`([\w/.:]+)`", tests)):
        path = ROOT / "tests" / file
        assert path.exists(), f"there is no {path}"
        assert not test or re.search(rf"(class|def) {test}\b", path.read_text(encoding="utf-8"))


def test_a_name_that_does_not_exist_is_seen() -> None:
    for wrong in ("laws.gaussian.Gaussian.l2", "maths.nothing.there"):
        with pytest.raises(AttributeError):
            named(wrong)
