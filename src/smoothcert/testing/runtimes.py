"""What every runtime must pass: torch's answers up to rounding, the same bits on every thread, one core, no growth, refusals."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from smoothcert.answers import AGREEMENT, Loaded, differences, same_bits
from smoothcert.data.digits import load_digits
from smoothcert.engine import Engine
from smoothcert.errors import SmoothcertError
from smoothcert.models.adapters import as_classifier
from smoothcert.noise import Noise
from smoothcert.run import certify_all
from smoothcert.runtimes import REGISTRY, Runtime
from smoothcert.smoother import Smoother
from smoothcert.store.in_memory import InMemoryStore
from smoothcert.testing.suite import Suite, reads_back

SHAPE, CLASSES, BLOCK = (1, 28, 28), 10, 20


class TwoOutputs(nn.Module):
    """Logits and something else."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both."""
        return x.flatten(1)[:, :3], x


class RuntimeSuite(Suite):
    """On a small convolutional network with batch norm and dropout, and on embedded digits."""

    blocks = 300  # after which memory must not have grown by more than ``growth``
    growth = 32 * 2**20

    def network(self) -> nn.Module:
        """The same at every call, with statistics that matter."""
        with torch.random.fork_rng():
            torch.manual_seed(5)
            layers = [nn.Conv2d(1, 6, 5, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 8, 3, bias=False)]
            layers += [nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(800, CLASSES)]
            network = nn.Sequential(*layers)
            for _ in range(5):
                network(3 * torch.rand(30, *SHAPE) - 1)  # moves the running statistics
            return network.eval()

    def loaded(self, member: Runtime) -> Loaded:
        """The network as the member computes it."""
        return Loaded(member, as_classifier(self.network()))

    def block(self, key: int = 0) -> Tensor:
        """Random rows."""
        return 2 * torch.rand((BLOCK, *SHAPE), generator=torch.Generator().manual_seed(key)) - 0.5

    def smoother(self, member: Runtime, workers: int = 2) -> Smoother:
        """A smoothed classifier of blocks of 20 copies."""
        engine = Engine(block=BLOCK, workers=workers, runtime=str(member))
        return Smoother(
            self.network(), Noise.isotropic("gaussian", 0.25, 1 / 255), estimate=100, select=20, engine=engine
        )

    def test_it_answers_as_torch_does(self, member: Runtime) -> None:
        """On random rows, on rows far away and on real ones, up to a thousandth of a logit and a twentieth of the votes."""
        loaded, torch_itself = self.loaded(member), self.network()
        digits = torch.from_numpy(load_digits().inputs(range(BLOCK)))
        for rows in (self.block(), -30 * self.block(1), digits, torch.zeros_like(digits)):
            with torch.inference_mode():
                expected, got = torch_itself(rows), loaded(rows)
            off, _, moved = differences(expected, got)
            limit = max(AGREEMENT, 8 * torch.finfo(member.dtype).eps)
            assert float(off.max()) <= limit, f"{member} is off by {float(off.max()):.2g} of a logit's size"
            assert int(moved.sum()) <= BLOCK / 20, f"{member} moves {int(moved.sum())} of {BLOCK} votes"

    def test_it_leaves_the_rows_and_its_answers_alone(self, member: Runtime) -> None:
        """Neither is written to by a later call."""
        loaded, rows = self.loaded(member), self.block()
        first = loaded(rows)
        kept = first.clone()
        loaded(self.block(1))
        assert torch.equal(rows, self.block()), f"{member} writes into the block"
        assert same_bits(first, kept), f"{member} gives its answers in memory that it uses again"

    def test_every_thread_gets_the_same_bits(self, member: Runtime) -> None:
        """Four at once, twice over."""
        loaded, rows = self.loaded(member), [self.block(key) for key in range(4)]
        with torch.inference_mode():
            alone = [loaded(each) for each in rows]
        found: dict[int, list[bool]] = {}

        def ask(key: int) -> None:
            torch.set_num_threads(1)
            with torch.inference_mode():
                found[key] = [same_bits(alone[key], loaded(rows[key])) for _ in range(5)]

        before = torch.get_num_threads()
        threads = [threading.Thread(target=ask, args=(key,)) for key in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.set_num_threads(before)
        assert found == {key: [True] * 5 for key in range(4)}, f"{member} answers otherwise in another thread"

    def test_a_call_takes_one_core(self, member: Runtime) -> None:
        """The calling thread does the work: workers run blocks side by side."""
        loaded, rows, before = self.loaded(member), self.block(), torch.get_num_threads()
        torch.set_num_threads(1)
        with torch.inference_mode():
            loaded(rows)
            own, all_ = time.thread_time(), time.process_time()
            for _ in range(20):
                loaded(rows)
            own, all_ = time.thread_time() - own, time.process_time() - all_
        torch.set_num_threads(before)
        assert all_ <= 1.5 * own + 0.02, f"{member} used {all_:.3f} s of all cores and {own:.3f} s of its own"

    def test_memory_does_not_grow(self, member: Runtime) -> None:
        """Over many blocks, from threads that come and go."""
        loaded, rows = self.loaded(member), self.block()
        loaded(rows)

        def ask(blocks: int) -> None:
            torch.set_num_threads(1)
            with torch.inference_mode():
                for _ in range(blocks):
                    loaded(rows)

        before = torch.get_num_threads()
        sizes = []
        for _ in range(3):
            for _ in range(5):
                thread = threading.Thread(target=ask, args=(self.blocks // 15,))
                thread.start()
                thread.join()
            sizes.append(_resident())
        torch.set_num_threads(before)
        assert sizes[2] - sizes[1] < self.growth, f"{member} grew by {(sizes[2] - sizes[1]) >> 20} MB"

    def test_fewer_rows_are_answered_too(self, member: Runtime) -> None:
        """As the first rows of a block are."""
        loaded = self.loaded(member)
        with torch.inference_mode():
            whole, part = loaded(self.block()), loaded(self.block()[:7])
        off, _, _ = differences(whole[:7], part)
        assert part.shape == (7, CLASSES), f"{member} answers 7 rows with {tuple(part.shape)}"
        assert float(off.max()) <= AGREEMENT, f"{member} answers rows otherwise in a smaller block"

    def test_records_do_not_depend_on_workers(self, member: Runtime) -> None:
        """The same bytes with one worker and with three, and a run is not continued by another runtime."""
        data, texts = load_digits(), []
        for workers in (1, 3):
            store = InMemoryStore()
            certify_all(self.smoother(member, workers), data, store, indices=[0, 1, 2], rows=workers)
            texts.append([record.to_json() for record in store.records()])
        assert texts[0] == texts[1], f"{member} gives other records with other workers"
        assert store.facts()["configuration"]["runtime"].startswith(str(member).partition(":")[0])

    def test_what_it_cannot_take_is_refused(self, member: Runtime) -> None:
        """With one of our errors, which says why; a model with two outputs is one for every runtime."""
        told = ""
        try:
            Loaded(member, as_classifier(TwoOutputs()))(torch.rand(2, 1, 2, 2))
        except SmoothcertError as problem:
            told = str(problem)
        assert "returned a tuple" in told, f"{member} took a model with two outputs, or did not say so: {told}"

    def test_its_text_reads_back(self, member: Runtime) -> None:
        """As it would be written on the command line."""
        reads_back(member, REGISTRY)


def _resident() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
