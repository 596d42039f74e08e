"""Downloads from a local server: whole, changed, broken off, absent."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import os
import pickle
import socket
import stat
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from smoothcert.data.cifar10 import FOLDER, load_cifar10
from smoothcert.data.download import Resource, retrieve
from smoothcert.data.mnist import Family, load_family
from smoothcert.errors import DataError

CONTENT = bytes(range(256)) * 3000
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT in ways named by the path, and whatever a test put into ``server.files``."""

    def do_GET(self) -> None:
        body = self.server.files.get(self.path, CONTENT)  # type: ignore[attr-defined]
        if self.path == "/absent":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unmeasured":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:1000] if self.path == "/truncated" else body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    """A server on a free port, stopped after the test."""
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.files = {}  # type: ignore[attr-defined]
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def address(server: http.server.HTTPServer) -> str:
    """Where the server answers."""
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach the local server directly, whatever proxy the environment names."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize(("path", "total"), [("/whole", len(CONTENT)), ("/unmeasured", None)])
def test_a_file_arrives_whole(tmp_path: Path, address: str, path: str, total: int | None) -> None:
    told: list[tuple[int, int | None]] = []
    resource = Resource(address + path, CHECKSUM, "set.gz")
    got = retrieve(resource, tmp_path / "new" / "folder", lambda done, whole: told.append((done, whole)))
    assert got == tmp_path / "new" / "folder" / "set.gz"
    assert got.read_bytes() == CONTENT
    assert [file.name for file in got.parent.iterdir()] == ["set.gz"]
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (len(CONTENT), total)
    assert {whole for _, whole in told} == {total}


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_the_file_has_the_usual_permissions(tmp_path: Path, address: str) -> None:
    (tmp_path / "usual").touch()
    got = retrieve(Resource(f"{address}/whole", CHECKSUM, "set.gz"), tmp_path)
    assert stat.S_IMODE(got.stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, address: str) -> None:
    wrong = "0" * 64
    with pytest.raises(DataError, match=f"wrong checksum: got SHA-256 {CHECKSUM}, expected {wrong}"):
        retrieve(Resource(f"{address}/whole", wrong, "set.gz"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_wrong_checksum_leaves_an_older_file_alone(tmp_path: Path, address: str) -> None:
    (tmp_path / "set.gz").write_bytes(b"older")
    with pytest.raises(DataError, match="wrong checksum"):
        retrieve(Resource(f"{address}/whole", "0" * 64, "set.gz"), tmp_path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"older"]


@pytest.mark.parametrize(
    ("path", "message"),
    [("/absent", "/absent answered 404 Not Found"), ("/truncated", f"broke off: got 1000 of {len(CONTENT)} bytes")],
)
def test_what_is_absent_or_cut_short_leaves_nothing(tmp_path: Path, address: str, path: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        retrieve(Resource(address + path, CHECKSUM, "set.gz"), tmp_path)
    assert address + path in str(caught.value)
    assert f"put the file, of SHA-256 {CHECKSUM}, into {tmp_path} by hand" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_mirror_steps_in(tmp_path: Path, address: str) -> None:
    mirrors = (f"{address}/truncated", f"{address}/whole")
    got = retrieve(Resource(f"{address}/absent", CHECKSUM, "set.gz", mirrors), tmp_path)
    assert got.read_bytes() == CONTENT


def test_when_all_addresses_fail_each_is_named(tmp_path: Path, address: str) -> None:
    with pytest.raises(DataError, match=r"/absent answered 404.*; .*/truncated broke off"):
        retrieve(Resource(f"{address}/absent", CHECKSUM, "set.gz", (f"{address}/truncated",)), tmp_path)


def test_without_a_network_the_address_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: refuses every connection
        url = f"http://127.0.0.1:{free.getsockname()[1]}/set.gz"
        with pytest.raises(DataError, match=f"{url} cannot be reached"):
            retrieve(Resource(url, CHECKSUM, "set.gz"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_only_addresses_of_the_web_are_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="allowed are https:// and http://"):
        retrieve(Resource("file:///etc/hostname", CHECKSUM, "set.gz"), tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, address: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write to .*SMOOTHCERT_DATA"):
        retrieve(Resource(f"{address}/whole", CHECKSUM, "set.gz"), tmp_path / "file")


def test_an_interruption_leaves_nothing(tmp_path: Path, address: str) -> None:
    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retrieve(Resource(f"{address}/whole", CHECKSUM, "set.gz"), tmp_path, interrupt)
    assert not list(tmp_path.iterdir())


def serve(server: http.server.HTTPServer, address: str, file_name: str, content: bytes) -> Resource:
    """Put a file on the server."""
    server.files[f"/{file_name}"] = content  # type: ignore[attr-defined]
    return Resource(f"{address}/{file_name}", hashlib.sha256(content).hexdigest(), file_name)


def test_a_family_downloads_what_is_missing_once(tmp_path: Path, server: http.server.HTTPServer, address: str) -> None:
    files = {
        "t10k-images-idx3-ubyte": bytes([0, 0, 8, 3, *(0, 0, 0, 1), *(0, 0, 0, 28), *(0, 0, 0, 28)]) + bytes(784),
        "t10k-labels-idx1-ubyte": bytes([0, 0, 8, 1, *(0, 0, 0, 1), 5]),
    }
    resources = {name: serve(server, address, f"{name}.gz", gzip.compress(body)) for name, body in files.items()}
    family = Family("tiny", "Tiny", resources)
    assert load_family(family, tmp_path, "test", download=True).truths([0]) == [5]
    server.files.clear()  # type: ignore[attr-defined]
    assert load_family(family, tmp_path, "test", download=True).shape == (1, 28, 28)
    assert len(list((tmp_path / "Tiny" / "raw").iterdir())) == 2


def test_cifar10_is_downloaded_and_read_from_its_archive(
    tmp_path: Path, server: http.server.HTTPServer, address: str
) -> None:
    batch = pickle.dumps({b"data": np.zeros((1, 3072), dtype=np.uint8), b"labels": [4]}, protocol=2)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(f"{FOLDER}/test_batch")
        member.size = len(batch)
        archive.addfile(member, io.BytesIO(batch))
    resource = serve(server, address, "cifar-10-python.tar.gz", packed.getvalue())
    assert load_cifar10(tmp_path, "test", download=True, archive=resource).truths([0]) == [4]
    assert [file.name for file in tmp_path.iterdir()] == ["cifar-10-python.tar.gz"]
