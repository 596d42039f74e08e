"""Polling: blocks of one shape, separate draws, invalid votes, and which models are refused."""

import types

import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.asks import Ask, Noisy
from smoothcert.errors import ModelError
from smoothcert.seeds import Stage
from smoothcert.smoother import Batch

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

    @pytest.mark.parametrize("block", [16, 25])  # which begin at multiples of 64 bytes, and which do not
    @pytest.mark.parametrize(
        "noise",
        [
            GAUSSIAN,
            sc.Noise("laplace_gaussian", torch.linspace(0.1, 0.5, 3), 0.25),
            sc.Noise("exponential_mixture", 0.3),  # which rejects, so that blocks need different numbers of draws
            sc.Noise.isotropic("laplace", 0.25, 1 / 255),  # looked up in a table
            sc.Noise.isotropic("gaussian", 2.0, 1 / 255),
        ],
    )
    def test_blocks_that_are_drawn_together_are_those_drawn_alone(self, noise: sc.Noise, block: int) -> None:
        seen: list[Tensor] = []

        def model(batch: Tensor) -> Tensor:
            assert batch.data_ptr() % 64 == 0
            seen.append(batch.clone())
            return first_coordinate(batch)

        pollster, scene = smoother(model, noise, engine=sc.Engine(block)).pollster, Noisy(torch.full((3,), 0.2), noise)
        asks = [
            Ask(5, Stage.ESTIMATE, scene, 2, 20, 21 * block + 7),
            *(Ask(5, Stage.ESTIMATE, scene, 2 + at, 1, 21 * block + 7) for at in range(20)),
        ]
        seen.clear()
        together, *alone = [pollster.cast(ask) for ask in asks]
        assert [tally.tolist() for tally in together] == [tally.tolist() for [tally] in alone]
        assert torch.equal(torch.stack(seen[:20]), torch.stack(seen[20:]))
        assert int(sum(tally.sum() for tally in together)) == 19 * block + 7

    def test_every_worker_computes_on_one_core(self) -> None:
        """Whoever else begins and ends meanwhile: a few inputs are asked early, while the workers of all are there."""
        before, seen = torch.get_num_threads(), []

        def model(batch: Tensor) -> Tensor:
            told = torch.__config__.parallel_info()
            seen.append(
                [
                    int(line.split(":")[-1])
                    for line in told.splitlines()
                    if "_threads() :" in line and "interop" not in line
                ]
            )
            return first_coordinate(batch)

        torch.set_num_threads(3)
        try:
            smoother(model, select=20, estimate=200, engine=sc.Engine(20, workers=2)).certify(torch.ones(5, 3))
            assert torch.get_num_threads() == 3
        finally:
            torch.set_num_threads(before)
        assert len(seen) > 50
        assert {number for numbers in seen for number in numbers} == {1}

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
            (lambda x: x.flatten(1).sum(), "shape"),
            (lambda x: torch.zeros(3, 10), "for a batch of"),
            (lambda x: torch.zeros(len(x), 1), "one score per input"),
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
