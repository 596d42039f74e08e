"""A run says by itself what it was certified with: also from elsewhere, moved, or made in Python."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import smoothcert as sc
from smoothcert import data
from smoothcert.cli import app
from smoothcert.cli.of_run import located
from smoothcert.errors import ModelError, RunError
from smoothcert.maths.boxed import Box
from smoothcert.models import load_model
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.store import RESULTS
from smoothcert.views import view_named

QUICK = ["--limit", "2", "-n", "200", "--block", "50", "--select", "20"]


def command(*words: object) -> str:
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def weights(path: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    made = Architecture.of({"name": "mlp", "shape": (1, 28, 28), "classes": 10})
    save_file(made.build().state_dict(), path, {ARCHITECTURE_KEY: made.to_json()})
    return path


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network and two runs of it: one of the command line, with a memory, and one of Python."""
    folder = tmp_path_factory.mktemp("template")
    weights(folder / "net.safetensors", 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        command("certify", "--model", "net.safetensors", "--sigma", 0.05, *QUICK, "--memory", "--out", "runs/a")
    model = load_model(folder / "net.safetensors", shape=(1, 28, 28))
    noise = sc.Noise.isotropic("laplace", 0.05, grid=1 / 255)
    smoother = sc.Smoother(model, noise, norm=1, estimate=200, engine=sc.Engine(block=50), radii=[0.01])
    sc.certify_all(smoother, data.load("digits"), folder / "runs/python", indices=[0, 1])
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, moved; the user sits elsewhere, and what they left is gone."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Path(shutil.copytree(template, tmp_path / "there"))


@pytest.mark.parametrize("words", [("predict", "RUN"), ("predict", "--memory", "RUN")])
def test_a_run_is_all_that_predict_needs(folder: Path, words: tuple[str, ...], template: Path) -> None:
    def answers(run: Path) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(command(*(run if w == "RUN" else w for w in words), "--json"))
        return found

    first = answers(template / "runs/a")
    assert "memory" in {row["from"] for row in first}
    # Its model is found beside it, though the folder it was begun in has another one now.
    with sqlite3.connect(folder / "runs/a" / RESULTS) as db:
        db.execute("UPDATE facts SET value = json_set(value, '$.folder', '/nowhere') WHERE name = 'notes'")
    db.close()
    assert answers(folder / "runs/a") == first


def test_paths_are_found_where_the_run_began_and_then_from_the_run(tmp_path: Path) -> None:
    for place in ("began", "moved"):
        (tmp_path / place).mkdir()
    (tmp_path / "moved/x.npz").touch()
    (tmp_path / "began/maps.npy").touch()
    (tmp_path / "began/digits").touch()
    kept = {
        "data.source": "npz:path=x.npz",
        "noise.scale": "maps.npy",
        "model.source": "gone.pt2",
        "votes.method": "reuse:run=/else",
    }
    found = located(kept, [tmp_path / "began", tmp_path / "moved"])
    assert found == {
        "data.source": f"npz:path={tmp_path / 'moved/x.npz'}",
        "noise.scale": str(tmp_path / "began/maps.npy"),
        "model.source": "gone.pt2",
        "votes.method": "reuse:run=/else",
    }
    assert located({"data.source": "digits"}, [tmp_path / "began"]) == {"data.source": "digits"}


def test_a_run_made_in_python_lacks_only_its_files(folder: Path, tmp_path: Path) -> None:
    run, moved = folder / "runs/python", ("--model", folder / "net.safetensors")
    assert [row["index"] for row in json.loads(command("predict", run, *moved, "--limit", 2, "--json"))] == [0, 1]
    effort = ("--limit", 1, "--budget", 100, "--votes", 100, "--attack", "random", "--json")
    assert json.loads(command("attack", run, *moved, *effort))[0]["tried"] == 1
    with pytest.raises(ModelError, match="made in Python.*give --model"):
        command("attack", run, *effort)
    other = weights(tmp_path / "other.safetensors", 1)
    for words in (("attack", run, *effort), ("predict", run)):
        with pytest.raises(RunError, match="not what .* certified"):
            command(*words, "--model", other)


EFFORT = ("--budget", 100, "--votes", 100)
RANDOM = (*EFFORT, "--attack", "random", "--json")


def test_a_run_knows_the_box_that_its_votes_were_judged_in_again(folder: Path) -> None:
    net = ("--model", folder / "net.safetensors")
    uniform = ("--noise", "uniform", "--sigma", 0.01, "--norm", 1, "--set", "noise.box=none")
    command("certify", *net, *uniform, *QUICK, "--out", "plain")
    command("recertify", "plain", "--box", "0..1", "--out", "boxed")
    assert json.loads(command("attack", "boxed", *RANDOM))[0]["tried"] >= 1
    assert len(json.loads(command("predict", "boxed", "--json"))) == 2


def test_a_run_of_uniform_noise_or_of_views_made_in_python_lacks_only_its_files(folder: Path) -> None:
    net, engine = folder / "net.safetensors", sc.Engine(block=50)
    model, digits = load_model(net, shape=(1, 28, 28)), data.load("digits")
    plain = sc.Noise.isotropic("uniform", 0.01, grid=1 / 255)
    boxed = sc.Noise(plain.law, plain.scale, grid=1 / 255, box=Box(0.0, 2.0))
    smoothers = {
        "uniform": sc.Smoother(model, plain, norm=1, estimate=200, engine=engine),
        "boxed": sc.Smoother(model, boxed, norm=1, estimate=200, engine=engine),
        "bands": sc.Smoother(model, view_named("bands:width=27"), threat="patch:1", engine=engine),
    }
    for name, smoother in smoothers.items():
        sc.certify_all(smoother, digits, name, indices=[0, 1])
        effort = (*EFFORT, "--json") if name == "bands" else RANDOM
        assert json.loads(command("attack", name, "--model", net, *effort))[0]["tried"] >= 1
