"""Cascades: known answers on a line, bounds and shares of alpha, records, prediction, labels, and what is refused."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from torch import nn

import smoothcert as sc
from smoothcert.cascade import StagePoll
from smoothcert.certificates import Ballot
from smoothcert.data.guests import as_dataset
from smoothcert.errors import InputError, ModelError, RunError, SettingError
from smoothcert.explore.explorer import Explorer
from smoothcert.maths.boxed import Box
from smoothcert.merge import merge
from smoothcert.recertify import recertify
from smoothcert.records.record import Record, certificate_of
from smoothcert.serve.service import Service
from smoothcert.serve.settings import Serving
from smoothcert.smoother import Poll
from smoothcert.store import InMemoryStore
from smoothcert.votes import Votes

EDGE, MARGIN = 0.6, 0.1


def unsure(x):
    """Class 0 to the right of the edge, class 1 far to the left, and pass between."""
    at = x[:, 0]
    return torch.stack([at - EDGE, -50.0 - at, torch.zeros_like(at)], dim=1)


def always_one(x):
    """Class 1 everywhere."""
    return torch.stack([torch.zeros(len(x)), torch.ones(len(x))], dim=1)


def stages(*models, sigmas=(0.5, 0.5), estimate=2_000, **options):
    """One smoother per model; blocks are large, since the networks are tiny."""
    engine = sc.Engine(block=2_000)
    return [
        sc.Smoother(model, sc.Noise.isotropic("gaussian", sigma), estimate=estimate, engine=engine, **options)
        for model, sigma in zip(models, sigmas, strict=True)
    ]


def on_a_line(estimate=2_000, **options):
    """The first stage accepts 0 from EDGE + MARGIN on, and leaves all else to the second, which says 1."""
    return sc.Cascade(stages(unsure, always_one, estimate=estimate), (MARGIN, 0.0), **options)


def inputs(number):
    """Half of them answered by the second stage, half by the first, none near the place where the answer changes."""
    return torch.cat([torch.linspace(-0.6, 0.45, number // 2), torch.linspace(0.95, 1.6, number // 2)])[:, None]


@pytest.mark.parametrize("number", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_radii_are_the_distances_to_the_place_where_the_answer_changes(number):
    """Of 200 inputs more than 2 violations have probability below 1.2e-3; both kinds of stage are tight on a line."""
    x = inputs(number)
    found = on_a_line(estimate=20_000).certify(x)
    truth = (x[:, 0] - EDGE - MARGIN).abs().numpy()
    ratio = np.array([certificate.radius for certificate in found]) / truth
    assert [certificate.label for certificate in found] == [1] * (number // 2) + [0] * (number // 2)
    assert (ratio > 1).sum() <= 2
    assert np.median(ratio) >= 0.93
    assert (1.08 * ratio > 1).sum() > number // 4, "this test could not see a radius inflated by 8 %"
    assert {certificate.rule.split(" accepts")[0] for certificate in found} == {"stage 1 of 2", "stage 2 of 2"}
    assert all((c.soundness, c.bound.alpha) == (sc.Soundness.GLOBAL, 0.001) for c in found)


def test_predict_answers_what_was_certified_and_abstains_at_the_edge():
    x = torch.tensor([[-0.5], [0.4], [1.1], [EDGE + MARGIN]])
    assert on_a_line().predict(x, votes=4_000) == [1, 1, 0, None]
    one = sc.Cascade(stages(lambda x: unsure(x)[:, [1, 0, 2]], always_one), (MARGIN, 0.0))
    assert one.predict(torch.tensor([[EDGE + MARGIN]]), votes=4_000) == [1]  # "1" or "pass on, then 1" is 1


def test_later_stages_are_asked_while_they_can_help():
    def asked(cascade, at):
        return sum(1 for poll in cascade.polls(cascade._batches(torch.tensor([[at]]), 0)) for _ in poll.asked)

    less = sc.Cascade(stages(unsure, always_one, sigmas=(0.5, 0.25)), (MARGIN, 0.0))
    assert asked(less, 3.0) == 1  # the first stage proves more than the second could
    assert asked(less, 0.0) == 2
    assert asked(on_a_line(), 0.0) == 2
    assert asked(on_a_line(radii=[0.9]), 0.0) == 1  # 0.7 to the edge: the radius is out of reach
    assert asked(on_a_line(radii=[0.5]), 0.0) == 2


def votes_of(counts, lost=0):
    return Votes(np.array([[counts]]), np.array([[lost]]))


def test_alpha_is_shared_among_stages_and_bounds():
    cascade = sc.Cascade(stages(unsure, unsure, always_one, sigmas=(1.0, 0.5, 0.25)), alpha=0.012)
    cascade.classes = 2
    assert cascade.alphas == pytest.approx((0.006, 0.003, 0.003))
    n, lost = 1_000, 7
    lower, upper, low, high = cascade.bounds(1, 0, votes_of([500, 200, 293], lost))
    assert lower == pytest.approx(beta.ppf(0.001, 500, n - 500 + 1))
    assert upper == pytest.approx(beta.ppf(1 - 0.001, 207 + 1, n - 207))
    assert low == pytest.approx(beta.ppf(0.0005, 293, n - 293 + 1))
    assert high == pytest.approx(beta.ppf(1 - 0.0005, 300 + 1, n - 300))
    lower, upper, low, high = cascade.bounds(2, 1, votes_of([100, 900]))
    assert lower == pytest.approx(beta.ppf(0.9 * 0.003, 900, 101))
    assert upper == pytest.approx(min(beta.ppf(1 - 0.1 * 0.003, 101, 900), 1 - lower))
    assert (low, high) == (0.0, 0.0)


def test_the_walk_shares_alpha_among_stages_classes_and_sides():
    """Two stages of two classes: each of eight bounds has an eighth of alpha, by scipy's beta quantiles."""
    cascade, n, alpha = sc.Cascade(stages(always_one, always_one), alpha=0.01), 1_000, 0.01
    cascade.classes = 2
    for wins in range(500, 580, 2):
        low, high = beta.ppf(alpha / 8, wins, n - wins + 1), beta.ppf(1 - alpha / 8, n - wins + 1, wins)
        found = cascade.walk(lambda at, wins=wins: votes_of([wins, n - wins]), alpha)
        assert (len(found) == 1) == (low > high)


@cache
def never_asked():
    """A cascade without a margin or a class to pass on, and its first stage alone at its share of alpha."""
    first, second = stages(nn.Linear(3, 3), nn.Linear(3, 3), sigmas=(0.5, 0.25), estimate=1_000)
    cascade = sc.Cascade([first, second], alpha=0.002)
    cascade.classes = 3
    options = {"estimator": "fixed:share=0.9", "estimate": 1_000, "engine": sc.Engine(block=1_000)}
    return cascade, sc.Smoother(first.model, first.noise, alpha=cascade.alphas[0], **options)


counts = st.lists(st.integers(0, 1_000), min_size=4, max_size=4).map(
    lambda parts: (1_000 * np.array(parts) // max(sum(parts), 1))[:3]
)


@settings(max_examples=60)
@given(counts, counts, st.sampled_from([0.0, 0.05, 0.3]))
def test_never_below_the_first_stage(first, second, margin):
    cascade, alone = never_asked()
    tables = [votes_of(own, 1_000 - int(own.sum())) for own in (first, second)]
    label, x, ballot = int(tables[0].leaders()[0]), torch.zeros(3), Ballot(tables[0], tables[0])
    plain = alone.conclude(Poll(0, x, cascade.noise, ballot, sc.Soundness.GLOBAL, 0.0)).radius
    for asked in (tables[:1], tables):
        poll = StagePoll(0, x, cascade.noise, ballot, sc.Soundness.GLOBAL, 0.0, None, label, tuple(asked))
        assert cascade.conclude(poll).radius >= plain - 1e-12
    shy = sc.Cascade(list(cascade), (margin, 0.0), alpha=0.002)
    shy.classes = 3
    assert float(shy.reach(label, tables[:1]).radius) <= plain + 1e-12


def test_margins_chosen_with_an_input_freeze_its_certificate():
    x = inputs(4)
    found = on_a_line(chosen_on=x[1:2]).certify(x)
    assert [certificate.soundness.value for certificate in found] == ["global", "frozen", "global", "global"]
    divided, multiplied = (np.float32([[3]]) / np.float32(7), np.float32([[3]]) * np.float32(1 / 7))
    assert divided != multiplied
    same = [(np.float32([[0.0]]), np.float32([[-0.0]])), (divided, multiplied), (multiplied, divided)]
    for chosen, other in same:
        noise = sc.Noise("gaussian", 0.5, grid=1 / 7)
        cascade = sc.Cascade([sc.Smoother(always_one, noise, estimate=100)], chosen_on=torch.from_numpy(chosen))
        assert cascade.certify(torch.from_numpy(other))[0].soundness is sc.Soundness.FROZEN
    for unclear, words in ((torch.zeros(1, 3, dtype=torch.uint8), "uint8"), (x[0], "give a batch")):
        with pytest.raises(InputError, match=words):
            on_a_line(chosen_on=unclear)
    store = sc.certify_all(on_a_line(chosen_on=(x[:2].numpy(), [0, 1])), x, InMemoryStore())
    assert sorted(record.soundness.value for record in store.records()) == ["frozen", "frozen", "global", "global"]
    unchecked = sc.Cascade([stages(unsure, always_one)[0], *stages(always_one, sigmas=(0.5,), check=False)])
    assert unchecked.certify(x[:1])[0].soundness is sc.Soundness.ESTIMATE


def test_records_hold_the_votes_of_every_stage_and_a_run_goes_on(tmp_path):
    x = inputs(6)
    whole = sc.certify_all(on_a_line(), (x, [1, 1, 1, 0, 0, 0]), tmp_path / "whole")
    part = sc.certify_all(on_a_line(), (x, [1, 1, 1, 0, 0, 0]), tmp_path / "part", indices=[4, 0], rows=1)
    sc.certify_all(on_a_line(), (x, [1, 1, 1, 0, 0, 0]), part, rows=2)
    runs = [sc.Run(place) for place in (whole, part)]
    assert [r.to_json() for r in runs[0].records] == [r.to_json() for r in runs[1].records]
    for record, certificate in zip(runs[0].records, on_a_line().certify(x), strict=True):
        assert Record.from_json(record.to_json()) == record
        assert record.correct
        assert record.leader == record.label  # also where the first stage passes on
        assert record.radius == certificate.radius
        assert record.trials == sum(map(sum, record.stages))
        assert certificate_of(record, certificate.region.center, InMemoryStore()).region == certificate.region
    assert runs[0].lines[0].noise == "cascade gaussian 0.5 → gaussian 0.5"
    assert runs[0].figure()._repr_png_()[:4] == b"\x89PNG"
    more = [*stages(unsure, sigmas=(0.5,)), *stages(always_one, sigmas=(0.5,), estimate=4_000)]
    others = (sc.Cascade(stages(unsure, always_one)), on_a_line(chosen_on=x), sc.Cascade(more, (MARGIN, 0.0)))
    for other in (*others, stages(always_one, sigmas=(0.5,))[0]):
        with pytest.raises(RunError, match="another configuration"):
            sc.certify_all(other, (x, [1, 1, 1, 0, 0, 0]), part)
    with pytest.raises(SettingError, match="of a cascade"):
        recertify(part, tmp_path / "again", {"alpha": 0.01})
    with pytest.raises(SettingError, match="memory"):
        sc.certify_all(on_a_line(), x, tmp_path / "kept", memory=tmp_path / "memory.sqlite")
    with pytest.raises(SettingError, match="go through no memory"):
        merge([part], tmp_path / "kept", dataset=as_dataset((x, [1, 1, 1, 0, 0, 0])), memory=tmp_path / "kept")


def linear(classes):
    return nn.Linear(2, classes).eval()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: sc.Cascade([]), SettingError, "one or more"),
        (lambda: sc.Cascade([on_a_line()]), SettingError, "one or more"),
        (lambda: sc.Cascade(stages(linear(3), linear(3), sigmas=(0.25, 0.5))), SettingError, "most noise first"),
        (lambda: sc.Cascade(stages(linear(3), linear(3)), [0.1]), SettingError, "one for each"),
        (lambda: sc.Cascade(stages(linear(3), linear(3)), [0.1, 0.1]), SettingError, "0 for the last"),
        (lambda: sc.Cascade(stages(linear(3), linear(3)), [-0.1, 0.0]), SettingError, "at least 0"),
        (
            lambda: sc.Cascade([*stages(linear(3), sigmas=(0.5,)), *stages(linear(3), sigmas=(0.5,), norm=1)]),
            SettingError,
            "one norm",
        ),
        (lambda: sc.Cascade(stages(linear(3), linear(3), tuner="data_dependent")), SettingError, "tuner"),
        (
            lambda: sc.Cascade(stages(linear(3), linear(3), front=sc.Front(np.eye(2), box=Box(0, 1)))),
            SettingError,
            "front",
        ),
        (lambda: sc.Cascade([sc.Smoother(linear(3), sc.Noise("cauchy", 0.5))]), SettingError, "scores are known"),
        (
            lambda: sc.Cascade([sc.Smoother(linear(3), sc.Noise("gaussian", torch.ones(4, 2)))]),
            SettingError,
            "row per input",
        ),
        (lambda: sc.Cascade(stages(linear(5), linear(3))), ModelError, "5, 3 classes"),
        (lambda: sc.Cascade(stages(linear(3), linear(4))), ModelError, "3, 4 classes"),
        (lambda: sc.Cascade(stages(linear(3), linear(3)))(torch.zeros(1, 2)), SettingError, "ask its stages"),
    ],
)
def test_what_is_no_cascade_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong().certify(torch.zeros(1, 2))


def test_nobody_serves_or_explores_a_cascade(tmp_path):
    """A desk for one classifier would ask the first stage alone."""
    data = as_dataset(inputs(2))
    with pytest.raises(SettingError, match="not for a cascade"):
        Service(on_a_line(), data, None, Serving())
    run = sc.certify_all(on_a_line(), data, tmp_path / "run")
    with pytest.raises(RunError, match="no one noise"):
        Explorer(on_a_line(), data, run)
