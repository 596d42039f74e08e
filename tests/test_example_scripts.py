"""Every example that is a script runs as it stands, and says what it promises; those with a main have tests of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

import smoothcert as sc

EXAMPLES = Path(sc.__file__).parent.parent.parent / "examples"
NEEDS = {"scikit_learn.py": "sklearn", "onnx_file.py": "onnxruntime"}
SAYS = {
    "onnx_file.py": "Record(index=0, truth=7, label=7",
    "per_input_noise.py": "answered from memory, without the model: 0",
    "scikit_learn.py": "Certificate(label=2",
    "torch_network.py": "Certificate(label=7",
}


def test_every_example_is_run() -> None:
    scripts = [path for path in EXAMPLES.glob("*.py") if "def main(" not in path.read_text(encoding="utf-8")]
    assert sorted(path.name for path in scripts) == sorted(SAYS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(name, "torch"))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
