"""Fronts on the command line: train, certify, report, judge again, attack, predict, explore."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import smoothcert.cli
from smoothcert.cli.flags import Given
from smoothcert.cli.of_run import certified_with
from smoothcert.errors import SettingError
from smoothcert.explore.explorer import Explorer
from smoothcert.explore.slices import Asked
from smoothcert.fronts import PrincipalComponents
from smoothcert.merge import merge
from smoothcert.models import load_model
from smoothcert.store import open_run

CHANCE = np.random.default_rng(0)


@pytest.fixture
def ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """smoothcert with these arguments in a folder with pictures of two classes: bright above, or bright below."""
    monkeypatch.chdir(tmp_path)
    labels = np.arange(80) % 2
    pictures = CHANCE.integers(0, 60, (80, 1, 8, 8))
    for picture, label in zip(pictures, labels, strict=True):
        picture[0, 4 * label : 4 * label + 4] += 180
    np.savez("halves.npz", x=pictures[:60].astype(np.uint8), y=labels[:60])
    np.savez("others.npz", x=pictures[60:].astype(np.uint8), y=labels[60:])

    def run(*arguments: object, fails: bool = False) -> str:
        monkeypatch.setattr(sys, "argv", ["smoothcert", *map(str, arguments)])
        status = 0
        try:
            smoothcert.cli.main()
        except SystemExit as stop:
            status = int(stop.code or 0)
        told = capsys.readouterr()
        assert (status != 0) == fails, told.err
        return told.err if fails else told.out

    return run


@pytest.mark.slow
@pytest.mark.parametrize("front", ["pca:4", "pca:k=6,decode=true", "blocks:2"])
def test_from_training_to_the_report(front: str, ok, tmp_path: Path) -> None:
    noise = ("--noise", "gaussian", "--sigma", 0.5)
    ok("train", "--model", "mlp", "--data", "halves.npz", *noise, "--front", front, "--epochs", 15, "--out", "m")
    given = ("--model", "m/model.safetensors", "--data", "others.npz", *noise)
    ok("certify", *given, "--limit", 6, "-n", 400, "--out", "a")
    with open_run(tmp_path / "a") as store:
        records, facts = list(store.records()), store.facts()
    assert all(record.soundness == "global" and record.front is not None for record in records)
    assert sum(record.correct and record.radius > 0.1 for record in records) >= 4
    told = json.loads(ok("report", "a", "--json"))
    assert "has no end where the front is blind" in ok("report", "a", "--out", "page")
    (line,) = told["lines"] if isinstance(told, dict) else told
    radii = line["average_certified_radius_in"]
    assert radii["2"] == pytest.approx(line["average_certified_radius"], rel=1e-6)
    assert radii["inf"] < radii["2"] < radii["1"]
    ok("recertify", "a", "--alpha", 0.001, "--out", "b")
    with open_run(tmp_path / "b") as store:
        again = list(store.records())
    assert [record.radius for record in again] == [record.radius for record in records]
    ok("attack", "a", "--limit", 2, "--budget", 200, "--votes", 400)
    with open_run(tmp_path / "a") as store:
        assert not any(finding.violated for finding in store.findings())
    answers = json.loads(ok("predict", "a", "--limit", 6, "--json"))
    assert all(row["answer"] in (record.label, None) for row, record in zip(answers, records, strict=True))
    assert facts["configuration"]["front"].startswith(front[:3])
    explorer = Explorer(*certified_with(tmp_path / "a", Given({})), tmp_path / "a")
    try:
        seen = explorer.input(records[0].index)
        assert seen["proxy"] is None
        place = explorer.point(records[0].index, {"axes": "nearest", "seed": 0, "a": 0.01, "b": 0.0}, 100, anew=False)
        assert place["inside"]
        for axes in ("extremes", "curvature") if "decode" in front else ("nearest",):
            asked = Asked(records[0].index, axes)
            explorer.slice(asked)
            explorer._thread.submit(lambda: None).result()
            assert explorer._jobs[asked].problem is None
    finally:
        explorer.close()


def test_data_that_the_front_was_fitted_with(ok, tmp_path: Path) -> None:
    noise = ("--noise", "gaussian", "--sigma", 0.5)
    ok("train", "--model", "mlp", "--data", "halves.npz", *noise, "--front", "pca:4", "--epochs", 2, "--out", "m")
    ok(
        "certify",
        "--model",
        "m/model.safetensors",
        "--data",
        "halves.npz",
        *noise,
        "--limit",
        3,
        "-n",
        200,
        "--out",
        "a",
    )
    with open_run(tmp_path / "a") as store:
        assert {record.soundness for record in store.records()} == {"frozen"}


@pytest.mark.filterwarnings("ignore:the generat")  # an epoch is too short to learn a shape
@pytest.mark.parametrize("front", ["pca:4", "pca:k=4,decode=true", "blocks:2"])
@pytest.mark.parametrize("shape", ["--generator dataset", "--generator per_input", "--pattern l2"])
def test_noise_that_is_shaped_while_training(front: str, shape: str, ok, tmp_path: Path) -> None:
    """One map for all is global and one for each input frozen; what reads pictures is refused where there are numbers."""
    data = ("--data", "halves.npz", "--sigma", 0.5, "--front", front)
    refused = front.startswith("pca") and shape != "--generator dataset"
    told = ok("train", "--model", "mlp", *data, *shape.split(), "--epochs", 1, "--out", "m", fails=refused)
    if refused:
        assert "images" in told
        return
    method = shape.split()[1] if "generator" in shape else "pattern"
    given = ("--model", "m/model.safetensors", "--data", "others.npz", "--sigma", 0.5, "--method", method)
    ok("certify", *given, "--limit", 2, "-n", 200, "--runtime", "torch", "--out", "a")
    with open_run(tmp_path / "a") as store:
        records = list(store.records())
        scales = [store.get(record.scale).shape for record in records if isinstance(record.scale, str)]
    assert {record.soundness for record in records} == {"frozen" if method == "per_input" else "global"}
    assert scales == [(4,) if front.startswith("pca") else (1, 4, 4)] * 2


def test_noise_of_a_covariance(ok, tmp_path: Path) -> None:
    """As many numbers as pixels, so that regions have an end, and more room where the noise is larger."""
    deviations = np.linspace(0.2, 0.8, 64)
    np.savez("sigma.npz", deviations=deviations, factors=CHANCE.normal(0, 0.02, size=(64, 3)))
    front = ("--sigma", 1, "--front", "covariance:path=sigma.npz")
    ok(
        "train",
        "--model",
        "small_cnn",
        "--data",
        "halves.npz",
        *front,
        "--epochs",
        8,
        "--recipe",
        "gaussian",
        "--out",
        "m",
    )
    given = ("--model", "m/model.safetensors", "--data", "others.npz", "--sigma", 1, "--runtime", "torch")
    ok("certify", *given, "--limit", 3, "-n", 300, "--out", "a")
    with open_run(tmp_path / "a") as store:
        records = [record for record in store.records() if record.radius]
    assert records
    assert all(record.soundness == "global" and record.proxy_radius > 1.5 * record.radius for record in records)
    (line,) = json.loads(ok("report", "a", "--json"))
    assert line["noise"] == "gaussian 1 on covariance:path=sigma.npz"
    explorer = Explorer(*certified_with(tmp_path / "a", Given({})), tmp_path / "a")
    try:
        seen = explorer.input(records[0].index)
    finally:
        explorer.close()
    assert (seen["front"]["numbers"], seen["front"]["scale"]) == (64, [1.0, 1.0, 1.0])
    assert [words.split()[1] for words in seen["front"]["balls"]] == ["(l1)", "(l2)", "(l∞)"]
    assert float(seen["front"]["balls"][1].split()[0]) == pytest.approx(records[0].radius, abs=1e-4)
    assert all(copy["picture"] for copy in seen["copies"])


def test_it_is_fitted_once_and_the_model_loaded_once(ok, monkeypatch: pytest.MonkeyPatch) -> None:
    """To measure which runtime is fastest takes a classifier too."""
    Path("flat.py").write_text("from torch import nn\ndef flat():\n    return nn.Linear(4, 2).eval()\n")
    monkeypatch.syspath_prepend(".")
    loaded, load, fitted, fit = [], load_model, [], PrincipalComponents.fit
    monkeypatch.setattr("smoothcert.models.load_model", lambda *given, **more: loaded.append(1) or load(*given, **more))
    monkeypatch.setattr(PrincipalComponents, "fit", lambda self, *given: fitted.append(1) or fit(self, *given))
    given = ("--model", "flat:flat", "--data", "others.npz", "--sigma", 0.5, "--front", "pca:4")
    for more in ((), ("--dry-run",)):
        ok("certify", *given, "--limit", 1, "-n", 200, "--out", f"a{len(more)}", *more)
    assert len(fitted) == len(loaded) == 2


def test_what_is_refused(ok) -> None:
    np.save("nan.npy", np.full((2, 64), np.nan))
    for front, words in (("nan.npy", "NaN or infinity"), ("pca:65", "must be at most"), ("fourier", "unknown front")):
        told = ok(
            "train", "--model", "mlp", "--data", "halves.npz", "--sigma", 1, "--front", front, "--out", "m", fails=True
        )
        assert words in told


def test_who_cannot_do_it_says_so_before_any_work(ok, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settling parts, and serving, and writing where something else lies: none fits the front, reads the data or writes."""
    Path("same.py").write_text(
        "import torch\ndef same():\n    torch.manual_seed(0)\n    return torch.nn.Linear(4, 2).eval()\n"
    )
    monkeypatch.syspath_prepend(".")
    given = ("--model", "same:same", "--data", "others.npz", "--sigma", 0.5, "--front", "pca:4")
    for shard in (1, 2):
        ok("certify", *given, "--limit", 2, "--shard", f"{shard}/2", "-n", 200, "--out", f"part-{shard}")
    monkeypatch.setattr("smoothcert.data.load", lambda *_, **__: pytest.fail("the data were read"))
    assert "is not a run" in ok("certify", *given, "--out", ".", fails=True)
    told = ok("merge", "part-1", "part-2", "--memory", "--out", "whole", fails=True)
    assert "behind a front" in told
    assert "leave --memory out" in told
    with pytest.raises(SettingError, match="behind a front"):
        merge(["part-1", "part-2"], "whole", memory="whole")
    assert not Path("whole").exists()
    assert "cannot answer behind a front" in ok("serve", *given, fails=True)
    assert "not for a cascade" in ok("serve", "--cascade", "none.toml", fails=True)
