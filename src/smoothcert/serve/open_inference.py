"""The Open Inference Protocol, version 2, that model servers speak: https://github.com/kserve/open-inference-protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from torch import Tensor

import smoothcert
from smoothcert.errors import InputError
from smoothcert.maths import FloatArray
from smoothcert.serve import inputs
from smoothcert.serve.asking import last, reply, while_there
from smoothcert.serve.messages import Answer, Asked
from smoothcert.serve.service import Service
from smoothcert.serve.settings import Serving

TYPES = {"FP32": "<f4", "FP64": "<f8"}
BINARY = "inference-header-content-length"
OUTPUTS = {
    "label": "INT64",  # -1: an abstention
    **dict.fromkeys(("radius", "proxy_radius", "lower", "alpha"), "FP64"),
    "votes": "INT64",
    **dict.fromkeys(("norm", "soundness", "theorem", "grid", "source", "id"), "BYTES"),
}


def routes(ready: Callable[[], Service], settings: Serving) -> APIRouter:
    """The addresses below /v2."""
    router = APIRouter(prefix="/v2")

    @router.get("/health/live")
    async def live() -> dict[str, bool]:
        """Is the program there?"""
        return {"live": True}

    @router.get("/health/ready")
    @router.get("/models/{name}/ready")
    async def is_ready(name: str = settings.name) -> dict[str, Any]:
        """Are model, probe, calibration and memory loaded, and is the classifier still the one that was probed?"""
        _known(name, settings)
        broken = ready().broken
        if broken is not None:
            raise HTTPException(503, str(broken))
        return {"name": name, "ready": True}

    @router.get("")
    async def server() -> dict[str, Any]:
        """What the server is."""
        return {"name": "smoothcert", "version": smoothcert.__version__, "extensions": ["binary_tensor_data"]}

    @router.get("/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        """What the model takes and gives."""
        _known(name, settings)
        given = [{"name": output, "datatype": kind, "shape": [-1]} for output, kind in OUTPUTS.items()]
        taken = {"name": "input", "datatype": "FP32", "shape": [-1, *ready().shape]}
        return {"name": name, "versions": ["1"], "platform": "smoothcert", "inputs": [taken], "outputs": given}

    @router.post("/models/{name}/infer")
    async def infer(name: str, request: Request) -> Response:
        """A certificate for each input of a batch; parameters radii, votes and deadline are those of /certify."""
        _known(name, settings)
        service = ready()
        given = _read((await request.receive())["body"], request.headers.get(BINARY))
        batch, asked = _batch(given, service, settings.batch), _asked(given)
        answers = await while_there(request, _all(service, batch, asked, request.state.client))
        outputs = [_output(output, answers) for output in _wanted(given)]
        said = {"model_name": name, "model_version": "1", "outputs": outputs}
        return reply(said | ({"id": given["id"]} if isinstance(given.get("id"), str) else {}))

    return router


def _known(name: str, settings: Serving) -> None:
    if name != settings.name:
        raise HTTPException(404, f"there is no model of this name; this server has {settings.name}")


def _read(body: bytes, header: str | None) -> dict[str, Any]:
    """The request; tensors behind its JSON, which the binary extension allows, are put in their place."""
    if header is None:
        return inputs.read_json(body)
    if not (header.isascii() and header.isdigit() and len(header) < 20 and int(header) <= len(body)):
        raise InputError(f"{BINARY} must be the length of the JSON before the tensors")
    given, rest = inputs.read_json(body[: int(header)]), body[int(header) :]
    for tensor in _listed(given, "inputs"):
        size = _object(tensor.get("parameters")).get("binary_data_size")
        if size is not None:
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(rest):
                raise InputError("binary_data_size must be a number of bytes that are there")
            tensor["data"], rest = rest[:size], rest[size:]
    return given


def _batch(given: dict[str, Any], service: Service, most: int) -> list[Tensor]:
    """The one tensor of a request, as inputs."""
    tensors = _listed(given, "inputs")
    if len(tensors) != 1 or tensors[0].get("datatype") not in list(TYPES):
        raise InputError(f"send one tensor, of datatype {' or '.join(TYPES)}")
    [tensor] = tensors
    shape, data = tensor.get("shape"), tensor.get("data")
    if not (isinstance(shape, list) and shape and all(type(n) is int for n in shape) and 1 <= shape[0] <= most):
        raise InputError(f"shape must begin with the number of inputs, from 1 to {most}")
    if tuple(shape[1:]) != service.shape:
        raise InputError(f"inputs have shape {shape[1:][:8]}; this server takes {list(service.shape)}")
    array = _numbers(data, tensor["datatype"], tuple(shape))
    if array.size != np.prod(shape):
        raise InputError(f"the tensor has {array.size} numbers, and its shape says {int(np.prod(shape))}")
    return [inputs.shaped(row, service.shape) for row in array.reshape(shape)]


def _numbers(data: Any, kind: str, shape: tuple[int, ...]) -> FloatArray:
    if not isinstance(data, bytes):
        return inputs.numbers(data, shape)
    if len(data) % np.dtype(TYPES[kind]).itemsize:
        raise InputError(f"the bytes of the tensor are no whole number of {kind}")
    return np.frombuffer(data, TYPES[kind]).astype(float)


def _asked(given: dict[str, Any]) -> Asked:
    parameters = _object(given.get("parameters"))
    return inputs.asked_of({name: parameters[name] for name in inputs.KINDS if name in parameters})


def _wanted(given: dict[str, Any]) -> list[str]:
    names = [output.get("name") for output in _listed(given, "outputs")] or list(OUTPUTS)
    known = [name for name in names if isinstance(name, str) and name in OUTPUTS]
    if known != names:
        raise InputError(f"some outputs are not known; there are {', '.join(OUTPUTS)}")
    return known


def _output(name: str, answers: list[Answer]) -> dict[str, Any]:
    missing: Any = -1 if name == "label" else ""
    values = [getattr(answer, name) for answer in answers]
    data = [missing if value is None else value for value in values]
    return {"name": name, "datatype": OUTPUTS[name], "shape": [len(data)], "data": data}


async def _all(service: Service, batch: list[Tensor], asked: Asked, client: str) -> list[Answer]:
    turns = asyncio.Semaphore(service.line.each)  # so that a batch does not crowd itself out

    async def answer(x: Tensor) -> Answer:
        async with turns:
            return await last(service.certify(x, asked, client))

    tasks = [asyncio.create_task(answer(x)) for x in batch]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _listed(given: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = given.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{name} must be a list of objects")
    return found


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        raise InputError("parameters must be an object")
    return value or {}
