"""Costs in any unit: the range that they lie in, learnt from the costs that are seen.

The same as the engine's (cpp/kernel/cost_range.h), in plain Python: OPOLearner uses it, and the engine is
tested against it.
"""

import copy
from dataclasses import dataclass, field

import numpy as np

LARGEST_START = 0.25  # the share of the range above the best cost that a model starts at, at most
GROWTH = 1 / 8  # a learnt end moves by at least this share of the width


@dataclass(frozen=True)
class Unit:
    """How costs become labels: (cost - origin) / width - start."""

    origin: float
    width: float
    start: float

    def label(self, cost: float) -> float:
        return (cost - self.origin) / self.width - self.start

    def loss(self, label: float) -> float:
        """In [0, 1]."""
        return min(1.0, max(0.0, label + self.start))

    def map_to(self, other: "Unit") -> tuple[float, float]:
        """(scale, shift) such that scale * label + shift is the other's label of the same cost."""
        scale = self.width / other.width
        return scale, scale * self.start + (self.origin - other.origin) / other.width - other.start


@dataclass
class CostRange:
    """The range of the costs. An end that is not given is learnt: it moves out to the costs that are seen.

    Args:
        fixed_min, fixed_max: ends that are given.
    """

    fixed_min: float | None = None
    fixed_max: float | None = None
    min: float = field(init=False, default=np.inf)
    max: float = field(init=False, default=-np.inf)
    #: What a model is to predict, as a loss, of an action that was never tried: a quarter of the range, or half the
    #: mean loss when the range last changed, if that is less.
    start: float = field(init=False, default=LARGEST_START)
    _sum: float = field(init=False, default=0.0)  # of all costs, each less min
    _count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.fixed_min is not None:
            self.min = self.fixed_min
        if self.fixed_max is not None:
            self.max = self.fixed_max

    @property
    def known(self) -> bool:
        """Whether there is anything to compare: from the second different cost on."""
        return self.min < self.max

    @property
    def width(self) -> float:
        return self.max - self.min

    def observe(self, cost: float) -> None:
        """Widens the range to hold a cost."""
        step = GROWTH * self.width if self.known else 0.0
        low, high = self.min, self.max
        cost = self.clip(cost)
        if self.fixed_max is None and cost > high:
            self.max = max(cost, high + step)
        if self.fixed_min is None and cost < low:
            self.min = min(cost, low - step)
        changed = (low, high) != (self.min, self.max)
        if self._count and self.min != low:
            self._sum += self._count * (low - self.min)
        self._sum += cost - self.min
        self._count += 1
        if changed and self.known:
            self.start = min(LARGEST_START, self._sum / (self._count * self.width) / 2)

    def clip(self, cost: float) -> float:
        """To the ends that are given."""
        low = -np.inf if self.fixed_min is None else self.fixed_min
        high = np.inf if self.fixed_max is None else self.fixed_max
        return min(high, max(low, cost))

    def unit(self, cost: float) -> Unit:
        """In which a cost is learnt. Before the range is known all costs are the same: they are the origin."""
        if self.known:
            return Unit(self.min, self.width, self.start)
        after = copy.copy(self)
        after.observe(cost)
        origin = self.max if np.isfinite(self.min) and np.isfinite(self.max) else cost
        return Unit(origin, after.width if after.known else 1.0, 0.0)

    def loss(self, cost: float) -> float:
        """In [0, 1]; a cost outside of a range that was given is clipped to it."""
        return min(1.0, max(0.0, (cost - self.min) / self.width))
