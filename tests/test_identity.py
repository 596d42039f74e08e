"""Who is who, by value: what does the same is the same, in any process, and nothing of one is continued with another."""

from __future__ import annotations

import copy
import functools
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.errors import RunError, SettingError
from smoothcert.identity import described, identity
from smoothcert.laws import Law, law_named
from smoothcert.models import load_model, mlp, small_cnn
from smoothcert.noise import Noise
from smoothcert.registry import setting
from smoothcert.tuners import Tuner, tuner_named

DATA = ArrayDataset("pixels", np.random.default_rng(0).integers(0, 256, size=(3, 4), dtype=np.uint8), [0, 1, 0])


def scaled(factor: object) -> Callable[[Tensor], Tensor]:
    return lambda x: x[:, :2] * factor  # type: ignore[operator]


def activated(name: str) -> Callable[[Tensor], Tensor]:
    layer = nn.Linear(4, 2)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    act = {"relu": torch.relu, "tanh": torch.tanh}[name]
    return lambda x: act(layer(x))


class Added(nn.Module):
    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2] + self.shift


class Multiplied(Added):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2] * self.shift


@dataclass
class Settings:
    gain: float
    table: Any


LEVEL = 1.0


def levelled(x: Tensor) -> Tensor:
    return x[:, :2] * LEVEL


def named_levels(x: Tensor, *, gain: float = 1.0) -> Tensor:
    """A docstring, which counts for nothing."""
    return x[:, :2] * gain


def with_hook() -> nn.Module:
    module = Added(0.0)
    module.register_forward_hook(lambda module, inputs, output: -output)
    return module


class Wrapped:
    def __init__(self, function: Callable[[Tensor], Tensor], shift: float) -> None:
        functools.update_wrapper(self, function)
        self.shift = shift


class Several(list):  # type: ignore[type-arg]
    gain = 1.0


class Private:
    __slots__ = ("__gain",)

    def __init__(self, gain: float) -> None:
        self.__gain = gain


class Constant(nn.Module):
    """Its number is no parameter and no buffer: TorchScript keeps it as an attribute, a trace and torch.export as a constant."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = torch.full((40,), shift)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift


class Around(nn.Module):
    """Calls what it wraps as torch.compile does."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self._orig_mod, self.shift = nn.Identity(), shift


def attributed(thing: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(thing, name, value)
    return thing


def with_attributes(gain: float) -> dict[str, Any]:
    """What differs by an attribute alone."""
    return {
        "function": attributed(scaled(1.0), gain=gain),
        "wrapper": Wrapped(levelled, gain),
        "dataclass": attributed(Settings(1.0, {}), more=gain),
        "list": attributed(Several(), gain=gain),
        "number": attributed(type("Number", (float,), {})(1.0), gain=gain),
        "mapping": attributed(type("Mapping", (dict,), {})(), gain=gain),
        "partial": attributed(type("Partial", (functools.partial,), {})(levelled), gain=gain),
        "private slot": Private(gain),
        "child of a usual name": Around(gain),
    }


def graphs(gain: float) -> list[nn.Module]:
    """What differs by a constant alone."""
    rows = torch.zeros(1, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, and says so
        return [
            torch.jit.script(Added(gain)),  # type: ignore[no-untyped-call]
            torch.jit.script(Constant(gain)),  # type: ignore[no-untyped-call]
            torch.jit.trace(Constant(gain), rows),  # type: ignore[no-untyped-call]
            torch.fx.symbolic_trace(Constant(gain)),
            torch.export.export(Constant(gain), (rows,)).module(),
        ]


def different() -> dict[str, Any]:
    """Near-twins that must all be told apart."""
    zeros, half = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    nn.init.zeros_(zeros.weight)
    half.load_state_dict(zeros.state_dict())
    return {
        "closure over 2": scaled(2.0),
        "closure over 3": scaled(3.0),
        "closure over the integer 2": scaled(2),
        "closure over a tensor": scaled(torch.ones(2)),
        "closure over another tensor": scaled(torch.tensor([1.0, 2.0])),
        "closure over an array": scaled(np.ones(2)),
        "relu in a closure": activated("relu"),
        "tanh in a closure": activated("tanh"),
        "module that adds": Added(2.0),
        "module that adds another": Added(3.0),
        "module that multiplies": Multiplied(2.0),
        "module with a hook": with_hook(),
        "zeros": zeros,
        "zeros in bfloat16": half.to(torch.bfloat16),
        "another constant": lambda x: x[:, :2] * 7,
        "a further constant": lambda x: x[:, :2] * 8,
        "another name": lambda x: x[:, :2].abs(),
        "another default": functools.partial(named_levels, gain=2.0),
        "a default": functools.partial(named_levels, gain=1.0),
        "a bound method": Added(1.0).forward,
        "another bound method": Multiplied(1.0).forward,
        "a dataclass": Settings(1.0, {"a": [1, 2]}),
        "another dataclass": Settings(1.0, {"a": [1, 3]}),
        "a library's function": torch.relu,
        "another of a library's": torch.tanh,
        "a ufunc": np.sin,
        "another ufunc": np.cos,
        "a method of a generator": np.random.default_rng(0).random,
        "the same of another seed": np.random.default_rng(1).random,
        "layers": nn.Sequential(nn.Flatten(), nn.ReLU()),
        "other layers": nn.Sequential(nn.Flatten(), nn.LeakyReLU(0.1)),
        "other slopes": nn.Sequential(nn.Flatten(), nn.LeakyReLU(0.2)),
    } | {f"{name} of {gain}": thing for gain in (2.0, 3.0) for name, thing in with_attributes(gain).items()}


def test_near_twins_are_told_apart() -> None:
    seen = {name: identity(thing) for name, thing in different().items()}
    assert len(set(seen.values())) == len(seen), seen


def test_equals_are_equal_and_processes_agree() -> None:
    """Made twice here, and once in a process with other hashes and addresses."""
    wanted = "import json, tests_identity as t; print(json.dumps({n: t.identity(x) for n, x in t.different().items()}))"
    code = (
        f"import importlib.util as u, sys; s = u.spec_from_file_location('tests_identity', {str(Path(__file__))!r}); "
    )
    code += "m = u.module_from_spec(s); sys.modules['tests_identity'] = m; s.loader.exec_module(m); " + wanted
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    first, second = ({name: identity(thing) for name, thing in different().items()} for _ in range(2))
    assert first == second


def test_a_global_that_is_read_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(levelled)
    monkeypatch.setitem(levelled.__globals__, "LEVEL", 2.0)
    assert identity(levelled) != before


def test_documentation_and_place_do_not_count() -> None:
    first, second = {}, {}
    exec("def f(x):\n    'one'\n    return x + 1", first)
    exec("\n\n\ndef f(x):\n    'two'\n    return x + 1", second)
    assert identity(first["f"]) == identity(second["f"])


def test_equal_weights_are_equal_and_every_one_counts() -> None:
    model = small_cnn((1, 8, 8), 3)
    before = identity(model)
    assert before == identity(copy.deepcopy(model)) == identity(model.train())
    assert len(before) == 64
    for name in ("0.weight", "1.running_mean", "1.num_batches_tracked", "11.bias"):
        model.state_dict()[name].add_(1)
        assert identity(model) != before
        model.state_dict()[name].sub_(1)


def test_graphs_of_equal_weights_differ(tmp_path: Path) -> None:
    """torch prints the layers of an exported graph, but not what it does with them."""
    linear, found = nn.Linear(64, 3), set()
    for number, last in enumerate((nn.ReLU(), nn.Tanh(), nn.Identity())):
        graph = torch.export.export(nn.Sequential(nn.Flatten(), linear, last).eval(), (torch.rand(4, 1, 8, 8),))
        torch.export.save(graph, tmp_path / f"{number}.pt2")
        found |= {identity(graph.module()), identity(load_model(tmp_path / f"{number}.pt2", shape=(1, 8, 8)))}
    assert len(found) == 6


def test_constants_of_graphs_count_and_their_mode_does_not() -> None:
    first, same, other = ([identity(graph) for graph in graphs(gain)] for gain in (2.0, 2.0, 3.0))
    assert first == same
    assert not set(first) & set(other)
    [script, *_] = graphs(2.0)
    assert identity(script.train()) == identity(script.eval()) == first[0]


def test_what_has_no_value_is_refused_unless_named(tmp_path: Path) -> None:
    lock = threading.Lock()
    with open(tmp_path / "file", "w") as file:
        for thing in (lock, file, lambda x: (x, lock), (n for n in ())):
            with pytest.raises(SettingError, match=r"cannot be known by its value.*identity='…'"):
                identity(thing)
    with pytest.raises(SettingError, match=r"function captured 'lock' is a _thread:lock"):
        identity(lambda x: (x, lock))
    assert identity(lock, "my model, version 3") == "named by its user: my model, version 3"
    smoother = sc.Smoother(
        lambda x: x[:, :2] if lock else x,
        Noise.isotropic("gaussian", 0.1),
        estimate=200,
        identity="my model, version 3",
    )
    assert smoother.identity["model"] == "named by its user: my model, version 3"


def test_cycles_end() -> None:
    first: dict[str, Any] = {}
    first["itself"] = [first]
    second: dict[str, Any] = {}
    second["itself"] = [second]
    assert identity(first) == identity(second)


@dataclass(frozen=True)
class Doubled(Tuner):
    """A user's tuner."""

    factor: float = setting(2.0, above=0)
    reads_input = True

    def choose(self, smoother: sc.Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return Noise(start.law, (start.scale * self.factor).expand(x.shape), grid=start.grid)


class Plain(Tuner):
    """A user's tuner that is no dataclass."""

    reads_input = True

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def choose(self, smoother: sc.Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return Noise(start.law, (start.scale * self.factor).expand(x.shape), grid=start.grid)


class Wide(Law):
    """A user's law."""

    def __init__(self, width: float = 1.0) -> None:
        self.width = width

    def sample(self, shape: tuple[int, ...], draws: Any) -> Any:
        return draws.normal(shape)

    def log_prob(self, z: Any) -> Any:
        return -np.square(z) / 2 - 0.5 * np.log(2 * np.pi)


def test_laws_and_tuners_are_described_by_text_and_guests_by_their_content_too() -> None:
    assert described(law_named("generalized_normal:beta=1.5")) == "generalized_normal:beta=1.5"
    assert described(tuner_named("ancer")) == str(tuner_named("ancer"))
    assert described(Doubled()).startswith(f"{__name__}:Doubled:factor=2 sha256:")
    twins = [Doubled(2.0), Doubled(3.0), Plain(2.0), Plain(3.0)]
    assert len({described(tuner) for tuner in twins}) == 4
    assert described(Wide(1.0)) != described(Wide(2.0))
    assert described(sc.Pattern(np.full(4, 2.0))) != described(sc.Pattern(np.full(4, 3.0)))


def smoother(model: Any, **changes: Any) -> sc.Smoother:
    given: dict[str, Any] = {"estimate": 200, "select": 50, "seed": 3, "engine": sc.Engine(workers=1)} | changes
    return sc.Smoother(model, Noise.isotropic("gaussian", 0.1, grid=1 / 255), **given)


PAIRS = {
    "closures": (scaled(1.0), scaled(2.0), {}, {}),
    "activations": (activated("relu"), activated("tanh"), {}, {}),
    "forwards": (Added(2.0).eval(), Multiplied(2.0).eval(), {}, {}),
    "attributes": (Added(2.0).eval(), Added(3.0).eval(), {}, {}),
    "settings of a tuner": (scaled(1.0), scaled(1.0), {"tuner": Doubled(2.0)}, {"tuner": Doubled(3.0)}),
    "attributes of a tuner": (scaled(1.0), scaled(1.0), {"tuner": Plain(2.0)}, {"tuner": Plain(3.0)}),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_run_is_not_continued_with_a_near_twin(pair: str, tmp_path: Path) -> None:
    first, second, one, other = PAIRS[pair]
    sc.certify_all(smoother(first, **one), DATA, tmp_path / "run", indices=[0])
    sc.certify_all(smoother(first, **one), DATA, tmp_path / "run", indices=[1])
    with pytest.raises(RunError, match="holds another configuration"):
        sc.certify_all(smoother(second, **other), DATA, tmp_path / "run", indices=[2])


@pytest.mark.parametrize("pair", PAIRS)
def test_a_memory_does_not_answer_for_a_near_twin(pair: str, tmp_path: Path) -> None:
    first, second, one, other = PAIRS[pair]
    x = torch.from_numpy(DATA.inputs([0]))
    with sc.Memory.open(tmp_path / "memory.sqlite") as memory:
        smoother(first, memory=memory, **one).certify(x)
    with sc.Memory.open(tmp_path / "memory.sqlite") as memory:
        smoother(first, memory=memory, **one).predict(x)
        with pytest.raises(RunError, match=r"is of another owner: (model|tuner): "):
            smoother(second, memory=memory, **other)


def test_equal_networks_go_on(tmp_path: Path) -> None:
    model = mlp((4,), 2).eval()
    sc.certify_all(smoother(model), DATA, tmp_path / "run", indices=[0])
    sc.certify_all(smoother(copy.deepcopy(model)), DATA, tmp_path / "run", indices=[1])
