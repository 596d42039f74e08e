"""The process: uvicorn with a clock on slow headers, logs as lines of JSON or words, and a stop that loses nobody."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from smoothcert.errors import SettingError
from smoothcert.serve.app import State, create_app
from smoothcert.serve.service import Service
from smoothcert.serve.settings import Serving

WORDS = ("request", "client", "method", "path", "status", "seconds")


class Prompt(H11Protocol):
    """HTTP for those who are prompt: who dawdles over the headers of a request, or over taking an answer, is hung up on."""

    patience = 10.0
    _clock: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(1)  # whatever waits to be taken starts the clock
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking = self.loop.call_later(self.patience, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for clock in filter(None, (self._clock, self._taking)):
            clock.cancel()

    def _watch(self) -> None:
        """The clock runs while headers are awaited; a byte now and then does not set it back."""
        awaited = self.conn.their_state is h11.IDLE
        if awaited and self._clock is None:
            self._clock = self.loop.call_later(self.patience, self.transport.close)
        elif not awaited and self._clock is not None:
            self._clock.cancel()
            self._clock = None


class Lines(logging.Formatter):
    """A line per event: JSON for machines, else words."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        facts = {name: getattr(record, name) for name in WORDS if name in record.__dict__}
        words = {"level": record.levelname.lower(), "event": record.getMessage()}
        found = {"time": round(time.time(), 3), **words, **facts}
        if record.exc_info:
            found["problem"] = self.formatException(record.exc_info)
        if self.as_json:
            return json.dumps(found)
        return " ".join([record.getMessage(), *(f"{name}={value}" for name, value in list(found.items())[3:])])


def serve(load: Callable[[], Service], settings: Serving, *, as_json: bool, said: Callable[[str], None]) -> None:
    """Listen until SIGTERM or Ctrl-C; what was taken in is answered first. ``said`` gets the address."""
    _log_to_stderr(as_json)
    listening = listening_at(settings)
    server, state = server_of(lambda: _for_good(load()), settings)
    scheme = "http" if settings.tls_certificate is None else "https"
    host, port = listening.getsockname()[:2]
    said(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    server.run(sockets=[listening])
    if state.problem is not None:
        raise state.problem


def _for_good(service: Service) -> Service:
    """What is loaded stays until the end: the collector of garbage need not look through it again and again."""
    gc.collect()
    gc.freeze()
    return service


def server_of(load: Callable[[], Service], settings: Serving) -> tuple[uvicorn.Server, State]:
    """The server, not yet running, and its state; it ends itself if its service cannot be loaded."""
    app, state = create_app(load, settings)
    config = uvicorn.Config(
        app,
        http=type("Prompt", (Prompt,), {"patience": settings.patience}),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=settings.connections,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    try:
        config.load()
    except OSError as problem:  # also what TLS says of its files
        raise SettingError(f"cannot use the TLS files ({problem}); give a certificate and its key, as PEM") from problem
    server = uvicorn.Server(config)
    state.failed = lambda: setattr(server, "should_exit", True)
    return server, state


def listening_at(settings: Serving) -> socket.socket:
    """The socket, before anything is loaded."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        made = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as problem:
        raise SettingError(
            f"cannot listen on {settings.host} port {settings.port} ({problem.strerror or problem}); give another --port or --host"
        ) from problem
    # An answer is sent as it is written; with a delay its second part waits 40 ms for the client's word about the first.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _log_to_stderr(as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(as_json=as_json))
    for name, level in (("smoothcert.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
