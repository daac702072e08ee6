"""A bandit problem whose expected costs are known, what plays it, and a run."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class UnfitError(Exception):
    """A peer cannot play such problems."""


@dataclass(frozen=True)
class Problem:
    """A bandit with a number of rounds, all drawn in advance: every explorer sees the same contexts and costs."""

    contexts: Array | None  # (rounds, features); none: too wide for a matrix, as texts are
    actions: list[list[str]]  # of each round, as VW's action lines
    expected: list[Array]  # cost of each action of each round
    costs: list[Array]  # that it has if it is played
    shared: list[str] | None = None  # the contexts, as VW's shared lines; none: each action has its features for itself
    items: list[Array] | None = None  # features of the actions of each round, (actions, features), where these change
    batch: int = 1  # decisions that are made before the first of their costs is known

    @property
    def rounds(self) -> int:
        return len(self.costs)

    def dense_contexts(self) -> Array:
        """For peers that know no others."""
        if self.contexts is None:
            raise UnfitError("its contexts are dense matrices")
        return self.contexts

    def cost_range(self) -> tuple[float, float]:
        return min(float(c.min()) for c in self.costs), max(float(c.max()) for c in self.costs)

    def regret(self, probabilities: list[Array]) -> Array:
        """Pseudo-regret of each round: <pi_t, expected cost> - lowest expected cost."""
        return np.array([pi @ c - c.min() for pi, c in zip(probabilities, self.expected, strict=True)])

    def uniform_regret(self) -> Array:
        """Of playing at random: the unit in which regret is reported."""
        return np.array([c.mean() - c.min() for c in self.expected])


class Bandit(Protocol):
    def probabilities(self, t: int) -> Array:
        """Of the actions of round t."""

    def learn(self, t: int, action: int, probability: float, cost: float) -> None:
        """What the action that was played in round t has cost."""


class VWBandit:
    def __init__(self, command: str, problem: Problem, seed: int) -> None:
        import opo_cmab  # noqa: F401  here, before vowpalwabbit: joblib's processes run this without the caller's head
        from vowpalwabbit import Workspace

        low, high = problem.cost_range()
        flags = command.format(low=low, high=high)
        self._problem = problem
        self._workspace = Workspace(f"{flags} --random_seed {seed + 1} --quiet --example_queue_limit 16")

    def _lines(self, t: int) -> list[str]:
        shared = self._problem.shared
        return [*([] if shared is None else [shared[t]]), *self._problem.actions[t]]

    def probabilities(self, t: int) -> Array:
        pi: Array = np.array(self._workspace.predict(self._lines(t)))
        return pi / float(pi.sum())  # RegCB gives 1 to each of several best actions

    def learn(self, t: int, action: int, probability: float, cost: float) -> None:
        lines = self._lines(t)
        at = action + (self._problem.shared is not None)
        lines[at] = f"0:{cost:.7g}:{probability:.7g} {lines[at]}"
        self._workspace.learn(lines)


class OPOLearnerBandit:
    """Our own learner in Python, with ridge regression: one for each action, or one for all where items change."""

    def __init__(self, problem: Problem, seed: int, **settings: Any) -> None:
        from opo_cmab import OPOLearner

        self._problem = problem
        self._contexts = problem.dense_contexts()
        self._learner = OPOLearner(actions=None if problem.items else len(problem.expected[0]), seed=seed, **settings)

    def _context(self, t: int) -> Array:
        x = self._contexts[t]
        if self._problem.items is None:
            return x
        z = self._problem.items[t]
        return np.hstack([z, np.einsum("ai,j->aij", z, x).reshape(len(z), -1)])

    def probabilities(self, t: int) -> Array:
        return self._learner.predict_proba(self._context(t)[None])[0]

    def learn(self, t: int, action: int, probability: float, cost: float) -> None:
        self._learner.update(self._context(t), action, cost)


def play(problem: Problem, bandit: Bandit, seed: int) -> tuple[list[Array], Array]:
    """The probabilities of each round and the cost that was paid. In batches: costs are learnt after the last
    decision of a batch."""
    draws = np.random.default_rng([seed, 1]).uniform(size=problem.rounds)
    probabilities: list[Array] = []
    paid = np.empty(problem.rounds)
    for first in range(0, problem.rounds, problem.batch):
        batch = range(first, min(first + problem.batch, problem.rounds))
        played = []
        for t in batch:
            pi = bandit.probabilities(t)
            action = min(int(np.searchsorted(np.cumsum(pi), draws[t], side="right")), len(pi) - 1)
            probabilities.append(pi)
            played.append(action)
        for t, action in zip(batch, played, strict=True):
            paid[t] = problem.costs[t][action]
            bandit.learn(t, action, float(probabilities[t][action]), float(paid[t]))
    return probabilities, paid
