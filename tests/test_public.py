"""The public face: names that completion and type checkers find, settings in Python as on the command line, short texts."""

import ast
import math
import pydoc
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.errors import InputError, SettingError, UnknownName
from smoothcert.registry import fitted

STUB = Path(sc.__file__).with_suffix(".pyi")


@pytest.fixture(scope="module")
def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(4, 3).eval()


def smoother(model: nn.Module, **settings: object) -> sc.Smoother:
    return sc.Smoother(model, sc.Noise.isotropic("gaussian", 0.1), **{"estimate": 400} | settings)  # type: ignore[arg-type]


# Names


def test_what_is_typed_is_what_is_imported() -> None:
    """The stub is read by another reader than the package's: every name is listed, imported, and the very object."""
    typed = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            assert [alias.asname for alias in node.names] == [alias.name for alias in node.names]
            typed |= {alias.name: node.module for alias in node.names}
    assert sorted(typed) == sc.__all__
    assert set(sc.__all__) <= set(dir(sc))
    for name, home in typed.items():
        assert getattr(sc, name) is getattr(sys.modules[str(home)], name)


def test_a_type_checker_knows_every_public_name_and_no_other(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import smoothcert as sc\n" + "".join(f"print(sc.{name})\n" for name in sc.__all__) + "print(sc.Smother)\n"
    )
    pytest.importorskip("pyright")
    asked = [sys.executable, "-m", "pyright"]
    if subprocess.run([*asked, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("pyright fetches its own program from npm, which is out of reach here")
    done = subprocess.run(
        [*asked, "--pythonpath", sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=STUB.parent.parent,
    )
    found = [line for line in done.stdout.splitlines() if "error" in line and "program.py" in line]
    assert len(found) == 1, done.stdout + done.stderr
    assert '"Smother"' in found[0]


def test_help_is_about_smoothing() -> None:
    text = pydoc.render_doc(sc.Smoother, renderer=pydoc.plaintext)
    assert text.count("\n") < 150
    assert "certify(" in text
    assert "register_full_backward_hook" not in text
    assert {"certify", "eval", "model"} <= set(dir(smoother(nn.Linear(4, 3))))


# Settings


def test_settings_are_taken_as_on_the_command_line(model: nn.Module) -> None:
    assert smoother(model, norm="inf").norm == math.inf
    assert smoother(model, radii=0.5).plan.radii == (0.5,)
    assert smoother(model, radii=np.array([0.5, 0.25])).plan.radii == (0.25, 0.5)
    assert smoother(model, radii="1/4,0.5", estimate=1e3).plan == smoother(model, radii=[0.25, 0.5], estimate=1000).plan
    assert smoother(model, tuner="ancer:steps=60").tuner == sc.Ancer(steps=60)
    assert sc.certified_radius("gaussian", "inf", 0.9, 10) == sc.certified_radius("gaussian", math.inf, 0.9, 10)


def test_a_memory_is_opened_by_its_path(model: nn.Module, tmp_path: Path) -> None:
    [first] = smoother(model, memory=tmp_path / "memory.sqlite").certify(torch.ones(1, 4))
    again = smoother(model, memory=str(tmp_path / "memory.sqlite"))
    assert again.memory is not None
    assert len(again.memory) == 1
    assert again.predict(torch.ones(1, 4)) == [first.label]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda model: smoother(model, norm="l2"), "norm='l2' must be a number"),
        (lambda model: smoother(model, norm=-1), "norm=-1 must be a number above 0"),
        (lambda model: smoother(model, radii="far"), "radii='far' must be a number"),
        (lambda model: smoother(model, radii=[math.inf]), "must be a finite number above 0"),
        (lambda model: smoother(model, estimate=10.5), "trials=10.5 must be a whole number"),
        (lambda model: smoother(model, alpha=[1]), "must be a number"),
        (lambda model: smoother(model, engine=sc.Engine(device="cuda:99")), "cannot be used here"),
        (lambda model: smoother(model, engine=sc.Engine(device=None)), "cannot be used here"),  # type: ignore[arg-type]
        (lambda model: smoother(model, engine="cuda"), "'cuda' is no Engine"),
        (lambda model: smoother(model, tuner=3), "3 is no method"),
        (lambda model: sc.Smoother(model, "gaussian"), "give one, such as sc.Noise.isotropic"),  # type: ignore[arg-type]
        (lambda model: sc.Noise("gaussian", "wide"), "scale='wide' must be a number"),  # type: ignore[arg-type]
        (lambda model: sc.Ancer(steps=1.5), "ancer: steps=1.5 must be a whole number"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_setting_is_refused_in_words(model: nn.Module, wrong: Callable[[nn.Module], object], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        wrong(model)


def test_a_misspelt_method_is_guessed(model: nn.Module) -> None:
    with pytest.raises(UnknownName, match="did you mean 'ancer'"):
        smoother(model, tuner="ancr")


@pytest.mark.parametrize("call", ["certify", "predict"])
def test_an_index_below_zero_is_refused(model: nn.Module, call: str) -> None:
    with pytest.raises(InputError, match="the index -1 is below 0"):
        getattr(smoother(model), call)(torch.ones(1, 4), first_index=-1)


def test_what_is_no_number_is_left_to_its_owner() -> None:
    given = np.ones(3)
    assert fitted("", "source", given, str) is given
    assert fitted("", "scale", "map.npy", float | str) == "map.npy"
    assert fitted("", "check", True, bool) is True
    assert fitted("", "block", None, int | None) is None


# Values


def certificate(label: int | None = 3, radius: float = 1.23456) -> sc.Certificate:
    region = sc.Region(np.linspace(0, 1, 64).reshape(1, 8, 8), np.full((1, 8, 8), 0.25), radius, 2.0)
    return sc.Certificate(
        label, sc.Bound(0.98765, 0.001, 1000), region if label is not None else None, sc.Soundness.GLOBAL
    )


def test_equal_certificates_are_equal_and_others_are_not() -> None:
    one = certificate()
    assert one == certificate()
    assert hash(one) == hash(certificate())
    assert one.region is not None
    others = [
        certificate(label=4),
        certificate(radius=1.0),
        certificate(label=None),
        replace(one, soundness=sc.Soundness.FROZEN),
        replace(one, region=replace(one.region, center=one.region.center + 1e-9)),
        replace(one, region=replace(one.region, scale=one.region.scale * 1.01)),
        replace(one, region=replace(one.region, norm=1.0)),
    ]
    assert all(one != other for other in others)
    assert one.region == replace(one.region, scale=np.array(0.25))  # the same set
    assert one.region != "region"


def test_texts_are_short_plain_and_rounded_down() -> None:
    texts = [repr(certificate()), repr(certificate(label=None)), repr(certificate().region)]
    assert texts == [
        "Certificate(label=3, radius=0.308, norm=2, global, p >= 0.9876)",
        "Certificate(abstains, global, p >= 0.9876)",
        "Region(radius=1.234, norm=2, scale=0.25, shape=(1, 8, 8))",
    ]
    for text in texts:
        text.encode("ascii")
    assert repr(sc.Noise.isotropic("gaussian", 0.25)) == "Noise(gaussian, scale=0.25)"
    assert "Noise(gaussian" in repr(smoother(nn.Linear(4, 3)))
