"""Settings from file, flags and assignments; mistakes say what is known."""

import math
from pathlib import Path

import pytest

from smoothcert.config import Settings, read_settings, write_settings
from smoothcert.errors import SettingError, UnknownName


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[noise]\nsigma = 0.1\nlaw = "laplace"\n[certify]\nestimate = 5000\nnorm = 1\n')
    settings = read_settings(file, {"noise.sigma": 0.2, "certify.alpha": None}, ["noise.sigma=0.3", "certify.norm=inf"])
    assert (settings.noise.sigma, settings.noise.law) == (0.3, "laplace")
    assert (settings.certify.estimate, settings.certify.norm, settings.certify.alpha) == (5000, math.inf, 0.001)


def test_defaults_are_those_of_the_literature() -> None:
    certify = Settings().certify
    assert (certify.select, certify.estimate, certify.alpha) == (100, 100_000, 0.001)


def test_written_settings_read_back(tmp_path: Path) -> None:
    flags = {
        "model.mean": "0.1,0.2",
        "noise.scale": 'a\\b"c.npy',
        "noise.grid": "1/255",
        "certify.norm": math.inf,
        "data.download": False,
    }
    settings = read_settings(None, flags)
    (tmp_path / "run.toml").write_text(write_settings(settings))
    assert read_settings(tmp_path / "run.toml", {}) == settings
    assert settings.model.mean == [0.1, 0.2]
    assert settings.noise.grid == 1 / 255


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("noise.sigmaa=1", "did you mean 'sigma'"),
        ("nois.sigma=1", "did you mean 'noise'"),
        ("noise.sigma", "must have the form section.name=value"),
        ("noise.sigma=wide", r"setting noise.sigma: .*got 'wide'"),
        ("noise.grid=often", "must be auto, none or a step"),
        ("data.split=middle", "data.split"),
    ],
)
def test_mistakes_on_the_command_line(assignment: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        read_settings(None, {}, [assignment])


def test_mistakes_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[noise]\nsigmoid = 1\n")
    with pytest.raises(SettingError, match=r"unknown setting noise.sigmoid; known: law, sigma"):
        read_settings(file, {})
    file.write_text("[noise\n")
    with pytest.raises(SettingError, match="is not valid TOML"):
        read_settings(file, {})
    with pytest.raises(SettingError, match="cannot read the settings file"):
        read_settings(tmp_path / "none.toml", {})
    with pytest.raises(UnknownName):
        read_settings(None, {}, ["certifi.alpha=1"])
