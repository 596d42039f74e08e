"""What a server costs: python benchmarks/serve.py [--root DIR] [--hits 5000] [--certificates 200] prints a line per figure.

A small CNN (lenet) is trained for about half a minute, on MNIST where DIR holds it, else on the embedded digits, and served on the
loopback as a process of its own, with a memory in a file. Four clients first ask for certificates of new inputs, then ask
again, a pixel changed by 1/255, for inputs that lie inside these promises. CPU and resident memory are the server's, from
/proc (Linux); p50 and p99 are what a client waits. Bare votes are as many answers of the network alone, on ready-made noisy
copies and one thread, as certificates took votes: those that chose the class, and those that bound how often it wins.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from smoothcert.data import load
from smoothcert.models import load_model

CLIENTS, SIGMA, SELECT, WARM = 4, 0.25, 100, 20
Told = tuple[np.ndarray, dict[str, Any], float]  # an input, its answer, and the milliseconds it took
PROGRAM = [sys.executable, "-m", "smoothcert"]


class Server:
    """A server's process: what it used, and many who ask it."""

    def __init__(self, process: int, address: str, log: Path) -> None:
        self.proc, self.place, self.log = Path("/proc") / str(process), address.removeprefix("http://"), log

    def used(self) -> tuple[float, float]:
        """Milliseconds of CPU so far, and MB of memory now."""
        fields = (self.proc / "stat").read_text().rpartition(")")[2].split()
        ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
        return 1e3 * ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def ask(self, inputs: list[np.ndarray]) -> list[Told]:
        """One client."""
        link, found = http.client.HTTPConnection(self.place), []
        for x in inputs:
            body, began = json.dumps({"input": x.tolist()}), time.perf_counter()
            link.request("POST", "/certify", body, {"Content-Type": "application/json"})
            reply = link.getresponse()
            answer = json.loads(reply.read())
            assert reply.status == 200, (reply.status, answer, self.log.read_text()[-3000:])
            found.append((x, answer, 1e3 * (time.perf_counter() - began)))
        return found

    def load(self, inputs: list[np.ndarray], said: str) -> list[Told]:
        """All clients; prints the figures."""
        before, began = self.used()[0], time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            told = list(chain(*pool.map(self.ask, [inputs[first::CLIENTS] for first in range(CLIENTS)])))
        rate, (cpu, memory) = len(told) / (time.perf_counter() - began), self.used()
        middle, late = np.quantile([waited for _, _, waited in told], [0.5, 0.99])
        cost = f"{rate:.0f}/s, {(cpu - before) / len(told):.2f} ms of CPU each, p50 {middle:.1f} ms, p99 {late:.1f} ms"
        print(f"{len(told)} {said}: {cost}; then {memory:.1f} MB", flush=True)
        return told


@contextmanager
def serving(model: Path, data: str, memory: Path) -> Iterator[Server]:
    """A server, once it is ready."""
    words = ["--model", model, "--data", data, "--sigma", str(SIGMA), "--radii", str(SIGMA), "--memory", memory]
    command = [*PROGRAM, "serve", *words, "--port", "0", "--json"]
    log = memory.with_suffix(".log")
    with log.open("w") as told, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            while httpx.get(f"{address}/v2/health/ready", timeout=60).status_code != 200:
                time.sleep(0.1)
            yield Server(process.pid, address, log)
        finally:
            process.terminate()


def train(out: Path, data: str, epochs: int) -> Path:
    words = ["--model", "lenet", "--data", data, "--recipe", "gaussian", "--sigma", str(SIGMA), "--limit", "15000"]
    command = [*PROGRAM, "train", *words, "--epochs", str(epochs), "--out", out]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out / "model.safetensors"


def bare(path: Path, x: np.ndarray) -> float:
    """Milliseconds of CPU for one vote of the network alone."""
    torch.set_num_threads(1)
    model, copies = load_model(path, shape=x.shape, classes=10), x + SIGMA * torch.randn(SELECT, *x.shape)
    with torch.inference_mode():
        began = time.process_time()
        for _ in range(100):
            model(copies).argmax(1)
    return 1e3 * (time.process_time() - began) / (100 * SELECT)


def main() -> None:
    """Train, serve and ask."""
    parser = argparse.ArgumentParser(description="What a server costs.")
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder that holds MNIST")
    parser.add_argument("--hits", type=int, default=5_000)
    parser.add_argument("--certificates", type=int, default=200)
    given = parser.parse_args()
    data, epochs = (f"mnist:root={given.root}", 1) if (given.root / "MNIST").is_dir() else ("digits", 8)
    print(f"lenet on {data}, sigma and radius {SIGMA}, {CLIENTS} clients, {os.cpu_count()} cores", flush=True)
    inputs = load(data).inputs(range(WARM + given.certificates))
    with tempfile.TemporaryDirectory() as name:
        path = train(Path(name), data, epochs)
        with serving(path, data, Path(name) / "promises.sqlite") as server:
            server.load([*inputs[:WARM], *inputs[:WARM]], "to warm up")
            half = WARM + given.certificates // 2
            new = server.load(list(inputs[WARM:half]), "new certificates")
            new += server.load(list(inputs[half:]), "new certificates")
            votes = SELECT + sum(answer["votes"] for _, answer, _ in new) / len(new)
            cost = bare(path, torch.from_numpy(inputs[0])) * votes
            print(f"  {votes:.0f} votes each, bare {cost:.2f} ms of CPU; 10 + 1.3 × that: {10 + 1.3 * cost:.2f} ms")
            near = [x for x, answer, _ in new if answer["radius"] > 1 / 255]
            for x in near:
                x.flat[0] += np.float32(1 / 255)
            hits = server.load([near[number % len(near)] for number in range(given.hits)], "memory hits")
            assert all(answer["source"] == "memory" for _, answer, _ in hits)


if __name__ == "__main__":
    main()
