"""Models from the user's own code: ``package.module:factory``."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch import nn

from smoothcert.errors import ModelError
from smoothcert.models.guests import recognised

SPEC = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<factory>[A-Za-z_]\w*)")


def is_factory(spec: str) -> bool:
    """Whether ``spec`` is written as package.module:factory.

    >>> is_factory("my.models:resnet"), is_factory("small_cnn"), is_factory("a b:c")
    (True, False, False)
    """
    return SPEC.fullmatch(spec) is not None


def from_factory(spec: str) -> Any:
    """What ``package.module:factory`` returns when called without arguments; the module may be in this folder.

    >>> from_factory("torch.nn:ReLU")
    ReLU()
    """
    factory = code_at(spec)
    with _current_folder_importable():
        try:
            model = factory()
        except Exception as error:
            raise ModelError(
                f"{spec}: the factory, which is called without arguments and returns the classifier, raised {type(error).__name__}: "
                f"{error}"
            ) from error
    if not callable(model) and recognised(model) is None:
        raise ModelError(
            f"{spec}: the factory returned a {type(model).__name__}; allowed: a callable from a batch to logits, or a fitted classifier"
        )
    return model


def code_at(spec: str) -> Callable[[], object]:
    """The callable at ``package.module:factory``, not called."""
    match = SPEC.fullmatch(spec)
    if match is None:
        raise ModelError(f"a factory is written as package.module:factory; got {spec!r}")
    with _current_folder_importable():
        return _factory(_module(match["module"], spec), match["factory"], spec)


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    """The current folder comes first in the search for modules, as under ``python -m``, and leaves again."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _module(name: str, spec: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise ModelError(
                f"{spec}: there is no module {missing!r}; looked in the installed packages and in {os.getcwd()}; "
                f"install it, or start from the folder that holds it{_without_ending(spec)}"
            ) from error
        raise ModelError(f"{spec}: importing {name} needs the module {missing!r}; install it") from error
    except Exception as error:
        raise ModelError(f"{spec}: importing {name} raised {type(error).__name__}: {error}") from error


def _without_ending(spec: str) -> str:
    file, _, name = spec.partition(".py:")
    return f"; a file is named without its ending: {file}:{name}" if name else ""


def _factory(module: ModuleType, name: str, spec: str) -> Callable[[], object]:
    factory = getattr(module, name, None)
    if factory is None:
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        public = [key for key in own if not key.startswith("_")]
        where = getattr(module, "__file__", None) or "a built-in module"
        raise ModelError(
            f"{spec}: {module.__name__} ({where}) has no {name!r}; callables there: {', '.join(public[:8]) or 'none'}"
        )
    if not callable(factory) or isinstance(factory, nn.Module):
        raise ModelError(
            f"{spec}: {name!r} is a {type(factory).__name__}; allowed: a function without arguments that returns the classifier, "
            f"as def make(): return {name}"
        )
    result: Callable[[], object] = factory
    return result
