"""The explorer's page and its questions over HTTP: on the loopback interface, with a secret in the address."""

from __future__ import annotations

import hmac
import json
import secrets
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from smoothcert.errors import InputError, SmoothcertError
from smoothcert.explore.explorer import Explorer
from smoothcert.explore.slices import Asked
from smoothcert.report.document import POLICY, document

LARGEST = 8_000_000  # bytes of a question: a drawing has a number per pixel
MOST_VOTES = 10_000
BESIDE = "beside"
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": POLICY,
}


class Server(ThreadingHTTPServer):
    """Serves one explorer at a port that the system chooses; only an address with the token is answered."""

    daemon_threads = True

    def __init__(self, explorer: Explorer, beside: Explorer | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.explorer, self.beside, self.token = explorer, beside, secrets.token_urlsafe(24)
        other = None if beside is None else {"where": f"{BESIDE}/", **beside.overview()}
        data = explorer.overview() | {"beside": other}
        text = document(data, title="smoothcert explore", heading="Explore a run", start="explore", own="explore")
        self.page = text.encode()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up early is no error of ours; whatever else happens is told in the terminal."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def hosts(self) -> tuple[str, str]:
        """The names that a browser on this machine knows it by."""
        return f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{self.hosts[0]}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    """One request. Another host name (a page that had its own name point here) or a missing token is refused."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """The page and its pictures."""
        parts = self._allowed()
        if parts is None:
            return
        explorer, parts = self._whose(parts)
        match parts:
            case []:  # the address without its last slash: what it asks for is relative to the one with it
                self._send(HTTPStatus.PERMANENT_REDIRECT, "text/plain", b"", {"Location": f"/{self.server.token}/"})
            case [""]:
                self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
            case ["picture", index]:
                self._answer("image/png", lambda: explorer.picture(_whole(index)))
            case ["map", index]:
                self._answer("image/png", lambda: explorer.map(_whole(index)))
            case ["input", index]:
                self._answer("application/json", lambda: _json(explorer.input(_whole(index))))
            case _:
                self._refuse(HTTPStatus.NOT_FOUND, "there is nothing at this address")

    def do_POST(self) -> None:
        """A slice, or a point; the question is JSON."""
        allowed = self._allowed()
        if allowed is None:
            return
        explorer, parts = self._whose(allowed)
        size = self.headers.get("Content-Length", "")
        whole = size.isdecimal() and len(size) < 20 and int(size) <= LARGEST
        if self.headers.get_content_type() != "application/json" or not whole:
            self.close_connection = True
            self._refuse(HTTPStatus.BAD_REQUEST, f"a question is JSON of at most {LARGEST} bytes")
            return
        body = self.rfile.read(int(size))
        questions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "slice": lambda given: explorer.slice(Asked(**given["asked"]), str(given["ticket"])),
            "stop": lambda given: explorer.stop(str(given["ticket"])),
            "point": lambda given: explorer.point(
                _whole(given["index"]), given["move"], _votes(given["votes"]), bool(given.get("anew"))
            ),
        }
        ask = questions.get("/".join(parts))
        if ask is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        else:
            self._answer("application/json", lambda: _json(ask(json.loads(body))))

    def _whose(self, parts: list[str]) -> tuple[Explorer, list[str]]:
        """The run that is asked about, and what is asked of it."""
        beside = self.server.beside
        return (beside, parts[1:]) if beside is not None and parts[:1] == [BESIDE] else (self.server.explorer, parts)

    def _allowed(self) -> list[str] | None:
        """The address behind the token; None when the request was refused."""
        origin = self.headers.get("Origin")
        hosts = self.server.hosts
        if self.headers.get("Host") not in hosts or (origin is not None and origin.partition("://")[2] not in hosts):
            self.close_connection = True
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers on 127.0.0.1 only")
            return None
        _, token, *rest = [*self.path.partition("?")[0].split("/"), ""][:8]
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self.close_connection = True
            self._refuse(HTTPStatus.FORBIDDEN, "the address lacks its token; open the one that smoothcert printed")
            return None
        return rest[:-1]

    def _answer(self, kind: str, make: Callable[[], bytes]) -> None:
        try:
            body = make()
        except SmoothcertError as problem:
            self._refuse(HTTPStatus.BAD_REQUEST, str(problem))
        except RecursionError:
            self._refuse(HTTPStatus.BAD_REQUEST, "the question was not understood: it is nested too deeply")
        except (TypeError, ValueError, KeyError, IndexError, OverflowError) as problem:
            self._refuse(HTTPStatus.BAD_REQUEST, f"the question was not understood ({problem!r})")
        except Exception as problem:  # a classifier may raise anything
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(problem).__name__}: {problem}")
        else:
            self._send(HTTPStatus.OK, kind, body)

    def _refuse(self, status: HTTPStatus, words: str) -> None:
        self._send(status, "application/json", _json({"error": words}))

    def _send(self, status: HTTPStatus, kind: str, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = HEADERS | {"Content-Type": kind, "Content-Length": str(len(body))} | (more or {})
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """No versions for strangers."""
        return "smoothcert"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the token would stand in the terminal's history."""


def _whole(value: Any) -> int:
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise InputError(f"{str(value)[:40]!r} is not the number of an input") from None


def _votes(value: Any) -> int:
    votes = int(value)
    if not 1 <= votes <= MOST_VOTES:
        raise InputError(f"votes={votes} must be from 1 to {MOST_VOTES}")
    return votes


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
