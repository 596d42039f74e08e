"""The smoothed classifier: what it computes, and what it refuses."""

import subprocess
import sys
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.errors import InputError, SettingError
from smoothcert.smoother import Batch, FixedNoise
from smoothcert.store import InMemoryStore

GAUSSIAN = sc.Noise.isotropic("gaussian", sigma=0.5)


def first_coordinate(batch: Tensor) -> Tensor:
    """Two classes by the sign of the first coordinate."""
    score = batch.flatten(1)[:, 0]
    return torch.stack([-score, score], dim=1)


def smoother(model: object = first_coordinate, noise: sc.Noise = GAUSSIAN, **settings: object) -> sc.Smoother:
    return sc.Smoother(model, noise, **{"estimator": "fixed", "estimate": 1_000, **settings})  # type: ignore[arg-type]


class TestSmoother:
    def test_seconds_include_the_choice_of_the_noise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A batch shares the time of its tuner evenly; on this clock only the tuner takes time, hours of it."""
        clock = [0.0]

        class Slow(FixedNoise):
            def choose(self, smoother: sc.Smoother, x: Tensor, start: sc.Noise, indices: Sequence[int]) -> sc.Noise:
                clock[0] += 30_000.0
                return start

        monkeypatch.setattr("smoothcert.smoother.inquiry.perf_counter", lambda: clock[0])
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
            (torch.full((1, 3), 1j), "dtype torch.complex64; give real numbers"),
        ],
    )
    def test_bad_inputs(self, x: Tensor, message: str) -> None:
        with pytest.raises(InputError, match=message):
            smoother().certify(x)

    def test_inputs_whose_memory_is_used_again(self) -> None:
        """Of a data set that hands out one buffer, the votes on an input were cast on the next one's."""

        class OneBuffer(ArrayDataset):
            buffer = np.zeros((6, 2), np.float32)

            def inputs(self, indices: Sequence[int]) -> np.ndarray:
                self.buffer[: len(indices)] = super().inputs(indices)
                return self.buffer[: len(indices)]

        x = np.float32([[1, 0], [-1, 0], [-1, 0], [1, 0], [1, 0], [-1, 0]])
        stores = [
            sc.certify_all(smoother(), kind("x", x), InMemoryStore(), rows=2) for kind in (ArrayDataset, OneBuffer)
        ]
        assert list(stores[0].records()) == list(stores[1].records())
        smoothed, own = smoother(), torch.ones(1, 2)
        assert [smoothed.certify(own.mul_(sign))[0].label for sign in (1, -1)] == [1, 0]

    @pytest.mark.parametrize("reads", [False, True])
    def test_a_tuner_that_writes_into_its_input(self, reads: bool) -> None:
        """The votes and the region were of what it wrote."""

        class Writes(FixedNoise):
            reads_input = reads

            def choose(self, smoother: sc.Smoother, x: Tensor, start: sc.Noise, indices: Sequence[int]) -> sc.Noise:
                x.mul_(-1)
                return start

        smoothed, x = smoother(tuner=Writes()), torch.ones(1, 2)
        for index in range(2):
            [found] = smoothed.certify(x, index)
            assert found.label == 1
            assert found.region is not None
            assert found.region.center.tolist() == [1.0, 1.0]

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
    """Peak resident kilobytes of a process that certifies one 3×32×32 input with 20 000 and with 100 000 votes."""

    def peak(votes: int) -> int:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY.format(votes=votes)], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    small, large = peak(20_000), peak(100_000)
    print(f"peak memory: {small / 1024:.0f} MB at 20 000 votes, {large / 1024:.0f} MB at 100 000")
    assert large < 1.1 * small  # what an allocator keeps varies by some per cent
    assert large < 1024 * 1024


def test_arrays_that_must_not_be_written_are_taken_without_a_word() -> None:
    """As those of a file that is mapped into memory: torch warns of them, once in a process unless told otherwise."""
    x = np.zeros((1, 4), dtype=np.float32)
    x.flags.writeable = False
    torch.set_warn_always(True)
    try:
        [certificate] = sc.Smoother(nn.Linear(4, 2).eval(), sc.Noise("gaussian", 0.5), estimate=100).certify(x)
    finally:
        torch.set_warn_always(False)
    assert certificate.bound.trials == 100


@pytest.mark.parametrize("costly", [False, True])
@pytest.mark.parametrize(("dropped", "word"), [("grid", "reals, float arithmetic"), ("box", "grid 1/255")])
def test_a_method_that_leaves_the_grid_or_the_box_is_refused(dropped: str, word: str, costly: bool) -> None:
    """Records say once for all where the inputs lie, so votes under other noise would be told wrongly."""

    class Forgetful(sc.Tuner):
        name, reads_input = "forgetful", True

        def choose(self, smoother: sc.Smoother, x: Tensor, start: sc.Noise, indices: Sequence[int]) -> sc.Noise:
            kept = {"grid": start.grid, "box": start.box} | {dropped: None}
            if dropped == "grid":
                kept["box"] = None
            return sc.Noise(start.law, start.scale.expand(x.shape), start.loc, **kept)  # type: ignore[arg-type]

    Forgetful.costly = costly
    noise = sc.Noise("gaussian", 0.5, grid=1 / 255, box=(0.0, 1.0))
    smoother = sc.Smoother(nn.Linear(4, 2).eval(), noise, tuner=Forgetful(), select=10, estimate=100, check=False)
    with pytest.raises(
        SettingError, match=rf"another domain \({word}\) than it was given \(grid 1/255, clipped to 0..1\)"
    ):
        smoother.certify(torch.zeros(2, 4))
