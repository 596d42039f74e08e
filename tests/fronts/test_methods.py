"""Every way of choosing noise, behind fronts of numbers and of pictures: what is certified, and what it is called.

A plane in the numbers stays one under any symmetric noise, so no region may reach across it, whatever was chosen. Three
inputs of each method, 1 000 votes, alpha 0.001: false alarms have probability below 0.06 over all of them, seeds are fixed.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert import data
from smoothcert.engine import Engine
from smoothcert.errors import SettingError
from smoothcert.fronts import BlockSums, Front, PrincipalComponents
from smoothcert.linear import LinearRegion
from smoothcert.maths.boxed import Box
from smoothcert.store import open_run
from smoothcert.testing.problems import HalfSpace
from smoothcert.tuners import TUNERS, Pattern
from smoothcert.tuners.generators import Design, Generator
from smoothcert.tuners.maps import Maps

UNIT = Box(0, 1)
X = torch.from_numpy(data.load("digits").inputs([1, 5, 8]))
FRONTS = {
    "pca": PrincipalComponents(k=9).fit(data.load("digits:split=train").inputs(range(200)), UNIT),
    "blocks": BlockSums(side=7).over((1, 28, 28), pixels=True, box=UNIT),
}
TINY = {
    "fixed": "",
    "data_dependent": ":votes=100",
    "data_dependent_published": ":steps=4",
    "ancer": ":steps=3,draws=16,votes=60",
    "ancer_published": ":steps=3,draws=8,isotropic_steps=2",
    "hill_climb": ":votes=60",
}


def factors(front: Front) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.5, 2.0, front.seen)


def per_input(front: Front) -> sc.Tuner:
    torch.manual_seed(3)
    return TUNERS["per_input"](Generator(Design("per_input", front.seen, 0.2, 2.0, False, 4)))


MADE: dict[str, Callable[[Front], sc.Tuner | str]] = {
    **{name: lambda _, spec=name + more: spec for name, more in TINY.items()},
    "pattern": lambda front: Pattern(factors(front)),
    "dataset": lambda front: TUNERS["dataset"](Maps(factors(front))),
    "per_input": per_input,
}


def smoothed(front: Front, tuner: sc.Tuner | str, **more: object) -> sc.Smoother:
    z = front.encode(X.numpy()).reshape(len(X), -1).astype(float)
    weight = np.random.default_rng(1).normal(size=z.shape[1])
    plane = HalfSpace(torch.from_numpy(weight).float(), offset=-float(np.median(z @ weight)) - 0.4)
    noise = sc.Noise.isotropic("gaussian", 0.3)
    settings = {"estimator": "fixed", "estimate": 1_000, "engine": Engine(workers=1)} | more
    return sc.Smoother(plane, noise, front=front, tuner=tuner, **settings)


def test_none_is_left_out() -> None:
    assert MADE.keys() | {"reuse"} == TUNERS.keys()


@pytest.mark.parametrize("kind", FRONTS)
@pytest.mark.parametrize("name", MADE)
def test_no_region_reaches_the_plane(name: str, kind: str) -> None:
    front = FRONTS[kind]
    if (name, kind) == ("per_input", "pca"):
        with pytest.raises(SettingError, match="reads images"):
            MADE[name](front)
        return
    smoother = smoothed(front, MADE[name](front))
    assert isinstance(smoother.model.model, HalfSpace)
    weight, label = smoother.model.model.weight.double().numpy(), "frozen" if TUNERS[name].reads_input else "global"
    regions = []
    for x, found in zip(X.numpy(), smoother.certify(X), strict=True):
        assert found.soundness == label
        if not isinstance(found.region, LinearRegion):
            continue
        z = front.encode(x[None]).ravel().astype(float)
        # The furthest that the region reaches towards the plane: by its own map, whatever scale was chosen.
        reach = found.region.radius * np.linalg.norm(found.region.map.inverse.T @ front.matrix.T @ weight)
        assert reach <= abs(z @ weight + smoother.model.model.offset)
        regions.append(found.region)
    assert len(regions) >= 2
    if name not in ("fixed", "data_dependent_published"):  # that one moves by less than a grid step
        lengths = 0.3 * np.array([np.linalg.norm(region.map.matrix, axis=1) for region in regions])
        assert np.abs(lengths / np.linalg.norm(front.matrix, axis=1) - 1).max() > 0.05, "nothing was chosen"


@pytest.mark.parametrize("kind", FRONTS)
def test_noise_of_another_run_and_a_memory(kind: str, tmp_path) -> None:
    dataset = data.ArrayDataset("digits", np.rint(X.numpy() * 255).astype(np.uint8))
    first = smoothed(FRONTS[kind], MADE["ancer"](FRONTS[kind]))
    for indices in ([0], None):  # a run that goes on finds its promises again
        sc.certify_all(first, dataset, tmp_path / "a", memory=tmp_path / "a", indices=indices)
    again = smoothed(FRONTS[kind], f"reuse:run={tmp_path / 'a'}", seed=1)
    sc.certify_all(again, dataset, tmp_path / "b")
    with open_run(tmp_path / "a") as one, open_run(tmp_path / "b") as other:
        kept, used = list(one.records()), list(other.records())
    assert {record.soundness for record in kept} == {"memory"}
    assert {record.soundness for record in used} == {"frozen"}
    assert [record.scale for record in kept] == [record.scale for record in used]
    assert all(record.radius > 0 and record.front is not None and math.isfinite(record.radius) for record in kept)
