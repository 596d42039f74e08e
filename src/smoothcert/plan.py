"""What is fixed before the first vote: how many votes, how sure, for which radii, and who judges them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from smoothcert.registry import Checked, setting

if TYPE_CHECKING:
    from smoothcert.maths import IntArray

ALL_VOTES = "all votes"
ALL_VIEWS = "all views"
IN_RUN = "run"  # a memory that is kept in the run directory


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


@dataclass(frozen=True)
class Voting(Plan):
    """A plan, and what else is asked about the votes; Smoother has a keyword for each."""

    norm: float = setting(
        2.0, "The norm of the radii: 1, 2, inf or any p above 0, or 0 with views; radii of two norms do not compare."
    )
    threat: str | None = setting(
        None,
        "Instead of a norm, with views: what an adversary may replace, and how much of it: patch:5 (a square of pixels), l0:3 "
        "(any coordinates) or span:8 (places in a row).",
        metavar="KIND:SIZE",
    )
    method: str = setting(
        "fixed",
        "Who chooses the noise, with parameters such as ancer:steps=60,kappa=1.5: fixed; per input data_dependent (one "
        "factor), ancer (every coordinate), hill_climb (UniCR's I-OPT) or reuse:run=RUN; pattern, dataset or per_input "
        "(UCAN); `smoothcert list methods` tells more.",
        changes="method",
        metavar="NAME[:KEY=VALUE,…]",
    )
    memory: str | None = setting(
        None,
        "Settle certificates by a memory, so that per-input noise holds for the deployed classifier. Alone: kept in the "
        "run directory; or a file, or postgresql://…, that runs of one classifier share.",
        changes="method",
        metavar="FILE|URL",
        alone=IN_RUN,
    )
    select: int = setting(
        100, "Votes to choose the class; with few of them a wrong class is chosen more often.", least=1
    )
    seed: int = setting(0, "Seed of all draws; with another one part of a small difference is chance.", least=0)
    check: bool = setting(
        True,
        "Probe the model for being one fixed function of its row; without it certificates are labelled estimate.",
        changes="nothing",
    )
    own_randomness: bool = setting(
        False,
        "The model draws numbers of its own, independent per row and call: a run cannot be repeated.",
        flag=None,
    )
