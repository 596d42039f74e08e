"""A run and a certificate as a notebook shows them."""

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import smoothcert as sc
from smoothcert.errors import MissingExtra, RunError
from smoothcert.metrics.curves import certified_accuracy
from smoothcert.records.record import Record
from smoothcert.report import exports

Some = Callable[..., list[Record]]
WriteRun = Callable[..., Path]


def pictures(html: str) -> list[Image.Image]:
    """The pictures that stand in a page, decoded."""
    found = re.findall(r"data:image/png;base64,([^']+)", html)
    return [Image.open(io.BytesIO(base64.b64decode(text))) for text in found]


def test_a_run_is_opened_by_its_directory(some: Some, write_run: WriteRun) -> None:
    records = some(20)
    run = sc.Run(write_run("a", records))
    assert (len(run), run.records, run.name) == (20, records, "a")
    assert repr(run).endswith("a': 20 global)")
    assert repr(run.records[0]).startswith("Record(index=0, truth=0, label=0, radius=")


def test_a_curve_is_that_of_the_records(some: Some, write_run: WriteRun) -> None:
    records = some(20)
    radii, accuracy = sc.Run(write_run("a", records)).curve()
    assert radii[0] == 0
    assert np.array_equal(radii, np.unique([0.0, *(record.radius for record in records)]))
    assert np.array_equal(accuracy, certified_accuracy(records, radii.tolist()))
    at, shares = sc.Run(write_run("b", records)).curve([0.0, 100.0])
    assert (at.tolist(), shares[1]) == ([0.0, 100.0], 0.0)


def test_two_labels_have_no_common_curve(some: Some, write_run: WriteRun) -> None:
    mixed = some(10)[:5] + some(10, soundness=sc.Soundness.FROZEN)[5:]
    run = sc.Run(write_run("a", mixed))
    with pytest.raises(RunError, match="its labels are global, frozen"):
        run.curve()
    assert len(run.lines) == 2


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_holds_every_record(
    library: str, some: Some, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(library)

    def only(name: str) -> object:
        if name != library:
            raise ImportError(name)
        return pytest.importorskip(name)

    monkeypatch.setattr(exports, "import_module", only)
    records = some(20)
    frame = sc.Run(write_run("a", records)).to_frame()
    assert type(frame).__module__.startswith(library)
    assert frame["index"].to_list() == list(range(20))
    assert frame["radius"].to_list() == [record.radius for record in records]


def test_a_frame_without_a_library_says_what_to_install(
    some: Some, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sc.Run(write_run("a", some(3)))

    def none(name: str) -> object:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(exports, "import_module", none)
    with pytest.raises(MissingExtra, match=r"smoothcert\[frames\]"):
        run.to_frame()


def test_a_run_shows_its_table_and_its_curve(some: Some, write_run: WriteRun) -> None:
    html = sc.Run(write_run("<a>", some(20)))._repr_html_()
    assert "<a>" not in html
    assert "&lt;a&gt;" in html
    [curve] = pictures(html)
    assert 500 < curve.size[0] < 700
    assert 350 < curve.size[1] < 500
    assert sc.Run(write_run("b", some(20))).figure()._repr_png_()[:4] == b"\x89PNG"  # type: ignore[attr-defined]


def test_a_certificate_shows_its_input_and_the_map_of_its_region() -> None:
    bound = sc.Bound(0.98765, 0.001, 1000)
    center, scale = np.linspace(0, 1, 64).reshape(1, 8, 8), np.linspace(0.1, 0.5, 64).reshape(1, 8, 8)
    round_, own, flat = (
        sc.Region(c, s, 1.0, 2.0) for c, s in ((center, np.array(0.25)), (center, scale), (scale[0, 0], scale[0, 0]))
    )
    shown = [sc.Certificate(3, bound, region, sc.Soundness.GLOBAL)._repr_html_() for region in (round_, own, flat)]
    assert [len(pictures(html)) for html in shown] == [1, 2, 0]
    pixels = np.asarray(pictures(shown[0])[0])
    assert np.array_equal(pixels, np.rint(255 * center[0]).astype(np.uint8))
    assert "scale 0.100 to 0.500" in shown[1]
    assert all("0.9876" in html and "global" in html for html in shown)
    assert "abstains" in sc.Certificate(None, bound, None, sc.Soundness.FROZEN)._repr_html_()
