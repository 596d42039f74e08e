"""Settings, batches, augmentation and recipes, each alone."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

from smoothcert.errors import SettingError
from smoothcert.registry import setting_of
from smoothcert.training import GeneratorSettings, TrainSettings
from smoothcert.training.batches import augmented, batches_of, generator_of
from smoothcert.training.loop import OPTIMIZERS, PRECISIONS, SCHEDULES
from smoothcert.training.ucan import OBJECTIVES

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epochs": 0}, "epochs=0 is outside .* at least 1"),
        ({"batch": 0}, "batch=0 is outside"),
        ({"weight_decay": -0.1}, r"weight_decay=-0\.1 is outside .* at least 0"),
        ({"weight_decay": float("inf")}, "weight_decay"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0"),
        ({"flip": True}, "flip without augment"),
        ({"schedule": "cosin"}, "schedule must be one of cosine, constant"),
        ({"precision": "float16"}, "one of float32, bfloat16"),
        ({"warmup": 1.5}, r"warmup=1\.5 is outside .* at least 0 and at most 1"),
        ({"optimizer": "lion"}, "one of adam, sgd"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        TrainSettings(**change)


def test_every_choice_is_there() -> None:
    known = {"optimizer": OPTIMIZERS, "schedule": SCHEDULES, "precision": PRECISIONS}
    declared = {each.name: setting_of(each).choices for each in fields(TrainSettings) if each.name in known}
    assert declared == {name: tuple(values) for name, values in known.items()}
    [objective] = [each for each in fields(GeneratorSettings) if each.name == "objective"]
    assert setting_of(objective).choices == tuple(OBJECTIVES)


def test_schedules_start_at_one() -> None:
    assert {name: schedule(0.0) for name, schedule in SCHEDULES.items()} == {"cosine": 1.0, "constant": 1.0}
    assert SCHEDULES["cosine"](1.0) == pytest.approx(0)
    assert SCHEDULES["cosine"](0.5) == pytest.approx(0.5)


@pytest.mark.parametrize(("count", "size"), [(1, 4), (4, 4), (9, 4), (10, 4), (5, 1)])
def test_batches_hold_every_example_once(count: int, size: int) -> None:
    batches = batches_of(torch.arange(count), size)
    assert torch.cat(batches).tolist() == list(range(count))
    assert count == 1 or size == 1 or min(len(batch) for batch in batches) > 1


def test_generators_are_keyed() -> None:
    draws = [
        torch.rand(1, generator=generator_of(seed, epoch, purpose, CPU)).item()
        for seed, epoch, purpose in [(0, 0, "noise"), (0, 1, "noise"), (1, 0, "noise"), (0, 0, "order")]
    ]
    assert len(set(draws)) == 4


@pytest.mark.parametrize(("height", "width", "padding", "least"), [(33, 28, 4, 25), (16, 17, 2, 20), (9, 7, 1, 8)])
def test_crops_come_from_the_padded_image(height: int, width: int, padding: int, least: int) -> None:
    x = torch.rand(50, 2, height, width)
    padded = nn.functional.pad(x, (padding,) * 4)
    crops = augmented(x, generator_of(0, 0, "noise", CPU), flip=False)
    shifts, places = range(2 * padding + 1), set()
    for image, crop in zip(padded, crops, strict=True):
        found = [(r, c) for r in shifts for c in shifts if torch.equal(image[:, r : r + height, c : c + width], crop)]
        assert found
        places.add(found[0])
    assert len(places) > least


def test_flip_mirrors_about_half() -> None:
    x = torch.rand(400, 1, 6, 6)
    plain = augmented(x, generator_of(0, 0, "noise", CPU), flip=False)
    mirrored = augmented(x, generator_of(0, 0, "noise", CPU), flip=True)
    flips = [torch.equal(a, b.flip(-1)) and not torch.equal(a, b) for a, b in zip(mirrored, plain, strict=True)]
    kept = [torch.equal(a, b) for a, b in zip(mirrored, plain, strict=True)]
    assert all(a or b for a, b in zip(flips, kept, strict=True))
    assert 150 < sum(flips) < 250


def test_augmenting_flat_inputs_is_refused() -> None:
    with pytest.raises(SettingError, match="augment needs images"):
        augmented(torch.rand(3, 8), generator_of(0, 0, "noise", CPU), flip=False)
