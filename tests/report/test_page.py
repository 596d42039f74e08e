"""The page's content: hand-computed, rounded down, complete for every kind of run, small and quick for large ones."""

import csv
import json
import math
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import smoothcert as sc
from smoothcert.certificates import Soundness
from smoothcert.data import ArrayDataset
from smoothcert.errors import RunError
from smoothcert.metrics.bands import accuracy_band, binomial_band
from smoothcert.metrics.curves import certified_accuracy
from smoothcert.metrics.distributions import by_class, ecdf, gap, probabilities, sigma_factor
from smoothcert.recertify import recertify
from smoothcert.records.facts import FACTS
from smoothcert.records.record import Record
from smoothcert.report import page as pages
from smoothcert.report.pictures import BUDGET, evenly, pictures_of, scale_map
from smoothcert.report.runs import read_runs
from smoothcert.report.sheets import Sheet, latex, to_csv, to_latex
from smoothcert.report.tables import _accuracy, _percent
from smoothcert.report.write import write_report
from smoothcert.store import open_run
from smoothcert.store.imports import Log, import_log

Make = Callable[..., Any]


def content_of(document: str) -> dict[str, Any]:
    """The data inside a page, as the browser reads it."""
    return json.loads(re.search(r'id="data">(.*?)</script>', document, re.S)[1])


class TestMetrics:
    def test_bands_against_the_binomial_tails(self) -> None:
        """At the ends of the band the observed count is as unlikely as the confidence says, by exact sums."""
        low, high = (float(end) for end in binomial_band(7, 20))

        def tail(p: float, counts: range) -> float:
            return float(sum(math.comb(20, k) * Fraction(p) ** k * (1 - Fraction(p)) ** (20 - k) for k in counts))

        assert tail(low, range(7, 21)) == pytest.approx(0.025)
        assert tail(high, range(8)) == pytest.approx(0.025)
        assert float(binomial_band(0, 5)[0]) == 0.0
        assert float(binomial_band(5, 5)[1]) == 1.0
        assert all(np.isnan(end) for end in binomial_band(0, 0))

    def test_the_band_of_a_curve_holds_it(self, some: Make) -> None:
        records, radii = some(57), [0.0, 0.2, 0.5, 5.0]
        low, high = accuracy_band(records, radii)
        shares = certified_accuracy(records, radii)
        assert (low <= shares).all()
        assert (shares <= high).all()
        assert [float(end) for end in binomial_band(round(57 * shares[1]), 57)] == [low[1], high[1]]

    def test_probabilities_and_factors_by_hand(self, record: Make) -> None:
        records = [
            record(0, lower=0.9, radius=0.3, region_radius=0.6),
            record(1, lower=0.4, label=None, radius=0.0, region_radius=0.0),
            record(2, lower=0.0, soundness=Soundness.IMPORTED),
        ]
        assert probabilities(records).tolist() == [0.4, 0.9]
        assert ecdf(probabilities(records), np.array([0.3, 0.4, 0.9])).tolist() == [0.0, 0.5, 1.0]
        assert [gap(one) for one in records[:2]] == [0.6, None]
        assert [sigma_factor(one) for one in records[:2]] == [0.5, None]

    def test_by_class(self, record: Make) -> None:
        found = by_class([record(0, truth=1), record(1, truth=0), record(2, truth=None), record(3, truth=1)])
        assert {truth: [one.index for one in own] for truth, own in found.items()} == {0: [1], 1: [0, 3]}


class TestRounding:
    @given(value=st.floats(0, 1e6, allow_nan=False), digits=st.integers(0, 6))
    def test_a_number_of_the_page_is_never_above_what_it_stands_for(self, value: float, digits: int) -> None:
        sent = pages._down(value, digits)
        assert sent is not None
        assert Fraction(sent) <= Fraction(value) or sent == value
        shown = Fraction(f"{sent:.{digits}f}")  # what toFixed shows: nearest to a number that has these digits
        assert shown <= Fraction(repr(value))
        assert Fraction(repr(value)) - shown < Fraction(1, 10**digits)

    @given(correct=st.integers(0, 2000), inputs=st.integers(1, 2000))
    def test_accuracies_are_rounded_down_and_their_bands_outwards(self, correct: int, inputs: int) -> None:
        correct = min(correct, inputs)
        share, low, high = re.fullmatch(r"([\d.]+) \(([\d.]+)–([\d.]+)\)", _accuracy(correct / inputs, inputs)).groups()
        assert Fraction(share) <= Fraction(100 * correct, inputs)
        ends = [100 * float(end) for end in binomial_band(correct, inputs)]
        assert float(low) <= ends[0]
        assert float(high) >= ends[1]

    @given(share=st.floats(0, 1))
    def test_percentages(self, share: float) -> None:
        assert Fraction(_percent(share)) <= Fraction(repr(100 * share))

    @given(radii=st.lists(st.floats(0, 3), min_size=1, max_size=30))
    def test_a_curve_of_the_page_never_rises_nor_lies_above_the_truth(self, radii: list[float]) -> None:
        records = [_plain(index, radius) for index, radius in enumerate(radii)]
        curve = pages._curve(records, [])
        assert (np.diff(curve["y"]) <= 0).all()
        truth = 100 * certified_accuracy(records, curve["x"][:-1])
        assert (np.array(curve["y"][:-1]) <= truth).all()
        assert (np.array(curve["low"]) <= np.array(curve["y"])).all()
        assert (np.array(curve["high"]) >= np.array(curve["y"])).all()

    def test_a_thinned_curve_is_drawn_at_the_lower_end_of_each_step(self) -> None:
        """Between two points the page draws the value of the right one, which the truth does not fall below."""
        records = [_plain(index, 1.0 + index / 5000) for index in range(5000)]
        curve = pages._curve(records, [])
        assert len(curve["x"]) == pages.POINTS + 1
        between = [(a + b) / 2 for a, b in zip(curve["x"][:-2], curve["x"][1:-1], strict=True)]
        assert (np.array(curve["y"][1:-1]) <= 100 * certified_accuracy(records, between)).all()


def _plain(index: int, radius: float) -> Record:
    return Record(
        index, 1, 1, radius, radius, None, radius, 2.0, Soundness.GLOBAL, "", "gaussian", 1.0, 0.0, "", 0.001, 0.9, None,
        100, (0, 10), 0, ((0, 100),), (0,), "all votes",
    )  # fmt: skip


class TestContent:
    def test_two_runs(self, some: Make, write_run: Make, tmp_path: Path) -> None:
        fixed = write_run("fixed", some(40))
        climb = write_run("climb", some(40, soundness=Soundness.FROZEN), maps=True)
        target = write_report(read_runs([fixed, climb]), [0.0, 0.5], tmp_path / "out")
        text = target.read_text(encoding="utf-8")
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)  # nothing is fetched
        data = content_of(text)
        assert [line["soundness"] for line in data["lines"]] == ["global", "frozen"]
        assert data["lines"][0]["dash"] != data["lines"][1]["dash"]
        assert data["lines"][0]["curves"]["radius"]["y"][0] == 100 * round(certified_accuracy(some(40), [0.0])[0], 4)
        assert data["lines"][0]["columns"]["index"] == list(range(40))
        assert data["lines"][0]["columns"]["seconds"] == 0.25
        echoing = sorted(one.radius for one in some(40) if one.echo == 0.5 and one.correct)
        assert data["lines"][0]["curves"]["radius"]["marked"]["x"] == echoing
        assert data["lines"][0]["columns"]["echo"] == [one.echo for one in some(40)]
        assert len(data["pictures"]["inputs"]) == 40
        assert len(data["pictures"]["maps"]["climb"]) == 40
        assert data["pictures"]["maps"]["fixed"] == {}
        assert data["runs"][0]["command"] == "smoothcert certify --out fixed"
        assert set(data["labels"]) == {"global", "frozen"}
        assert any("different label" in warning["words"] for warning in data["warnings"])
        assert data["tables"][0]["header"] == ["run", "fixed", "climb"]
        rows = list(csv.reader((tmp_path / "out/table-1.csv").read_text(encoding="utf-8").splitlines()))
        assert rows[0] == ["run", "fixed", "climb"]
        assert r"\begin{tabular}{lrr}" in (tmp_path / "out/table-1.tex").read_text(encoding="utf-8")
        inputs = list(csv.DictReader((tmp_path / "out/inputs.csv").read_text(encoding="utf-8").splitlines()))
        assert [float(row["radius"]) for row in inputs[:40]] == [one.radius for one in some(40)]
        for name in ("curve", "curve-proxy", "p_a", "factors", "votes"):
            assert (tmp_path / f"out/{name}.png").read_bytes()[:4] == b"\x89PNG"
            assert "<svg" in (tmp_path / f"out/{name}.svg").read_text(encoding="utf-8")
            assert (tmp_path / f"out/{name}.pdf").read_bytes()[:5] == b"%PDF-"

    def test_the_same_runs_give_the_same_files(self, some: Make, write_run: Make, tmp_path: Path) -> None:
        runs = read_runs([write_run("a", some(12), maps=True)])
        write_report(runs, [0.0], tmp_path / "x")
        write_report(runs, [0.0], tmp_path / "y")
        for file in (tmp_path / "x").iterdir():
            assert file.read_bytes() == (tmp_path / "y" / file.name).read_bytes(), file.name

    def test_text_cannot_leave_its_place(self, some: Make, write_run: Make) -> None:
        folder = write_run("a", some(3, rule="</script><script>alert(1)</script>"), model="</script><b>")
        document = pages.page(read_runs([folder]), [0.0])
        assert document.count("</script>") == 3  # the template's own
        assert content_of(document)["runs"][0]["configuration"]["model"] == "</script><b>"

    @pytest.mark.parametrize(
        "kind", ["empty", "abstentions", "one class", "no pictures", "mixed norms", "no truths", "one"]
    )
    def test_every_kind_of_run_gives_a_page(
        self, kind: str, some: Make, record: Make, write_run: Make, tmp_path: Path
    ) -> None:
        abstains = {"label": None, "radius": 0.0, "proxy_radius": 0.0, "region_radius": 0.0}
        folders = {
            "empty": lambda: [write_run("a", [])],
            "abstentions": lambda: [write_run("a", some(9, **abstains))],
            "one class": lambda: [write_run("a", some(9, truth=0, selection=(100,), estimation=((1000,),)))],
            "no pictures": lambda: [write_run("a", some(9), pictures=False)],
            "mixed norms": lambda: [
                write_run("a", some(9)),
                write_run("b", some(9, norm=math.inf)),
                write_run("c", []),
            ],
            "no truths": lambda: [write_run("a", some(9, truth=None))],
            "one": lambda: [write_run("a", [record(3)])],
        }[kind]()
        data = content_of(write_report(read_runs(folders), [0.0, 0.5], tmp_path / "out").read_text(encoding="utf-8"))
        assert len(data["lines"]) == {"empty": 0, "mixed norms": 2}.get(kind, 1)
        assert len(data["runs"]) == len(folders)
        if kind in ("empty", "mixed norms"):
            assert any("holds no records yet" in warning["words"] for warning in data["warnings"])
        if kind == "abstentions":
            assert data["lines"][0]["curves"]["radius"]["y"] == [0.0, 0.0]
        if kind == "no pictures":
            assert data["pictures"]["rule"].startswith("No pictures")

    def test_runs_on_different_data_are_refused_before_anything_is_written(
        self, some: Make, write_run: Make, tmp_path: Path
    ) -> None:
        folders = [write_run("a", some(3)), write_run("b", some(3), data="e" * 64)]
        with pytest.raises(RunError, match="a and b were certified on different data .* report them apart"):
            write_report(read_runs(folders), [0.0], tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_a_log_of_other_truths_is_refused(self, some: Make, write_run: Make, tmp_path: Path) -> None:
        folders = [write_run("a", some(3)), write_run("b", some(3, truth=0), data=None)]
        with pytest.raises(RunError, match="input 1 is of class 1 in a and of class 0 in b"):
            write_report(read_runs(folders), [0.0], tmp_path / "out")

    def test_a_run_twice_is_refused(self, some: Make, write_run: Make) -> None:
        folder = write_run("a", some(3))
        with pytest.raises(RunError, match="is given twice"):
            read_runs([folder, folder / "." / ".." / "a"])


class TestUnfair:
    def warnings(self, *folders: Path) -> str:
        found = content_of(pages.page(read_runs(folders), [0.0]))["warnings"]
        return "\n".join(one["words"] for one in found)

    def test_equal_runs_are_fair(self, some: Make, write_run: Make) -> None:
        assert self.warnings(write_run("a", some(5)), write_run("b", some(5))) == ""

    @pytest.mark.parametrize(
        ("changes", "settings", "words"),
        [
            ({"alpha": 0.01}, {}, "different alpha (0.001: a; 0.01: b)"),
            ({}, {"trials": 500}, "different trials (1000: a; 500: b)"),
            ({"soundness": Soundness.MEMORY}, {}, "different label (global: a; memory: b)"),
            ({"norm": 1.0}, {}, "different norm (l2: a; l1: b)"),
            ({"domain": "reals"}, {}, "different domain"),
            ({}, {"model": "x"}, f"different model ({'m' * 12}: a; x: b)"),
            (
                {},
                {"estimator": "sequential:rivals=runner_up"},
                "different estimator (fixed: a; sequential:rivals=runner_up: b)",
            ),
            ({}, {"select": 10}, "different select (100: a; 10: b)"),
            ({}, {"shared_noise": True}, "different shared noise (false: a; true: b)"),
            ({}, {"seed": 1}, "different seed (0: a; 1: b)"),
            ({}, {"precision": "bfloat16"}, "different precision (float32: a; bfloat16: b)"),
            ({}, {"own_randomness": True}, "different own randomness (none: a; true: b)"),
            ({}, {"estimator": "randomized"}, "different estimator (fixed: a; randomized: b)"),
            ({}, {"mystery": 3}, "different mystery (none: a; 3: b): nobody has said"),
            ({}, {"data": None}, "does not say on which data"),
        ],
    )
    def test_what_differs_is_said(
        self, changes: dict[str, Any], settings: dict[str, Any], words: str, some: Make, write_run: Make
    ) -> None:
        found = self.warnings(write_run("a", some(5)), write_run("b", some(5, **changes), **settings))
        assert words in found
        assert len(found.splitlines()) == 1

    @pytest.mark.parametrize(
        ("first", "second", "words"),
        [
            ({}, {"radii": [0.5]}, "different radii (all: a; 0.5: b)"),
            (
                {"estimator": "sequential:tolerance=0.02,rivals=rest"},
                {"estimator": "sequential:tolerance=0.1,rivals=rest"},
                "sequential:tolerance=0.1,rivals=rest: b",
            ),
            ({"estimator": "fixed"}, {"estimator": "fixed", "radii": [0.5]}, ""),  # nothing stops them
            (
                {},
                {"device": "cuda", "torch": "9", "runtime": "compiled", "law": "laplace", "scale": 2.0, "tuner": "t"},
                "",
            ),
        ],
    )
    def test_what_stops_the_votes(
        self, first: dict[str, Any], second: dict[str, Any], words: str, some: Make, write_run: Make
    ) -> None:
        given = {"estimator": "sequential"}
        found = self.warnings(*(write_run(n, some(5), **given | own) for n, own in (("a", first), ("b", second))))
        assert words in found
        assert len(found.splitlines()) == bool(words)

    def test_a_log_leaves_open_what_it_does_not_say(self, some: Make, write_run: Make, tmp_path: Path) -> None:
        log = tmp_path / "log.tsv"
        rows = "".join(f"{r.index}\t{r.truth}\t{r.truth}\t0.5\t1\t1.0\n" for r in some(5))
        log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n" + rows)
        import_log(log, tmp_path / "log", "cohen", Log(sigma=0.5, alpha=0.001, trials=1000))
        found = self.warnings(write_run("a", some(5)), tmp_path / "log")
        assert "log is a log, which does not say its estimator, radii" in found
        assert "different estimator" not in found
        assert "different trials" not in found

    def test_every_fact_of_a_run_is_declared(self, linear_model: nn.Module, tmp_path: Path) -> None:
        """What a new setting does to a comparison is said in facts.py, or where the setting is declared."""
        pixels = np.zeros((2, 1, 28, 28), dtype=np.uint8)
        smoother = sc.Smoother(linear_model, sc.Noise.isotropic("gaussian", 0.25, grid=1 / 255), estimate=200)
        run = sc.certify_all(smoother, ArrayDataset("dark", pixels), tmp_path / "run", memory=tmp_path / "run")
        other = sc.certify_all(smoother, ArrayDataset("dark", pixels), tmp_path / "other")
        recertify(other, tmp_path / "again", {"alpha": 0.01})
        for each in (run, other, tmp_path / "again"):
            with open_run(each) as store:
                configuration = store.facts()["configuration"]
            assert set(configuration) - set(FACTS) == set()
            assert all(FACTS[name].help for name in configuration)

    def test_votes_that_stopped_for_radii_are_not_the_whole_radius(
        self, linear_model: nn.Module, tmp_path: Path
    ) -> None:
        """Judged again for all radii, a run that stopped at one looks complete; its votes say that they are not."""
        pixels = np.random.default_rng(0).integers(0, 256, size=(6, 1, 28, 28), dtype=np.uint8)
        noise, dataset = sc.Noise.isotropic("gaussian", 0.25, grid=1 / 255), ArrayDataset("noise", pixels)
        for name, radii in (("full", ()), ("stopped", (0.1,))):
            smoother = sc.Smoother(linear_model, noise, estimate=3_000, radii=radii)
            sc.certify_all(smoother, dataset, tmp_path / name)
        recertify(tmp_path / "stopped", tmp_path / "again", {"radii": ()})
        found = self.warnings(tmp_path / "full", tmp_path / "again")
        words = "radii 0.1 decided, by sequential at alpha 0.001: again)"
        assert f"different voted (as they are judged: full; {words}" in found
        again = [record for run in read_runs([tmp_path / "again"]) for line in run.lines for record in line.records]
        assert {record.stopped for record in again} == {"radii 0.1 decided"}
        recertify(tmp_path / "again", tmp_path / "back", {"radii": (0.1,)})
        assert self.warnings(tmp_path / "stopped", tmp_path / "back") == ""

    def test_subsets_and_unfinished_runs(self, some: Make, write_run: Make, tmp_path: Path) -> None:
        folders = [write_run("a", some(5)), write_run("b", some(5)[:3])]
        assert "different subsets of the data (a: 5, b: 3; 3 in common)" in self.warnings(*folders)
        from smoothcert.store import SqliteStore

        with SqliteStore(folders[1]) as store:
            store.describe({"subset": list(range(5))})
        assert "b is not finished: 3 of 5 inputs" in self.warnings(*folders)


class TestPictures:
    def test_at_most_three_hundred_evenly_spaced(self, some: Make, write_run: Make) -> None:
        found = pictures_of(read_runs([write_run("a", some(700))]))
        shown = sorted(map(int, found["inputs"]))
        assert len(shown) == 300
        assert (shown[0], shown[-1]) == (0, 699)
        assert set(np.diff(shown)) <= {2, 3}
        assert found["rule"].startswith("300 of the 700 inputs")
        assert evenly([], 0) == []

    def test_a_budget_bounds_them(self, some: Make, write_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("smoothcert.report.pictures.BUDGET", 5_000)
        found = pictures_of(read_runs([write_run("a", some(50), maps=True)]))
        size = sum(map(len, found["inputs"].values())) + sum(len(one["picture"]) for one in found["scales"].values())
        assert 0 < size <= 5_000 < BUDGET

    def test_inputs_that_share_their_noise_share_its_picture(self, some: Make, write_run: Make) -> None:
        found = pictures_of(read_runs([write_run("a", some(40), maps=True)]))
        assert len(found["maps"]["a"]) == 40
        assert len(found["scales"]) == 16

    def test_a_scale_map_says_its_range_rounded_down(self) -> None:
        found = scale_map(np.array([[0.12345, 0.5], [0.25, 0.98765]]), (3, 2, 2))
        assert (found["low"], found["high"]) == ("0.123", "0.987")
        assert found["picture"].startswith("data:image/png;base64,")


class TestTables:
    def test_latex_and_csv(self) -> None:
        sheet = Sheet("a_b in %", ("x", "y & z"), (("1", "2"), ("3", "4")), ends=(0,))
        assert to_csv(sheet.header, sheet.rows) == b"x,y & z\n1,2\n3,4\n"
        text = to_latex(sheet).decode()
        assert r"\caption{a\_b in \%}" in text
        assert r"\textbf{y \& z}" in text
        assert "1 & 2 \\\\\n\\hline\n3 & 4" in text
        assert latex("50–60 %") == r"50--60 \%"


PROGRAM = """
import resource, sys, time
from pathlib import Path
from smoothcert.report.runs import read_runs
from smoothcert.report.write import write_report
began = time.perf_counter()
page = write_report(read_runs([sys.argv[1]]), [0.0, 0.5, 1.0], Path(sys.argv[2]))
# Not ru_maxrss: a child of a large process begins with its parent's.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
print(time.perf_counter() - began, int(peak) * 1024, page.stat().st_size)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_ten_thousand_records(some: Make, write_run: Make, tmp_path: Path) -> None:
    """At most 20 s of processor time and 1 GB, and a page of less than 5 MB, maps and pictures included."""
    looks = tuple((10 * look, 190 * look, *[0] * 8) for look in range(1, 22))
    folder = write_run(
        "a", some(10_000, selection=(10, 90, *[0] * 8), estimation=looks, estimation_invalid=(0,) * 21), maps=True
    )
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    _, memory, size = map(float, done.stdout.split())
    print(
        f"10 000 records: {spent:.1f} s of processor, {wall:.1f} s in all, {memory / 1e6:.0f} MB, page {size / 1e6:.2f} MB"
    )
    assert spent <= 20
    assert memory <= 1e9
    assert size < 5e6
