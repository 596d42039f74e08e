"""The page in a browser: every control is used, at desktop and phone width, light and dark, and on paper."""

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from smoothcert.certificates import Soundness
from smoothcert.report.page import page as document
from smoothcert.report.runs import read_runs

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install 'smoothcert[dev]'"
)
CHROMIUM = os.environ.get("SMOOTHCERT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium here: apt-get install chromium, or set SMOOTHCERT_CHROMIUM", allow_module_level=True)

Make = Callable[..., Any]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # No sandbox: containers run as root. No network: the page must not need one.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """opened(path, size, scheme): the page, on which no script may fail and nothing may be fetched."""
    contexts, problems = [], []

    def open_page(path: Path, size: dict[str, int] = DESKTOP, scheme: str = "light") -> Any:
        context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: problems.append(request.url) if request.url.startswith("http") else None)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def report(some: Make, write_run: Make, tmp_path: Path) -> Path:
    """A fixed run, one with maps and another label, and one in another norm; forty inputs each."""
    runs = [
        write_run("fixed", some(40, proxy_radius=0.0)),
        write_run("ancer", some(40, soundness=Soundness.FROZEN), maps=True),
        write_run("laplace", some(40, norm=1.0, law="laplace"), pictures=False),
    ]
    return written(runs, tmp_path)


def written(runs: list[Path], folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(document(read_runs(runs), [0.0, 0.5]), encoding="utf-8")
    return path


def rows(page: Any) -> list[list[str]]:
    """The cells of the per-input table as text."""
    return page.evaluate(
        "[...document.querySelectorAll('.inputs tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))"
    )


def column(page: Any, head: str) -> list[str]:
    heads = page.evaluate("[...document.querySelectorAll('.inputs thead th')].map(one => one.innerText)")
    place = next(number for number, text in enumerate(heads) if text.rstrip(" ▲▼") == head)
    return [row[place] for row in rows(page)]


def test_the_charts_and_their_controls(opened: Make, report: Path) -> None:
    page = opened(report)
    page.wait_for_selector("#curves svg")
    lines = page.locator("#curves figure svg path[stroke-width='2'], #curves figure svg g[stroke-width='2'] path")
    assert page.locator("#curves figure").count() == 2  # a chart per norm
    assert page.locator("#behind figure svg").count() >= 4
    assert lines.count() == 3
    bands = page.locator("#curves figure svg g[aria-label='area']")
    assert bands.count() == 3
    page.get_by_label("confidence bands").uncheck()
    assert bands.count() == 0
    page.get_by_label("confidence bands").check()
    assert bands.count() == 3
    before = page.locator("#curves svg").first.inner_html()
    page.get_by_label("against").select_option("proxy")
    assert "proxy radius (l2 distance" in page.locator("#curves svg").first.text_content()
    assert page.locator("#curves svg").first.inner_html() != before
    page.get_by_label("against").select_option("radius")
    boxes = page.locator(".legend input")
    assert boxes.count() == 3
    assert page.locator(".legend .badge").all_inner_texts() == ["global", "frozen", "global"]
    dashes = page.evaluate(
        "[...document.querySelectorAll('.legend line')].map(one => one.getAttribute('stroke-dasharray'))"
    )
    assert dashes == ["", "6 4", ""]
    boxes.nth(1).uncheck()
    assert lines.count() == 2
    boxes.nth(0).uncheck()
    assert "All runs of this norm are hidden." in page.locator("#curves").inner_text()
    boxes.nth(2).uncheck()
    assert "All runs are hidden." in page.locator("#behind").inner_text()
    for number in range(3):
        boxes.nth(number).check()
    assert lines.count() == 3


def test_echoes_are_hollow_points_on_their_curve(opened: Make, record: Make, write_run: Make, tmp_path: Path) -> None:
    """Two of four certificates echo, one of them wrongly; only what counts is on the curve, at its radius and share."""
    echo = [record(0, radius=0.5, echo=0.0), record(1, radius=1.0, echo=0.5), record(2, radius=0.7)]
    page = opened(written([write_run("a", [*echo, record(3, radius=2.0, label=0, echo=1.0)])], tmp_path))
    page.wait_for_selector("#curves svg")
    points = page.locator("#curves svg g[aria-label=dot] circle")
    assert points.count() == 1
    place = """(point) => { const svg = document.querySelector("#curves figure svg");
        return [svg.scale("x").invert(+point.getAttribute("cx")), svg.scale("y").invert(+point.getAttribute("cy"))]; }"""
    assert points.first.evaluate(place) == pytest.approx([1.0, 25.0])
    assert "Hollow points" in page.locator("#curves").inner_text()
    status, filter_ = page.locator("#inputs [role=status]"), page.get_by_label("certificates", exact=True)
    filter_.select_option("yes")
    assert column(page, "input") == ["1", "3"]
    assert column(page, "echo") == ["0.500 ○", "1.000 ○"]
    filter_.select_option("no")
    assert column(page, "input") == ["0"]  # of input 2 nothing was measured
    filter_.select_option("")
    assert status.inner_text() == "1–4 of 4 rows"


def test_a_curve_is_drawn_where_the_numbers_are(opened: Make, record: Make, write_run: Make, tmp_path: Path) -> None:
    """Certified at 0.5 and at 1: between the two radii half of the inputs are certified, at 0.5 and below all are."""
    folder = write_run("a", [record(0, radius=0.5), record(1, radius=1.0)])
    page = opened(written([folder], tmp_path))
    page.wait_for_selector("#curves svg")
    on_the_line = """([x, y]) => {
        const svg = document.querySelector("#curves figure svg");
        const path = svg.querySelector("g[aria-label=line] path");
        const point = new DOMPoint(svg.scale("x").apply(x), svg.scale("y").apply(y));
        return path.isPointInStroke(point);
    }"""
    for x, y, there in ((0.25, 100, True), (0.75, 50, True), (0.75, 100, False), (0.25, 50, False)):
        assert page.evaluate(on_the_line, [x, y]) is there, (x, y)


def test_a_tip_says_the_numbers_rounded_down(opened: Make, report: Path) -> None:
    page = opened(report)
    box = page.locator("#curves svg").first.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.4 * box["height"])
    tip = page.locator("#curves [aria-label='tip'] text").first
    tip.wait_for(state="attached")
    words = tip.text_content()
    assert re.search(r"certified accuracy [\d.]+ %", words)
    assert "95 % band" in words


def test_the_table_of_inputs(opened: Make, report: Path, some: Make) -> None:
    page = opened(report)
    records = some(40)
    status = page.locator("#inputs [role=status]")
    assert status.inner_text() == "1–25 of 120 rows"
    page.get_by_label("run", exact=True).select_option(label="fixed: gaussian 0.5 [global]")
    assert status.inner_text() == "1–25 of 40 rows"
    assert column(page, "input")[:3] == ["0", "1", "2"]
    page.get_by_role("button", name="next").click()
    assert status.inner_text() == "26–40 of 40 rows"
    assert page.get_by_role("button", name="next").is_disabled()
    page.get_by_role("button", name="previous").click()
    for number in range(2):  # up, then down
        page.locator(".inputs button[data-column=radius]").click()
        shown = [float(text) for text in column(page, "radius")]
        assert shown == sorted(shown, reverse=number == 1)
    largest = max(one.radius for one in records)
    assert shown[0] == math.floor(largest * 1000) / 1000  # rounded down
    for head in ("truth", "label", "proxy", "lower", "sigma", "gap", "echo", "votes", "seconds", "index", "run"):
        page.locator(f".inputs button[data-column={head}]").click()
        assert page.locator(".inputs th[aria-sort=ascending]").count() == 1
    page.locator(".inputs button[data-column=index]").click()
    abstaining = sum(one.label is None for one in records)
    page.get_by_label("outcome").select_option("abstained")
    assert set(column(page, "answer")) == {"abstains"}
    assert status.inner_text() == f"1–{abstaining} of {abstaining} rows"
    page.get_by_label("outcome").select_option("wrong")
    wrong = sum(one.label not in (None, one.truth) for one in records)
    assert len(rows(page)) == wrong
    page.get_by_label("outcome").select_option("")
    page.get_by_label("true class").select_option("1")
    assert set(column(page, "truth")) == {"1"}
    page.get_by_label("true class").select_option("")
    page.get_by_label("input", exact=True).fill("17")
    assert column(page, "input") == ["17"]
    page.get_by_label("input", exact=True).fill("999")
    assert status.inner_text() == "no input matches"
    page.get_by_label("input", exact=True).fill("")
    page.get_by_label("run", exact=True).select_option("")
    page.get_by_label("only with pictures").check()
    assert status.inner_text() == "1–25 of 120 rows"  # pictures of an input serve all runs
    sizes = page.evaluate("[...document.querySelectorAll('.inputs img')].map(one => one.naturalWidth)")
    assert sizes
    assert set(sizes) == {8}
    page.get_by_label("run", exact=True).select_option(label="ancer: per input [frozen]")
    assert page.locator(".map img").count() == 25


def test_configuration_classes_and_warnings(opened: Make, report: Path) -> None:
    page = opened(report)
    assert "different label" in page.locator(".warnings").inner_text()
    assert "different norm" in page.locator(".warnings").inner_text()
    page.locator("#runs summary", has_text="ancer").click()
    assert page.locator("#runs .command").nth(1).inner_text() == "smoothcert certify --out ancer"
    page.locator("#classes summary").first.click()
    assert page.locator("#classes details[open] tbody tr").count() == 2
    table = page.locator("#tables table").first.inner_text()
    assert "average certified radius" in table
    assert "frozen" in page.locator("#labels").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_fits_the_screen_in_both_colours(opened: Make, report: Path, size: dict[str, int], scheme: str) -> None:
    page = opened(report, size, scheme)
    page.wait_for_selector("#behind svg")
    wide = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1]
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 200) == (scheme == "dark")
    for wanted in ("light", "dark"):
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == wanted
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.set_viewport_size({"width": 700, "height": 900})  # the charts follow the window
    page.wait_for_function("document.querySelector('#curves figure svg').getBoundingClientRect().width <= 700")


def test_it_prints(opened: Make, report: Path, tmp_path: Path) -> None:
    page = opened(report, scheme="dark")
    page.emulate_media(media="print")
    assert not page.locator("#theme").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.warnings')).backgroundColor") == "rgb(255, 246, 224)"
    )
    assert page.pdf(path=tmp_path / "report.pdf", format="A4")[:5] == b"%PDF-"
    assert page.locator("#runs details:not([open])").count() == 0  # paper shows every command


@pytest.mark.parametrize("kind", ["empty", "abstentions", "plain"])
def test_poor_runs_still_give_a_clear_page(
    opened: Make, kind: str, some: Make, write_run: Make, tmp_path: Path
) -> None:
    abstains = {"label": None, "radius": 0.0, "proxy_radius": 0.0, "region_radius": 0.0}
    records = {"empty": [], "abstentions": some(9, **abstains), "plain": some(1, truth=None)}[kind]
    folder = write_run("a", records, pictures=False)
    page = opened(written([folder], tmp_path), PHONE)
    text = page.locator("body").inner_text()
    if kind == "empty":
        assert "There are no certificates yet" in text
        assert "holds no records yet" in text
        assert "smoothcert certify --out a" in text
    else:
        page.wait_for_selector("#curves svg")
        assert "No pictures" in text
    if kind == "abstentions":
        assert "Nothing is certified in these runs." in text


@pytest.mark.parametrize("width", [1100, 1400])
def test_a_table_of_seven_runs_is_not_cut_off(
    opened: Callable[..., Any], some: Make, write_run: Make, tmp_path: Path, width: int
) -> None:
    names = [
        f"{method}_sigma_0.{k}5_memory" for k, method in enumerate(["fixed", "ancer", "data_dependent"] * 2 + ["x"])
    ]
    page = opened(written([write_run(name, some(40)) for name in names], tmp_path), {"width": width, "height": 900})
    sizes = page.evaluate("[...document.querySelectorAll('.scroll')].map(one => [one.scrollWidth, one.clientWidth])")
    assert len(sizes) > 3
    assert all(needed <= given for needed, given in sizes), sizes
    header = page.evaluate("[...document.querySelectorAll('#tables table')[0].rows[0].cells].map(one => one.innerText)")
    assert header == ["run", *names]


@pytest.mark.parametrize("radius", [0.0, 0.3, 3e-7])
def test_charts_of_values_that_are_alike(
    opened: Callable[..., Any], record: Make, write_run: Make, tmp_path: Path, radius: float
) -> None:
    """One value, and values that differ by an ulp; the fixture fails on any error of a script."""
    near = [radius, math.nextafter(radius, 1), math.nextafter(radius, -1) if radius else 0.0]
    sizes = [{"radius": one, "proxy_radius": one, "region_radius": one} for one in near]
    one = [record(index, **sizes[0]) for index in range(3)]
    alike = [record(index, **size) for index, size in enumerate(sizes)]
    page = opened(written([write_run("one", one), write_run("alike", alike, maps=True)], tmp_path))
    page.wait_for_selector("#behind figure svg")
    drawn = page.evaluate(
        "[...document.querySelectorAll('#behind figure')].map(one => one.querySelectorAll('rect, path').length)"
    )
    assert len(drawn) == 4
    assert all(number > 0 for number in drawn) or radius == 0  # nothing has no factors
