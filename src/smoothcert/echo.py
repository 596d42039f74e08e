"""Does a certificate speak of its input? Its echo: how often other inputs are answered its label under its noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothcert.asks import Turns
from smoothcert.data.base import Dataset
from smoothcert.execution.counts import Mixed
from smoothcert.execution.driver import Driver
from smoothcert.maths import IntArray
from smoothcert.noise import Noise
from smoothcert.seeds import Stage, entropy_for

POOL = 64  # inputs of the data set that may become references
NUMBER, VOTES = 8, 25  # references of a certificate, and votes on each
BOUND, HELP = 0.1, "how often other inputs may be answered the same; 1 switches it off"  # of tuners


@dataclass(frozen=True, eq=False)
class References:
    """Inputs of the whole data set, chosen by key, and what the classifier answers of each under the noise given.

    They depend on the run alone, and the choice among them on the run, the input and the label, so an echo is the same
    whatever part of the data is certified, in whatever order.
    """

    seed: int
    indices: IntArray
    inputs: Tensor  # (references, *event)
    answers: IntArray

    @classmethod
    def of(cls, dataset: Dataset, driver: Driver, noise: Noise) -> References:
        """The references of a run, each asked a few times."""
        number, pollster = len(dataset), driver.caster.pollster
        chosen = _keyed(pollster.seed, number).choice(number, size=min(POOL, number), replace=False)
        inputs = torch.from_numpy(dataset.inputs(chosen.tolist()))
        finite = inputs.flatten(1).isfinite().all(dim=1)
        inputs, chosen = inputs[finite].to(pollster.device), chosen[finite.numpy()]
        if not len(inputs):
            return cls(pollster.seed, chosen, inputs, chosen)
        # Keyed by an index that no input has.
        (count,) = driver.run([mixed(noise, inputs, number, len(inputs) * VOTES, pollster.block)])
        assert isinstance(count, Mixed)
        return cls(pollster.seed, chosen, inputs, count.table[:, :-1].argmax(axis=1))

    def besides(self, index: int, label: int, *, tuning: bool = False) -> Tensor:
        """At most NUMBER other inputs that are not answered this label, or none; to tune with: others than to measure with."""
        able = np.flatnonzero((self.answers != label) & (self.indices != index))
        order = _keyed(self.seed, index).permutation(able)
        measuring, rest = order[::2], order[1::2]
        return self.inputs[(rest if tuning and len(rest) else measuring)[:NUMBER]]


def beside(references: References | None, x: Tensor, noise: Noise, index: int, label: int, *, tuning: bool) -> Tensor:
    """What a certificate of x is compared with: references, or one grey input where there are none."""
    found = None if references is None else references.besides(index, label, tuning=tuning)
    return grey(x, noise) if found is None or not len(found) else found


def grey(x: Tensor, noise: Noise) -> Tensor:
    """One input like x that shows nothing: 1/2 everywhere, or the grid point next to it, (1, *event).

    >>> grey(torch.zeros(2), Noise("gaussian", 1.0, grid=1 / 4))
    tensor([[0.5000, 0.5000]])
    """
    half = 0.5 if noise.grid is None else round(0.5 * noise.levels) / noise.levels
    return torch.full_like(x, half)[None]


def mixed(noise: Noise, inputs: Tensor, index: int, votes: int, block: int, stage: Stage = Stage.ECHO) -> Mixed:
    """The count of so many keyed votes on these inputs together."""
    return Mixed(index, stage, Turns(inputs, noise), np.array([votes]), block)


def _keyed(seed: int, index: int) -> np.random.Generator:
    """What chooses references; the child key is no block's."""
    return np.random.Generator(np.random.SFC64(entropy_for(seed, index, Stage.ECHO, 0, 1)))
