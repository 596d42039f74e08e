"""Step 3: from votes to a bound on the probability that the class wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtr

from smoothcert.errors import SettingError
from smoothcert.votes import Votes


@dataclass(frozen=True)
class Bound:
    """P(the class wins a vote) >= lower (and any rival <= upper), except with probability alpha."""

    lower: float
    alpha: float
    trials: int
    upper: float | None = None

    def __post_init__(self) -> None:
        if (self.alpha == 0) != isinstance(self, Counted):
            raise SettingError(
                f"alpha={self.alpha} of a {type(self).__name__}: it is 0 where all views were counted, and only there"
            )

    @property
    def rival(self) -> float:
        """What no rival exceeds: the reported upper bound, or all that the class left."""
        return 1.0 - self.lower if self.upper is None else self.upper


@dataclass(frozen=True)
class Counted(Bound):
    """All views were asked: the class won exactly the share ``lower`` of them and its best rival ``upper``; alpha is 0.

    No other bound may have that alpha, so that nothing that was sampled can claim it.
    """

    @classmethod
    def of(cls, counts: Sequence[int], trials: int, label: int) -> Counted:
        """What the votes of all views say of a class; those that abstained are among the trials only."""
        rival = max(number for each, number in enumerate(counts) if each != label)
        return cls(counts[label] / trials, 0.0, trials, rival / trials)


def bound_of(lower: float, alpha: float, trials: int, upper: float | None = None) -> Bound:
    """The bound that a record holds; alpha is 0 in those of complete votes alone."""
    return (Bound if alpha else Counted)(lower, alpha, trials, upper)


def check_alpha(alpha: float) -> None:
    """alpha is a probability of error, in (0, 1/2)."""
    if not 0.0 < alpha < 0.5:
        raise SettingError(
            f"alpha={alpha} must lie strictly between 0 and 0.5: it is the probability that a certificate "
            "is wrong; the usual value is 0.001"
        )


def leads(votes: Votes, alpha: float) -> list[bool]:
    """Is the leading class the most probable one, except with probability alpha? (Hung and Fithian 2019.)

    A two-sided binomial test between the top two counts; no valid vote at all decides nothing.
    """

    def decided(first: int, second: int) -> bool:
        return first > second and bool(2 * bdtr(second, first + second, 0.5) <= alpha)

    return [decided(int(first), int(second)) for first, second in zip(*votes.top_two(), strict=True)]


def random_answers(selection: Sequence[Votes], truths: Sequence[int | None], half: float = 0.5) -> str | None:
    """Why the classifier seems to answer at random under this noise, by its selection votes; None if it does not.

    Advice, not a test: a leading class that rarely has half of the votes cannot be certified, and leaders that are
    right no more often than chance, or one and the same for all, come from a network that never saw such noise. ``half``
    is less where votes are counted: a leader with few votes may still be far ahead of its rivals.
    """
    classes = selection[0].counts.shape[-1]
    leaders = [int(votes.leaders()[0]) for votes in selection]
    share = sum(int(v.top_two()[0][0]) / int(v.trials[0, -1]) for v in selection) / len(selection)
    if share < max(half, 1 / classes + 0.1):
        return (
            f"the leading class gets {share:.0%} of the votes on average over {len(selection)} inputs "
            f"(chance: {1 / classes:.0%})"
        )
    known = [(leader, truth) for leader, truth in zip(leaders, truths, strict=True) if truth is not None]
    right = sum(leader == truth for leader, truth in known)
    if len(known) >= 10 and len({truth for _, truth in known}) >= 3 and right <= len(known) * max(1 / classes, 0.2):
        return (
            f"the leading class is right on {right} of the first {len(known)} inputs "
            f"(answers given: {sorted(set(leaders))})"
        )
    return None
