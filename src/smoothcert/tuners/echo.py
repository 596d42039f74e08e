"""Noise under which the answer still depends on the input: the constraint that tuners keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.asks import tally
from smoothcert.echo import NUMBER, VOTES, beside
from smoothcert.tuners.subject import Mirrored, Subject


@dataclass(frozen=True, eq=False)
class Quiet:
    """Which scales are taken: those under which references get the label no more often than allowed.

    Allowed is the bound, or what the given noise does already. Votes on references use the tuning draws that compare the
    scales, and other references than those that measure the echo of the certificate.
    """

    subject: Subject
    label: int
    drawn: Tensor
    others: Tensor  # the references, which get the draws by turns
    allowed: float

    @classmethod
    def of(cls, subject: Subject, label: int, draws: Sequence[Mirrored], bound: float) -> Quiet:
        """The constraint on the scales of one input; a bound of one or more asks nothing."""
        references = subject.smoother.references
        others = beside(references, subject.x, subject.start, subject.index, label, tuning=True)
        number = NUMBER * VOTES
        drawn = torch.cat([next(each.split(number)) for each in draws])[:number]
        free = cls(subject, label, drawn, others, bound)
        return free if bound >= 1 else cls(subject, label, drawn, others, max(bound, free.echo(subject.start.scale)))

    def echo(self, scale: Tensor) -> float:
        """The share of the votes on references that are for the label."""
        answers = self.subject.answers(scale, self.drawn, at=self.others)
        return float(tally(answers)[self.label]) / len(self.drawn)

    def holds(self, scale: Tensor) -> bool:
        """May this scale be taken?"""
        return self.allowed >= 1 or self.echo(scale) <= self.allowed

    def beyond(self, scale: Tensor, drawn: Tensor) -> Tensor:
        """By how much the label's mean probability on references is above what is allowed, differentiable in the scale."""
        logits = self.subject.logits(scale, drawn, at=self.others)
        return torch.relu(logits.softmax(dim=1)[:, self.label].double().mean() - self.allowed)

    def towards(self, start: Tensor, end: Tensor, halvings: int = 4) -> Tensor:
        """The farthest scale on the way, in logarithms, that may be taken, by so many halvings of it."""
        if self.holds(end):
            return end
        near, far = 0.0, 1.0
        for _ in range(halvings):
            middle = (near + far) / 2
            near, far = (middle, far) if self.holds(start * (end / start) ** middle) else (near, middle)
        return start * (end / start) ** near
