"""The wheel, built and installed outside the repository, certifies."""

import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

PROGRAM = """
import pathlib, sys
import torch
import smoothcert as sc
from smoothcert import data
assert pathlib.Path(sc.__file__).is_relative_to(sys.prefix), sc.__file__
digits = data.load("digits")
x = torch.from_numpy(digits.inputs([0, 1]))
model = lambda batch: torch.stack([batch.mean((1, 2, 3)), 0.5 - batch.mean((1, 2, 3))], dim=1)
certificates = sc.Smoother(model, sc.Noise.isotropic("gaussian", 0.25, grid=1 / 255), estimate=500).certify(x)
print([certificate.label for certificate in certificates], certificates[0].soundness)
"""


def test_the_wheel_certifies_outside_the_repository(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(root)], check=True
    )
    [wheel] = tmp_path.glob("smoothcert-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {"digits.npz", "DIGITS.md", "imagenet.txt"}
    assert {"smoothcert/py.typed", *(f"smoothcert/data/{name}" for name in data)} <= names
    page = {
        "template.html",
        "style.css",
        "basics.js",
        "charts.js",
        "inputs.js",
        "report.js",
        "d3.min.js",
        "plot.min.js",
        "LICENSES.txt",
    }
    explorer = {"explore.css", "explore.js"}
    assert {f"smoothcert/explore/page/{name}" for name in explorer} <= names
    assert {f"smoothcert/report/page/{name}" for name in page} | {"smoothcert/report/citations.bib"} <= names
    assert not any(name.startswith("tests") for name in names)

    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    [packages] = home.glob("lib/python*/site-packages")
    # The libraries are borrowed from this environment; a line in a .pth file does not bring its editable install along.
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()))
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(packages), str(wheel)], check=True)
    done = subprocess.run(
        [home / "bin/python", "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[1, 1] global\n"
    helped = subprocess.run(
        [home / "bin/python", "-m", "smoothcert", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert helped.stdout.startswith("smoothcert ")
