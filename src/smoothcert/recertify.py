"""Certify again from the votes that were kept: another alpha, another bound, another grid, without the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.certificates import Ballot, conclude
from smoothcert.errors import RunError, SettingError
from smoothcert.estimators import ESTIMATORS, Plan, Randomized
from smoothcert.laws import law_named
from smoothcert.maths import FloatArray
from smoothcert.records import Parameter, Record, record_of
from smoothcert.store import RESULTS, SqliteStore, open_run
from smoothcert.votes import Votes


def recertify(run: Path | str, out: Path | str, changes: Mapping[str, Any]) -> int:
    """Judge the stored votes by a changed plan into a new run directory; how many records that makes.

    ``changes`` may name estimator, alpha, radii, tolerance and rivals. Looks and votes are what they were: a bound
    that needs all the votes of a run that stopped early is refused, since it would be wrong on a stopped sample.
    """
    out = Path(out)
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} exists and is not empty; give another directory")
    with open_run(run) as store:
        facts, seconds, records = store.facts(), store.seconds(), list(store.records())
        if not records:
            raise RunError(f"{run} holds no records yet; certify some inputs into it first")
        old = _plan(facts["configuration"])
        new = replace(old, **changes)
        _check_support(old, new)
        certified = [_again(record, new, facts["shape"], store) for record in records]
        scales = {record.scale for record in records} | {record.loc for record in records}
        arrays = [store.get(address) for address in scales if isinstance(address, str)]
    out.mkdir(parents=True, exist_ok=True)
    with SqliteStore(out / RESULTS, create=True) as target:
        plan = asdict(new) | {"radii": list(new.radii)}
        target.describe(facts | {"configuration": facts["configuration"] | plan, "recertified_from": str(run)})
        for array in arrays:
            target.put(array)
        for record in certified:
            target.append(record, seconds[record.index])
    return len(certified)


def _plan(configuration: Mapping[str, Any]) -> Plan:
    """The plan that a run was made by."""
    values = {field.name: configuration[field.name] for field in fields(Plan)}
    return Plan(**values | {"radii": tuple(values["radii"])})


def _check_support(old: Plan, new: Plan) -> None:
    """Refuse what the stored votes cannot prove."""
    if ESTIMATORS[old.estimator].anytime and not ESTIMATORS[new.estimator].anytime:
        able = ", ".join(name for name, kind in ESTIMATORS.items() if kind.anytime)
        raise SettingError(
            f"these votes stopped when {old.estimator} had seen enough, and {new.estimator} is wrong on a sample that chose when "
            f"to stop; use one of {able}, or certify anew with --estimator {new.estimator}"
        )
    if new.estimator == Randomized.name != old.estimator:
        raise SettingError(
            "randomized needs its random number drawn with the votes, and this run has none; certify anew with --estimator randomized"
        )


def _again(record: Record, plan: Plan, shape: Sequence[int], store: SqliteStore) -> Record:
    def value(parameter: Parameter) -> FloatArray:
        return np.array(parameter) if isinstance(parameter, float) else store.get(parameter)

    selection = Votes(np.array([[record.selection]]), np.array([[record.selection_invalid]]))
    estimation = Votes(np.array([record.estimation]), np.array([record.estimation_invalid]))
    ballot = Ballot(selection, estimation)
    certificate = conclude(
        ballot,
        plan=plan,
        law=law_named(record.law),
        center=np.broadcast_to(0.0, tuple(shape)),  # only its size matters here: a record keeps no center
        scale=value(record.scale),
        norm=record.norm,
        soundness=record.soundness,
        uniform=record.uniform,
    )
    return record_of(
        certificate,
        ballot,
        index=record.index,
        truth=record.truth,
        law=record.law,
        scale=record.scale,
        loc=record.loc,
        domain=record.domain,
        norm=record.norm,
        uniform=record.uniform,
    )
