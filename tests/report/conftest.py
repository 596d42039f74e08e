"""Runs made of records, without a model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smoothcert.records.record import Record
from smoothcert.store import SqliteStore
from smoothcert.store.pictures import picture_of
from smoothcert.testing.records import RECORD

BASE = replace(RECORD, rule="Gaussian l2 (Cohen et al. 2019, Thm 1)", domain="grid 1/255")
SHAPE = (1, 8, 8)


@pytest.fixture
def record() -> Callable[..., Record]:
    """record(index, **changes)."""
    return lambda index, **changes: replace(BASE, index=index, **changes)


@pytest.fixture
def some(record: Callable[..., Record]) -> Callable[..., list[Record]]:
    """some(number, **changes): records of two classes, right, wrong and abstaining, with radii up to about two."""

    def make(number: int, **changes: Any) -> list[Record]:
        made = []
        for index in range(number):
            draw = np.random.default_rng([number, index])
            radius = float(draw.gamma(3.0, 0.2))
            label = None if index % 10 == 9 else 1 - index % 2 if index % 7 == 6 else index % 2
            size = 0.0 if label is None else radius
            values = {"radius": size, "proxy_radius": 1.5 * size, "region_radius": 2 * size}
            values |= {
                "truth": index % 2,
                "label": label,
                "lower": float(draw.beta(9, 1)),
                "trials": 200 * (1 + index % 5),
                "echo": None if label is None else 0.5 if index % 8 == 3 else 0.025,
            }
            made.append(record(index, **values | changes))
        return made

    return make


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """write_run(name, records, ...): a run directory with pictures, a command and a configuration."""

    def write(
        name: str,
        records: Sequence[Record],
        *,
        pictures: bool = True,
        maps: bool = False,
        data: str | None = "d" * 64,
        **configuration: Any,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        values = {
            "alpha": 0.001,
            "trials": 1000,
            "estimator": "fixed",
            "radii": [],
            "block": 200,
            "select": 100,
            "shared_noise": False,
            "seed": 0,
            "tuner": "fixed",
            "model": "m" * 64,
        }
        values |= configuration | ({} if data is None else {"data": data})
        with SqliteStore(folder) as store:
            store.describe(
                {
                    "configuration": values,
                    "notes": {"command": f"smoothcert certify --out {name}", "settings": '[data]\nsource = "digits"\n'},
                    "subset": [one.index for one in records],
                    "classes": 2,
                    "shape": list(SHAPE),
                }
            )
            draw = np.random.default_rng(0)
            scales = [store.put(draw.uniform(0.1, 0.9, SHAPE)) for _ in range(16 if maps else 0)]
            rows = []
            for one in records:
                noisy = replace(one, scale=scales[one.index % 16]) if maps else one
                rows.append((noisy, 0.25, picture_of(draw.uniform(size=SHAPE)) if pictures else None))
            store.append_all(rows)
        return folder

    return write
