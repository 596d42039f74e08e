"""Step 4: from a bound to the certified radius at unit scale: by a theorem, converted from one, or from a table.

``theorems`` gives what is proved, ``bracket`` the proved and the possible radius of any law in any norm, ``tables`` keeps
them, ``target`` is what estimators aim at, and ``readings`` reads stored votes in other ways.
"""

from __future__ import annotations

from smoothcert.radius.bracket import certified_radius, check_norm
from smoothcert.radius.target import RadiusTarget
from smoothcert.radius.theorems import probability_for, proved_radius, tables

__all__ = ["RadiusTarget", "certified_radius", "check_norm", "probability_for", "proved_radius", "tables"]
