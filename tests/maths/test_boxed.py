"""The radius in a box: known numbers, exact rational arithmetic, and a search for a point that flips the answer."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothcert.errors import InputError, SettingError
from smoothcert.maths.boxed import box_caps, boxed_radius

WIDE = 3.5 * np.sqrt(3.0)
probabilities = st.floats(0.0, 1.0)
cap_lists = st.lists(
    st.one_of(st.floats(0.0, 3.0), st.sampled_from([0.0, 1e-12, 0.1, 1 / 3, 2.0])), min_size=1, max_size=12
)


@pytest.mark.parametrize(
    ("scale", "gap", "reach", "radius"),
    [
        (3.0, 0.8, np.ones(100), 2.816),
        (WIDE, 0.8, np.ones(3072), 5.936962),
        (WIDE, 0.95, np.ones(3072), 7.496367),
        (3.0, 0.8, np.array([0.5, 0.9, 0.7, 0.6, 0.8]), 2.867685),
        (0.5, 0.8, np.ones(100), 0.4),  # the box is wider than the noise: nothing is gained
    ],
)
def test_known_radii(scale, gap, reach, radius):
    caps = box_caps(np.zeros(len(reach)), 0.0, reach, scale)
    assert scale * boxed_radius(1.0, 1.0 - gap, caps) == pytest.approx(radius, abs=6e-7)
    middle = box_caps(np.zeros(len(reach)), -reach, reach / 2, scale)
    assert np.array_equal(middle, caps)


def exactly(p, q, caps):
    """The greedy filling in rational numbers; the sum of the caps when the whole box is certified."""
    level, share, total = 1 - (Fraction(p) - Fraction(q)) / 2, Fraction(1), Fraction(0)
    for cap in sorted(map(Fraction, caps), reverse=True):
        spare = 2 * (1 - level / share)
        if spare <= cap:
            return total + spare
        total, share = total + cap, share * (1 - cap / 2)
    return total


@settings(max_examples=400, deadline=None)
@given(probabilities, probabilities, cap_lists)
def test_radius_is_below_the_exact_one_and_never_below_the_plain_rule(p, q, caps):
    radius = Fraction(float(boxed_radius(p, q, caps)))
    gap = Fraction(p) - Fraction(q)
    if gap <= 0:
        assert radius == 0
        return
    truth = max(exactly(p, q, caps), gap)
    assert radius <= truth
    assert radius >= gap * (1 - Fraction(1, 2**52))
    assert radius >= truth * (1 - Fraction(1, 10**14)) - Fraction(1, 10**14)


@settings(max_examples=100, deadline=None)
@given(probabilities, probabilities, cap_lists, st.floats(0.0, 1.0), st.integers(0, 11))
def test_a_smaller_box_or_surer_votes_never_prove_less(p, q, caps, share, which):
    radius, smaller = boxed_radius(p, q, caps), list(caps)
    smaller[which % len(caps)] *= share
    whole = sum(smaller)  # all of the smaller box: nothing more can be said in it
    assert boxed_radius(p, q, smaller) >= min(radius, whole) * (1 - 1e-12) - 1e-12
    assert boxed_radius(min(1.0, p + share * (1 - p)), q, caps) >= radius * (1 - 1e-12) - 1e-12


def test_rounding_stays_down_over_many_coordinates():
    caps = np.random.default_rng(0).uniform(0.0, 4e-4, 20_000)
    radius, truth = boxed_radius(0.99, 0.01, caps), exactly(0.99, 0.01, caps)
    assert truth * (1 - Fraction(1, 10**10)) <= Fraction(float(radius)) <= truth


def test_random_search_finds_flips_just_above_and_none_below():
    """One seed; a search can miss a flip but never report a false one: no false alarm below the radius."""
    generator = np.random.default_rng(3)
    for gap in (0.8, 0.6, 0.9):
        center, scale = generator.uniform(0.2, 0.8, 4), generator.uniform(1.5, 2.0, 4)
        radius = float(boxed_radius(1.0, 1.0 - gap, box_caps(center, 0.0, 1.0, scale)))
        places = np.stack([np.zeros((200_000, 4)), np.ones((200_000, 4)), generator.random((200_000, 4))])
        points = np.take_along_axis(places, generator.integers(0, 3, (1, 200_000, 4)), axis=0)[0]
        points = np.where(generator.random(points.shape) < 0.3, center, points)
        steps = np.abs(points - center) / scale
        flipped = np.prod(np.maximum(1 - steps / 2, 0.0), axis=1) < 1 - gap / 2
        assert radius <= steps[flipped].sum(axis=1).min() < 1.01 * radius
        assert radius > gap * 1.01


def flips_inside(radius, center, scale, gap):
    """Points of the unit box within the radius at which the cubes share too little."""
    points = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    steps = np.abs(points - center) / scale
    close = steps.sum(axis=1) <= radius
    return int((np.prod(np.maximum(1 - steps / 2, 0.0), axis=1)[close] < 1 - gap / 2 - 1e-12).sum())


def test_the_near_wall_instead_of_the_far_one_would_be_caught():
    center, scale, gap = np.array([0.4, 0.6, 0.35]), 1.0, 0.8
    assert flips_inside(float(boxed_radius(1.0, 1 - gap, box_caps(center, 0, 1, scale))), center, scale, gap) == 0
    near = np.minimum(center, 1 - center) / scale
    assert flips_inside(float(boxed_radius(1.0, 1 - gap, near)), center, scale, gap) > 0


def test_shared_draws_are_not_covered():
    """Two coordinates split by one shared draw: the views that change add up, and the product would promise too much."""
    gap, caps = 0.8, np.array([0.5, 0.5])
    shared = np.sum(caps) / 2  # share of draws under which something changed
    assert shared > gap / 2  # the answer may flip at this corner
    assert float(boxed_radius(1.0, 1 - gap, caps)) > 0.8


def test_a_batch_is_its_rows():
    generator = np.random.default_rng(1)
    caps, p, q = generator.uniform(0, 1, (5, 7)), generator.uniform(0.5, 1, 5), generator.uniform(0, 0.5, 5)
    rows = [float(boxed_radius(p[i], q[i], caps[i])) for i in range(5)]
    assert boxed_radius(p, q, caps).tolist() == rows
    assert boxed_radius(p, q, caps[0]).shape == (5,)


@pytest.mark.parametrize("center", [[0.5, 1.1], [-0.1, 0.5], [np.nan, 0.5]])
def test_inputs_outside_the_box_are_refused(center):
    with pytest.raises(InputError, match="outside the box"):
        box_caps(center, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: box_caps([0.5], 0.0, 1.0, 0.0),
        lambda: box_caps([0.5], 0.0, 1.0, np.nan),
        lambda: boxed_radius(1.1, 0.0, [1.0]),
        lambda: boxed_radius(0.9, np.nan, [1.0]),
        lambda: boxed_radius(0.9, 0.1, [-1.0]),
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
