"""Least squares in blocks (cpp/kernel/least_squares.h) in NumPy, in double and with dense matrices."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

PENALTIES = (0.3, 3.0, 30.0)  # of the candidates with blocks
PENALTY_ALONE = 1.0  # of the one without
KEPT_ALONE = 0.9  # by it, of what is known about a weight, from one example with it to the next
FORGET = 0.999  # of past errors
LARGEST_ERROR = 64.0
FIRST_WEIGHTS = 1024  # they join a block at once; later ones when they are learnt again
LATER_BLOCK = 8  # the room of blocks that are opened after that
LARGEST_FEATURE, LARGEST_GROWTH, LARGEST_Z, LARGEST_WEIGHT = 1e15, 1000.0, 100.0, 1e9

Array = NDArray[np.float64]


class LeastSquares:
    """One example at a time, its features as numbers of weights and their values.

    Args:
        block: the most weights in a block; 1: each weight for itself.
        penalty: of plain ridge regression; 0: several, chosen by their recent errors.
    """

    def __init__(self, block: int = 32, penalty: float = 0.0) -> None:
        self.block, self.adapts = block, penalty == 0
        given = [(penalty, block > 1)]
        self.candidates = [*((p, block > 1) for p in PENALTIES), (PENALTY_ALONE, False)] if self.adapts else given
        self.keep = [1.0] * len(PENALTIES) + [KEPT_ALONE] if self.adapts else [1.0]
        self.best = 1 if self.adapts else 0  # the candidate in use
        self.errors = np.zeros(len(self.candidates))
        self.index: dict[int, int] = {}  # from the number of a weight to its place in what follows
        self.scale = np.zeros(0)  # the largest value of a feature on it
        self.home = np.zeros(0, int)  # its block; -1: it is alone
        self.observed = np.zeros(0)  # the sum of h z^2 of all examples
        self.rooms: list[int] = []  # of each block: for how many weights
        self.w = np.zeros((len(self.candidates), 2, 0))  # fitted to labels relative to the first one, and to ones
        self.P = np.zeros((len(self.candidates), 0, 0))
        self.origin = self.distance = self.squares = self.count = 0.0
        self.lowest, self.highest = np.inf, -np.inf

    @property
    def mean(self) -> float:
        return self.origin + self.distance

    def predict(self, weights: ArrayLike, values: ArrayLike, initial: float) -> float:
        """The predicted label; initial where nothing is known."""
        return self._clip(self._value(self.best, self._z(self._sums(weights, values)), initial))

    def learn(
        self, weights: ArrayLike, values: ArrayLike, label: float, weight: float = 1.0, initial: float = 0.0
    ) -> float:
        """Learns a label; what was predicted for it."""
        if not weight > 0:
            return self.predict(weights, values, initial)
        if self.count == 0:
            self.origin = label
        sums = self._sums(weights, values)
        self._add_weights(sums)
        self._add_units(sums)
        self._assign_blocks([self.index[number] for number in sums])
        z, result, variance = self._z(sums), 0.0, self.squares / self.count if self.count else 0.0
        self.observed += min(weight, LARGEST_WEIGHT) * z**2
        for k in range(len(self.candidates)):
            value = self._value(k, z, initial)
            if k == self.best:
                result = self._clip(value)
            if variance > 0:
                self.errors[k] = FORGET * self.errors[k] + min(LARGEST_ERROR, (value - label) ** 2 / variance)
            self._observe(k, z, np.array([label - self.origin, 1.0]), 1 / min(weight, LARGEST_WEIGHT))
            if self.keep[k] < 1:
                active = [self.index[number] for number in sums]
                self.P[k][active, active] = np.minimum(
                    1 / self.candidates[k][0], self.P[k][active, active] / self.keep[k]
                )
        if variance > 0:
            self.best = int(np.argmin(self.errors))
        self._observe_label(label, min(weight, LARGEST_WEIGHT))
        return result

    def variance(self, weights: ArrayLike, values: ArrayLike) -> float:
        """Of the prediction, in units of that of the noise."""
        sums, penalty = self._sums(weights, values), self.candidates[self.best][0]
        z = self._z(sums)
        parts = []  # of each block and each unknown weight: the prior's variance, and that of now
        for number in (n for n, (x, _) in sums.items() if x != 0 and not self._has_unit(n)):
            x = 1.0 if self.adapts else sums[number][0]
            if number in self.index:
                z[self.index[number]] = x
            else:
                parts.append((x * x / penalty, x * x / penalty))
        for g in self._groups(self.best, z):
            covariance = self.P[self.best][np.ix_(g, g)]
            if len(g) == 1 and self.keep[self.best] == 1:  # a weight that is alone: of its own rounds
                covariance = np.diag(1 / (penalty + self.observed[g]))
            parts.append((float(z[g] @ z[g]) / penalty, float(z[g] @ covariance @ z[g])))
        # Parts with more rounds were observed without the others in these.
        parts = sorted(((prior, 1 / v - 1 / prior) for prior, v in parts), key=lambda part: -part[1])
        result, rounds = 0.0, [max(0.0, n) for _, n in parts] + [0.0]
        for i, (prior, _) in enumerate(parts):
            result = 1 / (1 / (result + prior) + rounds[i] - rounds[i + 1])
        return result

    def _sums(self, weights: ArrayLike, values: ArrayLike) -> dict[int, tuple[float, float]]:
        """Of each weight: the sum of its features, and the largest."""
        sums: dict[int, tuple[float, float]] = {}
        for number, x in zip(np.asarray(weights).tolist(), np.asarray(values, dtype=float).tolist(), strict=True):
            total, largest = sums.get(number, (0.0, 0.0))
            sums[number] = total + x, max(largest, abs(x))
        return sums

    def _has_unit(self, number: int) -> bool:
        return number in self.index and bool(self.scale[self.index[number]] > 0)

    def _z(self, sums: dict[int, tuple[float, float]]) -> Array:
        """Features in units of their weights; unknown ones are left out."""
        z, most = np.zeros(len(self.scale)), LARGEST_Z if self.adapts else LARGEST_FEATURE
        for number in filter(self._has_unit, sums):
            i = self.index[number]
            z[i] = np.clip(sums[number][0] / self.scale[i], -most, most)
        return z

    def _value(self, k: int, z: Array, initial: float) -> float:
        cost, one = self.w[k] @ z
        return float(self.origin + cost + (initial - self.origin) * (1 - one))

    def _clip(self, label: float) -> float:
        return min(self.highest, max(self.lowest, label)) if self.adapts and self.lowest <= self.highest else label

    def _add_weights(self, numbers: Iterable[int]) -> None:
        before = len(self.index)
        for number in numbers:
            self.index.setdefault(number, len(self.index))
        new = len(self.index) - before
        self.scale, self.observed = (np.append(old, np.zeros(new)) for old in (self.scale, self.observed))
        self.home = np.append(self.home, np.full(new, -1))
        self.w = np.pad(self.w, ((0, 0), (0, 0), (0, new)))
        self.P = np.pad(self.P, ((0, 0), (0, new), (0, new)))
        for k, (penalty, _) in enumerate(self.candidates):
            self.P[k][range(before, before + new), range(before, before + new)] = 1 / penalty

    def _add_units(self, sums: dict[int, tuple[float, float]]) -> None:
        for number, (_, largest) in sums.items():
            i, size = self.index[number], min(largest, LARGEST_FEATURE)
            if not self.adapts and size > 0:
                self.scale[i] = 1
            elif self.scale[i] == 0:
                self.scale[i] = size
            elif size > self.scale[i]:
                factor = min(size / self.scale[i], LARGEST_GROWTH)
                self.scale[i] *= factor
                self.observed[i] /= factor**2
                self._grow(i, factor)

    def _grow(self, i: int, factor: float) -> None:
        """No prediction changes, but the prior is that of the new unit: the weight is 0, observed once more."""
        for k, (penalty, _) in enumerate(self.candidates):
            self.w[k][:, i] *= factor
            self.P[k][i] *= factor
            self.P[k][:, i] *= factor
            self._observe(k, np.eye(len(self.scale))[i], np.zeros(2), 1 / (penalty * (1 - factor**-2)))

    def _assign_blocks(self, active: Sequence[int]) -> None:
        first = len(self.scale) <= max(FIRST_WEIGHTS, self.block)
        joining = [i for i in active if self.home[i] < 0 and (self.observed[i] > 0 or first)]
        if self.block == 1 or not any(blocks for _, blocks in self.candidates):
            return
        here = [int(b) for b in self.home[active] if b >= 0]
        with_room = sorted(set(here), key=lambda b: (-here.count(b), b))
        for i in joining:
            free = [b for b in with_room if (self.home == b).sum() < self.rooms[b]]
            if not free:
                free = [len(self.rooms)]
                with_room.append(len(self.rooms))
                self.rooms.append(self.block if first else min(self.block, LATER_BLOCK))
            self.home[i] = free[0]

    def _groups(self, k: int, z: Array) -> list[NDArray[np.int64]]:
        """The blocks of a candidate in which z has anything: their weights."""
        active = np.flatnonzero(z)
        if not self.candidates[k][1]:
            return [np.array([i]) for i in active]
        alone = [np.array([i]) for i in active if self.home[i] < 0]
        return alone + [np.flatnonzero(self.home == b) for b in np.unique(self.home[active]) if b >= 0]

    def _observe(self, k: int, z: Array, labels: Array, noise: float) -> None:
        """Blocks are exact within, and know nothing of one another but the sum of their variances."""
        groups = self._groups(k, z)
        along = [self.P[k][np.ix_(g, g)] @ z[g] for g in groups]
        variances = [float(a @ z[g]) for a, g in zip(along, groups, strict=True)]
        gain = (labels - self.w[k] @ z) / (noise + sum(variances))
        for g, a, v in zip(groups, along, variances, strict=True):
            self.w[k][:, g] += np.outer(gain, a)
            self.P[k][np.ix_(g, g)] -= np.outer(a, a) / (noise + (v if self.candidates[k][1] else sum(variances)))

    def _observe_label(self, label: float, weight: float) -> None:
        distance = label - self.origin - self.distance
        self.count += weight
        self.distance += distance * weight / self.count
        self.squares += weight * distance * (label - self.origin - self.distance)
        self.lowest, self.highest = min(self.lowest, label), max(self.highest, label)
