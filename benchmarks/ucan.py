r"""UCAN against isotropic noise: python benchmarks/ucan.py --root DATA --out FOLDER trains and certifies, and prints a table.

For MNIST at sigma .5 and CIFAR-10 at .25 (or one of them: --data mnist) it trains a CNN (--model) on the mean cross-entropy
of several noisy copies: --epochs under isotropic noise, and from there as many again under isotropic noise, the patterns l1,
l2 and linf, a dataset-wise map, one that ANCER fits to the first classifier, and a certification-wise generator without and with a learned shift (μ). It certifies every
so many-th test input in l2 under the noise trained with, and prints accuracy, ACR and the average proxy radius, of the whole region and of its part in the input box, each with
its label; certification-wise once more after a memory has settled every certificate, and attacked by the falsifier through
its generator: how many of the frozen certificates the deployed classifier breaks, and how near. A training that was stopped
goes on; a line that is done is not done again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

import smoothcert as sc
from smoothcert.certificates import Certificate
from smoothcert.data import load
from smoothcert.data.base import Dataset
from smoothcert.engine import Engine
from smoothcert.files import write_atomically
from smoothcert.maths.boxed import Box
from smoothcert.memory.memory import Memory
from smoothcert.noise import Noise
from smoothcert.regions import Region
from smoothcert.smoother import Batch, Smoother
from smoothcert.training import AncerMap, TrainSettings, UcanSettings, new_model, train, train_jointly, train_on_map
from smoothcert.tuners import DatasetWise, FixedNoise, Pattern, PerInput, Tuner

SIGMAS = {"mnist": 0.5, "cifar10": 0.25}
ATTACKS = ("projected_gradient", "square", "random", "axes")
METHODS = ("isotropic", "pattern l1", "pattern l2", "pattern linf", "dataset", "ancer", "per_input", "per_input μ")


def trained(
    method: str, name: str, noise: Noise, out: Path, asked: argparse.Namespace
) -> tuple[torch.nn.Module, Tuner]:
    """The classifier of a method, and who chooses its noise."""
    data = load(name, root=asked.root, split="train")
    chosen = range(min(asked.train_limit, len(data)))
    inputs, labels = data.inputs(chosen), np.array(data.truths(chosen))
    settings = UcanSettings(
        f"ucan:draws={asked.draws}",
        epochs=asked.epochs,
        learning_rate=3e-3,
        augment=name == "cifar10",
        flip=name == "cifar10",
        seed=asked.seed,
        generator="per_input" if method.startswith("per_input") else "dataset",
        shift=method.endswith("μ"),
        weight=asked.weight,
        least=asked.least,
        most=asked.most,
        width=asked.width,
    )
    architecture = {"name": asked.model, "shape": data.shape, "classes": 10}
    plain = TrainSettings(**{field.name: getattr(settings, field.name) for field in fields(TrainSettings)})

    def told(report: object) -> None:
        print(f"  {method}: {report}", flush=True)

    given: dict[str, Any] = {"architecture": architecture, "progress": told}
    model = new_model(architecture, asked.seed)
    first = out.parent.parent / f"start-{out.name}"
    train(model, inputs, labels, plain, noise=noise, out=first, **given)
    if method in ("dataset", "per_input", "per_input μ"):
        path = train_jointly(model, inputs, labels, settings, noise=noise, out=out, **given)
        file = path.parent / "generator.safetensors"
        return model.eval(), DatasetWise(file) if method == "dataset" else PerInput(file)
    if method == "ancer":
        fitting = AncerMap(kappa=asked.kappa, most=asked.ancer_most)
        path = train_on_map(model, inputs, labels, plain, fitting=fitting, noise=noise, out=out, **given)
        return model.eval(), DatasetWise(path.parent / "generator.safetensors")
    tuner = Pattern(method.split()[1]) if method.startswith("pattern") else FixedNoise()
    shaped = tuner.maps(data.shape).on(noise) if isinstance(tuner, Pattern) else noise
    train(model, inputs, labels, plain, noise=shaped, out=out, **given)
    return model.eval(), tuner


def line(method: str, certificates: list[Certificate], truths: list[int | None]) -> dict[str, object]:
    """One line of the table; a wrong or missing answer counts as radius 0."""
    right = [c.label is not None and c.label == truth for c, truth in zip(certificates, truths, strict=True)]
    radii = [c.radius * ok for c, ok in zip(certificates, right, strict=True)]
    proxies = [c.proxy_radius * ok for c, ok in zip(certificates, right, strict=True)]
    boxed = [
        c.region.boxed_proxy_radius(Box(0, 1)) if ok and isinstance(c.region, Region) else 0.0
        for c, ok in zip(certificates, right, strict=True)
    ]
    return {
        "method": method,
        "label": "/".join(sorted({c.soundness.value for c in certificates})),
        "inputs": len(right),
        "accuracy": float(np.mean(right)),
        "acr": float(np.mean(radii)),
        "proxy": float(np.mean(proxies)),
        "boxed": float(np.mean(boxed)),
    }


def attacked(smoother: Smoother, certificates: list[Certificate], x: torch.Tensor) -> str:
    """What the falsifier makes of frozen certificates: broken of tried, and the nearest violations."""
    findings = [found for found in sc.attack(certificates, smoother, x, attacks=ATTACKS) if found is not None]
    near = [found.worst.gauge / found.radius for found in findings if found.violated]
    words = f"{len(near)} of {len(findings)} certificates broken at the deployed classifier"
    if not near:
        return f"{words}; smallest margin {min(found.worst.margin for found in findings):.3f}"
    return f"{words}, the nearest at {min(near):.3f} of the radius, the median at {np.median(near):.3f}"


def measured(method: str, name: str, test: Dataset, out: Path, asked: argparse.Namespace) -> list[dict[str, object]]:
    """The lines of one method."""
    noise = Noise.isotropic("gaussian", SIGMAS[name], grid=test.grid)
    model, tuner = trained(method, name, noise, out, asked)
    indices = list(range(0, len(test), max(1, len(test) // asked.inputs)))[: asked.inputs]
    smoother = Smoother(
        model, noise, estimate=asked.votes, tuner=tuner, engine=Engine(shared_noise=True), seed=asked.seed
    )
    truths = test.truths(indices)
    batches = (Batch(torch.from_numpy(test.inputs([index])), [index], test.truths([index])) for index in indices)
    certificates = [smoother.conclude(poll) for poll in smoother.polls(batches)]
    lines = [line(method, certificates, truths)]
    if tuner.reads_input:
        memory = Memory()
        settled = [
            memory.settle(c, index=index, center=test.inputs([index])[0].astype(float) if c.region is None else None)
            for index, c in zip(indices, certificates, strict=True)
        ]
        lines.append(line(f"{method}, settled", settled, truths))
        first = slice(0, asked.attacked)
        lines[0]["attacked"] = attacked(smoother, certificates[first], torch.from_numpy(test.inputs(indices[first])))
    return lines


def main() -> None:
    """Train, certify, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="where the data sets are")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", nargs="*", default=list(SIGMAS), choices=list(SIGMAS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--model", default="lenet", help="default: %(default)s")
    parser.add_argument("--draws", type=int, default=5, help="noisy copies of an input in a step")
    parser.add_argument("--train-limit", type=int, default=60_000)
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--votes", type=int, default=10_000)
    parser.add_argument("--weight", type=float, default=0.1, help="of the volume in the loss")
    parser.add_argument("--least", type=float, default=0.1, help="smallest factor on sigma")
    parser.add_argument("--most", type=float, default=3.0, help="largest factor on sigma")
    parser.add_argument("--kappa", type=float, default=AncerMap.kappa, help="of ancer; default: %(default)s")
    parser.add_argument(
        "--ancer-most", type=float, default=AncerMap.most, help="its largest factor; default: %(default)s"
    )
    parser.add_argument("--width", type=int, default=16, help="channels of the certification-wise generator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attacked", type=int, default=30, help="frozen certificates that are attacked")
    asked = parser.parse_args()
    settings = {name: value for name, value in vars(asked).items() if name not in ("root", "out", "data", "methods")}
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    for name in asked.data:
        test, rows = load(name, root=asked.root, split="test"), []
        for method in asked.methods:
            folder = asked.out / name / method.replace(" ", "-").replace("μ", "shift")
            folder.mkdir(parents=True, exist_ok=True)
            done = folder / f"lines-{key}.json"
            if not done.exists():
                write_atomically(done, json.dumps(measured(method, name, test, folder / key, asked)).encode())
            rows += json.loads(done.read_text())
        print(f"{name}, sigma {SIGMAS[name]}, l2: {settings}")
        print(f"{'method':22} {'label':8} {'inputs':>6} {'accuracy':>8} {'ACR':>7} {'proxy':>7} {'boxed':>7}")
        for row in rows:
            print(
                f"{row['method']:22} {row['label']:8} {row['inputs']:6} {row['accuracy']:8.3f} {row['acr']:7.4f} "
                f"{row['proxy']:7.4f} {row['boxed']:7.4f} {row.get('attacked', '')}",
                flush=True,
            )


if __name__ == "__main__":
    main()
