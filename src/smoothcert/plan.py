"""What is fixed before the first vote: how many votes, how sure, for which radii, and who judges them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from smoothcert.registry import Checked, setting

if TYPE_CHECKING:
    from smoothcert.maths import IntArray

ALL_VOTES = "all votes"


@dataclass(frozen=True)
class Plan(Checked):
    """All that is fixed before the first vote. ``block`` votes are cast at a time, so looks come after whole blocks."""

    estimator: str = setting(
        "sequential",
        "How votes become a bound and when they stop, with parameters: sequential:tolerance=0.02,rivals=runner_up.",
        metavar="NAME[:KEY=VALUE,…]",
    )
    trials: int = setting(
        100_000, "At most so many votes per input; more votes give larger radii.", least=1, flag="--estimate -n"
    )
    alpha: float = setting(
        0.001, "Probability that one certificate is wrong; a larger one gives larger radii.", above=0, below=0.5
    )
    radii: tuple[float, ...] = setting(
        (), "The radii you will ask about: votes stop when these are decided, and others come out smaller.", above=0
    )
    block: int = 200

    @cached_property
    def looks(self) -> IntArray:
        """After how many votes to look; whole blocks, and the last at ``trials``."""
        from smoothcert.maths.sequential import looks  # a plan is read where scipy is not needed

        return looks(self.trials, first=min(100, self.trials), multiple=self.block)
