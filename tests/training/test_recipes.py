"""Each loss against a small implementation of its own: one input and one copy at a time, in numpy, gradients by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

from smoothcert.errors import SettingError, UnknownName
from smoothcert.laws import LAWS, law_named
from smoothcert.noise import Noise
from smoothcert.training import RECIPES, Batch, Noising, recipe_named
from smoothcert.training.data_dependent import LIMITS, STEP, improved
from smoothcert.training.noising import logits_of
from smoothcert.training.smoothadv import SmoothAdv, mean_cross_entropy
from smoothcert.training.soft_radius import gap

BATCH, SHAPE, CLASSES = 5, (2, 3), 4
X = torch.rand(BATCH, *SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 3, 1])
OWN = torch.tensor([0.1, 0.4, 0.7, 1.0, 1.3], dtype=torch.float64).view(-1, 1, 1)  # a scale per input
Loss = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


class Linear(nn.Module):
    """Float64 logits W·x, the smallest model whose answers are easy to work out by hand."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        weights = torch.randn(CLASSES, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        self.weight = nn.Parameter(scale * weights)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight.T


def noising(scale: Tensor = OWN, law: str = "gaussian", seed: int = 3) -> Noising:
    return Noising(law_named(law), scale, torch.zeros((), dtype=torch.float64), torch.Generator().manual_seed(seed))


def draws(count: int, law: str = "gaussian") -> np.ndarray:
    """The noise that a recipe will get, laid out by hand: copy i of input j has input j's scale."""
    unit = noising(torch.ones((), dtype=torch.float64), law).draw(X, count).numpy()
    return np.array([[float(OWN[j]) * unit[i, j] for j in range(BATCH)] for i in range(count)])


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    return float(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True)))


def answers(weight: np.ndarray, x: np.ndarray, noise: np.ndarray, sharpness: float = 1.0) -> list[np.ndarray]:
    """The softmax of each noisy copy of one input."""
    return [softmax(sharpness * weight @ (x + each).ravel()) for each in noise]


def by_hand(one: Callable[[np.ndarray, np.ndarray, int, np.ndarray, float], float], count: int, law: str) -> Loss:
    """The mean over the batch of a loss of one input (weight, x, y, its noise, its scale)."""
    noise = draws(count, law)

    def mean(weight: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean([one(weight, x[j], int(y[j]), noise[:, j], float(OWN[j])) for j in range(BATCH)]))

    return mean


def gaussian(weight: np.ndarray, x: np.ndarray, y: int, noise: np.ndarray, scale: float) -> float:
    return -np.log(answers(weight, x, noise)[0][y])


def stability(weight: np.ndarray, x: np.ndarray, y: int, noise: np.ndarray, scale: float) -> float:
    clean = softmax(weight @ x.ravel())
    return -np.log(clean[y]) + 6 * divergence(clean, answers(weight, x, noise)[0])


def consistency(weight: np.ndarray, x: np.ndarray, y: int, noise: np.ndarray, scale: float) -> float:
    each = answers(weight, x, noise)
    mean = sum(each) / len(each)
    truth = np.mean([-np.log(p[y]) for p in each])
    alike = np.mean([divergence(mean, p) for p in each])
    return truth + 7 * alike + 0.5 * -float((mean * np.log(mean)).sum())


def macer(weight: np.ndarray, x: np.ndarray, y: int, noise: np.ndarray, scale: float) -> float:
    each = answers(weight, x, noise)
    votes = np.mean(answers(weight, x, noise, sharpness=2.0), axis=0)
    second, first = np.sort(votes)[-2:]
    lost = scale / 2 * max(0.0, 8 - (norm.ppf(first) - norm.ppf(second))) if votes.argmax() == y else 0.0
    return -np.log(np.mean(each, axis=0)[y]) + 12 * lost


def smoothadv(weight: np.ndarray, x: np.ndarray, y: int, noise: np.ndarray, scale: float) -> float:
    """The attack by hand; its result is a constant for the gradient, so it is worked out from the starting weights."""
    start, moved = Linear().weight.detach().numpy(), x.copy()
    for _ in range(2):
        each = answers(start, moved, noise)
        # −log mean_i p_i[y] has the slope −Σ_i p_i[y]·(W_y − Σ_c p_i[c] W_c) / Σ_i p_i[y] in x.
        slope = -sum(p[y] * (start[y] - p @ start) for p in each) / sum(p[y] for p in each)
        moved = moved + 2 * 0.5 / 2 * (slope / np.linalg.norm(slope)).reshape(x.shape)
        moved = x + (moved - x) * min(1.0, 0.5 / np.linalg.norm(moved - x))
    return float(np.mean([-np.log(p[y]) for p in answers(weight, moved, noise)]))


def several_draws(weight: np.ndarray, x: np.ndarray, y: int, noise: np.ndarray, scale: float) -> float:
    return float(np.mean([-np.log(p[y]) for p in answers(weight, x, noise)]))


def gambler(weight: np.ndarray, x: np.ndarray, y: int, noise: np.ndarray, scale: float) -> float:
    [chances] = answers(weight, x, noise)
    return -np.log(chances[y] + chances[-1] / 2.5)


CASES: dict[str, tuple[str, Any, int]] = {
    "gaussian": ("gaussian", gaussian, 1),
    "stability": ("stability", stability, 1),
    "consistency": ("consistency:draws=3,strength=7", consistency, 3),
    "smoothadv": ("smoothadv:draws=3", smoothadv, 3),
    "macer": ("macer:draws=3,sharpness=2", macer, 3),
    "ucan": ("ucan:draws=3", several_draws, 3),
    "gambler": ("gambler:odds=2.5", gambler, 1),
}


@pytest.mark.parametrize("name", RECIPES)
def test_loss_and_gradient_are_those_of_a_second_implementation(name: str) -> None:
    """Float64, a scale of its own for each input: scales that slip to another copy or input change both numbers."""
    spec, one, count = CASES[name]
    model, second = Linear(), by_hand(one, count, "gaussian")
    loss = recipe_named(spec).loss(model, Batch(X, Y, noising()))
    loss.backward()
    weight, x, y = model.weight.detach().numpy(), X.numpy(), Y.numpy()
    assert float(loss.detach()) == pytest.approx(second(weight, x, y), rel=1e-12)
    slope, step = np.zeros_like(weight), 1e-6
    for place in np.ndindex(weight.shape):
        ahead, behind = weight.copy(), weight.copy()
        ahead[place] += step
        behind[place] -= step
        slope[place] = (second(ahead, x, y) - second(behind, x, y)) / (2 * step)
    assert model.weight.grad is not None
    np.testing.assert_allclose(model.weight.grad.numpy(), slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", RECIPES)
def test_each_copy_has_the_scale_of_its_own_input(name: str) -> None:
    """Noise on one input alone: the clean ones' logits must be exact in every copy that the recipe asks for."""
    seen: list[Tensor] = []

    class Watched(Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x.detach())
            return super().forward(x)

    alone = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0], dtype=torch.float64).view(-1, 1, 1) + 1e-300
    spec, _, _ = CASES[name]
    recipe_named(spec).loss(Watched(), Batch(X, Y, noising(alone), warmth=0.0))
    copies = torch.cat(seen).view(-1, BATCH, *SHAPE)
    for rows in copies:
        noisy = (rows != X).flatten(1).any(1)
        assert not noisy[[0, 1, 3, 4]].any()
    assert (copies[-1] != X)[2].all()


@pytest.mark.parametrize("law", ["gaussian", "laplace", "uniform", "generalized_normal:beta=1.5", "cauchy"])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_every_law_and_a_scale_that_learns(name: str, law: str) -> None:
    log_scale = torch.zeros(BATCH, *SHAPE, dtype=torch.float64, requires_grad=True)
    model = Linear()
    loss = recipe_named(name).loss(model, Batch(X, Y, noising(log_scale.exp(), law)))
    loss.backward()
    for slope in (log_scale.grad, model.weight.grad):
        assert slope is not None
        assert slope.isfinite().all()
        assert slope.any()


def test_macer_pushes_the_soft_radius_up() -> None:
    """Steps down the robustness part alone (the rest is subtracted) widen the gap of the inputs that are right."""
    model, batch = Linear(), Batch(X, Linear()(X).argmax(-1), noising(torch.full((), 0.3, dtype=torch.float64)))
    recipe, plain = recipe_named("macer:sharpness=2"), recipe_named("macer:sharpness=2,strength=0")

    def radius() -> float:
        logits = logits_of(model, noising(batch.noising.scale, seed=9).copies(X, 200))
        return float(gap(batch.noising.law, (2 * logits).softmax(-1).mean(0), 1e-5).mean().detach())

    before = radius()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for seed in range(20):
        optimizer.zero_grad()
        fresh = [Batch(X, batch.y, noising(batch.noising.scale, seed=seed)) for _ in range(2)]
        (recipe.loss(model, fresh[0]) - plain.loss(model, fresh[1])).backward()
        optimizer.step()
    assert radius() > before + 0.5


@pytest.mark.parametrize("radius", [0.1, 1.0])
def test_the_attack_raises_the_loss_inside_its_ball(radius: float) -> None:
    model, noise = Linear(), noising().draw(X, 4)
    recipe = SmoothAdv(draws=4, steps=5, radius=radius)
    shift = recipe.attack(model, X, Y, noise, radius)
    lengths = shift.flatten(1).norm(dim=1)
    assert (lengths <= radius * (1 + 1e-12)).all()
    assert (lengths > 0.5 * radius).all()

    def each(x: Tensor) -> Tensor:
        return mean_cross_entropy(logits_of(model, x + noise), Y)

    assert (each(X + shift) > each(X)).all()
    other = torch.randn(X.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    other *= (radius / other.flatten(1).norm(dim=1)).view(-1, 1, 1)
    assert (each(X + shift) > each(X + other)).all()  # a random direction of full length does less harm
    assert not recipe.attack(model, X, Y, noise, 0.0).any()


def test_looking_at_a_model_leaves_its_batch_norm_alone() -> None:
    model = nn.Sequential(
        nn.Flatten(), nn.BatchNorm1d(6, dtype=torch.float64), nn.Linear(6, CLASSES, dtype=torch.float64)
    )
    before = model[1].running_mean.clone()
    SmoothAdv().attack(model, X, Y, noising().draw(X, 2), 0.5)
    improved(model, X, noising(), torch.ones(BATCH, dtype=torch.float64))
    assert model.training
    assert torch.equal(model[1].running_mean, before)


def test_the_warm_up_grows_the_ball() -> None:
    """At warmth 0 the loss is the cross-entropy of noisy copies; it rises with the ball."""
    losses = [float(SmoothAdv().loss(Linear(), Batch(X, Y, noising(), warmth)).detach()) for warmth in (0.0, 0.5, 1.0)]
    copies = noising().copies(X, 2).flatten(0, 1)
    assert losses[0] == pytest.approx(float(nn.functional.cross_entropy(Linear()(copies), Y.repeat(2)).detach()))
    assert losses[0] < losses[1] < losses[2]


@pytest.mark.parametrize(
    "law", [name for name in LAWS if name not in ("pareto", "generalized_normal")] + ["pareto:beta=3"]
)
def test_the_soft_radius_has_the_slope_of_the_quantile(law: str) -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.1, 0.4]], dtype=torch.float64, requires_grad=True)
    found = gap(law_named(law), p, 0.001)
    found.sum().backward()
    quantile = law_named(law).quantile
    np.testing.assert_allclose(
        found.detach(), quantile(np.array([0.7, 0.5])) - quantile(np.array([0.2, 0.4])), rtol=1e-9
    )
    step = 1e-5
    ahead, behind = (quantile(np.array([0.7, 0.2]) + sign * step) for sign in (1, -1))
    slopes = (ahead - behind) / (2 * step)
    assert p.grad is not None
    np.testing.assert_allclose(p.grad[0], [slopes[0], -slopes[1], 0.0], rtol=1e-4)


def test_sigma_of_one_input_climbs_its_own_soft_radius() -> None:
    """A step on log σ by hand for each input: Φ⁻¹ gaps of one draw, slope by differences."""
    model, factors = Linear(0.5), torch.tensor([0.6, 0.8, 1.0, 1.2, 1.4], dtype=torch.float64)
    found = improved(model, X, noising(), factors)
    noise, weight = draws(1)[0], model.weight.detach().numpy()

    def radius(j: int, log: float) -> float:
        p = np.sort(softmax(weight @ (X[j].numpy() + np.exp(log) * noise[j]).ravel())).clip(0.02, 0.98)
        return float(np.exp(log) * (norm.ppf(p[-1]) - norm.ppf(p[-2])))

    for j in range(BATCH):
        log, step = float(factors[j].log()), 1e-6
        slope = (radius(j, log + step) - radius(j, log - step)) / (2 * step)
        assert float(found[j]) == pytest.approx(np.exp(log + STEP * slope), rel=1e-7)
    assert (improved(model, X, noising(), torch.full((BATCH,), 50.0, dtype=torch.float64)) == LIMITS[1]).all()


def test_wrong_recipes_are_named() -> None:
    with pytest.raises(UnknownName, match="unknown recipe 'marcer'; did you mean 'macer'"):
        recipe_named("marcer")
    with pytest.raises(SettingError, match="consistency:draws=2,strength=10,entropy=0.5"):
        recipe_named("consistency:lambda=3")
    with pytest.raises(
        SettingError, match="smoothadv: steps=0 is outside what it may be; steps must be a finite number of at least 1"
    ):
        recipe_named("smoothadv:steps=0")
    with pytest.raises(SettingError, match=r"draws='1\.5' must be a whole number"):
        recipe_named("macer:draws=1.5")
    with pytest.raises(SettingError, match="strength must be a finite number of at least 0"):
        recipe_named("stability:strength=-1")
    assert str(recipe_named("consistency:draws=4")) == "consistency:draws=4,strength=10,entropy=0.5"


def test_loc_and_scale_are_those_of_the_noise() -> None:
    noise = Noise("gaussian", 1e-9, loc=torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    copies = Noising(noise.law, noise.scale, noise.loc, torch.Generator()).copies(X, 2)
    assert torch.allclose(copies, (X + noise.loc).expand(2, *X.shape), atol=1e-7)
