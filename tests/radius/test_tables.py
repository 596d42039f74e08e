"""Tables: steps in the safe direction, monotone, quick, and rebuilt when the file is damaged."""

import math
import time

import numpy as np
import pytest
from scipy.special import ndtri

from smoothcert.errors import SettingError
from smoothcert.laws import Law, law_named
from smoothcert.radius.bracket import Engines, brackets, certified_radius
from smoothcert.radius.tables import (
    LARGEST_P,
    TABLE_VERSION,
    RadiusTable,
    TableCache,
    build_table,
    file_name,
    table_nodes,
)


@pytest.fixture(scope="module")
def table() -> RadiusTable:
    return build_table("hyperbolic_secant", 2, 784)


def test_nodes() -> None:
    nodes = table_nodes()
    assert nodes[-1] == pytest.approx(LARGEST_P, rel=1e-12)
    places = ndtri(nodes)
    steps = np.diff(places)
    assert np.all(steps <= np.minimum(0.0051 * places[:-1], 0.0101))
    assert nodes[0] < 0.5001


def test_the_table_brackets_the_bracket(table: RadiusTable) -> None:
    for p in (0.6, 0.9, 0.99):
        found = certified_radius("hyperbolic_secant", 2, p, 784)
        assert table.certified(p) <= found.lower * (1 + 1e-9)
        assert table.certified(p) >= 0.99 * found.lower
        assert table.highest(p) >= found.upper * (1 - 1e-3)
        assert table.highest(p) <= 1.05 * found.upper
        assert table.rule(p)


@pytest.mark.parametrize(("law", "norm", "dim"), [("generalized_normal:beta=0.5", 2, 10), ("laplace_gaussian", 1, 4)])
def test_certificates_and_questions_have_one_source(law: str, norm: float, dim: int) -> None:
    """What certify looks up is what certified_radius says: never more, and less by a step of one per cent at most."""
    table = build_table(law, norm, dim)
    chances = [0.51, 0.6, 0.99]
    together = brackets(Engines(law_named(law), dim), norm, chances)
    for p, found in zip(chances, together, strict=True):
        assert 0.99 * found.lower <= table.certified(p) <= found.lower * (1 + 1e-9)
        assert found.upper * (1 - 1e-3) <= table.highest(p) <= 1.1 * found.upper
    assert certified_radius(law, norm, 0.51, dim).lower == pytest.approx(together[0].lower, rel=1e-3)


def test_monotone_and_ordered(table: RadiusTable) -> None:
    assert np.all(np.diff(table.lower) >= 0)
    assert np.all(np.diff(table.upper) >= 0)
    assert np.all(table.lower <= table.upper)


def test_steps_go_down_for_the_certified_radius_and_up_for_the_other() -> None:
    table = RadiusTable(
        np.array([0.6, 0.8]), np.array([1.0, 2.0]), np.array([1.5, 3.0]), ("a", "b"), np.array([0.0, 1.0])
    )
    assert [table.certified(p) for p in (0.55, 0.6, 0.79, 0.8, 0.99)] == [0.0, 1.0, 1.0, 2.0, 2.0]
    assert [table.highest(p) for p in (0.55, 0.6, 0.61, 0.8, 0.81)] == [1.5, 1.5, 3.0, 3.0, math.inf]
    assert [table.rule(p) for p in (0.55, 0.7, 0.9)] == ["nothing proved", "a", "b"]


def test_interpolation_would_overstate() -> None:
    """The Laplace l1 radius is convex in p: between two nodes the chord lies above it."""
    table = build_table("laplace", 1, 10)
    nodes = table.nodes[300:302]
    middle = float(nodes.mean())
    exact = -math.log(2 * (1 - middle))
    assert float(np.interp(middle, table.nodes, table.lower)) > exact >= table.certified(middle)


def test_exact_rules_fill_both_columns() -> None:
    table = build_table("gaussian", math.inf, 3072)
    np.testing.assert_array_equal(table.lower, table.upper)


def test_look_ups_are_quick(table: RadiusTable) -> None:
    table.certified(0.9)
    start = time.perf_counter()
    for _ in range(2000):
        table.certified(0.93)
    assert (time.perf_counter() - start) / 2000 < 20e-6


def test_large_dimensions_build_in_seconds() -> None:
    start = time.process_time()
    table = build_table("laplace", 2, 150_528)
    assert time.process_time() - start < 10.0  # 2.5 s on an idle core
    assert table.highest(0.9) / table.certified(0.9) < 1.35


def test_the_cache_keeps_files_whole(tmp_path) -> None:
    cache = TableCache(tmp_path)
    first = cache.get("laplace", 1, 10)
    assert cache.get("laplace", 1, 10) is first
    (path,) = tmp_path.iterdir()
    assert f"-v{TABLE_VERSION}-" in path.name
    again = TableCache(tmp_path).get("laplace", 1, 10)
    np.testing.assert_array_equal(again.lower, first.lower)
    assert again.rules == first.rules


@pytest.mark.parametrize("damage", ["empty", "other", "short", 5, 40, 5_000, 60_000, -2])
def test_a_damaged_file_is_rebuilt(tmp_path, damage: str | int) -> None:
    """Also by a single bit of its checksum, its head, its numbers or its end."""
    first = TableCache(tmp_path).get("laplace", 1, 10)
    (path,) = tmp_path.iterdir()
    whole = bytearray(path.read_bytes())
    if isinstance(damage, int):
        whole[damage] ^= 0x10
    path.write_bytes({"empty": b"", "other": b"not a table", "short": whole[:-100]}.get(damage, whole))
    with pytest.warns(UserWarning, match="is damaged"):
        again = TableCache(tmp_path).get("laplace", 1, 10)
    np.testing.assert_array_equal(again.lower, first.lower)
    assert len(list(tmp_path.iterdir())) == 1
    np.testing.assert_array_equal(TableCache(tmp_path).get("laplace", 1, 10).upper, first.upper)


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert TableCache(blocked).get("laplace", 1, 10).certified(0.9) > 1.5


def test_namesakes_have_their_own_files() -> None:
    class Mine(Law):
        name = "gaussian"

        def sample(self, shape, draws):
            return draws.normal(shape)

        def log_prob(self, z):
            return law_named("laplace").log_prob(z)

    names = {file_name(law, 2.0, 10) for law in (law_named("gaussian"), Mine(), law_named("laplace"))}
    assert len(names) == 3
    assert file_name(law_named("gaussian"), 2.0, 10) != file_name(law_named("gaussian"), 2.0, 11)


def test_dependent_laws_have_no_table() -> None:
    class Ball(Law):
        independent = False

        def sample(self, shape, draws):
            return draws.normal(shape)

        def log_prob(self, z):
            return -np.linalg.norm(z, axis=-1)

    with pytest.raises(SettingError, match="no table"):
        build_table(Ball(), 2, 10)
