"""The desk: what is needed goes first, what is lost is done again, what comes twice counts once."""

from collections import deque

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.asks import Ask, Noisy, Plain, Tuning, Turns
from smoothcert.errors import SettingError
from smoothcert.execution import executor_named
from smoothcert.execution.counts import Count, Errand
from smoothcert.execution.desk import Desk
from smoothcert.noise import Noise
from smoothcert.seeds import Stage
from smoothcert.store import InMemoryStore

NOISE = Noise("gaussian", 1.0)


def count(looks: list[int], index: int = 0, **more: object) -> Count:
    return Count(index, Stage.ESTIMATE, Plain(torch.zeros(2)), np.array(looks), 10, **more)  # type: ignore[arg-type]


def desk(*jobs: Count | Errand, places: int = 2) -> Desk:
    made = Desk(places, shared=False)
    for job in jobs:
        made.put(job)
    return made


def taken(made: Desk, most: int = 1, *, speculate: bool = True) -> Ask | None:
    task = made.take(most, speculate=speculate, wait=0.0)
    assert task is None or isinstance(task, Ask)
    return task


def tallies(ask: Ask) -> list[np.ndarray]:
    """Block number n has n votes for the first class, so that each shows in the total."""
    return [np.array([number, 10 - number, 0]) for number in range(ask.first, ask.first + ask.number)]


def test_blocks_that_a_look_needs_go_before_those_that_may_be_wasted() -> None:
    one, two = count([20, 60]), count([10, 60], index=1)
    made = desk(one, two)
    asks = [taken(made) for _ in range(5)]
    assert [(ask.index, ask.first) for ask in asks if ask] == [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3)]
    assert taken(made, speculate=False) is None


def test_a_task_has_as_many_blocks_as_keep_all_busy() -> None:
    made = desk(count([60, 90]), places=2)
    sizes = []
    while (ask := taken(made, 2, speculate=False)) is not None:
        sizes.append(ask.number)
    assert sizes == [2, 2, 1, 1]
    assert [taken(desk(count([60]), places=9), 5).number] == [1]  # type: ignore[union-attr]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 2, 0), (2, 2, 0, 1, 1, 3, 3)])
def test_blocks_count_once_in_order_whoever_was_faster(order: tuple[int, ...]) -> None:
    counted = count([20, 40])
    asks = [counted.take(1, shared=False) for _ in range(4)]
    for at in order:
        counted.add(asks[at].first, tallies(asks[at]), 0.0)
    assert [row.tolist() for row in counted.seen] == [[1, 19, 0], [6, 34, 0]]


def test_what_is_lost_is_given_out_again_and_counts_once() -> None:
    made = desk(counted := count([40]), places=1)
    first, second = taken(made, 2), taken(made, 2)
    assert first is not None
    assert second is not None
    made.lost(first)
    again = taken(made, 2)
    assert again is first
    made.done(again, tallies(again), 1.0)
    made.done(first, tallies(first), 1.0)  # the worker that was given up comes back
    made.done(second, tallies(second), 1.0)
    assert counted.total.tolist() == [6, 34, 0]  # type: ignore[union-attr]
    assert made.ready(wait=False) == [counted]


def test_what_comes_back_after_it_was_given_up_is_not_asked_again() -> None:
    made = desk(counted := count([20]), places=1)
    ask = taken(made, 2)
    assert ask is not None
    made.lost(ask)
    made.done(ask, tallies(ask), 0.0)
    assert counted.done
    assert taken(made) is None


def test_a_lost_tuning_is_done_again_and_its_count_takes_its_place_once() -> None:
    tuning, made_counts = Tuning(3, torch.zeros(2), NOISE), []

    def then(noise: Noise, seconds: float) -> Count:
        made_counts.append(noise)
        return count([10], index=3)

    made = desk(Errand(tuning, then))
    assert made.take(wait=0.0) is tuning
    assert made.take(wait=0.0) is None
    made.lost(tuning)
    assert made.take(wait=0.0) is tuning
    made.done(tuning, NOISE, 1.0)
    made.done(tuning, NOISE, 1.0)
    assert len(made_counts) == len(made.running) == 1
    assert isinstance(made.running, deque)


@pytest.mark.parametrize("scene", [Noisy(torch.rand(3), NOISE), Turns(torch.rand(2, 3), NOISE), Plain(torch.rand(3))])
def test_an_ask_travels(scene: object) -> None:
    """Also after it was answered here, when functions were prepared from it."""
    import pickle

    smoother = sc.Smoother(lambda x: x, NOISE)
    ask = Ask(1, Stage.SELECT, scene, 2, 1, 700)  # type: ignore[arg-type]
    here = smoother.cast(ask)
    there = smoother.cast(pickle.loads(pickle.dumps(ask)))
    assert np.array_equal(here, there)


def test_the_executor_is_no_part_of_a_run() -> None:
    from smoothcert.data import ArrayDataset
    from smoothcert.run import describe

    data = ArrayDataset("x", np.zeros((2, 3), dtype=np.float32))
    model = torch.nn.Linear(3, 2)
    plain, cluster = (sc.Smoother(model, NOISE, engine=sc.Engine(executor=e)) for e in ("threads", "ray:actors=3"))
    assert describe(plain, data) == describe(cluster, data)


def test_an_executor_that_is_unknown_or_wrong_is_refused() -> None:
    with pytest.raises(SettingError, match="did you mean 'threads'"):
        sc.Smoother(torch.nn.Linear(3, 2), NOISE, engine=sc.Engine(executor="thread"))
    with pytest.raises(SettingError, match="actors=0"):
        executor_named("ray:actors=0")


def test_an_address_where_nothing_listens_is_refused_before_anything_is_written() -> None:
    pytest.importorskip("ray")
    from smoothcert.data import ArrayDataset
    from smoothcert.errors import ClusterError

    engine = sc.Engine(executor="ray:address=127.0.0.1:9")
    smoother = sc.Smoother(torch.nn.Linear(3, 2).eval(), NOISE, engine=engine)
    store = InMemoryStore()
    with pytest.raises(ClusterError, match=r"nothing listens at 127\.0\.0\.1:9"):
        sc.certify_all(smoother, ArrayDataset("x", np.zeros((2, 3), dtype=np.float32)), store)
    assert not store.begun
