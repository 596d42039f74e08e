"""Step 1: noise = law + scale + loc (+ pixel grid), and the noisy copies of an input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from smoothcert.errors import InputError, SettingError
from smoothcert.laws import Law, law_named
from smoothcert.maths import Array, FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.grid import LARGEST_STEP, certified_point, domain_of, whole_steps
from smoothcert.maths.steps import StepTable
from smoothcert.registry import Plugin, fitted
from smoothcert.seeds import KeyedDraws, TorchDraws

LARGEST = float(np.finfo(np.float32).max)
SCALES = (1e-30, 1e30)  # beyond, noise in float32 is nothing or everything, and squares leave float64
PART = 2**18  # numbers drawn at a time; part of what a key stands for, so it never changes


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """x becomes x + loc + scale * z. A scalar scale is isotropic, one value per pixel is
    anisotropic, and a leading batch axis gives each input its own.

    With grid = 1/255 the sum is formed on the pixel grid in integers, which is sound in floating point: the
    certificate then speaks of inputs on the grid. Without it, of real inputs up to float arithmetic.

    With a box inputs are clipped to it before the noise, which brings no two of them farther apart in any coordinate: every
    certificate holds outside too, and a law may prove more of points that lie in a box (uniform noise in l1 does).
    """

    law: Law
    scale: Tensor
    loc: Tensor
    grid: float | None = None
    box: Box | None = None
    # Votes are drawn in float64 and rounded once: float32 sources have atoms and gaps of 1e-7 a coordinate, this 1e-9.
    sampling_dtype: ClassVar[torch.dtype] = torch.float64
    _prepared: dict[tuple[object, ...], tuple[Tensor, Tensor, bool]] = field(repr=False, init=False)
    _tables: dict[tuple[int, ...], StepTable | None] = field(repr=False, init=False)

    def __init__(
        self,
        law: Law | str,
        scale: Tensor | FloatArray | float,
        loc: Tensor | FloatArray | float = 0.0,
        grid: float | None = None,
        box: Box | tuple[float, float] | None = None,
    ) -> None:
        object.__setattr__(self, "law", law_named(law))
        object.__setattr__(self, "scale", _numbers("scale", scale))
        object.__setattr__(self, "loc", _numbers("loc", loc))
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "box", Box(*box) if isinstance(box, tuple) else box)
        object.__setattr__(self, "_prepared", {})
        object.__setattr__(self, "_tables", {})
        self._check()

    def __getstate__(self) -> dict[str, object]:
        """All but what was prepared for a device."""
        return {**self.__dict__, "_prepared": {}, "_tables": {}}

    def _check(self) -> None:
        least, most = (float(end) for end in self.scale.detach().aminmax()) if self.scale.numel() else (0.0, 0.0)
        if not SCALES[0] <= least <= most <= SCALES[1]:
            raise SettingError(
                f"every scale must be a number from {SCALES[0]:g} to {SCALES[1]:g}, as float32 carries it; these are from {least:g} to {most:g}"
            )
        if not bool(self.loc.isfinite().all()):
            raise SettingError("every loc must be a finite number; some are NaN or infinite")
        if self.grid is not None and not (self.grid > 0 and abs(1 / self.grid - round(1 / self.grid)) < 1e-6):
            raise SettingError(f"grid={self.grid} must be one over a whole number; for 8-bit images it is 1/255")
        if self.box is not None and self.grid is not None:
            off = max(abs(end * self.levels - round(end * self.levels)) for end in (self.box.low, self.box.high))
            if off > 1e-6:
                raise SettingError(
                    f"the box {self.box} must end on the grid of 1/{self.levels}; for 8-bit images it is 0..1"
                )

    def __repr__(self) -> str:
        """Short: the law, the range of its scale, and a shift or a grid if there is one.

        >>> Noise("laplace", torch.tensor([0.1, 0.2]), grid=1 / 255)
        Noise(laplace, scale=0.1 to 0.2 of shape (2,), grid=1/255)
        """
        parts = [f"scale={_in_words(self.scale)}", *([f"loc={_in_words(self.loc)}"] if bool(self.loc.any()) else [])]
        return f"Noise({', '.join([str(self.law), *parts, *([] if self.grid is None else [f'grid=1/{self.levels}'])])})"

    @classmethod
    def isotropic(
        cls, law: Law | str, sigma: float, grid: float | None = None, box: Box | tuple[float, float] | None = None
    ) -> Noise:
        """The same noise in every coordinate; sigma is its standard deviation.

        >>> Noise.isotropic("uniform", sigma=1.0).scale
        tensor(1.7321, dtype=torch.float64)
        """
        sigma = fitted("", "sigma", sigma, float)
        if not (sigma > 0 and np.isfinite(sigma)):
            raise SettingError(
                f"sigma={sigma} must be a finite number above 0: it is the standard deviation of the noise"
            )
        law = law_named(law)
        return cls(law, law.scale_of(sigma), grid=grid, box=box)

    def shaped(
        self, scale: Tensor | FloatArray, loc: Tensor | FloatArray | None = None, law: Law | None = None
    ) -> Noise:
        """Noise of another scale, loc or law on the same grid, in the same box: what a tuner gives."""
        return Noise(law or self.law, scale, self.loc if loc is None else loc, self.grid, self.box)

    @property
    def named(self) -> Plugin:
        """What runs and records call it by: its law."""
        return self.law

    @property
    def domain(self) -> str:
        """Where the certificate's perturbations live; goes into every record."""
        return domain_of(None if self.grid is None else self.levels, self.box)

    @property
    def levels(self) -> int:
        """Steps of the grid in one unit: 255 for 8-bit images."""
        assert self.grid is not None
        return round(1 / self.grid)

    def per_input(self, event: int) -> bool:
        """Does each input have its own scale or loc? (event: the number of axes of one input.)"""
        return max(self.scale.ndim, self.loc.ndim) > event

    def row(self, position: int, shape: tuple[int, ...], batch: int) -> Noise:
        """The noise of one input of a batch; shape is that of one input."""
        parts = {}
        for name, value in (("scale", self.scale), ("loc", self.loc)):
            if value.ndim > len(shape):
                if value.shape[0] != batch:
                    raise SettingError(
                        f"{name} holds {value.shape[0]} rows for a batch of {batch}; give one row per input"
                    )
                value = value[position]
            try:
                torch.broadcast_to(value, shape)
            except RuntimeError:
                raise SettingError(
                    f"{name} of shape {tuple(value.shape)} does not fit inputs of shape {shape}; "
                    "give one number, one per coordinate, or one per input and coordinate"
                ) from None
            parts[name] = value
        return self.shaped(parts["scale"], parts["loc"]) if self.per_input(len(shape)) else self

    def draw(self, count: int, shape: tuple[int, ...], draws: TorchDraws) -> Tensor:
        """The noise of ``count`` copies in float32, before the input is added: what inputs may share.

        On the grid it is a whole number of steps; otherwise loc + scale·z, cut off where float32 ends.
        """
        return self.draw_blocks(count, shape, [draws])

    def draw_blocks(self, count: int, shape: tuple[int, ...], sources: Sequence[TorchDraws]) -> Tensor:
        """The same from each of several sources, one after the other; no more than PART numbers if there are several."""
        device, dtype = sources[0].device, sources[0].dtype
        drawn = torch.empty((len(sources) * count, *shape), device=device)
        assert len(sources) == 1 or drawn.numel() <= PART
        if device.type == "cpu" and (table := self._table) is not None:
            for flat in _parts(drawn.view(-1), PART):
                looked_up(table, cast(Sequence[KeyedDraws], sources), flat.numpy())
            return drawn
        scale, loc, shifted = self._in_steps(device, dtype)
        # A few copies at a time, so that they stay in the cache until they are done.
        for part in _parts(drawn, max(1, PART // max(1, math.prod(shape)))):
            each = (len(part) // len(sources), *shape)
            found = [self.law.sample(each, draws) for draws in sources]
            z: Tensor = (found[0] if len(found) == 1 else torch.cat(found)).mul_(scale)
            z = z.add_(loc) if shifted else z
            part.copy_(z.clamp_(-LARGEST, LARGEST) if self.grid is None else z.round_())
        return drawn

    @property
    def edition(self) -> tuple[int, ...]:
        """Another one after every change of scale or loc in place: what was prepared of them holds no longer."""
        return tuple(0 if value.is_inference() else value._version for value in (self.scale, self.loc))

    @property
    def _table(self) -> StepTable | None:
        """What votes on the grid are looked up in: for one scale, no loc, and a law that can be inverted exactly."""
        edition = self.edition
        if edition not in self._tables:
            able = self.grid is not None and self.scale.numel() == 1 and self.law.inverts and not bool(self.loc.any())
            found = StepTable.of(self.law.quantile, float(self.scale) * self.levels) if able else None
            self._tables[edition] = found
        return self._tables[edition]

    def _in_steps(self, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor, bool]:
        """Scale and loc in units of the grid, and is there a loc? Found once: blocks are many, and noise stays the same."""
        key = (device, dtype, self.edition)
        found = self._prepared.get(key)
        if found is None:
            unit = 1.0 if self.grid is None else float(self.levels)
            scale, loc = (value.to(device, dtype) for value in (self.scale * unit, self.loc * unit))
            found = self._prepared[key] = scale, loc, bool(loc.any())
        return found

    def placer(self, x: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """A function from drawn noise to noisy copies of x in float32, (count, *event), written to its second argument.

        On the grid whole numbers below 2^24 add up exactly in float32, and one division follows, so that a copy is a
        function of the sum alone. Clamping keeps it one when a heavy tail goes beyond; an input that does is refused.
        """
        x = self.clipped(x)
        if self.grid is None:
            return lambda drawn, out: torch.add(drawn, x, out=out)
        steps, levels = quantise(x, self.levels).float(), float(self.levels)
        light = self.law.log_concave and float(self.scale.max() + self.loc.abs().max()) * levels * 1e3 < LARGEST_STEP

        def on_grid(drawn: Tensor, out: Tensor) -> Tensor:
            torch.add(drawn, steps, out=out)
            return (out if light else out.clamp_(-LARGEST_STEP, LARGEST_STEP)).div_(levels)

        return on_grid

    def clipped(self, x: Tensor) -> Tensor:
        """The input as noise is laid on it."""
        return x if self.box is None else x.clamp(self.box.low, self.box.high)

    def check_inside(self, x: Tensor) -> None:
        """Refuse inputs outside the box: they would be certified as others, most likely by mistake."""
        if self.box is not None and not self.box.holds(x.detach().cpu().numpy()):
            raise InputError(
                f"an input reaches from {float(x.min()):g} to {float(x.max()):g}, outside the box {self.box} that inputs are "
                "clipped to before the noise; certify inputs inside, or name a box that holds them (0..1 for pixels)"
            )

    def copies(self, x: Tensor, count: int, draws: TorchDraws) -> Tensor:
        """``count`` noisy copies of one input."""
        drawn = self.draw(count, tuple(x.shape), draws)
        return self.placer(x)(drawn, drawn)

    def center_of(self, x: Tensor) -> FloatArray:
        """The input as the certificate means it: on the grid, the exact grid point."""
        return certified_point(x.detach().cpu().numpy(), self.domain)

    def noisy(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One noisy copy of each input of a batch, differentiable in x; for training and attacks, never for votes."""
        draws = TorchDraws(generator, torch.float32, x.device)
        z: Tensor = self.law.sample(tuple(x.shape), draws)
        noise = z.mul_(self.scale.float().to(x.device)).add_(self.loc.float().to(x.device))
        if self.grid is not None:
            noise = nearest_on_grid(noise, self.levels)
        return self.clipped(x) + noise.to(x.dtype)


def looked_up(table: StepTable, sources: Sequence[KeyedDraws], out: Array) -> None:
    """Fill an array from a table, an equal share of it from each source."""
    each = len(out) // len(sources)

    def uniform(open_: Array) -> FloatArray:
        """For the places that the bits do not decide, each from its own source."""
        ends = np.searchsorted(open_, each * np.arange(len(sources) + 1)).tolist()
        return np.concatenate([d.uniform_numbers((b - a,)) for d, a, b in zip(sources, ends, ends[1:], strict=False)])

    bits = [draws.bits(each) for draws in sources]
    table.fill(bits[0] if len(bits) == 1 else np.concatenate(bits), out, uniform)


def _parts(drawn: Tensor, length: int) -> Sequence[Tensor]:
    return [drawn] if len(drawn) <= length else torch.split(drawn, length)


def _numbers(name: str, values: Tensor | FloatArray | float) -> Tensor:
    """A number or an array as a float64 tensor of its own."""
    try:
        return torch.as_tensor(values, dtype=torch.float64).clone()
    except (TypeError, ValueError, RuntimeError):
        raise SettingError(f"{name}={values!r} must be a number, or an array of numbers") from None


def _in_words(values: Tensor) -> str:
    """A number, or the range of several and their shape."""
    if values.ndim == 0:
        return f"{float(values):.4g}"
    return f"{float(values.min()):.4g} to {float(values.max()):.4g} of shape {tuple(values.shape)}"


def nearest_on_grid(values: Tensor, levels: int) -> Tensor:
    """Rounded to the grid; a gradient passes as if they were not.

    >>> nearest_on_grid(torch.tensor([0.3, 0.6]), 2)
    tensor([0.5000, 0.5000])
    """
    rounded = (values * levels).round() / levels
    return values + (rounded - values).detach() if values.requires_grad else rounded


def quantise(x: Tensor, levels: int) -> Tensor:
    """The whole number of grid steps in each coordinate (float64), refusing inputs off the grid or beyond it."""
    return torch.from_numpy(whole_steps(x.detach().double().cpu().numpy(), levels)).to(x.device)
