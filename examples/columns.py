"""Which rows of a table keep their class when any few of their columns are replaced by anything? Exact, without alpha.

Breast cancer Wisconsin (scikit-learn): 30 columns. Each view of a row keeps 3 columns and hides 27; all 4 060 are asked.

    python examples/columns.py
"""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import smoothcert as sc
from smoothcert.training import TrainSettings, new_model, train


def main(rows: int = 60) -> list[sc.Certificate]:
    """Train on views, certify so many rows of the test part, and say what was found."""
    x, y = load_breast_cancer(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)
    scaler = StandardScaler().fit(x_train)
    x_train, x_test = (scaler.transform(part).astype(np.float32) for part in (x_train, x_test))

    views = sc.Ablation(keep=3, ask="all", hidden=0.0)  # the mean of every column; any value is sound
    shape = {"name": "mlp", "shape": (x.shape[1],), "classes": 2}
    model = new_model(shape, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        train(
            *(model, x_train, y_train, TrainSettings(recipe="gaussian", epochs=60, batch=64)),
            noise=views,
            out=Path(folder) / "model",
            architecture=shape,
        )

    smoothed = sc.Smoother(model, views, norm=0)
    certificates = smoothed.certify(torch.from_numpy(x_test[:rows]))
    right = [c.label == truth for c, truth in zip(certificates, y_test, strict=False)]
    sizes = Counter(int(c.radius) for c, ok in zip(certificates, right, strict=True) if ok)
    print(
        f"{sum(right)} of {rows} rows are answered right; all of it is exact (alpha = {certificates[0].bound.alpha:g})"
    )
    for size in range(1, max(sizes, default=0) + 1):
        sure = sum(number for certified, number in sizes.items() if certified >= size)
        print(f"any {size} of {x.shape[1]} columns replaced by anything: {sure} of {rows} stay right")
    return certificates


if __name__ == "__main__":
    main()
