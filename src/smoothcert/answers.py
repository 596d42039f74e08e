"""Answers to a block of rows: who wins each, how far two are apart, and whether a runtime gives those of torch."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch
from torch import Tensor

from smoothcert.asks import winners
from smoothcert.errors import ModelError, NotFixed, SmoothcertError
from smoothcert.models.adapters import Classifier
from smoothcert.runtimes import Runtime

AGREEMENT = 1e-3  # of a logit's size: other algorithms for a convolution stay below it, another network does not
STEPS = 8  # the same for coarser formats, in steps of the format
CLEAR = 10  # a margin of so many roundings is no matter of rounding
MOVED = 0.05  # and no more than this share of the votes is, however small their margins
FAR = -8.0  # times the rows: where the runtime must agree as well


def same_bits(one: Tensor, two: Tensor) -> bool:
    """Are they equal, NaN for NaN?"""
    return bool(((one == two) | (one.isnan() & two.isnan())).all())


def differences(expected: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Per row: how far its logits moved and its margin, in units of their size, and did its vote move?

    The size is that of the two logits that decide the vote, in this row or in the median one, whichever is larger: a
    masked class at -1e30 makes nothing look small.
    """
    before, after = expected.cpu().double(), seen.cpu().double()
    top = before.topk(2, dim=1).values
    size = top.abs().amax(dim=1)
    finite = size[size.isfinite()]
    typical = max(float(finite.median()) if len(finite) else 0.0, 1e-300)
    size = size.clamp_min(typical)
    same = (before == after) | (before.isnan() & after.isnan())
    apart = ((before - after).abs() / before.abs().clamp_min(typical)).masked_fill(same, 0.0)
    off = apart.nan_to_num(nan=torch.inf, posinf=torch.inf).amax(dim=1)
    margin = ((top[:, 0] - top[:, 1]) / size).nan_to_num(nan=0.0)
    return off, margin, winners(before) != winners(after)


def seen(off: Tensor, moved: Tensor, wrong: Tensor) -> str:
    return (
        f"it answered {int(wrong.sum())} of {len(wrong)} rows otherwise (logits moved by up to {float(off.max()):.2g} of their "
        f"size, {int(moved.sum())} votes moved)"
    )


class Loaded:
    """A classifier as a runtime computes it, on blocks of any shape; compared with torch before its first answer counts.

    It is loaded for the first block of a shape. Fewer rows than it was loaded for are filled up, and cut off again.
    """

    def __init__(self, runtime: Runtime, classifier: Classifier) -> None:
        self.runtime, self.classifier = runtime, classifier
        self._known: dict[tuple[int, ...], Callable[[Tensor], Tensor]] = {}
        self._compared: dict[tuple[int, ...], Tensor] = {}  # the block that was compared, by shape
        self._loading = threading.Lock()

    def __call__(self, copies: Tensor) -> Tensor:
        compute = self._known.get(tuple(copies.shape))
        return self._other(copies) if compute is None else compute(copies)

    def confirm(self) -> None:
        """Refuse a classifier whose weights were changed since the runtime took them."""
        for shape, block in self._compared.items():
            problem = self._difference(self._asked(self.classifier, block), self._known[shape](block.clone()))
            if problem:
                raise NotFixed(
                    f"the runtime {self.runtime.title} loaded the model as it was, and since then it has changed ({problem}); "
                    "give a model that was trained on to a new Smoother"
                )

    def _other(self, copies: Tensor) -> Tensor:
        """The answers to a block of a shape that is not known yet."""
        shape = tuple(copies.shape)
        with self._loading:
            larger = [known for known in self._known if known[0] > len(copies) and known[1:] == shape[1:]]
            compute = self._known.get(shape)
            if compute is None and (self.runtime.plain or not larger):
                compute = self._load(copies)
                self._known[shape] = compute
        if compute is not None:
            return self._asked(compute, copies)
        filled = copies.new_zeros(min(larger))
        filled[: len(copies)] = copies
        return self._known[min(larger)](filled)[: len(copies)]

    def _load(self, block: Tensor) -> Callable[[Tensor], Tensor]:
        """What the runtime makes of the classifier, refused unless it answers as torch does."""
        if self.runtime.plain:
            return self.runtime.load(self.classifier, block)
        blocks = [block, FAR * block]
        expected = [self._asked(self.classifier, rows) for rows in blocks]
        try:
            compute = self.runtime.load(self.classifier, block)
            got = [self._asked(compute, rows.clone()) for rows in blocks]
        except ModelError as problem:  # of the classifier, while it was traced: torch has just computed it
            raise self._refused(f"cannot take this network ({_reason(problem)})") from problem
        except SmoothcertError:
            raise
        except Exception as problem:  # exporters and compilers fail in ways of their own
            raise self._refused(f"cannot take this network ({_reason(problem)})") from problem
        for there, here in zip(expected, got, strict=True):
            found = self._difference(there, here)
            if found:
                raise self._refused(f"does not compute this network: compared with torch, {found}")
        self._compared[tuple(block.shape)] = block.clone()
        return compute

    @torch.inference_mode()
    def _asked(self, compute: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
        return compute(rows)

    def _difference(self, expected: Tensor, got: Tensor) -> str | None:
        """By what answers differ from torch's, if by more than rounding."""
        if got.shape != expected.shape or not got.is_floating_point():
            told = [f"{tuple(each.shape)} of {each.dtype}" for each in (got, expected)]
            return f"it gave answers {told[0]} instead of {told[1]}"
        off, margin, moved = differences(expected, got)
        limit = max(AGREEMENT, STEPS * torch.finfo(self.runtime.dtype).eps)
        wrong = (off > limit) | (moved & (margin > CLEAR * limit))
        if int(moved.sum()) > max(1, MOVED * len(moved)):
            wrong |= moved
        return seen(off, moved, wrong) if bool(wrong.any()) else None

    def _refused(self, what: str) -> ModelError:
        return ModelError(
            f"the runtime {self.runtime.title} {what}; use the runtime torch, or auto, which tries what is there, or another one "
            "(smoothcert list runtimes)"
        )


def _reason(problem: BaseException) -> str:
    """The first line that says something of the error that began it: exporters wrap it in advice to their developers."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
