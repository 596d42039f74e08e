"""Training under shaped noise: which function trains, with which settings, under which noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.config import ShapeSettings
from smoothcert.errors import SettingError
from smoothcert.training.settings import GeneratorSettings

if TYPE_CHECKING:
    from smoothcert.noise import Noise
    from smoothcert.training import TrainSettings
    from smoothcert.views import View

LEARNING = ("dataset", "per_input")  # the kinds of generators that may learn


def shaped_training(
    settings: ShapeSettings, plan: TrainSettings, noise: Noise | View | None, shape: Sequence[int]
) -> tuple[Callable[..., Path], TrainSettings, Noise | View | None]:
    """Plain training if no shape was asked for; else under a pattern or a learned generator, with one to be learned, or a map to be fitted."""
    from smoothcert.training import Learned, UcanSettings, train, train_jointly, train_on_map
    from smoothcert.training.ancer import MAPS
    from smoothcert.tuners import Pattern, tuner_named
    from smoothcert.tuners.generators import DATASET
    from smoothcert.tuners.ucan import kind_of, load_generator, load_maps
    from smoothcert.views import View

    source = settings.source
    if source is not None and settings.pattern is not None:
        raise SettingError(
            f"--pattern {settings.pattern} and --generator {source} both shape the noise; give one of them"
        )
    if source is None and settings.pattern is None:
        return train, plan, noise
    if noise is None:
        raise SettingError(
            "--sigma 0 leaves no noise to be shaped; give --sigma above 0, or no --pattern and --generator"
        )
    if isinstance(noise, View):
        raise SettingError(
            f"{noise.name} views have no scale to be shaped; give noise, or no --pattern and --generator"
        )
    if settings.pattern is not None:
        plain = "=" not in settings.pattern
        pattern = Pattern(settings.pattern) if plain else tuner_named(f"pattern:{settings.pattern}")
        assert isinstance(pattern, Pattern)
        return train, plan, pattern.maps(shape).on(noise)
    assert source is not None
    if source in LEARNING:
        own = {field.name: getattr(settings, field.name) for field in fields(GeneratorSettings)}
        return train_jointly, UcanSettings(**asdict(plan) | own, generator=source), noise
    if not Path(source).is_file():
        if not MAPS.knows(source):
            raise SettingError(
                f"--generator {source!r} is neither dataset, per_input nor ancer, nor the file of a learned generator"
            )
        return partial(train_on_map, fitting=MAPS.make(source)), plan, noise
    if kind_of(source) == DATASET:
        return train, plan, load_maps(source).on(noise)
    frozen = Learned(load_generator(source).requires_grad_(False), noise)
    return partial(train, generator=frozen), plan, noise
