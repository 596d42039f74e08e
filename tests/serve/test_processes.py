"""Servers as processes: killed, stopped under load, without their database; what was acknowledged is kept and never contradicted."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from tests.serve.conftest import at, serving, smoother_with, until

from helpers.servers import PASSWORD, PostgresServer
from smoothcert.attacks.check import attack
from smoothcert.certificates import Certificate, Soundness
from smoothcert.client import Client, ServerError
from smoothcert.estimators.bounds import Bound
from smoothcert.memory.memory import Memory
from smoothcert.models.architecture import Architecture
from smoothcert.regions import Region
from smoothcert.serve.messages import Answer
from smoothcert.testing.leaks import LocLeak

ROOT = Path(__file__).parents[2]


@contextmanager
def process(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server as a process, and its address once it is ready."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**os.environ, "PGPASSWORD": PASSWORD, "PYTHONPATH": paths}
    started = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert started.stdout is not None
        address = json.loads(started.stdout.readline())["address"]
        until(lambda: _ready(address), 60)
        yield started, address
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/v2/health/ready").status_code == 200
    except httpx.TransportError:
        return False


def leaking(memory: object, pause: float = 0.0) -> tuple[str, ...]:
    return (str(ROOT / "tests/serve/leaking_server.py"), str(memory), str(pause))


@dataclass
class Crowd:
    """Eight clients that ask whichever server answers, and remember what they were told."""

    addresses: list[str]
    over: threading.Event = field(default_factory=threading.Event)
    told: list[tuple[np.ndarray, Answer, str]] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def ask(self, number: int) -> None:
        chance = random.Random(number)
        while not self.over.is_set():
            address, x = chance.choice(self.addresses), at(chance.uniform(-4, 4), chance.uniform(-20, 20))
            try:
                with Client(address, timeout=30) as client:
                    self.told.append((x, client.certify(x), address))
            except ServerError as problem:
                self.refused.append(problem.status)
                time.sleep(0.05)
            except httpx.TransportError:
                time.sleep(0.05)

    @contextmanager
    def asking(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join()

    def more(self, count: int) -> None:
        """Wait for so many more answers."""
        before = len(self.told)
        until(lambda: len(self.told) >= before + count, 60)

    def contradictions(self) -> int:
        """Pairs of answers of which one was given inside the region of the other, with another label."""
        centers = np.array([x for x, answer, _ in self.told])
        radii = np.array([answer.radius for _, answer, _ in self.told])
        labels = np.array([-1 if answer.label is None else answer.label for _, answer, _ in self.told])
        distance = np.linalg.norm(centers[:, None] - centers[None], axis=2)
        unlike = (labels[:, None] != labels[None]) & (labels[:, None] >= 0) & (labels[None] >= 0)
        return int(np.sum((distance < radii[:, None]) & unlike))


@pytest.mark.slow
def test_two_servers_share_a_memory_through_a_kill_and_a_crash_of_the_database(postgres: PostgresServer) -> None:
    memory = f"{postgres.place}#two-servers"
    with process(*leaking(memory)) as (one, first), process(*leaking(memory)) as (_, second):
        crowd = Crowd([first, second])
        with crowd.asking():
            crowd.more(100)
            postgres.crash()
            until(lambda: 503 in crowd.refused, 30)
            assert _ready(second), "a server that waits for its database need not be started again"
            postgres.start()
            crowd.more(100)
            one.send_signal(signal.SIGKILL)
            crowd.more(100)
        with Client(second) as client:
            known = {answer.id for _, answer, _ in crowd.told if answer.id is not None}
            kept = [client.promise(name) for name in known]
        assert len(kept) == len(known) > 20, "acknowledged promises are forgotten"
        print(
            f"{len(crowd.told)} answers, {len(known)} promises, {crowd.refused.count(503)} refusals, one kill -9, one crash"
        )
        assert crowd.contradictions() == 0
        assert {answer.soundness for _, answer, _ in crowd.told if answer.label is not None} == {"memory"}


@pytest.mark.slow
def test_two_servers_with_a_memory_each_contradict_each_other(tmp_path: Path) -> None:
    """The control: without a common memory the same crowd is told things that cannot both be true."""
    with process(*leaking(tmp_path / "a")) as (_, first), process(*leaking(tmp_path / "b")) as (_, second):
        crowd = Crowd([first, second])
        with crowd.asking():
            crowd.more(150)
    print(f"{crowd.contradictions()} contradictions among {len(crowd.told)} answers")
    assert crowd.contradictions() > 0


@pytest.mark.slow
def test_every_request_that_was_taken_in_is_answered_before_the_end(tmp_path: Path) -> None:
    with process(*leaking(tmp_path / "memory", 0.01)) as (server, address):
        answers: list[int] = []

        def ask(number: int) -> None:
            body = {"input": at(1.0, 100.0 * number).tolist()}
            answers.append(httpx.post(f"{address}/certify", json=body, timeout=60).status_code)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        until(lambda: len(answers) > 0, 60)  # by then all have been taken in
        before = len(answers)
        server.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert server.wait(timeout=30) in (0, -signal.SIGTERM)
        assert answers == [200] * 16
        assert before < 16, "nothing was under way, so the test says nothing"
    with Memory.open(tmp_path / "memory") as memory:
        assert len(memory) == 16


class Through(Memory):
    """A memory that asks the server: what it answers is what the deployed predictor says."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client, self.asked = client, 0

    def answer(self, x: object) -> int | None:
        self.asked += 1
        return self.client.predict(np.asarray(x).ravel()).label


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["global", "memory"])
def test_the_falsifier_finds_nothing_through_the_service(kind: str) -> None:
    """Twenty regions searched for a point where the service itself answers otherwise; at three times the radius it finds them."""
    options = {"tuner": LocLeak()} if kind == "memory" else {}
    with serving(smoother_with(**options), queue=64) as running:
        inputs = [at(distance, 30.0 * row) for row, distance in enumerate([1.0, -1.5, 0.5, 2.0] * 5)]
        certificates = []
        for x in inputs:
            answer = running.client.certify(x)
            assert answer.soundness == kind
            kept = running.client.promise(answer.id or "")
            region = Region(np.array(kept.center), np.array(kept.scale), kept.region_radius, 2.0)
            # The label memory makes the falsifier ask the service, and not the classifier behind it.
            bound = Bound(answer.lower, answer.alpha, answer.votes)
            certificates.append(Certificate(answer.label, bound, region, Soundness.MEMORY))
        own, through = smoother_with(**options), Through(running.client)
        effort = {"attacks": ["random", "decision"], "budget": 200, "votes": 200, "memory": through}
        batch = torch.tensor(np.array(inputs), dtype=torch.float32)
        found = attack(certificates, own, batch, **effort)
        assert through.asked > 100
        assert not any(finding.violated for finding in found if finding is not None)
        if kind == "global":
            wide = attack(
                [replace(c, region=c.region.resized(3 * c.region.radius)) for c in certificates], own, batch, **effort
            )
            assert any(finding.violated for finding in wide if finding is not None), "the control cannot fail"


@pytest.mark.slow
def test_the_curl_lines_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of docs/serve.md that begins with curl, against the command itself."""
    from safetensors.torch import save_file

    from smoothcert.models.architecture import ARCHITECTURE_KEY

    torch.manual_seed(0)
    net = Architecture.of({"name": "mlp", "shape": (1, 28, 28), "classes": 10})
    save_file(net.build().state_dict(), tmp_path / "net.safetensors", {ARCHITECTURE_KEY: net.to_json()})
    pixels = np.random.default_rng(0).integers(0, 255, (28, 28), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "input.png")
    values = (pixels / 255).ravel().tolist()
    (tmp_path / "input.json").write_text(json.dumps({"input": values}))
    tensor = {"name": "input", "shape": [1, 1, 28, 28], "datatype": "FP32", "data": values}
    (tmp_path / "infer.json").write_text(json.dumps({"inputs": [tensor]}))
    page = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("curl")]
    assert len(lines) == 9
    words = ("-m", "smoothcert.cli", "serve", "--model", str(tmp_path / "net.safetensors"), "--sigma", "0.1")
    monkeypatch.chdir(tmp_path)
    runner = tmp_path / "run.py"
    runner.write_text("import sys; from smoothcert.cli import main; sys.argv[0] = 'smoothcert'; main()")
    with process(str(runner), *words[2:], "-n", "1000", "--port", "0", "--json") as (_, address):
        for line in lines:
            asked = shlex.split(line.replace("http://127.0.0.1:8000", address))
            done = subprocess.run([asked[0], "--fail", *asked[1:]], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}: {done.stdout} {done.stderr}"
            assert done.stdout.strip()
            if "event-stream" in line:
                assert "event: answer" in done.stdout
            elif line.endswith(("/metrics",)):
                assert "smoothcert_expected_wrong" in done.stdout
            else:
                json.loads(done.stdout)
