"""The tables and figures of the papers that the package builds on, by name, and how to make them again.

The catalogue is data: one TOML file per paper, with the published numbers as they are printed, and ``scales.toml``.
"""

from smoothcert.papers.catalogue import SCALES, Entry, catalogue, entry_named

__all__ = ["SCALES", "Entry", "catalogue", "entry_named"]
