"""What every method of choosing noise must pass: its draws, its independence of the batch, its identity and its label."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert import seeds
from smoothcert.certificates import Soundness
from smoothcert.engine import Engine
from smoothcert.errors import SettingError
from smoothcert.identity import described, identity
from smoothcert.noise import Noise
from smoothcert.registry import parameters
from smoothcert.seeds import Stage
from smoothcert.smoother import Smoother
from smoothcert.testing.suite import Suite
from smoothcert.tuners import REGISTRY, Tuner

SHAPE, CLASSES = (1, 6, 6), 3


class TunerSuite(Suite):
    """For tuners of small pictures (1, 6, 6); members should be quick ones: few steps, few votes."""

    smoother_settings: dict[str, object] = {"estimate": 1_000, "select": 50, "engine": Engine(workers=1)}  # noqa: RUF012

    def smoother(self, member: Tuner) -> Smoother:
        """A linear classifier under Gaussian noise on the pixel grid."""
        with torch.random.fork_rng():
            torch.manual_seed(5)
            network = nn.Sequential(nn.Flatten(), nn.Linear(36, CLASSES)).eval()
        settings = dict(self.smoother_settings)
        return Smoother(network, Noise.isotropic("gaussian", 0.25, grid=1 / 255), tuner=member, **settings)  # type: ignore[arg-type]

    def inputs(self, number: int = 4) -> Tensor:
        """Pictures on the grid."""
        pixels = np.random.default_rng(3).integers(0, 256, size=(number, *SHAPE))
        return torch.from_numpy(pixels.astype(np.float32) / np.float32(255))

    def choose(self, member: Tuner, x: Tensor, indices: list[int]) -> list[Noise]:
        """The noise of each input."""
        smoother = self.smoother(member)
        noise = member.choose(smoother, x, smoother.noise, indices)
        return [noise.row(at, SHAPE, len(x)) for at in range(len(x))]

    def test_tuning_never_uses_a_certifying_draw(self, member: Tuner) -> None:
        """Every keyed draw is of stage TUNE and of an input of the batch."""
        with logged_keys() as keys:
            self.choose(member, self.inputs(2), [4, 9])
        assert {stage for _, stage in keys} <= {Stage.TUNE}, f"{member} draws from the stages {keys}"
        assert {index for index, _ in keys} <= {4, 9}, f"{member} draws with keys of other inputs: {keys}"

    def test_the_batch_does_not_matter(self, member: Tuner) -> None:
        """An input's noise is the same alone, in any company and after any use of the global generators."""
        together = self.choose(member, self.inputs(), [0, 1, 2, 3])
        torch.rand(3)
        for at in (2, 0):
            (alone,) = self.choose(member, self.inputs()[at : at + 1], [at])
            assert same_noise(alone, together[at]), f"{member} chooses other noise for an input that is alone"

    def test_the_label_is_honest(self, member: Tuner) -> None:
        """One that says it does not read the input chooses the same for any input; certificates say which it is."""
        smoother = self.smoother(member)
        (certificate,) = smoother.certify(self.inputs(1))
        expected = Soundness.FROZEN if member.reads_input else Soundness.GLOBAL
        assert certificate.soundness is expected
        if not member.reads_input:
            first, second = self.choose(member, self.inputs(2), [0, 1])
            assert same_noise(first, second), f"{member} says reads_input = False, but reads it"

    def test_the_noise_is_usable(self, member: Tuner) -> None:
        """Scales are finite, above zero and of an input's shape; the grid and the input are left alone."""
        x = self.inputs()
        before = x.clone()
        for noise in self.choose(member, x, [0, 1, 2, 3]):
            assert noise.grid == 1 / 255, f"{member} changes the grid"
            assert bool((noise.scale > 0).all()), f"{member} leaves a coordinate without noise"
            torch.broadcast_to(noise.scale, SHAPE), torch.broadcast_to(noise.loc, SHAPE)
        assert torch.equal(x, before), f"{member} changes the inputs"

    def test_the_classifier_is_left_alone(self, member: Tuner) -> None:
        """Weights, gradients and mode are as they were."""
        smoother = self.smoother(member)
        before = identity(smoother.model.model)
        member.choose(smoother, self.inputs(2), smoother.noise, [0, 1])
        assert identity(smoother.model.model) == before, f"{member} changes the classifier"
        assert all(value.grad is None for value in smoother.model.parameters()), f"{member} leaves gradients behind"

    def test_settings_are_part_of_its_identity(self, member: Tuner) -> None:
        """Another value of any parameter is another tuner."""
        for name in parameters(type(member)):
            for other in neighbours(member, name):
                assert described(other) != described(member), f"{name} is no part of the identity of {member}"

    def test_its_text_reads_back(self, member: Tuner) -> None:
        """As it would be written on the command line."""
        again = REGISTRY.make(str(member))
        assert described(again) == described(member)


def neighbours(member: Tuner, name: str) -> Iterator[Tuner]:
    """The same tuner with another value of one parameter, where numbers near by are allowed."""
    value = getattr(member, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    for near in (value + 1, value - 1, value * 1.25, value * 0.75):
        with suppress(SettingError):
            yield type(member)(**{key: getattr(member, key) for key in parameters(type(member))} | {name: near})


@contextmanager
def logged_keys() -> Iterator[set[tuple[int, Stage]]]:
    """The (input, stage) of every keyed draw that is made meanwhile."""
    keys: set[tuple[int, Stage]] = set()
    plain = seeds.entropy_for

    def logged(seed: int, index: int, stage: Stage, block: int, *child: int) -> np.random.SeedSequence:
        keys.add((index, stage))
        return plain(seed, index, stage, block, *child)

    with mock.patch.object(seeds, "entropy_for", logged):
        yield keys


def same_noise(one: Noise, other: Noise) -> bool:
    """Equal to the last bit."""
    scales = [torch.broadcast_to(noise.scale, SHAPE) for noise in (one, other)]
    locs = [torch.broadcast_to(noise.loc, SHAPE) for noise in (one, other)]
    return str(one.law) == str(other.law) and torch.equal(*scales) and torch.equal(*locs)
