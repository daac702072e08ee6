"""OPO-CMAB with any regression oracle, the paper's general function approximation: VW's linear learner is one case."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _kernel
from .costs import CostRange
from .oracles import Array, FittedPredictors, LinearPredictors, Numbers, Regressor, Ridge, Rows

__all__ = ["Choice", "OPOLearner"]

RUNS = 128  # the number of runs predicted at once
DEFAULT_SCALE = 0.25
GROUP = _kernel.PolicyBatch.GROUP


class Choice(NamedTuple):
    action: int
    probability: float


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(value: Any, or_bool: bool = False) -> float:
    """A number of Python or NumPy as a float; nan for anything else."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if or_bool if isinstance(value, bool | np.bool_) else isinstance(value, Real):
        with suppress(OverflowError):
            return float(value)
    return np.nan


@dataclass(eq=False, kw_only=True)
class OPOLearner:
    r"""A contextual bandit: OPO-CMAB, with any regression as its oracle.

    Algorithm 1 of Levy and Mansour, "Optimal Regret for Policy Optimization in Contextual Bandits" (2026). For a
    context c it replays the policies that the past predictors lead to, starting from the uniform one; $\hat f_k$ is
    the least-squares fit to the rounds before round k:

    $$
    \begin{split}
    b_k(a) &= \min\{2, \tfrac{\beta_k / 2}{1 + \sum_{i<k} \pi_i(a)}\}, \qquad \beta_k = \gamma \sqrt{k / |A|} \\
    \pi_{k+1}(a) &\propto \pi_k(a)^{\text{decay}} \exp(-\eta\, \mathrm{clip}(\hat f_k(c, a) - b_k(a), 0, 1))
    \end{split}
    $$

    With ``actions``, each action has an oracle of its own, and contexts are an array of shape (contexts, features).
    Without, one oracle sees the features of context and action together: contexts are of shape (contexts, actions,
    features), and the number of actions may change from round to round.

    Args:
        actions: the number of actions; gives each action its own oracle.
        oracle: ``Ridge``, or anything with scikit-learn's ``fit(X, y)`` and ``predict(X)``: copies of it are fitted.
            An oracle without data predicts a cost a quarter of the range above the best. A decision calls ``predict``
            of every kept copy: with trees, set a budget.
        eta: learning rate of the policy, as ``--opo_eta``.
        gamma: size of the bonus, as ``--opo_gamma``. Give at most one of gamma, beta and scale.
        beta: a constant bonus size, as ``--opo_beta``. A constant beta and a decay of 1 are Algorithm 1.
        scale: as ``--opo_scale``: gamma is this times the lowest loss predicted for the context. 0.25 unless gamma or
            beta is given.
        decay: forgetting, as ``--opo_decay``.
        budget: as ``--opo_budget``: the largest number of segments of the past, each one step of a replay, and so of
            predictors of each oracle; 0 keeps all. The rounds of a segment share a predictor: the average for Ridge,
            otherwise the one in use for longest.
        refit: an oracle other than Ridge is refitted each time its data has grown by this fraction.
        min_cost: a lower limit; lower costs are clipped to it. The cost range is learnt in any case; until two
            different costs have been seen, the policy is uniform. The oracle learns losses from
            -0.25 (the lower end) to 0.75, or from nearer to 0 if most costs are near the best.
        max_cost: an upper limit.
        threads: how many threads ``predict_proba`` uses for many contexts, with Ridge; 0 is one per core.
        seed: of the random choice in ``choose``.

    It can be pickled, and resumes exactly where it stopped.
    """

    actions: int | None = None
    oracle: Ridge | Regressor = field(default_factory=Ridge)
    eta: float = 20.0
    gamma: float | None = None
    beta: float | None = None
    scale: float | None = None
    decay: float = 0.8
    budget: int = 32
    refit: float = 0.1
    min_cost: float | None = None
    max_cost: float | None = None
    threads: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.actions is not None and not (_is_integer(self.actions) and self.actions >= 1):
            raise ValueError(f"actions must be a whole number from 1 up: {self.actions!r}")
        if isinstance(self.oracle, type):
            raise ValueError(f"oracle must be an instance, not a class: did you mean {self.oracle.__name__}()?")
        if not isinstance(self.oracle, Ridge) and not all(
            callable(getattr(self.oracle, method, None)) for method in ("fit", "predict")
        ):
            raise ValueError(f"oracle must be Ridge() or have fit and predict: {self.oracle!r}")
        if not (_is_integer(self.budget) and self.budget >= 0 and self.budget != 1):
            raise ValueError(f"budget must be 0 (all predictors are kept) or a whole number from 2 up: {self.budget!r}")
        if not 0 <= _number(self.refit) < np.inf:
            raise ValueError(f"refit must be at least 0 and finite: {self.refit!r}")
        low = -np.inf if self.min_cost is None else _number(self.min_cost)
        high = np.inf if self.max_cost is None else _number(self.max_cost)
        finite = (self.min_cost is None or np.isfinite(low)) and (self.max_cost is None or np.isfinite(high))
        if not (finite and low < high):
            raise ValueError(f"min_cost must be below max_cost, both finite: {self.min_cost!r} and {self.max_cost!r}")
        if not (_is_integer(self.threads) and self.threads >= 0):
            raise ValueError(f"threads must be a whole number from 0 up: {self.threads!r}")
        given = [name for name in ("gamma", "beta", "scale") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]} and {given[1]}: give only one of them")
        if self.scale is not None and not 0 <= _number(self.scale) < np.inf:
            raise ValueError(f"scale must be at least 0 and finite: {self.scale!r}")
        self._models = self.actions or 1
        self._past: LinearPredictors | FittedPredictors | None = None  # None before the first round
        self._features = 0
        self._now = np.zeros(self._models, dtype=np.int64)  # the number of each model's predictor
        # With a budget the past is kept in segments, else in runs of rounds with the same predictors.
        self._segments = _kernel.Segments(self.budget) if self.budget else None
        self._numbers = Rows(np.zeros((0, self._models), dtype=np.int64))  # of the predictors used in each
        self._lengths = Rows(np.zeros(0, dtype=np.int64))  # of each, in rounds
        self._range = CostRange(low, high)
        _kernel.policy(np.zeros((0, 1)), **self._settings)  # refuses bad ones
        self._random = np.random.default_rng(self.seed)

    @property
    def cost_range(self) -> tuple[float, float] | None:
        """The cost range in use; None until it is known."""
        return (self._range.low, self._range.high) if self._range.known else None

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings for the kernel; without gamma and beta, gamma must still be multiplied by the lowest loss."""
        scale = DEFAULT_SCALE if self.scale is None else self.scale
        gamma = scale if self.gamma is None and self.beta is None else self.gamma
        return {"eta": self.eta, "gamma": gamma, "beta": self.beta, "decay": self.decay}

    @property
    def rounds(self) -> int:
        """The number of rounds learnt from."""
        return int(self._lengths.all.sum())

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The settings, as a scikit-learn estimator returns them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def predict_proba(self, contexts: ArrayLike) -> Array:
        """The probabilities of the actions: a row for each context, a column for each action.

        Many contexts at once are several times faster than one by one.
        """
        x = self._inputs(contexts)
        count, actions = x.shape[1], self.actions or len(x)
        if self._past is None or count == 0 or not self._range.known:
            return np.full((count, actions), 1 / actions)
        now = self._table(self._now, x)[self._table_rows(np.arange(self._models)[None], actions)[0]]
        by_loss = self.gamma is None and self.beta is None
        scales = np.clip(now.min(axis=0), 0, 1) if by_loss else np.ones(count)
        if count == 1 and not self.budget:
            predictions = self._table(slice(None), x).ravel()[self._table_rows(self._numbers.all, actions)]
            if len(predictions) < self.rounds:
                predictions = np.repeat(predictions, self._lengths.all, axis=0)
            settings = self._settings
            if by_loss:
                settings["gamma"] *= scales[0]
            return _kernel.policy(predictions, **settings)[None]

        # Contexts with the same two best actions are put side by side, which is faster (cpp/kernel/policy_batch.h).
        order = np.lexsort(np.argsort(now, axis=0)[1::-1])
        parts = list(self._parts(actions))

        def replay(those: Numbers) -> Array:
            settings = self._settings | {"scales": scales[those]}
            if self._segments is not None:
                [(numbers, rows, _)] = parts
                table, starts = self._table(numbers, x[:, those]), self._segments.starts
                return _kernel.bounded_policies(table, rows, starts, budget=self.budget, **settings)
            block = x[:, np.resize(those, -(-len(those) // GROUP) * GROUP)]
            batch = _kernel.PolicyBatch(len(those), actions, **settings)
            for numbers, rows, lengths in parts:
                batch.step(self._table(numbers, block), rows, lengths)
            return batch.probabilities()

        blocks = [order[i : i + self._past.block] for i in range(0, count, self._past.block)]
        threads = min(len(blocks), self.threads or os.cpu_count() or 1)
        if threads == 1 or not isinstance(self.oracle, Ridge):  # other oracles may not be thread-safe
            probabilities = list(map(replay, blocks))
        else:
            with ThreadPoolExecutor(threads) as pool:
                probabilities = list(pool.map(replay, blocks))
        result = np.empty((count, actions))
        result[order] = np.concatenate(probabilities)
        return result

    def choose(self, context: ArrayLike) -> Choice:
        """An action for one context, drawn from its probabilities."""
        probabilities = self.predict_proba(np.asarray(context)[None])[0]
        action = int(self._random.choice(len(probabilities), p=probabilities))
        return Choice(action, float(probabilities[action]))

    def update(self, context: ArrayLike, action: int, cost: float) -> None:
        """Learns what an action cost in a context.

        If it raises, nothing has changed, even if the error came from the oracle.
        """
        x = self._inputs(np.asarray(context)[None])[:, 0]
        actions = self.actions or len(x)
        chosen, paid = _number(action), _number(cost, or_bool=True)
        if not (chosen.is_integer() and 0 <= chosen < actions):
            raise ValueError(f"action must be a whole number in 0 .. {actions - 1}: {action!r}")
        if not np.isfinite(paid):
            raise ValueError(f"cost must be one finite number: {cost!r}")
        model, features = (int(chosen), x[0]) if self.actions else (0, x[int(chosen)])
        past = self._past or self._no_past(np.shape(context)[-1])
        counts_as = self._range.tame(paid)
        unit = self._range.unit(counts_as)
        commit = past.learn(model, features, unit.label(counts_as))  # nothing after this line can fail

        self._past, self._features = past, np.shape(context)[-1]
        self._add_round()
        number = commit()
        if number is not None:
            self._now[model] = number
        was_known = self._range.known
        self._range.observe(paid)
        if self._range.known and (relabelling := unit.map_to(self._range.unit(counts_as))) != (1, 0):
            # Before the range is known nothing is predicted: past predictors of that time stay at the start.
            self._now = past.relabel(*relabelling, past_too=was_known)

    def _no_past(self, features: int) -> LinearPredictors | FittedPredictors:
        if isinstance(self.oracle, Ridge):
            return LinearPredictors(self.oracle, self._models, features)
        return FittedPredictors(self.oracle, self._models, self.refit)

    def _inputs(self, contexts: ArrayLike) -> Array:
        """Contexts as the predictors take them, of shape (1 or actions, contexts, features)."""
        x = np.asarray(contexts, dtype=float)
        shape = "(contexts, features)" if self.actions else "(contexts, actions, features)"
        if x.ndim != (2 if self.actions else 3):
            raise ValueError(f"contexts must have shape {shape}, a single context without the first axis: {x.shape}")
        if not self.actions and x.shape[1] == 0:
            raise ValueError("contexts must have at least one action")
        if self._past is not None and self._features != x.shape[-1]:
            raise ValueError(f"contexts had {self._features} features before, now {x.shape[-1]}: keep their number")
        if not np.isfinite(x).all():
            raise ValueError("contexts must be finite: there is a nan or an infinity")
        x = x[None] if self.actions else x.transpose(1, 0, 2)
        return LinearPredictors.inputs(x) if isinstance(self.oracle, Ridge) else x

    def _table(self, numbers: Numbers | slice, x: Array) -> Array:
        """Predicted losses: a column for each context, rows as in _table_rows."""
        assert self._past is not None
        predictions = self._past.predict(numbers, x.reshape(len(x) * x.shape[1], x.shape[2]))
        return self._range.start + predictions.reshape(-1, x.shape[1])

    def _table_rows(self, numbers: Numbers, actions: int) -> Numbers:
        """The rows of _table with the predictions for each action, from the predictors' numbers."""
        return numbers if self.actions else numbers * actions + np.arange(actions)

    def _parts(self, actions: int) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """The past, in parts: the numbers of the predictors needed, the rows of their table, the lengths in rounds."""
        size = self.budget or RUNS
        for first in range(0, len(self._lengths.all), size):
            part = slice(first, first + size)
            numbers, places = np.unique(self._numbers.all[part], return_inverse=True)
            rows = self._table_rows(places.reshape(-1, self._models), actions)
            yield numbers, rows, self._lengths.all[part]

    def _add_round(self) -> None:
        """Adds a round in which the current predictors were in use."""
        if self._segments is None and self.rounds and (self._numbers.all[-1] == self._now).all():
            self._lengths.all[-1] += 1
            return
        self._numbers.append(self._now)
        self._lengths.append(1)
        merged = None if self._segments is None else self._segments.append()
        if merged is not None:
            self._merge_with_next(merged)

    def _merge_with_next(self, i: int) -> None:
        assert self._past is not None
        numbers, lengths = self._numbers.all, self._lengths.all
        weights = (int(lengths[i]), int(lengths[i + 1]))
        for model, (first, second) in enumerate(numbers[i : i + 2].T.tolist()):
            if first != second:
                numbers[i, model] = self._past.merge(first, second, weights)
        lengths[i] += lengths[i + 1]
        numbers, lengths = np.delete(numbers, i + 1, axis=0), np.delete(lengths, i + 1)

        kept, places = np.unique([*numbers, self._now], return_inverse=True)  # the others are in no segment any more
        self._past.keep(kept)
        places = places.reshape(-1, self._models)
        self._numbers, self._lengths, self._now = Rows(places[:-1]), Rows(lengths), places[-1]
