"""What a run says of itself: the settings it was certified with, and where the files that they name lie now."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.cli.build import dataset_of, smoother_of
from smoothcert.cli.flags import Given
from smoothcert.config import Settings
from smoothcert.errors import ModelError, RunError
from smoothcert.plan import Voting
from smoothcert.sections import Source, from_toml

if TYPE_CHECKING:
    from smoothcert.data.base import Dataset
    from smoothcert.smoother import Smoother
    from smoothcert.store import Place

# Settings that name files, or hold parameters that do.
FILES = (
    "model.source",
    "model.weights",
    "model.cascade",
    "data.source",
    "noise.scale",
    "noise.loc",
    "noise.front",
    "votes.method",
    "votes.memory",
)
# Where a setting stands in the configuration of a run, under another name than its own.
OWN_NAMES = {"noise.law": "law", "noise.scale": "scale", "noise.loc": "loc", "votes.method": "tuner"}
SAME_NAMES = (
    *("votes.norm", "votes.select", "votes.trials", "votes.alpha", "votes.estimator", "votes.radii", "votes.seed"),
    *("votes.check", "votes.own_randomness", "engine.block", "engine.runtime", "engine.device", "engine.shared_noise"),
)
OF_VIEWS = (
    *("noise.law", "votes.seed", "votes.check", "votes.own_randomness"),
    *("engine.block", "engine.runtime", "engine.device"),
)


def certified_with(run: Place, given: Given) -> tuple[Smoother, Dataset]:
    """The classifier and the data of a run, from its own settings or from where its files have moved."""
    settings = settings_of(run, given)
    dataset = dataset_of(settings.data)
    return smoother_of(settings, dataset), dataset


def settings_of(run: Place, given: Given) -> Settings:
    """The settings of a run, below what the user says."""
    settings = given.over(Settings, kept_by(run))
    if settings.model.source is None and settings.model.cascade is None:
        raise ModelError(
            f"{run} was made in Python, which keeps no path of the model and the data; give --model, and --data unless it is "
            "digits: both must be those that were certified"
        )
    return settings


def where_it_began(run: Place) -> dict[str, str]:
    """The folder that relative paths of a run are meant in: from the root, and from the run, for both may be moved together."""
    from smoothcert.store import directory_of

    directory = directory_of(run)
    here = os.getcwd()
    if directory is None:
        return {"folder": here}
    try:
        return {"folder": here, "folder_from_run": os.path.relpath(here, directory.resolve())}
    except ValueError:  # another drive of Windows
        return {"folder": here}


def kept_by(run: Place) -> Source:
    """The settings that a run was certified with; of one made in Python, what its configuration tells of them."""
    from smoothcert.maths.grid import box_of
    from smoothcert.store import check_filled, directory_of, open_run

    with open_run(run) as store:
        facts = store.facts()
    configuration = facts.get("configuration", {})
    check_filled(run, configuration)
    if "imported_from" in configuration:
        raise RunError(
            f"{run} was imported from a log, which holds neither model nor noise, so there is nothing to ask; "
            "give a run of smoothcert certify (smoothcert report shows imported ones)"
        )
    notes = facts.get("notes", {})
    text: str | None = notes.get("settings")
    if text is None:
        return _told_by(configuration, run)
    folders = [Path(notes[name]) for name in ("folder",) if name in notes]
    directory = directory_of(run)
    if directory is not None and "folder_from_run" in notes:
        folders.append(directory.resolve() / notes["folder_from_run"])
    # Votes that were judged again may be those of a classifier that clips its inputs, which the settings do not tell.
    box = box_of(configuration.get("domain", ""))
    clipped = {} if box is None else {"noise.box": str(box)}
    return {**located(from_toml(text, f"the settings of {run}"), folders), **clipped}


def located(kept: Source, folders: list[Path]) -> Source:
    """The settings with relative paths made absolute, by the first of these folders that holds what they name."""
    from smoothcert.data import REGISTRY as DATA
    from smoothcert.fronts import FRONTS
    from smoothcert.models import MODELS
    from smoothcert.tuners import REGISTRY as TUNERS

    names = {*DATA.names, *MODELS, *TUNERS.names, *FRONTS}

    def found(match: re.Match[str]) -> str:
        text = match[0]
        if text in names or Path(text).is_absolute():
            return text
        return next((str((folder / text).resolve()) for folder in folders if (folder / text).exists()), text)

    # The whole text, or the value of each parameter.
    return {
        path: re.sub(r"(?<==)[^=,]+|^[^=,]+$", found, value) if path in FILES and isinstance(value, str) else value
        for path, value in kept.items()
    }


def _told_by(configuration: Mapping[str, Any], run: Place) -> Source:
    """The settings in the configuration of a run, all but where its model and its data are."""
    named = {path: path.partition(".")[2] for path in SAME_NAMES} | OWN_NAMES
    missing = [name for name in named.values() if name not in configuration]
    if missing:
        raise RunError(
            f"{run} does not say how it was certified (its configuration lacks {', '.join(missing)}); certify anew, or use "
            "Python: smoothcert.attack(certificates, smoother, x)"
        )
    from smoothcert.maths.grid import box_of
    from smoothcert.views import REGISTRY

    told = {path: configuration[name] for path, name in named.items()}
    shaped = [path for path in ("noise.scale", "noise.loc") if isinstance(told[path], str)]
    for path in shaped:  # a hash: the array itself is the user's
        del told[path]
    # Of a guest or of what stands for files the configuration holds a hash too.
    plain = {path: value.partition(" sha256:")[0] if isinstance(value, str) else value for path, value in told.items()}
    if REGISTRY.knows(
        plain["noise.law"]
    ):  # views, not noise; of a threat the kind alone is kept, whatever size was asked for
        threat = configuration.get("threat")
        against = {"votes.norm": plain["votes.norm"]} if threat is None else {"votes.threat": f"{threat}:1"}
        return {path: plain[path] for path in OF_VIEWS} | against
    domain = str(configuration.get("domain"))
    grid = re.search(r"grid 1/(\d+)", domain)
    if configuration.get("task") == "regression":
        plain |= {"task.kind": "regression", "votes.estimator": Voting.estimator}
        if configuration.get("bounds"):
            plain["task.bounds"] = "{}..{}".format(*configuration["bounds"])
    return plain | {"noise.grid": f"1/{grid[1]}" if grid else "none", "noise.box": str(box_of(domain) or "none")}
