"""smoothcert models: the built-in networks."""

from __future__ import annotations

from rich.table import Table

from smoothcert.cli.console import output

NAME = "models"
EXAMPLE = "smoothcert models"
SHAPE, CLASSES = (3, 32, 32), 10


def command() -> None:
    """List the built-in networks that smoothcert train takes, with their sizes for CIFAR-10."""
    import torch

    from smoothcert.models import MODELS

    table = Table("model", "weights", "what it is", caption=f"weights: for inputs {SHAPE} and {CLASSES} classes")
    for name, build in MODELS.items():
        with torch.device("meta"):  # counted, not filled
            weights = sum(value.numel() for value in build(SHAPE, CLASSES).parameters())
        table.add_row(name, f"{weights:,}", (build.__doc__ or "").strip().splitlines()[0])
    output.print(table)
    print("Use: smoothcert train --model NAME. To certify, --model also takes your own; see smoothcert certify --help.")
