"""Workers prove themselves: who computes anything but the driver's numbers is left out, whatever it is that differs."""

from typing import Any

import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.asks import Ask, Noisy
from smoothcert.errors import ClusterError
from smoothcert.execution.crew import Crew, Member
from smoothcert.seeds import Stage

NOISE = sc.Noise.isotropic("gaussian", 0.5)
ASK = Ask(0, Stage.PROBE, Noisy(torch.zeros(3), NOISE), 0, 1, 100)


def proof(weight: float = 1.0, **settings: Any) -> dict[str, str]:
    """What a worker says of itself whose network has this weight."""
    layer = nn.Linear(3, 2, bias=False).eval()
    nn.init.constant_(layer.weight, weight)
    with torch.no_grad():
        layer.weight[1] = -1.0
    named = {"identity": "one name", "check": False, "engine": sc.Engine(100, workers=1)} | settings
    return sc.Smoother(layer, NOISE, **named).prove(ASK)


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def test_a_proof_shows_the_bits_of_the_logits_and_who_computes() -> None:
    """A network of the same name whose weights differ in the last bit, another seed, another method."""
    assert proof() == proof()
    assert differing(proof(), proof(1.0 + 2**-23)) == {"logits bits"}
    assert differing(proof(), proof(seed=1)) >= {"noise bits", "logits bits"}
    assert differing(proof(), proof(identity="another")) == {"model"}
    assert "tuner" in differing(proof(), proof(tuner=sc.Ancer(steps=2)))


class Killing:
    """As much of Ray as judging needs."""

    def __init__(self) -> None:
        self.killed: list[Any] = []

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


def crew_of(*actors: str) -> Any:
    crew: Any = object.__new__(Crew)
    crew.ray, crew.expected, crew.refused = Killing(), proof(), ""
    crew.members = [Member(number, actor, None) for number, actor in enumerate(actors)]
    return crew


@pytest.mark.parametrize("name", sorted(proof()))
def test_a_worker_that_differs_in_anything_is_left_out(name: str) -> None:
    crew = crew_of("odd", "same")
    odd, same = crew.members
    crew._judge(same, proof() | {"node": "there"})
    assert same.free
    with pytest.warns(UserWarning, match=f"does not compute what the driver does: {name} other instead of .*left out"):
        crew._judge(odd, proof() | {name: "other", "node": "elsewhere"})
    assert (crew.members, crew.ray.killed, odd.free) == ([same], ["odd"], False)


def test_a_worker_that_keeps_something_to_itself_is_left_out() -> None:
    crew = crew_of("only")
    with pytest.raises(ClusterError, match="logits bits None instead of .*no worker is left"):
        crew._judge(crew.members[0], {name: value for name, value in proof().items() if name != "logits bits"})
