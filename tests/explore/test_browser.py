"""The explorer in a browser: open, choose an input, move it out of its region, draw, look at slices."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from smoothcert.cli import app
from smoothcert.cli.flags import Given
from smoothcert.cli.of_run import certified_with
from smoothcert.explore.explorer import Explorer
from smoothcert.explore.server import Server

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install 'smoothcert[dev]'"
)
CHROMIUM = os.environ.get("SMOOTHCERT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium here: apt-get install chromium, or set SMOOTHCERT_CHROMIUM", allow_module_level=True)

INSIDE_THEIR_CHARTS = """() => [...document.querySelectorAll('#around figure svg text')].every((text) => {
  const own = text.getBoundingClientRect(), chart = text.ownerSVGElement.getBoundingClientRect();
  return own.left >= chart.left - 1 && own.right <= chart.right + 1 && own.bottom <= chart.bottom + 1; })"""
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def opened(browser: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """opened(size, scheme, at): the page with input 1 chosen; no script may fail and nothing may be fetched elsewhere."""
    problems: list[str] = []

    def open_page(size: dict[str, int] = DESKTOP, scheme: str = "light", at: Server = server) -> Any:
        def foreign(request: Any) -> None:
            if not request.url.startswith((at.address, "data:", "blob:")):
                problems.append(request.url)

        page = browser.new_page(viewport=size, color_scheme=scheme)
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("request", foreign)
        page.goto(at.address)
        choose(page, 1)
        return page

    yield open_page
    assert problems == []


def choose(page: Any, index: int) -> None:
    page.locator(f".list button[data-index='{index}']").click()
    page.locator("#input h2", has_text=f"Input {index}").first.wait_for()
    page.locator("#around svg [aria-description='cells'], #around canvas.places").first.wait_for()
    page.locator(".verdict").first.wait_for()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_the_slider_leads_out_of_the_region(opened: Callable[..., Any]) -> None:
    page = opened()
    verdict = page.locator(".verdict")
    page.locator(".verdict[data-inside=true]").wait_for()
    assert "inside the region" in verdict.inner_text()
    page.get_by_label("how far").fill("0.9")
    page.get_by_label("how far").fill("1.5")
    page.locator(".verdict[data-inside=false]").wait_for()
    assert "outside the region, 1." in verdict.inner_text()
    assert "The smoothed classifier says" in verdict.inner_text()
    page.get_by_label("how far").fill("-0.5")
    page.locator(".verdict[data-inside=true]").wait_for()


def test_every_slice_is_drawn_with_both_regions(opened: Callable[..., Any]) -> None:
    page = opened()
    for axes, words in (("extremes", "largest θ"), ("curvature", "top Hessian eigenvector"), ("random", "a random")):
        page.get_by_label("axes").select_option(axes)
        page.locator("#around svg text", has_text=words).first.wait_for()
        for name in ("region", "inner", "box"):
            assert page.locator(f"#around .pair > figure [aria-description='{name}'] path").count() == 1
    page.get_by_label("classifier", exact=True).select_option("20")
    page.locator("progress").wait_for(state="detached")
    page.get_by_label("width").select_option("6")
    page.get_by_role("button", name="other directions").click()
    page.locator("progress").wait_for(state="detached")
    plane = page.locator("#around .pair > figure svg").first
    box = plane.bounding_box()
    plane.click(position={"x": 0.9 * box["width"], "y": 0.1 * box["height"]})
    page.locator(".verdict[data-inside=false]").wait_for()
    assert page.get_by_label("along").input_value() == "point"


def test_keys_filters_settings_and_back(opened: Callable[..., Any]) -> None:
    page = opened()
    page.get_by_label("width").select_option("6")
    for key, index in (("j", 2), ("j", 3), ("k", 2)):
        page.keyboard.press(key)
        page.locator("#input h2", has_text=f"Input {index}").wait_for()
    assert page.get_by_label("width").input_value() == "6"  # kept between inputs
    assert page.locator(".list button[aria-current=true]").get_attribute("data-index") == "2"
    assert "input=2" in page.url
    page.go_back()
    page.locator("#input h2", has_text="Input 3").wait_for()
    page.locator(".list button[data-index='3']").press("ArrowUp")
    page.locator("#input h2", has_text="Input 2").wait_for()
    page.get_by_label("input", exact=True).fill("0")
    assert page.locator(".list li").count() == 1
    page.get_by_label("input", exact=True).fill("")
    assert page.locator(".list li").count() == 4
    assert page.locator(".arriving svg").count() == 2


def test_a_drawing_moves_the_input(opened: Callable[..., Any]) -> None:
    page = opened()
    canvas = page.get_by_label("draw a perturbation")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 150, steps=12)
    page.mouse.up()
    page.locator(".verdict[data-inside=false]").wait_for()
    assert page.get_by_label("along").input_value() == "drawing"
    page.get_by_role("button", name="clear").click()
    page.locator(".verdict[data-inside=true]", has_text=" 0 numbers changed").wait_for()


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")], ids=["desktop", "phone"])
def test_it_fits_the_screen(opened: Callable[..., Any], size: dict[str, int], scheme: str) -> None:
    page = opened(size, scheme)
    wide = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1]
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.locator("#noise .strip img").count() == 13  # twelve copies and the map of one channel
    sizes = page.evaluate("[...document.querySelectorAll('#noise img')].map(one => one.naturalWidth)")
    assert set(sizes) == {28}


@pytest.mark.slow
def test_nobody_is_kept_out(opened: Callable[..., Any], serious: Callable[..., list[str]]) -> None:
    page = opened()
    page.locator("progress").wait_for(state="detached")
    assert serious(page) == []
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert serious(page) == []
    page.locator("h1").evaluate("one => { one.style.color = 'var(--edge)'; }")
    assert [found.partition(":")[0] for found in serious(page, "header")] == [
        "color-contrast"
    ]  # what is wrong is found


def test_the_other_controls(opened: Callable[..., Any]) -> None:
    page = opened()
    page.get_by_label("votes", exact=True).select_option("1000")
    page.locator("#around .verdict + .facts svg[aria-description*=' of 1000']").wait_for()
    page.get_by_label("along").select_option("b")
    page.get_by_label("how far").fill("1.5")
    page.locator(".verdict[data-inside=false]").wait_for()
    first, second = (
        page.locator("#around [aria-description='point'] circle").evaluate(
            "one => [Number(one.getAttribute('cx')), Number(one.getAttribute('cy'))]"
        ),
        page.locator("#around [aria-description='cells']").bounding_box(),
    )
    assert first[1] < second["height"] / 2 - 20  # up, along the second axis
    page.get_by_label("brush").select_option("-1")
    canvas = page.get_by_label("draw a perturbation")
    canvas.scroll_into_view_if_needed()
    canvas.click(position={"x": 10, "y": 10})
    page.locator(".verdict", has_text="outside [0, 1]").wait_for()  # darker than black
    page.get_by_label("brush").select_option("0")
    canvas.click(position={"x": 10, "y": 10})
    page.locator(".verdict", has_text=" 0 numbers changed").wait_for()
    outcomes = page.get_by_label("outcome").locator("option").evaluate_all("all => all.map(one => one.value)")
    for outcome in outcomes[1:]:
        page.get_by_label("outcome").select_option(outcome)
        assert 1 <= page.locator(".list li").count() < 4
    page.get_by_label("outcome").select_option("")
    page.get_by_label("true class").select_option("7")
    assert page.locator(".list li").count() == 1
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_second_run_stands_beside(
    opened: Callable[..., Any], serve: Callable[..., Any], run: Path, explorer: Explorer, tmp_path: Path
) -> None:
    """Each side has its own plane and its own point."""
    words = ["certify", "--config", run / "run.toml", "--seed", 1, "--limit", 2, "--out", tmp_path / "other"]
    assert CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False).exit_code == 0
    other = Explorer(*certified_with(tmp_path / "other", Given()), tmp_path / "other")
    with serve(explorer, other) as both:
        page = opened({"width": 970, "height": 900}, at=both)  # the narrowest with two columns
        assert page.locator(".look").count() == 2
        assert page.locator("#input h2").all_inner_texts() == [f"Input 1 in {run.name}", "Input 1 in other"]
        left, right = page.locator(".look").first, page.locator(".look").last
        assert left.locator("#votes").inner_text() != right.locator("#votes").inner_text()  # other draws, other votes
        names = page.evaluate("[...document.querySelectorAll('section')].map(one => one.getAttribute('aria-label'))")
        assert len(set(names)) == len(names) == 9  # four a side and how they were made
        assert page.evaluate(INSIDE_THEIR_CHARTS)
        right.locator("[data-inside=true]").wait_for()
        left.get_by_label("how far").fill("2")
        left.locator("[data-inside=false]").wait_for()
        assert right.locator("[data-inside=true]").count() == 1
    other.close()


def test_a_patch_on_the_picture(opened: Callable[..., Any], viewed: Callable[..., Explorer], serve: Callable) -> None:
    """The worst place of the certified side keeps the answer, one pixel more takes it; a click puts the patch elsewhere."""
    with serve(viewed("bands:width=2,hidden=0", threat="patch:1")) as server:
        page = opened(at=server)
        page.locator(".verdict[data-inside=true] .answer", has_text="class 0").wait_for()
        assert "certified: a 3 × 3 patch" in page.locator(".verdict").inner_text()
        facts = page.locator("#input").inner_text()
        assert "a 3 × 3 patch, wherever and with whatever values" in facts
        assert "all 8 are asked, so the certificate is exact" in facts
        assert not any(words in facts for words in ("alpha", "proxy", "scale"))
        assert _painted(page) == (0, 158, 115)
        page.get_by_label("size", exact=True).fill("4")
        page.locator(".verdict[data-inside=false] .answer", has_text="class 1").wait_for()
        page.wait_for_function(f"({CORNER})() === 213")
        page.get_by_label("size", exact=True).fill("2")
        canvas = page.get_by_label("the input, and what is replaced in it")
        canvas.click(position={"x": 100, "y": 100})
        page.locator(".verdict[data-inside=true]", has_text="a 2 × 2 patch replaced").wait_for()
        assert page.get_by_label("replace", exact=True).input_value() == "1"
        page.get_by_role("button", name="clear").click()
        page.locator(".verdict[data-inside=true]", has_text="nothing replaced").wait_for()
        assert "All 8 views were asked" in page.locator("#votes").inner_text()
        assert page.locator("#noise .strip img").count() == 8


# The largest red value on the outline of what is replaced: of its colour, since the picture is dark.
CORNER = """() => { const c = document.querySelector("canvas.places"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
let found = null; for (let k = 0; k < d.length; k += 4) { if (d[k + 1] > d[k + 2] + 20 && (d[k] === 213 || d[k + 1] === 158)) found = d[k]; } return found; }"""


def _painted(page: Any) -> tuple[int, int, int]:
    """The colour of the outline of what is replaced."""
    page.wait_for_function(f"({CORNER})() !== null")
    return {0: (0, 158, 115), 213: (213, 94, 0)}[page.evaluate(CORNER)]


def test_pixels_anywhere(opened: Callable[..., Any], viewed: Callable[..., Explorer], serve: Callable) -> None:
    with serve(viewed("bands:width=2,hidden=0", norm=0)) as server:
        page = opened(PHONE, at=server)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert "any 2 coordinates" in page.locator("#input").inner_text()
        canvas = page.get_by_label("the input, and what is replaced in it")
        box = canvas.bounding_box()
        for count, (column, row) in enumerate(((1, 1), (4, 2), (6, 6)), 1):
            canvas.click(position={"x": box["width"] * (column + 0.5) / 8, "y": box["height"] * (row + 0.5) / 8})
            page.locator(f".verdict[data-inside={str(count <= 2).lower()}]", has_text=f"any {count} coord").wait_for()
        page.locator(".verdict .answer", has_text="class 1").wait_for()


def test_splitting_has_a_diamond(opened: Callable[..., Any], viewed: Callable[..., Explorer], serve: Callable) -> None:
    with serve(viewed("splitting:lam=0.1", norm=1)) as server:
        page = opened(at=server)
        page.get_by_label("axes").select_option("extremes")
        page.locator("#around svg text", has_text="largest θ").first.wait_for()
        page.get_by_label("classifier", exact=True).select_option("20")
        page.locator("progress").wait_for(state="detached")
        assert page.locator("#around .pair > figure [aria-description='region'] path").count() == 1
        page.get_by_label("how far").fill("1.5")
        page.locator(".verdict[data-inside=false]", has_text="all 51 views were asked").wait_for()
        assert "l1 distance" in page.locator(".verdict").inner_text()
        assert page.get_by_label("votes", exact=True).count() == 0


def test_an_abstention_and_noise_chosen_anew(opened: Callable[..., Any], leak_server: Server) -> None:
    """The example of theory §3, whose inputs are no pictures: the deployed classifier leaves the frozen certificate."""
    page = opened(at=leak_server)
    assert "the run abstains on this input" in page.locator(".verdict").inner_text()
    assert "region" not in page.locator("#input").inner_text()
    assert "region" not in page.locator("#around .legend").inner_text()
    assert page.locator("#around [aria-description='region']").count() == 0
    choose(page, 0)
    page.get_by_label("axes").select_option("extremes")
    page.locator("#around svg text", has_text="largest θ").first.wait_for()
    page.get_by_label("how far").fill("-0.5")
    page.locator(".verdict[data-inside=true] .answer", has_text="class 1").wait_for()
    page.get_by_label("choose the noise anew").check()
    page.locator(".verdict[data-inside=true] .answer", has_text="class 0").wait_for()
    words = page.locator(".verdict").inner_text()
    assert "(certified: 1) with the noise chosen anew here" in words
    assert "The memory answers: class 1" in words
