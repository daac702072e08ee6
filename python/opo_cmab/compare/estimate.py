r"""From passes to estimates with intervals.

**The interval.** Let $\theta_1, \dots, \theta_P$ be the estimates of P passes over one log. Their mean varies for
two reasons. Each pass has coins of its own, so the sample variance $S^2$ over passes shows what these do. The
log is one draw too, and all passes share it: that part is the covariance of two passes. It comes from the lines that
both accept. Let $\kappa$ be the share of accepted rounds that two passes have in common, and $S_a^2$ the
sample variance of the mean cost of accepted rounds alone. Then, to first order,

$$
\mathrm{Cov} \approx \kappa\, \mathrm{Var} = \frac{\kappa}{1 - \kappa}\, S_a^2, \qquad
\mathrm{Var}(\bar\theta) \approx \frac{\kappa}{1 - \kappa}\, S_a^2 + \frac{S^2}{P} .
$$

This is the delete-d jackknife (Shao and Wu 1989) with lines left out at random. Luck in learning is in $S^2$ as
well as the noise of costs. Effects of j lines together are shared by $\kappa^j$ only, so what is not linear
makes the interval wider than it need be. docs/results/compare.md measures how often it holds the truth.

The interval is Student's with P - 1 degrees of freedom. So that passes in which nothing rare happened do not make a
narrow one, the variance is increased by that of one more event of the largest size (as in the rule of three).

**Why not vw-estimators.** Its intervals are for a policy that does not learn, from independent weighted rounds. Here
rounds depend on those before and the passes on each other, and the luck of learning is no part of its intervals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["Estimate", "Passes", "estimate", "passes_needed", "share_in_common", "student_quantile", "times_as_many"]

MOST_SHARED = 0.95  # above this, passes are too similar to show how they vary


@dataclass(frozen=True)
class Estimate:
    mean: float
    low: float
    high: float
    of_the_log: float = 1.0  #: the part of the variance that more passes do not reduce

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def rounded(self, value: float) -> str:
        """Rounded to two significant digits of the half width."""
        if not 0 < self.half_width < math.inf:
            return f"{value:.4g}"
        decimals = max(0, 1 - math.floor(math.log10(self.half_width)))
        return f"{value:.{decimals}f}"

    @property
    def interval(self) -> str:
        return f"{self.rounded(self.low)} to {self.rounded(self.high)}"

    @property
    def tells(self) -> bool:
        """Whether 0 is outside of the interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Passes:
    """The passes of an explorer, or of the difference of two."""

    estimates: NDArray[np.float64]  #: of the mean cost, by pass
    accepted: NDArray[np.float64]  #: the mean cost of accepted rounds, by pass
    lines: Sequence[Counter[int]]  #: accepted, by pass: 1, or -1 for those of the explorer that is subtracted
    shared: float  #: the share of accepted rounds that two passes have in common

    @staticmethod
    def of(estimates: NDArray[np.float64], accepted: NDArray[np.float64], lines: Sequence[Counter[int]]) -> Passes:
        return Passes(estimates, accepted, lines, share_in_common(lines))

    def __sub__(self, other: Passes) -> Passes:
        lines = []
        for ours, theirs in zip(self.lines, other.lines, strict=True):
            difference = Counter(ours)
            difference.subtract(theirs)
            lines.append(difference)
        return Passes.of(self.estimates - other.estimates, self.accepted - other.accepted, lines)


def share_in_common(lines: Sequence[Counter[int]]) -> float:
    r"""The share $\kappa$ of accepted rounds that two passes have in common, on average over pairs of passes.

    For the difference of two explorers a line counts 1 or -1: $\sum_i x_{ip} x_{iq} / \sum_i x_{ip}^2$.
    """
    total: Counter[int] = Counter()
    for of_a_pass in lines:
        total.update(of_a_pass)
    own = sum(x * x for of_a_pass in lines for x in of_a_pass.values())
    both = sum(x * x for x in total.values()) - own
    return min(max(both / max((len(lines) - 1) * own, 1), 0.0), MOST_SHARED)


def student_quantile(probability: float, degrees: int) -> float:
    """Of Student's distribution, by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5): within 1 % from
    5 degrees of freedom on. SciPy is not needed for it."""
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(term / degrees**i for i, term in enumerate(terms)))


def estimate(passes: Passes, rounds: int, width: float, level: float = 0.95) -> Estimate:
    """The mean over passes and its confidence interval.

    Args:
        passes: of an explorer, or the difference of two.
        rounds: accepted in each pass.
        width: of the range of costs.
        level: of confidence.
    """
    count = len(passes.estimates)
    shared = passes.shared
    of_the_log = shared / (1 - shared)
    of_coins = float(passes.estimates.var(ddof=1)) / count
    variance = of_the_log * float(passes.accepted.var(ddof=1)) + of_coins
    variance += (width * (of_the_log + 1 / count) / rounds) ** 2
    half = student_quantile((1 + level) / 2, count - 1) * math.sqrt(variance)
    mean = float(passes.estimates.mean())
    return Estimate(mean, mean - half, mean + half, 1 - of_coins / variance if variance else 1.0)


def passes_needed(difference: Estimate, passes: int) -> float:
    """The passes over the same log needed to detect a difference of this size; infinite if the log is too short."""
    wanted, variance = difference.mean**2, difference.half_width**2
    left = wanted - variance * difference.of_the_log
    return passes * variance * (1 - difference.of_the_log) / left if left > 0 else math.inf


def times_as_many(difference: Estimate) -> float:
    """How many times more rounds would detect a difference of this size: intervals shrink with the root of rounds."""
    return math.inf if difference.mean == 0 else (difference.half_width / abs(difference.mean)) ** 2
