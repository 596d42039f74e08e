"""The command line as a user meets it: in an empty folder, with right and with wrong arguments."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import smoothcert.cli
from smoothcert.attacks import ATTACKS
from smoothcert.certificates import Soundness
from smoothcert.data import DATASETS
from smoothcert.estimators import ESTIMATORS
from smoothcert.execution import EXECUTORS
from smoothcert.laws import LAWS
from smoothcert.models import MODELS, read_metadata, small_cnn
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.runtimes import RUNTIMES
from smoothcert.store import STORES, SqliteStore
from smoothcert.testing.records import RECORD
from smoothcert.training import RECIPES
from smoothcert.tuners import TUNERS

COMMANDS = (
    *("demo", "train", "certify", "predict", "attack", "report", "explore", "serve", "curve", "search", "recertify"),
    *("reproduce", "merge", "export", "import", "cite", "list"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder: Path) -> Path:
    """A small CNN for digits, untrained, as smoothcert train writes it."""
    torch.manual_seed(0)
    architecture = Architecture.of({"name": "small_cnn", "shape": (1, 28, 28), "classes": 10})
    save_file(architecture.build().state_dict(), folder / "cnn.safetensors", {ARCHITECTURE_KEY: architecture.to_json()})
    return folder / "cnn.safetensors"


def run(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status of smoothcert with these arguments, in this process."""
    monkeypatch.setattr(sys, "argv", ["smoothcert", *map(str, arguments)])
    try:
        smoothcert.cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


class Cli:
    """Runs the command and keeps what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capfd = monkeypatch, capfd

    def __call__(self, *arguments: object, status: int = 0) -> tuple[str, str]:
        got = run(*arguments, monkeypatch=self.monkeypatch)
        printed = self.capfd.readouterr()
        assert got == status, printed.err
        return printed.out, " ".join(printed.err.split())


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setattr("warnings.showwarning", None)
    return Cli(monkeypatch, capfd)


QUICK = ("--limit", 3, "-n", 200, "--block", 50, "--select", 20)


def test_a_log_that_cannot_hold_the_label_is_warned_of(cli: Cli, folder: Path) -> None:
    with SqliteStore(folder) as store:
        for index, (soundness, label) in enumerate([("frozen", 1), ("global", 1), ("frozen", None)]):
            store.append(replace(RECORD, index=index, soundness=Soundness(soundness), label=label), 1.0)
    log, notes = cli("export", ".", "--format", "cohen")
    assert len(log.splitlines()) == 4
    assert "warning: 1 of 2 certificates are labelled frozen (the noise was chosen for this very input" in notes
    assert "no column for it" in notes
    assert cli("export", ".", "--format", "csv")[1] == ""


@pytest.mark.filterwarnings("ignore:the network seems to answer at random")
class TestJourney:
    def test_a_run_is_put_behind_a_url(self, cli: Cli, model: Path, folder: Path) -> None:
        words = ("certify", "--model", model, "--sigma", 0.25, *QUICK, "--out", "runs/a", "--put")
        assert "--put 'there' is no URL" in cli(*words, "there", status=2)[1]
        assert not Path("runs").exists()
        url = f"file://{Path.cwd() / 'there'}"
        _, notes = cli(*words, url)
        assert f"put at {url}" in notes
        assert sorted(path.name for path in Path("there").iterdir()) == ["results.sqlite", "run.toml"]
        assert "3" in cli("export", "there", "--format", "csv")[0]

    def test_certify_report_export_predict(self, cli: Cli, model: Path, folder: Path) -> None:
        _, notes = cli("certify", "--model", model, "--sigma", 0.25, *QUICK, "--out", "runs/a")
        assert "smoothcert report runs/a" in notes
        assert (folder / "runs/a/run.toml").is_file()
        table, notes = cli("report", "runs/a")
        assert "global" in table
        assert "grid 1/255" in table
        assert "report: runs/a/report/report.html" in notes
        cli("certify", "--config", "runs/a/run.toml", "--norm", "inf", "--set", "noise.law=uniform", "--out", "runs/b")
        rows = json.loads(cli("report", "runs/a", "runs/b", "--json", "--radii", "0,0.1", "--out", "both")[0])
        assert [(row["run"], row["norm"], row["inputs"]) for row in rows] == [("a", "2.0", 3), ("b", "inf", 3)]
        for name in ("report.html", "curve.png", "curve.svg", "p_a.svg", "table-1.csv", "table-1.tex", "inputs.csv"):
            assert (folder / "both" / name).is_file()
        log, _ = cli("export", "runs/a", "--format", "cohen")
        assert log.splitlines()[0] == "idx\tlabel\tpredict\tradius\tcorrect\ttime"
        assert len(log.splitlines()) == 4
        cli("export", "runs/a", "--format", "csv", "--out", "a.csv")
        assert (folder / "a.csv").read_text().startswith("index,truth,label,radius")
        answers = json.loads(cli("predict", "--model", model, "--sigma", 0.25, "--limit", 2, "-n", 50, "--json")[0])
        assert [row["index"] for row in answers] == [0, 1]
        text, _ = cli("predict", "--model", model, "--sigma", 0.25, "--limit", 1)
        assert text.splitlines()[0].split() == ["index", "truth", "answer"]

    def test_memory(self, cli: Cli, model: Path, folder: Path) -> None:
        flags = ("--model", model, "--sigma", 0.25)
        cli("certify", *flags, *QUICK, "--memory", "--out", "runs/a")
        cli("certify", *flags, *QUICK, "--out", "runs/b", "--memory", "m.sqlite")
        assert (folder / "m.sqlite").is_file()
        cli("certify", "--config", "runs/a/run.toml", "--out", "runs/c")
        rows = json.loads(cli("report", "runs/a", "runs/b", "runs/c", "--json")[0])
        assert [(row["label"], row["inputs"]) for row in rows] == [("memory", 3)] * 3
        for place in ("runs/a", "runs/a/results.sqlite", "m.sqlite"):
            answers = json.loads(cli("predict", *flags, "--limit", 2, "--memory", place, "--json")[0])
            assert [row["from"] for row in answers] == ["memory", "memory"]
        text, _ = cli("predict", *flags, "--limit", 1, "--memory", "m.sqlite")
        assert text.splitlines()[0].split() == ["index", "truth", "answer", "from"]
        table, _ = cli("report", "runs/a", "runs/b", "--out", "both")
        assert "a ⊇ b" in table
        assert "a ⊇ b" in (folder / "both/table-3.csv").read_text()
        assert r"a $\supseteq$ b" in (folder / "both/table-3.tex").read_text()
        wrong = {
            "another owner: scale: 0.25 there": ("predict", "--model", model, "--sigma", 0.5, "--memory", "m.sqlite"),
            "needs a value here": ("predict", *flags, "--memory"),
            "there is no memory at nope": ("predict", *flags, "--memory", "nope"),
            "not convex": ("certify", *flags, *QUICK, "--norm", 0.5, "--memory", "--out", "runs/d"),
            "memory: settled there, None here": ("certify", *flags, *QUICK, "--out", "runs/a"),
        }
        for message, arguments in wrong.items():
            assert message in cli(*arguments, status=2)[1]
        assert sorted(path.name for path in (folder / "runs").iterdir()) == ["a", "b", "c"]

    def test_import_report_and_cite(self, cli: Cli, model: Path, folder: Path) -> None:
        cli("certify", "--model", model, "--sigma", 0.25, *QUICK, "--out", "a")
        cli("export", "a", "--format", "cohen", "--out", "a.tsv")
        given = ("--sigma", 0.25, "--alpha", 0.001, "--n", 200)
        _, notes = cli("import", "a.tsv", "--format", "cohen", *given, "--out", "log")
        wrong = (
            "certify",
            "--model",
            model,
            "--sigma",
            0.25,
            *QUICK,
            "--method",
            "reuse:run=log",
            "--out",
            "b",
        )
        assert "does not say for which data its noise was tuned" in cli(*wrong, status=2)[1]
        assert not (folder / "b").exists()
        assert "3 records in log" in notes
        rows = json.loads(cli("report", "a", "log", "--json", "--out", "both")[0])
        assert [row["label"] for row in rows] == ["global", "imported"]
        assert rows[0]["certified_accuracy"] == rows[1]["certified_accuracy"]
        assert "did you mean 'cohen'" in cli("import", "a.tsv", "--format", "cohn", *given, "--out", "x", status=2)[1]
        text, _ = cli("cite", "a", "log")
        assert text.startswith("@inproceedings{cohen2019certified,")
        np.savez(folder / "mine.npz", x=np.zeros((3, 1, 28, 28), dtype=np.float32), y=np.array([0, 5, 9]))
        cli("certify", "--model", model, "--data", "mine.npz", "--sigma", 0.25, *QUICK, "--out", "b")
        assert "were certified on different data" in cli("report", "a", "b", status=2)[1]

    def test_train_then_certify(self, cli: Cli, folder: Path) -> None:
        _, notes = cli("train", "--model", "mlp", "--sigma", 0.3, "--epochs", 1, "--limit", 200, "--out", "net")
        assert "epoch 1/1" in notes
        cli(
            "certify",
            "--model",
            "net/model.safetensors",
            "--sigma",
            0.3,
            *QUICK,
            "--indices",
            "4,7",
            "--limit",
            2,
            "--out",
            "r",
            status=2,
        )
        cli("certify", "--model", "net/model.safetensors", "--sigma", 0.3, "-n", 200, "--indices", "4,7", "--out", "r")
        rows = json.loads(cli("report", "r", "--json")[0])
        assert rows[0]["inputs"] == 2

    def test_train_by_any_recipe_with_any_noise(self, cli: Cli, folder: Path) -> None:
        np.save(folder / "scale.npy", np.linspace(0.1, 0.5, 784).reshape(1, 28, 28))
        quick = ("--model", "mlp", "--epochs", 2, "--limit", 200)
        _, notes = cli(
            *("train", *quick, "--recipe", "macer:draws=2", "--noise", "laplace", "--scale", "scale.npy"),
            *("--validation", 40, "--data-dependent", "--warmup", 0.5, "--precision", "bfloat16", "--out", "net"),
        )
        assert "on 40 held out" in notes
        told = read_metadata(folder / "net/best.safetensors")
        assert told["smoothcert.recipe"] == "macer:draws=2,strength=12,margin=8,sharpness=16"
        assert told["smoothcert.noise"].startswith("laplace, scale of shape (1, 28, 28)")
        _, notes = cli("train", *quick, "--sigma", 0.3, "--recipe", "consistancy", "--out", "b", status=2)
        assert "did you mean 'consistency'" in notes
        _, notes = cli("train", *quick, "--sigma", 0.3, "--validation", 200, "--out", "b", status=2)
        assert "give a number from 0 to 199" in notes
        _, notes = cli("train", *quick, "--sigma", 0.3, "--precision", "int8", "--out", "b", status=2)
        assert "precision must be one of float32, bfloat16" in notes
        _, notes = cli("train", "--model", "mlp", "--sigma", 0.3, "--limit", 5, "--out", "b", status=2)
        assert "there is no input of class" in notes
        assert not (folder / "b").exists()

    def test_training_may_start_from_weights(self, cli: Cli, folder: Path) -> None:
        quick = ("train", "--model", "mlp", "--sigma", 0.3, "--epochs", 1, "--limit", 200)
        cli(*quick, "--out", "first")
        still = ("--learning-rate", 1e-12)  # so that the weights at the end are those at the start
        cli(*quick, *still, "--weights", "first/model.safetensors", "--seed", 1, "--out", "second")
        first, second = (load_file(folder / name / "model.safetensors") for name in ("first", "second"))
        assert all(torch.allclose(first[name], second[name], atol=1e-6) for name in first)
        assert json.loads(read_metadata(folder / "second/model.safetensors")["smoothcert.settings"])["start"] != "seed"
        _, notes = cli(*quick, *still, "--seed", 1, "--out", "second", status=2)
        assert 'start was "weights ' in notes
        assert 'is "seed"' in notes
        _, notes = cli(*quick, "--model", "lenet", "--weights", "first/model.safetensors", "--out", "b", status=2)
        assert "does not fit the model" in notes
        assert not (folder / "b").exists()

    def test_a_classifier_trained_without_noise(self, cli: Cli, folder: Path) -> None:
        cli("train", "--model", "mlp", "--sigma", 0, "--epochs", 1, "--limit", 200, "--out", "net")
        start = (
            "--noise",
            "generalized_normal:beta=2",
            "--sigma",
            0.35,
            "--norm",
            1,
            "--method",
            "hill_climb:keep_label=true",
        )
        cli("certify", "--model", "net/model.safetensors", *start, "-n", 200, "--limit", 2, "--out", "r")
        rows = json.loads(cli("report", "r", "--json")[0])
        assert (rows[0]["inputs"], rows[0]["label"]) == (2, "frozen")

    def test_anisotropic_noise_and_arrays_without_labels(self, cli: Cli, model: Path, folder: Path) -> None:
        np.save(folder / "scale.npy", np.linspace(0.1, 0.5, 784).reshape(1, 28, 28))
        np.savez(folder / "mine.npz", x=np.zeros((2, 1, 28, 28), dtype=np.float32))
        cli(
            "certify",
            "--model",
            model,
            "--data",
            "mine.npz",
            "--scale",
            "scale.npy",
            "--norm",
            1,
            "-n",
            200,
            "--out",
            "r",
        )
        [row] = json.loads(cli("report", "r", "--json")[0])
        assert row["noise"] == "gaussian (per coordinate)"
        assert row["domain"] == "reals, float arithmetic"
        assert not row["truths_known"]

    def test_a_user_s_own_factory_with_weights_and_normalisation(self, cli: Cli, folder: Path) -> None:
        (folder / "mynet.py").write_text(
            "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\n"
        )
        state = {
            f"module.{key}": value
            for key, value in nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).state_dict().items()
        }
        torch.save({"state_dict": state, "epoch": 3}, folder / "best.pt")
        given = ("--model", "mynet:build", "--weights", "best.pt", "--mean", "0.13", "--std", "0.3")
        cli("certify", *given, "--sigma", 0.1, *QUICK, "--out", "r")
        plain = ("--model", "mynet:build", "--weights", "best.pt")
        _, notes = cli("certify", *plain, "--sigma", 0.1, *QUICK, "--out", "r", status=2)
        assert "model: " in notes  # the normalisation is part of the model, so this is another configuration

    @pytest.mark.slow
    def test_the_demo_in_small(self, cli: Cli, folder: Path) -> None:
        text, _ = cli("demo", "--limit", 2, "--estimate", 40, "--epochs", 1)
        assert "What to try next" in text
        assert (folder / "demo/report.html").is_file()
        assert (folder / "demo/curve.png").is_file()
        again, _ = cli("demo", "--limit", 2, "--estimate", 40, "--epochs", 1)
        assert again == text


class TestHelp:
    def test_every_command_has_help_with_an_example(self, cli: Cli) -> None:
        text, _ = cli("--help")
        for command in COMMANDS:
            assert command in text
            assert "Example: smoothcert" in " ".join(cli(command, "--help")[0].split())

    def test_version(self, cli: Cli) -> None:
        assert cli("--version")[0] == f"smoothcert {smoothcert.__version__}\n"


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--sigma", 0), "sigma=0.0 must be a finite number above 0"),
            (
                ("--sigma", 0.25, "--alpha", 0.7),
                "alpha=0.7 is outside what it may be; alpha must be a finite number above 0 and below 0.5",
            ),
            (("--sigma", 0.25, "-n", 5), "5 votes can certify nothing at alpha=0.001"),
            (("--sigma", 0.25, "--noise", "gausian"), "unknown law 'gausian'; did you mean 'gaussian'?"),
            (("--sigma", 0.25, "--data", "digitz"), "did you mean 'digits'?"),
            (("--sigma", 0.25, "--method", "fixd"), "unknown method 'fixd'; did you mean 'fixed'?"),
            (("--sigma", 0.25, "--device", "gpu9"), "device 'gpu9' cannot be used here"),
            (("--sigma", 0.25, "--limit", 0), "limit=0 is outside what it may be"),
            (("--sigma", 0.25, "--set", "engine.rows=0"), "rows=0 is outside what it may be"),
            (("--sigma", 0.25, "--indices", "5-2"), "write the smaller end first"),
            (("--sigma", 0.25, "--scale", 1), "one of them"),
            ((), "give --sigma"),
            (("--scale", "nothing.npy"), "neither a number nor an existing .npy file"),
            (("--sigma", 0.25, "--set", "noise.sigm=1"), "did you mean 'sigma'?"),
            (("--sigma", 0.25, "--data", "mnist:root=nowhere,download=false"), "nowhere"),
        ],
    )
    def test_nothing_is_written(
        self, cli: Cli, model: Path, folder: Path, arguments: tuple[object, ...], message: str
    ) -> None:
        _, notes = cli("certify", "--model", model, *arguments, "--out", "r", status=2)
        assert notes.startswith("error:")
        assert message in notes
        assert not (folder / "r").exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "no model was given"),
            (("--model", "small_cn"), "did you mean 'small_cnn'?"),
            (("--model", "small_cnn"), "random weights certify nothing"),
            (("--model", "small_cnn", "--weights", "none.pt"), "none.pt"),
            (("--model", "nothing.here:build"), "nothing"),
        ],
    )
    def test_models(self, cli: Cli, folder: Path, arguments: tuple[object, ...], message: str) -> None:
        _, notes = cli("certify", *arguments, "--sigma", 0.25, "--out", "r", status=2)
        assert message in notes
        assert not (folder / "r").exists()

    def test_broken_weights(self, cli: Cli, model: Path, folder: Path) -> None:
        (folder / "cut.safetensors").write_bytes(model.read_bytes()[:5000])
        _, notes = cli("certify", "--model", "cut.safetensors", "--sigma", 0.25, "--out", "r", status=2)
        assert "cut.safetensors" in notes
        (folder / "letter.pt").write_text("dear sir")
        _, notes = cli(
            "certify", "--model", "small_cnn", "--weights", "letter.pt", "--sigma", 0.25, "--out", "r", status=2
        )
        assert "letter.pt" in notes
        save_file(small_cnn((3, 32, 32), 10).state_dict(), folder / "other.safetensors")
        _, notes = cli(
            "certify", "--model", "small_cnn", "--weights", "other.safetensors", "--sigma", 0.25, "--out", "r", status=2
        )
        assert "other.safetensors" in notes
        assert not (folder / "r").exists()

    @pytest.mark.filterwarnings("ignore:the network seems to answer at random")
    def test_another_configuration(self, cli: Cli, model: Path) -> None:
        cli("certify", "--model", model, "--sigma", 0.25, *QUICK, "--out", "r")
        _, notes = cli("certify", "--model", model, "--sigma", 0.5, *QUICK, "--out", "r", status=2)
        assert "scale: 0.25 there, 0.5 here" in notes

    def test_reports_of_nothing(self, cli: Cli, folder: Path) -> None:
        assert "is not a run" in cli("report", "missing", status=2)[1]
        assert "is not a run" in cli("export", "missing", status=2)[1]
        assert "did you mean 'cohen'?" in cli("export", "missing", "--format", "cohn", status=2)[1]

    def test_bad_radii(self, cli: Cli, model: Path, folder: Path) -> None:
        cli("certify", "--model", model, "--sigma", 0.25, *QUICK, "--out", "r")
        assert "must be numbers" in cli("report", "r", "--radii", "a,b", status=2)[1]
        assert "must not be negative" in cli("report", "r", "--radii", "-1", status=2)[1]


def hear_interrupts() -> None:
    """A test run in the background may have inherited that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_is_a_clean_stop(model: Path, folder: Path) -> None:
    """Interrupted while it works: status 130, a sentence, no traceback; the records so far are kept and it goes on."""
    command = [
        sys.executable,
        "-m",
        "smoothcert",
        "certify",
        "--model",
        str(model),
        "--sigma",
        "0.25",
        "--limit",
        "40",
        "-n",
        "100000",
        "--estimator",
        "fixed",
        "--runtime",
        "torch",
    ]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*command, "--out", "r"], stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=hear_interrupts
    ) as child:
        until = time.monotonic() + 120
        while not (folder / "r/results.sqlite-wal").exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        said = child.stderr.read()
    assert child.returncode == 130, said
    assert "give the same command again to go on" in said
    assert "Traceback" not in said
    assert (folder / "r/results.sqlite").is_file()


def test_quiet_when_not_a_terminal(model: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "smoothcert", "predict", "--model", str(model), "--sigma", "0.25", "--limit", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 3


def test_the_lists_hold_every_name(cli: Cli) -> None:
    lists = {
        "recipes": RECIPES,
        "models": MODELS,
        "laws": LAWS,
        "methods": TUNERS,
        "attacks": ATTACKS,
        "stores": STORES,
        "data": DATASETS,
        "runtimes": RUNTIMES,
        "executors": EXECUTORS,
        "estimators": ESTIMATORS,
    }
    for kind, names in lists.items():
        printed, _ = cli("list", kind)
        assert all(name in printed for name in names), kind
        assert [row["name"] for row in json.loads(cli("list", kind, "--json")[0])] == list(names)
    assert "did you mean 'laws'" in cli("list", "law", status=2)[1]


def test_logs_for_tensorboard_say_what_is_missing(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    _, notes = cli("train", "--sigma", 0.3, "--limit", 100, "--tensorboard", "--out", "net", status=2)
    assert "pip install 'smoothcert[tensorboard]'" in notes
    assert not (folder / "net").exists()
