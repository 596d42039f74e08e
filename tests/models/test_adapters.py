"""Any callable as a classifier, and batch dependence."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError
from smoothcert.models import Exported, classifier_of, small_cnn, unfixed
from smoothcert.polling import make_fixed


def first_two(x: Tensor) -> Tensor:
    return x.flatten(1)[:, :2]


class WithLogits(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return SimpleNamespace(logits=first_two(x))


@pytest.mark.parametrize("model", [first_two, WithLogits(), nn.Flatten()])
def test_any_callable_is_a_classifier(model: Any) -> None:
    x = torch.rand(3, 2)
    assert torch.equal(classifier_of(model)(x), x)


def test_what_cannot_be_asked_says_what_to_give() -> None:
    with pytest.raises(ModelError, match=r"Flatten is a class.*give Flatten\(…\)"):
        classifier_of(nn.Flatten)
    gray = classifier_of(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)))
    with pytest.raises(ModelError, match=r"\(2, 3, 4, 4\).*gray=true"):
        gray(torch.zeros(2, 3, 4, 4))
    with pytest.raises(ModelError, match=r"made for, or a model for inputs of shape \(5,\)"):
        gray(torch.zeros(2, 5))


def test_a_training_model_is_put_in_eval_mode() -> None:
    model = small_cnn((1, 8, 8), 3).train()
    classifier = classifier_of(model)
    assert not any(module.training for module in classifier.modules())
    assert classifier_of(classifier) is classifier


def test_a_layer_left_in_train_mode_is_found() -> None:
    model = small_cnn((1, 8, 8), 3).eval()
    model[1].train()
    assert not any(module.training for module in classifier_of(model).modules())


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (lambda x: [1, 2], "returned a list"),
        (lambda x: x.flatten(1).sum(), r"shape \(\) for a batch of 3"),
        (lambda x: torch.zeros(1, 4), r"shape \(1, 4\) for a batch of 3"),
        (lambda x: torch.zeros(3, 4, 5, 5), "allowed: \\(3, classes\\)"),
    ],
)
def test_other_outputs_are_refused(output: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        classifier_of(output)(torch.rand(3, 2))


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ModelError, match="got a int"):
        classifier_of(3)  # type: ignore[arg-type]


def exported(model: nn.Module) -> nn.Module:
    shapes = ({0: torch.export.Dim("batch")},)
    return torch.export.export(model, (torch.rand(4, 1, 8, 8),), dynamic_shapes=shapes).module()


def test_an_exported_graph_is_a_classifier_as_it_is() -> None:
    model = small_cnn((1, 8, 8), 3).eval()
    x = torch.rand(5, 1, 8, 8)
    classifier = classifier_of(exported(model))
    assert torch.allclose(classifier(x), model(x), atol=1e-5)
    assert isinstance(classifier.model, Exported)
    assert unfixed(classifier) == []


def test_an_exported_graph_deep_inside_is_named() -> None:
    with pytest.raises(ModelError, match=r"smoothcert\.models\.Exported"):
        classifier_of(nn.Sequential(nn.Identity(), exported(small_cnn((1, 8, 8), 3).eval())))


def test_layers_that_use_the_batch_are_named() -> None:
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False)))
    assert unfixed(classifier_of(model)) == ["model.1.0"]
    assert unfixed(nn.BatchNorm2d(1, track_running_stats=False)) == [""]


def test_a_graph_exported_in_training_mode_is_no_fixed_function() -> None:
    graph = exported(small_cnn((1, 8, 8), 3).train())
    names = unfixed(classifier_of(graph))
    assert len(names) == 3
    assert all(name.startswith("model.graph.batch_norm") for name in names)


def test_dropout_exported_in_training_mode_is_no_fixed_function() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(64, 3))
    assert unfixed(classifier_of(exported(model.train()))) == ["model.graph.dropout"]
    with pytest.raises(ModelError, match="dropout"):
        make_fixed(classifier_of(exported(model)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing was switched, so nothing is said
        make_fixed(classifier_of(exported(model.eval())))
