"""The attacks, one file each: searches for a perturbation that breaks a certificate. A new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Callable

from smoothcert.attacks.base import Attack
from smoothcert.attacks.decision import Decision
from smoothcert.attacks.directions import ExtremeAxes, RandomDirections
from smoothcert.attacks.foolbox import PREFIX, Foolbox
from smoothcert.attacks.procedural import Procedural
from smoothcert.attacks.projected_gradient import ProjectedGradient
from smoothcert.attacks.square import Square
from smoothcert.attacks.wasserstein import Wasserstein
from smoothcert.errors import look_up

__all__ = ["ATTACKS", "Attack", "attack_named"]

ATTACKS: dict[str, Callable[[], Attack]] = {
    "projected_gradient": ProjectedGradient,
    "square": Square,
    "decision": Decision,
    "procedural": Procedural,
    "wasserstein": Wasserstein,
    "random": RandomDirections,
    "axes": ExtremeAxes,
}


def attack_named(name: str) -> Attack:
    """The attack of this name, with its default settings; ``foolbox:NAME`` is one of the library Foolbox."""
    return Foolbox(name) if name.startswith(PREFIX) else look_up("attack", name, ATTACKS)()
