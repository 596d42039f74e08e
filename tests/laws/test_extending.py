"""The law of docs/extending.md is one: it is read from there, named as the text says, and put through the suite."""

import math
import re
from pathlib import Path

import pytest
from scipy.stats import t

import smoothcert as sc
from smoothcert.errors import SettingError
from smoothcert.laws import law_named
from smoothcert.testing.laws import LawSuite

PAGE = Path(__file__).parents[2] / "docs/extending.md"


def test_the_example_is_a_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(# mylaws.py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "mylaws.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    law = law_named("mylaws:Student:freedom=4")
    assert str(law) == "mylaws:Student:freedom=4"
    assert law == law_named(str(law))
    assert float(law.tail(1.5)) == pytest.approx(float(t(4).sf(1.5)), rel=1e-9)
    assert law.std == pytest.approx(math.sqrt(2.0), rel=1e-4)
    LawSuite().check(law)
    assert sc.Noise(law, 0.5).law is law
    with pytest.raises(SettingError, match="freedom must be a finite number of at least 2 and at most 100"):
        law_named("mylaws:Student:freedom=1")
