"""[serve]: where the server listens, whom it lets in, and how much anybody may ask of it."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from smoothcert.errors import SettingError
from smoothcert.registry import Checked, setting

TOKEN = "SMOOTHCERT_TOKEN"
NO_FRONT = "a server cannot answer behind a front yet; serve a classifier of inputs, or use smoothcert predict"
ONE_CLASSIFIER = (
    "a server answers for one smoothed classifier, not for a cascade or a regressor; use smoothcert predict for these"
)


@dataclass(frozen=True)
class Serving(Checked):
    """Where a server listens, and its limits; none of it changes a number of a certificate."""

    host: str = setting("127.0.0.1", "The address to listen on; any other than the loopback needs a token.")
    port: int = setting(8000, "The port; 0: any that is free.", least=0, most=65535)
    name: str = setting("smoothcert", "What the model is called at /v2/models/NAME.")
    names: str = setting("", "Names that the server is reached by, with commas between; others are refused.")
    token_file: str | None = setting(
        None,
        f"A file with a line per client: its token, or its name and its token. Or one token in {TOKEN}.",
        metavar="FILE",
    )
    tls_certificate: str | None = setting(None, "A PEM file: answer by https.", metavar="FILE")
    tls_key: str | None = setting(None, "The PEM file of its key.", metavar="FILE")
    queue: int = setting(64, "Inputs that may wait for votes; more are refused with 429.", least=1)
    seconds: float = setting(60.0, "The most time for one request.", above=0)
    body: int = setting(4_000_000, "Bytes of a request's body, at most.", least=1)
    batch: int = setting(16, "Inputs in one request, at most.", least=1)
    patience: float = setting(10.0, "Seconds for the headers of a request, for its body, and to take answers.", above=0)
    connections: int = setting(1000, "Connections at once, at most; more get 503.", least=1)
    remember: float = setting(3600.0, "Seconds for which abstentions and votes on a point are kept.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SettingError("--tls-certificate and --tls-key belong together; give both, or neither")
        for file in (self.tls_certificate, self.tls_key):
            if file is not None and not Path(file).is_file():
                raise SettingError(f"there is no file {file}; give a PEM file, or leave TLS out")
        if not self.loopback and not self.tokens:
            raise SettingError(
                f"--host {self.host} can be reached from elsewhere, so a token is needed: give --token-file FILE, or {TOKEN}"
            )

    @cached_property
    def loopback(self) -> bool:
        """Is it only reached from this machine?"""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @cached_property
    def tokens(self) -> dict[str, bytes]:
        """The token of each client, by name; none where everybody on this machine may ask."""
        alone = os.environ.get(TOKEN, "")
        found = {"token": alone.encode()} if alone else {}
        if self.token_file is not None:
            found |= _read(Path(self.token_file))
        if any(len(token) < 16 for token in found.values()):
            raise SettingError("a token has fewer than 16 characters; make one with: openssl rand -hex 24")
        return found

    @property
    def hosts(self) -> frozenset[str]:
        """The names that the header Host may say, without port; empty: any, since a token is asked for."""
        given = {name.strip().lower() for name in self.names.split(",") if name.strip()}
        return frozenset(given | {"127.0.0.1", "localhost", "[::1]"} if self.loopback or given else ())


def _read(file: Path) -> dict[str, bytes]:
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingError(f"cannot read the tokens in {file}: {problem}") from problem
    if not lines or any(len(words) > 2 for words in lines):
        raise SettingError(f"{file} must hold a line per client: its token, or its name and its token")
    return {words[0] if len(words) == 2 else f"client {at}": words[-1].encode() for at, words in enumerate(lines)}
