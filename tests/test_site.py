"""The documentation as a site: every page on it, every link good, every tutorial executed, nothing fetched from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcert as sc

ROOT = Path(__file__).parents[1]
# What the executed tutorials show, each in words of its own.
SHOWN = {
    "own_network": "right and certified at 0.5",
    "per_input": "class 0, radius 2.0",
    "any_noise": "log-concave l1",
    "training": "average certified radius",
    "read_a_report": "report.html",
    "extend": "proved 1.",
}


def test_every_page_is_on_the_site() -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    decisions = (ROOT / "docs/decisions/index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        where = page.relative_to(ROOT / "docs").as_posix()
        told = f"]({page.name})" in decisions if re.match(r"decisions/\d", where) else f" {where}\n" in listed
        assert told, f"{where} is on no list: name it in mkdocs.yml, or a decision in docs/decisions/index.md"


def test_every_public_name_is_in_the_reference() -> None:
    declared = set(re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), flags=re.M))
    homes = re.findall(
        r"^from (\S+) import (\w+) as \2$", Path(sc.__file__).with_suffix(".pyi").read_text(), flags=re.M
    )
    assert declared == {f"{home}.{name}" for home, name in homes}


@pytest.mark.slow
def test_the_site_is_built_with_every_tutorial_executed(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs_jupyter", reason="mkdocs is not installed: pip install 'smoothcert[docs]'")
    asked = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path)]  # strict, by mkdocs.yml
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in (ROOT / "docs/tutorials").iterdir()} == set(SHOWN)
    for name, words in SHOWN.items():
        assert words in (tmp_path / "tutorials" / name / "index.html").read_text(encoding="utf-8"), name
    assert "1.33 [global]" in (tmp_path / "index.html").read_text(encoding="utf-8")
    fetched = re.compile(
        r"""<(?:script|img|iframe)[^>]* src=["']?(?:https?:)?//|<link [^>]*stylesheet[^>]* href=["']?(?:https?:)?//"""
    )
    for page in tmp_path.rglob("*.html"):
        assert not fetched.search(page.read_text(encoding="utf-8")), f"{page} fetches something from a network"
