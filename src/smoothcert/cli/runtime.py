"""``--runtime auto``: what a run was begun with, or else what is fastest here."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from smoothcert.cli.build import smoother_of
from smoothcert.cli.console import errors
from smoothcert.config import Settings
from smoothcert.engine import AUTO, Engine, device_named
from smoothcert.errors import RunError, SmoothcertError

if TYPE_CHECKING:
    from smoothcert.cli.build import Models
    from smoothcert.data.base import Dataset
    from smoothcert.fronts import Front
    from smoothcert.store import Place


def with_runtime(
    settings: Settings, dataset: Dataset, indices: list[int], out: Place, models: Models, front: Front | None = None
) -> tuple[Settings, dict[str, Any]]:
    """The settings with a runtime that is named, and what a calibration found, for the run's notes.

    models, front: as in ``smoother_of``; what had to be loaded is left in models.
    """
    if settings.engine.runtime != AUTO:
        return settings, {}
    found = _begun(out)
    configuration = found.get("configuration", {})
    if "runtime" in configuration:
        engine = _continued(settings.engine, configuration, out)
        kept = {name: value for name, value in found.get("notes", {}).items() if name == "calibration"}
        return replace(settings, engine=engine), kept
    import torch

    from smoothcert.calibration import calibrate

    plain = replace(settings, engine=replace(settings.engine, runtime="torch"))
    smoother = smoother_of(plain, dataset, front=front, models=models)
    x = torch.from_numpy(smoother.behind(dataset).inputs(indices[:1]))[0]
    calibration = calibrate(smoother.model, smoother.noise, x, plain.engine, settings.votes.trials * len(indices))
    errors.print(calibration.words)
    told = {"seconds": round(calibration.seconds, 3), "trials": [asdict(trial) for trial in calibration.trials]}
    return replace(settings, engine=calibration.engine), {"calibration": told}


def _begun(out: Place) -> dict[str, Any]:
    """What a run says of itself, if it was begun."""
    from smoothcert.store import open_run

    try:
        with open_run(out) as store:
            return store.facts()
    except RunError:
        return {}


def _continued(engine: Engine, configuration: dict[str, Any], out: Place) -> Engine:
    """The runtime and the block size that a run was begun with; refused where they cannot be had."""
    from smoothcert.runtimes import runtime_named

    name = configuration["runtime"].partition(" sha256:")[0]
    try:
        runtime_named(name).check(device_named(engine.device))
    except SmoothcertError as problem:
        raise RunError(
            f"{out} was begun with the runtime {name}, which cannot be used here: {problem}; a run is not continued under another one: "
            "make it usable, or give --out another directory"
        ) from problem
    errors.print(f"runtime {name}, with which {out} was begun")
    return replace(engine, runtime=name, block=engine.block or configuration.get("block"))
