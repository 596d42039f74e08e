"""Who is let in, what is refused, and that nothing of it costs the memory a promise or anybody else an answer."""

from __future__ import annotations

import io
import json
import random
import socket
import sqlite3
import ssl
import struct
import subprocess
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from tests.serve.conftest import PLANE, Running, at, serving, smoother_with, until

from smoothcert.cli.serve import _memory
from smoothcert.client import Client, ServerError
from smoothcert.data import ArrayDataset
from smoothcert.errors import InputError, SettingError
from smoothcert.memory.memory import Memory
from smoothcert.noise import Noise
from smoothcert.serve.inputs import numbers
from smoothcert.serve.messages import Answer
from smoothcert.serve.promises import PAUSE
from smoothcert.serve.server import server_of
from smoothcert.serve.settings import TOKEN, Serving
from smoothcert.smoother import Smoother
from smoothcert.testing.problems import HalfSpace

SECRET = "0123456789abcdef0123"
JSON = {"Content-Type": "application/json"}
ZERO = [0.0] * 4


def tensor(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "input", "shape": [1, 4], "datatype": "FP32", "data": ZERO} | changes]}


def hostile() -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """Paths, headers and bodies that no friend would send: 200 and more."""
    values: list[Any] = [
        *(
            None,
            True,
            "x",
            "1.0",
            {},
            [],
            [1],
            [1] * 5,
            [[1, 2], [3]],
            [[[[1]]]] * 4,
            [None] * 4,
            ["1"] * 4,
            [True] * 4,
        ),
        *(
            [{}] * 4,
            [[0]] * 4,
            [1e400] * 4,
            [10**400] * 4,
            [1e39] * 4,
            7,
            -1,
            "A" * 1000,
            [[0, 0], [0, 0]],
            [ZERO, ZERO],
        ),
    ]
    for path in ("/certify", "/predict"):
        yield from ((path, JSON, json.dumps({"input": value}).encode()) for value in values)
        for text in (b"", b"{", b"[]", b"null", b"NaN", b'"x"', b"\xff\xfe", b"{}" * 2, b'{"input": [NaN, 0, 0, 0]}'):
            yield path, JSON, text
        yield path, JSON, b'{"input": [Infinity, 0, 0, -Infinity]}'
        yield path, JSON, b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        yield path, JSON, b'{"a":' * 50_000 + b"1" + b"}" * 50_000
        yield path, JSON, b'{"input": ' + b"[" * 900 + b"]" * 900 + b"}"
        yield path, JSON, b'{"input": [' + b"9" * 5_000 + b", 0, 0, 0]}"
        yield path, JSON, b'{"input": ' + b"0," * 30_000
        for kind in ("", "text/plain", "image/png", "image/jpeg", "application/x-www-form-urlencoded", "image/gif"):
            yield path, {"Content-Type": kind}, b"\x89PNG\r\n\x1a\n" + bytes(100)
        for name, wrong in (
            *(("radii", value) for value in ("x", [-1], [0], {}, True, ["1"], [[1]], [0.5] * 1000, {"0.5": 1})),
            *(("votes", value) for value in (0, -5, 1.5, "9", True, [1], {}, 1e300)),
            *(("deadline", value) for value in (0, -1, "1", [1], True, {})),
            *((name, 1) for name in ("seed", "index", "alpha", "model", "__class__", "client", "\u0000", "x" * 10_000)),
        ):
            yield path, JSON, json.dumps({"input": ZERO, name: wrong}).encode()
    infer = "/v2/models/smoothcert/infer"
    for given in (
        *({}, {"inputs": 3}, {"inputs": []}, {"inputs": [3]}, {"inputs": [{}]}, {"inputs": [tensor(), tensor()]}),
        *(
            tensor(shape=shape)
            for shape in (None, [], [4], [0, 4], [-1, 4], [17, 4], [1, 5], [1, 2, 2], ["1", 4], [True, 4])
        ),
        *(tensor(shape=shape) for shape in ([1.0, 4], [10**30, 4], [2, 4], "1,4", {})),
        *(tensor(datatype=kind) for kind in (None, "FP16", "INT8", "BYTES", 3, "", "object", [], {})),
        *(tensor(data=data) for data in (None, "x", [1], [[1] * 4] * 2, [None] * 4, [1e99] * 4, {"a": 1})),
        *(tensor() | {"outputs": outputs} for outputs in (3, [3], [{}], [{"name": "logits"}], [{"name": 3}])),
        *(
            tensor() | {"parameters": parameters}
            for parameters in (3, [], {"votes": -1}, {"radii": "x"}, {"deadline": True})
        ),
    ):
        yield infer, JSON, json.dumps(given).encode()
    body = json.dumps(tensor(parameters={"binary_data_size": 16}, data=None)).encode()
    for length in ("x", "-1", "999999", str(len(body)), "٣", "0" * 5_000, "0" * 12 + "9" * 9):
        yield infer, {"Inference-Header-Content-Length": length.encode()}, body + bytes(7)
    for size in (-1, 17, "16", True, 1.5):
        text = json.dumps(tensor(parameters={"binary_data_size": size})).encode()
        yield infer, {"Inference-Header-Content-Length": str(len(text))}, text + bytes(16)
    yield "/certify", JSON | {"Origin": "http://["}, b"{}"
    yield "/v2/models/other/infer", JSON, json.dumps(tensor()).encode()
    yield "/certify", JSON, b" " * 200_001
    for path in ("/nothing", "/certify/../../etc/passwd", "/v2/models/%2e%2e/infer", "/promises/1", "/%00", "//"):
        yield path, JSON, b"{}"


def test_whatever_is_sent_is_refused_with_a_reason_and_promises_nothing() -> None:
    requests = list(hostile())
    assert len(requests) >= 200
    memory = Memory()
    with serving(memory=memory, body=200_000) as running:
        for path, headers, body in requests:
            reply = running.client.http.post(path, headers=headers, content=body)
            said = f"{path} {headers} {body[:80]!r}: {reply.status_code} {reply.text[:200]}"
            assert 400 <= reply.status_code < 500, said
            assert len(reply.json()["error"]) > 8, said
        assert not running.service.points.running
        assert running.client.status().promises == 0
        assert running.client.certify(at(1.0)).label == 1
    assert running.service.promises.memory.tally[0] == 1


def test_a_text_among_numbers_takes_no_more_room_than_it_has() -> None:
    """numpy makes all of them texts of that length: a request of four megabytes took eight gigabytes."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="no number"):
            numbers(["a" * 5_000, *[0] * 9_999], (10_000,))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_body_is_let_go_while_its_votes_are_cast() -> None:
    gate = threading.Event()

    def gated(batch: torch.Tensor) -> torch.Tensor:
        gate.wait()
        return PLANE(batch)

    body = b'{"input": [1, 0, 0, 0]' + b" " * 1_000_000 + b"}"
    head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with serving(smoother_with(gated, check=False, identity="gated")) as running, ExitStack() as open_ones:
        tracemalloc.start()
        try:
            for number in range(1, 5):
                asker = open_ones.enter_context(socket.create_connection(("127.0.0.1", running.port)))
                asker.sendall(f"POST /certify HTTP/1.1\r\n{head}".encode() + body)
                until(lambda n=number: [len(p.listeners) for p in running.service.points.unfinished()] == [n])
            assert tracemalloc.get_traced_memory()[0] < 2_000_000, "four bodies of a megabyte are kept"
        finally:
            tracemalloc.stop()
            gate.set()


def test_a_batch_does_not_crowd_itself_out_of_a_short_line() -> None:
    with serving(queue=2) as running:
        rows = [value for second in range(8) for value in at(1.0, 9.0 * second)]
        given = {"inputs": [{"name": "input", "shape": [8, 4], "datatype": "FP64", "data": rows}]}
        reply = running.client.http.post("/v2/models/smoothcert/infer", json=given)
        assert (reply.status_code, reply.json()["outputs"][0]["data"]) == (200, [1] * 8)


def test_raw_garbage_does_not_hurt(running: Running) -> None:
    source = random.Random(0)
    for size in (1, 10, 100, 70_000):
        with socket.create_connection(("127.0.0.1", running.port), timeout=5) as connection:
            connection.sendall(source.randbytes(size) + b"\r\n\r\n")
            connection.recv(100)
    assert running.client.certify(at(1.0)).label == 1


def test_every_request_is_told_on_one_line(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its path; and what a client wants to be called by comes back, also if it is no text."""
    with caplog.at_level("INFO", "smoothcert.serve"):
        for target in ("OPTIONS *", "GET /x%0aforged"):
            with socket.create_connection(("127.0.0.1", running.port), timeout=5) as connection:
                connection.sendall(f"{target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                assert b"404" in connection.recv(100)
                until(lambda: "request" in [record.message for record in caplog.records])  # it comes after the answer
            [told] = caplog.records
            assert (told.path, told.status) == (target.split()[1], 404)
            caplog.clear()
    body = json.dumps(tensor() | {"id": "\ud800"}).encode()
    assert json.loads(running.client.http.post("/v2/models/smoothcert/infer", content=body).content)["id"] == "\ud800"


def test_other_host_names_and_other_pages_are_refused(running: Running) -> None:
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{running.port}"}, {"Host": ""}):
        assert running.client.http.get("/status", headers=headers).status_code == 421
    assert running.client.http.get("/status", headers={"Host": "localhost"}).status_code == 200
    assert running.client.http.get("/status", headers={"Origin": "http://evil.example"}).status_code == 403
    assert running.client.http.get("/status", headers={"Origin": running.address}).status_code == 200


def test_a_token_is_asked_for_and_names_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokens").write_text(f"alice {SECRET}\n{SECRET}2\n")
    with serving(token_file=str(tmp_path / "tokens")) as running:
        for wrong in (None, "x", SECRET[:-1], SECRET + "1", "é" * 20):
            headers = {} if wrong is None else {"Authorization": f"Bearer {wrong}".encode()}
            reply = running.client.http.get("/status", headers=headers)
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
        for token in (SECRET, SECRET + "2"):
            with Client(running.address, token) as friend:
                assert friend.certify(at(1.0)).label == 1
        assert running.client.http.get("/v2/health/ready").status_code == 200
        assert running.client.http.get("/metrics").status_code == 401
    with pytest.raises(SettingError, match="a token is needed"):
        Serving(host="0.0.0.0")
    monkeypatch.setenv(TOKEN, SECRET)
    assert Serving(host="0.0.0.0").tokens == {"token": SECRET.encode()}
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(SettingError, match="fewer than 16"):
        Serving(host="0.0.0.0")


def test_tls_files_serve_https_and_a_bad_key_is_told(tmp_path: Path) -> None:
    certificate, key, bad = tmp_path / "certificate.pem", tmp_path / "key.pem", tmp_path / "bad.pem"
    made = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext"
    )
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made.split(), "subjectAltName=IP:127.0.0.1", *files], check=True, capture_output=True)
    with serving(tls_certificate=str(certificate), tls_key=str(key)) as running:
        trusting = ssl.create_default_context(cafile=certificate)
        with Client(f"https://127.0.0.1:{running.port}", verify=trusting) as client:
            assert client.certify(at(2.0)).label == 1
        with Client(f"https://127.0.0.1:{running.port}") as stranger, pytest.raises(httpx.ConnectError, match="CERT"):
            stranger.status()
        with pytest.raises(httpx.TransportError):
            running.client.status()  # plain HTTP
    bad.write_text("no key")
    with pytest.raises(SettingError, match=r"cannot use the TLS files .*give a certificate and its key"):
        server_of(lambda: pytest.fail("loaded"), Serving(tls_certificate=str(certificate), tls_key=str(bad)))
    with pytest.raises(SettingError, match="belong together"):
        Serving(tls_certificate=str(certificate))
    with pytest.raises(SettingError, match="there is no file"):
        Serving(tls_certificate=str(certificate), tls_key=str(tmp_path / "none.pem"))


def test_who_dawdles_over_headers_or_body_is_hung_up_on() -> None:
    """A byte now and then does not help; and three hundred who say nothing keep nobody else from being answered."""
    with serving(patience=0.5) as running:
        idle = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(300)]
        began = time.monotonic()
        assert running.client.certify(at(1.0)).label == 1
        slow = socket.create_connection(("127.0.0.1", running.port))
        slow.sendall(b"POST /certify HTTP/1.1\r\n")
        with suppress(ConnectionError):
            while time.monotonic() - began < 5:
                slow.sendall(b"X")
                time.sleep(0.05)
        assert time.monotonic() - began < 3, "a byte now and then kept the connection open"
        body = socket.create_connection(("127.0.0.1", running.port), timeout=5)
        body.sendall(b"POST /certify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        began = time.monotonic()
        assert b"408" in body.recv(1000)
        assert time.monotonic() - began < 3
        for connection in idle:
            connection.settimeout(5)
            assert connection.recv(10) == b""
        for connection in (*idle, slow, body):
            connection.close()
        assert running.client.certify(at(1.0)).label == 1


def test_who_takes_no_answers_is_hung_up_on() -> None:
    """Or it would hold its connection for ever, and keep the server from ending."""
    with serving(patience=0.5) as running, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", running.port))
        deaf.settimeout(5)
        deaf.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)  # ten megabytes, more than any buffer takes
        time.sleep(1.5)
        taken = 0
        with suppress(ConnectionResetError):
            while part := deaf.recv(1_000_000):
                taken += len(part)
        assert taken < 100 * len(running.client.http.get("/").content), "it was waited for"
        assert running.client.certify(at(1.0)).label == 1


def test_pictures_are_taken_as_the_numbers_that_they_hold() -> None:
    pixels = np.zeros((2, 1, 2, 2), dtype=np.float32)
    pixels[0, 0, 0, 0], pixels[1, 0, 0, 1] = 1.0, 1 / 255
    data = ArrayDataset("pixels", pixels, np.array([1, 0]), classes=2)
    assert data.grid is not None
    model = HalfSpace(torch.tensor([1.0, 0.0, 0.0, 0.0]), -0.5)
    smoother = Smoother(model, Noise.isotropic("gaussian", 0.25, grid=1 / 255), estimate=1_000)
    with serving(smoother, data=data) as running:
        picture = Image.fromarray(np.array([[255, 0], [0, 128]], dtype=np.uint8))
        as_png, as_jpeg, large = io.BytesIO(), io.BytesIO(), io.BytesIO()
        picture.save(as_png, "PNG")
        picture.save(as_jpeg, "JPEG", quality=100)
        Image.new("L", (3, 2)).save(large, "PNG")
        answer = running.client.certify(as_png.getvalue(), radii=[0.1])
        assert (answer.label, answer.grid) == (1, "grid 1/255")
        assert answer.radius >= 0.1
        same = running.client.certify([[[1.0, 0.0], [0.0, 128 / 255]]], radii=[0.1])
        assert (same.source, same.radius) == ("memory", answer.radius)
        assert running.client.certify(as_jpeg.getvalue()).label == 1
        with pytest.raises(ServerError, match="422.*a request may have 100"):
            running.client.certify(as_png.getvalue(), radii=[0.1] * 101)
        for depth in (8, 16):
            rows = (b"\0" + bytes(2 * 3 * depth // 8)) * 2
            parts = (
                (b"IHDR", struct.pack(">IIBBBBB", 2, 2, depth, 2, 0, 0, 0)),
                (b"IDAT", zlib.compress(rows)),
                (b"IEND", b""),
            )
            chunks = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in parts]
            coloured = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
            reply = running.client.http.post("/predict", content=coloured, headers={"Content-Type": "image/png"})
            assert reply.status_code == {8: 200, 16: 422}[depth], "what is finer than the grid would be rounded"
        for wrong in (large.getvalue(), as_png.getvalue()[:40], b"\xff\xd8" + bytes(50)):
            with pytest.raises(ServerError, match="422"):
                running.client.certify(wrong)
        with pytest.raises(ServerError, match="422.*off the grid"):
            running.client.certify([0.5, 0.0, 0.0, 0.1])


def test_a_full_disk_is_503_and_nothing_is_half_promised(tmp_path: Path) -> None:
    """SQLite's own error, by a limit on its pages; once there is room again the server goes on by itself."""
    memory = Memory.open(tmp_path / "memory.sqlite")
    with serving(memory=memory) as running:
        assert running.client.certify(at(1.0)).label == 1
        database = memory._file._db
        [(pages,)] = database.execute("PRAGMA page_count").fetchall()
        database.execute(f"PRAGMA max_page_count={pages}")
        given: list[Answer] = []
        while len(given) < 100:
            reply = running.client.http.post("/certify", json={"input": at(1.0, 10.0 * len(given) + 10).tolist()})
            if reply.status_code != 200:
                break
            given.append(Answer(**reply.json()))
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert "full" in reply.json()["error"]
        assert running.client.status().promises == 1 + len(given)
        database.execute("PRAGMA max_page_count=1000000")
        until(lambda: running.client.http.post("/certify", json={"input": at(1.0, 5000.0).tolist()}).status_code == 200)
        for number, answer in enumerate(given):
            assert running.client.certify(at(1.0, 10.0 * number + 10)).id == answer.id
        sequences = [promise.sequence for promise in memory.promises()]
        assert sequences == list(range(1, len(sequences) + 1))


def test_a_file_that_another_program_holds_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite would wait for a minute, and all who ask for what is promised behind it."""
    monkeypatch.setattr("smoothcert.cli.serve.PATIENCE", 0.2)
    with serving(memory=_memory(str(tmp_path / "memory.sqlite"), None)) as running:
        made = running.client.certify(at(1.0))
        with closing(sqlite3.connect(tmp_path / "memory.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            with pytest.raises(ServerError, match="503.*locked"):
                running.client.certify(at(1.0, 9.0))
            assert time.monotonic() - began < 5.0
        time.sleep(PAUSE)
        assert running.client.certify(at(1.0)).id == made.id


def test_the_open_inference_protocol_is_spoken_to_a_stranger(running: Running) -> None:
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(f"127.0.0.1:{running.port}")
    try:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("smoothcert")
        about = client.get_model_metadata("smoothcert")
        assert about["inputs"][0]["shape"] == [-1, 4]
        x = np.float32([at(1.0, 300.0), at(-2.0, 300.0), at(0.0, 300.0)])
        answers = []
        for binary in (True, False):
            given = triton.InferInput("input", list(x.shape), "FP32")
            given.set_data_from_numpy(x, binary_data=binary)
            wanted = [
                triton.InferRequestedOutput(name, binary_data=binary) for name in ("label", "radius", "soundness")
            ]
            answers.append(client.infer("smoothcert", [given], outputs=wanted))
        for answer in answers:
            assert answer.as_numpy("label").tolist() == [1, 0, -1]
            assert answer.as_numpy("radius")[0] > 0.3
            assert answer.as_numpy("radius")[2] == 0
            assert answer.get_response()["outputs"][2]["data"] == ["global"] * 3
        assert answers[0].as_numpy("radius").tolist() == answers[1].as_numpy("radius").tolist()
    finally:
        client.close()


def test_metrics_status_and_documentation_are_there(running: Running) -> None:
    running.client.certify(at(1.0))
    running.client.http.get("/v2/health/ready")
    text = running.client.http.get("/metrics").text
    assert 'requests_total{kind="certify",status="200"}' in text
    assert 'requests_total{kind="other",status="200"}' in text, "who asks for health is counted among those who infer"
    for name in (
        "requests_total",
        "hits_total",
        "votes_total",
        "queue",
        "seconds_bucket",
        "promises",
        "expected_wrong",
    ):
        assert f"smoothcert_{name}" in text
    paths = running.client.http.get("/openapi.json").json()["paths"]
    assert {"/certify", "/predict", "/promises/{name}", "/v2/models/{name}/infer"} <= set(paths)
    assert paths["/certify"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    assert running.client.http.get("/docs").status_code == 404  # it would fetch scripts from elsewhere
    reply = running.client.http.get("/status", headers={"X-Request-ID": "my-own"})
    assert reply.headers["x-request-id"] == "my-own"
    assert (
        httpx.get(f"{running.address}/status", headers={"X-Request-ID": "no good"}).headers["x-request-id"] != "no good"
    )
