"""Tuners keep noise under which the answer still depends on the input."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import smoothcert as sc
from smoothcert.data import ArrayDataset, Dataset
from smoothcert.noise import Noise
from smoothcert.seeds import TorchDraws
from smoothcert.smoother import Smoother
from smoothcert.store import open_run
from smoothcert.tuners import Ancer, DataDependent, HillClimb, Tuner
from smoothcert.tuners.echo import Quiet
from smoothcert.tuners.gap import Gap
from smoothcert.tuners.subject import Phase, Subject

DIM = 6
LOOSE: dict[str, dict[str, float]] = {
    "data_dependent": {"largest": 16},
    "ancer": {"largest": 16, "steps": 60, "draws": 32, "votes": 400},
    "hill_climb": {"most": 16},
}
KINDS: dict[str, type[Tuner]] = {"data_dependent": DataDependent, "ancer": Ancer, "hill_climb": HillClimb}


def saturating(batch: Tensor) -> Tensor:
    """By the sign of the first coordinate; but class 1 whatever it is, once another coordinate is far from zero."""
    far = torch.relu(batch[:, 1:].abs().amax(dim=1) - 1.5)
    margin = 2 * batch[:, 0] + 8 * far
    return torch.stack([-margin, margin], dim=1)


@pytest.fixture(scope="module")
def points() -> Dataset:
    """40 points, at ±4 in the first coordinate."""
    values = 0.1 * np.random.default_rng(0).normal(size=(40, DIM)).astype(np.float32)
    values[:, 0] = 4.0 * (-1.0) ** np.arange(40)
    return ArrayDataset("points", values, 1 - np.arange(40) % 2)


def true_echo(noise: Noise) -> float:
    """How often the point at -4 is answered 1 under this noise, by 20 000 draws: within 0.02 but once in 10⁸."""
    x = torch.zeros(DIM)
    x[0] = -4.0
    draws = TorchDraws(torch.Generator().manual_seed(1), torch.float32, "cpu")
    return float(saturating(noise.copies(x, 20_000, draws)).argmax(dim=1).double().mean())


@pytest.mark.parametrize("name", list(KINDS))
def test_noise_that_drowns_the_input_is_not_taken(name: str, points: Dataset) -> None:
    """Unbounded, each of them goes where class 1 is answered of anything; bounded, no farther than the bound says.

    200 votes decide, and the best of several scales is taken: 0.2 is more than four standard deviations beyond 0.1.
    """
    x = torch.from_numpy(points.inputs([0, 2, 4]))
    found = {}
    for bound in (0.1, 1.0):
        tuner = KINDS[name](**LOOSE[name], echo=bound)
        smoother = Smoother(saturating, Noise("gaussian", 0.7), estimate=10_000, tuner=tuner)
        smoother.refer_to(points)
        noise = tuner.choose(smoother, x, smoother.noise, [0, 2, 4])
        found[bound] = [noise.row(at, (DIM,), 3) for at in range(3)]
    assert min(map(true_echo, found[1.0])) > 0.6
    assert max(map(true_echo, found[0.1])) < 0.2
    # What is left is more than the noise that was given.
    assert min(float(noise.scale.double().log().mean().exp()) for noise in found[0.1]) > 0.7


def test_a_run_says_how_much_is_left(points: Dataset, tmp_path: Path) -> None:
    """Through certify_all the references are of the data set, and what others measure is below one half."""
    for bound in (0.1, 1.0):
        tuner = DataDependent(largest=16, echo=bound)
        smoother = Smoother(saturating, Noise("gaussian", 0.7), estimate=2_000, tuner=tuner)
        sc.certify_all(smoother, points, tmp_path / str(bound), indices=range(0, 12, 2))
        with open_run(tmp_path / str(bound)) as store:
            echoes = [record.echo for record in store.records()]
        assert len(echoes) == 6
        assert all(echo is not None and (echo >= 0.5) == (bound == 1.0) for echo in echoes)


def asked(bound: float, *, answer: int) -> tuple[Subject, Quiet]:
    """The constraint on one input, of a classifier that answers a grey input so; no references are given."""

    def by_grey(batch: Tensor) -> Tensor:
        logits = saturating(batch - 0.5 + (1.0 if answer else -1.0) * torch.eye(DIM)[0])
        return logits

    x, noise = torch.full((DIM,), 2.0), Noise("gaussian", 0.3)
    smoother = Smoother(by_grey, noise)
    subject = Subject(smoother, 0, x, noise, Gap.of(noise.law, 2, DIM))
    return subject, Quiet.of(subject, 1, [subject.mirrored(Phase.CHECK, 0, 200)], bound)


class TestQuiet:
    def test_without_references_a_grey_input_is_asked(self) -> None:
        _, quiet = asked(0.1, answer=0)
        assert quiet.allowed == 0.1
        assert quiet.echo(torch.tensor(0.3)) < 0.01
        assert quiet.holds(torch.tensor(0.3))
        assert not quiet.holds(torch.tensor(8.0))

    def test_what_the_given_noise_says_is_allowed(self) -> None:
        """The grey input gets the label under the given noise already: it can tell nothing, and forbids nothing."""
        _, quiet = asked(0.1, answer=1)
        assert quiet.allowed > 0.99
        assert quiet.holds(torch.tensor(0.3))

    def test_a_bound_of_one_asks_nothing(self) -> None:
        subject, quiet = asked(1.0, answer=0)
        calls: list[int] = []
        subject.smoother.model.register_forward_hook(lambda *_: calls.append(1))
        assert quiet.holds(torch.tensor(8.0))
        assert quiet.towards(torch.tensor(0.3), torch.tensor(8.0)) == 8.0
        assert calls == []

    def test_as_much_of_the_way_is_gone_as_may_be(self) -> None:
        _, quiet = asked(0.1, answer=0)
        reached = quiet.towards(torch.tensor(0.3), torch.tensor(30.0), halvings=10)
        assert quiet.holds(reached)
        assert not quiet.holds(1.02 * reached)
        assert quiet.towards(torch.tensor(0.3), torch.tensor(0.4)) == torch.tensor(0.4)
