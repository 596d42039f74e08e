"""smoothcert attack on runs of the embedded digits: table, resume, exit status, and what it refuses."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from smoothcert.attacks.check import Effort
from smoothcert.attacks.over_run import attack_run
from smoothcert.cli import app
from smoothcert.cli.flags import Given
from smoothcert.cli.of_run import certified_with
from smoothcert.errors import SmoothcertError
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.store import RESULTS

QUICK = ["--budget", "200", "--votes", "1000", "--attack", "projected_gradient", "--attack", "random"]


def weights(path: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    architecture = Architecture.of({"name": "mlp", "shape": (1, 28, 28), "classes": 10})
    save_file(architecture.build().state_dict(), path, {ARCHITECTURE_KEY: architecture.to_json()})
    return path


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four inputs, of an untrained network: its answers depend little on the input."""
    folder = tmp_path_factory.mktemp("run")
    model = weights(folder / "model.safetensors", 0)
    arguments = ["certify", "--model", str(model), "--sigma", "0.5", "-n", "500", "--limit", "4", "--out"]
    done = CliRunner().invoke(app, [*arguments, str(folder / "run")], catch_exceptions=False)
    assert done.exit_code == 0
    return folder


@pytest.fixture
def run(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template / "run", tmp_path / "run"))


def attack(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["attack", *arguments], catch_exceptions=False)
    return done.exit_code, done.stdout


def test_sound_certificates_hold_and_the_command_goes_on_where_it_stopped(run: Path) -> None:
    status, out = attack(str(run), *QUICK, "--limit", "1", "--json")
    assert status == 0
    [row] = json.loads(out)
    assert (row["label"], row["times"], row["tried"], row["violated"]) == ("global", 1.0, 1, 0)
    before = bodies(run)
    status, out = attack(str(run), *QUICK, "--limit", "2", "--beyond", "2", "--json")
    assert [row["tried"] for row in json.loads(out)] == [2, 2]
    assert before.items() <= bodies(run).items()
    assert len(bodies(run)) == 4
    assert (run / "room.png").read_bytes().startswith(b"\x89PNG")
    assert "certificates under attack" in attack(str(run), *QUICK, "--limit", "2")[1]


def test_the_inputs_that_are_asked_for_are_attacked_and_no_others(run: Path) -> None:
    """Of the four inputs one abstains, and is passed over."""
    status, out = attack(str(run), *QUICK, "--indices", "1-3", "--json")
    assert (status, [row["tried"] for row in json.loads(out)]) == (0, [2])
    assert 0 not in {index for _, index in bodies(run)}
    for words, told in {
        ("--indices", "1,7"): "input 7 is not in .*certify it first",
        ("--indices", "1", "--limit", "1"): "leave out skip and limit, or the list",
        ("--indices", "x"): "as in 0,5,10-19",
    }.items():
        with pytest.raises(SmoothcertError, match=told):
            attack(str(run), *QUICK, *words)
    with sqlite3.connect(run / RESULTS) as db:
        db.execute("UPDATE records SET body = json_set(body, '$.label', null) WHERE idx = 2")
    with pytest.raises(SmoothcertError, match="holds no certificates of these inputs"):
        attack(str(run), *QUICK, "--indices", "2")


def bodies(run: Path) -> dict[tuple[float, int], str]:
    with sqlite3.connect(run / RESULTS) as db:
        return {(times, index): body for times, index, body in db.execute("SELECT times, idx, body FROM findings")}


def test_a_stopped_attack_gives_the_same_findings(run: Path, template: Path, tmp_path: Path) -> None:
    smoother, dataset = certified_with(run, Given())
    effort = Effort(("random",), 200, 1_000)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack_run(smoother, dataset, run, effort, limit=3, progress=stop)
    assert len(bodies(run)) == 1
    attack_run(smoother, dataset, run, effort, limit=3)
    whole = Path(shutil.copytree(template / "run", tmp_path / "whole"))
    attack_run(smoother, dataset, whole, effort, limit=3)
    assert bodies(run) == bodies(whole)


def test_certificates_that_claim_too_much_give_exit_status_one(run: Path) -> None:
    """The stored radii, multiplied by 200: another certificate, so that what held before is tried again."""
    assert attack(str(run), *QUICK)[0] == 0
    with sqlite3.connect(run / RESULTS) as db:
        for index, body in db.execute("SELECT idx, body FROM records").fetchall():
            row = json.loads(body)
            row["region_radius"] *= 200
            db.execute("UPDATE records SET body = ? WHERE idx = ?", (json.dumps(row), index))
    status, out = attack(str(run), *QUICK, "--json")
    [row] = json.loads(out)
    assert row["violated"] > row["allowance"]
    assert row["nearest"] < 1.0
    assert status == 1
    assert attack(str(run), *QUICK, "--limit", "1")[0] == 1


def test_a_run_with_its_own_memory_may_be_named_in_another_way(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The findings of a memory that the run itself keeps are taken up again from any folder."""
    arguments = [
        "certify",
        "--model",
        str(template / "model.safetensors"),
        "--sigma",
        "0.5",
        "-n",
        "500",
        "--limit",
        "1",
    ]
    done = CliRunner().invoke(app, [*arguments, "--memory", "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert done.exit_code == 0
    attack(str(tmp_path / "run"), *QUICK)
    before = bodies(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("smoothcert.attacks.over_run.check", None)  # not tried again
    assert attack("run", *QUICK)[0] == 0
    assert bodies(tmp_path / "run") == before


def test_another_model_is_refused(run: Path, tmp_path: Path) -> None:
    other = weights(tmp_path / "other.safetensors", 1)
    with pytest.raises(SmoothcertError, match="not what .* certified \\(model: "):
        attack(str(run), *QUICK, "--model", str(other))


def test_what_cannot_be_attacked_is_explained(run: Path, tmp_path: Path) -> None:
    with pytest.raises(SmoothcertError, match="is not a run"):
        attack(str(tmp_path), *QUICK)
    with pytest.raises(SmoothcertError, match="each once and not 1"):
        attack(str(run), "--beyond", "1,2")
    with pytest.raises(SmoothcertError, match="no memory at"):
        attack(str(run), *QUICK, "--memory", str(tmp_path / "none.sqlite"))
    change = "UPDATE records SET body = json_set(body, '$.label', null)"
    with sqlite3.connect(run / RESULTS) as db:
        db.execute("UPDATE records SET body = json_set(body, '$.soundness', 'memory')")
    with pytest.raises(SmoothcertError, match="but no memory; give its file"):
        attack(str(run), *QUICK)
    with sqlite3.connect(run / RESULTS) as db:
        db.execute(change)
    with pytest.raises(SmoothcertError, match="holds no certificates"):
        attack(str(run), *QUICK)
    with sqlite3.connect(run / RESULTS) as db:
        db.execute("DELETE FROM facts WHERE name = 'notes'")
    with pytest.raises(SmoothcertError, match="was made in Python.*give --model"):
        attack(str(run), *QUICK)
