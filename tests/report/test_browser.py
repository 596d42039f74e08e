"""The page in a browser: every control is used, at desktop and phone width, light and dark, and on paper."""

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smoothcert.certificates import Soundness
from smoothcert.records.findings import Attempt, Finding
from smoothcert.report.page import page as document
from smoothcert.report.runs import read_runs
from smoothcert.store import SqliteStore

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
    lines = page.locator("#curves figure svg g[aria-label=line][stroke-width='2.2'] path")
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
    page.get_by_label("against", exact=True).select_option("proxy")
    assert "proxy radius (l2 distance" in page.locator("#curves svg").first.text_content()
    assert page.locator("#curves svg").first.inner_html() != before
    page.get_by_label("against", exact=True).select_option("radius")
    boxes = page.locator(".legend input")
    assert boxes.count() == 3
    assert page.locator(".legend .badge").all_inner_texts() == ["global", "frozen", "global"]
    dashes = page.evaluate(
        "[...document.querySelectorAll('.legend line')].map(one => one.getAttribute('stroke-dasharray'))"
    )
    assert dashes == ["", "8 4", "2 3"]  # no two alike
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
    assert "hollow points" in page.locator("#curves").inner_text()
    status, filter_ = page.locator("#inputs [role=status]"), page.get_by_label("certificates", exact=True)
    thin = page.locator("#curves g[aria-description='with echoes']")
    assert thin.count() == 1  # beside the thick line, which is without them
    assert "without echoes: 50.0 %" in page.locator(".card").inner_text()
    page.get_by_label("show", exact=True).select_option("echo")
    filter_.select_option("yes")
    assert column(page, "input") == ["1", "3"]
    assert column(page, "a") == ["0.500○", "1.000○\nsays 0"]
    filter_.select_option("no")
    assert column(page, "input") == ["0"]  # of input 2 nothing was measured
    filter_.select_option("")
    assert status.inner_text() == "1–4 of 4 inputs"


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


def test_hover_says_all_runs_and_a_press_moves_the_radius(opened: Make, report: Path) -> None:
    """The cards, the table, the classes and the thumbnails follow; so do the arrow keys, and a link shows the same."""
    page = opened(report)
    box = page.locator("#curves svg").first.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.4 * box["height"])
    tip = page.locator("#curves .hover").first
    tip.wait_for()
    assert re.search(r"fixed: [\d.]+ % \([\d.]+–[\d.]+\).*\n.*ancer: [\d.]+ %", tip.inner_text())
    slider = page.get_by_label("l2 radius")
    before = page.locator(".card").first.inner_text()
    page.mouse.down()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.4 * box["height"], steps=4)
    page.mouse.up()
    assert page.locator(".card").first.inner_text() != before
    slider.fill("50")
    slider.press("ArrowRight")
    radius = page.locator(".radius output").first.inner_text()
    card, row = page.locator(".card").first.inner_text(), page.locator("#tables tr", has_text="at the cross-hair")
    assert f"certified at l2 {radius}" in card
    share = re.search(r"([\d.]+) %\n?\s*certified", card)
    assert share is not None
    assert f"{radius}: {share[1]} %" in row.inner_text()
    faint = page.locator(".inputs .thumb.short").count()
    assert faint > 0
    page.locator("#classes summary").first.click()
    assert f"certified at {radius}" in page.locator("#classes details[open] thead").inner_text()
    again = opened(report)
    again.goto(page.url)
    again.reload()
    assert again.locator(".radius output").first.inner_text() == radius
    assert again.locator(".inputs .thumb.short").count() == faint


def test_the_table_of_inputs(opened: Make, report: Path, some: Make) -> None:
    page = opened(report)
    records = some(40)
    status = page.locator("#inputs [role=status]")
    assert status.inner_text() == "1–25 of 40 inputs"
    assert column(page, "input")[:3] == ["0", "1", "2"]
    page.get_by_role("button", name="next").click()
    assert status.inner_text() == "26–40 of 40 inputs"
    assert page.get_by_role("button", name="next").is_disabled()
    page.get_by_role("button", name="previous").click()
    for number in range(2):  # up, then down
        page.locator(".inputs button[data-column=run-0]").click()
        shown = [float(text.split()[0].strip("○")) for text in column(page, "fixed")]
        assert shown == sorted(shown, reverse=number == 1)
    largest = max(one.radius for one in records)
    assert shown[0] == math.floor(largest * 1000) / 1000  # rounded down
    for measure in ("proxy", "lower", "sigma", "gap", "echo", "votes", "seconds", "radius"):
        page.get_by_label("show", exact=True).select_option(measure)
        assert len(rows(page)) == 25
    page.locator(".inputs button[data-column=truth]").click()
    page.locator(".inputs button[data-column=index]").click()
    abstaining = sum(one.label is None for one in records)
    page.get_by_label("outcome").select_option("abstained")
    assert all("abstains" in text for text in column(page, "fixed"))
    assert status.inner_text() == f"1–{abstaining} of {abstaining} inputs"
    page.get_by_label("outcome").select_option("wrong")
    wrong = sum(one.label not in (None, one.truth) for one in records)
    assert len(rows(page)) == wrong
    page.get_by_label("outcome").select_option("")
    page.get_by_label("true class").select_option("1")
    assert set(column(page, "truth")) == {"1"}
    page.get_by_label("true class").select_option("")
    page.get_by_label("input", exact=True).fill("17")
    assert column(page, "input") == ["17"]
    page.locator("#inputs tbody button").click()
    assert "nearest" not in page.locator(".detail").inner_text()  # nothing was attacked
    assert page.locator(".detail tbody tr").count() == 10
    page.locator("#inputs tbody button").click()
    page.get_by_label("input", exact=True).fill("999")
    assert status.inner_text() == "no input matches"
    page.get_by_label("input", exact=True).fill("")
    page.get_by_label("runs answer differently").check()
    assert status.inner_text() == "no input matches"
    page.get_by_label("runs answer differently").uncheck()
    page.get_by_label("only with pictures").check()
    sizes = page.evaluate("[...document.querySelectorAll('.inputs img')].map(one => one.naturalWidth)")
    assert set(sizes) == {8}
    assert page.locator(".map img").count() == 25
    page.locator(".legend input").nth(1).uncheck()  # the legend takes the run's column away
    assert page.locator(".map img").count() == 0
    assert "ancer" not in page.locator(".inputs thead").inner_text()
    assert "ancer" not in page.locator("#tables thead").first.inner_text()
    assert "hide=1" in page.url


def test_findings_are_marks_columns_filters_and_strips(
    opened: Make, record: Make, write_run: Make, tmp_path: Path
) -> None:
    """Input 0 was broken inside its radius, 1 held, 2 broke further out, 3 was not attacked."""
    records = [replace(record(index), region_radius=2.0, radius=1.0, proxy_radius=1.0 + index) for index in range(4)]
    folder = write_run("a", records)
    with SqliteStore(folder) as store:
        for index, times, violated in ((0, 1.0, True), (1, 1.0, False), (2, 1.0, False), (2, 2.0, True)):
            attempt = Attempt(
                "random", 2.0 * times * 0.9, 0, 0.2 if violated else 0.9, 0.8 if violated else 0.1, 100, violated
            )
            store.keep("hard", finding(records[index], times, attempt))
    page = opened(written([folder], tmp_path))
    assert page.locator(".inputs tr[data-index='0'] .sign").count() == 1
    page.get_by_label("show", exact=True).select_option("broken")
    words = [text.split("\n")[0] for text in column(page, "a")]
    assert words == ["broken at 0.9 ×✗", "held to 1 ×", "broken at 1.8 ×", "not attacked"]
    for kind, left in (("broken", ["0"]), ("held", ["1"]), ("further", ["2"]), ("untried", ["3"])):
        page.get_by_label("attack", exact=True).select_option(kind)
        assert column(page, "input") == left
    assert "1 of 3 broken inside the radius" in page.locator(".card").inner_text()
    assert page.locator("#attacks svg").count() == 1
    assert page.locator("#regions .strip").count() == 2
    assert page.locator("#regions img").count() == 8  # at 0, ½, 1 and 1½ of the radius
    page.locator("nav.contents a", has_text="Under attack").click()
    assert "see=attacks" in page.url


def finding(record: Any, times: float, attempt: Attempt) -> Finding:
    radius = record.region_radius * times
    return Finding(
        record.index,
        record.label,
        record.soundness,
        times,
        radius,
        2.0,
        0.001,
        0.001,
        (attempt,),
        np.full(64, 0.1),
        False,
    )


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
    assert "The same for all" in page.locator("#tables .shared").inner_text()
    assert page.locator(".about").inner_text().split("\n")[:2] == ["Data", "digits"]
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


@pytest.mark.slow
def test_nobody_is_kept_out(opened: Make, report: Path, serious: Make) -> None:
    page = opened(report)
    page.wait_for_selector("#curves svg")
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    assert serious(page) == []
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert serious(page) == []
    page.locator("#theme").evaluate("one => { one.textContent = ''; one.title = ''; }")
    assert [found.partition(":")[0] for found in serious(page, "header")] == ["button-name"]  # what is wrong is found


def test_rows_say_what_they_mean(opened: Make, report: Path) -> None:
    page = opened(report)
    words = page.locator("#tables").inner_text()
    assert "proxy radius: of the ball that has the region's volume" in words
    assert "echo: how often other inputs are answered the same label" in words
    assert "1\u202f000 at most, after 100 that choose the class" in page.locator(".about").inner_text()
    short = page.locator(".strip.short figcaption")
    assert short.count() > 0
    assert all("faint: below the cross-hair" in one for one in short.all_inner_texts())
    assert not any("faint" in one for one in page.locator(".strip:not(.short) figcaption").all_inner_texts())
    bars = page.locator("#behind figure svg").nth(2).locator("g[aria-label=rect] rect")  # sigma is the same for all
    wide = page.locator("#behind figure svg").nth(2).bounding_box()["width"]
    assert all(box["width"] < wide / 8 for box in [bar.bounding_box() for bar in bars.all()])


def test_it_prints(opened: Make, report: Path, tmp_path: Path) -> None:
    page = opened(report, scheme="dark")
    page.emulate_media(media="print")
    assert not page.locator("#theme").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.warnings')).backgroundColor") == "rgb(255, 246, 224)"
    )
    assert page.pdf(path=tmp_path / "report.pdf", format="A4")[:5] == b"%PDF-"
    page.add_style_tag(content=".appendix { display: none }")
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf())) <= 4  # what is not the appendix
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


@pytest.mark.parametrize("width", [390, 1100, 1400])
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
    assert page.evaluate("document.documentElement.scrollWidth") <= width
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
