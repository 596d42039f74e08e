"""A Postgres of one's own, for tests and benchmarks: made in a folder, started as an unprivileged user, crashed at will."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from smoothcert.errors import MissingExtra

USER, PASSWORD = "smoothcert", "a secret: 1/2 @ home"
URL_PASSWORD = "a%20secret%3A%201%2F2%20%40%20home"


def find_postgres() -> Path:
    """The folder of Postgres' programs, wherever it was installed."""
    there = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    there += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in there:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise MissingExtra("no Postgres server is installed here; apt-get install postgresql")


class PostgresServer:
    """A server of its own on a port of the loopback; ``with PostgresServer() as server: server.url``."""

    def __init__(self, **settings: str) -> None:
        self.programs = find_postgres()
        self.folder = Path(mkdtemp(prefix="smoothcert-postgres-"))
        self.port = _free_port()
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        (self.folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:  # Postgres refuses to run as root
            for path in (self.folder, self.folder / "password"):
                shutil.chown(path, _unprivileged())
        secret = f"--pwfile={self.folder / 'password'}"
        words = ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", f"--username={USER}", secret]
        command = [str(self.programs / "initdb"), "--pgdata", str(self.folder / "data"), "--no-sync", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **_as_nobody())
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr}")

    @property
    def place(self) -> str:
        """Its URL, without the password."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    @property
    def url(self) -> str:
        """Its URL with the password."""
        return self.place.replace("@", f":{URL_PASSWORD}@")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": str(self.folder)}
        flags = [word for name, value in (words | self.settings).items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *flags],
                stdout=log, stderr=log, start_new_session=True, **_as_nobody(),
            )  # fmt: skip
        until = time.monotonic() + 60
        while self._asked().returncode:
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"Postgres does not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def _asked(self) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False)

    def crash(self) -> None:
        """SIGKILL to the server and all of its processes, as a power failure would end them."""
        assert self._process is not None
        for process in [self._process.pid, *_children(self._process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it for good, and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _unprivileged() -> str:
    """A user that may run a server."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _as_nobody() -> dict[str, Any]:
    """Options of a process that root starts as somebody else."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(_unprivileged())
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "cwd": "/"}


def _children(parent: int) -> list[int]:
    """The processes that a process has started, from /proc."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in found.split()]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
