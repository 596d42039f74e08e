"""What is asked and what is answered, for the server and the client alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcert.errors import SettingError
from smoothcert.registry import Checked, setting

RADII = 100  # of one request, at most


@dataclass(frozen=True)
class Asked(Checked):
    """How much an answer is worth to who asks: it comes as soon as one of these is reached, with what was proved by then."""

    radii: tuple[float, ...] = setting((), "stop once each of these radii is proved or out of reach", above=0)
    votes: int | None = setting(None, "stop at the first look after so many votes", least=1)
    deadline: float | None = setting(None, "answer within so many seconds", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.radii) > RADII:
            raise SettingError(f"{len(self.radii)} radii were asked for; a request may have {RADII}")

    @property
    def limited(self) -> bool:
        """Does it ask for less than all that the server would prove?"""
        return bool(self.radii) or self.votes is not None or self.deadline is not None


@dataclass(frozen=True)
class Answer:
    """A label and what it is worth: every input within radius gets it too; label None is an abstention, radius 0.

    source: votes that were cast for this input, or the memory, whose promise holds it. provisional: votes are still cast,
    and nothing is promised yet. id: where the promise can be looked up, None if none was made.
    """

    label: int | None
    radius: float
    proxy_radius: float
    norm: str  # 2, inf, …; or the threat that radius is a size of
    soundness: str
    lower: float  # the class wins a vote at least so often, except with probability alpha
    votes: int
    alpha: float
    theorem: str
    grid: str  # where perturbations live
    source: str = "votes"
    provisional: bool = False
    id: str | None = None


@dataclass(frozen=True)
class Kept:
    """A promise: every later input y with ‖(y − center)/scale‖ <= region_radius gets the label."""

    id: str
    answer: Answer
    region_radius: float
    center: list[Any]
    scale: Any


@dataclass(frozen=True)
class Status:
    """What a server is, and what was spent: of its certificates about expected_wrong are wrong, at most, on average.

    That is the alpha of each promise, whoever made it, and of each of the tries: inputs that votes were cast for here since
    the start, and that no promise came of (so far): abstentions, what was given up, and everything where there is no memory.
    """

    model: str
    shape: list[int]
    classes: int | None
    class_names: list[str]
    norm: str
    noise: str
    grid: str
    alpha: float
    votes: int
    radii: list[float]
    memory: str | None
    promises: int
    tries: int
    expected_wrong: float
    batch: int
