"""Every error smoothcert raises on purpose, drawn as a tree.

SmoothcertError
├── InputError       the tensor to certify: NaN, wrong shape, off the pixel grid
├── SettingError     a setting outside what it may be: sigma, alpha, counts of votes
│   └── UnknownName  a name that no registry holds; says which one was probably meant
├── ModelError       the classifier: wrong output shape, no classes, no such factory
│   ├── WeightsError the weights file: truncated, foreign, of another architecture
│   └── NotFixed     not one fixed function of its row: it looks at its batch, or changes
├── DataError        the data set: missing, checksum, layout, labels
├── RunError         the run directory: another configuration, nothing to read
│   └── StoreError   the file of results: full disk, not a store, a newer version
├── ClusterError     the cluster: nothing there, no room, workers that compute other numbers
└── MissingExtra     an optional library that is not installed

Each message says what is wrong, what was got, what is allowed and what to do.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar("Value")


class SmoothcertError(Exception):
    """Whatever went wrong, in words for the user, who may show them to others: they hold no password of a URL."""

    def __init__(self, message: str = "") -> None:
        super().__init__(without_passwords(message))


class InputError(SmoothcertError, ValueError):
    """The input tensor cannot be certified as it is."""


class SettingError(SmoothcertError, ValueError):
    """A setting is outside what it may be."""


class UnknownName(SettingError):
    """A name that no registry holds."""


class ModelError(SmoothcertError):
    """The classifier cannot be used as it is."""


class WeightsError(ModelError):
    """The weights file cannot be loaded into the model."""


class NotFixed(ModelError):
    """The classifier is not one fixed function of its row."""


class DataError(SmoothcertError):
    """The data set cannot be read."""


class RunError(SmoothcertError):
    """The run directory cannot be used for this."""


class StoreError(RunError):
    """The file of results cannot be read or written."""


class ClusterError(SmoothcertError):
    """The cluster cannot be used as it is."""


class MissingExtra(SmoothcertError, ImportError):
    """An optional library is not installed, or does not import here."""


def without_passwords(text: str) -> str:
    """The text with the passwords of its URLs left out.

    >>> without_passwords("cannot reach postgresql://me:s3cr@t@host/db?sslmode=require&password=more#run")
    'cannot reach postgresql://me@host/db?sslmode=require#run'
    """
    bare = re.sub(r"(\w+://[^\s:@/]*):\S*@", r"\1@", text)  # to the last @: one may stand in the password
    return re.sub(r"[?&](ssl)?password=[^&#\s]*", "", bare)


def look_up(kind: str, name: str, known: Mapping[str, Value]) -> Value:
    """``known[name]``, or an UnknownName that says what was probably meant.

    >>> look_up("law", "gausian", {"gaussian": 1, "laplace": 2})
    Traceback (most recent call last):
    smoothcert.errors.UnknownName: unknown law 'gausian'; did you mean 'gaussian'? known: gaussian, laplace
    """
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    raise UnknownName(f"unknown {kind} {name!r}{hint} known: {', '.join(known)}")
