"""smoothcert list: what can be named on the command line, from the registries."""

from __future__ import annotations

import json as jsonlib
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from smoothcert.cli.console import output
from smoothcert.cli.options import Json
from smoothcert.errors import look_up
from smoothcert.registry import Registry, parameters, setting_of, usage

NAME = "list"
EXAMPLE = "smoothcert list methods"
# Where each kind is kept, and the option that takes its members.
KINDS = {
    "laws": ("smoothcert.laws:REGISTRY", "--noise"),
    "fronts": ("smoothcert.fronts:REGISTRY", "--front"),
    "views": ("smoothcert.views:REGISTRY", "--noise"),
    "methods": ("smoothcert.tuners:REGISTRY", "--method"),
    "recipes": ("smoothcert.training:REGISTRY", "train --recipe"),
    "estimators": ("smoothcert.estimators:REGISTRY", "--estimator"),
    "stores": ("smoothcert.store:REGISTRY", "--out"),
    "attacks": ("smoothcert.attacks:REGISTRY", "attack --attack"),
    "models": ("smoothcert.models:REGISTRY", "--model"),
    "runtimes": ("smoothcert.runtimes:REGISTRY", "--runtime"),
    "executors": ("smoothcert.execution:REGISTRY", "--engine"),
    "data": ("smoothcert.data:REGISTRY", "--data"),
}
SHAPE, CLASSES = (3, 32, 32), 10  # of the inputs for which the weights of a network are counted


def command(
    kind: Annotated[str, typer.Argument(help=f"What to list: {', '.join(KINDS)}.")],
    json: Json = False,
) -> None:
    """List what an option takes: names, parameters with their defaults, and what each is.

    Other packages add theirs by entry points; anything importable is given as package.module:Name.
    """
    place, option = look_up("list", kind, KINDS)
    module, _, name = place.partition(":")
    found: Registry[Any] = getattr(import_module(module), name)
    rows = [_member(name, found.find(name)) for name in found.names]
    if kind == "models":
        for row in rows:
            row["summary"] += _size(found.make(row["name"]))
    if json:
        print(jsonlib.dumps(rows))
        return
    table = Table(Column("name", no_wrap=True), "parameters", "what it is", show_lines=True)
    for row in rows:
        told = [f"{p['name']}={p['default']}: {p['help']}" for p in row["parameters"]]
        table.add_row(row["name"], "\n".join(told) or "–", row["summary"])
    output.print(table)
    print(f"Use: {option} NAME, NAME:parameter=value,…, or package.module:Name")


def _member(name: str, kind: type) -> dict[str, Any]:
    """A plug-in, for machines."""
    fields = []
    for field in parameters(kind).values():
        default = usage(kind).partition(f"{field.name}=")[2].partition(",")[0]
        declared = setting_of(field)
        fields.append({"name": field.name, "default": default, "help": declared.help, "allowed": declared.allowed})
    return {"name": name, "parameters": fields, "summary": _first_line(kind)}


def _size(network: Any) -> str:
    """How many weights a network has; they are counted, not filled."""
    import torch

    with torch.device("meta"):
        weights = sum(value.numel() for value in network.build(SHAPE, CLASSES).parameters())
    return f" {weights:,} weights for inputs {SHAPE} and {CLASSES} classes."


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]
