"""Steps 1-6 in one call: the smoothed classifier, its predictions and its certificates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.bounds import check_alpha, leads, random_answers
from smoothcert.certificates import Ballot, Certificate, Soundness, conclude
from smoothcert.errors import InputError, SettingError
from smoothcert.maths import FloatArray
from smoothcert.models.adapters import as_classifier
from smoothcert.noise import Noise
from smoothcert.polling import Pollster, make_fixed
from smoothcert.radius import check_norm, check_trials
from smoothcert.seeds import Stage
from smoothcert.tuners.base import Tuner
from smoothcert.tuners.fixed import Fixed
from smoothcert.votes import Votes

FIRST_INPUTS = 10  # as many selections are looked at before the budget of a batch is spent


@dataclass(frozen=True, eq=False)
class Poll:
    """What was asked about one input and what the model answered: all that its certificate depends on."""

    index: int
    x: Tensor
    noise: Noise
    ballot: Ballot


class Smoother(nn.Module):
    """The classifier that answers what the base classifier most often answers under noise.

    >>> _ = torch.manual_seed(0)
    >>> smoothed = Smoother(nn.Linear(4, 3).eval(), Noise.isotropic("gaussian", sigma=0.1), estimate=2_000)
    >>> certificate, = smoothed.certify(torch.ones(1, 4))
    >>> certificate.soundness.value, certificate.bound.trials
    ('global', 2000)
    """

    def __init__(
        self,
        model: Callable[[Tensor], Any],
        noise: Noise,
        norm: float = 2,
        *,
        select: int = 100,
        estimate: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        block: int = 200,
        tuner: Tuner | None = None,
        device: torch.device | str = "cpu",
        forward_draws: int = 16,
    ) -> None:
        super().__init__()
        check_alpha(alpha)
        check_norm(norm)
        for name, value in {
            "select": select,
            "estimate": estimate,
            "block": block,
            "forward_draws": forward_draws,
        }.items():
            if value < 1:
                raise SettingError(f"{name}={value} must be at least 1")
        if seed < 0:
            raise SettingError(f"seed={seed} must not be negative")
        check_trials(estimate, alpha)
        self.model, self.noise, self.norm = as_classifier(model), noise, float(norm)
        self.select, self.estimate, self.alpha, self.seed, self.block = select, estimate, alpha, seed, block
        self.tuner = tuner or Fixed()
        self.device, self.forward_draws = torch.device(device), forward_draws
        self.to(self.device)

    @property
    def soundness(self) -> Soundness:
        """What the certificates of fixed noise, or of this tuner, are worth before a memory settles them."""
        return Soundness.FROZEN if self.tuner.reads_input else Soundness.GLOBAL

    def forward(self, x: Tensor) -> Tensor:
        """Class probabilities averaged over ``forward_draws`` noisy copies, differentiable in x: (batch, classes).

        The noise comes from torch's global generator, anew at every call, for code that attacks or trains the
        smoothed classifier; certificates never use it.
        """
        draws = (self.model(self.noise.noisy(x)).softmax(dim=-1) for _ in range(self.forward_draws))
        return torch.stack(list(draws)).mean(dim=0)

    def predict(self, x: Tensor, first_index: int = 0, *, votes: int | None = None) -> list[int | None]:
        """The smoothed classifier's answer per input, or None where the votes (``select`` by default) cannot tell.

        Each answer is wrong with probability at most alpha (Cohen et al. 2019, Predict).
        """
        answers: list[int | None] = []
        for index, row, noise in self._prepared(x, range(first_index, first_index + len(x))):
            table = self._pollster.poll(row, noise, index, Stage.PREDICT, votes or self.select)
            answers.append(int(table.leaders()[0]) if leads(table, self.alpha)[0] else None)
        return answers

    def certify(self, x: Tensor, first_index: int = 0) -> list[Certificate]:
        """One Certificate per input, each wrong with probability at most alpha.

        The input's index keys its noise: give separate calls separate ranges, or they share draws.
        """
        return [self.conclude(poll) for poll in self.polls(x, range(first_index, first_index + len(x)))]

    def polls(self, x: Tensor, indices: Sequence[int], truths: Sequence[int | None] | None = None) -> Iterator[Poll]:
        """The votes on each input, one after the other; truths serve only to warn of a network that guesses."""
        prepared = list(self._prepared(x, indices))
        early = [self._selection(*item) for item in prepared[:FIRST_INPUTS]]
        self._warn_of_guessing(early, list(truths or [None] * len(prepared))[: len(early)])
        for position, (index, row, noise) in enumerate(prepared):
            selection = early[position] if position < len(early) else self._selection(index, row, noise)
            estimation = self._pollster.poll(row, noise, index, Stage.ESTIMATE, self.estimate)
            yield Poll(index, row, noise, Ballot(selection, estimation))

    def conclude(self, poll: Poll) -> Certificate:
        """The certificate that the votes on one input support."""
        return conclude(
            poll.ballot,
            law=poll.noise.law,
            center=poll.noise.center_of(poll.x),
            scale=poll.noise.scale.cpu().numpy(),
            norm=self.norm,
            alpha=self.alpha,
            soundness=Soundness.FROZEN if self.noise.per_input(poll.x.ndim) else self.soundness,
        )

    @property
    def _pollster(self) -> Pollster:
        return Pollster(self.model, seed=self.seed, block=self.block, device=self.device)

    def _selection(self, index: int, row: Tensor, noise: Noise) -> Votes:
        return self._pollster.poll(row, noise, index, Stage.SELECT, self.select)

    def _prepared(self, x: Tensor, indices: Sequence[int]) -> Iterator[tuple[int, Tensor, Noise]]:
        """Each input with its index and its noise, after all checks."""
        x = checked(x)
        make_fixed(self.model)
        noise = self.tuner.choose(self, x, self.noise, indices)
        for position, index in enumerate(indices):
            yield index, x[position], noise.row(position, tuple(x.shape[1:]), len(x))

    def _warn_of_guessing(self, selection: list[Votes], truths: list[int | None]) -> None:
        reason = random_answers(selection, truths) if len(selection) == FIRST_INPUTS else None
        if reason:
            warnings.warn(
                f"the network seems to answer at random under this noise ({self.noise.law}): {reason}. Most "
                "certificates will be abstentions or wrong; train it with this noise (smoothcert train), or use a smaller sigma",
                stacklevel=3,
            )


def checked(x: Tensor | FloatArray) -> Tensor:
    """The batch as a float32 tensor (batch, *event), refused when it is empty of axes, not numbers, or not finite."""
    tensor = torch.as_tensor(x)
    if tensor.ndim < 2:
        raise InputError(
            f"the input has shape {tuple(tensor.shape)}; give a batch, (inputs, …), even of one input: x[None]"
        )
    if tensor.dtype == torch.uint8:
        raise InputError("the input has dtype uint8; give pixels as floats in [0, 1]: x / 255")
    tensor = tensor.float()
    bad = (~tensor.flatten(1).isfinite()).any(dim=1).nonzero().flatten().tolist()
    if bad:
        raise InputError(
            f"inputs at positions {bad[:5]} hold NaN or infinite values; every coordinate must be a finite number"
        )
    return tensor
