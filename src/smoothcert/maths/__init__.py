"""The floor: floats in, floats out. No torch, no clock, and no files but the cache of boundaries."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Array: TypeAlias = Any  # a numpy array or a torch tensor: a law works on both sides of the curtain
