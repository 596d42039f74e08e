"""Try to break certificates: every attack searches, fresh votes judge what it found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from smoothcert.attacks import ATTACKS, DEFAULT, Attack, attack_named
from smoothcert.attacks.numbers import sides
from smoothcert.attacks.steps import judge_cascade
from smoothcert.attacks.verdict import judge
from smoothcert.attacks.victim import Victim
from smoothcert.attacks.viewed import check_views
from smoothcert.cascade import Cascade
from smoothcert.certificates import Certificate, Soundness
from smoothcert.errors import InputError, ModelError, SettingError
from smoothcert.estimators.bounds import check_alpha
from smoothcert.intervals import IntervalCertificate
from smoothcert.maths import FloatArray
from smoothcert.memory.memory import Memory
from smoothcert.polling import make_fixed
from smoothcert.records.findings import Attempt, Finding, worst_of
from smoothcert.regions import Region
from smoothcert.regressor import SmoothedRegressor
from smoothcert.sight import Sight
from smoothcert.smoother import Batch, Smoother, checked

NEARER = "nearer"  # the attempt that moves a violation towards the input
HALVINGS = 12


@dataclass(frozen=True)
class Effort:
    """How hard to try: which attacks, how many evaluations of the classifier for each, how many votes for a verdict.

    attacks: names with parameters; None is all of them but Foolbox's, those that need gradients only where there are any. alpha: the probability that a
    sound certificate is called violated, shared among the attempts on it.
    """

    attacks: tuple[str, ...] | None = None
    budget: int = 3_000
    votes: int = 20_000
    alpha: float = 0.001

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        for name in self.attacks or ():
            attack_named(name)
        if self.attacks is not None and len(set(self.attacks)) < max(1, len(self.attacks)):
            raise SettingError(f"attacks={','.join(self.attacks)} must name at least one attack, and each once")
        for name, value in {"budget": self.budget, "votes": self.votes}.items():
            if value < 100:
                raise SettingError(f"{name}={value} must be at least 100, or nothing can be found")


def attack(
    certificates: Sequence[Certificate],
    smoother: Smoother,
    x: Tensor,
    *,
    first_index: int = 0,
    attacks: Sequence[str] | None = None,
    budget: int = Effort.budget,
    votes: int = Effort.votes,
    alpha: float = Effort.alpha,
    times: float = 1.0,
    memory: Memory | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Finding | None]:
    """Try to break each certificate of the smoothed classifier at the inputs x; None for an abstention.

    What is attacked is the deployed predictor: ``smoother`` with its tuner, asked anew at every point, behind the
    ``memory``, by default the smoother's own. times: attack at this multiple of the certified radius instead. A finding says
    ``violated`` of a sound certificate with probability at most alpha.
    """
    effort = Effort(None if attacks is None else tuple(attacks), budget, votes, alpha)
    inputs = checked(x)
    if len(inputs) != len(certificates):
        raise InputError(f"{len(certificates)} certificates for {len(inputs)} inputs; give one of each")
    memory = smoother.memory if memory is None else memory
    if memory is None and any(certificate.soundness is Soundness.MEMORY for certificate in certificates):
        raise InputError(
            "some certificates are kept by a memory, and the deployed predictor asks it first; give memory="
        )
    findings: list[Finding | None] = []
    for position, certificate in enumerate(certificates):
        found = None
        if certificate.region is not None:
            found = check(certificate, smoother, inputs[position], first_index + position, effort, times, memory)
        findings.append(found)
        if progress is not None:
            progress(position + 1)
    return findings


def check(
    certificate: Certificate,
    smoother: Smoother,
    x: Tensor,
    index: int,
    effort: Effort,
    times: float = 1.0,
    memory: Memory | None = None,
) -> Finding:
    """All attacks on one certificate, which must not be an abstention."""
    if not (math.isfinite(times) and times > 0):
        raise SettingError(f"{times} is no multiple of a radius; give finite numbers above 0, such as 1.5")
    assert certificate.region is not None
    make_fixed(smoother.model)
    if isinstance(smoother, SmoothedRegressor):
        return _check_numbers(certificate, smoother, x, index, effort, times)
    assert certificate.label is not None
    if isinstance(smoother, Cascade):
        return _check_cascade(certificate, smoother, x, index, effort, times)
    if isinstance(smoother.noise, Sight):
        if certificate.soundness is Soundness.MEMORY:  # the memory answers there, not the views
            raise SettingError(
                f"input {index} has its answer from a memory, which the views say nothing of; leave it out"
            )
        if effort.attacks is not None:
            raise SettingError(
                "attacks search regions under noise; certificates of views have searches of their own: name none"
            )
        return check_views(certificate, smoother, x, index, effort.budget, effort.votes, effort.alpha, times)
    victim = Victim(certificate, smoother, x, index, memory, times)
    searches = _searches(effort, victim)
    share = effort.alpha / (len(searches) + 1)  # one for each, and one for the nearer point
    tried: list[tuple[Attempt, FloatArray]] = []
    for search in searches:
        offset = search.find(victim, effort.budget)
        tried.append((judge(victim, search.title, offset, votes=effort.votes, alpha=share), offset))
    worst, offset = _worst(tried)
    if worst.violated:
        offset = _nearer(victim, offset)
        tried.append((judge(victim, NEARER, offset, votes=effort.votes, alpha=share), offset))
    return _finding(certificate, victim, effort, times, tried, smoother.driver.shared_noise)


def _check_numbers(
    certificate: Certificate, smoother: SmoothedRegressor, x: Tensor, index: int, effort: Effort, times: float
) -> Finding:
    """All attacks on every end of every interval: the median must not be found beyond it."""
    if not isinstance(certificate, IntervalCertificate):
        raise InputError(f"input {index} has no intervals; give the certificates of this regressor")
    asked = list(sides(certificate, smoother))
    if not asked:
        raise InputError(f"every interval of input {index} is infinite or ends where answers are clipped; leave it out")
    own = replace(effort, alpha=effort.alpha / len(asked))
    found = [(name, check(each, classifier, x, index, own, times)) for name, each, classifier in asked]
    attempts = tuple(replace(one, attack=f"{one.attack} {name}") for name, finding in found for one in finding.attempts)
    worst = next(finding for _, finding in found if finding.worst is worst_of([other.worst for _, other in found]))
    radius = certificate.region.radius * times if isinstance(certificate.region, Region) else 0.0
    shared = smoother.driver.shared_noise
    return replace(worst, label=None, radius=radius, alpha=effort.alpha, attempts=attempts, shared_noise=shared)


def _check_cascade(
    certificate: Certificate, cascade: Cascade, x: Tensor, index: int, effort: Effort, times: float
) -> Finding:
    """All attacks on every stage; what they found is judged by the whole."""
    cascade.probe(Batch(x[None], [index]))
    tried: list[tuple[Attempt, FloatArray]] = []
    victims = [Victim(certificate, stage, x, index, None, times) for stage in cascade]
    named = [(victim, search) for victim in victims for search in _searches(effort, victim)]
    for victim, search in named:
        offset, name = search.find(victim, effort.budget), f"{search.title} at stage {1 + victims.index(victim)}"
        share = effort.alpha / len(named)
        tried.append((judge_cascade(cascade, victim, name, offset, votes=effort.votes, alpha=share), offset))
    return _finding(certificate, victims[0], effort, times, tried, cascade.driver.shared_noise)


def _finding(
    certificate: Certificate,
    victim: Victim,
    effort: Effort,
    times: float,
    tried: Sequence[tuple[Attempt, FloatArray]],
    shared: bool,
) -> Finding:
    """All that was tried on one certificate."""
    return Finding(
        index=victim.index,
        label=certificate.label,
        soundness=certificate.soundness,
        times=times,
        radius=victim.region.radius,
        norm=victim.region.norm,
        certificate_alpha=certificate.bound.alpha,
        alpha=effort.alpha,
        attempts=tuple(attempt for attempt, _ in tried),
        offset=_worst(tried)[1].reshape(victim.shape),
        shared_noise=shared,
    )


def _searches(effort: Effort, victim: Victim) -> list[Attack]:
    """The attacks to run; those that need gradients only where there are any, unless they were asked for."""
    searches = [attack_named(name) for name in effort.attacks or DEFAULT]
    if not any(search.needs_gradient for search in searches) or victim.has_gradient():
        return searches
    able = [search for search in searches if not search.needs_gradient]
    if effort.attacks is None:
        return able
    blind = [search.title for search in searches if search.needs_gradient]
    others = ", ".join(name for name, kind in ATTACKS.items() if not kind.needs_gradient)
    raise ModelError(
        f"the classifier passes no gradient to its input, and {', '.join(blind)} need one; use attacks without: {others}"
    )


def _worst(tried: Sequence[tuple[Attempt, FloatArray]]) -> tuple[Attempt, FloatArray]:
    worst = worst_of([attempt for attempt, _ in tried])
    return next(each for each in tried if each[0] is worst)


def _nearer(victim: Victim, offset: FloatArray) -> FloatArray:
    """The violation moved towards the input, as far as the rival keeps half of its lead: bisection on search votes."""
    victim.begin(NEARER)

    def margin(factor: float) -> float:
        return float(victim.leads(victim.inside(offset[None] * factor), 400)[0, 1])

    near, far, bar = 0.0, 1.0, 0.5 * margin(1.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if margin(middle) <= min(bar, -0.05) else (middle, far)
    return np.asarray(victim.inside(offset[None] * far)[0])
