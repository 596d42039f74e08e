"""Options that follow from settings: names, help, precedence and mistakes, on settings such as those of certify."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from smoothcert.cli.flags import Command, Given, alone, takes
from smoothcert.errors import SettingError, UnknownName
from smoothcert.registry import Checked, setting


@dataclass(frozen=True)
class Noise(Checked):
    law: str = setting("gaussian", "The law of the noise.", flag="--noise", metavar="NAME[:KEY=VALUE,…]")
    sigma: float | None = setting(None, "Standard deviation per coordinate.", least=0)
    grid: float | str = setting("auto", "On the pixel grid.", choices=("auto", "none"), above=0)
    loc: float = setting(0.0, "Shift of the noise.", flag=None)


@dataclass(frozen=True)
class Votes(Checked):
    trials: int = setting(100_000, "At most this many votes.", least=1, flag="--estimate -n")
    alpha: float = setting(0.001, "Probability that one certificate is wrong.", above=0, below=1)
    radii: tuple[float, ...] = setting((), "The radii you will ask about.", above=0)
    memory: str | None = setting(None, "Settle certificates by a memory.", metavar="FILE", alone="run")
    check: bool = setting(True, "Probe the model first.", changes="nothing")
    looks: int = 7  # made by the program: no setting


@dataclass(frozen=True)
class Engine(Checked):
    shared_noise: bool = setting(False, "The same draws for all inputs.", flag="--shared-noise/--own-noise")
    precision: Literal["float32", "bfloat16"] = setting("float32", "Of the network.", choices=("float32", "bfloat16"))
    workers: int | None = setting(None, "Blocks in flight at once.", least=1, changes="nothing")


@dataclass(frozen=True)
class Settings:
    noise: Noise = Noise()
    votes: Votes = Votes()
    engine: Engine = Engine()


class SettingsCommand(Command):
    alone = alone(Settings)


def application(seen: list[Any]) -> typer.Typer:
    """certify takes every section, guess some settings with a default of its own; both append what they were told."""
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)

    @app.command(cls=SettingsCommand)
    @takes(Settings, "noise", "votes", "engine")
    def certify(given: Given, out: Annotated[Path, typer.Option(help="The run directory.")]) -> None:
        """Certify inputs."""
        seen.extend([given.over(Settings), out])

    @app.command(cls=SettingsCommand)
    @takes(
        Settings, "noise.sigma", "votes", without=("votes.radii",), defaults={"votes.trials": 1000, "votes.alpha": 0.2}
    )
    def guess(given: Given, loud: bool = False) -> None:
        """Guess, on top of what a run kept."""
        seen.extend([given.over(Settings, {"noise.law": "kept", "noise.sigma": 9, "votes.alpha": 0.4}), loud])

    return app


def run(*arguments: str) -> list[Any]:
    """What the command was told; its errors are raised as they are."""
    seen: list[Any] = []
    result = CliRunner().invoke(application(seen), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen


def certify(*arguments: str) -> Settings:
    settings, out = run("certify", "--out", "there", *arguments)
    assert out == Path("there")
    return settings


def help_of(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    return CliRunner().invoke(application([]), [command, "--help"]).output


def test_without_flags_all_is_as_declared() -> None:
    assert certify() == Settings()


def test_every_kind_of_flag() -> None:
    settings = certify(
        *("--noise", "laplace", "--sigma", "1/4", "--grid", "1/255", "-n", "500", "--radii", "0.25, 1"),
        *("--no-check", "--shared-noise", "--precision", "bfloat16", "--workers", "3"),
    )
    assert settings == Settings(
        Noise("laplace", 0.25, 1 / 255),
        Votes(500, radii=(0.25, 1.0), check=False),
        Engine(True, "bfloat16", 3),
    )
    assert certify("--grid", "none", "--own-noise", "--check") == Settings(Noise(grid="none"))


def test_a_flag_may_stand_alone() -> None:
    assert certify("--memory").votes.memory == "run"
    assert certify("--memory", "-n", "5").votes == Votes(5, memory="run")
    assert certify("--memory", "kept.sqlite").votes.memory == certify("--memory=kept.sqlite").votes.memory


def test_a_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[noise]\nlaw = "laplace"\nsigma = 1\nloc = 2\n[votes]\nalpha = 0.1\nradii = [1, 2.5]\n')
    settings = certify("--config", str(file), "--sigma", "2", "--alpha", "0.2", "--set", "votes.alpha=0.3")
    assert settings.noise == Noise("laplace", 2.0, loc=2.0)
    assert settings.votes == Votes(alpha=0.3, radii=(1.0, 2.5))
    # A flag that is not given says nothing, even where its value would be the default's.
    assert certify("--config", str(file)).votes.alpha == 0.1
    assert certify("--config", str(file), "--set", "noise.sigma=none").noise.sigma is None


def test_a_command_takes_some_settings_with_defaults_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, loud = run("guess", "--loud")
    assert (settings.noise, loud) == (Noise("kept", 9.0), True)
    assert settings.votes == Votes(1000, alpha=0.4)  # what a run kept wins over the command's own default
    settings, loud = run("guess", "--sigma", "3", "-n", "7", "--set", "engine.workers=2")
    assert (settings.votes.trials, settings.noise.sigma, settings.engine.workers, loud) == (7, 3.0, 2, False)
    shown = help_of("guess", monkeypatch)
    assert "default: 1000" in shown
    assert "--radii" not in shown
    assert "--noise" not in shown


def test_help_follows_from_what_was_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = " ".join(help_of("certify", monkeypatch).replace("│", " ").split())
    for words in (
        "--noise NAME[:KEY=VALUE,…] The law of the noise. [default: gaussian]",
        "--sigma NUMBER Standard deviation per coordinate. [at least 0]",
        "--grid auto|none|NUMBER On the pixel grid. [above 0; default: auto]",
        "--estimate -n INTEGER At most this many votes. [at least 1; default: 100000]",
        "--alpha NUMBER Probability that one certificate is wrong. [above 0 and below 1; default: 0.001]",
        "--radii NUMBER,… The radii you will ask about. [above 0]",
        "--memory [FILE] Settle certificates by a memory. --check --no-check Probe the model first. [default: check]",
        "--shared-noise --own-noise The same draws for all inputs. [default: own-noise]",
        "--precision float32|bfloat16 Of the network. [default: float32]",
        "--workers INTEGER Blocks in flight at once. [at least 1]",
        "wins over flags. The only way to set noise.loc.",
    ):
        assert words in shown
    assert "--loc" not in shown
    assert "--looks" not in shown
    assert all(f"─ {panel} ─" in shown for panel in ("Noise", "Votes", "Engine"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sigmaa", "1"), "unknown option of certify '--sigmaa'; did you mean '--sigma'?"),
        (("--loc", "1"), "unknown option of certify '--loc'"),
        (("--sigma", "wide"), "setting noise.sigma: sigma='wide' must be a number"),
        (("--sigma", "1/0"), "setting noise.sigma: sigma='1/0' must be a number"),
        (("-n", "2.5"), "setting votes.trials: trials='2.5' must be a whole number"),
        (("--radii", "l2"), "radii='l2' must be a number. The radii you will ask about."),
        (("--alpha", "7"), "alpha=7 is outside what it may be; alpha must be a finite number above 0 and below 1"),
        (("--sigma", "nan"), "sigma=nan is outside"),
        (("--radii", "1,-2"), "radii=1,-2 is outside"),
        (("--grid", "often"), "grid=often is outside .* one of auto, none or a finite number above 0"),
        (("--precision", "float23"), "precision=float23 is outside .* must be one of float32, bfloat16"),
        (("--set", "noise.sigmaa=1"), r"unknown setting in \[noise\] 'sigmaa'; did you mean 'sigma'?"),
        (("--set", "votes.looks=3"), r"unknown setting in \[votes\] 'looks'"),
        (("--set", "nois.sigma=1"), "unknown section of the settings 'nois'; did you mean 'noise'?"),
        (("--set", "noise.sigma"), "must have the form section.name=value"),
        (("--config", "nowhere.toml"), "cannot read the settings file nowhere.toml"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingError, match=message.replace("?", r"\?")):
        certify(*arguments)


def test_words_after_two_dashes_are_no_flags() -> None:
    with pytest.raises(UnknownName):
        certify("--nothing")
    result = CliRunner().invoke(application([]), ["certify", "--out", "there", "--", "--nothing"])
    assert result.exit_code == 2
    assert "--nothing" in result.output
