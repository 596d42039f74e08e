"""Which class a picture has: by the name of its folder, by the order of ImageNet, or by a file of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from smoothcert.errors import DataError

NUMBERS, IMAGENET, SORTED = "numbers", "imagenet", "sorted"
WAYS = (
    f"allowed: {NUMBERS} (the folders' names), {IMAGENET} (the order of its wnids), {SORTED} (folders by name), or a text file with a class folder per "
    "line in the network's order, or with a folder or picture and its class number per line"
)


@dataclass(frozen=True)
class Classes:
    """The class of every name, that of a folder or of a picture, and how many classes there are in all."""

    source: str
    labels: Mapping[str, int]
    number: int
    words: tuple[str, ...] = ()  # what the classes are called, where their folders are called otherwise

    @property
    def names(self) -> tuple[str, ...]:
        """What the classes are called, in order; none unless every number has exactly one name that is no number."""
        if self.words:
            return self.words
        called = {number: name for name, number in self.labels.items()}
        whole = len(called) == len(self.labels) == self.number and not all(map(str.isdecimal, self.labels))
        return tuple(called[number] for number in range(self.number)) if whole else ()

    def of(self, picture: Path) -> int:
        """The class of a picture, given its path inside the data: by that path, its own name, or its folder's."""
        for name in (picture.as_posix(), picture.name, picture.parent.name):
            if name in self.labels:
                return self.labels[name]
        raise DataError(
            f"{picture} has no class: {self.source} names neither the picture nor its folder; add it there; {WAYS}"
        )


def classes_of(folders: Sequence[str], given: str | None) -> Classes | None:
    """The classes of these class folders, by a rule or a file that is given, or else by what their names are.

    Numbers are the classes themselves, ImageNet's wnids have its order, and other names are numbered as they are sorted.
    None: nothing says what the classes are.

    >>> [classes_of(names, None).labels for names in (["10", "9"], ["dog", "cat"])]
    [{'10': 10, '9': 9}, {'cat': 0, 'dog': 1}]
    >>> classes_of(["n01443537"], None).number, classes_of([], None)
    (1000, None)
    """
    rule = _rule(folders) if given is None else given
    if rule == NUMBERS:
        values = {name: int(name) for name in folders if name.isdecimal()}
        return Classes("the folders' numbers", values, max(values.values(), default=-1) + 1)
    if rule == IMAGENET:
        numbers = {wnid: number for number, wnid in enumerate(imagenet())}
        return Classes("ImageNet", numbers, len(numbers), tuple(imagenet().values()))
    if rule == SORTED:
        names = {name: number for number, name in enumerate(sorted(folders))}
        return Classes("the folders' order", names, len(names)) if names else None
    return read_classes(Path(rule).expanduser())


def _rule(folders: Sequence[str]) -> str:
    if folders and all(name.isdecimal() for name in folders):
        return NUMBERS
    return IMAGENET if folders and imagenet().keys() >= set(folders) else SORTED


@cache
def imagenet() -> Mapping[str, str]:
    """What each of the 1000 wnids of ILSVRC 2012 is called, in the order that networks are trained with.

    >>> list(imagenet()).index("n02108422"), imagenet()["n02108422"], sorted(imagenet()) == list(imagenet())
    (243, 'bull mastiff', True)
    """
    lines = files("smoothcert.data").joinpath("imagenet.txt").read_text(encoding="ascii").splitlines()
    return dict(line.split(" ", 1) for line in lines)


def read_classes(path: Path) -> Classes:
    """The classes in a text file: ``NAME`` per line, numbered from 0, or ``NAME NUMBER`` per line, by space or comma."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"the classes {str(path)!r} cannot be read ({problem}); {WAYS}") from problem
    lines = [line for line in lines if line]
    pairs = [line.replace(",", " ").replace("\t", " ").rsplit(" ", 1) for line in lines]
    if all(len(pair) == 2 and pair[1].isdecimal() for pair in pairs):
        rows = [(name.strip(), int(number)) for name, number in pairs]
    else:
        rows = [(name, number) for number, name in enumerate(lines)]
    labels = dict(rows)
    if not rows or len(labels) < len(rows):
        what = "a name twice" if rows else "no name"
        raise DataError(f"{path} holds {what}; each folder or picture stands there once; {WAYS}")
    return Classes(path.name, labels, max(labels.values()) + 1)
