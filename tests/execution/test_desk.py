"""The desk: what is needed goes first, what is lost is done again, what comes twice counts once."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.asks import Ask, Cast, Measured, Noisy, Plain, Scene, Tuning, Turns
from smoothcert.errors import ClusterError, SettingError
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


def cast(ask: Ask) -> Cast:
    return Cast(ask.key, tallies(ask))


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
    made.done(again, cast(again), 1.0)
    made.done(first, cast(first), 1.0)  # the worker that was given up comes back
    made.done(second, cast(second), 1.0)
    assert counted.total.tolist() == [6, 34, 0]  # type: ignore[union-attr]
    assert made.ready(wait=False) == [counted]


def test_what_comes_back_after_it_was_given_up_is_not_asked_again() -> None:
    made = desk(counted := count([20]), places=1)
    ask = taken(made, 2)
    assert ask is not None
    made.lost(ask)
    made.done(ask, cast(ask), 0.0)
    assert counted.done
    assert taken(made) is None


OTHER = Plain(torch.ones(2))


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        (lambda a: Cast(replace(a, index=1).key, tallies(a)), "cast for .1, <Stage.ESTIMATE"),
        (lambda a: Cast(replace(a, stage=Stage.SELECT).key, tallies(a)), "cast for .0, <Stage.SELECT"),
        (lambda a: Cast(replace(a, first=2).key, tallies(a)), "cast for .0, <Stage.ESTIMATE: 1>, 2"),
        (lambda a: Cast(replace(a, scene=OTHER).key, tallies(a)), "votes were cast for"),
        (lambda a: Cast(a.key, tallies(a)[:1]), "tallies of 1 blocks instead of 2"),
        (lambda a: Cast(a.key, tallies(a) * 2), "tallies of 4 blocks instead of 2"),
        (lambda a: Cast(a.key, [2 * tally for tally in tallies(a)]), "block 0 is no tally of 10 votes"),
        (lambda a: Cast(a.key, [tallies(a)[0], np.array([11, -1, 0])]), "block 1 is no tally of 10 votes"),
        (lambda a: Cast(a.key, [tally.astype(float) for tally in tallies(a)]), "block 0 is no tally"),
        (lambda a: Cast(a.key, [tally.astype(np.uint8) for tally in tallies(a)]), "block 0 is no tally"),
        (tallies, "a list, which is no Cast"),
    ],
)
def test_what_does_not_answer_its_task_ends_all(changed: Callable[[Ask], Cast], word: str) -> None:
    """Another input's, stage's or block's votes, more or fewer of them, or no counts: nothing of it is counted."""
    made = desk(counted := count([40]), places=2)
    ask = taken(made, 2)
    assert ask is not None
    made.done(ask, changed(ask), 1.0)
    assert counted.counted == 0
    assert made.over
    with pytest.raises(ClusterError, match=word):
        made.ready(wait=False)


def test_a_task_that_was_never_given_out_ends_all() -> None:
    """Who hands back a copy would wait for ever: the desk knows the object that it gave."""
    made = desk(count([40]))
    ask = taken(made)
    assert ask is not None
    made.done(replace(ask), cast(ask), 1.0)
    with pytest.raises(ClusterError, match="never gave out"):
        made.ready(wait=False)


def test_a_tuning_is_answered_by_noise_alone() -> None:
    made = desk(Errand(tuning := Tuning(3, torch.zeros(2), NOISE), lambda noise, seconds: count([10])))
    assert made.take(wait=0.0) is tuning
    made.done(tuning, NOISE.scale, 1.0)
    with pytest.raises(ClusterError, match="a Tensor, which is no Noise"):
        made.ready(wait=False)


def test_the_last_block_holds_what_is_left_and_numbers_are_no_counts() -> None:
    """Of 25 votes in blocks of 10 the last has 5; a regressor's block is as many floats as it has rows."""
    ask = Ask(0, Stage.ESTIMATE, Plain(torch.zeros(2)), 1, 2, 25)
    full, rest = np.array([10, 0, 0]), np.array([2, 2, 1])
    assert not Cast(ask.key, [full, rest]).fault(ask, 10)
    assert "block 2 is no tally of 5 votes" in Cast(ask.key, [full, full]).fault(ask, 10)
    ask = Ask(0, Stage.ESTIMATE, Measured(torch.zeros(2), NOISE), 1, 2, 25)
    assert not Cast(ask.key, [np.zeros(10), np.full(5, np.nan)]).fault(ask, 10)  # type: ignore[list-item]
    assert "block 1" in Cast(ask.key, [np.zeros(10, dtype=int), np.zeros(5)]).fault(ask, 10)  # type: ignore[list-item]
    assert "block 2" in Cast(ask.key, [np.zeros(10), np.zeros(6)]).fault(ask, 10)  # type: ignore[list-item]


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
    here, there = smoother.cast(ask), smoother.cast(pickle.loads(pickle.dumps(ask)))
    assert here.key == there.key == ask.key
    assert np.array_equal(here.tallies, there.tallies)


X = torch.rand(3)
BOXED = Noise("gaussian", 1.0, box=(0.0, 1.0))


@pytest.mark.parametrize(
    "other",
    [
        *(Noisy(X + 1e-6, NOISE), Noisy(X[None], NOISE), Noisy(X, BOXED), Noisy(X, Noise("laplace", 1.0))),
        *(Noisy(X, Noise("gaussian", 1.0 + 1e-15)), Noisy(X, Noise("gaussian", 1.0, loc=1e-9)), Measured(X, NOISE)),
        *(Noisy(X, Noise("gaussian", 1.0, grid=1 / 255)), Plain(X), Turns(X, NOISE)),
    ],
)
def test_the_key_of_an_ask_tells_inputs_and_noises_apart(other: Scene) -> None:
    assert other.digest != Noisy(X, NOISE).digest


def test_what_travels_is_one_input_and_its_digest_is_worked_out_there() -> None:
    import pickle

    scene = Noisy(torch.rand(64, 3, 32, 32)[5], NOISE)
    assert scene.digest
    sent = pickle.dumps(scene)
    assert len(sent) < 2 * 4 * 3 * 32 * 32  # not the 64 inputs of its batch
    there = pickle.loads(sent)
    assert "digest" not in there.__dict__
    assert there.digest == scene.digest


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

    engine = sc.Engine(executor="ray:address=127.0.0.1:9")
    smoother = sc.Smoother(torch.nn.Linear(3, 2).eval(), NOISE, engine=engine)
    store = InMemoryStore()
    with pytest.raises(ClusterError, match=r"nothing listens at 127\.0\.0\.1:9"):
        sc.certify_all(smoother, ArrayDataset("x", np.zeros((2, 3), dtype=np.float32)), store)
    assert not store.begun
