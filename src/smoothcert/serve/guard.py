"""The door: host, token, size and time of every request are checked before anything else sees it; and every one is logged."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import JSONResponse

from smoothcert.serve.metrics import Metrics
from smoothcert.serve.settings import Serving

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

log = logging.getLogger("smoothcert.serve")
OPEN = ("/", "/v2/health/live", "/v2/health/ready")  # hold nothing secret, and are asked by what knows no token
KINDS = ("certify", "predict", "promises", "infer")  # of requests, by a part of their path
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Refusal(Exception):
    """Not let in: status, reason, and headers."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status, self.headers = status, {"Connection": "close", **headers}


class Guard:
    """An application behind a door."""

    def __init__(self, app: Application, settings: Serving, metrics: Callable[[], Metrics | None]) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await _Visit(self, scope, send).serve(receive)

    def let_in(self, scope: Message, headers: dict[str, str]) -> str:
        """The client's name; refused are other host names, other pages' scripts, and a token that is missing or wrong."""
        free = scope["path"] in OPEN and scope["path"] != "/"
        hosts, own = self.settings.hosts, headers.get("host", "").lower()
        origin = headers.get("origin")
        if hosts and not free and re.sub(r":\d+$", "", own) not in hosts:
            raise Refusal(421, "this server is not known by that name; give it with --names")
        if origin is not None and origin.lower().partition("://")[2] != own:
            raise Refusal(403, "pages of other servers may not ask")
        address = scope["client"][0] if scope.get("client") else ""
        tokens = self.settings.tokens
        if not tokens or scope["path"] in OPEN:
            return str(address)
        given = headers.get("authorization", "").removeprefix("Bearer ").encode()
        # All are compared, each in constant time.
        found = [name for name, token in tokens.items() if secrets.compare_digest(token, given)]
        if not found:
            reason = "this server needs a token: send Authorization: Bearer TOKEN"
            raise Refusal(401, reason, **{"WWW-Authenticate": "Bearer"})
        return found[0]


class _Visit:
    """One request on its way through the door and back."""

    def __init__(self, guard: Guard, scope: Message, send: Send) -> None:
        self.guard, self.scope, self._send = guard, scope, send
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = self.headers.get("x-request-id", "")
        self.id = given if re.fullmatch(r"[\w-]{1,64}", given, re.ASCII) else secrets.token_hex(8)
        self.status, self.began = 0, time.perf_counter()
        self.client = ""

    async def serve(self, receive: Receive) -> None:
        try:
            self.client = self.guard.let_in(self.scope, self.headers)
            self.scope["state"] = {"id": self.id, "client": self.client}
            await self.guard.app(self.scope, _after(await self._body(receive), receive), self.send)
        except Refusal as refused:
            await self._refuse(receive, refused.status, str(refused), refused.headers)
        except Exception:
            log.exception("failed", extra={"request": self.id})
            await self._refuse(receive, 500, "the server failed; its log tells more about this request", {})
        finally:
            self._told()

    async def _body(self, receive: Receive) -> bytes:
        """The whole body, if it is small enough and comes in time."""
        most, size = self.guard.settings.body, self.headers.get("content-length", "0")
        if not (size.isascii() and size.isdigit()) or int(size[:20]) > most:
            raise Refusal(413, f"the body may have {most} bytes")
        parts, length, more = [], 0, True
        try:
            async with asyncio.timeout(self.guard.settings.patience):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the body did not arrive")
                    parts.append(message.get("body", b""))
                    length, more = length + len(parts[-1]), message.get("more_body", False)
                    if length > most:
                        raise Refusal(413, f"the body may have {most} bytes")
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {self.guard.settings.patience:g} s") from None
        return b"".join(parts)

    async def send(self, message: Message) -> None:
        """Pass on what is sent, with our headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = HEADERS | {"X-Request-ID": self.id}
            message["headers"] = [*message.get("headers", ()), *((k.encode(), v.encode()) for k, v in own.items())]
        await self._send(message)

    async def _refuse(self, receive: Receive, status: int, reason: str, headers: dict[str, str]) -> None:
        if not self.status:  # else the answer was begun
            refusal = JSONResponse({"error": reason, "request": self.id}, status, headers)
            await refusal(self.scope, receive, self.send)

    def _told(self) -> None:
        seconds, metrics = time.perf_counter() - self.began, self.guard.metrics()
        kind = next((part for part in self.scope["path"].split("/") if part in KINDS), "other")
        if metrics is not None:
            metrics.requests.labels(kind, self.status).inc()
            metrics.seconds.labels(kind).observe(seconds)
        path = self.scope["raw_path"].decode()  # as it was sent, so that no path begins a line of the log
        words = {"request": self.id, "client": self.client, "method": self.scope["method"], "path": path}
        log.info("request", extra={**words, "status": self.status, "seconds": round(seconds, 6)})


def _after(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body at once, which nobody else keeps, and then whatever happens to the connection."""
    bodies = [body]

    async def next_message() -> Message:
        return {"type": "http.request", "body": bodies.pop(), "more_body": False} if bodies else await receive()

    return next_message
