"""The curves of tightness: in an empty folder, the file against certified_radius, published rules against other methods."""

import csv
import io
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

import smoothcert.cli
from smoothcert.errors import SettingError
from smoothcert.laws import law_named
from smoothcert.maths.geometry import round_up
from smoothcert.maths.published import pixeldp_gaussian, pixeldp_laplace, renyi_gaussian, yang_pareto
from smoothcert.radius.bracket import Bracket, certified_radius
from smoothcert.report.tightness import PUBLISHED, Curve, Request, curves, draw, even_chances, table

PNG = b"\x89PNG\r\n\x1a\n"
probabilities = st.floats(0.5001, 0.9999)


class Cli:
    """Runs smoothcert curve in this process and keeps what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capfd = monkeypatch, capfd

    def __call__(self, *arguments: object, status: int = 0) -> tuple[str, str]:
        self.monkeypatch.setattr(sys, "argv", ["smoothcert", "curve", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            smoothcert.cli.main()
        printed = self.capfd.readouterr()
        assert int(stop.value.code or 0) == status, printed.err
        return printed.out, " ".join(printed.err.split())


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """The command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("warnings.showwarning", None)
    return Cli(monkeypatch, capfd)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


class TestCommand:
    def test_the_file_holds_certified_radius_exactly(self, cli: Cli, tmp_path: Path) -> None:
        laws = ("gaussian", "laplace")
        given_laws = [word for law in laws for word in ("--noise", law)]
        text, notes = cli(
            *given_laws, "--norms", "1,2", "--dim", 4, "--sigma", 0.5, "--p", "0.95,0.6", "--out", "deep/c"
        )
        assert "curve: deep/c/curve.png" in notes
        assert (tmp_path / "deep/c/curve.png").read_bytes()[:8] == PNG
        assert sorted(path.name for path in (tmp_path / "deep/c").iterdir()) == ["curve.csv", "curve.png"]
        rows = read(tmp_path / "deep/c/curve.csv")
        assert len(rows) == 2 * 2 * 2
        for row in rows:
            found = certified_radius(row["law"], float(row["norm"]), float(row["p"]), 4, sigma=0.5)
            assert (float(row["lower"]), float(row["upper"]), row["rule"]) == (found.lower, found.upper, found.rule)
            assert float(row["tightness"]) == found.tightness
            assert float(row["scale"]) == law_named(row["law"]).scale_of(0.5)
            tight = row["law"] == "gaussian" or (row["law"], row["norm"]) == ("laplace", "1.0")
            assert row["closed_form"] == (row["lower"] if tight else "")
            assert row["estimate"] == ""
        for law in laws:
            assert law in text
        assert "Gaussian l2 (Cohen et al. 2019, Thm 1)" in " ".join(text.split())

    def test_curves_rise_and_lower_stays_below_upper(self, cli: Cli, tmp_path: Path) -> None:
        cli("--noise", "laplace", "--norm", "inf", "--dim", 9, "--points", 4)
        rows = read(tmp_path / "curve.csv")
        p, lower, upper = (np.array([float(row[name]) for row in rows]) for name in ("p", "lower", "upper"))
        assert len(rows) == 4
        assert 0.5 < p[0] < p[-1] == 0.999
        assert (np.diff(p) > 0).all()
        assert (np.diff(lower) > 0).all()
        assert (np.diff(upper) > 0).all()
        assert (lower <= upper).all()
        assert (lower > 0.8 * upper).all()

    def test_gaussian_in_json_by_default_in_l2_at_scale_one(self, cli: Cli) -> None:
        text, _ = cli("--dim", 784, "--p", "0.9", "--json")
        [row] = json.loads(text)
        assert (row["law"], row["norm"], row["dim"], row["scale"], row["p"]) == ("gaussian", 2.0, 784, 1.0, 0.9)
        assert row["lower"] == row["upper"] == row["closed_form"] == certified_radius("gaussian", 2, 0.9, 784).lower
        assert row["lecuyer_2019"] < row["li_2019"] < row["lower"]
        assert row["yang_2020"] is None
        [row] = json.loads(cli("--dim", 784, "--p", "0.9", "--norm", "inf", "--scale", 2, "--json")[0])
        assert row["norm"] == "inf"
        assert math.isclose(row["lower"], 2 * ndtri(0.9) / 28)

    def test_the_estimate_is_seeded_and_marked(self, cli: Cli) -> None:
        asked = ("--noise", "laplace", "--norm", 1, "--dim", 2, "--p", "0.9", "--estimate")
        first, again, other = (
            json.loads(cli(*asked, "--json", "--seed", seed)[0])[0]["estimate"] for seed in (0, 0, 1)
        )
        assert first == again == certified_radius("laplace", 1, 0.9, 2, estimate=True).estimate
        assert first != other
        assert "≈" in cli(*asked)[0]

    def test_one_probability_and_many_norms(self, cli: Cli, tmp_path: Path) -> None:
        cli("--norms", "0.5,1,2,4,inf", "--dim", 16, "--p", "0.9", "--noise", "gaussian", "--noise", "gaussian")
        rows = read(tmp_path / "curve.csv")
        assert [row["norm"] for row in rows] == ["0.5", "1.0", "2.0", "4.0", "inf"]
        assert [float(row["lower"]) / ndtri(0.9) for row in rows] == pytest.approx([1, 1, 1, 0.5, 0.25])
        assert (tmp_path / "curve.png").read_bytes()[:8] == PNG

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--noise", "gausian"), "unknown law 'gausian'; did you mean 'gaussian'?"),
            (("--noise", "pareto:beta=x"), "beta='x' must be a number"),
            (("--p", "0.5,0.9"), "p=0.5 certifies nothing: with one class bounded it must exceed 1/2"),
            (("--p", "1"), "p=1.0 must lie strictly between 0 and 1"),
            (("--p", "high"), "--p 'high' must be numbers"),
            (("--points", 0), "points=0 must be a whole number from 1 to"),
            (("--points", 5, "--p", "0.9"), "both set the probabilities"),
            (("--norm", 0), "norm=0.0 must be a number above 0 or inf"),
            (("--norm", "nan"), "norm=nan must be a number above 0 or inf"),
            (("--norms", "2,0"), "norm=0.0 must be a number above 0 or inf"),
            (("--norms", "2,-1"), "must not be negative"),
            (("--norms", "1,2", "--norm", 2), "both name norms"),
            (("--dim", 0), "dim=0 must be a whole number from 1 up"),
            (("--noise", "cauchy", "--sigma", 1), "the law cauchy has no standard deviation"),
            (("--noise", "pareto:beta=2", "--sigma", 1), "no standard deviation"),
            (("--sigma", 1, "--scale", 1), "give one of them"),
            (("--sigma", 0), "sigma=0.0 must be a finite number above 0"),
            (("--scale", -1), "scale=-1.0 must be a finite number above 0"),
            (("--scale", "inf"), "scale=inf must be a finite number above 0"),
        ],
    )
    def test_mistakes_write_nothing(
        self, cli: Cli, tmp_path: Path, arguments: tuple[object, ...], message: str
    ) -> None:
        _, notes = cli("--dim", 4, *arguments, "--out", "r", status=2)
        assert notes.startswith("error:")
        assert message in notes
        assert not list(tmp_path.iterdir())

    def test_no_dimension_and_no_folder(self, cli: Cli, tmp_path: Path) -> None:
        assert "--dim" in cli(status=2)[1]
        (tmp_path / "taken").write_text("a letter")
        assert "is a file" in cli("--dim", 4, "--out", "taken", status=2)[1]
        assert "cannot be written" in cli("--dim", 4, "--out", "taken/deeper", status=2)[1]
        assert (tmp_path / "taken").read_text() == "a letter"

    def test_without_torch(self, tmp_path: Path) -> None:
        program = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'torch':
            raise ImportError('torch is not for this side')
sys.meta_path.insert(0, Refuse())
sys.argv = ['smoothcert', 'curve', '--dim', '8', '--p', '0.9', '--json']
import smoothcert.cli
smoothcert.cli.main()
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0]["p"] == 0.9


class TestPublished:
    @given(probabilities)
    def test_all_are_looser_than_the_tight_rule(self, p: float) -> None:
        assert 0 < pixeldp_gaussian(p, 1 - p) < renyi_gaussian(p, 1 - p) < ndtri(p)
        assert 0 < pixeldp_laplace(p, 1 - p) < -math.log(2 * (1 - p))

    @pytest.mark.parametrize("beta", [0.5, 3.0])
    def test_pareto_is_the_integral_it_claims(self, beta: float) -> None:
        chances = np.array([0.55, 0.8, 0.99])
        areas = [quad(lambda u: 1 / (1 - u ** (1 + 1 / beta)), 0, 2 * p - 1)[0] / beta for p in chances]
        np.testing.assert_allclose(yang_pareto(beta, chances), areas, rtol=1e-9)
        assert yang_pareto(beta, 0.8) <= certified_radius(f"pareto:beta={beta}", 1, 0.8, 4).lower * (1 + 1e-6)

    def test_pixeldp_is_the_best_private_budget(self) -> None:
        """Over a grid of (ε, δ) that satisfy the condition, none gives more, and some gives nearly as much."""
        for p in (0.6, 0.9, 0.999):
            epsilon, delta = np.meshgrid(np.linspace(0.002, 1, 500), np.geomspace(1e-6, 0.5, 500))
            private = p > np.exp(2 * epsilon) * (1 - p) + (1 + np.exp(epsilon)) * delta
            best = np.where(private, epsilon / np.sqrt(2 * np.log(1.25 / delta)), 0).max()
            assert best <= float(pixeldp_gaussian(p, 1 - p)) <= 1.03 * best

    def test_pixeldp_rests_on_the_privacy_of_the_noise(self) -> None:
        """Within ε / √(2 log(1.25/δ)) the exact δ of Gaussian noise (Balle and Wang 2018) is at most the δ charged."""
        epsilon, delta = np.meshgrid(np.linspace(0.01, 1, 200), np.geomspace(1e-6, 0.5, 200))
        shift = epsilon / np.sqrt(2 * np.log(1.25 / delta))
        exact = ndtr(shift / 2 - epsilon / shift) - np.exp(epsilon) * ndtr(-shift / 2 - epsilon / shift)
        assert (exact <= delta).all()


class TestReport:
    def test_even_chances(self) -> None:
        for number in (1, 20, 50, 51, 1000):
            chances = even_chances(number)
            assert len(set(chances)) == number
            assert list(chances) == sorted(chances)
            assert 0.5 < chances[0] <= chances[-1] == 0.999
        with pytest.raises(SettingError, match="1 to 1000"):
            even_chances(1001)

    def test_rounding_favours_nobody(self) -> None:
        assert round_up(1.2815, 3) == "1.282"
        assert round_up(0.29, 2) == "0.29"
        [curve] = curves(Request((law_named("gaussian"),), (2.0,), 784, (0.9,)))
        text = rendered(curve)
        assert "1.281" in text
        assert "1.282" in text

    def test_an_unknown_upper_radius_and_an_empty_lower_one(self) -> None:
        """A law with dependent coordinates has no upper radius; the table and the figure stand it."""
        brackets = (Bracket(0.0, math.inf, math.inf, "nothing proved"), Bracket(0.2, math.inf, 0.3, "mine"))
        curve = Curve("mine", 2.0, 4, 1.0, (0.6, 0.9), brackets, False, {})
        text = rendered(curve)
        assert "inf" in text
        assert "nothing proved; from p = 0.9 mine" in text
        assert draw([curve])[:8] == PNG

    def test_many_points_are_thinned_in_the_table_only(self) -> None:
        [curve] = curves(Request((law_named("laplace"),), (1.0,), 4, even_chances(30)))
        text = rendered(curve)
        assert "6 of 30 probabilities" in text
        assert len(curve.rows()) == 30
        assert set(PUBLISHED) < set(curve.rows()[0])

    def test_progress_is_told_once_per_radius(self) -> None:
        told: list[int] = []
        laws = (law_named("gaussian"), law_named("laplace"))
        curves(Request(laws, (0.5, 1.0), 4, (0.6, 0.9, 0.99)), advance=lambda: told.append(1))
        assert len(told) == 12


def rendered(curve: Curve) -> str:
    text = io.StringIO()
    Console(file=text, width=160).print(table(curve))
    return text.getvalue()
