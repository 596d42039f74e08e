"""The verdict: its exact error, its power, and who counts as a rival."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

import smoothcert as sc
from smoothcert.attacks.check import Effort, attack
from smoothcert.attacks.over_run import attack_run
from smoothcert.attacks.verdict import broken, declared, judge
from smoothcert.attacks.victim import Victim
from smoothcert.data import ArrayDataset
from smoothcert.maths.sequential import crossing_probability, looks
from smoothcert.polling import Pollster
from smoothcert.records.findings import Attempt, Finding, allowance, risk, worst_of
from smoothcert.report.attacks import attack_summary
from smoothcert.seeds import Stage
from smoothcert.testing.problems import HalfSpace


def error(p: float, votes: int, alpha: float, rule=declared) -> float:
    """The exact probability that a rival with this share of the votes is declared ahead at one of the looks."""
    times = looks(votes, first=200, number=12, multiple=200)

    def first(look: int) -> int:
        """The fewest votes for the rival that are enough at this look, if it had none before."""
        seen = times[: look + 1]
        rivals = np.zeros_like(seen)
        for rivals[-1] in range(int(seen[-1]) // 2, int(seen[-1]) + 1):
            if rule(seen - rivals, rivals, times, alpha):
                return int(rivals[-1])
        return int(seen[-1]) + 1

    return crossing_probability(p, times, [first(look) for look in range(len(times))])


def test_a_tie_is_called_broken_with_probability_below_alpha() -> None:
    assert 0.3e-3 < error(0.5, 20_000, 0.001) < 0.001

    def unsplit(ours, rivals, times, alpha):
        return any(broken(int(a), int(b), alpha) for a, b in zip(ours, rivals, strict=True))

    assert error(0.5, 20_000, 0.001, unsplit) > 0.002  # what the looks would cost if alpha were not split


def test_a_clear_lead_of_the_rival_is_seen() -> None:
    assert error(0.55, 20_000, 0.001 / 8) > 0.999


def victim_at(x: float, model) -> Victim:
    smoother = sc.Smoother(model, sc.Noise("gaussian", 1.0), estimator="fixed", estimate=1_000)
    region = sc.Region(np.array([x]), np.array(1.0), 1.0, 2.0)
    certificate = sc.Certificate(1, sc.Bound(0.9, 0.001, 1000), region, sc.Soundness.GLOBAL)
    return Victim(certificate, smoother, torch.tensor([x]), 3, None, 1.0)


def test_probabilities_are_estimated_at_the_point_from_fresh_votes() -> None:
    """Half-space at x = 0.5, moved by -1: Φ(-0.5) = 0.309 for the label. 2 000 votes: 5 standard errors are 0.052."""
    victim = victim_at(0.5, HalfSpace(torch.ones(1)))
    attempt = judge(victim, "by hand", np.array([-1.0]), votes=2_000, alpha=0.001)
    assert attempt.violated
    assert attempt.rival == 0
    assert abs(attempt.p_label - 0.5 * math.erfc(0.5 / math.sqrt(2))) < 0.16  # stopped early, at 200 votes or more
    still = judge(victim, "by hand", np.array([0.0]), votes=2_000, alpha=0.001)
    assert not still.violated
    assert still.margin > 0


def test_alpha_is_shared_among_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """And every attempt votes on draws of its own."""
    spent, keys = [], []

    def recorded(victim, name, offset, *, votes, alpha):
        spent.append(alpha)
        return judge(victim, name, offset, votes=votes, alpha=alpha)

    def counted(self, ask):
        if ask.stage is Stage.VERDICT:
            keys.append((ask.index, ask.first))
        return cast(self, ask)

    cast = Pollster.cast
    monkeypatch.setattr("smoothcert.attacks.check.judge", recorded)
    monkeypatch.setattr(Pollster, "cast", counted)
    smoother = sc.Smoother(HalfSpace(torch.ones(1)), sc.Noise("gaussian", 1.0), estimator="fixed", estimate=1_000)
    x = torch.tensor([[0.5], [0.7]])
    found = attack(smoother.certify(x), smoother, x, times=3.0, budget=200, votes=1_000, alpha=0.01)
    assert all(finding.violated and finding.attempts[-1].attack == "nearer" for finding in found)
    assert sum(spent) <= 0.01 * len(x) * (1 + 1e-12)
    assert len(set(keys)) == len(keys)


def test_answers_that_are_not_a_number_are_a_rival() -> None:
    def model(batch: torch.Tensor) -> torch.Tensor:
        score = batch.flatten(1)[:, :1]
        return torch.cat([torch.zeros_like(score), torch.where(score > 0, score, torch.nan)], dim=1)

    attempt = judge(victim_at(0.5, model), "by hand", np.array([-1.0]), votes=2_000, alpha=0.001)
    assert (attempt.violated, attempt.rival) == (True, 2)


def finding(soundness: sc.Soundness, violated: bool, margin: float = 0.5, shared: bool = False) -> Finding:
    attempt = Attempt("random", 0.7, 0, 0.5 + margin / 2, 0.5 - margin / 2, 200, violated)
    return Finding(0, 1, soundness, 1.0, 1.0, math.inf, 0.001, 0.001, (attempt,), np.zeros(2), shared)


def test_the_allowance_is_a_binomial_quantile() -> None:
    found = [finding(sc.Soundness.GLOBAL, False)] * 300
    allowed = allowance(found)
    assert binom.sf(allowed, 300, 0.002) <= 0.002 < binom.sf(allowed - 1, 300, 0.002)
    kept = allowance([finding(sc.Soundness.MEMORY, False)] * 300)  # look-ups do not err: only the verdict may
    assert binom.sf(kept, 300, 0.001) <= 0.001 < binom.sf(kept - 1, 300, 0.001)
    assert allowance([]) == 0
    for soundness in (sc.Soundness.GLOBAL, sc.Soundness.MEMORY):
        assert allowance([finding(soundness, False)]) == 0  # a single one is not excused


def test_the_allowance_under_shared_noise_holds_for_any_dependence() -> None:
    """The worst case of the mean: k + 1 are violated at once, or none. More than the allowance come at 0.05 at most."""
    for number in (1, 20, 300, 10_000):
        found = [finding(sc.Soundness.GLOBAL, False, shared=True)] * number
        allowed, chance = allowance(found), found[0].chance
        assert number * chance / (allowed + 1) <= risk(found) == 0.05
        assert allowed == 0 or number * chance / allowed > 0.05
    together = 300 * 0.002 / 5  # a group of five among 300, wrong all at once, with the same mean
    own = [finding(sc.Soundness.GLOBAL, False)] * 300
    assert allowance(own) < 5  # the binomial quantile would call the group too many,
    assert together > 10 * risk(own)  # far more often than it says
    assert allowance([finding(sc.Soundness.GLOBAL, False, shared=True)] * 300) == 11
    assert allowance([finding(sc.Soundness.GLOBAL, False, shared=True), *own]) > allowance(own)


@pytest.mark.parametrize("shared", [False, True])
def test_the_finding_knows_whether_noise_was_shared(shared: bool) -> None:
    smoother = sc.Smoother(
        HalfSpace(torch.ones(1)),
        sc.Noise("gaussian", 1.0),
        estimator="fixed",
        estimate=1_000,
        engine=sc.Engine(shared_noise=shared),
    )
    x = torch.tensor([[0.5], [0.7]])
    found = attack(smoother.certify(x), smoother, x, attacks=["random"], budget=100, votes=1_000)
    assert [each.shared_noise for each in found if each is not None] == [shared] * 2
    [row] = attack_summary([each for each in found if each is not None])
    assert row["shared_noise"] is shared
    assert row["chance"] == (0.05 if shared else 0.002)


def test_the_run_says_whether_its_noise_was_shared(tmp_path: Path) -> None:
    """Also where the classifier that attacks it would not share."""
    rows = ArrayDataset("rows", np.array([[0.5], [0.7]], dtype=np.float32), [1, 1])
    model = nn.Linear(1, 2).eval()
    settings = {"estimator": "fixed", "estimate": 1_000}
    plain, sharing = (
        sc.Smoother(model, sc.Noise("gaussian", 1.0), engine=sc.Engine(workers=1, shared_noise=each), **settings)
        for each in (False, True)
    )
    for smoother, name in ((plain, "own"), (sharing, "shared")):
        sc.certify_all(smoother, rows, tmp_path / name)
        found = attack_run(plain, rows, tmp_path / name, Effort(("random",), 100, 1_000))
        assert [each.shared_noise for each in found] == [name == "shared"] * len(found)
        assert found


def test_a_memory_that_contradicts_is_never_chance() -> None:
    held, broken = finding(sc.Soundness.MEMORY, False), finding(sc.Soundness.MEMORY, True)
    looked_up = replace(broken, attempts=(replace(broken.attempts[0], votes=0),))
    for last, expected in ((held, False), (broken, False), (looked_up, True)):
        [row] = attack_summary([held] * 299 + [last])
        assert row["broken"] is expected


def test_a_point_outside_is_not_judged() -> None:
    victim = victim_at(0.5, HalfSpace(torch.ones(1)))
    for offset in (np.array([-1.01]), np.array([np.nan])):
        with pytest.raises(sc.SmoothcertError, match="gave a point at"):
            judge(victim, "by hand", offset, votes=1_000, alpha=0.001)
        assert victim.gauge(victim.inside(offset[None])[0]) <= 1.0


def test_small_blocks_name_the_rival_as_well_as_large_ones() -> None:
    """Ten classes, and only one that leads the label where the point is: one vote would often name another."""

    def model(batch: torch.Tensor) -> torch.Tensor:
        score = batch.flatten(1)[:, 0]
        cuts = torch.tensor([-9.0, -1.0, -0.75, -0.5, -0.25, -0.2, -0.15, -0.1, -0.05])
        return torch.nn.functional.one_hot(torch.bucketize(score, cuts), 10).float()

    smoother = sc.Smoother(
        model, sc.Noise("gaussian", 1.0), estimator="fixed", estimate=1_000, engine=sc.Engine(block=1)
    )
    region = sc.Region(np.array([1.0]), np.array(1.0), 3.0, 2.0)
    certificate = sc.Certificate(9, sc.Bound(0.9, 0.001, 1000), region, sc.Soundness.GLOBAL)
    for index in range(8):
        victim = Victim(certificate, smoother, torch.tensor([1.0]), index, None, 1.0)
        attempt = judge(victim, "by hand", np.array([-2.0]), votes=2_000, alpha=0.001)
        assert (attempt.rival, attempt.violated) == (1, True)


def test_findings_come_back_exactly() -> None:
    one = finding(sc.Soundness.GLOBAL, True, margin=-1 / 3)
    back = Finding.from_json(one.to_json("there"), lambda address: np.full(2, float(address == "there")))
    assert (back.attempts, back.norm, back.soundness) == (one.attempts, math.inf, sc.Soundness.GLOBAL)
    assert back.offset.tolist() == [1.0, 1.0]


def test_the_worst_attempt_is_the_nearest_violation_or_the_smallest_margin() -> None:
    far, near = (Attempt("a", gauge, 0, 0.4, 0.6, 200, True) for gauge in (0.9, 0.2))
    held, close = (Attempt("a", 0.1, 0, p, 1 - p, 200, False) for p in (0.9, 0.6))
    assert worst_of([held, far, near, close]) is near
    assert worst_of([held, close]) is close


def test_wrong_arguments_are_explained() -> None:
    smoother = sc.Smoother(lambda b: torch.sign(b).repeat(1, 2), sc.Noise("gaussian", 1.0), estimate=1_000)
    x = torch.tensor([[0.5]])
    region = sc.Region(np.array([0.5]), np.array(1.0), 0.1, 2.0)
    certificate = sc.Certificate(1, sc.Bound(0.9, 0.001, 1000), region, sc.Soundness.GLOBAL)
    with pytest.raises(sc.SmoothcertError, match="did you mean 'square'"):
        attack([certificate], smoother, x, attacks=["sqare"])
    with pytest.raises(sc.SmoothcertError, match="1 certificates for 2 inputs"):
        attack([certificate], smoother, torch.zeros(2, 1))
    with pytest.raises(sc.SmoothcertError, match="not the center"):
        attack([certificate], smoother, x + 1)
    with pytest.raises(sc.SmoothcertError, match="no multiple of a radius"):
        attack([certificate], smoother, x, times=-1.0)
    with pytest.raises(sc.SmoothcertError, match="budget=1 must be"):
        attack([certificate], smoother, x, budget=1)
    with pytest.raises(sc.SmoothcertError, match="each once"):
        attack([certificate], smoother, x, attacks=["random", "random"])
    curved = sc.Region(np.array([0.5]), np.array(1.0), 0.1, 0.5)
    with pytest.raises(sc.SmoothcertError, match="has no projection"):
        attack([sc.Certificate(1, certificate.bound, curved, sc.Soundness.GLOBAL)], smoother, x)
    abstention = sc.Certificate(None, certificate.bound, None, sc.Soundness.GLOBAL)
    assert attack([abstention], smoother, x) == [None]


def test_an_attack_that_needs_gradients_says_so() -> None:
    def model(batch: torch.Tensor) -> torch.Tensor:
        return torch.stack([batch[:, 0] <= 0, batch[:, 0] > 0], dim=1).float()

    smoother = sc.Smoother(model, sc.Noise("gaussian", 1.0), estimator="fixed", estimate=1_000)
    x = torch.tensor([[0.5]])
    certificates = smoother.certify(x)
    with pytest.raises(sc.SmoothcertError, match="no gradient .* use attacks without: square, decision"):
        attack(certificates, smoother, x, attacks=["projected_gradient"])
    [found] = attack(certificates, smoother, x, budget=200)  # by default they are left out
    assert "projected_gradient" not in {attempt.attack for attempt in found.attempts}
