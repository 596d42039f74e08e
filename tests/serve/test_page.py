"""The page of a server in a browser: draw, certify, see the radius grow, ask again, move it until the promise ends."""

import io
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.serve.conftest import Running, serving, smoother_with

from smoothcert.data import ArrayDataset
from smoothcert.data.base import pixels_to_inputs
from smoothcert.testing.problems import HalfSpace

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install 'smoothcert[dev]'"
)
CHROMIUM = os.environ.get("SMOOTHCERT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium here: apt-get install chromium, or set SMOOTHCERT_CHROMIUM", allow_module_level=True)

SIDE = 12
WIDTHS = (1400, 390)


class Slow(HalfSpace):
    """It takes its time, so that every look is seen."""

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(0.01)
        return super().__call__(batch)


LIGHT = Slow(torch.full((SIDE * SIDE,), 1 / SIDE), -1.0)  # bright enough, by one standard deviation of the votes
PICTURES = ArrayDataset("pictures", np.zeros((2, 1, SIDE, SIDE), np.uint8), [0, 1], 2, ("dark", "bright"))
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def pictures() -> Iterator[Running]:
    with serving(smoother_with(LIGHT), data=PICTURES) as started:
        yield started


@pytest.fixture(scope="module")
def opened() -> Iterator[Callable[..., Any]]:
    """opened(at, width): the page; no script may fail, nothing may be fetched elsewhere, nothing may reach over the side."""
    problems: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def open_page(at: str, width: int = WIDTHS[0]) -> Any:
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.set_default_timeout(10_000)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda one: "Content Security" in one.text and problems.append(one.text))
            page.on("request", lambda one: one.url.startswith((at, "data:", "blob:")) or problems.append(one.url))
            policy = page.goto(at).headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "connect-src 'self'" in policy
            return page

        yield open_page
        browser.close()
    assert problems == []


def certified(page: Any) -> float:
    """Press the button, and wait for what is settled: the radius that is shown."""
    page.get_by_role("button", name="certify").click()
    page.locator("#move, #certificate .problem").wait_for()
    return float(page.locator("[data-name=radius]").inner_text().split()[0])


def draw(page: Any, row: float) -> None:
    """A stroke from left to right."""
    box = page.locator("canvas.draw").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + row * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + row * box["height"])
    page.mouse.up()


def fits(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("width", WIDTHS)
def test_draw_certify_ask_again_and_move(
    pictures: Running, opened: Callable[..., Any], serious: Callable[..., list[str]], width: int
) -> None:
    page = opened(pictures.address, width)
    for row in (0.1, 0.3, 0.5, 0.7) if width == WIDTHS[0] else (0.2, 0.4, 0.6, 0.8):
        draw(page, row)
    radius = certified(page)
    grown = page.locator("#certificate figure svg").get_attribute("aria-description")
    made = page.locator("[data-name=promise]").inner_text()
    assert page.locator("[data-name=answer]").inner_text() == "class 1, bright"
    kept = pictures.client.promise(made).answer
    assert radius == pytest.approx(kept.radius, abs=1e-4)
    assert 0.5 < radius <= kept.radius
    assert page.locator("#certificate figure svg circle").count() >= 3
    assert grown == f"radius {radius:.4f} after {kept.votes} votes"
    far, verdict = page.get_by_label("how far"), page.locator(".verdict")
    for place, inside, words in (("0.8", "true", "from its memory: the same answer"), ("3", "false", "new votes")):
        far.fill(place)
        page.locator(f".verdict[data-inside={inside}]", has_text=words).wait_for()
        distance = float(verdict.inner_text().split("distance ")[1].split()[0])
        assert (distance <= radius) == (inside == "true")
    assert fits(page)
    assert certified(page) == radius
    assert page.locator("[data-name=source]").inner_text() == "memory: a hit"
    assert fits(page)
    assert width == WIDTHS[0] or serious(page) == []


def test_a_chosen_picture_is_what_is_certified(pictures: Running, opened: Callable[..., Any]) -> None:
    pixels = np.arange(SIDE * SIDE, dtype=np.uint8).reshape(SIDE, SIDE) + 100
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    page = opened(pictures.address)
    page.get_by_label("a picture").set_input_files({"name": "no.png", "mimeType": "image/png", "buffer": b"none"})
    page.locator(".problem", has_text="cannot be read as a picture").wait_for()
    page.get_by_label("a picture").set_input_files(
        {"name": "some.png", "mimeType": "image/png", "buffer": file.getvalue()}
    )
    page.locator(".problem").wait_for(state="detached")
    page.locator("canvas.draw[data-file='some.png']").wait_for()
    certified(page)
    kept = pictures.client.promise(page.locator("[data-name=promise]").inner_text())
    np.testing.assert_array_equal(np.ravel(kept.center), np.ravel(pixels_to_inputs(pixels)))


def drop(page: Any, where: str, file: bytes, kind: str) -> None:
    """A file is dragged from elsewhere and dropped."""
    moved = page.evaluate_handle(
        "([bytes, type]) => { const moved = new DataTransfer(); "
        "moved.items.add(new File([new Uint8Array(bytes)], 'dropped', { type })); return moved; }",
        [list(file), kind],
    )
    page.dispatch_event(where, "dragover", {"dataTransfer": moved})
    assert page.locator("canvas.draw.over").count() == 1
    page.dispatch_event(where, "drop", {"dataTransfer": moved})
    assert page.locator("canvas.draw.over").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("width", "kind", "where"), [(1400, "png", "canvas.draw"), (390, "jpeg", "h1")])
def test_a_picture_in_colours_is_dropped_certified_and_moved(
    opened: Callable[..., Any], width: int, kind: str, where: str
) -> None:
    """Three channels of 32 × 32, wherever on the page the file is dropped; the centre of the promise is its pixels."""
    red = torch.tensor([1.0, -0.5, -0.5]).repeat_interleave(32 * 32) / 32
    colours = ArrayDataset("colours", np.zeros((2, 3, 32, 32), np.uint8), [0, 1], 2, ("other", "red"))
    rows, columns = np.mgrid[:32, :32]
    pixels = np.stack([200 + 0 * rows, 4 * rows, 3 * columns], axis=2).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, quality=100, subsampling=0)
    wanted = np.asarray(Image.open(io.BytesIO(file.getvalue())).convert("RGB"))
    with serving(smoother_with(Slow(red, -8.0)), data=colours) as running:
        page = opened(running.address, width)
        page.locator("canvas.draw").wait_for()
        drop(page, where, file.getvalue(), f"image/{kind}")
        page.locator("canvas.draw[data-file=dropped]").wait_for()
        radius = certified(page)
        kept = running.client.promise(page.locator("[data-name=promise]").inner_text())
        exact = pixels_to_inputs(wanted.transpose(2, 0, 1))
        np.testing.assert_allclose(np.array(kept.center), exact, atol=0 if kind == "png" else 2 / 255)  # two decoders
        assert page.locator("[data-name=answer]").inner_text() == "class 1, red"
        assert page.locator("#certificate figure svg circle").count() >= 3
        page.get_by_text("1 promises and 0 tries without one so far").wait_for()
        far = page.get_by_label("how far")
        for place, inside in (("0.95", "true"), ("1.05", "false")):
            far.fill(place)
            page.locator(f".verdict[data-inside={inside}]", has_text="The server says").wait_for()
        assert fits(page)
        assert certified(page) == radius
        assert page.locator("[data-name=source]").inner_text() == "memory: a hit"


def test_numbers_and_a_token(opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOOTHCERT_TOKEN", TOKEN)
    with serving() as guarded:
        page = opened(guarded.address)
        page.get_by_label("token").fill("a-token-that-is-wrong")
        page.get_by_label("token").press("Enter")
        page.locator(".problem", has_text="needs a token").wait_for()
        page.get_by_label("token").fill(TOKEN)
        page.get_by_label("token").press("Enter")
        page.get_by_label("numbers").fill("1, 0, many")
        page.get_by_role("button", name="certify").click()
        page.locator(".problem", has_text="give 4 numbers").wait_for()
        page.get_by_label("numbers").fill("1.5 0 0 0")
        assert certified(page) > 0.5
        page.get_by_label("numbers").fill("-1.5 0 0 0")
        page.get_by_label("towards").select_option("own")
        page.get_by_label("how far").fill("3")
        page.locator(".verdict[data-inside=false]", has_text="new votes: another answer").wait_for()
