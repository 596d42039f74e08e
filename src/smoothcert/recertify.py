"""Certify again from the votes that were kept: another alpha, another bound, another grid, without the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from smoothcert.certificates import Ballot, Soundness, conclude, smoothing_named
from smoothcert.errors import RunError, SettingError, look_up, without_passwords
from smoothcert.estimators import ESTIMATORS, Plan, estimator_named, estimator_of
from smoothcert.records.facts import plan_of
from smoothcert.records.record import Arrays, Record, record_of, scale_of
from smoothcert.store import Place, check_filled, check_free, new_run, open_run
from smoothcert.threats import THREATS, Threat, threat_named
from smoothcert.votes import Votes

CHANGEABLE = ("estimator", "alpha", "radii", "threat")


def recertify(run: Place, out: Place, changes: Mapping[str, Any]) -> int:
    """Judge the stored votes by a changed plan into a new run; how many records that makes.

    ``changes`` may name estimator (with its parameters), alpha and radii, and of votes on views the threat. Looks and votes are what they were: a bound
    that needs all the votes of a run that stopped early is refused, since it would be wrong on a stopped sample. The
    records keep why their votes stopped, and the configuration the plan that they were cast by (``voted``).
    """
    check_free(out)
    for name in changes:
        look_up("setting to judge the votes anew by", name, dict.fromkeys(CHANGEABLE))
    with open_run(run) as store:
        facts, seconds, records = store.facts(), store.seconds(), list(store.records())
        check_filled(run, records)
        if not {"configuration", "shape"} <= facts.keys():
            raise RunError(
                f"{run} does not say how it was certified, so its votes cannot be judged again; certify anew"
            )
        check_judgeable(facts["configuration"], records)
        plans = {name: value for name, value in changes.items() if name != "threat"}
        against = threat_named(changes["threat"]) if "threat" in changes else None
        told, new = _plans(facts["configuration"], plans, exact=records[0].exact)
        certified = [judge_again(record, new, facts["shape"], store, against) for record in records]
        parameters = {record.scale for record in records} | {record.loc for record in records}
        arrays = [store.get(address) for address in parameters if isinstance(address, str)]
        pictures = {index: store.picture(index) for index in store.pictured()}
    configuration = {**facts["configuration"], **told, "recertified_from": without_passwords(str(run))}
    if against is not None:
        configuration |= {"threat": against.name, "norm": "0.0"}
    with new_run(out) as target:
        target.describe(facts | {"configuration": configuration})
        for array in arrays:
            target.put(array)
        target.append_all((record, seconds[record.index], pictures.get(record.index)) for record in certified)
    return len(certified)


def _plans(configuration: Mapping[str, Any], changes: Mapping[str, Any], *, exact: bool) -> tuple[dict[str, Any], Plan]:
    """What a configuration says of the plan that judges, and the plan; complete votes need none, and take no changes."""
    if exact and changes:
        raise SettingError(
            f"all views were asked, so {', '.join(changes)} has no influence: these certificates are exact; what can be changed "
            "is the threat, among those that the views know"
        )
    if exact:
        return {}, Plan()
    voted = plan_of(configuration.get("voted", configuration))
    new = replace(plan_of(configuration), **changes)
    _check_support(voted, new)
    return {**_plain(new), "voted": _plain(voted)}, new


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


def judge_again(
    record: Record, plan: Plan, shape: Sequence[int], store: Arrays, norm: float | Threat | None = None
) -> Record:
    """The record of the same votes by another plan, in another norm or against another threat."""
    if norm is None:
        norm = record.norm if record.threat is None else THREATS[record.threat]()
    selection = Votes(np.array([[record.selection]]), np.array([[record.selection_invalid]]))
    estimation = Votes(np.array([record.estimation]), np.array([record.estimation_invalid]))
    ballot = Ballot(selection, estimation)
    certificate = conclude(
        ballot,
        plan=plan,
        law=smoothing_named(record.law),
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
