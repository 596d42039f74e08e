"""Smoothed numbers: certificates, records and resuming, every kind of data, and what is refused."""

import math

import numpy as np
import pandas
import pytest
import torch
from sklearn.linear_model import LinearRegression
from torch.utils.data import DataLoader, TensorDataset

import smoothcert as sc
from smoothcert.data.rows import ArrayDataset
from smoothcert.errors import DataError, ModelError, RunError, SettingError
from smoothcert.laws import Law
from smoothcert.recertify import recertify
from smoothcert.records.record import Record, certificate_of
from smoothcert.store import InMemoryStore

NOISE = sc.Noise.isotropic("gaussian", 0.5)
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
Y = (X.sum(dim=1) + 0.25).numpy()


def total(x):
    return x.sum(dim=1)


def regressor(model=total, noise=NOISE, **options):
    options = {"radii": [0.1, 0.3], "estimate": 500} | options
    return sc.SmoothedRegressor(model, noise, **options)


def test_a_certificate_holds_the_number_and_says_what_it_is_worth():
    for x, certificate in zip(X, regressor().certify(X), strict=True):
        small, large = certificate.intervals
        assert (certificate.label, certificate.soundness, certificate.bound.trials) == (None, sc.Soundness.GLOBAL, 500)
        assert (small.radius, large.radius, certificate.radius) == (0.1, 0.3, 0.3)
        assert large.low <= small.low <= float(x.sum()) <= small.high <= large.high
        assert "within 0.1: [" in repr(certificate)
        assert "within 0.1" in certificate._repr_html_()


def test_radii_are_parts_of_the_scale_unless_they_are_given():
    certificate, *_ = sc.SmoothedRegressor(total, sc.Noise("gaussian", torch.tensor([0.4, 1.0, 2.0]))).certify(X[:1])
    assert [one.radius for one in certificate.intervals] == pytest.approx([0.1, 0.2, 0.4])
    assert certificate.region.radius == pytest.approx(1.0)


def test_predict_gives_the_number_between_two():
    for x, found in zip(X, regressor().predict(X, votes=1_000), strict=True):
        [interval] = found.intervals
        assert interval.radius == 0.0
        assert interval.contains(float(x.sum()))
        assert interval.contains(found.value)
        assert interval.width < 0.35  # two standard errors of 1 000 votes are 0.07
    assert regressor()(X).shape == (8,)


@pytest.mark.parametrize("scale", ["linear", "(batch, 1)", "arrays", "sklearn"])
def test_every_kind_of_model_gives_the_same_intervals(scale):
    models = {
        "linear": lambda x: x @ torch.ones(3),
        "(batch, 1)": lambda x: x.sum(dim=1, keepdim=True),
        "arrays": lambda x: np.asarray(x).sum(axis=1),
        "sklearn": LinearRegression().fit(np.eye(3), np.ones(3)),
    }
    ends = [(one.low, one.high) for c in regressor().certify(X) for one in c.intervals]
    again = [(one.low, one.high) for c in regressor(models[scale]).certify(X) for one in c.intervals]
    assert np.allclose(ends, again, atol=1e-5) or scale == "sklearn"  # that one has an intercept
    assert len(again) == 16


def test_an_answer_that_is_no_number_counts_against_both_ends():
    broken = regressor(lambda x: torch.where(x[:, 0] > X[0, 0] + 0.8, torch.nan, total(x))).certify(X[:1])[0]
    whole = regressor().certify(X[:1])[0]
    assert broken.intervals[1].high > whole.intervals[1].high
    assert broken.intervals[1].low < whole.intervals[1].low


def test_answers_are_clipped_to_bounds():
    far = regressor(radii=[1.4], estimate=20, bounds=(-0.5, 0.5)).certify(X)
    assert {(c.intervals[0].low, c.intervals[0].high) for c in far} == {(-0.5, 0.5)}
    near = regressor(lambda x: 1e6 * total(x), bounds=(-1.0, 1.0)).certify(X)
    assert all(-1 <= c.value <= 1 for c in near)


@pytest.mark.parametrize(
    "data",
    [
        lambda: (X.numpy(), Y),
        lambda: pandas.DataFrame(X.numpy(), columns=["a", "b", "c"]).assign(target=Y),
        lambda: DataLoader(TensorDataset(X, torch.tensor(Y)), shuffle=True),
    ],
)
def test_a_run_over_data_with_targets(data):
    store = sc.certify_all(regressor(), data(), InMemoryStore())
    records = sorted(store.records(), key=lambda record: record.index)
    direct = regressor().certify(X)
    for record, certificate, target in zip(records, direct, Y, strict=True):
        assert Record.from_json(record.to_json()) == record
        assert record.target == pytest.approx(float(target))
        assert record.truth is record.label is None
        assert record.enclosures == certificate.intervals
        again = certificate_of(record, certificate.region.center, store)
        assert again == certificate
        assert again.region == certificate.region
    run = sc.Run(store, "numbers")
    assert run.figure()._repr_png_()[:4] == b"\x89PNG"
    assert "within" in run._repr_html_()
    assert list(run.to_frame()["target"]) == pytest.approx(Y.tolist())


def test_a_run_goes_on_where_it_stopped_and_refuses_another(tmp_path):
    whole = sc.certify_all(regressor(), (X, Y), tmp_path / "whole")
    part = sc.certify_all(regressor(), (X, Y), tmp_path / "part", indices=[5, 1], rows=1)
    sc.certify_all(regressor(), (X, Y), part, rows=3)
    texts = [{r.index: r.to_json() for r in sc.Run(place).records} for place in (whole, part)]
    assert texts[0] == texts[1]
    with pytest.raises(RunError, match="another configuration"):
        sc.certify_all(regressor(radii=[0.2]), (X, Y), part)
    with pytest.raises(RunError, match="bounds"):
        sc.certify_all(regressor(bounds=(-1, 1)), (X, Y), part)
    with pytest.raises(RunError, match="task"):
        sc.certify_all(sc.Smoother(lambda x: x, NOISE), X, part)
    for wrong in (lambda: sc.Run(part).curve(), lambda: recertify(part, tmp_path / "again", {"alpha": 0.01})):
        with pytest.raises(RunError, match="certifies numbers"):
            wrong()


def test_infinite_ends_survive_the_record():
    store = sc.certify_all(regressor(lambda x: torch.full((len(x),), torch.nan)), X, InMemoryStore(), indices=[0])
    [record] = store.records()
    assert (record.value, record.estimation, record.estimation_invalid) == (None, ((0,),), (500,))
    assert record.enclosures[0].low == -math.inf
    assert Record.from_json(record.to_json()) == record


def test_a_record_whose_intervals_are_broken_is_refused():
    [record] = sc.certify_all(regressor(), X, InMemoryStore(), indices=[0]).records()
    text = record.to_json()
    for broken in (text.replace('"intervals":[[0.1,', '"intervals":[["a",'), text.replace("[[0.1,", "[[0.1,1.0,")):
        assert broken != text
        with pytest.raises(ValueError, match="intervals"):
            Record.from_json(broken)


class Sphere(Law):
    """Dependent coordinates, and no theorem."""

    independent = False

    def sample(self, shape, draws):
        return draws.normal(shape)

    def log_prob(self, z):
        return -0.5 * np.square(z).sum(axis=-1)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: regressor(lambda x: x), ModelError, r"shape \(200, 3\).*one real number"),
        (lambda: regressor(lambda x: x[:, :2]), ModelError, "one real number"),
        (lambda: regressor(lambda x: x.argmax(dim=1)), ModelError, "one real number"),
        (lambda: regressor(noise=sc.Noise(Sphere(), 0.5)), SettingError, "no proved radius"),
        (lambda: regressor(noise=sc.Bands(width=2)), SettingError, "not by views"),
        (lambda: regressor(noise=sc.Noise("gaussian", torch.ones(8, 3))), SettingError, "row per input is frozen"),
        (lambda: regressor(radii=[3.0]), SettingError, "largest radius"),
        (lambda: regressor(bounds=(1, 0)), SettingError, "two finite numbers"),
        (lambda: regressor(bounds=(0, math.inf)), SettingError, "two finite numbers"),
        (lambda: regressor(3), ModelError, "predict"),
    ],
)
def test_what_cannot_be_certified_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong().certify(X)


def test_a_run_that_cannot_be_is_refused_before_it_is_made(tmp_path):
    for options, settings in (({"radii": [3.0]}, {}), ({}, {"memory": tmp_path / "memory.sqlite"})):
        with pytest.raises(SettingError):
            sc.certify_all(regressor(**options), X, tmp_path / "run", **settings)
        assert not (tmp_path / "run").exists()


def test_targets_are_no_classes():
    with pytest.raises(DataError, match="--task regression"):
        sc.certify_all(sc.Smoother(lambda x: x, NOISE), ArrayDataset("numbers", X.numpy(), Y), InMemoryStore())
