"""Try to break certificates of trained networks: python benchmarks/attacks.py table|sound|memory|cost DATA=MODEL … prints a table.

    python benchmarks/attacks.py table mnist=nets/mnist-0.5/model.safetensors cifar10=nets/cifar-0.25/model.safetensors
    python benchmarks/attacks.py sound mnist=… cifar10=… --limit 22
    python benchmarks/attacks.py memory mnist=… cifar10=… --limit 36
    python benchmarks/attacks.py cost  mnist=… --limit 10

- table: defence accuracy as in UniCR (2022), Table 6, six attacks × three norms, at multiples of the certified radius: the
         share of certificates whose label still leads in the fresh votes at the perturbation that the attack found
- sound: certificates labelled global (four kinds of noise and norm, plain and anisotropic), all attacks at the radius
         itself: tried, violated, allowance, smallest margin
- memory: the same for certificates labelled memory: hill climbing for each kind of noise, and
         ANCER, which is slow, for two and a quarter of the inputs
- cost:  seconds per certificate with the default budget
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import smoothcert as sc
from smoothcert import data
from smoothcert.data.base import Dataset
from smoothcert.models import load_model
from smoothcert.records.findings import Finding
from smoothcert.report.attacks import attack_summary

TABLE_6 = ("random", "procedural", "projected_gradient", "wasserstein", "square", "decision")
# Of the noise the networks were trained with.
SIGMA = {"mnist": 0.5, "cifar10": 0.25}
NORMS = {"l1": ("laplace", 1.0), "l2": ("gaussian", 2.0), "l∞": ("gaussian", math.inf)}

PAIRS = (("gaussian", 2.0), ("laplace", 1.0), ("uniform", 1.0), ("gaussian", math.inf))


@dataclass(frozen=True, eq=False)
class Setting:
    """A trained network and its data."""

    name: str
    dataset: Dataset
    model: nn.Module
    sigma: float

    def smoother(self, law: str, norm: float, *, uneven: bool = False, **options: object) -> sc.Smoother:
        """Noise of this standard deviation, on the pixel grid; uneven: between 0.7 and 1.3 of it, low in the middle."""
        noise = sc.Noise.isotropic(law, self.sigma, grid=1 / 255)
        if uneven:
            noise = sc.Noise(law, noise.scale * torch.from_numpy(bowl(self.dataset.shape)), grid=1 / 255)
        return sc.Smoother(self.model, noise, norm, estimate=10_000, **options)  # type: ignore[arg-type]

    def inputs(self, limit: int) -> torch.Tensor:
        """The first inputs of the test set."""
        return torch.from_numpy(self.dataset.inputs(range(limit)))


def bowl(shape: tuple[int, ...]) -> np.ndarray:
    """0.7 in the middle of a picture, 1.3 in its corners."""
    rows, columns = np.linspace(-1, 1, shape[-2]), np.linspace(-1, 1, shape[-1])
    return np.broadcast_to(0.7 + 0.3 * (rows[:, None] ** 2 + columns[None] ** 2), shape).copy()


def certified(smoother: sc.Smoother, x: torch.Tensor) -> tuple[list[sc.Certificate], torch.Tensor]:
    """The certificates that are not abstentions, and their inputs."""
    certificates = smoother.certify(x)
    kept = [at for at, certificate in enumerate(certificates) if certificate.region is not None]
    return [certificates[at] for at in kept], x[kept]


def table(settings: list[Setting], arguments: argparse.Namespace) -> None:
    print("| data | norm | × radius | certificates | " + " | ".join(TABLE_6) + " |")
    print("|---" * (4 + len(TABLE_6)) + "|")
    for setting in settings:
        for norm, (law, number) in NORMS.items():
            smoother = setting.smoother(law, number)
            certificates, x = certified(smoother, setting.inputs(arguments.limit))
            for times in arguments.multiples:
                found = sc.attack(
                    certificates,
                    smoother,
                    x,
                    attacks=TABLE_6,
                    budget=arguments.budget,
                    votes=arguments.votes,
                    times=times,
                )
                held = [share_led([f for f in found if f is not None], name) for name in TABLE_6]
                cells = " | ".join(f"{100 * share:.1f}" for share in held)
                print(f"| {setting.name} | {norm} | {times:g} | {len(certificates)} | {cells} |", flush=True)


def share_led(findings: list[Finding], name: str) -> float:
    """The share of certificates whose label leads at the perturbation that this attack found."""
    margins = [attempt.margin for finding in findings for attempt in finding.attempts if attempt.attack == name]
    return sum(margin > 0 for margin in margins) / len(margins)


def sound(settings: list[Setting], arguments: argparse.Namespace) -> None:
    kinds = [(law, norm, uneven) for law, norm in PAIRS for uneven in (False, True)]
    every: list[Finding] = []
    effort = {"budget": arguments.budget, "votes": arguments.votes}
    for setting in settings:
        x = setting.inputs(arguments.limit)
        for law, norm, uneven in kinds:
            smoother = setting.smoother(law, norm, uneven=uneven)
            certificates, kept = certified(smoother, x)
            every += report(
                f"{setting.name} {law} l{norm:g}{' uneven' if uneven else ''}",
                sc.attack(certificates, smoother, kept, **effort),  # type: ignore[arg-type]
            )
    report("all", every)


def memory(settings: list[Setting], arguments: argparse.Namespace) -> None:
    kinds = [(law, norm, sc.HillClimb(votes=200)) for law, norm in PAIRS]
    kinds += [(law, norm, sc.Ancer()) for law, norm in PAIRS[:2]]
    every: list[Finding] = []
    for setting in settings:
        x = setting.inputs(arguments.limit)
        for law, norm, tuner in kinds:
            smoother = setting.smoother(law, norm, tuner=tuner)
            certificates, kept = certified(smoother, x[: len(x) // 4] if isinstance(tuner, sc.Ancer) else x)
            kept_by = sc.Memory()
            settled = [kept_by.settle(certificate, index=at) for at, certificate in enumerate(certificates)]
            findings = sc.attack(
                settled, smoother, kept, memory=kept_by, budget=arguments.budget, votes=arguments.votes
            )
            every += report(f"{setting.name} {tuner.name} {law} l{norm:g}", findings)
    report("all", every)


def report(name: str, findings: list[Finding | None]) -> list[Finding]:
    """Print the summary of some findings, and give them back."""
    found = [finding for finding in findings if finding is not None]
    for row in attack_summary(found):
        numbers = {key: row[key] for key in ("tried", "violated", "allowance", "attempts")}
        print(f"{name} [{row['label']}]: {numbers} smallest margin {row['smallest_margin']:.3f}", flush=True)
    return found


def cost(settings: list[Setting], arguments: argparse.Namespace) -> None:
    for setting in settings:
        for norm, (law, number) in NORMS.items():
            smoother = setting.smoother(law, number)
            certificates, x = certified(smoother, setting.inputs(arguments.limit))
            wall, processor = time.perf_counter(), time.process_time()
            sc.attack(certificates, smoother, x)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            each = len(certificates)
            print(f"{setting.name} {norm}: {wall / each:.2f} s per certificate, {processor / each:.2f} core-seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("table", "sound", "memory", "cost"))
    parser.add_argument("networks", nargs="+", metavar="DATA=MODEL")
    parser.add_argument("--root", help="where the data sets are")
    parser.add_argument("--limit", type=int, default=50, help="inputs per row")
    parser.add_argument("--budget", type=int, default=3_000)
    parser.add_argument("--votes", type=int, default=20_000)
    parser.add_argument("--multiples", type=lambda text: [float(part) for part in text.split(",")], default="1,1.5,2,3")
    arguments = parser.parse_args()
    settings = []
    for pair in arguments.networks:
        name, _, path = pair.partition("=")
        dataset = data.load(name, root=arguments.root, split="test")
        model = load_model(path, shape=dataset.shape, classes=dataset.classes)
        settings.append(Setting(name, dataset, model, SIGMA[name]))
    {"table": table, "sound": sound, "memory": memory, "cost": cost}[arguments.what](settings, arguments)


if __name__ == "__main__":
    main()
