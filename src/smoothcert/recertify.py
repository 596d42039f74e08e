"""Certify again from the votes that were kept: another alpha, another bound, a box, without the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from smoothcert.certificates import Ballot, Soundness, conclude, smoothing_named
from smoothcert.errors import InputError, RunError, SettingError, look_up, without_passwords
from smoothcert.estimators import ESTIMATORS, Plan, estimator_named, estimator_of
from smoothcert.laws import Law
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.grid import box_of, with_box
from smoothcert.records.facts import plan_of
from smoothcert.records.record import Arrays, Record, check_classes, record_of, scale_of
from smoothcert.regions import Region
from smoothcert.store import Place, check_filled, check_free, new_run, open_run
from smoothcert.store.pictures import Picture, grid_point_of
from smoothcert.threats import THREATS, Threat, threat_named
from smoothcert.views import View
from smoothcert.votes import Votes

PIXELS = Box(0.0, 1.0)
CHANGEABLE = ("estimator", "alpha", "radii", "box", "threat")


def recertify(run: Place, out: Place, changes: Mapping[str, Any]) -> int:
    """Judge the stored votes by a changed plan into a new run; how many records that makes.

    ``changes`` may name estimator (with its parameters), alpha, radii, of votes on views the threat, and of votes under noise a
    Box that inputs are clipped to from now on: for inputs inside, the votes are those of the classifier that clips. Looks and
    votes are what they were: a bound
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
        plans = {name: value for name, value in changes.items() if name not in ("threat", "box")}
        against = threat_named(changes["threat"]) if "threat" in changes else None
        told, new = _plans(facts["configuration"], plans, exact=records[0].exact)
        box = changes.get("box")
        pictures = {index: store.picture(index) for index in store.pictured()}
        records = records if box is None else _clipped(records, box, pictures)
        certified = [
            judge_again(
                record,
                new,
                facts["shape"],
                store,
                against,
                pictured_center(record, pictures.get(record.index), facts["shape"]),
            )
            for record in records
        ]
        arrays = [store.get(address) for address in {address for record in records for address in record.addresses}]
    configuration = {**facts["configuration"], **told, "recertified_from": without_passwords(str(run))}
    if against is not None:
        configuration |= {"threat": against.name, "norm": "0.0"}
    if box is not None:
        configuration["domain"] = with_box(configuration["domain"], box)
    with new_run(out) as target:
        target.describe(facts | {"configuration": configuration})
        for array in arrays:
            target.put(array)
        target.append_all((record, seconds[record.index], pictures.get(record.index)) for record in certified)
    return len(certified)


def _clipped(records: Sequence[Record], box: Box, pictures: Mapping[int, Picture]) -> list[Record]:
    """The records of the classifier that clips its inputs to the box, where the votes are the same."""
    for record in records:
        law = smoothing_named(record.law)
        if record.front is not None:
            raise SettingError(
                "these votes were cast behind a front, whose numbers no box of inputs holds; leave it out"
            )
        if not (isinstance(law, Law) and law.boxed_radii):
            raise SettingError(f"{law} proves nothing more in a box; leave it out (uniform noise in l1 does)")
        if box_of(record.domain) not in (None, box):
            raise SettingError(f"these votes were cast on inputs clipped to {box_of(record.domain)}, not to {box}")
        picture = pictures.get(record.index)
        if picture is None or not box.holds([picture.low, picture.high]):
            found = "kept no picture" if picture is None else f"reaches from {picture.low:g} to {picture.high:g}"
            raise InputError(
                f"the box {box} must hold every input, and that of index {record.index} {found}; give a box that holds them "
                "all, or certify anew with --set noise.box=LOW..HIGH"
            )
    return [replace(record, domain=with_box(record.domain, box)) for record in records]


def pictured_center(record: Record, picture: Picture | None, shape: Sequence[int]) -> FloatArray | None:
    """The input that was certified, if its volume in the input box was known and its picture shows it exactly."""
    known = picture is not None and record.boxed_proxy_radius is not None and record.domain.startswith("grid 1/255")
    return grid_point_of(picture, shape) if picture is not None and known else None


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
    check_classes("the run", records)
    if any(record.stages for record in records):
        raise SettingError(
            "this run is of a cascade, whose stages were asked as its plan wanted; certify anew by another plan"
        )
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
    record: Record,
    plan: Plan,
    shape: Sequence[int],
    store: Arrays,
    norm: float | Threat | None = None,
    center: FloatArray | None = None,
) -> Record:
    """The record of the same votes by another plan, in another norm or against another threat.

    center: the 8-bit image that was certified, if it is known.
    """
    if norm is None:
        norm = record.norm if record.threat is None else THREATS[record.threat]()
    selection = Votes(np.array([[record.selection]]), np.array([[record.selection_invalid]]))
    estimation = Votes(np.array([record.estimation]), np.array([record.estimation_invalid]))
    ballot = Ballot(selection, estimation)
    matrix = None if record.front is None else store.get(record.front)
    law, scale = smoothing_named(record.law), scale_of(record, store)
    if isinstance(law, View) and not np.array_equal(law.scale, scale):
        raise SettingError(
            f"{law} holds other numbers now than when the votes were cast; restore the file, or certify anew"
        )
    # A record keeps no center; but for volumes in a box, only its size matters.
    somewhere = np.broadcast_to(0.0, tuple(shape)) if center is None else center
    certificate = conclude(
        ballot,
        plan=plan,
        law=law,
        center=somewhere if matrix is None else np.zeros(len(matrix)),
        scale=scale if matrix is None else scale.ravel(),
        norm=norm,
        soundness=record.soundness,
        uniform=record.uniform,
        box=box_of(record.domain),
    )
    if matrix is not None and isinstance(seen := certificate.region, Region):
        region = LinearRegion.behind(somewhere, matrix, scale, seen.radius, seen.norm, record.front_slack)
        certificate = replace(certificate, region=region)
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
        box=None if center is None else PIXELS,
        front=None if record.front is None else (record.front, record.front_slack),
    )
