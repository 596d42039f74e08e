"""The settings of a run, one section per table of run.toml. Each is declared where it is used; here are those that name things."""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.engine import Engine
from smoothcert.plan import Voting
from smoothcert.registry import Checked, setting
from smoothcert.training.settings import GeneratorSettings, TrainSettings


@dataclass(frozen=True)
class ModelSettings(Checked):
    """[model]: which classifier."""

    source: str | None = setting(
        None,
        "A .safetensors file written by smoothcert train, a name (small_cnn, mlp:width=64, resnet18, …), a torch.export .pt2, "
        "TorchScript .ts or .onnx file, a folder of transformers, hub:owner/name, timm:name, or package.module:factory.",
        flag="--model",
    )
    weights: str | None = setting(
        None,
        "Weights for a built-in name or a factory, in training those to start from: .safetensors, or .pt read safely.",
        metavar="FILE",
    )
    cascade: str | None = setting(
        None,
        "Instead of a model and its noise: a TOML file that names the stages of a cascade, each with model and sigma.",
        metavar="FILE",
    )
    mean: tuple[float, ...] = setting((), "Channel means: normalisation put into the model.")
    std: tuple[float, ...] = setting((), "Channel standard deviations.", above=0)
    identity: str | None = setting(
        None,
        "Your own name for a model that cannot be known by its value; a new one is due whenever it changes.",
        flag=None,
    )


@dataclass(frozen=True)
class DataSettings(Checked):
    """[data]: which inputs."""

    source: str = setting(
        "digits",
        "digits (embedded), mnist, fashion_mnist or cifar10, with parameters such as cifar10:root=DIR,split=train; an .npz file "
        "with x and y; a .csv or .parquet file, or csv:path=FILE,label=COLUMN; a folder of class folders or of images, an image, or folder:path=DIR,size=256,crop=224,classes=FILE; hub:path=owner/name; "
        "`smoothcert list data` tells more.",
        flag="--data",
        metavar="NAME[:KEY=VALUE,…]|PATH",
    )
    limit: int | None = setting(None, "At most so many inputs.", least=1)
    skip: int = setting(1, "The first input of every so many.", least=1)
    indices: str | None = setting(None, "Exactly these inputs: 0,5,10-19.")
    shard: str | None = setting(
        None,
        "One of several parts of these inputs, each for a job of its own: 2/8 is the second of eight.",
        metavar="I/N",
    )


@dataclass(frozen=True)
class NoiseSettings(Checked):
    """[noise]: which noise."""

    law: str = setting(
        "gaussian",
        "gaussian, laplace, uniform, hyperbolic_secant, generalized_normal:beta=1.5, cauchy, pareto, laplace_gaussian or "
        "exponential_mixture; or views, for exact certificates: splitting:lam=3, bands:width=4, blocks, chunks or ablation; "
        "`smoothcert list laws` and `smoothcert list views` tell more.",
        flag="--noise",
        metavar="NAME[:KEY=VALUE,…]",
    )
    sigma: float | None = setting(None, "Standard deviation of the noise per coordinate.", least=0)
    scale: float | str | None = setting(
        None, "Instead of sigma: the law's scale, a number or an .npy file.", metavar="NUMBER|FILE"
    )
    loc: float | str = setting(0.0, "Shift of the noise, a number or an .npy file.", flag=None)
    grid: float | str = setting(
        "auto",
        "The step of the pixel grid, such as 1/255, that the noise lies on: sound in floating point; auto: on for images.",
        choices=("auto", "none"),
        above=0,
    )
    box: str = setting(
        "auto",
        "Clip inputs to LOW..HIGH before the noise, such as 0..1: certificates hold outside too, and uniform noise proves "
        "larger l1 radii; none: do not; auto: 0..1 for images under noise that gains by it.",
        metavar="LOW..HIGH|auto|none",
    )

    front: str | None = setting(
        None,
        "Lay the noise on numbers U(x − μ) of the input, which the network gets: pca:40 of the training data, blocks:2 (sums of "
        "pixels), an .npy file with U, or the .npz that training wrote, which is used without being named.",
        metavar="NAME[:KEY=VALUE,…]|FILE",
        changes="method",
    )


@dataclass(frozen=True)
class TaskSettings(Checked):
    """[task]: what is certified of the answer."""

    kind: str = setting(
        "classification",
        "What the model answers: classes, or with regression one number per input, of which intervals are certified.",
        choices=("classification", "regression"),
        flag="--task",
    )
    bounds: str | None = setting(
        None,
        "For regression: clip the model's answers to LOW..HIGH, where an interval then ends at the latest.",
        flag=None,
    )


@dataclass(frozen=True)
class ShapeSettings(GeneratorSettings):
    """[generator]: noise that is shaped in training (UCAN), by a generator that learns or was learned, or by a pattern."""

    source: str | None = setting(
        None,
        "Learn the noise's shape with the model: dataset (one for all inputs) or per_input. Or fit one for all inputs to a trained model "
        "(--weights) first: ancer, with parameters such as ancer:kappa=0.5,most=4. Or the file of one, for any recipe.",
        flag="--generator",
    )
    pattern: str | None = setting(
        None,
        "Train under this pattern: l1, l2 or linf (parameters: source=l2,kappa=0.2,iota=0.8), an .npy file of factors on the "
        "scale, or a picture.",
    )


@dataclass(frozen=True)
class Settings:
    """All settings; ``sections.read`` makes them."""

    model: ModelSettings
    data: DataSettings
    noise: NoiseSettings
    votes: Voting
    task: TaskSettings
    engine: Engine
    train: TrainSettings
    generator: ShapeSettings
