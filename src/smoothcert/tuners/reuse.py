"""Noise that another run has tuned, used again: with more votes, another alpha, another norm or another network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from smoothcert.errors import RunError, SettingError
from smoothcert.laws import law_named
from smoothcert.maths import FloatArray
from smoothcert.noise import Noise
from smoothcert.records import Parameter
from smoothcert.store import SqliteStore, open_run
from smoothcert.tuners.base import Tuner
from smoothcert.tuners.hill_climb import Separate

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother


class Reuse(Tuner):
    """Gives each input the law, scale and loc that its record in another run has; the grid is the user's."""

    name = "reuse"
    reads_input = True  # as the tuner did that made the run
    costly = False

    def __init__(self, run: Path | str) -> None:
        self.run = Path(run)
        with open_run(self.run) as store:
            self.facts = store.facts().get("configuration", {})
        if "data" not in self.facts:
            raise RunError(
                f"{self.run} does not say for which data its noise was tuned (it was imported, or not made by smoothcert certify); "
                "give a run of smoothcert certify"
            )
        digest = hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode()).hexdigest()
        self.name = f"{type(self).name} {digest}"  # type: ignore[misc]

    def check(self, facts: Mapping[str, Any]) -> None:
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
                Noise(
                    law_named(found[index].law),
                    _value(found[index].scale, store),
                    _value(found[index].loc, store),
                    start.grid,
                )
                for index in indices
            ]
        if not rows:
            return start
        for at, row in enumerate(rows):
            row.row(at, tuple(x.shape[1:]), 1)  # refuses a scale that does not fit
        return Separate(rows, x.ndim - 1)


def _value(parameter: Parameter, store: SqliteStore) -> FloatArray | float:
    return store.get(parameter) if isinstance(parameter, str) else np.float64(parameter)
