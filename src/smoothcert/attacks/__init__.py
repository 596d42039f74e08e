"""The attacks, one file each: searches for a perturbation that breaks a certificate. A new one is a file and a line here."""

from __future__ import annotations

from smoothcert.attacks.base import Attack
from smoothcert.attacks.decision import Decision
from smoothcert.attacks.directions import ExtremeAxes, RandomDirections
from smoothcert.attacks.foolbox import Foolbox
from smoothcert.attacks.procedural import Procedural
from smoothcert.attacks.projected_gradient import ProjectedGradient
from smoothcert.attacks.square import Square
from smoothcert.attacks.wasserstein import Wasserstein
from smoothcert.registry import Registry

__all__ = ["ATTACKS", "DEFAULT", "REGISTRY", "Attack", "attack_named"]

ATTACKS: dict[str, type[Attack]] = {
    "projected_gradient": ProjectedGradient,
    "square": Square,
    "decision": Decision,
    "procedural": Procedural,
    "wasserstein": Wasserstein,
    "random": RandomDirections,
    "axes": ExtremeAxes,
    "foolbox": Foolbox,
}

DEFAULT = tuple(name for name in ATTACKS if name != Foolbox.name)  # Foolbox is an extra, and has many
REGISTRY: Registry[Attack] = Registry("attack", "smoothcert.attacks", ATTACKS, Attack)  # type: ignore[type-abstract]
attack_named = REGISTRY.make
