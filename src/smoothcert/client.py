"""A client of ``smoothcert serve``: ``Client`` waits, ``AsyncClient`` is awaited; both give the server's own types.

>>> with Client("http://127.0.0.1:8000") as client:                     # doctest: +SKIP
...     answer = client.certify(x, radii=[0.5])
...     answer.label, answer.radius, answer.soundness
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from smoothcert.errors import SmoothcertError
from smoothcert.extras import import_extra
from smoothcert.serve.messages import Answer, Kept, Status

if TYPE_CHECKING:
    import httpx

Input = Any  # an array, a tensor or nested lists of numbers; or the bytes of a PNG or JPEG


class ServerError(SmoothcertError):
    """What a server refused: its status, its reason, and after how many seconds it asks to try again."""

    def __init__(self, status: int, reason: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status}: {reason}")
        self.status, self.retry_after = status, retry_after


class Client:
    """Asks a server and waits for its answer."""

    def __init__(self, address: str, token: str | None = None, **options: Any) -> None:
        self.http: httpx.Client = _httpx().Client(**_options(address, token, options))

    def certify(self, x: Input, **asked: Any) -> Answer:
        """A certificate; asked: radii, votes or deadline."""
        return Answer(**_read(self.http.post("/certify", **_body(x, asked))))

    def looks(self, x: Input, **asked: Any) -> Iterator[Answer]:
        """The answers as they grow; all but the last are provisional."""
        with self.http.stream("POST", "/certify", **_body(x, asked, "text/event-stream")) as reply:
            if reply.status_code != 200:
                reply.read()
                _read(reply)
            yield from filter(None, map(_event, reply.iter_lines()))

    def predict(self, x: Input) -> Answer:
        """A label alone."""
        return Answer(**_read(self.http.post("/predict", **_body(x, {}))))

    def promise(self, name: str) -> Kept:
        """A promise by the id of an answer."""
        return _kept(_read(self.http.get(f"/promises/{name}")))

    def status(self) -> Status:
        """What the server is, and what was spent."""
        return Status(**_read(self.http.get("/status")))

    def close(self) -> None:
        """Let go of the connections."""
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """The same, awaited."""

    def __init__(self, address: str, token: str | None = None, **options: Any) -> None:
        self.http: httpx.AsyncClient = _httpx().AsyncClient(**_options(address, token, options))

    async def certify(self, x: Input, **asked: Any) -> Answer:
        """A certificate; asked: radii, votes or deadline."""
        return Answer(**_read(await self.http.post("/certify", **_body(x, asked))))

    async def looks(self, x: Input, **asked: Any) -> AsyncIterator[Answer]:
        """The answers as they grow; all but the last are provisional."""
        async with self.http.stream("POST", "/certify", **_body(x, asked, "text/event-stream")) as reply:
            if reply.status_code != 200:
                await reply.aread()
                _read(reply)
            async for line in reply.aiter_lines():
                if (answer := _event(line)) is not None:
                    yield answer

    async def predict(self, x: Input) -> Answer:
        """A label alone."""
        return Answer(**_read(await self.http.post("/predict", **_body(x, {}))))

    async def promise(self, name: str) -> Kept:
        """A promise by the id of an answer."""
        return _kept(_read(await self.http.get(f"/promises/{name}")))

    async def status(self) -> Status:
        """What the server is, and what was spent."""
        return Status(**_read(await self.http.get("/status")))

    async def close(self) -> None:
        """Let go of the connections."""
        await self.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _httpx() -> Any:
    return import_extra("httpx", "clients of a server", "serve")


def _options(address: str, token: str | None, options: dict[str, Any]) -> dict[str, Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return {"base_url": address, "headers": headers, "timeout": 120.0, **options}


def _body(x: Input, asked: dict[str, Any], accept: str = "application/json") -> dict[str, Any]:
    """The input as a request holds it: a picture as it is, anything else as numbers."""
    headers = {"Accept": accept}
    if isinstance(x, bytes):
        kind = "image/png" if x.startswith(b"\x89PNG") else "image/jpeg"
        query = {name: ",".join(map(str, v)) if isinstance(v, Sequence) else v for name, v in asked.items()}
        return {"content": x, "headers": headers | {"Content-Type": kind}, "params": query}
    values = x if isinstance(x, list | tuple) else x.tolist()
    return {"json": {"input": values, **asked}, "headers": headers}


def _read(reply: httpx.Response) -> dict[str, Any]:
    """What a server says; a proxy before it may say anything, in any form."""
    try:
        found = reply.json()
    except ValueError:
        found = None
    if reply.status_code == 200 and isinstance(found, dict):
        return found
    reason = found["error"] if isinstance(found, dict) and "error" in found else reply.text[:200]
    after = reply.headers.get("Retry-After", "")
    raise ServerError(reply.status_code, str(reason), float(after) if after.isdecimal() else None)


def _event(line: str) -> Answer | None:
    if not line.startswith("data: "):
        return None
    found = json.loads(line.removeprefix("data: "))
    if "error" in found:
        raise ServerError(503, found["error"])
    return Answer(**found)


def _kept(found: dict[str, Any]) -> Kept:
    return Kept(**found | {"answer": Answer(**found["answer"])})
