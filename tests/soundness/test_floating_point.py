"""Two classifiers that recognise their home input by rounding alone: they break noise added in float32, not the grid.

Home and its neighbour differ by one pixel step in each of 3 072 coordinates, an l2 distance of 0.217; sigma is 0.5.
"""

import math

import pytest
import torch
from torch import Tensor

from smoothcert.laws import law_named
from smoothcert.noise import Noise, quantise
from smoothcert.seeds import Stage, TorchDraws, draws_for
from smoothcert.smoother import Smoother
from smoothcert.testing.problems import QuotientProbe, RoundingProbe
from smoothcert.views import View, view_named

VOTES, SIGMA, GRID = 2_000, 0.5, 1 / 255


@pytest.fixture(scope="module")
def pair() -> tuple[Tensor, Tensor]:
    """An 8-bit image, and the same with every pixel one step brighter: (1, 3, 32, 32) each."""
    steps = torch.randint(0, 255, (1, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    home, neighbour = (steps / 255).float(), ((steps + 1) / 255).float()
    assert math.isclose(float((home - neighbour).norm()), 0.217, abs_tol=1e-3)
    return home, neighbour


def test_noise_in_float32_is_broken_by_rounding(pair: tuple[Tensor, Tensor]) -> None:
    """The danger is real: certified beyond 1 at home, and the other answer at 0.217."""
    home, neighbour = pair
    smoother = Smoother(RoundingProbe(home[0]), Noise.isotropic("gaussian", SIGMA), estimator="fixed", estimate=VOTES)
    [certificate] = smoother.certify(home)
    assert certificate.label == 1
    assert certificate.radius > 1.0
    assert smoother.predict(neighbour) == [0]


def test_rounding_the_noise_alone_is_not_enough(pair: tuple[Tensor, Tensor]) -> None:
    """x + j/255 in float32 is recognised by the second probe: all votes at home, none at the neighbour."""
    home, neighbour = pair
    probe = QuotientProbe(home[0])

    def wins(x: Tensor) -> int:
        draws = draws_for(0, 0, Stage.ESTIMATE, 0, dtype=torch.float64)
        steps = (law_named("gaussian").sample((VOTES, *x.shape[1:]), draws) * SIGMA * 255).round()
        return int(probe(x + (steps / 255).float()).argmax(dim=1).sum())

    assert (wins(home), wins(neighbour)) == (VOTES, 0)


@pytest.mark.parametrize("probe", [RoundingProbe, QuotientProbe])
def test_neither_probe_breaks_the_pixel_grid(pair: tuple[Tensor, Tensor], probe: type) -> None:
    home, neighbour = pair
    smoother = Smoother(
        probe(home[0]), Noise.isotropic("gaussian", SIGMA, grid=GRID), estimator="fixed", estimate=VOTES
    )
    [certificate] = smoother.certify(home)
    assert certificate.label is not None
    assert certificate.region is not None
    assert certificate.region.contains(quantise(neighbour[0], 255).numpy() / 255)
    assert smoother.predict(neighbour) == [certificate.label]


def test_grid_copies_are_a_function_of_the_integer_sum() -> None:
    """The copy of pixel k under jump j is the float32 nearest (k + j)/255, whatever k and j are."""
    noise = Noise("gaussian", 0.5, loc=0.1, grid=GRID)
    x = (torch.arange(256) / 255).float()
    jumps = (law_named("gaussian").sample((50, 256), _draws()) * (0.5 * 255) + 0.1 * 255).round().long()
    expected = (jumps + torch.arange(256)).float() / 255
    assert torch.equal(noise.copies(x, 50, _draws()), expected)


def _draws() -> TorchDraws:
    return draws_for(0, 0, Stage.SELECT, 0, dtype=torch.float64)


def _tells_zeros_apart(rows: Tensor) -> Tensor:
    """Class 1 for a row with a −0 in it."""
    return torch.stack([torch.full((len(rows),), 0.5), (rows.signbit() & (rows == 0)).any(dim=1).float()], dim=1)


@pytest.mark.parametrize(
    ("noise", "how"),
    [
        (Noise("gaussian", 0.001, grid=GRID), {}),
        (Noise("gaussian", [0.001] * 8, grid=GRID), {}),  # type: ignore[arg-type]
        (view_named("ablation:keep=6,ask=all"), {"threat": "l0:1"}),
    ],
    ids=["looked up", "drawn", "views"],
)
def test_minus_zero_is_zero(noise: Noise | View, how: dict[str, str]) -> None:
    """They are one point, so that a certificate of one is of the other; noise this small leaves a pixel as it is."""
    smoother = Smoother(_tells_zeros_apart, noise, estimate=200, **how)  # type: ignore[arg-type]
    written = [torch.zeros(1, 8), -torch.zeros(1, 8), *([torch.full((1, 8), -1e-9)] if not how else [])]
    assert _tells_zeros_apart(written[1]).argmax() == 1
    assert [smoother.certify(x)[0].label for x in written] == [0] * len(written)
    assert [smoother.predict(x) for x in written] == [[0]] * len(written)
