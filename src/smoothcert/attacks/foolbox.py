"""Attacks of the library Foolbox on the smoothed classifier, rescaled to the region. An extra: smoothcert[foolbox]."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.attacks.base import Attack, weakest
from smoothcert.attacks.victim import Victim
from smoothcert.errors import ModelError, UnknownName
from smoothcert.extras import import_extra
from smoothcert.maths import FloatArray
from smoothcert.registry import setting

DRAWS = 16  # copies per query, fresh each time


@dataclass(frozen=True)
class Foolbox(Attack):
    """An attack of the library Foolbox by its name there, through its PyTorchModel.

    It works in units of scale, where the region is a plain ball around zero, with the region's radius as its epsilon.
    When the budget is spent it is stopped, and the worst point it has asked about counts.
    """

    name = "foolbox"
    attack: str = setting(help="a name in foolbox.attacks, such as L2PGD, LinfPGD or HopSkipJumpAttack")

    def __post_init__(self) -> None:
        if not isinstance(self.kind, type):
            raise UnknownName(
                f"Foolbox has no attack {self.attack!r}; give one of foolbox.attacks that needs no "
                "arguments, for example foolbox:attack=L2PGD, LinfPGD or HopSkipJumpAttack"
            )

    @property
    def kind(self) -> Any:
        """The class in foolbox.attacks, None if there is none."""
        return getattr(_library().attacks, self.attack, None)

    def find(self, victim: Victim, budget: int) -> FloatArray:
        asked, reach = _Asked(victim, budget), 10.0 * victim.region.radius
        found = [np.zeros(victim.dim)]
        start = torch.zeros(1, *victim.shape, device=victim.smoother.device)
        label = torch.tensor([victim.label], device=start.device)
        try:
            model = _library().PyTorchModel(asked.eval(), bounds=(-reach, reach), device=start.device)
            with _seeded(victim.begin(self.title)), warnings.catch_warnings(), suppress(_Spent, ValueError):
                warnings.simplefilter("ignore")  # Foolbox speaks to its own users; ValueError: it found no start
                _, clipped, _ = self.kind()(model, start, label, epsilons=victim.region.radius)
                found.append(clipped.detach().cpu().double().numpy().ravel() * victim.scale)
        except (RuntimeError, TypeError) as problem:
            raise ModelError(
                f"{self.name} cannot attack this classifier ({str(problem).splitlines()[0]}); use another attack"
            ) from problem
        offsets = np.stack([*found, asked.worst * victim.scale])
        return weakest(victim, np.concatenate([victim.inside(offsets), victim.stretched(offsets)]))


class _Spent(Exception):
    """The budget is used up."""


class _Asked(nn.Module):
    """From perturbations in units of scale to log mean probabilities; remembers the worst one it was asked about."""

    def __init__(self, victim: Victim, budget: int) -> None:
        super().__init__()
        self.victim, self.budget = victim, budget
        self.worst, self._lowest = np.zeros(victim.dim), np.inf

    def forward(self, units: Tensor) -> Tensor:
        victim = self.victim
        if victim.evaluations > self.budget:
            raise _Spent
        try:
            chances = victim.mean_probabilities(units, DRAWS)
        except ValueError as problem:  # not one of Foolbox's own
            raise RuntimeError(str(problem)) from problem
        at = int(chances[:, victim.label].argmin())
        if float(chances[at, victim.label].detach()) < self._lowest:
            self._lowest = float(chances[at, victim.label].detach())
            self.worst = units[at].detach().cpu().double().numpy().ravel()
        return chances.clamp_min(1e-30).log()


@contextmanager
def _seeded(random: np.random.Generator) -> Iterator[None]:
    """Foolbox draws from the generators that all share: give it its own numbers, and put theirs back."""
    before = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random.integers(2**31)))
        np.random.seed(int(random.integers(2**31)))  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002


def _library() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports by names that scipy will drop
        return import_extra("foolbox", "attacks of Foolbox", "foolbox")
