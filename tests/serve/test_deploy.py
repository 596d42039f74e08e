"""The files to deploy with: every flag, variable, port, address and extra in them is one that the server has."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from smoothcert.cli import app
from smoothcert.serve.guard import OPEN
from smoothcert.serve.settings import TOKEN, Serving

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNIT = (DEPLOY / "smoothcert.service").read_text()
[KUBERNETES] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "serve.md").read_text(), re.DOTALL)
POD = yaml.safe_load(KUBERNETES)["spec"]["template"]["spec"]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    """served(words): the settings that the command would serve with."""
    found: list[Serving] = []
    monkeypatch.setattr("smoothcert.serve.server.serve", lambda load, settings, **_: found.append(settings))
    monkeypatch.delenv(TOKEN, raising=False)

    def run(words: list[str], **environment: str) -> Serving:
        result = CliRunner().invoke(app, words, env=environment)
        assert result.exit_code == 0, result.output
        return found.pop()

    return run


def test_the_image_holds_all_that_a_server_needs_and_shows_its_port() -> None:
    extras = set(re.findall(r"\.\[([\w,]+)\]", DOCKERFILE)[0].split(","))
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"serve", "images", "postgres"} <= extras <= set(known)
    assert (ROOT / "constraints.txt").is_file()
    assert f"EXPOSE {Serving().port}\n" in DOCKERFILE
    assert CliRunner().invoke(app, ["serve", "--help"]).exit_code == 0


def test_the_compose_file_starts_a_server_that_it_can_reach(served: Any) -> None:
    server, database = COMPOSE["services"]["server"], COMPOSE["services"]["postgres"]
    settings = served(shlex.split(server["command"]), **dict.fromkeys(server["environment"], "0123456789abcdef"))
    assert settings.tokens
    assert server["ports"] == [f"127.0.0.1:8000:{settings.port}"]
    assert int(server["stop_grace_period"].removesuffix("s")) > settings.seconds
    assert (DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]).is_file()
    asked = re.findall(r"http://127.0.0.1:(\d+)([\w/]+)", " ".join(server["healthcheck"]["test"]))
    assert asked == [(str(settings.port), "/v2/health/ready")]
    user, name = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
    assert f"postgresql://{user}@postgres/{name}" in server["command"]


def test_the_unit_starts_a_server(served: Any, tmp_path: Path) -> None:
    facts = dict(line.split("=", 1) for line in UNIT.splitlines() if "=" in line and not line.startswith("#"))
    words = shlex.split(facts["ExecStart"])[1:]
    own = tmp_path / "run.toml"
    own.write_text(
        "[model]\nsource = 'net.safetensors'\n[data]\nsource = 'digits'\n[noise]\nsigma = 0.5\n[serve]\nport = 8123\n"
    )
    settings = served([str(own) if word == "/etc/smoothcert/run.toml" else word for word in words])
    assert settings.port == 8123
    assert int(facts["TimeoutStopSec"]) > settings.seconds
    assert f"{TOKEN}=" in UNIT
    state = f"/var/lib/{facts['StateDirectory']}/"
    assert all(word.startswith(state) for word in words if word.startswith("/var/"))
    program = shutil.which("systemd-analyze")
    if program is not None:
        there = tmp_path / "smoothcert.service"
        there.write_text(UNIT.replace("/opt/smoothcert/bin/smoothcert", "/bin/true"))
        done = subprocess.run([program, "verify", str(there)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_pods_of_kubernetes_are_asked_where_the_server_answers(served: Any) -> None:
    [container] = POD["containers"]
    given = {one["name"] for one in container["env"]}
    assert given == {TOKEN, "PGPASSWORD"}
    settings = served(container["args"], **{TOKEN: "0123456789abcdef"})
    assert container["ports"] == [{"containerPort": settings.port}]
    for kind in ("livenessProbe", "readinessProbe"):
        asked = container[kind]["httpGet"]
        assert asked["port"] == settings.port
        assert asked["path"] in OPEN
    assert POD["terminationGracePeriodSeconds"] > settings.seconds
    assert container["image"] == COMPOSE["services"]["server"]["image"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}
