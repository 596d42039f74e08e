"""Cascades: extremal classifiers on a line, random periodic planes by brute force, and the walk against all scores."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import distance_transform_edt, gaussian_filter
from scipy.special import ndtr, ndtri

from smoothcert.errors import SettingError
from smoothcert.maths.cascade import NO_PASS, StageScores, margin_reach, possible_answers, threshold_reach

KNOWN = [
    ((1, 0.5, 0.25), (0.7, 0.95, 0.99), (0.1, 0.02, 0.005), (0.5, 0.5), 0.822427),
    ((1, 0.5, 0.25), (0.45, 0.93, 0.99), (0.2, 0.03, 0.005), (0.5, 0.5), 0.737896),
    ((1, 0.5, 0.25), (0.7, 0.95, 0.99), (0.1, 0.02, 0.005), (0.6, 0.6), 0.695753),
    ((1, 0.25), (0.3, 0.97), (0.25, 0.01), (0.5,), 0.525893),
    ((1, 0.25), (0.9, 0.97), (0.05, 0.01), (0.5,), 1.281552),
]


def first_flip(sigma, label, rival, theta):
    """Half-spaces for the class and for its rival along one line: where the cascade first answers something else."""
    steps = np.linspace(0, 2, 200_001)
    answer, open_ = np.full(len(steps), -1), np.ones(len(steps), bool)
    for j, scale in enumerate(sigma):
        a, b = ndtr(ndtri(label[j]) - steps / scale), ndtr(ndtri(rival[j]) + steps / scale)
        if j < len(theta):
            answer[open_ & (a > theta[j])], answer[open_ & (b > theta[j])] = 0, 1
            open_ = answer < 0
        else:
            answer[open_] = np.where(a > b, 0, 1)[open_]
    return steps[np.argmax(answer != 0)]


@pytest.mark.parametrize(("sigma", "label", "rival", "theta", "radius"), KNOWN)
def test_thresholds_on_a_line(sigma, label, rival, theta, radius):
    scale = np.array(sigma)
    bars = scale[:-1] * ndtri(theta)
    reach = threshold_reach(scale * ndtri(label), scale * ndtri(rival), bars)
    assert reach.radius == pytest.approx(radius, abs=1e-6)
    assert first_flip(sigma, label, rival, theta) == pytest.approx(radius, abs=1.1e-5)


SIDE, WIDTH = 96, 8.0
STEP = WIDTH / SIDE


def field(generator, smooth, number):
    """Smooth random functions on a periodic plane, of standard deviation one."""
    noise = generator.normal(size=(number, SIDE, SIDE))
    values = np.stack([gaussian_filter(each, smooth / STEP, mode="wrap", truncate=6) for each in noise])
    return values / values.std(axis=(1, 2), keepdims=True)


def scores_of(generator, classes, sigmas, passes):
    """Scores of every class (and of pass, last) at every stage but the last: exact probabilities by quadrature."""
    truth, result = field(generator, 0.9, classes), []
    for j, sigma in enumerate(sigmas):
        z = truth + 0.6 * field(generator, 0.3, classes)
        if passes and j < len(sigmas) - 1:
            z = np.concatenate([z, np.sort(z, axis=0)[-2:-1] + 0.4 + 0.3 * field(generator, 0.5, 1)])
        votes = [
            gaussian_filter((z.argmax(axis=0) == c) * 1.0, sigma / STEP, mode="wrap", truncate=8) for c in range(len(z))
        ]
        result.append(sigma * ndtri(np.stack(votes).clip(1e-14, 1 - 1e-14)))
    return result


def violations(answer, radius, classes):
    """Places of the plane with another answer nearer than the radius, less one step of the grid's own error."""
    count = 0
    for c in range(classes):
        apart = distance_transform_edt(~np.tile(answer != c, (3, 3)))[SIDE : 2 * SIDE, SIDE : 2 * SIDE] * STEP
        own = (answer == c) & (radius > 0)
        count += int((apart[own] < radius[own] - 3e-3).sum())
    return count


def best_other(scores, label):
    """The largest score of a class other than the label."""
    others = scores.copy()
    np.put_along_axis(others, label[None], -np.inf, axis=0)
    return others.max(axis=0)


def margin_plane(seed, classes, margins, sigmas=(1.2, 0.6, 0.3), mutant=""):
    """Violations of the margin cascade with a pass class on one random plane, and the mean radius."""
    stages = scores_of(np.random.default_rng(seed), classes, sigmas, passes=True)
    answer = np.full((SIDE, SIDE), -1)
    for scores, margin in zip(stages, margins, strict=True):
        top = scores[:classes].argmax(axis=0)
        gap = (scores[:classes].max(axis=0) - best_other(scores, top)) / 2
        take = (answer < 0) & ((gap > margin) | (len(scores) == classes))
        answer[take] = top[take]
    label = np.stack([np.take_along_axis(scores, answer[None], axis=0)[0] for scores in stages])
    rival = np.stack([best_other(scores[:classes], answer) for scores in stages])
    passing = np.stack(
        [scores[classes] if len(scores) > classes else np.full_like(label[0], NO_PASS) for scores in stages]
    )
    reach = margin_reach(label, rival, margins, passing, passing)
    radius = reach.radius
    if mutant == "earlier stages forgotten":
        radius = reach.accepts.max(axis=0)
    elif mutant == "pass left out":
        radius = margin_reach(label, rival, margins, passing, NO_PASS).radius
    elif mutant == "margin of the wrong sign":
        accepts = reach.accepts + 2 * np.reshape(margins, (-1, 1, 1))
        radius = type(reach)(accepts, reach.no_other).radius
    return violations(answer, radius, classes), float(np.mean(np.maximum(radius, 0)))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("margins", [(0.0, 0.0, 0.0), (0.1, 0.05, 0.0), (0.3, 0.1, 0.0)])
def test_margins_and_pass_in_the_plane(classes, margins):
    outcomes = [margin_plane(seed, classes, margins) for seed in range(4)]
    assert [broken for broken, _ in outcomes] == [0] * 4
    assert all(mean > 0.05 for _, mean in outcomes)
    for mutant in ("earlier stages forgotten", "pass left out", "margin of the wrong sign"):
        if mutant != "margin of the wrong sign" or any(margins):
            assert sum(margin_plane(seed, classes, margins, mutant=mutant)[0] for seed in range(4)) > 50


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("theta", [(0.5, 0.5), (0.6, 0.55)])
def test_thresholds_in_the_plane(classes, theta):
    sigmas, total, broken = np.array([1.2, 0.6, 0.3]), 0, 0
    for seed in range(4):
        stages = scores_of(np.random.default_rng(seed), classes, sigmas, passes=False)
        bars, answer = sigmas[:2] * ndtri(theta), np.full((SIDE, SIDE), -1)
        for scores, bar in zip(stages, [*bars, -math.inf], strict=True):
            take = (answer < 0) & (scores.max(axis=0) > bar)
            answer[take] = scores.argmax(axis=0)[take]
        label = np.stack([np.take_along_axis(scores, answer[None], axis=0)[0] for scores in stages])
        reach = threshold_reach(label, np.stack([best_other(scores, answer) for scores in stages]), bars)
        total += violations(answer, reach.radius, classes)
        broken += violations(answer, reach.accepts.max(axis=0), classes)  # earlier stages forgotten
        assert reach.radius.mean() > 0.1
    assert total == 0
    assert broken > 50


score = st.floats(-3, 3)


@settings(deadline=None)
@given(st.lists(st.tuples(score, score, score, score, st.floats(0, 1)), min_size=1, max_size=4))
def test_never_below_the_first_stage_and_worse_bounds_never_help(stages):
    label, rival, one, two, margins = map(np.array, zip(*stages, strict=True))
    margins[-1] = 0.0
    low, high = np.minimum(one, two), np.maximum(one, two)
    reach = margin_reach(label, rival, margins, low, high)
    worse = margin_reach(label - 0.1, rival + 0.1, margins, low - 0.1, high + 0.1)
    assert np.all(worse.by_stage <= reach.by_stage + 1e-12)
    plain = margin_reach(label, rival, 0 * margins)
    assert plain.radius >= 0.5 * (label[0] - rival[0])
    assert reach.radius >= 0.0


def every_answer(stages, margins):
    """The answers of the cascade over all corners of the bounds: the extremes of every comparison are among them."""
    answers = set()
    corners = [list(itertools.product(*zip(s.low, s.high, strict=True), (s.pass_low, s.pass_high))) for s in stages]
    for place, (options, margin) in enumerate(zip(corners, margins, strict=True)):
        here: set[int | None] = set()  # None: passed on
        for *scores, passing in options:
            order = np.argsort(scores)
            sure = 0.5 * (scores[order[-1]] - max(scores[order[-2]], passing)) > margin
            here.add(int(order[-1]) if sure or place == len(margins) - 1 else None)
        answers |= here - {None}
        if len(here) == 1 and None not in here:
            break  # two answers at two corners pass on somewhere between them
    return answers


def test_the_walk_holds_every_answer_and_no_other():
    generator, single = np.random.default_rng(0), 0
    for _ in range(400):
        stages = []
        for _ in range(3):
            middle, width = generator.normal(size=4), generator.uniform(0, 0.6, 4)
            low, high = middle - width, middle + width
            stages.append(StageScores(low[:3], high[:3], low[3], high[3]))
        margins = (*generator.uniform(0, 0.4, 2), 0.0)
        assert possible_answers(stages, margins) == every_answer(stages, margins)
        single += len(every_answer(stages, margins)) == 1
    assert 50 < single < 350


def test_stages_that_cannot_be_reached_are_not_asked():
    asked = []

    def stages():
        for number in range(3):
            asked.append(number)
            yield StageScores(np.array([1.0, -1.0]), np.array([1.2, -0.9]), -2.0, -1.5)

    assert possible_answers(stages(), (0.1, 0.1, 0.0)) == {0}
    assert asked == [0]


def test_unknown_scores_claim_nothing():
    reach = margin_reach([-math.inf, 1.0], [-math.inf, -1.0], (0.0, 0.0))
    assert reach.by_stage.tolist() == [-math.inf, -math.inf]
    assert reach.radius == 0.0
    nothing = StageScores(np.full(2, -math.inf), np.full(2, math.inf), -math.inf, math.inf)
    assert possible_answers([nothing, nothing], (0.0, 0.0)) == {0, 1}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: margin_reach([1.0, 1.0], [0.0, 0.0], (0.0,)),
        lambda: margin_reach([1.0, 1.0], [0.0, 0.0], (-0.1, 0.0)),
        lambda: margin_reach([1.0, 1.0], [0.0, 0.0], (0.1, 0.1)),
        lambda: threshold_reach([1.0, 1.0], [0.0, 0.0], (-0.1,)),
        lambda: threshold_reach([1.0, 1.0], [0.0, 0.0], (0.1, 0.1)),
    ],
)
def test_margins_and_thresholds_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        wrong()


def test_too_few_stages_are_refused():
    unsure = StageScores(np.array([0.0, 0.0]), np.array([1.0, 1.0]))
    with pytest.raises(ValueError, match="zip"):
        possible_answers([unsure], (0.1, 0.0))
