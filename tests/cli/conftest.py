"""Commands as a function: what one prints, or the mistake that it refuses."""

from typer.testing import CliRunner

from smoothcert.cli import app
from smoothcert.errors import SmoothcertError


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=True)
    if isinstance(result.exception, SmoothcertError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout
