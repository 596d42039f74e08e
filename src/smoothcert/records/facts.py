"""Every fact of a run's configuration, declared once: what it is, and what it does to a comparison of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from smoothcert.engine import Engine
from smoothcert.plan import Plan, Voting
from smoothcert.registry import Setting, setting_of
from smoothcert.runtimes import Torch

# What a user may set is declared where it is used: as the fields of a plan, of the engine and of what computes the network.
FACTS: Mapping[str, Setting] = {
    **{field.name: setting_of(field) for kind in (Voting, Engine, Torch) for field in fields(kind)},
    "estimator_content": Setting("an estimator of your own, by its content"),
    "law": Setting("the noise", changes="method"),
    "scale": Setting("how much noise", changes="method"),
    "sigma": Setting("how much noise, by its standard deviation", changes="method"),
    "loc": Setting("where the noise is centred", changes="method"),
    "front": Setting("which numbers of an input the noise is laid on, by their content", changes="method"),
    "tuner": Setting("who chooses the noise", changes="method"),
    "model": Setting("the network, by its content: not only the method differs"),
    "data": Setting("the data, by their content: accuracies do not compare"),
    "domain": Setting("the perturbations that are covered differ"),
    "task": Setting("classes, or numbers: they do not compare"),
    "bounds": Setting("what the model's numbers are clipped to"),
    "stages": Setting("the networks of a cascade and their noise, by their content", changes="method"),
    "margins": Setting("how sure a stage of a cascade must be", changes="method"),
    "margins_chosen_on": Setting("the inputs that the margins were chosen with", changes="method"),
    "voted": Setting("votes that stopped by another plan than they are judged by show smaller radii than they could"),
    "smoothcert": Setting("another version may draw, tune or bound differently"),
    # Rounding of the network and of the draws, which the theorems do not speak of and accuracies do not show.
    "processor": Setting("where the network is computed", changes="rounding"),
    "torch": Setting("a version", changes="rounding"),
    "numpy": Setting("a version", changes="rounding"),
    "scipy": Setting("a version", changes="rounding"),
    "onnxruntime": Setting("a version", changes="rounding"),
    "openvino": Setting("a version", changes="rounding"),
    # Where the records come from.
    "recertified_from": Setting("the run whose votes were judged again", changes="nothing"),
    "imported_from": Setting("the log that was read", changes="nothing"),
    "sha256": Setting("the log, by its content", changes="nothing"),
    "format": Setting("the kind of log", changes="nothing"),
}
UNDECLARED = Setting("nobody has said what this setting does to the numbers, so it may be the whole difference")


def plan_of(configuration: Mapping[str, Any]) -> Plan:
    """The plan that a run was made by."""
    values = {field.name: configuration[field.name] for field in fields(Plan)}
    return Plan(**values | {"radii": tuple(values["radii"])})
