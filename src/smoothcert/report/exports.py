"""Records as files for other programs."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any

from smoothcert.errors import MissingExtra
from smoothcert.extras import import_extra
from smoothcert.maths.geometry import round_down
from smoothcert.records.record import Record, check_classes
from smoothcert.report.sheets import rows_to_csv


def flat(record: Record, seconds: float) -> dict[str, Any]:
    """One record as plain columns; counts as JSON text."""
    row = dataclasses.asdict(record) | {
        "soundness": record.soundness.value,
        "correct": record.correct,
        "exact": record.exact,
        "seconds": seconds,
    }
    row |= {"scale": str(record.scale), "loc": str(record.loc)}
    return row | {
        name: json.dumps(row[name]) for name in ("selection", "estimation", "estimation_invalid", "intervals", "stages")
    }


def to_csv(records: Sequence[Record], seconds: Sequence[float]) -> bytes:
    """Comma-separated, one line per input, numbers exact."""
    return rows_to_csv([flat(*pair) for pair in zip(records, seconds, strict=True)])


def to_cohen(records: Sequence[Record], seconds: Sequence[float]) -> bytes:
    """The tab-separated log of Cohen et al. (2019): abstentions are -1, unknown truths -1, radii rounded down."""
    check_classes("the run", records)
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    for record, spent in zip(records, seconds, strict=True):
        truth = -1 if record.truth is None else record.truth
        predict = -1 if record.label is None else record.label
        radius = round_down(record.radius, 4)
        lines.append(f"{record.index}\t{truth}\t{predict}\t{radius}\t{int(record.correct)}\t{timedelta(seconds=spent)}")
    return ("\n".join(lines) + "\n").encode()


def to_parquet(records: Sequence[Record], seconds: Sequence[float]) -> bytes:
    """An Apache Parquet file of the same columns as the CSV."""
    arrow, parquet = (import_extra(name, "Parquet files", "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    rows = [flat(*pair) for pair in zip(records, seconds, strict=True)]
    buffer = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def to_frame(rows: Sequence[tuple[Record, float]]) -> Any:
    """A data frame of the same columns, of pandas or else of polars."""
    problems = []
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame([flat(*row) for row in rows])
        except (ImportError, RuntimeError, OSError) as problem:
            problems.append(str(problem))
    raise MissingExtra(
        f"a data frame needs pandas or polars, and neither imports here ({'; '.join(problems)}): pip install 'smoothcert[frames]'"
    )


FORMATS: dict[str, Callable[[Sequence[Record], Sequence[float]], bytes]] = {
    "csv": to_csv,
    "parquet": to_parquet,
    "cohen": to_cohen,
}
