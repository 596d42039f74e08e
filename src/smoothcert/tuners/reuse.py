"""Noise that another run has tuned, used again: with more votes, another alpha, another norm or another network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from smoothcert.errors import RunError, SettingError
from smoothcert.laws import law_named
from smoothcert.noise import Noise
from smoothcert.records.record import value_of
from smoothcert.registry import setting
from smoothcert.smoother import Tuner
from smoothcert.store import ResultStore, open_run
from smoothcert.tuners.hill_climb import Separate

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother


@dataclass(frozen=True)
class Reuse(Tuner):
    """Gives each input the law, scale and loc that its record in another run has; the grid is the user's.

    The seed must be another: with the same one the votes that certified there would be cast, and counted, again.
    """

    name = "reuse"
    reads_input = True  # as the tuner did that made the run
    costly = False

    run: str | Path | ResultStore = setting(help="the run whose noise is used again")

    def __post_init__(self) -> None:
        if "data" not in self.facts:
            raise RunError(
                f"{self.run} does not say for which data its noise was tuned (it was imported, or not made by smoothcert certify); "
                "give a run of smoothcert certify"
            )

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The configuration of the run."""
        with open_run(self.run) as store:
            return dict(store.facts().get("configuration", {}))

    def content(self) -> object:
        return self.facts

    def check(self, facts: Mapping[str, Any]) -> None:
        if facts["seed"] == self.facts["seed"]:
            raise SettingError(
                f"the votes in {self.run} were cast with seed {facts['seed']}, and this seed would cast the same ones again; "
                f"give another: --seed {int(facts['seed']) + 1}"
            )
        if facts["data"] != self.facts["data"]:
            raise RunError(
                f"the noise in {self.run} was tuned for other data ({self.facts['data']}, here {facts['data']}); inputs are "
                "found by their index, so give the data set and split of that run"
            )

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        with open_run(self.run) as store:
            asked = set(indices)
            found = {record.index: record for record in store.records() if record.index in asked}
            missing = sorted(asked - set(found))
            if missing:
                raise SettingError(
                    f"{self.run} has no noise for the inputs {missing[:5]} ({len(missing)} of {len(asked)} here are missing); "
                    "tune them there first, or ask for inputs that it holds (--indices)"
                )
            rows = [
                start.shaped(value_of(record.scale, store), value_of(record.loc, store), law_named(record.law))
                for record in (found[index] for index in indices)
            ]
        if not rows:
            return start
        for at, row in enumerate(rows):
            row.row(at, tuple(x.shape[1:]), 1)  # refuses a scale that does not fit
        return Separate(rows, x.ndim - 1)
