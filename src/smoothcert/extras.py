"""Libraries that are not always there: imported when a model needs one, with a clear word when that fails."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from smoothcert.errors import MissingExtra


def import_extra(library: str, use: str, extra: str = "") -> Any:
    """The library, or a MissingExtra that says what it is for and how to get it.

    >>> import_extra("no_such_library", "models from nowhere")
    Traceback (most recent call last):
    smoothcert.errors.MissingExtra: models from nowhere need no_such_library, which does not import here (No module named \
'no_such_library'); install it beside this torch: pip install 'smoothcert[no_such_library]'
    """
    try:
        return import_module(library)
    except (ImportError, RuntimeError, OSError) as problem:  # a build for another torch fails in its own ways
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise MissingExtra(
            f"{use} need {library}, which does not import here ({reason}); "
            f"install it beside this torch: pip install 'smoothcert[{extra or library}]'"
        ) from problem
