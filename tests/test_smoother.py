"""Noise, seeds, polling and the smoothed classifier: what they compute, and what they refuse."""

import subprocess
import sys
import types
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.errors import InputError, ModelError, SettingError
from smoothcert.noise import quantise
from smoothcert.seeds import Stage, draws_for, generator_for
from smoothcert.smoother import Batch, FixedNoise

GAUSSIAN = sc.Noise.isotropic("gaussian", sigma=0.5)


def first_coordinate(batch: Tensor) -> Tensor:
    """Two classes by the sign of the first coordinate."""
    score = batch.flatten(1)[:, 0]
    return torch.stack([-score, score], dim=1)


def smoother(model: object = first_coordinate, noise: sc.Noise = GAUSSIAN, **settings: object) -> sc.Smoother:
    return sc.Smoother(model, noise, **{"estimator": "fixed", "estimate": 1_000, **settings})  # type: ignore[arg-type]


def counts(smoothed: sc.Smoother, x: Tensor, first_index: int = 0) -> list[list[int]]:
    polls = smoothed.polls([Batch(x, range(first_index, first_index + len(x)))])
    return [poll.ballot.estimation.counts[0, -1].tolist() for poll in polls]


class TestSeeds:
    def test_every_part_of_the_key_changes_the_draws(self) -> None:
        keys = [(0, 0, Stage.SELECT, 0), (1, 0, Stage.SELECT, 0), (0, 1, Stage.SELECT, 0), (0, 0, Stage.ESTIMATE, 0)]
        keys += [(0, 0, Stage.SELECT, 1), (2**32, 0, Stage.SELECT, 0)]
        for kind in ("normal", "uniform", "exponential", "signs"):
            for dtype in (torch.float32, torch.float64):
                drawn = [tuple(getattr(draws_for(*key, dtype=dtype), kind)((40,)).tolist()) for key in keys]
                assert len(set(drawn)) == len(keys)
                assert drawn[0] == tuple(getattr(draws_for(*keys[0], dtype=dtype), kind)((40,)).tolist())

    def test_all_state_words_are_keyed(self) -> None:
        """torch seeds its CPU generator with 32 bits; two of our keys differ in nearly all of the 624 words."""
        one, two = (generator_for(0, index, Stage.SELECT, 0).get_state().view(torch.int64)[3:627] for index in (0, 1))
        assert int((one != two).sum()) > 600

    def test_the_generator_draws_sound_normals(self) -> None:
        """Mean and variance of a million numbers within five standard errors: false alarm below 2e-6, seed fixed."""
        z = torch.empty(1_000_000, dtype=torch.float64).normal_(generator=generator_for(0, 0, Stage.SELECT, 0))
        assert abs(float(z.mean())) < 5e-3
        assert abs(float(z.var()) - 1) < 5 * (2 / 1e6) ** 0.5


class TestNoise:
    def test_an_array_changed_later_does_not_change_the_noise(self) -> None:
        """Draws are scaled by a prepared copy and radii by the scale: were they to differ, a certificate would be wrong."""
        scale, loc = np.ones(3), np.zeros(3)
        noise = sc.Noise("gaussian", scale, loc)
        scale *= 2
        loc += 1
        assert noise.scale.tolist() == [1, 1, 1]
        assert noise.loc.tolist() == [0, 0, 0]

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

    def test_scale_and_loc_must_be_finite_and_fit(self) -> None:
        with pytest.raises(SettingError, match="scale must be a finite number above 0"):
            sc.Noise("gaussian", torch.tensor([1.0, 0.0]))
        with pytest.raises(SettingError, match="loc must be a finite"):
            sc.Noise("gaussian", 1.0, loc=float("nan"))
        with pytest.raises(SettingError, match="does not fit inputs of shape"):
            smoother(noise=sc.Noise("gaussian", torch.ones(5))).certify(torch.zeros(1, 3))
        with pytest.raises(SettingError, match="holds 3 rows for a batch of 2"):
            smoother(noise=sc.Noise("gaussian", torch.ones(3, 4))).certify(torch.zeros(2, 4))
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
                smoother(noise=noise).certify(x)
            with pytest.raises(InputError, match="no longer exact"):
                noise.center_of(x[0])
        assert float(
            noise.copies(torch.tensor([2.0**23 - 9]), 1, draws_for(0, 0, Stage.SELECT, 0, dtype=torch.float64))
        )

    def test_off_the_grid_is_refused(self) -> None:
        noise = sc.Noise.isotropic("gaussian", sigma=0.5, grid=1 / 255)
        with pytest.raises(InputError, match="off the grid of 1/255 by 0.5 steps"):
            smoother(noise=noise).certify(torch.full((1, 4), 0.5 / 255))
        assert torch.equal(quantise(torch.arange(256) / 255, 255), torch.arange(256).double())


class TestPolling:
    def test_the_network_sees_blocks_of_one_shape(self) -> None:
        shapes = set()

        def model(batch: Tensor) -> Tensor:
            shapes.add(tuple(batch.shape))
            return first_coordinate(batch)

        smoother(model, select=30, estimate=250, engine=sc.Engine(100)).certify(torch.zeros(3, 2, 2))
        assert shapes == {(100, 2, 2)}

    def test_votes_do_not_depend_on_how_inputs_are_grouped(self) -> None:
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
        smoothed = smoother(engine=sc.Engine(70))
        together = counts(smoothed, x, 10)
        apart = [counts(smoothed, x[i : i + 1], 10 + i)[0] for i in range(5)]
        assert together == apart
        assert all(sum(row) == 1_000 for row in together)

    def test_separate_indices_have_separate_noise(self) -> None:
        x = torch.zeros(1, 4)
        assert counts(smoother(), x, 0) != counts(smoother(), x, 1)

    def test_selection_and_estimation_are_separate_draws(self) -> None:
        seen = []

        def model(batch: Tensor) -> Tensor:
            seen.append(batch.clone())
            return first_coordinate(batch)

        smoother(model, select=50, estimate=50, engine=sc.Engine(50), check=False).certify(torch.zeros(1, 3))
        assert len(seen) == 2
        assert not torch.equal(seen[0], seen[1])

    def test_a_nan_row_is_a_vote_against(self) -> None:
        def model(batch: Tensor) -> Tensor:
            logits = torch.tensor([[0.0, 1.0]]).repeat(len(batch), 1)
            logits[::4] = float("nan")
            return logits

        [poll] = smoother(model, engine=sc.Engine(100), check=False).polls([Batch(torch.zeros(1, 3), [0])])
        assert poll.ballot.estimation.counts[0, -1].tolist() == [0, 750]
        assert poll.ballot.estimation.invalid[0, -1] == 250
        [certificate] = smoother(model, engine=sc.Engine(100), check=False).certify(torch.zeros(1, 3))
        assert certificate.bound.trials == 1_000
        assert certificate.bound.lower < 0.75

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (lambda x: x.flatten(1).sum(1), "shape"),
            (lambda x: torch.zeros(3, 10), "for a batch of"),
            (lambda x: torch.zeros(len(x), 1), "one class only"),
            (lambda x: "cat", "returned a str"),
        ],
    )
    def test_a_model_of_the_wrong_kind(self, model: object, message: str) -> None:
        with pytest.raises(ModelError, match=message):
            smoother(model).certify(torch.zeros(1, 3))

    def test_an_object_with_logits(self) -> None:
        [certificate] = smoother(lambda x: types.SimpleNamespace(logits=first_coordinate(x))).certify(torch.ones(1, 3))
        assert certificate.label == 1

    def test_train_mode_is_switched_off_and_said(self) -> None:
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        with pytest.warns(UserWarning, match="switched to eval mode"):
            smoother(model).certify(torch.zeros(1, 3))
        assert not model.training

    def test_batch_statistics_are_refused(self) -> None:
        model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False)).eval()
        with pytest.raises(ModelError, match="batch statistics or dropout even in eval mode"):
            smoother(model).certify(torch.zeros(1, 3))


class TestSmoother:
    def test_seconds_include_the_choice_of_the_noise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A batch shares the time of its tuner evenly; on this clock only the tuner takes time, hours of it."""
        clock = [0.0]

        class Slow(FixedNoise):
            def choose(self, smoother: sc.Smoother, x: Tensor, start: sc.Noise, indices: Sequence[int]) -> sc.Noise:
                clock[0] += 30_000.0
                return start

        monkeypatch.setattr("smoothcert.smoother.perf_counter", lambda: clock[0])
        batches = [Batch(torch.ones(3, 4), range(3)), Batch(torch.ones(1, 4), range(3, 4))]
        polls = smoother(estimate=20, engine=sc.Engine(20), tuner=Slow()).polls(batches)
        assert [poll.seconds // 1_000 for poll in polls] == [10, 10, 10, 30]

    def test_any_shape(self) -> None:
        for shape in [(5,), (1, 8, 8), (2, 3, 4, 5)]:
            x = torch.zeros(2, *shape)
            x.flatten(1)[:, 0] = 2.0
            certificates = smoother().certify(x)
            assert [c.label for c in certificates] == [1, 1]
            assert certificates[0].region is not None
            assert certificates[0].region.center.shape == shape

    def test_predict_answers_or_abstains(self) -> None:
        assert smoother().predict(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 0.0]])) == [1, 0, None]

    def test_labels(self) -> None:
        x = torch.ones(2, 3)
        assert {c.soundness for c in smoother().certify(x)} == {sc.Soundness.GLOBAL}
        per_coordinate = sc.Noise("gaussian", torch.ones(3))
        assert {c.soundness for c in smoother(noise=per_coordinate).certify(x)} == {sc.Soundness.GLOBAL}
        per_input = sc.Noise("gaussian", torch.ones(2, 3))
        assert {c.soundness for c in smoother(noise=per_input).certify(x)} == {sc.Soundness.FROZEN}
        shifted_per_input = sc.Noise("gaussian", 1.0, loc=torch.zeros(2, 3))
        assert {c.soundness for c in smoother(noise=shifted_per_input).certify(x)} == {sc.Soundness.FROZEN}

    def test_per_input_noise_uses_each_row(self) -> None:
        noise = sc.Noise("gaussian", torch.tensor([[0.1, 0.1], [10.0, 10.0]]))
        near, far = smoother(noise=noise).certify(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        assert near.label == 1
        assert far.bound.lower < 0.6

    def test_forward_is_differentiable_and_averages(self) -> None:
        model = nn.Linear(3, 4).eval()
        smoothed = smoother(model, forward_draws=64)
        x = torch.randn(2, 3, requires_grad=True)
        probabilities = smoothed(x)
        torch.testing.assert_close(probabilities.sum(1), torch.ones(2))
        probabilities[0, 0].backward()
        assert x.grad is not None
        assert float(x.grad[0].abs().sum()) > 0
        assert {name for name, _ in smoothed.named_parameters()} == {"model.model.weight", "model.model.bias"}
        on_grid = smoother(model, noise=sc.Noise.isotropic("gaussian", 0.5, grid=1 / 255))
        on_grid(x)[0, 0].backward()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"alpha": 0.0}, "alpha must be a finite number above 0"),
            ({"alpha": 0.5}, "alpha must be a finite number above 0 and below 0.5"),
            ({"alpha": float("nan")}, "alpha=nan"),
            ({"estimate": 9}, "can certify nothing at alpha=0.001"),
            ({"select": 0}, "select=0 is outside .*at least 1"),
            ({"engine": sc.Engine(device="abacus")}, "device 'abacus' cannot be used here"),
            ({"engine": sc.Engine(runtime="tourch")}, "did you mean 'torch'"),
            ({"seed": -1}, "seed=-1 is outside .*at least 0"),
            ({"norm": -2.0}, "norm=-2.0 must be"),
            ({"norm": float("nan")}, "norm=nan must be"),
        ],
    )
    def test_bad_settings(self, settings: dict[str, object], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            smoother(**settings)

    @pytest.mark.parametrize(
        ("x", "message"),
        [
            (torch.tensor([[1.0, float("nan")]]), r"positions \[0\] hold NaN or infinite"),
            (torch.tensor([[0.0, 0.0], [1.0, float("inf")]]), r"positions \[1\] hold"),
            (torch.zeros(3), "give a batch"),
            (torch.zeros(1, 3, dtype=torch.uint8), "dtype uint8"),
        ],
    )
    def test_bad_inputs(self, x: Tensor, message: str) -> None:
        with pytest.raises(InputError, match=message):
            smoother().certify(x)

    def test_an_empty_batch_is_no_certificate(self) -> None:
        assert smoother().certify(torch.zeros(0, 3)) == []

    def test_a_network_that_guesses_is_said(self) -> None:
        def guess(batch: Tensor) -> Tensor:
            return (batch.flatten(1)[:, :1] * 1e4 + torch.arange(5)).sin()

        with pytest.warns(UserWarning, match="answer at random under this noise"):
            smoother(guess).certify(torch.zeros(10, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            smoother().certify(torch.ones(10, 3))

    def test_numpy_inputs_are_taken(self) -> None:
        assert smoother().certify(np.ones((1, 3), dtype=np.float64))[0].label == 1  # type: ignore[arg-type]


MEMORY = """
import torch, smoothcert as sc
from smoothcert.models import small_cnn
torch.manual_seed(0)
smoothed = sc.Smoother(small_cnn((3, 32, 32), 10).eval(), sc.Noise.isotropic("gaussian", 0.25, grid=1/255), estimator="fixed", estimate={votes})
smoothed.certify(torch.zeros(1, 3, 32, 32))
# Not ru_maxrss: a child of a large process begins with its parent's.
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_number_of_votes() -> None:
    """Peak resident kilobytes of a process that certifies one 3×32×32 input with 10 000 and with 100 000 votes."""

    def peak(votes: int) -> int:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY.format(votes=votes)], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    small, large = peak(10_000), peak(100_000)
    print(f"peak memory: {small / 1024:.0f} MB at 10 000 votes, {large / 1024:.0f} MB at 100 000")
    assert large < 1.05 * small
    assert large < 1024 * 1024
