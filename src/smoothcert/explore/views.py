"""What the page shows: records, points and pictures as plain data, certified numbers rounded down."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import smoothcert
from smoothcert.errors import InputError
from smoothcert.estimators import estimator_named
from smoothcert.explore.slices import VOTES, ZOOMS
from smoothcert.explore.specimen import Answer, Specimen
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import digits_of, p_norm, round_down
from smoothcert.recertify import judge_again
from smoothcert.records.record import Record
from smoothcert.regions import Region
from smoothcert.report.about import class_names
from smoothcert.report.fairness import BY_CHANCE, MEANING
from smoothcert.report.marks import Marks
from smoothcert.report.page import line_of, run_of
from smoothcert.report.pictures import scale_map, uri
from smoothcert.report.runs import Run
from smoothcert.sight import Sight
from smoothcert.store import open_run
from smoothcert.store.pictures import picture_of
from smoothcert.threats import ReplacedRegion, Threat, layout

COPIES = 12  # noisy copies shown


def overview(run: Run, *, reads_input: bool) -> dict[str, Any]:
    """The table of all inputs, with the addresses of their pictures, and how the run was made."""
    records = [record for line in run.lines for record in line.records]
    with open_run(run.place) as store:
        pictured = run.indices & set(store.pictured())
    marks = Marks(run).by_index
    drawable = len(run.facts.get("shape", [])) in (2, 3)
    mapped = [record.index for record in records if drawable and isinstance(record.scale, str) and record.front is None]
    return {
        "version": smoothcert.__version__,
        "lines": [line_of(line, position, None, marks) for position, line in enumerate(run.lines)],
        "class_names": class_names([run]),
        "run": run_of(run),
        "labels": {line.soundness.value: MEANING[line.soundness] for line in run.lines},
        "votes": VOTES,
        "zooms": ZOOMS,
        "reads_input": reads_input,
        "pictures": {
            "inputs": {str(index): f"picture/{index}" for index in pictured},
            "maps": {run.name: {str(index): str(index) for index in mapped}},
            "scales": {str(index): {"picture": f"map/{index}", "low": "", "high": ""} for index in mapped},
        },
    }


def stored_picture(run: Run, index: int) -> bytes:
    """The picture that was kept of an input, as a PNG."""
    with open_run(run.place) as store:
        return _png(uri(store.picture(index)))


def stored_map(run: Run, record: Record) -> bytes:
    """The scale of the noise per pixel, as a PNG."""
    if not isinstance(record.scale, str) or record.front is not None:
        raise InputError(f"input {record.index} has the same noise in every coordinate, so there is no map of it")
    with open_run(run.place) as store:
        return _png(scale_map(store.get(record.scale), run.facts["shape"])["picture"])


def input_view(specimen: Specimen) -> dict[str, Any]:
    """All about one input: certificate, votes, pictures, noisy copies, noise map per channel."""
    record, region = specimen.record, specimen.region
    digits = digits_of(record.extent)
    copies, answers = specimen.copies(COPIES)
    front = specimen.smoother.front
    given = copies.numpy() if front is None else front.decoded(copies.numpy())
    shown = [_picture(_clipped(copy, specimen.center)) for copy in given]
    return {
        "index": record.index,
        "truth": record.truth,
        "label": record.label,
        "leader": record.leader,
        "soundness": record.soundness.value,
        "meaning": MEANING[record.soundness].removesuffix(BY_CHANCE if record.exact else ""),
        "rule": record.rule,
        "norm": f"l{record.norm:g}",
        "law": record.law,
        "radius": round_down(record.radius, digits),
        "proxy": None if record.proxy_radius is None else round_down(record.proxy_radius, digits),
        "boxed": None if record.boxed_proxy_radius is None else round_down(record.boxed_proxy_radius, digits),
        "gauge": region.radius if isinstance(region, Region) else None,
        "exact": record.exact,
        "views": isinstance(specimen.noise, Sight),
        "threat": _threat(specimen),
        "lower": record.lower,
        "lower_words": round_down(record.lower, 5),
        "upper": record.upper,
        "alpha": record.alpha,
        "counts": list(record.estimation[-1]),
        "invalid": record.estimation_invalid[-1],
        "trials": record.trials,
        "shape": list(specimen.shape),
        "grid": specimen.smoother.points_lie[0],
        "picture": _picture(specimen.center),
        "copies": [{"picture": picture, "answer": answer} for picture, answer in zip(shown, answers, strict=True)],
        "maps": _maps(specimen.scale),
        "scale": _quantiles(specimen.scale),
        "front": _front(specimen),
        "drawable": len(specimen.shape) in (2, 3),
        "reach": None if region is None else region.inner_radius,
        "looks": looks_of(specimen, digits),
        "stopped": record.stopped,
    }


def looks_of(specimen: Specimen, digits: int) -> list[dict[str, Any]]:
    """The bound and the radius as the votes came in, look by look; the last alone where a bound needs all the votes."""
    record, smoother = specimen.record, specimen.smoother
    if record.exact:  # every view was asked: nothing arrived bit by bit
        return []
    anytime = estimator_named(smoother.plan.estimator).anytime
    found = []
    for look in range(1, len(record.estimation) + 1) if anytime else [len(record.estimation)]:
        counts, invalid = record.estimation[:look], record.estimation_invalid[:look]
        so_far = replace(record, estimation=counts, estimation_invalid=invalid)
        judged = judge_again(so_far, smoother.plan, specimen.shape, specimen)
        radius = None if judged.label is None else float(round_down(judged.radius, digits))
        found.append({"votes": judged.trials, "lower": float(round_down(judged.lower, 6)), "radius": radius})
    return found


def point_view(specimen: Specimen, place: FloatArray, answer: Answer, promised: int | None) -> dict[str, Any]:
    """Where a point lies, exactly, and what was answered there."""
    region, offset = specimen.region, (place - specimen.center).ravel()
    return {
        "inside": None if region is None else region.contains(place),
        "part": region.gauge(place) / region.radius if isinstance(region, Region) and region.radius > 0 else None,
        "replaced": _replaced(specimen, place),
        "distance": float(p_norm(offset, specimen.record.norm or 1.0)),
        "moved": int(np.count_nonzero(offset)),
        "outside": _outside(place, specimen.center),
        "label": answer.label,
        "counts": answer.counts,
        "invalid": answer.invalid,
        "promised": promised,
        "picture": _picture(_clipped(place, specimen.center)),
    }


def drawn_offset(specimen: Specimen, drawing: Sequence[float], channel: int | None, far: float) -> FloatArray:
    """A drawing of -1…1 per pixel, on one channel or on all, as a perturbation ``far`` high."""
    shape = specimen.shape if len(specimen.shape) == 3 else (1, *specimen.shape)
    if len(shape) != 3 or len(drawing) != shape[1] * shape[2]:
        raise InputError(f"a drawing needs one number per pixel of an input of shape {specimen.shape}")
    offset = np.zeros(shape)
    offset[slice(None) if channel is None else channel] = np.asarray(drawing, dtype=float).reshape(shape[1:])
    return far * offset.ravel()


def replaced_offset(specimen: Specimen, places: Sequence[int], value: float) -> FloatArray:
    """One value written to these places, counted row by row, in all channels."""
    room = layout(specimen.shape)
    where = np.zeros(int(np.prod(room)), dtype=bool)
    where[list(places)] = True
    return np.where(where.reshape(room), value - specimen.center, 0.0).ravel()


def _threat(specimen: Specimen) -> dict[str, Any] | None:
    """What the input is certified against, where that is no norm: how much of it, and the places of an input."""
    threat, region = specimen.smoother.aim.against, specimen.region
    if not isinstance(threat, Threat):
        return None
    size = region.size if isinstance(region, ReplacedRegion) else 0
    return {
        "name": threat.name,
        "measure": threat.measure,
        "size": size,
        "words": threat.resized(size).words,
        "most": threat.most(specimen.shape),
        "room": list(layout(specimen.shape)),
    }


def _front(specimen: Specimen) -> dict[str, Any] | None:
    """Which numbers of the input the noise is laid on, its scale there, and the plain balls of every norm in the region."""
    front, region = specimen.smoother.front, specimen.region
    if front is None:
        return None
    norms = {"l1": 1.0, "l2": 2.0, "l∞": math.inf}
    balls = {name: region.inner_radius_in(p) for name, p in norms.items()} if isinstance(region, LinearRegion) else {}
    return {
        "name": front.name,
        "numbers": len(front.matrix),
        "scale": _quantiles(specimen.noise.scale.cpu().numpy()),
        "boxed": front.box is not None,
        "balls": [f"{round_down(radius, 4)} ({name})" for name, radius in balls.items()],
    }


def _quantiles(scale: FloatArray) -> list[float]:
    """The least, the median and the largest."""
    return [float(value) for value in np.quantile(scale, [0, 0.5, 1])]


def _replaced(specimen: Specimen, place: FloatArray) -> dict[str, Any] | None:
    """Which places of a point differ from the input, and the least size of the threat that can do that."""
    threat = specimen.smoother.aim.against
    if not isinstance(threat, Threat):
        return None
    places = ReplacedRegion(specimen.center, threat).replaced(place)
    size = threat.needed(places)
    return {"places": np.flatnonzero(places).tolist(), "size": size, "words": threat.resized(size).words}


def _maps(scale: FloatArray) -> list[dict[str, str]]:
    """The noise per pixel, a map for every channel; none for inputs that are no images, or all alike."""
    if scale.ndim not in (2, 3) or scale.min() == scale.max():
        return []
    channels = scale if scale.ndim == 3 else scale[None]
    return [scale_map(channel, channel.shape) for channel in channels[:8]]


def _picture(values: FloatArray) -> str | None:
    picture = picture_of(values)
    return None if picture is None else uri(picture)


def _clipped(values: FloatArray, center: FloatArray) -> FloatArray:
    """For the eye only: images stay within their range."""
    return np.clip(values, 0.0, 1.0) if center.min() >= 0 and center.max() <= 1 else values


def _outside(place: FloatArray, center: FloatArray) -> int | None:
    """How many numbers of a point lie outside [0, 1], where its input lies inside; None where it does not."""
    if center.min() < 0 or center.max() > 1:
        return None
    return int(np.count_nonzero((place < 0) | (place > 1)))


def _png(address: str) -> bytes:
    return base64.b64decode(address.partition(",")[2])
