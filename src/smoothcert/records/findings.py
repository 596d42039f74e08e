"""What came of attacking a certificate: one flat, exact row per certificate and multiple of its radius."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc

from smoothcert.certificates import Soundness
from smoothcert.maths import FloatArray

SHARED_RISK = 0.05


@dataclass(frozen=True)
class Attempt:
    """One perturbation, judged: p of the label and of its rival at the point, from votes that did not choose it.

    votes = 0: a memory answered. The rival after the last class stands for answers that are not a number.
    """

    attack: str
    gauge: float  # of the perturbation, in units of scale
    rival: int
    p_label: float
    p_rival: float
    votes: int
    violated: bool

    @property
    def margin(self) -> float:
        """By how much the label leads; negative where the rival does."""
        return self.p_label - self.p_rival


@dataclass(frozen=True, eq=False)
class Finding:
    """All attempts on one certificate at ``times`` its radius, and the perturbation that came out worst.

    Violated is said with probability at most alpha if the label leads everywhere in the region.
    """

    index: int
    label: int | None  # None: an interval of a number was attacked
    soundness: Soundness
    times: float
    radius: float  # of the region attacked, in units of scale
    norm: float
    certificate_alpha: float
    alpha: float
    attempts: tuple[Attempt, ...]
    offset: FloatArray  # of the worst attempt
    shared_noise: bool  # were the votes of the certificates those of one another?

    @property
    def worst(self) -> Attempt:
        """The violation nearest to the input, or else the attempt with the smallest margin."""
        return worst_of(self.attempts)

    @property
    def violated(self) -> bool:
        """Was the certificate broken?"""
        return self.worst.violated

    @property
    def contradicted(self) -> bool:
        """Did a memory answer otherwise? Look-ups do not err, so chance allows for none."""
        return any(attempt.violated and attempt.votes == 0 for attempt in self.attempts)

    @property
    def chance(self) -> float:
        """How probable it is that a sound certificate is violated: its alpha (none through a memory), and the verdict's."""
        return self.alpha + (0.0 if self.soundness is Soundness.MEMORY else self.certificate_alpha)

    def to_json(self, offset: str) -> str:
        """One line of text; offset is the address of the array."""
        row = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        row |= {"norm": str(self.norm), "offset": offset, "attempts": [dataclasses.asdict(a) for a in self.attempts]}
        return json.dumps(row, allow_nan=False, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, get: Callable[[str], FloatArray]) -> Finding:
        """The finding back, exactly; get reads an array by its address."""
        row = json.loads(text)
        row |= {"norm": float(row["norm"]), "soundness": Soundness(row["soundness"]), "offset": get(row["offset"])}
        return cls(**row | {"attempts": tuple(Attempt(**each) for each in row["attempts"])})


def worst_of(attempts: Sequence[Attempt]) -> Attempt:
    """The nearest violation, or else the smallest margin."""
    return min(attempts, key=lambda a: (not a.violated, a.gauge if a.violated else a.margin))


def risk(findings: Sequence[Finding]) -> float:
    """With what probability, at most, more than the allowance are violated although all is sound.

    Own noise: the probability that a single one is. Shared noise: 0.05, since all may be wrong at once when one is, and at
    the smaller probability no number of them would be too many.
    """
    shared = any(finding.shared_noise for finding in findings)
    return SHARED_RISK if shared else max(finding.chance for finding in findings)


def allowance(findings: Sequence[Finding]) -> int:
    """How many of these may be violated by chance: more are, with probability ``risk`` at most.

    Votes on noise of their own are independent, and the number is binomial. With shared noise nothing is known of the
    dependence but the mean, n·chance, and Markov's inequality holds: P(more than k) <= n·chance/(k + 1).
    """
    if not findings:
        return 0
    number, chance = np.arange(len(findings)), max(finding.chance for finding in findings)
    if any(finding.shared_noise for finding in findings):
        above = len(findings) * chance / (number + 1)
    else:
        above = bdtrc(number, len(findings), chance)  # P(more than k), k = 0, 1, …
    return int(np.argmax(np.append(above, 0.0) <= risk(findings) * (1 + 1e-9)))
