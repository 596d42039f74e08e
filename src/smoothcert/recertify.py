"""Certify again from the votes that were kept: another alpha, another bound, another grid, without the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from smoothcert.certificates import Ballot, Soundness, conclude
from smoothcert.errors import SettingError, look_up, without_passwords
from smoothcert.estimators import ESTIMATORS, Plan, estimator_named, estimator_of
from smoothcert.laws import law_named
from smoothcert.records.facts import plan_of
from smoothcert.records.record import Arrays, Record, record_of, scale_of
from smoothcert.store import Place, check_filled, check_free, new_run, open_run
from smoothcert.votes import Votes

CHANGEABLE = ("estimator", "alpha", "radii")


def recertify(run: Place, out: Place, changes: Mapping[str, Any]) -> int:
    """Judge the stored votes by a changed plan into a new run; how many records that makes.

    ``changes`` may name estimator (with its parameters), alpha and radii. Looks and votes are what they were: a bound
    that needs all the votes of a run that stopped early is refused, since it would be wrong on a stopped sample. The
    records keep why their votes stopped, and the configuration the plan that they were cast by (``voted``).
    """
    check_free(out)
    for name in changes:
        look_up("setting to judge the votes anew by", name, dict.fromkeys(CHANGEABLE))
    with open_run(run) as store:
        facts, seconds, records = store.facts(), store.seconds(), list(store.records())
        check_filled(run, records)
        check_judgeable(facts["configuration"], records)
        voted = plan_of(facts["configuration"].get("voted", facts["configuration"]))
        new = replace(plan_of(facts["configuration"]), **changes)
        _check_support(voted, new)
        certified = [judge_again(record, new, facts["shape"], store) for record in records]
        parameters = {record.scale for record in records} | {record.loc for record in records}
        arrays = [store.get(address) for address in parameters if isinstance(address, str)]
        pictures = {index: store.picture(index) for index in store.pictured()}
    configuration = {
        **facts["configuration"],
        **_plain(new),
        "recertified_from": without_passwords(str(run)),
        "voted": _plain(voted),
    }
    with new_run(out) as target:
        target.describe(facts | {"configuration": configuration})
        for array in arrays:
            target.put(array)
        target.append_all((record, seconds[record.index], pictures.get(record.index)) for record in certified)
    return len(certified)


def _plain(plan: Plan) -> dict[str, Any]:
    """A plan as a configuration holds it."""
    return asdict(plan) | {"radii": list(plan.radii)}


def check_judgeable(configuration: Mapping[str, Any], records: Sequence[Record]) -> None:
    """Refuse certificates that do not follow from their votes."""
    if "memory" in configuration:
        raise SettingError(
            "the certificates of this run were settled by a memory, which rests on more than votes; they cannot be judged "
            "again from the log: certify anew"
        )
    for soundness in (Soundness.MEMORY, Soundness.IMPORTED):
        if any(record.soundness is soundness for record in records):
            raise SettingError(
                f"some certificates of this run are labelled {soundness}, which rests on more than votes; they cannot be "
                "judged again from the log"
            )


def _check_support(voted: Plan, new: Plan) -> None:
    """Refuse what votes that were cast by a plan cannot prove."""
    before, after = estimator_named(voted.estimator), estimator_of(new)
    if before.anytime and not after.anytime:
        able = ", ".join(name for name, kind in ESTIMATORS.items() if kind.anytime)
        raise SettingError(
            f"these votes stopped when {before.title} had seen enough, and {after.title} is wrong on a sample that chose when "
            f"to stop; use one of {able}, or certify anew with --estimator {after.title}"
        )
    if after.randomized and not before.randomized:
        raise SettingError(
            f"{after.title} needs its random number drawn with the votes, and this run has none; certify anew with --estimator "
            f"{after.title}"
        )


def judge_again(record: Record, plan: Plan, shape: Sequence[int], store: Arrays, norm: float | None = None) -> Record:
    """The record of the same votes by another plan, or in another norm."""
    norm = record.norm if norm is None else norm
    selection = Votes(np.array([[record.selection]]), np.array([[record.selection_invalid]]))
    estimation = Votes(np.array([record.estimation]), np.array([record.estimation_invalid]))
    ballot = Ballot(selection, estimation)
    certificate = conclude(
        ballot,
        plan=plan,
        law=law_named(record.law),
        center=np.broadcast_to(0.0, tuple(shape)),  # only its size matters here: a record keeps no center
        scale=scale_of(record, store),
        norm=norm,
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
        norm=norm,
        stopped=record.stopped,
        uniform=record.uniform,
        echo=None if certificate.label is None else record.echo,
    )
