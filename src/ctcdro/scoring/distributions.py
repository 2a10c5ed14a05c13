"""Distribution functions and quantiles: SciPy's, under readable names, and an approximation of Student's."""

from __future__ import annotations

import numpy as np

from ..runtime.extras import extra
from .edits import Floats

with extra("data", "Confidence intervals"):
    from scipy import special

chi_squared_upper_tail = special.chdtrc
normal_cdf, normal_quantile = special.ndtr, special.ndtri
student_cdf, student_quantile = special.stdtr, special.stdtrit


def student_of_normal(z: float, degrees: Floats) -> Floats:
    """Student's quantile of the probability that z has in the normal distribution.

    Accurate to 0.1% from 9 degrees of freedom on. Below, it is larger than the exact quantile, so that intervals from
    two or three utterances contain the truth often enough (Wallace, "Bounds on normal approximations to Student's and
    the chi-square distributions", 1959).
    """
    finite = np.minimum(degrees, 1e9)
    scaled = z * (8 * finite + 3) / (8 * finite + 1)
    return np.sign(z) * np.sqrt(finite * np.expm1(scaled**2 / finite))


def normal_of_student(t: Floats, degrees: Floats) -> Floats:
    """The inverse of `student_of_normal`."""
    finite = np.minimum(degrees, 1e9)
    return np.sign(t) * np.sqrt(finite * np.log1p(t**2 / finite)) * (8 * finite + 1) / (8 * finite + 3)
