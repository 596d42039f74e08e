"""Step 1 with finite views: what is seen of an input through a lens stands where a noisy copy of it would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothcert.errors import SettingError
from smoothcert.laws import Law
from smoothcert.maths import Array
from smoothcert.noise import Noise, quantise
from smoothcert.plan import ALL_VIEWS
from smoothcert.radius import check_norm
from smoothcert.registry import Plugin
from smoothcert.seeds import TorchDraws
from smoothcert.threats import Threat, threat_named
from smoothcert.views import View

KEPT = 2**28  # bytes of lenses that are kept: they are the same for every input


class Sight(Noise):
    """Views in the place of noise: a draw is a lens, and a copy of x is what is seen of it through one.

    Where all views are asked they are taken by their numbers, and nothing is drawn at all.
    """

    view: View
    _lenses: dict[tuple[object, ...], Tensor]

    def __init__(self, view: View) -> None:
        object.__setattr__(self, "view", view)
        object.__setattr__(self, "scale", torch.as_tensor(view.scale, dtype=torch.float64))
        object.__setattr__(self, "loc", torch.zeros((), dtype=torch.float64))
        object.__setattr__(self, "grid", None if view.grid is None else 1 / view.grid)
        object.__setattr__(self, "_lenses", {})

    def __repr__(self) -> str:
        return f"Sight({self.view})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Sight, (self.view,)

    @property
    def law(self) -> Law:
        """Views follow none: whoever asks for it needs noise."""
        raise SettingError(
            f"{self.view.name} views follow no law of noise, which this needs; give noise, such as --noise gaussian --sigma 0.5"
        )

    @property
    def named(self) -> Plugin:
        return self.view

    @property
    def domain(self) -> str:
        return self.view.domain

    def per_input(self, event: int) -> bool:
        return False

    def row(self, position: int, shape: tuple[int, ...], batch: int) -> Noise:
        return self

    def draw_blocks(self, count: int, shape: tuple[int, ...], sources: Sequence[TorchDraws]) -> Tensor:
        """The lenses of ``count`` views from each source, each drawn from all of them."""
        found = [torch.as_tensor(self.view.drawn(shape, count, draws), device=draws.device) for draws in sources]
        return found[0] if len(found) == 1 else torch.cat(found)

    def numbered(self, start: int, count: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """The lenses of views start, start + 1, …, after the last one beginning again."""
        key = (shape, start, count, device)
        found = self._lenses.get(key)
        if found is None:
            numbers = np.arange(start, start + count) % self.view.count(shape)
            found = torch.as_tensor(_narrow(self.view.lens(shape, numbers)), device=device)
            if sum(each.nbytes for each in list(self._lenses.values())) + found.nbytes <= KEPT:
                self._lenses[key] = found
        return found

    def spread(self, number: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """The lenses of some views, evenly spaced among all; of all where there are no more."""
        views = self.view.count(shape)
        numbers = np.linspace(0, views, min(number, views), endpoint=False).astype(np.int64)
        return torch.as_tensor(self.view.lens(shape, numbers), device=device)

    def copies(self, x: Tensor, count: int, draws: TorchDraws) -> Tensor:
        """``count`` views of one input: the first, beginning again after the last, or drawn ones where not all are asked."""
        shape = tuple(x.shape)
        lens = self.numbered(0, count, shape, x.device) if self.view.complete else self.draw(count, shape, draws)
        return self.placer(x)(lens, lens)

    def placer(self, x: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """A function from lenses to what is seen of x, (count, *event); whole numbers are divided once, in float32.

        An input off the grid is refused.
        """
        given = (
            x + 0.0 if self.grid is None else quantise(x, self.levels).int()
        )  # −0 is 0, which a classifier could tell
        unit = float(self.view.unit)

        def seen(lens: Tensor, out: Tensor) -> Tensor:
            shown: Tensor = self.view.through(given, lens)
            return shown.float().div_(unit) if unit != 1 else shown.float()

        return seen

    def noisy(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A fresh view of each input of a batch, on the grid the nearest point's; gradients pass as if cells were points."""
        draws = TorchDraws(generator, torch.float64, x.device)
        lens = self.draw(len(x), tuple(x.shape[1:]), draws)
        steps = x if self.grid is None else (x.detach() * self.levels).round().long()
        shown: Tensor = self.view.through(steps, lens)
        seen = shown.to(x.dtype).div(self.view.unit)
        return seen if self.grid is None or not x.requires_grad else seen + (x - x.detach())


def _narrow(lens: Array) -> Array:
    """Whole numbers in 32 bits where they fit: half of the memory, and faster to compare."""
    limit = np.iinfo(np.int32).max
    return lens.astype(np.int32) if lens.dtype == np.int64 and -limit < lens.min() and lens.max() < limit else lens


@dataclass(frozen=True, eq=False)
class Aim:
    """What is certified against: a norm, or with views a threat too; and whether all views are asked."""

    view: View | None
    against: float | Threat

    @classmethod
    def of(cls, noise: Noise, norm: float | str, threat: str | Threat | None) -> Aim:
        """The norm or the threat, once it is one that the noise or the views have a certificate against; norm 0 is l0."""
        if not isinstance(noise, Sight):
            if threat is not None:
                raise SettingError(
                    f"threat={threat} needs views, such as bands, blocks, chunks or ablation; got noise ({noise.named})"
                )
            return cls(None, check_norm(norm))
        hamming = threat is None and norm in (0, "0")
        wanted = check_norm(norm) if threat is None and not hamming else threat_named(threat or "l0:1")
        known = noise.view.threats if isinstance(wanted, Threat) else noise.view.norms
        if (wanted.name if isinstance(wanted, Threat) else wanted) not in known:
            raise noise.view.no_certificate(str(wanted) if isinstance(wanted, Threat) else f"l{wanted:g}")
        return cls(noise.view, wanted)

    @property
    def norm(self) -> float:
        """The norm; 0 against a threat."""
        return 0.0 if isinstance(self.against, Threat) else self.against

    @property
    def complete(self) -> bool:
        """Are all views asked?"""
        return self.view is not None and self.view.complete

    @property
    def confidence(self) -> float:
        """From what softmax on a row votes."""
        return 0.0 if self.view is None else self.view.confidence

    def views(self, shape: tuple[int, ...]) -> int | None:
        """How many views of inputs of this shape are asked, if all are; a shape that does not fit is refused."""
        if self.view is None:
            return None
        if isinstance(self.against, Threat):
            self.against.check(shape)
            self.view.touched(self.against, shape)
        views = self.view.count(shape)
        return views if self.complete else None

    def named(self, noise: Noise) -> Law | View:
        """What a certificate follows from: the law of the noise, or the views."""
        return noise.law if self.view is None else self.view

    def check(self, *, tunes: str, own_randomness: bool) -> None:
        """Refuse what would make views others than those that are proved about."""
        if self.view is not None and tunes:
            raise SettingError(f"the method {tunes} chooses noise, and {self.view.name} views are fixed; leave it out")
        if self.complete and own_randomness:
            raise SettingError(
                f"own_randomness: all views of {self.view} are asked once, so the model must be a fixed function; certify a "
                "model that draws numbers of its own under noise"
            )

    @property
    def facts(self) -> dict[str, Any]:
        """The threat, for a run's configuration: its kind, since the largest size is certified, whatever was asked for."""
        return {"threat": self.against.name} if isinstance(self.against, Threat) else {}

    def facts_of_votes(self, shape: Sequence[int]) -> dict[str, Any]:
        """In the place of a plan, where all views are asked: none of its settings has any influence."""
        if not self.complete:
            return {}
        return {
            "select": 0,
            "estimator": ALL_VIEWS,
            "trials": self.views(tuple(shape)),
            "alpha": 0.0,
            "radii": [],
            "seed": 0,
            "shared_noise": False,
        }
