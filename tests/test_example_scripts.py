"""Every example that is a script runs as it stands, and says what it promises; those with a main have tests of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert as sc

EXAMPLES = Path(sc.__file__).parent.parent.parent / "examples"
NEEDS = {"scikit_learn.py": "sklearn", "onnx_file.py": "onnxruntime"}
SAYS = {
    "any_noise.py": "log-concave l1",
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


def test_the_notebook_reads_a_run(tmp_path: Path) -> None:
    """Executed by a kernel, where the run is: its tables, its curve and its figure are shown."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    x = torch.rand((6, 1, 4, 4), generator=torch.Generator().manual_seed(0))
    smoothed = sc.Smoother(lambda batch: 9 * batch.flatten(1)[:, :3], sc.Noise.isotropic("gaussian", 0.5), estimate=200)
    sc.certify_all(smoothed, (x, np.arange(6) % 3), tmp_path / "run")
    program = (
        "import sys, nbformat, nbclient\n"
        "book = nbformat.read(sys.argv[1], as_version=4)\n"
        "nbclient.NotebookClient(book, timeout=120).execute()\n"
        "nbformat.write(book, 'done.ipynb')\n"
    )
    asked = [sys.executable, "-c", program, str(EXAMPLES / "read_a_run.ipynb")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=tmp_path, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "done.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    kinds = [set(output["data"]) for output in shown]
    assert "text/html" in kinds[0]
    assert "".join(shown[1]["data"]["text/plain"]).startswith("Record(index=0")
    assert "text/html" in kinds[2]
    assert "image/png" in kinds[-1]
