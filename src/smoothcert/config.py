"""Settings of a run: run.toml, flags and --set become one checked object, and back."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from smoothcert.errors import SettingError, look_up


def _numbers(value: object) -> object:
    """A list of numbers, also written as text with commas."""
    return [float(part) for part in value.split(",")] if isinstance(value, str) else value


def _number_or_file(value: object) -> object:
    """A number, also written as text; any other text is the name of an .npy file."""
    try:
        return float(value) if isinstance(value, str | int | float) else value
    except ValueError:
        return value


def _grid(value: object) -> object:
    """auto, none, or a step such as 1/255."""
    if value in ("auto", "none", None):
        return value or "none"
    try:
        return float(Fraction(str(value)))
    except (ValueError, ZeroDivisionError):
        raise ValueError("must be auto, none or a step such as 1/255") from None


Numbers = Annotated[list[float], BeforeValidator(_numbers)]
NumberOrFile = Annotated[float | str, BeforeValidator(_number_or_file)]
Grid = Annotated[float | Literal["auto", "none"], BeforeValidator(_grid)]


class Section(BaseModel):
    """A table of run.toml: unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(Section):
    """[model]: which classifier."""

    source: str | None = None
    weights: str | None = None
    mean: Numbers | None = None
    std: Numbers | None = None


class DataSettings(Section):
    """[data]: which inputs."""

    source: str = "digits"
    root: str | None = None
    split: Literal["train", "test"] = "test"
    size: int | None = None
    crop: int | None = None
    classes: str | None = None
    limit: int | None = None
    skip: int = 1
    indices: str | None = None
    download: bool = True


class NoiseSettings(Section):
    """[noise]: which noise. sigma is a standard deviation; scale and loc are numbers or .npy files."""

    law: str = "gaussian"
    sigma: float | None = None
    scale: NumberOrFile | None = None
    loc: NumberOrFile = 0.0
    grid: Grid = "auto"


class CertifySettings(Section):
    """[certify]: how many votes, how sure, in which norm."""

    norm: float = 2.0
    method: str = "fixed"  # with its parameters: ancer:steps=60
    identity: str | None = None
    select: int = 100
    estimate: int = 100_000
    alpha: float = 0.001
    estimator: str = "sequential"
    radii: Numbers = []
    seed: int = 0
    block: int | None = None  # by the size of the inputs
    rows: int = 64
    workers: int | None = None
    shared_noise: bool = False
    channels_last: bool = False
    precision: str = "float32"
    compiled: bool = False
    check: bool = True
    own_randomness: bool = False
    device: str = "cpu"
    memory: str | None = None  # "run" is the run directory


class TrainSection(Section):
    """[train]: how the base classifier is trained."""

    recipe: str = "consistency"
    data_dependent: bool = False
    warmup: float = 0.1
    validation: int = 0
    epochs: int = 10
    batch: int = 128
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.003
    weight_decay: float = 0.0
    schedule: Literal["cosine", "constant"] = "cosine"
    augment: bool = False
    flip: bool = False
    precision: Literal["float32", "bfloat16"] = "float32"
    tensorboard: bool = False
    seed: int = 0
    device: str = "cpu"


class GeneratorSettings(Section):
    """[generator]: UCAN's noise in training. source is a kind to train (dataset, per_input), or the file of a trained one."""

    source: str | None = None
    pattern: str | None = None
    objective: Literal["volume", "radius"] = "volume"
    weight: float = 0.1
    least: float = 0.1
    most: float = 3.0
    shift: bool = False
    width: int = 16


class Settings(Section):
    """All settings, one section per table of run.toml."""

    model: ModelSettings = ModelSettings()
    data: DataSettings = DataSettings()
    noise: NoiseSettings = NoiseSettings()
    certify: CertifySettings = CertifySettings()
    train: TrainSection = TrainSection()
    generator: GeneratorSettings = GeneratorSettings()


def read_settings(file: Path | None, flags: Mapping[str, Any], assignments: Iterable[str] = ()) -> Settings:
    """Defaults, then the file, then flags that were given, then ``section.name=value`` assignments.

    >>> read_settings(None, {"noise.sigma": 0.5}, ["certify.norm=inf"]).certify.norm
    inf
    """
    tree: dict[str, Any] = _file(file)
    for path, value in flags.items():
        if value is not None:
            _put(tree, path, value)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise SettingError(
                f"--set {assignment!r} must have the form section.name=value, for example noise.sigma=0.5"
            )
        _put(tree, path.strip(), text.strip())
    return _validated(tree)


def kept_settings(text: str, flags: Mapping[str, Any]) -> Settings:
    """The settings that a run kept as text, with those flags changed that were given.

    >>> kept_settings("[noise]\\nsigma = 0.5", {"data.root": "there", "model.source": None}).data.root
    'there'
    """
    tree: dict[str, Any] = tomllib.loads(text)
    for path, value in flags.items():
        if value is not None:
            _put(tree, path, value)
    return _validated(tree)


def _validated(tree: dict[str, Any]) -> Settings:
    try:
        return Settings.model_validate(tree)
    except ValidationError as problem:
        raise SettingError(_explain(problem)) from problem


def write_settings(settings: Settings) -> str:
    """The settings as the text of a run.toml."""
    lines = []
    for section, values in settings.model_dump(exclude_none=True).items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {_toml(value)}" for name, value in values.items()]
        lines.append("")
    return "\n".join(lines)


def _file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingError(f"cannot read the settings file {file}: {problem}") from problem
    except tomllib.TOMLDecodeError as problem:
        raise SettingError(f"{file} is not valid TOML: {problem}") from problem


def _put(tree: dict[str, Any], path: str, value: Any) -> None:
    """Set section.name, refusing names that do not exist."""
    section, _, name = path.partition(".")
    kind = look_up(
        "section of the settings", section, {key: field.annotation for key, field in Settings.model_fields.items()}
    )
    assert isinstance(kind, type)
    assert issubclass(kind, Section)
    look_up(f"setting in [{section}]", name, kind.model_fields)
    tree.setdefault(section, {})[name] = value


def _explain(problem: ValidationError) -> str:
    """Each mistake on a line: where, what is wrong, what was got."""
    lines = []
    for error in problem.errors():
        place = ".".join(str(part) for part in error["loc"][:2])
        if error["type"] == "extra_forbidden":
            section = Settings.model_fields.get(str(error["loc"][0]))
            known = section.annotation.model_fields if len(error["loc"]) > 1 and section else Settings.model_fields  # type: ignore[union-attr]
            lines.append(f"unknown setting {place}; known: {', '.join(known)}")
        else:
            lines.append(f"setting {place}: {error['msg']}; got {error['input']!r}")
    return "\n".join(dict.fromkeys(lines))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "inf" if value == math.inf else repr(value)
