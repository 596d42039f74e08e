"""Finite views of an input, one file each: certificates without alpha. A new kind is one file and one line of VIEWS."""

from __future__ import annotations

from smoothcert.registry import Registry
from smoothcert.views.ablation import Ablation
from smoothcert.views.bands import Bands
from smoothcert.views.base import Masked, View
from smoothcert.views.blocks import Blocks
from smoothcert.views.chunks import Chunks
from smoothcert.views.splitting import Splitting

__all__ = ["REGISTRY", "VIEWS", "Ablation", "Bands", "Blocks", "Chunks", "Masked", "Splitting", "View", "view_named"]

VIEWS: dict[str, type[View]] = {
    "splitting": Splitting,
    "bands": Bands,
    "blocks": Blocks,
    "ablation": Ablation,
    "chunks": Chunks,
}

REGISTRY: Registry[View] = Registry("view", "smoothcert.views", VIEWS, View)  # type: ignore[type-abstract]
view_named = REGISTRY.make
