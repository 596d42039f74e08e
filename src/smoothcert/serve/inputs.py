"""From the body of a request to an input: numbers in JSON, or a picture; whatever else is refused with a reason."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from smoothcert.data.base import PIXEL_GRID, pixels_to_inputs
from smoothcert.errors import InputError
from smoothcert.extras import import_extra
from smoothcert.maths import FloatArray
from smoothcert.serve.messages import Asked

PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG"}
KINDS = {"radii": (list, int, float), "votes": (int,), "deadline": (int, float)}


def read_json(body: bytes) -> dict[str, Any]:
    """The object in a body."""
    try:
        found = json.loads(body, parse_constant=_no_number)
    except RecursionError:
        raise InputError("the body is nested too deeply; a request is one object") from None
    except ValueError as problem:
        raise InputError(f"the body is not JSON ({str(problem)[:100]})") from None
    if not isinstance(found, dict):
        raise InputError('the body must be an object, such as {"input": […]}')
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def asked_of(given: Mapping[str, Any]) -> Asked:
    """What a request wants, each part of its kind."""
    for name, value in given.items():
        kinds = KINDS.get(name)
        if kinds is None:
            raise InputError(f"{name[:40]!r} is nothing that can be asked; known: input, {', '.join(KINDS)}")
        several = value if isinstance(value, list) else [value]
        whole = isinstance(value, kinds) and all(isinstance(one, int | float) for one in several)
        if value is not None and (not whole or any(isinstance(one, bool) for one in several)):
            raise InputError(f"{name} must be a number{', or a list of numbers' if name == 'radii' else ''}")
    return Asked(**{name: value for name, value in given.items() if value is not None})


def asked_in_query(query: Mapping[str, str]) -> Asked:
    """The same behind the ? of an address, as text."""
    unknown = [name for name in query if name not in KINDS]
    if unknown:
        raise InputError(f"{unknown[0][:40]!r} is nothing that can be asked; known: {', '.join(KINDS)}")
    return Asked(**dict(query))  # type: ignore[arg-type]


def numbers(values: Any, shape: tuple[int, ...]) -> FloatArray:
    """Nested lists, or a flat one, of no more numbers than this shape has, as an array."""
    if not isinstance(values, list) or len(values) > math.prod(shape):
        raise InputError(f"input must be a list of numbers of shape {list(shape)}, nested or flat")
    with suppress(ValueError, OverflowError, RecursionError):
        array = np.array(values, dtype=object)  # as they are: else one long text would make texts as long of all
        if {*map(type, array.ravel())} <= {int, float}:
            return array.astype(float)
    raise InputError(f"input is ragged, or holds something that is no number; give numbers of shape {list(shape)}")


def shaped(array: FloatArray, shape: tuple[int, ...]) -> Tensor:
    """One input as the classifier takes it."""
    if array.shape not in (shape, (math.prod(shape),)):
        raise InputError(f"input has shape {list(array.shape)}; this server takes {list(shape)}")
    with np.errstate(over="ignore"):
        exact = array.reshape(shape).astype(np.float32)
    if not np.isfinite(exact).all():
        raise InputError("input holds NaN, infinite or too large values; every coordinate must be a finite number")
    return torch.from_numpy(exact)


def picture(body: bytes, kind: str, shape: tuple[int, ...], grid: float | None) -> Tensor:
    """A PNG or JPEG of exactly the size that the classifier takes, as pixels from 0 to 1."""
    if len(shape) != 3 or shape[0] not in (1, 3) or grid != PIXEL_GRID:
        raise InputError(f"this server takes inputs of shape {list(shape)}, which no picture has; send numbers as JSON")
    library = import_extra("PIL.Image", "pictures", "images")
    try:
        with library.open(io.BytesIO(body), formats=[PICTURES[kind]]) as image:
            if image.size != (shape[2], shape[1]):
                raise InputError(
                    f"the picture is {image.size[0]}×{image.size[1]}; this server takes {shape[2]}×{shape[1]}"
                )
            if kind == "image/png" and body[24] > 8:  # Pillow would round colours
                raise InputError("the picture has more than 8 bits per channel; convert it first")
            plain = image.convert("L" if shape[0] == 1 else "RGB")
    except InputError:
        raise
    except Exception as problem:  # a damaged file fails a decoder in any way it likes
        raise InputError(f"the body cannot be read as {PICTURES[kind]} ({str(problem)[:100]})") from None
    pixels = np.asarray(plain).reshape(shape[1], shape[2], shape[0]).transpose(2, 0, 1)
    return torch.from_numpy(pixels_to_inputs(pixels))
