"""The programs in examples run, and certify something."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name: str) -> object:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_columns() -> None:
    certificates = loaded("columns").main(rows=20)
    assert all(certificate.exact for certificate in certificates)
    assert sum(certificate.radius >= 2 for certificate in certificates) >= 10


@pytest.mark.slow
def test_words() -> None:
    found = loaded("words").main(count=20)
    assert sum(certificate.radius >= 1 for certificate in found["any words"]) >= 15
    assert not found["any words"][0].exact
    assert sum(certificate.radius >= 1 for certificate in found["words in a row"]) >= 15
    assert found["words in a row"][0].exact
