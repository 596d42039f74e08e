"""The table of steps has exactly the masses of the law on the grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from smoothcert.laws import LAWS, law_named
from smoothcert.laws.draws import NumpyDraws
from smoothcert.maths.steps import SIGN, StepTable

INVERTED = [name for name, law in LAWS.items() if law.inverts]


@pytest.mark.parametrize("scale", [0.3, 2.0, 25.5, 63.75, 255.0])
@pytest.mark.parametrize("name", INVERTED)
def test_decided_cells_and_what_is_left_add_up_to_the_law(name: str, scale: float) -> None:
    """Exact, no chance: P(k) lies between the decided cells of k and these with all undecided ones that may become k."""
    law = law_named(name)
    table = StepTable.of(law.quantile, scale)
    assert table is not None
    decided = table.steps[~np.isnan(table.steps)]
    values, counts = np.unique(np.abs(decided), return_counts=True)
    low = np.asarray(law.tail(np.maximum((values - 0.5) / scale, 0.0)), dtype=float)
    masses = 2 * (low - np.asarray(law.tail((values + 0.5) / scale), dtype=float))
    masses[values == 0] = 1 - 2 * float(law.tail(0.5 / scale))
    shares = counts / (2 * SIGN)
    assert (shares <= masses + 1e-12).all()
    assert (masses <= shares + 2 / SIGN + 1e-12).all()


@pytest.mark.parametrize("name", INVERTED)
def test_draws_have_the_masses_of_the_law(name: str) -> None:
    """Chi-squared on a million draws at a scale where a cell in thirty is undecided; false alarm 1e-6."""
    law, scale, number = law_named(name), 255.0, 1_000_000
    table = StepTable.of(law.quantile, scale)
    assert table is not None
    source, drawn = NumpyDraws(np.random.Generator(np.random.SFC64(3))), np.empty(number, dtype=np.float32)
    table.fill(source.bits(number), drawn, lambda places: source.uniform(places.shape))
    assert np.isfinite(drawn).all()
    edges = np.arange(-400, 401, 5) - 0.5
    tails = np.concatenate([[1.0], np.asarray(law.tail(edges / scale), dtype=float), [0.0]])
    counts = np.histogram(drawn, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    expected = -np.diff(tails) * number
    score = float((np.square(counts - expected) / expected).sum())
    assert chi2.sf(score, len(counts) - 1) > 1e-6
    far = int((np.abs(drawn) > scale * float(-law.quantile(np.array(2.0**-17)))).sum())  # inside the outermost cell
    assert abs(far - number * 2.0**-16) < 6 * math.sqrt(number * 2.0**-16)


def test_a_draw_is_the_law_inverted() -> None:
    """Number by number, against the quantile at the same place."""
    law, scale = law_named("gaussian"), 63.75
    table = StepTable.of(law.quantile, scale)
    assert table is not None
    bits = np.arange(2 * SIGN, dtype=np.uint32).astype(np.uint16)
    drawn = np.empty(len(bits), dtype=np.float32)
    table.fill(bits, drawn, lambda places: np.full(places.shape, 0.25))
    tail = ((bits & (SIGN - 1)) + 0.25) / SIGN
    sign = np.where(bits & SIGN, -1.0, 1.0)
    assert np.array_equal(drawn, sign * np.rint(-scale * law.quantile(tail / 2)))
