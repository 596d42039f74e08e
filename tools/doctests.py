"""For the site: the examples of docstrings, which Markdown would take for quotations, become blocks of code."""

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", flags=re.MULTILINE)


class Doctests(Extension):
    """Fences every run of lines that begins with >>>."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of whatever is documented."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
