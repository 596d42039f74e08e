"""Finite views in the place of noise: what is counted, what follows from it, and what is refused."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import smoothcert as sc
from smoothcert import calibration
from smoothcert.asks import tally
from smoothcert.certificates import Soundness
from smoothcert.data.rows import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.errors import InputError, RunError, SettingError
from smoothcert.estimators.bounds import Bound, Counted
from smoothcert.maths.counting import counted_reach
from smoothcert.recertify import recertify
from smoothcert.records.record import Record, certificate_of
from smoothcert.regions import Region
from smoothcert.run import certify_all
from smoothcert.sight import Sight
from smoothcert.store import open_run
from smoothcert.store.in_memory import InMemoryStore
from smoothcert.threats import Patch, ReplacedRegion
from smoothcert.tuners import tuner_named
from smoothcert.views import View, view_named

PICTURES = torch.randint(0, 256, (6, 1, 7, 7), generator=torch.Generator().manual_seed(0)) / 255
SPECS = [
    ("splitting:lam=0.5", {"norm": 1}),
    ("splitting:lam=0.1", {"norm": 1}),
    ("bands:width=2", {"threat": "patch:2"}),
    ("bands:width=2,confidence=0.4", {"norm": 0}),
    ("blocks:side=3,confidence=0.4", {"threat": "patch:1"}),
    ("ablation:keep=2,ask=all", {"norm": 0}),
]


def network(seed: int = 3, size: int = 49, classes: int = 4) -> torch.nn.Module:
    """A classifier whose answers differ from view to view."""
    torch.manual_seed(seed)
    layers = torch.nn.Flatten(), torch.nn.Linear(size, 16), torch.nn.Tanh(), torch.nn.Linear(16, classes)
    return torch.nn.Sequential(*layers).eval()


def votes_by_hand(view: View, model: torch.nn.Module, x: Tensor) -> np.ndarray:
    """All views in numpy, one after the other, each answer counted with its softmax."""
    shape, given = tuple(x.shape), x.numpy().astype(np.float64)
    given = given if view.grid is None else np.rint(given * view.grid).astype(np.int64)
    counts = np.zeros(4, dtype=int)
    for number in range(view.count(shape)):
        lens = view.lens(shape, np.array([number]))
        seen = (view.through(given, lens) / view.unit).astype(np.float32).reshape(1, *shape)
        chances = model(torch.from_numpy(seen)).detach().softmax(1)[0]
        counts[int(chances.argmax())] += float(chances.max()) >= view.confidence
    return counts


@pytest.mark.filterwarnings("ignore:the network seems to answer at random")
@pytest.mark.parametrize(("spec", "against"), SPECS)
def test_every_view_is_counted_once(spec: str, against: dict) -> None:
    """The engine's votes, in padded blocks on several workers, are those of a plain loop over all views."""
    view, model = view_named(spec), network()
    smoothed = sc.Smoother(model, view, **against, engine=Engine(block=16, workers=2))
    for certificate, x in zip(smoothed.certify(PICTURES), PICTURES, strict=True):
        by_hand = votes_by_hand(view, model, x)
        winner, reach = counted_reach(by_hand)
        assert certificate.label == int(winner)
        assert certificate.bound.lower == by_hand[winner] / view.count((1, 7, 7))
        wanted = view.region(np.asarray(certificate.region.center), smoothed.aim.against, int(reach))
        assert certificate.radius == wanted.inner_radius
        assert certificate.exact
        assert certificate.bound.alpha == 0
        assert certificate.soundness is Soundness.GLOBAL
        assert certificate.rule == f"counting, all {view.count((1, 7, 7))} views"
    assert smoothed.predict(PICTURES) == [c.label for c in smoothed.certify(PICTURES)]


def test_blocks_divide_the_views_evenly() -> None:
    smoothed = sc.Smoother(network(), view_named("splitting:lam=3"), norm=1)
    smoothed.suit((1, 7, 7))
    assert smoothed.plan.block == 192  # 1530 views in 8 blocks
    bands = sc.Smoother(network(), view_named("bands:width=2"), threat="patch:1")
    bands.suit((1, 7, 7))
    assert bands.plan.block == 7
    wide = sc.Smoother(network(), view_named("bands:width=2"), threat="patch:1", engine=Engine(block=1000))
    wide.suit((1, 7, 7))
    assert wide.plan.block == 7  # a row beyond the last view would be classified and not counted


def test_calibration_keeps_blocks_that_divide_the_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """For small inputs blocks of five times the usual size are tried, of which 7 views would fill a hundredth."""
    monkeypatch.setitem(calibration.CANDIDATES, "cpu", ("torch",))
    found = sc.calibrate(network(), Sight(view_named("bands:width=2")), PICTURES[0], Engine(workers=1))
    assert (found.engine.block, {trial.block for trial in found.trials}) == (7, {7})


def marks(x: Tensor) -> Tensor:
    """Class 1 where any number that is shown is one, else class 0."""
    found = (x.flatten(1) == 1).any(1)
    return torch.stack([~found, found], dim=1).float()


@pytest.mark.parametrize(
    ("view", "shape", "against", "size", "change"),
    [
        ("bands:width=4", (1, 28, 28), {"threat": "patch:5"}, 11, lambda x, size: x[:, :size, 3 : 3 + size].fill_(1)),
        ("blocks:side=3", (9, 9), {"threat": "patch:1"}, 4, lambda x, size: x[:size, :size].fill_(1)),
        ("ablation:keep=2,ask=all", (9,), {"norm": 0}, 2, lambda x, size: x[:size].fill_(1)),
        ("chunks:length=3", (30,), {"threat": "span:1"}, 13, lambda x, size: x[2 : 2 + size].fill_(1)),
    ],
)
def test_one_more_than_certified_flips_the_answer(
    view: str, shape: tuple[int, ...], against: dict, size: int, change: Callable
) -> None:
    """The certified size of these classifiers is known; the worst input of that size holds, and one more breaks it."""
    smoothed = sc.Smoother(marks, view_named(view), **against)
    (certificate,) = smoothed.certify(torch.zeros(1, *shape))
    assert (certificate.label, certificate.radius) == (0, size)
    assert isinstance(certificate.region, ReplacedRegion)
    for more, answer in ((0, 0), (1, 1)):
        other = torch.zeros(shape)
        change(other, size + more)
        assert certificate.region.contains(other.numpy()) is (more == 0)
        assert smoothed.predict(other[None]) == [answer]


def test_one_step_more_than_certified_flips_the_answer_of_splitting() -> None:
    """Ten views of one number in steps of 1/10, and a classifier that tells its two cells apart."""
    view = view_named("splitting:lam=0.5,steps=10")

    def upper(x: Tensor) -> Tensor:  # of an input between 0 and 1, the middle of the cell above a cut is above 1/2
        return torch.stack([x[:, 0] < 0.5, x[:, 0] >= 0.5], dim=1).float()

    smoothed = sc.Smoother(upper, view, norm=1)
    points = torch.arange(11).div(10)[:, None]
    answers = smoothed.predict(points)
    for start, reach in ((0, 5), (10, 4)):  # of 10 views; the second class needs one more than half
        (certificate,) = smoothed.certify(points[start, None])
        assert certificate.radius == pytest.approx(reach / 10)
        away = np.abs(np.arange(11) - start)
        assert all(certificate.region.contains([k / 10]) == (away[k] <= reach) for k in range(11) if away[k] != reach)
        assert answers[start] == certificate.label
        assert [answers[k] == certificate.label for k in range(11)] == (away <= reach).tolist()


def test_views_that_are_not_sure_vote_for_nobody() -> None:
    """Not for the rival either: 4 of 7 unsure views would otherwise make the class lose what it has."""

    def sure_of_marks(x: Tensor) -> Tensor:
        return torch.stack([torch.zeros(len(x)), 9.0 * (x.flatten(1) == 1).any(1), torch.full((len(x),), -9.0)], dim=1)

    x = torch.zeros(1, 1, 7, 7)
    x[..., 2] = 1
    smoothed = sc.Smoother(sure_of_marks, view_named("bands:width=3,confidence=0.9"), threat="patch:1")
    (certificate,) = smoothed.certify(x)
    assert (certificate.label, certificate.bound.lower, certificate.bound.upper) == (1, 3 / 7, 0.0)
    assert counted_reach([0, 3, 0])[1] == 1  # a rival of no votes before the class: (3 - 0 - 1) // 2
    assert certificate.radius == 0  # the least patch touches 3 bands


def test_no_numbers_and_ties() -> None:
    """All votes for nobody, or as many for two classes: still an answer, the first of equals, at this input alone."""
    views = view_named("bands:width=1")
    nothing = sc.Smoother(lambda x: torch.full((len(x), 3), torch.nan), views, threat="patch:1", check=False)
    (certificate,) = nothing.certify(torch.zeros(1, 1, 4, 4))
    assert (certificate.label, certificate.radius, certificate.soundness) == (0, 0, Soundness.ESTIMATE)
    even = torch.zeros(1, 1, 4, 4)
    even[..., :2] = 1
    (tie,) = sc.Smoother(marks, views, threat="patch:1").certify(even)
    assert (tie.label, tie.bound.lower, tie.bound.upper, tie.radius) == (0, 0.5, 0.5, 0)


def test_confidence_of_a_vote() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 0.1], [math.nan, 9.0]])
    assert tally(logits).tolist() == [1, 2, 1]
    assert tally(logits, 0.8).tolist() == [1, 1, 2]
    assert tally(logits, 0.99).tolist() == [0, 0, 4]


def test_no_alpha_is_for_complete_votes_alone() -> None:
    with pytest.raises(SettingError, match="only there"):
        Bound(0.9, 0.0, 100)
    with pytest.raises(SettingError, match="only there"):
        Counted(0.9, 0.001, 100)
    with pytest.raises(SettingError, match="alpha"):
        sc.Smoother(network(), view_named("ablation:keep=3"), norm=0, alpha=0.0)
    with pytest.raises(SettingError, match="alpha"):
        sc.Smoother(network(), sc.Noise.isotropic("gaussian", 0.5), alpha=0.0)


def test_sampled_views_have_their_alpha() -> None:
    """Of 49 pixels 5 are kept: too many subsets to ask, so the size follows from a bound, by exact fractions."""
    view = view_named("ablation:keep=5,ask=sampled")
    smoothed = sc.Smoother(marks, view, norm=0, estimator="fixed", estimate=2000, select=50)
    (certificate,) = smoothed.certify(torch.zeros(1, 1, 7, 7))
    bound = certificate.bound
    assert (certificate.label, bound.alpha, bound.trials, certificate.exact) == (0, 0.001, 2000, False)
    assert certificate.rule == "counting, sampled views"

    def changed(replaced: int) -> Fraction:
        return 1 - Fraction(math.comb(49 - replaced, 5), math.comb(49, 5))

    margin = Fraction(bound.lower) - Fraction(1 - bound.lower)
    assert certificate.radius == max(size for size in range(50) if 2 * changed(size) < margin)
    assert smoothed.predict(torch.zeros(1, 1, 7, 7)) == [0]


def test_sampled_votes_stop_early_and_prove_what_was_asked() -> None:
    view = view_named("ablation:keep=5")
    smoothed = sc.Smoother(marks, view, norm=0, radii=[3], estimate=100_000)
    (certificate,) = smoothed.certify(torch.zeros(1, 1, 7, 7))
    assert certificate.bound.trials < 2_000
    assert certificate.radius >= 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sc.Smoother(marks, sc.Noise.isotropic("gaussian", 1.0), threat="patch:5"), "needs views"),
        (lambda: sc.Smoother(marks, view_named("splitting:lam=1"), threat="patch:5"), "no certificate against patch"),
        (lambda: sc.Smoother(marks, view_named("splitting:lam=1")), "no certificate against l2.*norm 1"),
        (lambda: sc.Smoother(marks, view_named("bands:width=4"), norm=1), "no certificate against l1"),
        (lambda: sc.Smoother(marks, view_named("chunks"), threat="patch:1"), "no certificate against patch"),
        (
            lambda: sc.Smoother(marks, view_named("bands"), threat="patch:1", tuner=tuner_named("ancer")),
            "views are fixed",
        ),
        (lambda: sc.Smoother(marks, view_named("bands"), threat="patch:1", own_randomness=True), "fixed function"),
        (lambda: sc.Smoother(marks, view_named("bands"), threat="disc:1"), "unknown threat"),
        (lambda: sc.Smoother(marks, view_named("bands"), threat="patch:x"), "whole number"),
        (lambda: _certify("bands:width=4", (1, 28, 28), threat="patch:29"), r"larger than inputs.*patch:28"),
        (lambda: _certify("bands:width=40", (1, 28, 28), threat="patch:2"), "width=40"),
        (lambda: _certify("bands:width=4", (12,), threat="patch:2"), "no pictures"),
        (lambda: _certify("splitting:lam=0.3333", (1, 4, 4), norm=1), "whole number"),
        (lambda: _certify("ablation:keep=20,ask=all", (49,), norm=0), "sample them"),
        (
            lambda: sc.Smoother(marks, view_named("bands"), norm=0).predict(torch.zeros(1, 1, 5, 5), votes=3),
            "all of which",
        ),
    ],
)
def test_refusals(make: Callable, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make()


def _certify(view: str, shape: tuple[int, ...], **against: object) -> None:
    sc.Smoother(marks, view_named(view), **against).certify(torch.zeros(1, *shape))


def test_off_the_grid() -> None:
    with pytest.raises(InputError, match="off the grid"):
        sc.Smoother(marks, view_named("splitting:lam=1"), norm=1).certify(torch.full((1, 4), 0.3))


def data() -> ArrayDataset:
    return ArrayDataset("six", PICTURES.numpy(), np.arange(6) % 4, classes=4)


def texts(store: InMemoryStore) -> list[str]:
    return [record.to_json() for record in store.records()]


@pytest.mark.filterwarnings("ignore:the network seems to answer at random")
@pytest.mark.parametrize(("spec", "against"), SPECS[1:4])
def test_records_are_the_same_bytes_and_read_back(spec: str, against: dict) -> None:
    """Over workers, rows, interruptions and what votes under noise would depend on."""

    def smoothed(**other: object) -> sc.Smoother:
        engine = Engine(workers=other.pop("workers", 1), block=other.pop("block", None))
        return sc.Smoother(network(), view_named(spec), **against, engine=engine, **other)

    whole = certify_all(smoothed(), data(), InMemoryStore())
    for other, rows in (({"workers": 3}, 2), ({"seed": 9, "select": 7, "estimate": 500, "alpha": 0.01}, 64)):
        assert texts(certify_all(smoothed(**other), data(), InMemoryStore(), rows=rows)) == texts(whole)
    parts = certify_all(smoothed(), data(), InMemoryStore(), indices=[4, 1])
    assert texts(certify_all(smoothed(workers=2), data(), parts)) == texts(whole)
    with pytest.raises(RunError, match="another configuration"):
        certify_all(smoothed(block=5), data(), parts)
    configuration = whole.facts()["configuration"]
    assert (configuration["alpha"], configuration["estimator"], configuration["select"]) == (0.0, "all views", 0)
    for record, certificate in zip(whole.records(), smoothed().certify(PICTURES), strict=True):
        assert Record.from_json(record.to_json()) == record
        back = certificate_of(record, np.asarray(certificate.region.center), whole)
        assert (back.label, back.radius, back.exact, back.bound) == (
            *(certificate.label, certificate.radius, True, certificate.bound),
        )
        assert type(back.region) is type(certificate.region)
        assert record.exact
        assert record.leader == record.label
        assert record.log_volume is None or isinstance(back.region, Region)
        assert ("threat" in json.loads(record.to_json())) is isinstance(back.region, ReplacedRegion)


@pytest.mark.slow  # two of the runtimes take seconds to be imported
@pytest.mark.filterwarnings("ignore:the network seems to answer at random")
@pytest.mark.parametrize("spec", ["bands:width=2,hidden=0,confidence=0.4", "splitting:lam=0.1"])
def test_records_are_the_same_bytes_in_every_runtime(spec: str) -> None:
    """Who computes the network changes no vote: rounding decides none of these, whose classes are never nearly alike."""
    pytest.importorskip("onnxruntime", reason="it is not installed")
    pytest.importorskip("openvino", reason="it is not installed")
    pytest.importorskip("onnxscript", reason="torch's exporter needs it; it is not installed")
    against = {"norm": 1} if spec.startswith("splitting") else {"threat": "patch:1"}

    model = network()
    for weights in model.parameters():
        weights.data *= 6

    def found(runtime: str, workers: int) -> list[str]:
        engine = Engine(workers=workers, runtime=runtime)
        return texts(
            certify_all(sc.Smoother(model, view_named(spec), **against, engine=engine), data(), InMemoryStore())
        )

    plain = found("torch", 1)
    assert any(np.count_nonzero(json.loads(text)["estimation"]) > 1 for text in plain)
    for runtime in ("folded", "compiled", "onnxruntime", "openvino"):
        assert found(runtime, 2) == plain, runtime


def test_complete_votes_are_judged_again_for_another_threat(tmp_path: Path) -> None:
    smoothed = sc.Smoother(marks, view_named("bands:width=2"), threat="patch:1")
    certify_all(
        smoothed, ArrayDataset("zeros", np.zeros((2, 1, 9, 9), np.float32), np.zeros(2, int), classes=2), tmp_path / "a"
    )
    assert recertify(tmp_path / "a", tmp_path / "b", {"threat": "l0:1"}) == 2
    with open_run(tmp_path / "a") as store:
        first = next(iter(store.records()))
    with open_run(tmp_path / "b") as store:
        again = next(iter(store.records()))
    assert (first.threat, first.radius) == ("patch", 3)  # 4 of 9 views may change: a patch of side 3 meets 4
    assert again == replace(first, threat="l0", radius=2.0, proxy_radius=2.0, region_radius=2.0)
    with pytest.raises(SettingError, match="exact"):
        recertify(tmp_path / "a", tmp_path / "c", {"alpha": 0.01})


def test_memory_is_for_regions_in_a_norm() -> None:
    memory = sc.Memory()
    smoothed = sc.Smoother(network(), view_named("splitting:lam=0.1"), norm=1, memory=memory)
    first = smoothed.certify(PICTURES[:2])
    assert [c.soundness for c in first] == [Soundness.GLOBAL] * 2
    assert all(c.exact for c in first)
    assert len(memory) == 2
    assert smoothed.predict(PICTURES[:2]) == [c.label for c in first]
    with pytest.raises((SettingError, InputError), match="norm|threat"):
        sc.Smoother(network(), view_named("bands:width=2"), threat="patch:1", memory=sc.Memory()).certify(PICTURES)


def test_gradients_pass_through_views() -> None:
    """For attacks: through what is kept, and through cells as if they were points."""
    for spec, against in SPECS[:3]:
        x = PICTURES[:2].clone().requires_grad_()
        sc.Smoother(network(), view_named(spec), **against)(x).max().backward()
        assert float(x.grad.abs().sum()) > 0


def test_sizes_of_regions() -> None:
    region = ReplacedRegion(np.zeros((1, 4, 4)), Patch(2))
    assert (region.inner_radius, region.norm, region.size) == (2.0, 0.0, 2)
