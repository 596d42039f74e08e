"""Tuning in blocks, and input by input: memory follows the block, and a kill loses the inputs under way alone."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.attacks.check import Effort, check
from smoothcert.data import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.noise import Noise
from smoothcert.polling import in_blocks
from smoothcert.smoother import Smoother
from smoothcert.store import open_run
from smoothcert.tuners import Ancer, DataDependent, HillClimb, PublishedAncer, PublishedDataDependent, Tuner
from smoothcert.tuners.echo import Quiet
from smoothcert.tuners.gap import Gap
from smoothcert.tuners.subject import Mirrored, Phase, Subject

TUNERS = [
    DataDependent(votes=50),
    PublishedDataDependent(steps=3, draws=20),
    Ancer(steps=4, draws=30, votes=60),
    PublishedAncer(steps=3, draws=20, isotropic_steps=3),
    HillClimb(votes=50),
]


class Watched(nn.Module):
    """A smooth network of three classes that remembers how many rows it was shown at most."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.most = max(self.most, len(x))
        logits: Tensor = self.layers(x)
        return logits


@pytest.mark.parametrize("tuner", TUNERS, ids=lambda tuner: type(tuner).__name__)
def test_no_call_of_the_network_exceeds_the_block(tuner: Tuner) -> None:
    x, start = torch.ones(2, 3, 2, 2), Noise("gaussian", 0.3)
    for block in (1, 7):
        model = Watched().eval()
        Smoother(model, start, estimate=500, engine=Engine(block=block), tuner=tuner).certify(x)
        assert model.most == block


START = Noise("gaussian", 0.3)


def quiet_of(subject: Subject) -> Quiet:
    """The constraint on the echo, by draws that do not depend on the block."""
    return Quiet.of(subject, 1, [subject.mirrored(Phase.CHECK, 0, 40)], 0.1)


CHOICES: dict[str, Callable[[Subject], Tensor]] = {
    "data_dependent": lambda subject: DataDependent(votes=50).tune(subject)[0],
    "data_dependent_published": PublishedDataDependent(steps=5, draws=20).tune,
    # Not its last comparison, whose draws are keyed by block.
    "ancer": lambda subject: Ancer(steps=10, draws=30).ascend(subject, START.scale, 1, quiet_of(subject)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_block_changes_rounding_alone(name: str) -> None:
    scales = []
    for block in (60, 20, 7):
        smoother = Smoother(Watched().eval(), START, estimate=500, engine=Engine(block=block))
        gap = Gap.of(START.law, 2, 12)
        scales.append(CHOICES[name](Subject(smoother, 0, torch.linspace(-1, 1, 12).reshape(3, 2, 2), START, gap)))
    assert not torch.equal(scales[0], START.scale.expand_as(scales[0]))
    for scale in scales[1:]:
        torch.testing.assert_close(scale, scales[0], rtol=1e-4, atol=1e-6)


def test_blocks_have_the_gradient_of_the_whole() -> None:
    model, x = Watched().eval(), torch.randn(23, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    scale = torch.ones(3, 2, 2, requires_grad=True)

    def slope(size: int) -> Tensor:
        logits = in_blocks(lambda block: model(scale * block), zip(torch.split(x, size), strict=True))
        return torch.autograd.grad(logits.softmax(dim=1)[:, 0].log().mean(), [scale])[0]

    for size in (1, 5, 22):
        torch.testing.assert_close(slope(size), slope(23), rtol=1e-5, atol=1e-7)


def test_in_blocks_a_gradient_needs_the_memory_of_one() -> None:
    """What the forward pass keeps for the gradient, in bytes: the inputs of the blocks, and nothing from inside the network."""
    model, x = Watched().eval(), torch.randn(64, 3, 2, 2, requires_grad=True)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda saved: kept.append(saved.nbytes) or saved, lambda saved: saved
    ):
        in_blocks(model, zip(torch.split(x, 64), strict=True))
        whole = sum(kept)
        kept.clear()
        in_blocks(model, zip(torch.split(x, 4), strict=True))
    assert whole > 3 * x.nbytes
    assert sum(kept) == x.nbytes


def test_mirrored_draws_are_split_as_a_tensor_is() -> None:
    half = torch.arange(5.0)[:, None]
    for number in (9, 10):
        whole = torch.cat([half, -half])[:number]
        for size in (1, 3, 4, 5, 7, 20):
            parts = list(Mirrored(half, number).split(size))
            assert [part.tolist() for part in parts] == [part.tolist() for part in torch.split(whole, size)]


def test_attacks_go_through_blocks_too() -> None:
    model = Watched().eval()
    smoother = Smoother(model, Noise("gaussian", 0.2), estimate=500, engine=Engine(block=7))
    x = torch.ones(1, 3, 2, 2)
    (certificate,) = smoother.certify(x)
    check(certificate, smoother, x[0], 0, Effort(None, 200, 200, 0.001), 1.0, None)
    assert model.most == 7


@pytest.mark.parametrize(("shape", "block"), [((1, 28, 28), 200), ((3, 32, 32), 200), ((3, 224, 224), 10)])
def test_the_default_block_follows_the_input_and_is_recorded(
    tmp_path: Path, shape: tuple[int, ...], block: int
) -> None:
    most = 0

    def sign(batch: Tensor) -> Tensor:
        nonlocal most
        most = max(most, len(batch))
        mean = batch.mean(dim=(1, 2, 3))
        return torch.stack([mean, 0.5 - mean], dim=1)

    data = ArrayDataset("one", np.full((1, *shape), 200, dtype=np.uint8))
    smoother = Smoother(sign, Noise.isotropic("gaussian", 0.25, grid=1 / 255), select=20, estimate=20)
    with open_run(sc.certify_all(smoother, data, tmp_path / "run")) as store:
        assert store.facts()["configuration"]["block"] == block == most
    most = 0
    again = Smoother(sign, Noise.isotropic("gaussian", 0.25, grid=1 / 255))
    again.refer_to(data)  # as an attack does, before it asks anything else
    assert most == again.plan.block == again.pollster.block == block
    with pytest.raises(sc.errors.SettingError, match="block=0"):
        Smoother(sign, Noise("gaussian", 0.25), engine=Engine(block=0))


BEGAN: list[int] = []


class Slow(Tuner):
    """Keeps the noise, slowly, and says which inputs it has begun."""

    name, reads_input = "slow", True

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        BEGAN.extend(indices)
        time.sleep(0.005)
        return start


class SlowAtFirst(nn.Module):
    """A network that takes long for bright pictures."""

    def forward(self, batch: Tensor) -> Tensor:
        time.sleep(0.02 if float(batch.mean()) > 0.7 else 0)
        return batch.flatten(1)[:, :2]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("shared_noise", [False, True])
def test_no_more_inputs_than_workers_are_under_way(tmp_path: Path, workers: int, shared_noise: bool) -> None:
    """The first input votes long, so that later ones must wait for it: they are not tuned ahead meanwhile."""
    gaps: list[int] = []
    BEGAN.clear()
    pixels = np.full((9, 1, 2, 2), 100, dtype=np.uint8)
    pixels[0] = 250
    smoother = Smoother(
        SlowAtFirst().eval(),
        Noise.isotropic("gaussian", 0.01, grid=1 / 255),
        estimate=400,
        estimator="fixed",
        engine=Engine(block=20, workers=workers, shared_noise=shared_noise),
        tuner=Slow(),
    )
    sc.certify_all(
        smoother,
        ArrayDataset("few", pixels),
        tmp_path / "run",
        progress=lambda progress: gaps.append(len(BEGAN) - progress.done),
    )
    assert sorted(BEGAN) == list(range(9))
    assert len(gaps) == 9
    assert max(gaps) <= workers  # what is begun and not recorded
    assert workers == 1 or max(gaps) > 0  # the next inputs are tuned while one votes


CHILD = """
import sys, pathlib
import numpy as np, torch
import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.tuners import DataDependent
from smoothcert.tuners.subject import Subject
out, log = sys.argv[1], open(sys.argv[2], "a")
drawn = Subject.mirrored
def logged(subject, *key):  # once for each input that is tuned
    print(subject.index, file=log, flush=True)
    return drawn(subject, *key)
Subject.mirrored = logged
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)).eval()
pixels = np.random.default_rng(0).integers(0, 256, size=(40, 1, 28, 28), dtype=np.uint8)
noise = sc.Noise.isotropic("gaussian", 0.25, grid=1 / 255)
smoother = sc.Smoother(model, noise, estimator="fixed", estimate=2000, tuner=DataDependent(), engine=sc.Engine(workers=2))
sc.certify_all(smoother, ArrayDataset("noise", pixels), out)
"""


def done(run: Path) -> list[str]:
    if not (run / "results.sqlite").exists():
        return []
    with open_run(run) as store:
        return [record.to_json() for record in store.records()]


@pytest.mark.slow
def test_killed_at_any_moment_one_input_per_worker_is_lost(tmp_path: Path) -> None:
    whole, broken, log = tmp_path / "whole", tmp_path / "broken", tmp_path / "log"
    command = [sys.executable, "-c", CHILD]
    subprocess.run([*command, str(whole), str(log)], check=True, capture_output=True)
    chance, lost = random.Random(0), []
    for tuned in (1, 9, 12):
        log.write_text("")
        before = len(done(broken))
        with subprocess.Popen([*command, str(broken), str(log)], stdout=subprocess.PIPE) as child:
            while len(log.read_text().split()) < tuned:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.03))
            child.send_signal(signal.SIGKILL)
        lost.append(len(log.read_text().split()) - (len(done(broken)) - before))
    assert max(lost) <= 2, lost
    assert 0 < len(done(broken)) < 40
    subprocess.run([*command, str(broken), str(log)], check=True, capture_output=True)
    assert done(broken) == done(whole)
