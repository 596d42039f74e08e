"""Waiting for an answer, as long as who asked is there to hear it, and writing it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.exceptions import HTTPException

Value = TypeVar("Value")
GONE = 499  # as others call a client that closed the connection


async def while_there(request: Request, work: Awaitable[Value]) -> Value:
    """What the work gives; it is given up when the client goes."""
    task, gone = asyncio.ensure_future(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HTTPException(GONE, "the client has gone")
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def as_text(value: Any) -> str:
    """A message as JSON, in ASCII: a text may hold what no UTF-8 can. Messages inside it have their fields as well."""
    return json.dumps(value, default=vars, allow_nan=False)


def reply(value: Any) -> Response:
    """A message as an answer."""
    return Response(as_text(value), media_type="application/json")


async def last(values: AsyncIterator[Value]) -> Value:
    """The last of several, of which there is one at least."""
    return [value async for value in values][-1]
