"""Others' logs: what comes in is what the file says, counted from the file itself; what is broken is refused whole."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from smoothcert.certificates import Soundness
from smoothcert.data import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.errors import DataError, RunError, SettingError
from smoothcert.metrics.curves import abstention, average_certified_radius, certified_accuracy
from smoothcert.recertify import recertify
from smoothcert.records.record import region_of
from smoothcert.report.comparisons import best_of_all, envelopes, supersets
from smoothcert.report.exports import to_cohen
from smoothcert.report.runs import Line, read_runs
from smoothcert.report.write import write_report
from smoothcert.run import certify_all
from smoothcert.smoother import Smoother
from smoothcert.store import open_run
from smoothcert.store.imports import Log, import_log
from smoothcert.tuners.reuse import Reuse
from smoothcert.views import view_named

LOG = Log(sigma=0.5, alpha=0.001, trials=100_000)
HEAD = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
COHEN = f"""{HEAD}
0\t3\t3\t1.23\t1\t0:00:11.500000
20\t8\t1\t0.456\t0\t0:00:10
40\t8\t-1\t0.0\t0\t1 day, 0:00:09
60\t0\t0\t0.5\t1\t8.25
"""
ANCER = """idx\tlabel\tpredict\tradius\tradius_proxy\tcorrect\tmin_sigma\ttime
0\t3\t3\t0.5\t0.75\t1\t0.25\t0:00:11.500000
20\t8\t-1\t0.0\t0.0\t0\t0.125\t0:00:10
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.tsv"
    path.write_text(COHEN, encoding="utf-8")
    return path


def test_the_numbers_are_those_of_the_file(log: Path, tmp_path: Path) -> None:
    assert import_log(log, tmp_path / "run", "cohen", LOG) == 4
    with open_run(tmp_path / "run") as store:
        records, seconds = list(store.records()), store.seconds()
    table = [line.split("\t") for line in COHEN.splitlines()[1:]]
    for radius in (0.0, 0.5, 0.51, 1.23, 1.24):
        counted = sum(row[4] == "1" and float(row[3]) >= radius for row in table) / len(table)
        assert certified_accuracy(records, [radius])[0] == counted
    assert abstention(records) == 0.25
    assert average_certified_radius(records) == np.mean([1.23, 0.0, 0.0, 0.5])
    assert list(seconds.values()) == [11.5, 10.0, 86409.0, 8.25]
    assert {one.soundness for one in records} == {Soundness.IMPORTED}
    assert (records[0].alpha, records[0].trials, records[0].scale, records[0].region_radius) == (
        0.001,
        100_000,
        0.5,
        2.46,
    )


def test_proxy_radii_and_the_noise_of_each_input(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(ANCER, encoding="utf-8")
    import_log(tmp_path / "log", tmp_path / "run", "ancer", LOG)
    with open_run(tmp_path / "run") as store:
        first, second = store.records()
    assert (first.radius, first.proxy_radius, first.scale, first.region_radius) == (0.5, 0.75, 0.25, 2.0)
    assert (second.label, second.scale) == (None, 0.125)


def test_radii_in_units_of_the_noise_are_quotients_of_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{HEAD}\n0\t3\t3\t0.3\t1\t1\n", encoding="utf-8")
    import_log(tmp_path / "log", tmp_path / "run", "cohen", Log(sigma=0.1, alpha=0.001, trials=100))
    with open_run(tmp_path / "run") as store:
        assert [one.region_radius for one in store.records()] == [3.0]


def test_the_least_scale_of_uniform_noise_is_a_half_width(tmp_path: Path) -> None:
    """The authors draw (2u - 1)·sigma: a standard deviation of 0.25 would be a half-width of 0.25·√3."""
    (tmp_path / "log").write_text(ANCER, encoding="utf-8")
    uniform = Log(sigma=0.5, alpha=0.001, trials=100_000, law="uniform", norm=1)
    import_log(tmp_path / "log", tmp_path / "run", "ancer", uniform)
    with open_run(tmp_path / "run") as store:
        first, second = store.records()
    assert (first.scale, first.region_radius, second.scale) == (0.25, 2.0, 0.125)
    (tmp_path / "log").write_text(ANCER.replace("min_sigma", "sigma"), encoding="utf-8")
    import_log(tmp_path / "log", tmp_path / "other", "ancer", uniform)
    with open_run(tmp_path / "other") as store:
        assert next(store.records()).scale == pytest.approx(0.25 * 3**0.5)


def test_logs_at_several_sigmas_have_an_envelope(tmp_path: Path) -> None:
    (tmp_path / "low").write_text(f"{HEAD}\n0\t1\t1\t0.5\t1\t1\n1\t1\t1\t0.6\t1\t1\n", encoding="utf-8")
    (tmp_path / "high").write_text(f"{HEAD}\n0\t1\t-1\t0.0\t0\t1\n1\t1\t1\t1.5\t1\t1\n", encoding="utf-8")
    for name, sigma in (("low", 0.25), ("high", 1.0)):
        for method in ("cohen", "other"):
            log = Log(sigma, alpha=0.001, trials=100_000, method=method)
            import_log(tmp_path / name, tmp_path / f"{method}-{name}", "cohen", log)

    def lines(*names: str) -> list[Line]:
        return [line for run in read_runs([tmp_path / name for name in names]) for line in run.lines]

    sheet = envelopes(lines("cohen-low", "cohen-high", "other-low"), [0.5, 1.0, 2.0])
    assert sheet is not None
    assert sheet.rows == (("cohen-low, cohen-high", "imported", "2", "100.0", "50.0", "0.0"),)
    assert envelopes(lines("cohen-low", "other-high"), [0.5]) is None


def test_our_own_log_comes_back(log: Path, tmp_path: Path) -> None:
    import_log(log, tmp_path / "run", "cohen", LOG)
    with open_run(tmp_path / "run") as store:
        records, seconds = list(store.records()), store.seconds()
    (tmp_path / "again.tsv").write_bytes(to_cohen(records, [seconds[one.index] for one in records]))
    import_log(tmp_path / "again.tsv", tmp_path / "again", "cohen", LOG)
    with open_run(tmp_path / "again") as store:
        assert list(store.records()) == records


def test_it_stands_in_a_report(log: Path, tmp_path: Path) -> None:
    import_log(log, tmp_path / "run", "cohen", LOG, command="smoothcert import log.tsv")
    page = write_report(read_runs([tmp_path / "run"]), [0.0, 0.5], tmp_path / "out").read_text(encoding="utf-8")
    assert "[imported]" in page
    assert "smoothcert import log.tsv" in page


def test_two_logs_in_one_report(log: Path, tmp_path: Path) -> None:
    """Their radii compare; their regions are unknown, so none is called a superset."""
    (tmp_path / "ancer.tsv").write_text(ANCER, encoding="utf-8")
    import_log(log, tmp_path / "balls", "cohen", LOG)
    import_log(tmp_path / "ancer.tsv", tmp_path / "shapes", "ancer", LOG)
    lines = [line for run in read_runs([tmp_path / "balls", tmp_path / "shapes"]) for line in run.lines]
    assert supersets(lines) is None
    best = best_of_all(lines)
    assert best is not None
    # Inputs 0 and 20 are common: radii 1.23 > 0.5, and nothing right on either side of 20.
    assert [row[:6] for row in best.rows] == [
        ("balls", "imported", "1", "2", "100.0", "100.0"),
        ("shapes", "imported", "1", "2", "50.0", "50.0"),
    ]
    page = write_report(read_runs([tmp_path / "balls", tmp_path / "shapes"]), [0.5], tmp_path / "out")
    assert page.is_file()


def test_its_noise_is_not_used_again(log: Path, tmp_path: Path) -> None:
    import_log(log, tmp_path / "run", "cohen", LOG)
    with pytest.raises(RunError, match="does not say for which data its noise was tuned"):
        Reuse(tmp_path / "run")


def test_it_is_not_judged_again(log: Path, tmp_path: Path) -> None:
    import_log(log, tmp_path / "run", "cohen", LOG)
    with pytest.raises(RunError, match="cannot be judged again"):
        recertify(tmp_path / "run", tmp_path / "new", {"alpha": 0.01})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column idx"),
        ("idx,label\n", "no column idx, label"),
        (HEAD + "\n", "has no line after the first"),
        (HEAD + "\n0\t3\t3\t1.2\t0\t1\n", "line 2: correct is 0, but the label is 3 and the prediction 3"),
        (HEAD + "\n0\t3\t-1\t1.2\t0\t1\n", "an abstention .* has radius 1.2"),
        (HEAD + "\n0\t3\t3\t-1\t1\t1\n", "radius is -1; it must be a finite number"),
        (HEAD + "\n0\t3\t3\tnan\t1\t1\n", "radius is nan"),
        (HEAD + "\n0\t3\t3\tx\t1\t1\n", "could not convert"),
        (HEAD + "\n0\t3\t3\n", "line 2"),
        (HEAD + "\n0\t3\t3\t1\t1\tlong\n", "could not convert"),
        (HEAD + "\n0\t3\t3\t1\t1\t1\n0\t3\t3\t1\t1\t1\n", "line 3: input 0 stands in the log twice"),
        (HEAD + "\n-5\t3\t3\t1\t1\t1\n", "idx -5"),
        (ANCER.replace("0.25", "0.0"), "the noise has scale 0"),
    ],
)
def test_a_broken_log_is_refused_and_nothing_is_left(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        import_log(tmp_path / "log", tmp_path / "run", "cohen", LOG)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_wrong_arguments(log: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="did you mean 'cohen'"):
        import_log(log, tmp_path / "run", "cohn", LOG)
    with pytest.raises(DataError, match="no column radius_proxy"):
        import_log(log, tmp_path / "run", "ancer", LOG)
    with pytest.raises(DataError, match="cannot read"):
        import_log(tmp_path / "none", tmp_path / "run", "cohen", LOG)
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(DataError, match="is not text"):
        import_log(tmp_path / "picture", tmp_path / "run", "cohen", LOG)
    import_log(log, tmp_path / "run", "cohen", LOG)
    with pytest.raises(RunError, match="not an empty directory"):
        import_log(log, tmp_path / "run", "cohen", LOG)
    for settings, words in (
        ({"sigma": 0.0}, "sigma"),
        ({"alpha": 1.0}, "alpha"),
        ({"trials": 0}, "n=0"),
        ({"norm": 0.0}, "norm"),
        ({"law": "gausian"}, "did you mean 'gaussian'"),
        ({"law": "cauchy"}, "no standard deviation"),
    ):
        with pytest.raises(SettingError, match=words):
            Log(**{"sigma": 0.5, "alpha": 0.001, "trials": 100} | settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("views", "against", "alpha", "trials"),
    [
        ("bands:width=2", {"threat": "patch"}, 0.0, 7),
        ("bands:width=2", {"norm": 0.0}, 0.0, 7),
        ("splitting:lam=0.5", {"norm": 1.0}, 0.0, 255),
        ("ablation:keep=5", {"norm": 0.0}, 0.001, 500),
    ],
)
def test_logs_of_views_come_back(tmp_path: Path, views: str, against: dict, alpha: float, trials: int) -> None:
    """Certified, exported, imported: the same answers and sizes, radii rounded down, and exact where there is no alpha."""
    dark = np.random.default_rng(0).integers(0, 253, (5, 1, 7, 7)).astype(np.float32) / 255
    data = ArrayDataset("noise", dark, np.arange(5) % 2, classes=2)
    given = {"threat": "patch:1"} if "threat" in against else against
    marks = Smoother(_marks, view_named(views), **given, estimator="fixed", estimate=500, engine=Engine(workers=1))
    certify_all(marks, data, tmp_path / "own")
    with open_run(tmp_path / "own") as store:
        own = list(store.records())
    (tmp_path / "log").write_bytes(to_cohen(own, [1.0] * 5))
    import_log(tmp_path / "log", tmp_path / "run", "cohen", Log(None, alpha, trials, views, **against))
    with open_run(tmp_path / "run") as store:
        back = list(store.records())
    assert len(back) == 5
    for one, other in zip(own, back, strict=True):
        same = ("index", "truth", "label", "norm", "threat", "exact", "alpha", "trials", "against", "law", "scale")
        assert [getattr(one, name) for name in same] == [getattr(other, name) for name in same]
        assert 0 <= one.radius - other.radius < 1e-4
        assert other.soundness is Soundness.IMPORTED
        region = region_of(other, dark[one.index], store)
        assert (region is None) == (other.label is None)
        assert region is None or region.inner_radius == pytest.approx(other.radius, abs=1e-12)
    assert max(one.radius for one in own) > 0
    if "threat" in against:
        page = write_report(read_runs([tmp_path / "own", tmp_path / "run"]), [1.0], tmp_path / "report")
        assert "exact" in page.read_text(encoding="utf-8")


def _marks(x: Tensor) -> Tensor:
    """Class 1 where a pixel that is shown is nearly white."""
    found = (x.flatten(1) > 0.985).any(1).float()
    return torch.stack([1 - found, found], dim=1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sigma": 0.5, "law": "bands:width=2", "threat": "patch", "alpha": 0.0}, "leave it out"),
        ({"law": "bands:width=2", "threat": "patch", "alpha": 0.001}, "all views are asked"),
        ({"law": "ablation:keep=2", "norm": 0.0, "alpha": 0.0}, "sampled views have one above 0"),
        ({"law": "bands:width=2", "norm": 1.0, "alpha": 0.0}, "no certificate against l1"),
        ({"law": "splitting:lam=1", "threat": "patch", "alpha": 0.0}, "no certificate against patch"),
        ({"law": "bands:width=2", "threat": "disc", "alpha": 0.0}, "unknown threat"),
        ({"sigma": 0.5, "threat": "patch", "alpha": 0.001}, "needs views"),
        ({"sigma": 0.5, "alpha": 0.0}, "0 for views"),
        ({"alpha": 0.001}, "sigma=None"),
    ],
)
def test_logs_of_views_that_do_not_fit(given: dict, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Log(**{"sigma": None, "trials": 7, **given})


def test_a_size_is_a_whole_number(log: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2: radius is 1.23; the size of a threat is a whole number"):
        import_log(log, tmp_path / "run", "cohen", Log(None, 0.0, 28, "bands:width=4", threat="patch"))
    assert not (tmp_path / "run").exists()
