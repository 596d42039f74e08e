"""What is answered: certificates, hits with a region of their own, growing radii, and never a second alpha."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from tests.serve.conftest import PLANE, Running, at, serving, smoother_with, until
from torch import Tensor

from helpers.settlers import contradictions
from smoothcert.certificates import Certificate
from smoothcert.client import AsyncClient, Client, ServerError
from smoothcert.data import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.memory.memory import Memory
from smoothcert.serve import points
from smoothcert.serve.messages import Answer
from smoothcert.smoother import Smoother
from smoothcert.testing.leaks import LocLeak
from smoothcert.views import Ablation


def test_an_answer_says_all_and_its_promise_can_be_looked_up(running: Running) -> None:
    answer = running.client.certify(at(1.5))
    assert (answer.label, answer.norm, answer.soundness, answer.source) == (1, "2", "global", "votes")
    assert 0.5 < answer.radius <= 1.5
    assert answer.radius == answer.proxy_radius
    assert 0.5 < answer.lower < 1
    assert answer.alpha == 1e-6
    assert answer.votes % 50 == 0
    assert "Cohen" in answer.theorem
    assert answer.grid == "reals, float arithmetic"
    assert answer.id is not None
    kept = running.client.promise(answer.id)
    assert (kept.center, kept.scale, kept.region_radius) == (at(1.5).tolist(), 1.0, answer.radius)
    assert kept.answer.label == 1
    with pytest.raises(ServerError, match="404"):
        running.client.promise(answer.id[:-1] + ("0" if answer.id[-1] != "0" else "1"))
    with pytest.raises(ServerError, match="404"):
        running.client.promise("1")


def test_a_hit_is_certified_as_far_as_the_promise_reaches(running: Running) -> None:
    """The copy around the query ends where the promise does: R - gauge, and never all of R."""
    made = running.client.certify(at(3.0))
    hit = running.client.certify(at(3.0, 0.5))
    assert (hit.source, hit.id, hit.label, hit.votes) == ("memory", made.id, made.label, made.votes)
    assert hit.radius == pytest.approx(made.radius - 0.5, rel=1e-6)
    assert hit.radius <= made.radius - 0.5
    again = running.client.certify(at(3.0))
    assert (again.source, again.radius) == ("memory", made.radius)
    assert running.client.predict(at(3.0, 0.5)).label == made.label


def test_the_radius_grows_from_look_to_look_and_only_the_last_is_promised(running: Running) -> None:
    before = len(running.service.promises.memory)
    looks = list(running.client.looks(at(0.75, 9.0)))
    assert len(looks) >= 3
    assert [look.provisional for look in looks] == [True] * (len(looks) - 1) + [False]
    assert [look.votes for look in looks] == sorted({look.votes for look in looks})
    assert [look.radius for look in looks] == sorted(look.radius for look in looks)
    assert [look.id is None for look in looks] == [True] * (len(looks) - 1) + [False]
    assert len(running.service.promises.memory) == before + 1


def test_a_budget_is_kept_and_whoever_asks_for_more_goes_on_with_the_same_votes(running: Running) -> None:
    x = at(1.5, 30.0)
    first = running.client.certify(x, votes=100)
    assert 100 <= first.votes <= 200
    assert running.client.certify(x, votes=100).source == "memory"
    point = running.service.points.known(x, None)
    assert point is not None
    index = point.index
    more = running.client.certify(x, votes=1_000)
    assert more.source == "votes"
    assert more.votes >= 1_000
    assert more.radius >= first.radius
    assert point.index == index
    straight = smoother_with(seed=0).certify(torch.tensor(x[None]), first_index=index)
    last = running.client.certify(x)
    assert (last.votes, last.lower) == (straight[0].bound.trials, straight[0].bound.lower), (
        "the votes are not those of one run"
    )


def test_radii_stop_the_votes_once_they_are_proved_or_out_of_reach(running: Running) -> None:
    easy = running.client.certify(at(2.0, 60.0), radii=[0.25])
    assert easy.radius >= 0.25
    assert easy.votes < 500
    out_of_reach = running.client.certify(at(0.5, 60.0), radii=[2.0])
    assert out_of_reach.radius < 2.0
    assert out_of_reach.votes < 1_000


def test_a_deadline_is_met_with_what_was_proved_by_then() -> None:
    def slow(batch: Tensor) -> Tensor:
        time.sleep(0.02)
        return PLANE(batch)

    with serving(smoother_with(slow, check=False, identity="slow", estimate=100_000)) as running:
        began = time.monotonic()
        answer = running.client.certify(at(1.0), deadline=0.5)
        assert time.monotonic() - began < 2.0
        assert 0 < answer.votes < 10_000
        assert answer.label == 1
        began = time.monotonic()
        nothing = running.client.certify(at(1.0, 9.0), deadline=0.01)
        assert time.monotonic() - began < 1.0
        assert (nothing.label, nothing.votes, nothing.id) == (None, 0, None)


def test_an_abstention_is_remembered_so_that_asking_again_buys_nothing() -> None:
    """On the plane itself no class wins: thirty questions get one set of votes, and one alpha is counted, −0 or 0."""
    with serving() as running:
        first = running.client.certify(at(0.0))
        assert first.label is None
        for sign in (1, -1) * 15:
            assert running.client.certify(sign * at(0.0)) == first
        status = running.client.status()
        assert (status.tries, status.promises, status.expected_wrong) == (1, 0, pytest.approx(1e-6))
        assert f"smoothcert_votes_total {float(first.votes)}" in running.client.http.get("/metrics").text
    with serving(remember=0.0) as forgetful:
        answers = {forgetful.client.certify(at(0.0)).lower for _ in range(3)}
        assert len(answers) > 1, "the control cannot fail, so the test says nothing"


def test_every_try_is_counted_with_its_alpha() -> None:
    """Who sees a look and leaves has had a try; and so has everybody where there is no memory to count promises."""

    def slow(batch: Tensor) -> Tensor:
        time.sleep(0.01)
        return PLANE(batch)

    with serving(smoother_with(slow, check=False, identity="slow", estimate=100_000)) as running:
        for second in (0.0, 9.0, 18.0):
            looks = running.client.looks(at(1.0, second))
            assert next(looks).provisional
            looks.close()
        assert (running.client.status().tries, running.client.status().promises) == (3, 0)
        assert running.client.status().expected_wrong == pytest.approx(3e-6)
        assert running.client.certify(at(2.0, 27.0), votes=100).id is not None
        assert running.client.certify(at(2.0, 27.0), votes=300).id is not None
        assert (running.client.status().tries, running.client.status().promises) == (3, 2), "a try became promises"
    lit = np.ones((1, 1, 4, 4), np.float32)
    views = Smoother(_bright, Ablation(keep=4), norm=0, estimate=500, alpha=0.01, identity="bright")
    with serving(views, data=ArrayDataset("lit", lit, np.array([1]), classes=2)) as exact:
        assert exact.client.certify(lit[0]).soundness == "global"
        assert exact.client.status().expected_wrong == 0.01


def _bright(batch: Tensor) -> Tensor:
    lit = (batch.flatten(1) > 0.9).sum(dim=1).float()
    return torch.stack([0.5 - lit, lit - 0.5], dim=1)


def test_promises_are_counted_with_the_alpha_that_they_were_made_with() -> None:
    memory = Memory()
    sure, unsure = smoother_with(identity="plane"), smoother_with(identity="plane", alpha=0.25)
    [certificate] = unsure.certify(torch.tensor(at(1.0)[None]))
    memory.bind(dim=4, norm=2, owner=sure.identity)
    memory.settle(certificate)
    memory.settle_answer(at(-1.0), 0)  # by which nothing is claimed
    with serving(sure, memory) as running:
        assert running.client.status().expected_wrong == 0.25
        running.client.certify(at(1.0, 90.0))
        assert running.client.status().expected_wrong == pytest.approx(0.25 + 1e-6)


def test_who_leaves_while_the_promise_is_made_makes_nobody_promise_it_again() -> None:
    settling, go = threading.Event(), threading.Event()

    class Slow(Memory):
        def settle(self, *given: Any, **more: Any) -> Certificate:
            settling.set()
            go.wait()
            return super().settle(*given, **more)

    [certificate] = smoother_with().certify(torch.tensor(at(1.0)[None]))
    point = points.Point(None, None)
    with serving(memory=Slow()) as running:
        service = running.service

        def settled() -> Future[Answer]:
            return asyncio.run_coroutine_threadsafe(service._settled(point, at(1.0), certificate), service._loop)

        leaves = settled()
        assert settling.wait(20)
        stays = settled()
        leaves.cancel()
        until(lambda: service.promises._thread._work_queue.qsize() == 1)  # who stays settles it too
        go.set()
        assert stays.result(20).id == running.client.certify(at(1.0)).id
        assert len(service.promises.memory) == 1


def test_of_a_settled_input_nothing_but_its_answer_is_kept(running: Running) -> None:
    """Votes, counts and tensors of thousands of inputs would fill the memory; a promise and an abstention alike."""
    for x in (at(1.0, 210.0), at(0.0, 210.0)):
        answer = running.client.certify(x)
        point = running.service.points.known(x, None)
        assert point is not None
        assert point.final == answer
        assert (point.x, point.job, point.poll, point.votes) == (None, None, None, None)
    assert running.client.certify(at(0.0, 210.0)) == answer


def test_questions_about_one_point_at_once_share_their_votes(running: Running) -> None:
    """Eight clients at once: one promise, and all are told the same."""
    before = len(running.service.promises.memory)

    async def ask() -> set[tuple[object, ...]]:
        async with AsyncClient(running.address) as client:
            answers = await asyncio.gather(*(client.certify(at(0.25, 90.0)) for _ in range(8)))
            async for look in client.looks(at(1.0, 90.0)):
                assert look.votes
            assert (await client.predict(at(1.0, 90.0))).label == 1
            assert (await client.promise(answers[0].id or "")).answer.label == answers[0].label
            assert (await client.status()).model == "smoothcert"
        return {(answer.label, answer.radius, answer.votes) for answer in answers}

    assert len(asyncio.run(ask())) == 1
    assert len(running.service.promises.memory) == before + 2


def test_an_index_is_drawn_once_the_body_has_arrived(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    usual = points.new_index
    assert max(usual() for _ in range(50)) > 2**58
    monkeypatch.setattr(points, "new_index", lambda: drawn.append(usual()) or drawn[-1])
    body = json.dumps({"input": at(1.0, 120.0).tolist()}).encode()
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        head = f"POST /certify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body[:-1])
        time.sleep(0.2)
        assert drawn == [], "an index is known before the input is"
        connection.sendall(body[-1:])
        assert b"200 OK" in connection.recv(1000)
    assert len(drawn) == 1


GATES = 96


def gated_sides(batch: Tensor) -> Tensor:
    """The side of one of 96 coordinates: the one whose gate, among the next 96, is largest."""
    chosen = batch[:, GATES : 2 * GATES].argmax(dim=1, keepdim=True)
    side = batch.gather(1, chosen)
    return torch.cat([-side, side], dim=1)


def search_offline(wanted: int) -> list[np.ndarray]:
    """For each n an input whose certificate will be false if the n-th question is keyed by n: the seed is no secret.

    Each input is 1/64 away from where the answer changes, so that a larger radius is false.
    """
    smoother, found = smoother_with(gated_sides, **FEW, check=False), []
    for index in range(wanted):
        for gate in range(GATES):
            x = np.r_[np.full(GATES, 1 / 64), 99.0 * (np.arange(GATES) == gate), float(index)]
            [certificate] = smoother.certify(torch.tensor(x[None]), first_index=index)
            if certificate.radius > 1 / 64:
                found.append(x)
                break
    return found


FEW = {"estimate": 60, "estimator": "fixed", "alpha": 0.2, "identity": "gated"}


@pytest.mark.parametrize("index", ["random", "counted"])
def test_nobody_finds_false_certificates_offline(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve inputs that a counted index would certify wrongly, all of them; under the server's own few are.

    Each is wrong with probability at most alpha = 0.2: that nine of twelve are happens once in 17 000 times.
    """
    inputs = search_offline(12)
    assert len(inputs) == 12
    data = ArrayDataset("gated", np.float32(inputs[:1]), np.array([1]))
    with serving(smoother_with(gated_sides, **FEW), data=data) as running:
        if index == "counted":
            count = iter(range(12))
            monkeypatch.setattr(points, "new_index", lambda: next(count))
        wrong = sum(running.client.certify(x).radius > 1 / 64 for x in inputs)
    assert wrong == 12 if index == "counted" else wrong <= 8


def test_certificates_under_noise_of_their_own_never_contradict_each_other() -> None:
    """Theory §3: the noise tells the side, so that certificates meet; through the memory no two promises do."""
    memory = Memory()
    with serving(smoother_with(tuner=LocLeak(), estimate=500), memory) as running:
        answers = [running.client.certify(at(first)) for first in (0.5, -0.5, 0.25, -0.25, 1.5, -2.0, 0.125)]
        assert {answer.label for answer in answers} == {0, 1}
        assert {answer.soundness for answer in answers} == {"memory"}
        made = list(memory.promises())
        assert contradictions(made) == 0
        for answer, first in zip(answers, (0.5, -0.5, 0.25, -0.25, 1.5, -2.0, 0.125), strict=True):
            assert running.client.certify(at(first)).label == answer.label


def test_a_prediction_is_promised_and_a_certificate_may_follow(running: Running) -> None:
    guess = running.client.predict(at(2.0, 150.0))
    assert (guess.label, guess.radius, guess.theorem) == (1, 0.0, "prediction")
    assert running.client.predict(at(2.0, 150.0)).source == "memory"
    proved = running.client.certify(at(2.0, 150.0))
    assert proved.source == "votes"
    assert proved.radius > 0.5
    with serving(smoother_with(check=False)) as unchecked:
        assert {unchecked.client.predict(at(2.0)).soundness for _ in range(2)} == {"estimate"}


def test_who_goes_away_stops_the_votes(running: Running) -> None:
    def slow(batch: Tensor) -> Tensor:
        time.sleep(0.01)
        return PLANE(batch)

    smoother = smoother_with(
        slow, check=False, identity="slow", estimate=1_000_000, estimator="fixed", engine=Engine(block=50, workers=1)
    )
    with serving(smoother) as own:
        with pytest.raises(httpx.ReadTimeout), Client(own.address, timeout=0.3) as hasty:
            hasty.certify(at(0.0))
        until(lambda: not own.service.desk.running and not own.service.points.running, 2.0)
        with pytest.raises(httpx.ReadTimeout), Client(own.address, timeout=0.3) as hasty:
            for _ in hasty.looks(at(0.0, 3.0)):
                pass
        until(lambda: not own.service.desk.running, 2.0)


def test_a_full_line_is_said_with_when_to_come_again_and_clients_take_turns() -> None:
    """A client that fills the line does not keep another waiting behind all of it."""
    gate = threading.Event()

    def gated(batch: Tensor) -> Tensor:
        gate.wait()
        return PLANE(batch)

    smoother = smoother_with(gated, check=False, identity="gated", engine=Engine(block=50, workers=1))
    with serving(smoother, queue=4) as running:
        order: list[str] = []

        def ask(who: str, second: float) -> None:
            host = "127.0.0.1" if who == "many" else "127.0.0.2"
            with Client(running.address, transport=httpx.HTTPTransport(local_address=host)) as client:
                client.certify(at(2.0, second))
                order.append(who)

        threads = [threading.Thread(target=ask, args=("many", second)) for second in range(4)]
        for number, thread in enumerate(threads):  # two are under way, two wait
            thread.start()
            until(lambda number=number: len(running.service.desk.running) + len(running.service.line) == number + 1)
        with pytest.raises(ServerError) as refused:
            running.client.certify(at(2.0, 99.0))
        assert refused.value.status == 429
        assert refused.value.retry_after is not None
        assert refused.value.retry_after >= 1
        other = threading.Thread(target=ask, args=("one", 50.0))
        other.start()
        until(lambda: len(running.service.line) == 3)
        gate.set()
        for thread in [*threads, other]:
            thread.join()
        assert order.index("one") < 4, "who came last was served last"
        assert running.client.certify(at(2.0, 99.0)).label == 1


def test_a_classifier_that_fails_is_told_and_asked_again() -> None:
    broken = threading.Event()

    def fragile(batch: Tensor) -> Tensor:
        if broken.is_set():
            raise RuntimeError("out of memory")
        return PLANE(batch)

    with serving(smoother_with(fragile, check=False, identity="fragile")) as running:
        broken.set()
        with pytest.raises(ServerError, match="503.*out of memory"):
            running.client.certify(at(1.0))
        assert len(running.service.promises.memory) == 0
        broken.clear()
        assert running.client.certify(at(1.0)).label == 1


def test_votes_that_were_laid_aside_go_on_after_a_failure() -> None:
    """The block that failed was asked for by somebody who had gone: who asks next does not wait for it in vain."""
    asked, go, mended = threading.Event(), threading.Event(), threading.Event()

    def fragile(batch: Tensor) -> Tensor:
        asked.set()
        go.wait()
        if not mended.is_set():
            raise RuntimeError("out of memory")
        return PLANE(batch)

    smoother = smoother_with(fragile, check=False, identity="fragile", engine=Engine(block=50, workers=1))
    with serving(smoother, seconds=3.0) as running:
        with pytest.raises(httpx.ReadTimeout), Client(running.address, timeout=0.3) as hasty:
            hasty.certify(at(1.0))
        until(lambda: asked.is_set() and not running.service.points.running)
        desk = running.service.desk
        go.set()
        until(lambda: running.service.desk is not desk)
        mended.set()
        assert running.client.certify(at(1.0)).label == 1


def test_a_classifier_that_changed_answers_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    side = [1.0]

    def turning(batch: Tensor) -> Tensor:
        return PLANE(batch) * side[0]

    monkeypatch.setattr("smoothcert.serve.service.PROBED", 2)
    memory = Memory()
    with serving(smoother_with(turning, identity="turning"), memory) as running:
        assert running.client.certify(at(1.0)).label == 1
        side[0] = -1.0
        running.client.certify(at(5.0))
        until(lambda: running.service.broken is not None)
        with pytest.raises(ServerError, match="503.*changed while it was served"):
            running.client.certify(at(1.0))
        assert running.client.http.get("/v2/health/ready").status_code == 503
        assert running.client.http.get("/v2/health/live").status_code == 200


def test_a_memory_that_another_server_made_void_answers_nothing_any_more(tmp_path: Path) -> None:
    with serving(memory=Memory.open(tmp_path / "memory.sqlite")) as running:
        running.client.certify(at(1.0))
        with Memory.open(tmp_path / "memory.sqlite") as other:
            other.void("the classifier changed")
        with pytest.raises(ServerError, match="503.*void"):
            running.client.certify(at(1.0))
        assert running.client.http.get("/v2/health/ready").status_code == 503
