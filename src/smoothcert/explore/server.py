"""The explorer's page and its questions over HTTP: on the loopback interface, with a secret in the address."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import smoothcert.explore
from smoothcert.errors import InputError, SmoothcertError
from smoothcert.explore.explorer import Explorer
from smoothcert.explore.slices import Asked
from smoothcert.report.page import assembled

LARGEST = 8_000_000  # bytes of a question: a drawing has a number per pixel
MOST_VOTES = 10_000
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


class Server(ThreadingHTTPServer):
    """Serves one explorer at a port that the system chooses; only an address with the token is answered."""

    daemon_threads = True

    def __init__(self, explorer: Explorer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.explorer, self.token = explorer, secrets.token_urlsafe(24)
        parts = {name: _text(f"explore.{kind}") for name, kind in (("explorer", "js"), ("own", "css"))}
        self.page = assembled(_text("template.html"), explorer.overview(), **parts).encode()

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
        explorer = self.server.explorer
        match parts:
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
        parts, explorer = self._allowed(), self.server.explorer
        if parts is None:
            return
        size = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json" or not size.isdigit() or int(size) > LARGEST:
            self.close_connection = True
            self._refuse(HTTPStatus.BAD_REQUEST, f"a question is JSON of at most {LARGEST} bytes")
            return
        body = self.rfile.read(int(size))
        questions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "slice": lambda given: explorer.slice(Asked(**given)),
            "stop": lambda given: explorer.stop(Asked(**given)),
            "point": lambda given: explorer.point(
                _whole(given["index"]), given["move"], _votes(given["votes"]), bool(given.get("anew"))
            ),
        }
        ask = questions.get("/".join(parts))
        if ask is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        else:
            self._answer("application/json", lambda: _json(ask(json.loads(body))))

    def _allowed(self) -> list[str] | None:
        """The address behind the token; None when the request was refused."""
        origin = self.headers.get("Origin")
        hosts = self.server.hosts
        if self.headers.get("Host") not in hosts or (origin is not None and urlsplit(origin).netloc not in hosts):
            self.close_connection = True
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers on 127.0.0.1 only")
            return None
        _, token, *rest = [*urlsplit(self.path).path.split("/"), ""][:8]
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
        except (TypeError, ValueError, KeyError, IndexError) as problem:
            self._refuse(HTTPStatus.BAD_REQUEST, f"the question was not understood ({problem!r})")
        except Exception as problem:  # a classifier may raise anything
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(problem).__name__}: {problem}")
        else:
            self._send(HTTPStatus.OK, kind, body)

    def _refuse(self, status: HTTPStatus, words: str) -> None:
        self._send(status, "application/json", _json({"error": words}))

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = HEADERS | {"Content-Type": kind, "Content-Length": str(len(body))}
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
    except ValueError:
        raise InputError(f"{value!r} is not the number of an input") from None


def _votes(value: Any) -> int:
    votes = int(value)
    if not 1 <= votes <= MOST_VOTES:
        raise InputError(f"votes={votes} must be from 1 to {MOST_VOTES}")
    return votes


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _text(name: str) -> str:
    return files(smoothcert.explore).joinpath("page", name).read_text(encoding="utf-8")
