"""Costs in any unit: the cost range, learnt from the costs seen.

The same as the engine's (cpp/kernel/cost_range.h), in plain Python: OPOLearner uses it, and the engine is
tested against it.
"""

import copy
from dataclasses import dataclass, field

import numpy as np

LARGEST_START = 0.25  # the largest start of a model, as a share of the range
DEVIATIONS = 2  # half the width of the range, in standard deviations
TOLERANCE = 0.25  # how far an end may be off before the range moves, as a share of the width
# Of CostRange.tame:
LEAST_KNOWN = 5  # costs, before one is doubted
FAR = 10  # times the spread
MOST_DOUBTED = 2  # costs
ROOM_ABOVE = 0.25  # of CostRange.shift
EXPECTED_AS = 100  # newcomers, of CostRange.newcomer_loss
UNKNOWN_LOSS = 0.5  # in the engine: what a prediction above the largest plausible loss counts as


@dataclass(frozen=True)
class Unit:
    """How costs become labels: (cost - origin) / width - start."""

    origin: float
    width: float
    start: float

    def label(self, cost: float) -> float:
        return (cost - self.origin) / self.width - self.start

    def map_to(self, other: "Unit") -> tuple[float, float]:
        """(scale, shift) such that scale * label + shift is the other's label of the same cost."""
        scale = self.width / other.width
        return scale, scale * self.start + (self.origin - other.origin) / other.width - other.start


@dataclass
class CostRange:
    """The cost range, from low to high.

    The mean plus and minus two standard deviations, within the lowest and the highest cost so far. It moves only if an
    end is off by more than a quarter of the width.

    Args:
        lower_limit, upper_limit: costs outside of them are clipped.
    """

    lower_limit: float = -np.inf
    upper_limit: float = np.inf
    min: float = field(init=False, default=np.inf)
    max: float = field(init=False, default=-np.inf)
    #: The loss that a model should predict for an untried action: a quarter of the range, or half the mean loss when
    #: the range last moved, if that is less.
    start: float = field(init=False, default=LARGEST_START)
    _first: float = field(init=False, default=0.0)  # the first cost; the rest is relative to it
    _low: float = field(init=False, default=0.0)
    _high: float = field(init=False, default=0.0)
    _sum: float = field(init=False, default=0.0)
    _squares: float = field(init=False, default=0.0)
    _count: int = field(init=False, default=0)
    _far_costs: int = field(init=False, default=0)  # how many were beyond all others by ten times their spread
    newcomers: int = field(init=False, default=0)
    _newcomer_sum: float = field(init=False, default=0.0)

    @property
    def known(self) -> bool:
        """Whether two different costs have been seen."""
        return self.min < self.max

    @property
    def low(self) -> float:
        return self._first + self._low

    @property
    def high(self) -> float:
        return self._first + self._high

    @property
    def width(self) -> float:
        return self._high - self._low

    def observe(self, cost: float) -> None:
        """Learns from a cost."""
        tamed, was_known = self.tame(cost), self.known
        self._far_costs += int(tamed != self.clip(cost))
        cost = tamed
        self.min, self.max = min(self.min, cost), max(self.max, cost)
        if self._count == 0:
            self._first = cost
        self._count += 1
        difference = cost - self._first
        self._sum += difference
        self._squares += difference * difference

        mean = self._sum / self._count
        deviation = np.sqrt(max(0.0, self._squares / self._count - mean * mean))
        low, high = self.min - self._first, self.max - self._first
        if deviation > 0:
            low, high = max(low, mean - DEVIATIONS * deviation), min(high, mean + DEVIATIONS * deviation)
        most = TOLERANCE * (high - low)
        if not self.known or (was_known and abs(low - self._low) <= most and abs(high - self._high) <= most):
            return
        self._low, self._high = float(low), float(high)
        self.start = min(LARGEST_START, (mean - low) / (high - low) / 2)

    def observe_newcomer(self, counts_as: float) -> None:
        """Learns what a newcomer cost: an action of which the regression knew no feature when it was played."""
        self._newcomer_sum += counts_as - self._first
        self.newcomers += 1

    def newcomer_loss(self, start: float) -> float:
        """What a newcomer's loss is expected to be: the mean of those before it, if there have been many. What the
        model predicts, the start, counts as if a hundred had had that loss. For the engine: here no action is new."""
        if not self.newcomers:
            return start
        mean = (self._newcomer_sum / self.newcomers - self._low) / self.width
        return (EXPECTED_AS * start + self.newcomers * min(1.0, max(0.0, mean))) / (EXPECTED_AS + self.newcomers)

    def clip(self, cost: float) -> float:
        """Clips a cost to the limits."""
        return min(self.upper_limit, max(self.lower_limit, cost))

    def tame(self, cost: float) -> float:
        """What a cost counts as: clipped to the limits, and, if it is beyond all costs so far by more than ten times
        their spread, as the nearest of these. It may be wrong, such as a sensor's -9999 among clicks.

        Only the first two such costs are doubted: later ones are clipped at ten times the spread, which then grows.
        """
        cost = self.clip(cost)
        lowest = min(self.min, self.lower_limit if np.isfinite(self.lower_limit) else np.inf)
        highest = max(self.max, self.upper_limit if np.isfinite(self.upper_limit) else -np.inf)
        far = FAR * (highest - lowest)
        if not self.known or self._count < LEAST_KNOWN or lowest - far <= cost <= highest + far:
            return cost
        room = 0.0 if self._far_costs < MOST_DOUBTED else far
        return self.clip(min(highest + room, max(lowest - room, cost)))

    def unit(self, cost: float) -> Unit:
        """The unit in which a cost is learnt. Before the range is known all costs are equal: they are the origin."""
        if self.known:
            return Unit(self._first, self.width, self._low / self.width + self.start)
        after = copy.copy(self)
        after.observe(cost)
        return Unit(after._first, after.width if after.known else 1.0, 0.0)

    def loss(self, cost: float) -> float:
        """0 for low, 1 for high, outside of [0, 1] for unusual costs."""
        return (self.clip(cost) - self._first - self._low) / self.width

    @property
    def largest_plausible_loss(self) -> float:
        """A prediction above this is of a model that does not know the action: it exceeds the loss of every cost so
        far by more than the width of the range."""
        return self.loss(self.max) + 1

    def shift(self, lowest_loss: float) -> float:
        """By how much the range moves up for a context whose best action has this loss, as a share of its width: it has
        room for a quarter of its width above that action, as far as there have been costs above the range."""
        return max(0.0, min(lowest_loss + ROOM_ABOVE, self.loss(self.max)) - 1)
