"""The echo of a certificate: what it measures, by which votes, on whom; and that it depends on the run and the input alone."""

import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.data import ArrayDataset, Dataset
from smoothcert.echo import NUMBER, POOL, VOTES, References, grey, mixed
from smoothcert.execution.counts import Mixed
from smoothcert.records.record import Record
from smoothcert.run import record_poll
from smoothcert.seeds import Stage, draws_for
from smoothcert.smoother import Batch
from smoothcert.store import RESULTS, SqliteStore, open_run
from smoothcert.tuners import tuner_named


def records(run: Path) -> list[Record]:
    with open_run(run) as store:
        return list(store.records())


def threshold(batch: Tensor) -> Tensor:
    """Class 1 where the first coordinate is above zero."""
    return torch.stack([-batch[:, 0], batch[:, 0]], dim=1)


@pytest.fixture
def line() -> Dataset:
    """Points at ±1, on either side of the threshold in equal numbers, in the plane."""
    return ArrayDataset("line", np.array([[(-1.0) ** n, 0.0] for n in range(40)], dtype=np.float32))


class TestWhatItMeasures:
    @pytest.mark.parametrize(("sigma", "block"), [(0.5, 200), (1.0, 200), (1.2, 64)])
    def test_the_share_is_the_probability(self, line: Dataset, tmp_path: Path, sigma: float, block: int) -> None:
        """A reference at -1 is answered 1 with probability Φ(-1/sigma).

        All certificates have votes of their own, so their sum is binomial; outside these quantiles in one of 2000 runs.
        """
        smoother = sc.Smoother(threshold, sc.Noise("gaussian", sigma), estimate=2_000, engine=sc.Engine(block=block))
        found = records(sc.certify_all(smoother, line, tmp_path / "run"))
        assert all(record.label is not None for record in found)
        number = NUMBER * VOTES * len(found)
        total = sum(record.echo * NUMBER * VOTES for record in found if record.echo is not None)
        low, high = binom.ppf([0.00025, 0.99975], number, 0.5 * math.erfc(1 / sigma / math.sqrt(2)))
        assert low <= total <= high

    def test_it_is_the_share_of_these_very_votes(self, line: Dataset, tmp_path: Path) -> None:
        """Recomputed row by row: noise of stage ECHO keyed by the input, references in turn, nothing in blocks."""
        smoother = sc.Smoother(threshold, sc.Noise("gaussian", 1.0), estimate=2_000, seed=3)
        found = records(sc.certify_all(smoother, line, tmp_path / "run", indices=[0, 7, 21]))
        assert smoother.references is not None
        for record in found:
            others = smoother.references.besides(record.index, int(record.label or 0))
            draws = draws_for(3, record.index, Stage.ECHO, 0, dtype=torch.float64).normal((200, 2)).float()
            copies = torch.stack([others[row % NUMBER] + draws[row] for row in range(200)])
            assert record.echo == float((threshold(copies).argmax(dim=1) == record.label).double().mean())

    def test_a_constant_classifier_echoes_from_grey(self, line: Dataset, tmp_path: Path) -> None:
        """Nobody is answered another label, so a grey input is asked, and says the same."""

        def constant(batch: Tensor) -> Tensor:
            return torch.tensor([0.0, 1.0]).expand(len(batch), 2) + 0 * batch[:, :1]

        smoother = sc.Smoother(constant, sc.Noise("gaussian", 1.0), estimate=1_000)
        found = records(sc.certify_all(smoother, line, tmp_path / "run", indices=[0, 1]))
        assert [record.echo for record in found] == [1.0, 1.0]
        x, noise = torch.zeros(1, 3), sc.Noise("gaussian", 1.0, grid=1 / 255)
        assert grey(x, noise).tolist() == [[[pytest.approx(128 / 255)] * 3]]
        noise.placer(grey(x, noise)[0])  # on the grid, so not refused

    def test_an_abstention_has_none_and_a_tensor_no_references(self, line: Dataset, tmp_path: Path) -> None:
        def chance(batch: Tensor) -> Tensor:
            """Half of the noisy copies go either way, wherever they are."""
            bits = (batch[:, :1] * 1000).floor() % 2
            return torch.cat([bits, 1 - bits], dim=1)

        smoother = sc.Smoother(chance, sc.Noise("gaussian", 1.0), estimate=1_000)
        (record,) = records(sc.certify_all(smoother, line, tmp_path / "run", indices=[0]))
        assert (record.label, record.echo) == (None, None)
        (poll,) = sc.Smoother(threshold, sc.Noise("gaussian", 1.0), estimate=1_000).polls(
            [Batch(torch.ones(1, 2), [0])]
        )
        assert poll.echo is None

    def test_what_a_memory_answers_instead_has_none(self, line: Dataset, tmp_path: Path) -> None:
        smoother = sc.Smoother(threshold, sc.Noise("gaussian", 1.0), estimate=1_000)
        smoother.refer_to(line)
        (poll,) = smoother.polls([Batch(torch.from_numpy(line.inputs([0])), [0])])
        certificate = smoother.conclude(poll)
        with SqliteStore(tmp_path) as store:
            assert record_poll(smoother, poll, certificate, line, store).echo == poll.echo is not None
            settled = replace(certificate, label=1 - int(certificate.label or 0))
            assert record_poll(smoother, poll, settled, line, store).echo is None


class TestReferences:
    @pytest.fixture
    def smoother(self, line: Dataset) -> sc.Smoother:
        smoother = sc.Smoother(threshold, sc.Noise("gaussian", 0.5), estimate=1_000)
        smoother.refer_to(line)
        return smoother

    def test_they_are_others_with_another_answer(self, smoother: sc.Smoother, line: Dataset) -> None:
        references = smoother.references
        assert references is not None
        assert len(references.answers) == len(line)
        np.testing.assert_array_equal(references.answers, (references.inputs[:, 0] > 0).numpy())
        for index in range(len(line)):
            for label in (0, 1):
                chosen = references.besides(index, label)
                assert len(chosen) == NUMBER
                assert ((chosen[:, 0] > 0).long() != label).all()

    def test_an_input_is_not_its_own_reference(self) -> None:
        references = References(0, np.arange(3), torch.arange(3.0)[:, None], np.zeros(3, dtype=int))
        for index in range(3):
            assert index not in references.besides(index, 1).flatten().tolist()

    def test_who_tunes_and_who_measures_differ(self, smoother: sc.Smoother) -> None:
        spread = References(0, np.arange(40), torch.arange(40.0)[:, None], np.arange(40) % 2)
        measured, tuned = (spread.besides(5, 1, tuning=tuning).flatten().tolist() for tuning in (False, True))
        assert len(measured) == len(tuned) == NUMBER
        assert not set(measured) & set(tuned)
        assert measured != spread.besides(6, 1).flatten().tolist()

    def test_a_large_data_set_gives_a_keyed_sample(self) -> None:
        values = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
        values[17] = np.nan  # an input that nobody may be compared with
        found = {}
        for seed in (0, 0, 1):
            smoother = sc.Smoother(threshold, sc.Noise("gaussian", 0.5), seed=seed)
            smoother.refer_to(ArrayDataset("many", values))
            assert smoother.references is not None
            assert POOL - 1 <= len(smoother.references.indices) <= POOL
            assert 17 not in smoother.references.indices
            assert found.setdefault(seed, smoother.references.indices.tolist()) == smoother.references.indices.tolist()
        assert found[0] != found[1]

    @pytest.mark.parametrize("block", [1, 7, 64, 200, 300])
    def test_every_reference_has_its_votes_whatever_the_block(self, block: int) -> None:
        """Points too far from the threshold for the noise: each is answered by its sign, VOTES times."""
        smoother = sc.Smoother(threshold, sc.Noise("gaussian", 0.01), engine=sc.Engine(block=block))
        points = torch.tensor([[(-1.0) ** (n // 3), 0.0] for n in range(NUMBER)])
        (count,) = smoother.driver.run([mixed(smoother.noise, points, 0, NUMBER * VOTES, block)])
        assert isinstance(count, Mixed)
        expected = [[0, VOTES, 0] if point[0] > 0 else [VOTES, 0, 0] for point in points]
        assert count.table.tolist() == expected


@pytest.fixture(scope="module")
def images() -> Dataset:
    """Twelve random 8-bit images."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(12, 1, 28, 28), dtype=np.uint8)
    return ArrayDataset("noise", pixels, np.arange(12) % 2, classes=10)


def bodies(run: Path) -> list[str]:
    with sqlite3.connect(f"file:{run / RESULTS}?mode=ro", uri=True) as db:
        return [body for (body,) in db.execute("SELECT body FROM records ORDER BY idx")]


class TestSameBytes:
    @pytest.mark.parametrize("method", ["fixed", "data_dependent"])
    def test_for_any_rows_workers_parts_and_order(
        self, linear_model: nn.Module, images: Dataset, tmp_path: Path, method: str
    ) -> None:
        def certify(name: str, **settings: object) -> list[str]:
            noise = sc.Noise.isotropic("gaussian", 0.25, grid=1 / 255)
            tuner = tuner_named(method)
            workers = settings.pop("workers", 1)
            smoother = sc.Smoother(
                linear_model, noise, estimate=400, engine=sc.Engine(block=64, workers=workers), tuner=tuner
            )  # type: ignore[arg-type]
            return bodies(sc.certify_all(smoother, images, tmp_path / name, **settings))  # type: ignore[arg-type]

        whole = certify("whole", workers=2)
        assert certify("one by one", rows=1) == whole
        certify("parts", indices=[7, 3], workers=3)
        certify("parts", indices=[11, 0, 3])
        assert certify("parts", rows=5) == whole
        assert any('"echo":0' in body for body in whole)
