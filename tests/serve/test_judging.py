"""What a look is judged by, while workers go on with the same input."""

from __future__ import annotations

import torch
from tests.serve.conftest import at, smoother_with

from smoothcert.execution.counts import Count
from smoothcert.smoother import Smoother
from smoothcert.votes import Votes


class Meanwhile(float):
    """Seconds that are added up while a worker finishes the count."""

    finish = staticmethod(lambda: None)

    def __radd__(self, other: float) -> float:
        self.finish()
        return other + float(self)


def counted(smoother: Smoother, count: Count) -> None:
    while not count.done:
        ask = count.take(1, shared=False)
        count.add(ask.first, smoother.cast(ask).tallies, 0.0)


def test_a_look_is_judged_although_the_last_vote_is_counted_meanwhile() -> None:
    """A worker files the finished count under the input at the moment at which an earlier look is summed up."""
    smoother = smoother_with()
    selection, poll = smoother.inquiry.begin(torch.tensor(at(1.0), dtype=torch.float32), 7)
    counted(smoother, selection)
    estimation = selection.then(selection)
    counted(smoother, estimation)
    votes = estimation.votes()
    early = Votes(votes.counts[:, :1], votes.invalid[:, :1])
    selection.seconds = Meanwhile(1.0)
    selection.seconds.finish = lambda: estimation.then(estimation)
    assert poll(early).seconds >= 0.5  # two workers took a second
    assert smoother.conclude(poll(early)).bound.trials == 100
