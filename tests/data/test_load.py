"""Data sets by name, and the digits that come with the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from smoothcert.data import DATASETS, data_root, load
from smoothcert.data.sources import Stored
from smoothcert.errors import DataError, SettingError, UnknownName

STORED = [name for name, kind in DATASETS.items() if issubclass(kind, Stored)]


@pytest.mark.parametrize(("split", "per_class"), [("train", 400), ("test", 100)])
def test_digits_are_balanced_images(split: str, per_class: int) -> None:
    digits = load("digits", split=split)
    truths = digits.truths(range(len(digits)))
    assert np.bincount(np.array(truths)).tolist() == [per_class] * 10
    assert (digits.name, digits.shape, digits.classes, digits.grid) == ("digits", (1, 28, 28), 10, 1 / 255)
    pixels = digits.inputs(range(len(digits)))
    assert (pixels.min(), pixels.max()) == (0, 1)


def test_digits_never_change() -> None:
    # Records name their data by this fingerprint: another content needs another name.
    assert load("digits").fingerprint() == "7925f472e2873f21385cf232e944ff36fd78dcf8a22d99c7015093b1d207c55c"
    train = load("digits", split="train")
    assert train.fingerprint() == "86a96f6b2350ab9f0f16afbbd54b4702fb874433a120e0c3832979f6098938b2"


@pytest.mark.parametrize("name", ["digits", *STORED])
def test_every_loader_knows_its_splits(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown split 'validation'; known: train, test"):
        load(name, root=tmp_path, split="validation")
    with pytest.raises(SettingError, match="split=validation is outside .* one of train, test"):
        load(f"{name}:split=validation")


def test_parameters_after_a_name_win_over_keywords(tmp_path: Path) -> None:
    assert len(load("digits:split=train", split="test")) == len(load("digits", split="train")) == 4000
    with pytest.raises(DataError, match="/here/"):
        load(f"mnist:root={tmp_path / 'here'},download=false", root=tmp_path / "there", download=True)
    with pytest.raises(SettingError, match="'size=3' is no parameter of it; it has split: digits:split=none"):
        load("digits:size=3")
    for name, kind in DATASETS.items():
        assert kind.name == name


@pytest.mark.parametrize("name", STORED)
def test_every_other_set_says_when_it_is_missing(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"data set '{name}' is not complete.*download=True.*SMOOTHCERT_DATA"):
        load(name, root=tmp_path)


def test_an_unknown_name_says_what_was_meant() -> None:
    with pytest.raises(
        UnknownName, match=r"did you mean 'mnist'\? known: digits, mnist, fashion_mnist, cifar10, folder, npz"
    ):
        load("mnits")


def test_a_path_to_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*nothing"):
        load(str(tmp_path / "nothing"))


def test_size_is_for_folders() -> None:
    with pytest.raises(SettingError, match="size=32 was given for 'digits'; it is for folders"):
        load("digits", size=32)


def test_the_root_is_given_or_named_or_the_usual(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SMOOTHCERT_DATA", str(tmp_path))
    assert data_root("given") == Path("given")
    assert data_root() == tmp_path
    monkeypatch.delenv("SMOOTHCERT_DATA")
    assert data_root() == Path.home() / ".cache" / "smoothcert" / "data"


def test_data_needs_neither_torch_nor_pillow() -> None:
    code = "import sys; sys.modules['torch'] = sys.modules['PIL'] = None; import smoothcert.data as d; d.load('digits')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
