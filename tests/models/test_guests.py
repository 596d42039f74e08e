"""Classifiers of other kinds: each answers as it would be asked by hand, and is told by its content."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import smoothcert as sc
from smoothcert.errors import ModelError, NotFixed, SettingError
from smoothcert.identity import identity
from smoothcert.models import load_model

RNG = np.random.default_rng(3)
X = np.concatenate([RNG.normal(size=(60, 4)) + 3 * np.eye(4)[k] for k in range(3)]).astype(np.float32)
Y = np.repeat(np.arange(3), 60)
BATCH = torch.from_numpy(X[::7])
NOISE = sc.Noise.isotropic("gaussian", 0.5)


def labels(model: Any, batch: torch.Tensor = BATCH) -> list[int]:
    return sc.adapt(model)(batch).argmax(dim=1).tolist()


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        SVC(),
        LinearSVC(),
        DecisionTreeClassifier(random_state=0),
        RandomForestClassifier(10, random_state=0),
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_estimator_answers_as_predict_does(estimator: Any) -> None:
    estimator.fit(X, Y)
    assert labels(estimator) == estimator.predict(BATCH.numpy()).tolist()
    certificates = sc.Smoother(estimator, NOISE, estimate=300).certify(BATCH[:2])
    assert all(c.soundness is sc.Soundness.GLOBAL for c in certificates)  # it passed the probe
    assert labels(estimator, BATCH.reshape(-1, 1, 2, 2)) == labels(estimator)  # pictures as rows of features


def test_an_estimator_fitted_to_a_frame_gets_its_columns_by_name() -> None:
    """Without a warning, which would be an error here; the third column alone decides, picked by its name."""
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    picked = make_column_transformer(("passthrough", ["c"]))
    estimator = make_pipeline(picked, DecisionTreeClassifier()).fit(frame, X[:, 2] > 1)
    assert labels(estimator) == (BATCH[:, 2] > 1).int().tolist()


def test_classes_keep_their_number_or_get_their_place() -> None:
    numbers = DecisionTreeClassifier().fit(X, 2 * Y + 1)
    words = DecisionTreeClassifier().fit(X, np.array(["a", "b", "c"])[Y])
    signs = DecisionTreeClassifier().fit(X, Y - 1)
    assert labels(numbers) == numbers.predict(BATCH.numpy()).tolist()
    assert labels(words) == ["abc".index(word) for word in words.predict(BATCH.numpy())]
    assert labels(signs) == (signs.predict(BATCH.numpy()) + 1).tolist()


def test_an_estimator_is_known_by_its_content() -> None:
    one, same, other = (DecisionTreeClassifier(random_state=0).fit(X + shift, Y) for shift in (0, 0, 0.5))
    names = [identity(sc.adapt(each).model) for each in (one, same, other)]
    assert names[0] == names[1] != names[2]


def test_an_estimator_has_no_gradients() -> None:
    model = sc.adapt(LogisticRegression().fit(X, Y))
    with pytest.raises(ModelError, match="has no gradients"):
        model(BATCH.clone().requires_grad_())
    with pytest.raises(ModelError, match="call its fit first"):
        sc.adapt(LogisticRegression())
    with pytest.raises(ModelError, match="fitted classifier of scikit-learn"):
        sc.adapt(object())


def test_an_estimator_is_named_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_estimator_factory.py").write_text(
        "import numpy as np\nfrom sklearn.tree import DecisionTreeClassifier\n"
        "def build():\n    return DecisionTreeClassifier().fit(np.eye(4), [0, 1, 2, 0])\n"
    )
    monkeypatch.chdir(tmp_path)
    model = load_model("own_estimator_factory:build", shape=(4,))
    assert model(torch.eye(4)).argmax(dim=1).tolist() == [0, 1, 2, 0]


# Functions on arrays

WEIGHT = RNG.normal(size=(4, 3))


def on_arrays(batch: Any) -> Any:
    return np.tanh(batch) @ WEIGHT


def test_a_function_on_arrays_is_asked_with_arrays() -> None:
    expected = on_arrays(BATCH.numpy()).argmax(axis=1).tolist()
    assert labels(on_arrays) == expected
    [certificate] = sc.Smoother(on_arrays, NOISE, estimate=300).certify(BATCH[:1])
    assert certificate.soundness is sc.Soundness.GLOBAL


def test_the_error_of_a_wrong_function_says_its_own() -> None:
    with pytest.raises(ModelError, match="mat1 and mat2"):
        sc.adapt(nn.Linear(5, 3))(BATCH)
    with pytest.raises(ModelError, match="mine"):
        sc.adapt(lambda batch: (_ for _ in ()).throw(ValueError("mine")))(BATCH)


def test_arrays_are_probed_too() -> None:
    """A function that looks at the rest of the batch is refused as any other."""
    with pytest.raises(NotFixed):
        sc.Smoother(lambda batch: on_arrays(np.asarray(batch) - np.asarray(batch).mean(axis=0)), NOISE).certify(
            BATCH[:1]
        )


class Keras:
    """Probabilities for arrays: of every class, or of the second of two."""

    def __init__(self, single: bool) -> None:
        self.single = single

    def predict_proba(self, batch: Any) -> Any:
        assert isinstance(batch, np.ndarray)
        first = 1 / (1 + np.exp(-batch[:, :1].astype(float)))
        return first if self.single else np.concatenate([1 - first, first], axis=1)


def test_probabilities_are_scores() -> None:
    expected = (X[::7, 0] > 0).astype(int).tolist()
    assert labels(Keras(single=False)) == labels(Keras(single=True)) == expected


# One score


def test_one_score_is_a_logit_unless_a_sigmoid_ends_the_model() -> None:
    line = nn.Linear(4, 1)
    expected = (line(BATCH)[:, 0] > 0).long().tolist()
    assert labels(line) == labels(lambda x: line(x)[:, 0]) == labels(nn.Sequential(line, nn.Sigmoid())) == expected
    assert (
        sc.adapt(line, score="probability")(BATCH).argmax(dim=1).tolist() == (line(BATCH)[:, 0] > 0.5).long().tolist()
    )


def test_a_model_that_names_the_class_is_refused_and_one_hot_classes_are_taken() -> None:
    """As a logit every class but 0 would be class 1."""
    wide = nn.Linear(4, 5)
    expected = wide(BATCH).argmax(dim=1)
    named: list[Any] = [
        lambda x: wide(x).argmax(dim=1),
        lambda x: wide(x).argmax(dim=1).float()[:, None],
        lambda x: wide(x).argmax(dim=1).detach().numpy(),
    ]
    assert int(expected.max()) > 1
    for model in named:
        with pytest.raises(ModelError, match="as if it named the class.*one_hot"):
            sc.Smoother(model, NOISE).certify(BATCH[:1])
    assert labels(lambda x: nn.functional.one_hot(wide(x).argmax(dim=1), 5)) == expected.tolist()
    assert labels(lambda x: (wide(x)[:, 0] > 0).float() * 2 - 1) == (wide(BATCH)[:, 0] > 0).long().tolist()


def test_a_score_that_may_be_a_probability_is_asked_about() -> None:
    hidden = nn.Linear(4, 1)

    def model(x: torch.Tensor) -> torch.Tensor:
        return hidden(x).sigmoid()

    with pytest.raises(ModelError, match="say so: sc.adapt"):
        sc.Smoother(model, NOISE).certify(BATCH[:1])
    told = sc.adapt(model, score="probability")
    assert told(BATCH).argmax(dim=1).tolist() == (hidden(BATCH)[:, 0] > 0).long().tolist()
    assert identity(told.model) != identity(sc.adapt(model, score="logit").model)
    with pytest.raises(SettingError, match="must be one of logit, probability"):
        sc.adapt(model, score="odds")  # type: ignore[arg-type]
