"""Every setting is declared once, and has a place: a flag, a parameter of a plug-in, or a line of run.toml."""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from inspect import get_annotations
from typing import Any, get_type_hints

import pytest
import typer.main

import smoothcert.cli
from smoothcert.cli.list_ import KINDS
from smoothcert.config import Settings
from smoothcert.registry import Registry, parameters, setting_of
from smoothcert.sections import from_toml, places, read, write

# Every option that certify had, and where it is said now: a flag, a path, or kind:member:parameter.
HOMES = {
    **{
        flag: flag
        for flag in (
            *("--out", "--config", "--set", "--model", "--weights", "--mean", "--std", "--data", "--limit", "--skip"),
            *("--indices", "--noise", "--sigma", "--scale", "--grid", "--norm", "--method", "--memory", "--select"),
            *("--estimate", "-n", "--alpha", "--estimator", "--radii", "--seed", "--check", "--no-check", "--block"),
            *("--device", "--shared-noise", "--own-noise"),
        )
    },
    "--identity": "model.identity",
    "--loc": "noise.loc",
    "--rows": "engine.rows",
    "--workers": "engine.workers",
    "--own-randomness": "votes.own_randomness",
    "--tolerance": "estimators:sequential:tolerance",
    "--rivals": "estimators:sequential:rivals",
    "--tune-steps": "methods:ancer:steps",
    "--tune-draws": "methods:ancer:draws",
    "--step-size": "methods:ancer:step_size",
    "--kappa": "methods:ancer:kappa",
    "--tune-votes": "methods:hill_climb:votes",
    "--largest": "methods:ancer:largest",
    "--tuned": "methods:reuse:run",
    "--pattern": "methods:pattern:source",
    "--generator": "methods:dataset:generator",
    "--root": "data:cifar10:root",
    "--split": "data:cifar10:split",
    "--download": "data:mnist:download",
    "--size": "data:folder:size",
    "--crop": "data:folder:crop",
    "--classes": "data:folder:classes",
    "--channels-last": "runtimes:torch:channels_last",
    "--precision": "runtimes:torch:precision",
    "--compiled": "runtimes:compiled:precision",
}


def registry(kind: str) -> Registry[Any]:
    module, _, name = KINDS[kind][0].partition(":")
    found = getattr(import_module(module), name)
    assert isinstance(found, Registry)
    return found


def options(command: str) -> set[str]:
    """How the options of a command may be written, --help aside."""
    found = typer.main.get_command(smoothcert.cli.app).commands[command].params  # type: ignore[attr-defined]
    return {name for each in found for name in (*each.opts, *each.secondary_opts) if name != "--help"}


# What the first thirty had no place for.
LATER = (
    *("help", "dry_run", "json", "store", "put", "data__shard", "votes__threat", "task__kind", "model__cascade"),
    "noise__front",
)


def test_certify_has_at_most_thirty_options_beside_later_ones() -> None:
    found = typer.main.get_command(smoothcert.cli.app).commands["certify"].params  # type: ignore[attr-defined]
    assert len([each for each in found if each.name not in LATER]) <= 30


@pytest.mark.parametrize("flag", HOMES)
def test_every_option_of_old_has_a_place(flag: str) -> None:
    home = HOMES[flag]
    if home.startswith("-"):
        assert home in options("certify")
    elif ":" in home:
        kind, member, parameter = home.split(":")
        assert parameter in parameters(registry(kind).find(member))
        assert flag not in options("certify")
    else:
        place = places(Settings)[home]
        assert place.declared.flag is None
        assert flag not in options("certify")


def declarations(kinds: Iterable[type]) -> Counter[str]:
    """In how many classes, of these and those that they inherit from, each setting is declared."""
    classes = {base for kind in kinds for base in kind.__mro__ if dataclasses.is_dataclass(base)}
    return Counter(name for each in classes for name in get_annotations(each) if name in settings_of(each))


def settings_of(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind) if "setting" in field.metadata}


def test_no_setting_is_declared_twice() -> None:
    """Votes and training have a seed and a device each; a model, data and a generator have a source each."""
    declared = declarations(get_type_hints(Settings).values())
    assert declared["tolerance"] == 0
    assert {name: count for name, count in declared.items() if count > 1} == {"seed": 2, "device": 2, "source": 3}


@pytest.mark.parametrize("kind", ["estimators", "runtimes", "data"])
def test_a_parameter_that_members_share_is_inherited(kind: str) -> None:
    """tolerance, precision or split stand in one class, whichever members have them; path is of folders, files, Zarr and the hub."""
    declared = declarations(registry(kind).members.values())
    assert {name: count for name, count in declared.items() if count > 1} == (
        {"path": 4, "label": 2} if kind == "data" else {}
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "models"])
def test_every_parameter_says_what_it_is(kind: str) -> None:
    found = registry(kind)
    for name in found.members:
        for field in parameters(found.find(name)).values():
            assert setting_of(field).help, f"{kind} {name}: {field.name} has no help"


def test_every_setting_says_what_it_is() -> None:
    for path, place in places(Settings).items():
        assert place.declared.help, path


def test_the_settings_of_a_run_read_back() -> None:
    given = {"model.mean": "0.1,0.2", "noise.scale": 'a\\b"c.npy', "noise.grid": "1/255", "votes.norm": "inf"}
    settings = read(Settings, given)
    assert read(Settings, from_toml(write(settings))) == settings
    assert (settings.model.mean, settings.noise.grid) == ((0.1, 0.2), 1 / 255)


def test_defaults_are_those_of_the_literature() -> None:
    votes = read(Settings).votes
    assert (votes.select, votes.trials, votes.alpha) == (100, 100_000, 0.001)
