"""Clopper–Pearson: exact against SciPy, exact in coverage, and what it gives at best."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from smoothcert.maths.intervals import lower_bound, upper_bound


class TestIntervals:
    def test_clopper_pearson_agrees_with_scipy_for_every_count(self) -> None:
        for n in (1, 2, 7, 50, 200):
            k = np.arange(n + 1)
            for alpha in (0.001, 0.05):
                low = [stats.binomtest(int(i), n).proportion_ci(1 - 2 * alpha, "exact").low for i in k]
                high = [stats.binomtest(int(i), n).proportion_ci(1 - 2 * alpha, "exact").high for i in k]
                np.testing.assert_allclose(lower_bound(k, n, alpha), low, atol=1e-12)
                np.testing.assert_allclose(upper_bound(k, n, alpha), high, atol=1e-12)

    @pytest.mark.parametrize("p", [0.5, 0.9, 0.999])
    def test_coverage_is_exact_and_at_least_nominal(self, p: float) -> None:
        """P(bound > p), summed over the binomial distribution, is at most alpha."""
        n, alpha = 300, 0.01
        k = np.arange(n + 1)
        wrong = stats.binom.pmf(k, n, p)[lower_bound(k, n, alpha) > p].sum()
        assert wrong <= alpha

    def test_largest_certified_radii_in_sigmas(self) -> None:
        largest = [float(ndtri(lower_bound(n, n, 0.001))) for n in (10**2, 10**3, 10**4, 10**5, 10**6)]
        np.testing.assert_allclose(largest, [1.500, 2.463, 3.199, 3.811, 4.347], atol=5e-4)

    def test_nothing_certifies_nothing(self) -> None:
        assert float(lower_bound(0, 10, 0.001)) == 0.0
        assert float(upper_bound(10, 10, 0.001)) == 1.0
