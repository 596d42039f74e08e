"""From votes to a certificate: who is chosen, what lowers the bound, which label wins."""

import math

import numpy as np
from scipy.special import ndtri

from smoothcert.certificates import Ballot, Certificate, Soundness, conclude, weakest
from smoothcert.estimators import Plan
from smoothcert.laws import law_named
from smoothcert.maths.intervals import lower_bound
from smoothcert.votes import Votes


def table(*counts: int, invalid: int = 0) -> Votes:
    """The votes of one input at one look."""
    return Votes(np.array([[counts]]), np.array([[invalid]]))


class TestCertificates:
    def conclude(self, selection: Votes, estimation: Votes) -> Certificate:
        return conclude(
            Ballot(selection, estimation),
            plan=Plan("fixed", trials=1000, alpha=0.001, block=1000),
            law=law_named("gaussian"),
            center=np.zeros(3),
            scale=np.array(0.5),
            norm=2,
            soundness=Soundness.GLOBAL,
        )

    def test_the_class_is_chosen_by_the_selection_votes_alone(self) -> None:
        """Class 1 leads the selection but loses the estimation: an abstention, not a switch to class 0."""
        certificate = self.conclude(table(40, 60), table(900, 100))
        assert (certificate.label, certificate.region, certificate.radius) == (None, None, 0.0)

    def test_a_certificate(self) -> None:
        certificate = self.conclude(table(90, 10), table(990, 10))
        assert certificate.label == 0
        assert certificate.soundness == "global"
        assert math.isclose(certificate.radius, 0.5 * float(ndtri(lower_bound(990, 1000, 0.0009))))

    def test_invalid_votes_lower_the_bound(self) -> None:
        with_nan = self.conclude(table(90, 10), table(900, 0, invalid=100))
        without = self.conclude(table(90, 10), table(1000, 0))
        assert 0 < with_nan.radius < without.radius
        assert with_nan.bound.lower == float(lower_bound(900, 1000, 0.0009))

    def test_the_weakest_label_wins(self) -> None:
        assert weakest([Soundness.ESTIMATE, Soundness.MEMORY]) is Soundness.ESTIMATE
        assert [label.value for label in Soundness] == ["global", "memory", "frozen", "estimate", "imported"]
