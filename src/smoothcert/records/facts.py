"""Every fact of a run's configuration, declared once: what it is, and what it does to a comparison of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from smoothcert.plan import Plan
from smoothcert.registry import Setting, setting_of

# The settings of the votes are declared where they are, as the fields of a plan.
FACTS: Mapping[str, Setting] = {
    **{field.name: setting_of(field) for field in fields(Plan)},
    "estimator_content": Setting("an estimator of your own, by its content"),
    "block": Setting("votes per call of the network: it sets when the votes may stop and which noise is drawn"),
    "law": Setting("the noise", changes="method"),
    "scale": Setting("how much noise", changes="method"),
    "sigma": Setting("how much noise, by its standard deviation", changes="method"),
    "loc": Setting("where the noise is centred", changes="method"),
    "tuner": Setting("who chooses the noise", changes="method"),
    "memory": Setting("whether a memory settles what is promised; the labels say so", changes="method"),
    "model": Setting("the network, by its content: not only the method differs"),
    "data": Setting("the data, by their content: accuracies do not compare"),
    "norm": Setting("radii do not compare across norms"),
    "domain": Setting("the perturbations that are covered differ"),
    "select": Setting("votes that choose the class to certify: with few of them a wrong class is chosen more often"),
    "shared_noise": Setting("all inputs see the same draws, so that errors come together; or each its own"),
    "seed": Setting("other noise was drawn: part of a small difference is chance"),
    "dtype": Setting("the precision that the network computes in: it answers differently"),
    "own_randomness": Setting("the network's own randomness was let in: its votes cannot be repeated"),
    "voted": Setting("votes that stopped by another plan than they are judged by show smaller radii than they could"),
    "smoothcert": Setting("another version may draw, tune or bound differently"),
    # Rounding of the network and of the draws, which the theorems do not speak of and accuracies do not show.
    "runtime": Setting("what computes the network", changes="nothing"),
    "channels_last": Setting("how pictures lie in memory", changes="nothing"),
    "compiled": Setting("whether the network was compiled", changes="nothing"),
    "device": Setting("where the network is computed", changes="nothing"),
    "processor": Setting("where the network is computed", changes="nothing"),
    "torch": Setting("a version", changes="nothing"),
    "numpy": Setting("a version", changes="nothing"),
    "scipy": Setting("a version", changes="nothing"),
    "check": Setting("whether the network was probed before it counted", changes="nothing"),
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
