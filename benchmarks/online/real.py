"""Families of online problems from real data with full information: scikit-learn's own sets, in the units that they
have. The seed shuffles the rows, anew for each pass; so a cost is certain, and no row comes more than twice."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.online.family import Family
from benchmarks.shared.bandit import Array, Problem


def _rows(rng: np.random.Generator, rounds: int, x: Array, costs: Array, action: str) -> Problem:
    """Each row is a context, with the cost of each action."""
    passes = -(-rounds // len(x))
    order = np.concatenate([rng.permutation(len(x)) for _ in range(passes)])[:rounds]
    lines = ["shared |U " + " ".join(f"x{i}:{row[i]:.6g}" for i in np.flatnonzero(row)) for row in x]
    return Problem(
        contexts=x[order],
        shared=[lines[i] for i in order],
        actions=[[f"|A {action}={a}" for a in range(costs.shape[1])]] * rounds,
        expected=list(costs[order]),
        costs=list(costs[order]),
    )


def _classes(load: str) -> Callable[..., Problem]:
    """The classes are the actions, and the right one costs -1."""

    def make(rng: np.random.Generator, rounds: int) -> Problem:
        from sklearn import datasets  # takes a second, and the other families do not need it

        data: Any = getattr(datasets, load)()
        return _rows(rng, rounds, data.data.astype(float), 0 - np.eye(len(data.target_names))[data.target], "class")

    return make


def doses(rng: np.random.Generator, rounds: int, levels: int) -> Problem:
    """Patients with diabetes: the right dose is the progress of the disease, and the cost of each of several doses its
    distance from that, 1 for the whole range."""
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes(scaled=False)
    need = (data.target - data.target.min()) / np.ptp(data.target)
    return _rows(rng, rounds, data.data, np.abs(need[:, None] - np.linspace(0.05, 0.95, levels)), "dose")


REAL: Mapping[str, Family] = {
    "real_digits": Family("digits of 8 x 8 pixels", _classes("load_digits"), {"rounds": 1797}),
    "real_wine": Family("wines by chemical analysis", _classes("load_wine"), {"rounds": 356}),
    "real_cancer": Family("tumours, benign or not", _classes("load_breast_cancer"), {"rounds": 1138}),
    "real_doses": Family("doses for patients", doses, {"rounds": 884, "levels": (4, 8)}),
}
