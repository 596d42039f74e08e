"""The same votes read as the upper radius and as UniCR's estimate: above what is proved, and never called proved."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from torch import nn

import smoothcert as sc
from smoothcert.certificates import Soundness
from smoothcert.data import ArrayDataset
from smoothcert.estimators.bounds import Bound
from smoothcert.laws import law_named
from smoothcert.radius.theorems import proved_radius
from smoothcert.records import readings
from smoothcert.records.readings import Estimates, reread, upper_radii
from smoothcert.store import open_run

CHANCES = np.array([0.501, 0.6, 0.9, 0.999])


@pytest.mark.parametrize(("law", "norm"), [("gaussian", 2.0), ("laplace", 1.0), ("generalized_normal:beta=3", 2.0)])
def test_nothing_proved_exceeds_the_upper_radius(law: str, norm: float) -> None:
    upper = upper_radii(law, norm, 4)(CHANCES)
    proved = [proved_radius(law_named(law), norm, 4, Bound(float(p), 0.001, 1000)).value for p in CHANCES]
    assert np.all(upper >= proved)
    if law != "generalized_normal:beta=3":
        np.testing.assert_array_equal(upper, proved)


def test_estimates_are_kept_and_met_at_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "estimate_of", lambda law, norm, dim, p: 10.0 * float(ndtri(p)) ** 2)
    asked = Estimates(tmp_path, 2, float(ndtr(2.0)))
    found = asked.radii("laplace", 2, 4)(np.asarray(ndtr([0.0, 0.5, 1.0, 1.5, 2.0])))
    np.testing.assert_allclose(found, [0, 5, 10, 25, 40], atol=1e-9)
    monkeypatch.setattr(readings, "estimate_of", None)  # never asked again
    np.testing.assert_array_equal(asked.radii("laplace", 2, 4)(CHANCES), asked.radii("laplace", 2, 4)(CHANCES))
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes().replace(b"radii", b"radio"))
    monkeypatch.setattr(readings, "estimate_of", lambda law, norm, dim, p: 7.0)
    with pytest.warns(UserWarning, match="is damaged"):
        assert float(asked.radii("laplace", 2, 4)(np.asarray(ndtr([1.0])))[0]) == pytest.approx(7.0)


def test_records_read_otherwise_are_estimates(linear_model: nn.Module, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(6, 1, 28, 28), dtype=np.uint8)
    noise = sc.Noise.isotropic("laplace", 0.7, grid=1 / 255)
    smoother = sc.Smoother(linear_model, noise, 1, estimate=300, estimator="fixed:rivals=rest")
    with open_run(sc.certify_all(smoother, ArrayDataset("noise", pixels), tmp_path / "run")) as store:
        records = list(store.records())
    assert {record.label is None for record in records} == {True, False}
    same = reread(records, upper_radii("laplace", 1, 784))
    np.testing.assert_allclose([record.radius for record in same], [record.radius for record in records])
    assert {record.soundness for record in same} == {Soundness.ESTIMATE}
