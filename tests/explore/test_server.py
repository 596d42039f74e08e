"""Who is let in: only requests with the token, under this machine's own name."""

import http.client
import json
import socket
import struct
import time
from typing import Any

import pytest

from smoothcert.explore.server import Server


def asked(server: Server, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    data = None if body is None else json.dumps(body)
    kind = {} if body is None else {"Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, data, kind | headers)
    reply = connection.getresponse()
    found = reply.status, reply.read()
    connection.close()
    return found


def test_it_listens_on_the_loopback_interface_only(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32


@pytest.mark.parametrize("path", ["/", "/input/0", "/wrong/", "/wrong/input/0", "//input/0", "/é/"])
def test_without_the_token_nothing_is_told(server: Server, path: str) -> None:
    status, body = asked(server, path.encode("utf-8").decode("latin-1") if path.isascii() else "/%C3%A9/")
    assert status == 403
    assert b"lacks its token" in body
    assert asked(server, "/slice", {"index": 0})[0] == 403


def test_another_name_is_refused_even_with_the_token(server: Server) -> None:
    path = f"/{server.token}/input/0"
    assert asked(server, path)[0] == 200
    assert asked(server, path, Host=f"localhost:{server.server_port}")[0] == 200
    for name in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1", "127.0.0.1:1", ""):
        assert asked(server, path, Host=name)[0] == 403, name
    for origin in ("http://evil.example", "null", "http://["):
        assert asked(server, path, Origin=origin)[0] == 403, origin
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        connection.sendall(f"GET http://[/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        assert b"403" in connection.recv(100)
    assert asked(server, path, Origin=f"http://127.0.0.1:{server.server_port}")[0] == 200


def test_what_it_serves(server: Server) -> None:
    base = f"/{server.token}"
    status, body = asked(server, f"{base}/")
    assert status == 200
    assert b"Explore a run" in body
    assert asked(server, f"{base}/picture/0")[1].startswith(b"\x89PNG")
    assert asked(server, f"{base}/map/0")[1].startswith(b"\x89PNG")
    one = json.loads(asked(server, f"{base}/input/0")[1])
    assert sum(one["counts"]) + one["invalid"] == one["trials"]
    assert len(one["copies"]) == 12
    assert len(one["maps"]) == 1


def test_the_address_works_without_its_last_slash(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET", f"/{server.token}")
    reply = connection.getresponse()
    assert (reply.status, reply.headers["Location"]) == (308, f"/{server.token}/")
    connection.close()


def test_who_hangs_up_leaves_no_trace(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.server_port)) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
            line.sendall(f"GET /{server.token}/ HTTP/1.1\r\nHost: {server.hosts[0]}\r\n\r\n".encode())
    time.sleep(0.3)
    assert capsys.readouterr().err == ""


def test_questions_that_make_no_sense(server: Server) -> None:
    base = f"/{server.token}"
    for path, body, status in (
        ("/nothing", None, 404),
        ("/input/x", None, 400),
        ("/input/99", None, 400),
        ("/nothing", {}, 404),
        ("/input/" + "9" * 5000, None, 400),
        ("/slice", {"asked": {"index": 0, "axes": "up"}, "ticket": "a"}, 400),
        ("/slice", {"asked": {"index": 0, "colour": 1}, "ticket": "a"}, 400),
        ("/slice", {"asked": {"index": [0]}, "ticket": "a"}, 400),
        ("/slice", {"asked": {"index": 0}}, 400),
        ("/point", {"index": 0}, 400),
        ("/point", {"index": 0, "move": {"axes": "random", "seed": 0, "a": 1e999, "b": 0}, "votes": 10}, 400),
        ("/point", {"index": 0, "move": {"axes": "random", "seed": 0, "a": 0, "b": 0}, "votes": 10**9}, 400),
    ):
        found, words = asked(server, base + path, body)
        assert found == status, (path, words)
        assert json.loads(words)["error"]
    for raw in (
        "[" * 100_000,
        '{"index": 1e400}',
        '{"index": 1e400, "move": {}, "votes": 1}',
        "nonsense",
        '{"index": NaN}',
    ):
        kind = {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        connection.request("POST", f"{base}/point", raw, kind)
        assert connection.getresponse().status == 400, raw[:40]
        connection.close()
    assert asked(server, f"{base}/point", {}, **{"Content-Type": "text/plain"})[0] == 400
    for size in ("999999999", "9" * 5_000, "\N{SUPERSCRIPT TWO}", "-1", ""):
        assert asked(server, f"{base}/point", {}, **{"Content-Length": size})[0] == 400, size[:20]
