"""Noise: its scale, its shift, its grid, and what is refused."""

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.errors import InputError, NotFixed, SettingError
from smoothcert.noise import quantise
from smoothcert.seeds import Stage, draws_for
from smoothcert.testing.problems import HalfSpace

GAUSSIAN = sc.Noise.isotropic("gaussian", sigma=0.5)


def smoother(noise: sc.Noise) -> sc.Smoother:
    return sc.Smoother(lambda batch: batch.flatten(1)[:, :2], noise)


class TestNoise:
    def test_an_array_changed_later_does_not_change_the_noise(self) -> None:
        """Draws are scaled by a prepared copy and radii by the scale: were they to differ, a certificate would be wrong."""
        scale, loc = np.ones(3), np.zeros(3)
        noise = sc.Noise("gaussian", scale, loc)
        scale *= 2
        loc += 1
        assert noise.scale.tolist() == [1, 1, 1]
        assert noise.loc.tolist() == [0, 0, 0]

    @pytest.mark.parametrize("grid", [None, 1 / 255])
    @pytest.mark.parametrize("shared", [False, True])
    def test_a_scale_changed_in_place_is_that_of_the_next_draws(self, grid: float | None, shared: bool) -> None:
        """Four times the scale under the old draws proved 3.5 of an input at distance 1, also by what was given out before."""
        noise, x = sc.Noise("gaussian", 0.5, grid=grid), torch.tensor([[1.0, 0.0]])
        plane, engine = HalfSpace(torch.tensor([1.0, 0.0])), sc.Engine(shared_noise=shared)
        smoothed, unchecked = (sc.Smoother(plane, noise, estimate=500, engine=engine, check=c) for c in (True, False))
        before, _ = smoothed.certify(x)[0], unchecked.certify(x)
        assert before.radius < 1
        noise.scale.mul_(4)
        assert before.radius < 1
        again = sc.Smoother(plane, sc.Noise("gaussian", 2.0, grid=grid), estimate=500, engine=engine, check=False)
        assert unchecked.certify(x)[0].bound == again.certify(x)[0].bound
        with pytest.raises(NotFixed, match="or noise that were changed"):
            smoothed.certify(x)

    def test_sigma_is_the_standard_deviation_for_every_law(self) -> None:
        """120 000 draws; the standard error of the deviation is below 0.5 %, the tolerance 3 %: no false alarm to speak of."""
        for law in ("gaussian", "laplace", "uniform"):
            for grid in (None, 1 / 255):
                noise = sc.Noise.isotropic(law, sigma=0.7, grid=grid)
                draws = draws_for(0, 0, Stage.SELECT, 0, dtype=noise.sampling_dtype)
                copies = noise.copies(torch.zeros(30), 4_000, draws)
                assert abs(float(copies.std()) / 0.7 - 1) < 0.03

    def test_scale_and_loc_per_coordinate(self) -> None:
        scale, loc = torch.tensor([0.1, 2.0]), torch.tensor([5.0, -5.0])
        noise, draws = sc.Noise("gaussian", scale, loc), draws_for(0, 0, Stage.SELECT, 0, dtype=torch.float32)
        copies = noise.copies(torch.ones(2), 20_000, draws)
        torch.testing.assert_close(copies.std(0), scale, rtol=0.05, atol=0)
        torch.testing.assert_close(copies.mean(0), loc + 1, rtol=0, atol=0.06)

    @pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf")])
    def test_sigma_must_be_positive(self, sigma: float) -> None:
        with pytest.raises(SettingError, match="sigma=.* must be a finite number above 0"):
            sc.Noise.isotropic("gaussian", sigma=sigma)

    @pytest.mark.parametrize("scale", [0.0, 1e-160, 1e160, float("nan"), float("inf")])
    def test_scales_that_float32_does_not_carry(self, scale: float) -> None:
        with pytest.raises(SettingError, match="scale must be a number from 1e-30 to 1e"):
            sc.Noise("gaussian", torch.tensor([1.0, scale], dtype=torch.float64))

    def test_loc_must_be_finite_and_fit(self) -> None:
        with pytest.raises(SettingError, match="loc must be a finite"):
            sc.Noise("gaussian", 1.0, loc=float("nan"))
        with pytest.raises(SettingError, match="does not fit inputs of shape"):
            smoother(sc.Noise("gaussian", torch.ones(5))).certify(torch.zeros(1, 3))
        with pytest.raises(SettingError, match="holds 3 rows for a batch of 2"):
            smoother(sc.Noise("gaussian", torch.ones(3, 4))).certify(torch.zeros(2, 4))
        with pytest.raises(SettingError, match="one over a whole number"):
            sc.Noise("gaussian", 1.0, grid=0.3)

    def test_large_grid_points_are_taken_as_float32_has_them(self) -> None:
        steps = torch.randint(-(2**20), 2**20, (1000,), generator=torch.Generator().manual_seed(0)).double()
        assert torch.equal(quantise((steps / 255).float(), 255), steps)
        with pytest.raises(InputError, match="off the grid"):
            quantise(((steps + 0.3) / 255).float(), 255)

    def test_grid_points_whose_sums_are_rounded_are_refused(self) -> None:
        """float32 has no odd numbers beyond 2^24: two inputs would be one to the network, and two to the certificate."""
        noise = sc.Noise("gaussian", 0.5, grid=1.0)
        far = torch.full((1, 4), 2.0**24)
        assert torch.equal(far + 1, far)
        for x in (far, -far, torch.full((1, 4), 2.0**23 + 1)):
            with pytest.raises(InputError, match="no longer exact; the limit is 8388608 steps"):
                smoother(noise).certify(x)
            with pytest.raises(InputError, match="no longer exact"):
                noise.center_of(x[0])
        assert float(
            noise.copies(torch.tensor([2.0**23 - 9]), 1, draws_for(0, 0, Stage.SELECT, 0, dtype=torch.float64))
        )

    def test_off_the_grid_is_refused(self) -> None:
        noise = sc.Noise.isotropic("gaussian", sigma=0.5, grid=1 / 255)
        with pytest.raises(InputError, match="off the grid of 1/255 by 0.5 steps"):
            smoother(noise).certify(torch.full((1, 4), 0.5 / 255))
        assert torch.equal(quantise(torch.arange(256) / 255, 255), torch.arange(256).double())
