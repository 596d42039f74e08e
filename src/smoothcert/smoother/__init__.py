"""Steps 1-6 in one call: the smoothed classifier, who chooses its noise, and what is asked about an input."""

from smoothcert.smoother.inquiry import Batch, Poll, checked
from smoothcert.smoother.smoother import Smoother, machine_facts
from smoothcert.smoother.tuner import FixedNoise, Tuner

__all__ = ["Batch", "FixedNoise", "Poll", "Smoother", "Tuner", "checked", "machine_facts"]
