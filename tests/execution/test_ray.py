"""A real Ray cluster of two nodes on this machine: the same records, whatever happens to its workers."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.data.selection import shard_of
from smoothcert.errors import ClusterError, ModelError
from smoothcert.merge import merge
from smoothcert.models import load_model
from smoothcert.run import Progress
from smoothcert.store import open_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(180)]
NOISE = sc.Noise.isotropic("gaussian", 0.3, grid=1 / 255)
PIXELS = np.random.default_rng(3).integers(0, 256, size=(12, 1, 4, 4), dtype=np.uint8)
DATA = ArrayDataset("pixels", PIXELS, [n % 3 for n in range(12)])
FACTORY = Path(__file__).parent / "own_code" / "own_network.py"
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"estimator": "fixed"},
    "sequential": {"radii": (0.1, 0.3)},
    "ancer": {"estimator": "fixed", "tuner": sc.Ancer(steps=3, votes=100)},
}


class Slow(nn.Module):
    """A small network that takes its time, so that something can happen to it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.seconds = nn.Linear(16, 3), seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return self.layer(x.flatten(1)).sigmoid()  # whose bits depend on the instruction set


@dataclass
class Nodes:
    """The cluster."""

    cluster: Any
    address: str

    def engine(self, actors: int, more: str = "") -> str:
        return f"ray:address={self.address},actors={actors},cpus=1{more}"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    own = [str(FACTORY.parent), *filter(None, [os.environ.get("PYTHONPATH")])]  # as if it were installed on every node
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    os.environ["PYTHONPATH"] = os.pathsep.join(own)
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    yield Nodes(cluster, cluster.address)
    ray.shutdown()
    cluster.shutdown()


def smoother(engine: str, kind: str = "sequential", seconds: float = 0.01, **more: Any) -> sc.Smoother:
    model = more.pop("model", None) or Slow(seconds).eval()
    settings = {"estimate": 3_000, **KINDS[kind], **more}
    workers = int(engine.partition("=")[2]) if engine.startswith("threads:") else None
    executor = "threads" if engine.startswith("threads") else engine
    return sc.Smoother(model, NOISE, engine=sc.Engine(executor=executor, workers=workers), **settings)


def digest(folder: Path) -> str:
    """One hash of a run: its records with their arrays, its configuration, its promises."""
    from smoothcert.memory.memory import Memory

    with open_run(folder) as store:
        parts = [record.to_json() for record in store.records()]
        parts.append(repr(sorted(store.facts()["configuration"].items())))
        keeper = store.keeper(create=False) if store.keeps_memory else None
        if keeper is not None:
            parts.append(repr([(r.label, r.region_radius) for r in store.records()]) + str(len(Memory.open(keeper))))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def certified(
    folder: Path, made: sc.Smoother, kind: str = "", progress: Callable[[Progress], None] | None = None
) -> str:
    try:
        sc.certify_all(made, DATA, folder, memory=folder if kind == "ancer" else None, progress=progress)
    finally:
        made.close()
    return digest(folder)


def pids(made: sc.Smoother) -> list[int]:
    """The processes of the workers that have proved themselves."""
    [crew] = made.driver.executor._crews.values()  # type: ignore[attr-defined]
    return [int(re.findall(r"process (\d+)", member.node)[0]) for member in crew.members if member.node]


def then(deed: Callable[[], None], after: int = 2) -> Callable[[Progress], None]:
    """Do this once, when so many inputs are done."""
    done = []

    def show(progress: Progress) -> None:
        if progress.done >= after and not done:
            done.append(1)
            deed()

    return show


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The hash of each kind of run, on threads."""
    found = {}
    for kind in KINDS:
        hashes = {
            certified(tmp_path_factory.mktemp(kind) / "run", smoother(f"threads:n={n}", kind), kind) for n in (1, 2)
        }
        [found[kind]] = hashes
    return found


@pytest.mark.parametrize("actors", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_one_hash_on_threads_and_actors(
    nodes: Nodes, expected: dict[str, str], tmp_path: Path, kind: str, actors: int
) -> None:
    made = smoother(nodes.engine(actors), kind)
    assert certified(tmp_path / "run", made, kind) == expected[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_one_hash_of_three_shards_merged(nodes: Nodes, expected: dict[str, str], tmp_path: Path, kind: str) -> None:
    """Each certified elsewhere; with a memory, settled afterwards."""
    parts = [tmp_path / f"part-{number}" for number in (1, 2, 3)]
    for number, (part, engine) in enumerate(
        zip(parts, ("threads:n=1", nodes.engine(2), "threads:n=2"), strict=True), 1
    ):
        made = smoother(engine, kind)
        sc.certify_all(made, DATA, part, indices=shard_of(range(len(DATA)), f"{number}/3"))
        made.close()
    out = tmp_path / "run"
    merge(parts, out, dataset=DATA, memory=out if kind == "ancer" else None)
    assert digest(out) == expected[kind]


HURT = [
    ("fixed", signal.SIGKILL),
    ("sequential", signal.SIGKILL),
    ("ancer", signal.SIGKILL),
    ("sequential", signal.SIGSTOP),
]


@pytest.mark.parametrize(("kind", "signal_"), HURT)
def test_a_killed_and_a_stopped_worker_lose_nothing(
    nodes: Nodes, expected: dict[str, str], tmp_path: Path, kind: str, signal_: signal.Signals
) -> None:
    made, hurt = smoother(nodes.engine(2, ",patience=1,task=0.02"), kind), []

    def deed() -> None:
        hurt.append(pids(made)[0])
        os.kill(hurt[0], signal_)

    assert certified(tmp_path / "run", made, kind, progress=then(deed)) == expected[kind]
    assert hurt


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_node_loses_nothing(nodes: Nodes, expected: dict[str, str], tmp_path: Path, kind: str) -> None:
    node = nodes.cluster.add_node(num_cpus=2, resources={"extra": 1})
    try:
        made = smoother(nodes.engine(3, ",patience=1,task=0.02"), kind)
        deed = threading.Thread(target=nodes.cluster.remove_node, args=(node, False))
        found = certified(tmp_path / "run", made, kind, progress=then(deed.start))
        deed.join()
    finally:
        if node in nodes.cluster.worker_nodes:
            nodes.cluster.remove_node(node)
    assert found == expected[kind]


PROGRAM = """
import os, signal, sys
sys.path.insert(0, {root!r})
import smoothcert as sc
from tests.execution.test_ray import DATA, smoother
def show(progress):
    if progress.done >= 3 and {kill}:
        os.kill(os.getpid(), signal.SIGKILL)
try:
    memory = {folder!r} if {kind!r} == "ancer" else None
    sc.certify_all(smoother({engine!r}, {kind!r}), DATA, {folder!r}, progress=show, memory=memory)
except sc.SmoothcertError as problem:
    print(type(problem).__name__, problem)
"""


def program(
    engine: str, folder: Path, kind: str = "sequential", *, kill: bool = False, before: str = "", **environment: str
) -> str:
    """What another driver prints."""
    root = str(Path(__file__).parents[2])
    text = before + PROGRAM.format(root=root, kill=kill, engine=engine, folder=str(folder), kind=kind)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == (-signal.SIGKILL if kill else 0), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("kind", "first", "second"), [(k, "ray", "threads") for k in KINDS] + [("ancer", "threads", "ray")]
)
def test_a_driver_that_is_killed_goes_on_elsewhere(
    nodes: Nodes, expected: dict[str, str], tmp_path: Path, kind: str, first: str, second: str
) -> None:
    engines = {"ray": nodes.engine(2), "threads": "threads"}
    program(engines[first], tmp_path / "run", kind, kill=True)
    with open_run(tmp_path / "run") as store:
        assert 3 <= len(store.indices()) < len(DATA)
    assert certified(tmp_path / "run", smoother(engines[second], kind), kind) == expected[kind]


def test_another_instruction_set_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    """The driver computes without vector instructions, so every worker does it otherwise than the driver."""
    told = program(nodes.engine(1), tmp_path / "run", ATEN_CPU_CAPABILITY="default")
    assert told.startswith("ClusterError the worker on ")
    assert re.search(r"does not compute what the driver does: .*(logits|noise) bits", told)
    with open_run(tmp_path / "run") as store:
        assert not store.indices()


def test_another_version_of_ray_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    told = program(nodes.engine(1), tmp_path / "run", before="import ray; ray.__version__ = '1.2.3'\n")
    assert told.startswith("ClusterError cannot join the Ray cluster")
    assert "ersion" in told
    assert not (tmp_path / "run").exists()


def test_more_actors_than_fit_are_refused_in_time(nodes: Nodes, tmp_path: Path) -> None:
    began = time.monotonic()
    made = smoother(nodes.engine(50, ",place=3"))
    with pytest.raises(ClusterError, match=r"no room for 50 actors of 1 CPU each within 3 s: it has .* of 2 CPU free"):
        certified(tmp_path / "run", made)
    assert time.monotonic() - began < 30
    assert not (tmp_path / "run").exists()


def exported(folder: Path) -> dict[str, Any]:
    """One model in every form that does not pickle, and in those that do."""
    module, x = Slow(0.0).eval(), torch.zeros(2, 1, 4, 4)
    plain = nn.Sequential(nn.Flatten(), module.layer, nn.Tanh()).eval()
    batch = torch.export.Dim("batch")
    torch.export.save(torch.export.export(plain, (x,), dynamic_shapes=({0: batch},)), folder / "net.pt2")
    torch.jit.trace(plain, x).save(folder / "net.ts")
    torch.onnx.export(plain, (x,), folder / "net.onnx", input_names=["x"], dynamic_axes={"x": {0: "n"}}, dynamo=False)
    files = {name: load_model(folder / name, shape=(1, 4, 4)) for name in ("net.pt2", "net.ts", "net.onnx")}
    return {**files, "lambda": lambda batch: plain(batch), "factory": load_model("own_network:build", shape=(1, 4, 4))}


@pytest.mark.parametrize("form", ["net.pt2", "net.ts", "net.onnx", "lambda", "factory"])
def test_every_form_of_a_model_travels(
    nodes: Nodes, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FACTORY.parent))
    model = exported(tmp_path)[form]
    hashes = {
        certified(tmp_path / name, smoother(engine, "fixed", model=model, identity=form))
        for name, engine in (("threads", "threads"), ("ray", nodes.engine(1)))
    }
    assert len(hashes) == 1


def test_a_file_that_changed_is_not_sent(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FACTORY.parent))
    model = exported(tmp_path)["net.pt2"]
    (tmp_path / "net.pt2").write_bytes(b"other")
    with pytest.raises(ClusterError, match="has changed since it was loaded"):
        smoother(nodes.engine(1), model=model, check=False).certify(torch.rand(1, 1, 4, 4).mul(255).round() / 255)


def test_what_a_model_raises_on_a_worker_is_raised_here(nodes: Nodes) -> None:
    here = os.getpid()

    def broken(batch: torch.Tensor) -> torch.Tensor:
        if os.getpid() != here and float(batch.mean()) < 10:
            raise ModelError("broken there")
        return batch.flatten(1)[:, :2]

    made = smoother(nodes.engine(1), model=broken, check=False, identity="broken")
    with pytest.raises((ModelError, ClusterError), match="broken there"):
        made.certify(torch.zeros(1, 1, 4, 4))
    made.close()


def test_predictions_are_those_of_threads(nodes: Nodes) -> None:
    x = torch.from_numpy(PIXELS[:4] / 255).float()
    made = smoother(nodes.engine(2))
    assert made.predict(x) == smoother("threads").predict(x)
    made.close()


def casts(made: sc.Smoother) -> int:
    """How many tasks the workers have answered."""
    [crew] = made.driver.executor._crews.values()  # type: ignore[attr-defined]
    return sum(member.answers for member in crew.members)


def test_attacks_and_methods_that_vote_are_those_of_threads(nodes: Nodes) -> None:
    x = torch.from_numpy(PIXELS[:2] / 255).float()
    there, here = (smoother(engine, "fixed", 0.0) for engine in (nodes.engine(2), "threads"))
    certificates = there.certify(x)
    assert certificates == here.certify(x)
    before = casts(there)
    findings = [sc.attack(certificates, made, x, attacks=["projected_gradient"], budget=100) for made in (there, here)]
    assert repr(findings[0]) == repr(findings[1])
    assert any(found is not None for found in findings[0])
    assert casts(there) > before
    there.close()
    climbing = {"tuner": "hill_climb:votes=100,step=2"}
    one, two = (smoother(engine, "fixed", 0.0, **climbing) for engine in (nodes.engine(2), "threads"))
    assert one.certify(x) == two.certify(x)
    assert casts(one)
    one.close()
