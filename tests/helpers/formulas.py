"""The explorers' formulas from their papers, in NumPy, on the scores of stock VW."""

import numpy as np


def sigmoid(margin):
    return 1 / (1 + np.exp(-np.asarray(margin, dtype=float)))


def squarecb(costs, gamma):
    """Inverse gap weighting: Foster and Rakhlin (2020)."""
    costs = np.asarray(costs, dtype=float)
    best = np.argmin(costs)
    p = 1 / (len(costs) + gamma * (costs - costs[best]))
    p[best] += 1 - p.sum()
    return p


def fastcb(costs, gamma):
    """Foster and Krishnamurthy (2021), Algorithm 1, with costs of at least 1e-6."""
    costs = np.maximum(np.asarray(costs, dtype=float), 1e-6)
    best = np.argmin(costs)
    lowest = costs[best]
    p = lowest / (len(costs) * lowest + gamma * (costs - lowest))
    p[best] += 1 - p.sum()
    return p


def adacb(costs, survives, gamma):
    """Inverse gap weighting over the plausible actions only."""
    p = np.zeros(len(costs))
    p[survives] = squarecb(np.asarray(costs)[survives], gamma)
    return p


def plausible(costs, sensitivities, delta, low=0.0, high=1.0):
    """The plausible set of RegCB (Foster et al. 2018, section 7.1): whose lowest plausible cost is below the lowest
    highest one. A cost can be moved by w * sensitivity, w the largest importance weight of a pretended example at
    low - 1 (or high + 1) with w (g^2 - (g - w s)^2) <= delta, g the distance to that example."""

    def largest_weight(distance, s):
        w = np.linspace(0, distance / s, 200_001)
        allowed = w * (distance**2 - (distance - w * s) ** 2) <= delta
        return w[allowed].max()

    lowest = [max(f - s * largest_weight(f - low + 1, s), low) for f, s in zip(costs, sensitivities, strict=True)]
    highest = [min(f + s * largest_weight(high + 1 - f, s), high) for f, s in zip(costs, sensitivities, strict=True)]
    return np.array(lowest) <= min(highest)
