"""The catalogue: the published numbers against what the papers' own words say of them, and settings that exist."""

from collections.abc import Iterator

import pytest

from smoothcert.certificates import Soundness
from smoothcert.config import Settings
from smoothcert.errors import UnknownName
from smoothcert.papers import SCALES, catalogue, entry_named
from smoothcert.papers.catalogue import Part, Row
from smoothcert.papers.measures import is_share
from smoothcert.papers.planning import planned
from smoothcert.registry import split_spec
from smoothcert.sections import Source, read
from smoothcert.tuners import REGISTRY

RUNNABLE = [name for name, entry in catalogue().items() if not entry.reason]


def rows() -> Iterator[tuple[Part, Row]]:
    for entry in catalogue().values():
        for part in entry.parts:
            for row in part.rows:
                yield part, row


def number(name: str, data: str, training: str, method: str, column: str, norm: float | None = None) -> float:
    """A published number by its place."""
    for part in entry_named(name).parts:
        for row in part.rows:
            found = (part.data, row.training.name, row.method.name)
            if found == (data, training, method) and norm in (None, part.norm):
                value = row.published[part.columns.index(column)]
                assert value is not None
                return value
    raise AssertionError(f"no such row in {name}")


def test_every_table_and_figure_is_there() -> None:
    counts = {"ds": (4, 8), "ancer": (5, 15), "unicr": (8, 14)}
    names = [f"{p}-table-{k + 1}" for p, (tables, _) in counts.items() for k in range(tables)]
    names += [f"{p}-figure-{k + 1}" for p, (_, figures) in counts.items() for k in range(figures)]
    names += ["ucan-table-3", "ucan-table-5", "ucan-figure-5"]  # those that the summary of UCAN names
    assert sorted(catalogue()) == sorted(names)
    for entry in catalogue().values():
        assert entry.title
        assert bool(entry.reason) == (not entry.parts and entry.curve is None)


def test_accuracies_never_rise_with_the_radius() -> None:
    for part, row in rows():
        pairs = zip(part.columns, row.published, strict=True)
        known = [value for column, value in pairs if is_share(column) and column[0].isdigit() and value is not None]
        assert known == sorted(known, reverse=True), (part.title, row)
        assert all(0 <= value <= 100 for value in known)


# What ANCER's text says of Table 1, and the theory of both: gains of ACR 13 to 47 %, of the proxy radius 38 to 63 %.
def test_ancer_gains_what_its_text_says() -> None:
    cells = [("cifar10", t) for t in ("cohen", "smoothadv", "macer")] + [
        ("imagenet", t) for t in ("cohen", "smoothadv")
    ]
    for column, least, most in (("ACR", 13, 47), ("proxy ACR", 38, 63)):
        gains = [
            number("ancer-table-1", *cell, "ancer", column) / number("ancer-table-1", *cell, "dd", column) - 1
            for cell in cells
        ]
        assert (round(100 * min(gains)), round(100 * max(gains))) == (least, most)
    at_half = [number("ancer-table-1", data, "cohen", "ancer", "0.5") for data in ("cifar10", "imagenet")]
    assert at_half == [77, 70]
    best = [number("ancer-table-4", "cifar10", "cohen", "ancer", column) for column in ("best radius", "best proxy")]
    assert best == [83, 93]
    seconds = [number("ancer-table-3", "cifar10", "cohen", method, "seconds") for method in ("ancer", "fixed")]
    assert seconds[0] / seconds[1] == pytest.approx(1.5)


# (table, data, from, to, column, gain), each from a sentence of the DS paper.
DS_SENTENCES = [
    ("1", "cifar10", ("cohen", "fixed"), ("cohen", "ds"), "0.50", 7.7),
    ("1", "cifar10", ("cohen", "fixed"), ("cohen", "ds"), "0.75", 9.1),
    ("1", "cifar10", ("cohen", "fixed"), ("cohen", "ds"), "ACR", 0.193),
    ("1", "cifar10", ("cohen", "ds"), ("cohen-ds", "ds"), "0.50", 2.6),
    ("1", "cifar10", ("cohen", "ds"), ("cohen-ds", "ds"), "0.75", 0.9),
    ("1", "cifar10", ("cohen", "fixed"), ("cohen-ds", "ds"), "ACR", 0.173),
    ("1", "imagenet", ("cohen", "fixed"), ("cohen", "ds"), "0.50", 4.6),
    ("1", "imagenet", ("cohen", "fixed"), ("cohen", "ds"), "0.75", 3.2),
    ("1", "imagenet", ("cohen", "fixed"), ("cohen", "ds"), "ACR", 0.159),
    ("1", "imagenet", ("cohen", "ds"), ("cohen-ds", "ds"), "0.50", 4.8),
    ("1", "imagenet", ("cohen", "ds"), ("cohen-ds", "ds"), "0.75", 1.8),
    ("2", "cifar10", ("smoothadv", "fixed"), ("smoothadv", "ds"), "0.50", 5.4),
    ("2", "cifar10", ("smoothadv", "fixed"), ("smoothadv", "ds"), "ACR", 0.118),
    ("2", "cifar10", ("smoothadv", "ds"), ("smoothadv-ds", "ds"), "0.50", 0.7),
    ("2", "cifar10", ("smoothadv", "ds"), ("smoothadv-ds", "ds"), "ACR", 0.013),
    ("2", "cifar10", ("smoothadv", "fixed"), ("smoothadv-ds", "ds"), "0.50", 6.1),
    ("2", "imagenet", ("smoothadv", "fixed"), ("smoothadv", "ds"), "0.50", 2.8),
    ("2", "imagenet", ("smoothadv", "ds"), ("smoothadv-ds", "ds"), "0.50", 1.4),
    ("2", "imagenet", ("smoothadv", "ds"), ("smoothadv-ds", "ds"), "ACR", 0.069),
    ("2", "imagenet", ("smoothadv", "fixed"), ("smoothadv-ds", "ds"), "0.50", 4.2),
    ("3", "cifar10", ("macer", "fixed"), ("macer", "ds8"), "0.25", 7.4),
    ("3", "cifar10", ("macer", "fixed"), ("macer", "ds8"), "0.50", 8.7),
    ("3", "cifar10", ("macer", "fixed"), ("macer", "ds8"), "ACR", 0.139),
    ("4", "cifar10", ("yang", "fixed"), ("yang", "ds"), "0.5", 7),
    ("4", "imagenet", ("yang", "fixed"), ("yang", "ds"), "0.5", 3),
]


@pytest.mark.parametrize(("table", "data", "first", "second", "column", "gain"), DS_SENTENCES)
def test_ds_gains_what_its_text_says(
    table: str, data: str, first: tuple[str, str], second: tuple[str, str], column: str, gain: float
) -> None:
    name = f"ds-table-{table}"
    assert number(name, data, *second, column) - number(name, data, *first, column) == pytest.approx(gain, abs=1e-9)


def test_the_two_papers_print_the_same_l1_rows() -> None:
    ours = {p.data: [r.published[:8] for r in p.rows] for p in entry_named("ds-table-4").parts}
    theirs = {p.data: [r.published[:8] for r in p.rows[:2]] for p in entry_named("ancer-table-2").parts}
    assert ours == theirs


@pytest.mark.parametrize(
    ("name", "data", "gains"),
    [("unicr-table-4", "cifar10", (25.34, 32.44, 38.78)), ("unicr-table-5", "imagenet", (8.75, 4.55, 14.81))],
)
def test_unicr_gains_what_its_text_says(name: str, data: str, gains: tuple[float, ...]) -> None:
    for part, gain in zip(entry_named(name).parts, gains, strict=True):
        base, ours = (row.published[-1] for row in part.rows)
        assert base is not None
        assert ours is not None
        assert (part.data, round(100 * (ours / base - 1), 1)) == (data, pytest.approx(gain, abs=0.06))


def test_unicr_finds_the_best_beta_where_its_text_says() -> None:
    best = []
    for part in entry_named("unicr-table-2").parts:
        scores = {row.method.title: row.published[0] or 0.0 for row in part.rows}
        assert len(scores) == 14
        best.append(max(scores, key=scores.__getitem__))
    assert best == ["beta = 0.75", "beta = 2.25", "beta = 2.25"]


def test_noise_chosen_per_input_is_never_claimed_to_be_global() -> None:
    for _, row in rows():
        tuner = REGISTRY.find(split_spec(str(row.method.settings["votes.method"]))[0])
        settled = "votes.memory" in row.method.settings
        if tuner.reads_input:
            allowed = {Soundness.MEMORY} if settled else {Soundness.FROZEN, Soundness.ESTIMATE}
        else:
            allowed = {Soundness.GLOBAL, Soundness.ESTIMATE}
        assert row.method.claim in allowed, row.method
    claims = {row.method.claim for part, row in rows()}
    assert claims == {Soundness.GLOBAL, Soundness.MEMORY, Soundness.FROZEN, Soundness.ESTIMATE}


def test_every_entry_has_valid_settings_at_every_scale() -> None:
    told: dict[str, Source] = {}
    for name in RUNNABLE:
        entry = entry_named(name)
        for scale in SCALES:
            if entry.parts and scale != "smoke" and all(part.data == "imagenet" for part in entry.parts):
                continue
            for run in (run for block in planned(entry, scale) for own in block.runs.values() for run in own):
                for folder, source in ((run.folder, run.settings), (run.network.folder, run.network.settings)):
                    # Networks and runs that entries share by their folder are the same ones.
                    assert told.setdefault(folder, source) == source
    assert len(told) > 300
    for source in told.values():
        settings = read(Settings, source)
        assert "votes.alpha" not in source or settings.votes.estimator == "fixed:rivals=rest"


def test_unknown_names() -> None:
    with pytest.raises(UnknownName, match="did you mean 'ancer-table-1'"):
        entry_named("ancer-tabel-1")
    with pytest.raises(UnknownName, match=r"unknown scale 'tiny'.*smoke, small, paper"):
        planned(entry_named("ancer-table-1"), "tiny")
