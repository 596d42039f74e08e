"""How tight the radii are: python benchmarks/brackets.py [--laws …] [--dims …] prints upper/lower for law × norm × dim × p.

A cell is the largest ratio over the probabilities .51, .6, .9, .99 and .999, "exact" where a closed form is tight, and
"CROSSED" if a lower radius ever exceeded an upper one, which would be a bug.
"""

from __future__ import annotations

import argparse
import math
import time

from smoothcert.bracket import certified_radius
from smoothcert.testing.laws import EXAMPLES

NORMS = (0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
CHANCES = (0.51, 0.6, 0.9, 0.99, 0.999)


def cell(law: str, norm: float, dim: int) -> str:
    """The worst ratio of one law in one norm and dimension."""
    brackets = [certified_radius(law, norm, p, dim) for p in CHANCES]
    if any(bracket.lower > bracket.upper * (1 + 1e-9) for bracket in brackets):
        return "CROSSED"
    worst = max(bracket.tightness for bracket in brackets)
    return "exact" if worst <= 1 + 1e-6 else f"{worst:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", nargs="+", default=list(EXAMPLES))
    parser.add_argument("--dims", nargs="+", type=int, default=[1, 2, 784, 3072, 150_528])
    arguments = parser.parse_args()
    for dim in arguments.dims:
        began = time.perf_counter()
        print(f"\ndim {dim}\n\n| law | " + " | ".join(f"l{norm:g}" for norm in NORMS) + " |\n" + "|---" * 7 + "|")
        for law in arguments.laws:
            print(f"| {law} | " + " | ".join(cell(law, norm, dim) for norm in NORMS) + " |", flush=True)
        print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
