"""Step 8: a certificate as one flat, versioned, exact row, and back; promises; what attacks found; what facts mean."""

from __future__ import annotations

from smoothcert.records.record import (
    Arrays,
    Parameter,
    Record,
    certificate_of,
    record_of,
    region_of,
    scale_of,
    value_of,
)

__all__ = ["Arrays", "Parameter", "Record", "certificate_of", "record_of", "region_of", "scale_of", "value_of"]
