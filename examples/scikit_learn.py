"""A scikit-learn model and a data frame: certify it as it is.

python examples/scikit_learn.py
"""

import pandas as pd
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

import smoothcert as sc

iris = load_iris(as_frame=True)
frame: pd.DataFrame = iris.frame  # four measurements and a column "target"
model = KNeighborsClassifier(15).fit(iris.data.to_numpy(), iris.target)

noise = sc.Noise.isotropic("gaussian", sigma=0.3)  # centimetres
smoothed = sc.Smoother(model, noise, norm=2, estimate=1_000)
for certificate in smoothed.certify(frame[::30]):
    print(certificate)  # the answer holds for every flower within the radius
