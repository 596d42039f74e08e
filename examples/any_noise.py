"""Any noise in any norm: the radius that is proved, the one that nobody can exceed, and the theorem.

python examples/any_noise.py
"""

import smoothcert as sc

for law in ("gaussian", "laplace", "uniform", "generalized_normal:beta=1.5"):
    for norm in (1, 2, "inf"):
        found = sc.certified_radius(law, norm, p=0.9, dim=784, sigma=1.0)
        print(f"{law:28} l{norm:<4} {found.lower:.4f} to {found.upper:.4f}  {found.rule}")
