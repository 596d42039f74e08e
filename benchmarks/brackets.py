"""How tight the radii are: python benchmarks/brackets.py [--laws …] [--dims …] prints upper/lower for law × norm × dim × p.

A cell is the largest ratio over the probabilities .51, .6, .9, .99 and .999, "exact" where a closed form is tight, and
"CROSSED" if a lower radius ever exceeded an upper one, which would be a bug.
"""

from __future__ import annotations

import argparse
import math
import time

from smoothcert.laws import law_named
from smoothcert.radius.bracket import Engines, brackets
from smoothcert.testing.laws import EXAMPLES

NORMS = (0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
CHANCES = (0.51, 0.6, 0.9, 0.99, 0.999)


def cell(engines: Engines, norm: float) -> str:
    """The worst ratio of one law in one norm and dimension."""
    found = brackets(engines, norm, CHANCES)
    if any(bracket.lower > bracket.upper * (1 + 1e-9) for bracket in found):
        return "CROSSED"
    worst = max(bracket.tightness for bracket in found)
    return "exact" if worst <= 1 + 1e-6 else f"{worst:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", nargs="+", default=list(EXAMPLES))
    parser.add_argument("--dims", nargs="+", type=int, default=[1, 2, 784, 3072, 150_528])
    arguments = parser.parse_args()
    print("| law | dim | " + " | ".join(f"l{norm:g}" for norm in NORMS) + " | CPU |\n" + "|---" * 9 + "|")
    for law in arguments.laws:
        flips: dict[tuple[int, float, float | None], float] = {}
        for dim in arguments.dims:
            began = time.process_time()
            engines = Engines(law_named(law), dim, flips)
            row = " | ".join(cell(engines, norm) for norm in NORMS)
            print(f"| {law} | {dim} | {row} | {time.process_time() - began:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
