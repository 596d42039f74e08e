"""Reading others' results: the tab-separated logs that this field publishes, as a run labelled ``imported``."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from smoothcert.certificates import Soundness, smoothing_named
from smoothcert.errors import DataError, SettingError, look_up
from smoothcert.maths.geometry import decimal_of
from smoothcert.records import Record
from smoothcert.store import Place, check_free, new_run
from smoothcert.threats import THREATS
from smoothcert.views import View

COLUMNS = ("idx", "label", "predict", "radius", "correct", "time")
FORMATS: dict[str, tuple[str, ...]] = {
    "cohen": COLUMNS,  # Cohen et al. 2019, and most who came after
    "ancer": (*COLUMNS, "radius_proxy"),  # Eiras et al. 2022
}
SIGMA, SCALE = "sigma", "min_sigma"  # the noise of the input, where a log has it: a standard deviation, the law's scale


@dataclass(frozen=True)
class Log:
    """What a log does not say itself, and its reader must: how it was made."""

    sigma: float | None  # standard deviation of one coordinate; a column of the log goes first; None for views
    alpha: float  # 0 where all views were asked
    trials: int
    law: str = "gaussian"  # or views
    norm: float = 2.0
    method: str = ""  # whose noise and network it was; logs of one method have a common envelope over their sigmas
    threat: str | None = None  # the kind of threat that the radii are sizes of

    def __post_init__(self) -> None:
        smoothing = smoothing_named(self.law)
        if isinstance(smoothing, View):
            self._check_views(smoothing)
        else:
            self._check_noise()
        if self.trials < 1:
            raise SettingError(f"n={self.trials} must be at least 1: the votes behind each radius")
        _ = self.scale  # refuses a law without a standard deviation, and views with numbers of their own per coordinate

    def _check_noise(self) -> None:
        if self.threat is not None:
            raise SettingError(f"threat={self.threat} needs views, such as bands or ablation; got noise ({self.law})")
        if self.sigma is None or not 0 < self.sigma < math.inf:
            raise SettingError(f"sigma={self.sigma} must be a finite number above 0")
        if not 0 < self.alpha < 1:
            raise SettingError(f"alpha={self.alpha} must lie between 0 and 1; it is 0 for views that are all asked")
        if not self.norm > 0:
            raise SettingError(f"norm={self.norm} must be above 0: 1, 2, inf or any other p")

    def _check_views(self, view: View) -> None:
        if self.sigma is not None:
            raise SettingError(f"sigma={self.sigma}: {view.name} views have no noise; leave it out")
        if not 0 <= self.alpha < 1 or (self.alpha == 0) != view.complete:
            allowed = "alpha is 0, since all views are asked" if view.complete else "sampled views have one above 0"
            raise SettingError(f"alpha={self.alpha} does not fit {view}: {allowed}")
        if self.threat_kind not in view.threats if self.threat_kind else self.norm not in view.norms:
            raise view.no_certificate(self.threat_kind or f"l{self.norm:g}")

    @property
    def threat_kind(self) -> str | None:
        """What the radii are sizes of; norm 0 is l0."""
        if self.threat is None:
            return "l0" if self.norm == 0 else None
        kind = self.threat.partition(":")[0]
        look_up("threat", kind, THREATS)
        return kind

    @property
    def scale(self) -> float:
        """The units of the radii: the law's scale, or half of the cells of splitting; 1 for sizes."""
        smoothing = smoothing_named(self.law)
        if not isinstance(smoothing, View):
            return smoothing.scale_of(self.sigma or 0.0)
        if smoothing.scale.ndim:
            raise SettingError(f"{smoothing}: a log does not hold numbers for each coordinate; give lam instead")
        return float(smoothing.scale)


def import_log(path: Path, out: Place, kind: str, log: Log, command: str = "") -> int:
    """Read a log into a new run; how many records that makes. Nothing is written if a line is not as it must be."""
    needed = look_up("format", kind, FORMATS)
    check_free(out)
    try:
        content = path.read_bytes()
        text = content.decode()
    except OSError as problem:
        raise DataError(f"cannot read {path}: {problem.strerror}; give a tab-separated log") from problem
    except UnicodeDecodeError as problem:
        raise DataError(f"{path} is not text ({problem.reason}); give a tab-separated log") from problem
    rows = read_log(text.splitlines(), needed, log, str(path))
    records = [record for record, _ in rows]
    facts = {
        "configuration": {
            "imported_from": path.name,
            "sha256": hashlib.sha256(content).hexdigest(),
            "format": kind,
            "law": log.law,
            "tuner": log.method or kind,
            **({} if log.sigma is None else {"sigma": log.sigma}),
            "scale": log.scale,
            "norm": str(0.0 if log.threat_kind else log.norm),
            **({"threat": log.threat_kind} if log.threat_kind else {}),
            "alpha": log.alpha,
            "trials": log.trials,
        },
        "notes": {"command": command},
        "subset": [record.index for record in records],
        "classes": max(max(record.truth or 0, record.label or 0) for record in records) + 1,
    }
    with new_run(out) as store:
        store.describe(facts)
        store.append_all((record, seconds, None) for record, seconds in rows)
    return len(rows)


def read_log(
    lines: Sequence[str], needed: Sequence[str], log: Log, name: str = "the log"
) -> list[tuple[Record, float]]:
    """The records of a log and their seconds, or a DataError that names the line."""
    rows = csv.DictReader(lines, delimiter="\t")
    missing = [column for column in needed if column not in (rows.fieldnames or [])]
    if missing:
        raise DataError(
            f"{name}: the first line has no column {', '.join(missing)}; it must name {', '.join(needed)}, separated by tabs"
        )
    found: dict[int, tuple[Record, float]] = {}
    for row in rows:
        try:
            record = _record(row, log)
            if record.index in found:
                raise ValueError(f"input {record.index} stands in the log twice")
            found[record.index] = record, _seconds(row["time"])
        except (ValueError, TypeError) as problem:  # TypeError: a line that is too short
            raise DataError(
                f"{name}, line {rows.line_num}: {problem}; expected {', '.join(needed)}, separated by tabs"
            ) from problem
    if not found:
        raise DataError(f"{name} has no line after the first; give a log with results")
    return [found[index] for index in sorted(found)]


def _record(row: Mapping[str, str], log: Log) -> Record:
    """One line as a record: what its author says, and nothing of the votes."""
    index, truth, predict, correct = (int(row[column]) for column in ("idx", "label", "predict", "correct"))
    radius = _size(row["radius"], "radius")
    proxy = _size(row["radius_proxy"], "radius_proxy") if "radius_proxy" in row else radius
    smoothing = smoothing_named(log.law)
    scale = log.scale
    if isinstance(smoothing, View):
        if log.threat_kind and radius != int(radius):
            raise ValueError(f"radius is {row['radius']}; the size of a threat is a whole number")
    elif SIGMA in row:
        scale = smoothing.scale_of(_size(row[SIGMA], SIGMA))
    elif SCALE in row:
        scale = _size(row[SCALE], SCALE)  # for uniform noise its half-width, as its author draws it
    label = None if predict == -1 else predict
    if index < 0 or truth < -1 or predict < -1:
        raise ValueError(f"idx {index}, label {truth}, predict {predict}: these are numbers from 0, or -1 for none")
    if correct != int(label is not None and label == truth):
        raise ValueError(f"correct is {correct}, but the label is {truth} and the prediction {predict}")
    if label is None and radius > 0:
        raise ValueError(f"an abstention (predict -1) has radius {radius}; it must be 0")
    if scale == 0:
        raise ValueError("the noise has scale 0")
    return Record(
        index=index,
        truth=None if truth == -1 else truth,
        label=label,
        radius=radius,
        proxy_radius=proxy,
        log_volume=None,
        region_radius=float(decimal_of(radius) / decimal_of(scale)),  # 0.3 / 0.1 is 3
        norm=0.0 if log.threat_kind else log.norm,
        threat=log.threat_kind,
        soundness=Soundness.IMPORTED,
        rule="imported",
        law=str(smoothing),
        scale=scale,
        loc=0.0,
        domain="as its author says",
        alpha=log.alpha,
        lower=0.0,
        upper=None,
        trials=log.trials,
        selection=(),
        selection_invalid=0,
        estimation=((),),
        estimation_invalid=(0,),
        stopped="as its author says",
    )


def _size(text: str, what: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{what} is {text}; it must be a finite number from 0")
    return value


_CLOCK = re.compile(r"(?:(?P<days>\d+) days?, )?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>[\d.]+)")


def _seconds(text: str) -> float:
    """Seconds, from a number of them or from what Python prints for a time span.

    >>> _seconds("0:00:11.5"), _seconds("1 day, 0:01:00"), _seconds("2.5")
    (11.5, 86460.0, 2.5)
    """
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        return _size(text, "time")
    days, hours, minutes, seconds = (float(clock[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    return 86400 * days + 3600 * hours + 60 * minutes + seconds
