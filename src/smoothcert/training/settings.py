"""The settings of a training run, without torch; equal settings, data and initial weights give equal weights."""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.errors import SettingError
from smoothcert.registry import Checked, setting


@dataclass(frozen=True)
class TrainSettings(Checked):
    """How to train: the recipe and the optimisation; the noise is given beside them.

    ``start`` names the weights that the model comes with, if they are not the seed's own: it is recorded, and a resumed run
    must share it. ``data`` says which inputs it learns from, for its file of weights alone. ``validation`` and ``tensorboard`` are for the command, which holds the data.

    >>> TrainSettings(optimizer="adamm")
    Traceback (most recent call last):
    smoothcert.errors.SettingError: optimizer=adamm is outside what it may be; optimizer must be one of adam, sgd
    """

    recipe: str = setting(
        "consistency",
        "How to train, with parameters such as consistency:strength=5: gaussian, stability, consistency, smoothadv, macer, "
        "ucan or gambler (with a class to pass on, for a cascade), or package.module:Name; `smoothcert list recipes` has them all, those of other packages too.",
        metavar="NAME[:KEY=VALUE,…]",
    )
    data_dependent: bool = setting(
        False,
        "Each training input finds its own sigma, kept from epoch to epoch (Alfarra et al. 2022, Alg. 2).",
        flag="--data-dependent/--one-sigma",
    )
    warmup: float = setting(
        0.1,
        "The share of the run before each input finds its sigma, and before the attacks of smoothadv and the radius term of "
        "macer are at full strength.",
        least=0,
        most=1,
    )
    epochs: int = setting(10, "Passes over the data.", least=1)
    batch: int = setting(128, "Inputs per step.", least=1)
    optimizer: str = setting("adam", "Who takes the steps.", choices=("adam", "sgd"))
    learning_rate: float = setting(3e-3, "Largest step size.", above=0)
    weight_decay: float = setting(0.0, "Pull of the weights to zero.", least=0)
    schedule: str = setting("cosine", "How the step size falls.", choices=("cosine", "constant"))
    augment: bool = setting(False, "Random crops of images that are padded by 4 pixels, small ones by an eighth.")
    flip: bool = setting(False, "Mirror half of the images (not for digits); needs augment.")
    precision: str = setting(
        "float32", "The numbers to compute in; bfloat16 is mixed precision (autocast).", choices=("float32", "bfloat16")
    )
    seed: int = setting(0, "Seed of the weights, the order and the noise.", least=0)
    start: str = "seed"
    data: str = ""
    device: str = setting("cpu", "Where to train: cpu or cuda.")
    validation: int = setting(
        0,
        "Training inputs held out: the epoch with the best accuracy on them under noise is kept as best.safetensors.",
        least=0,
    )
    tensorboard: bool = setting(
        False,
        "Write logs for TensorBoard to OUT/tensorboard; needs the extra tensorboard.",
        changes="nothing",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.flip and not self.augment:
            raise SettingError("flip is a part of augment; got flip without augment; set both, or neither")

    def warmth(self, done: float) -> float:
        """How much of the warm-up is behind when ``done`` of the run is, from 0 to 1.

        >>> TrainSettings(warmup=0.5).warmth(0.25), TrainSettings(warmup=0.0).warmth(0.0)
        (0.5, 1.0)
        """
        return min(1.0, done / self.warmup) if self.warmup else 1.0


@dataclass(frozen=True)
class GeneratorSettings(Checked):
    """How a generator of noise learns (UCAN): its range and its reward; see Design."""

    objective: str = setting("volume", "What the generator is rewarded for.", choices=("volume", "radius"))
    weight: float = setting(0.1, "Of that reward.", least=0)
    least: float = setting(0.1, "Least factor on sigma.", above=0)
    most: float = setting(3.0, "Largest factor on sigma.", above=0)
    shift: bool = setting(False, "Learn a loc as well (UCAN's μ).")
    width: int = setting(16, "Channels of a per_input generator, as published.", least=1, flag=None)


@dataclass(frozen=True)
class BatchReport:
    """One step: its number and the loss before it. Epochs and batches count from 1."""

    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float


@dataclass(frozen=True)
class EpochReport:
    """One epoch: its mean loss, and the accuracies under noise in eval mode, as fractions."""

    epoch: int
    epochs: int
    loss: float
    accuracy: float
    validation_accuracy: float | None
    seconds: float
