"""The plug-ins of docs/extending.md, taken from the page: each passes its suite and is named with parameters."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from smoothcert.attacks import attack_named
from smoothcert.estimators import estimator_named
from smoothcert.runtimes import runtime_named
from smoothcert.testing.attacks import AttackSuite
from smoothcert.testing.estimators import EstimatorSuite
from smoothcert.testing.recipes import RecipeSuite
from smoothcert.testing.runtimes import RuntimeSuite
from smoothcert.testing.suite import Suite
from smoothcert.testing.tuners import TunerSuite
from smoothcert.training import recipe_named
from smoothcert.tuners import tuner_named

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
KINDS = {
    "mytuners:Bright:gain=2": (tuner_named, TunerSuite()),
    "myestimators:Hoeffding": (estimator_named, EstimatorSuite()),
    "myrecipes:Smoothed:softening=0.2": (recipe_named, RecipeSuite()),
    "myattacks:Blinks:tries=4": (attack_named, AttackSuite()),
    "myruntimes:Exported": (runtime_named, RuntimeSuite()),
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of the page that begins with a file's name, as that file."""
    for name, code in re.findall(r"```python\n# (my\w+\.py)\n(.*?)```", PAGE, flags=re.DOTALL):
        (tmp_path / name).write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("spec", KINDS)
def test_each_passes_its_suite(spec: str) -> None:
    make, suite = KINDS[spec]
    assert isinstance(suite, Suite)
    member = make(spec)  # type: ignore[operator]
    assert len(suite.check(member)) > 3
    assert str(member).startswith(spec.rpartition(":")[0] if "=" in spec else spec)
    import_module(spec.partition(":")[0])
