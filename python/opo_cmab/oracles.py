"""Regression oracles, and the predictors that they have made so far."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Regressor(Protocol):
    """The part of scikit-learn's regressors that is needed here."""

    def fit(self, X: Any, y: Any, /) -> Any: ...  # noqa: N803  scikit-learn's names
    def predict(self, X: Any, /) -> Any: ...  # noqa: N803


@dataclass(frozen=True)
class Ridge:
    r"""Least squares with a penalty, in closed form: after rounds with features x (a constant is added) and losses y

    $$
    w = \mathrm{argmin}_w \sum (w \cdot x - y)^2 + \lambda |w|^2
    $$

    A round updates it by the Sherman-Morrison formula, in time quadratic in the number of features.
    """

    l2: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.l2 < np.inf:
            raise ValueError(f"l2 must be above 0 and finite: {self.l2}")


class Rows:
    """An array that grows by rows."""

    def __init__(self, first: NDArray[Any]) -> None:
        self._room = first.copy()
        self._count = len(first)

    @property
    def all(self) -> NDArray[Any]:
        return self._room[: self._count]

    def append(self, row: ArrayLike) -> None:
        if self._count == len(self._room):
            more = np.zeros_like(self._room, shape=(self._count + 8, *self._room.shape[1:]))
            self._room = np.concatenate([self._room, more])
        self._room[self._count] = row
        self._count += 1


class LinearPredictors:
    """The past predictors of ridge regressions, by number; number 0 is the one before the first round."""

    block = 64  # contexts to predict for at once: BLAS takes no threads of its own for products so small

    def __init__(self, ridge: Ridge, models: int, features: int) -> None:
        size = features + 1
        self._inverses = np.array([np.eye(size) / ridge.l2] * models)
        self._sums = np.zeros((models, size))  # of the features seen
        self._now = np.zeros((models, size))
        self._past = Rows(np.zeros((1, size)))

    @staticmethod
    def inputs(x: Array) -> Array:
        return np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)

    def learn(self, model: int, x: Array, y: float) -> Callable[[], int | None]:
        """Computes what a round changes, but changes nothing yet.

        Returns a function that makes the change and cannot fail. It returns the number of the model's new predictor, or
        None if there is none.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            along = self._inverses[model] @ x
            scale = 1 + x @ along
            gain = along / scale
            now = self._now[model] + gain * (y - x @ self._now[model])
        if not (np.isfinite(scale) and np.isfinite(now).all()):
            raise ValueError("context or cost has numbers too large to learn from: scale the features down")

        def commit() -> int:
            self._now[model] = now
            self._sums[model] += x
            self._inverses[model] -= np.outer(gain, along)
            return self._add(now)

        return commit

    def relabel(self, scale: float, shift: float, past_too: bool) -> Numbers:
        """All labels y become scale * y + shift, and each model is fitted to them. Past predictors follow, if asked.

        Returns the numbers of the models' new predictors.
        """
        if past_too:
            self._past.all[:] *= scale
            self._past.all[:, -1] += shift
        self._now = scale * self._now + shift * np.einsum("mij,mj->mi", self._inverses, self._sums)
        return np.array([self._add(row) for row in self._now], dtype=np.int64)

    def _add(self, coefficients: Array) -> int:
        self._past.append(coefficients)
        return len(self._past.all) - 1

    def predict(self, numbers: Numbers | slice, x: Array) -> Array:
        """A row for each of the predictors, a column for each row of x."""
        return self._past.all[numbers] @ x.T

    def merge(self, first: int, second: int, weights: tuple[int, int]) -> int:
        """The number of a predictor that replaces two: their average, weighted by the rounds that each was in force."""
        return self._add(np.average(self._past.all[[first, second]], axis=0, weights=weights))

    def keep(self, numbers: Numbers) -> None:
        """Forgets all others, and renumbers these."""
        self._past = Rows(self._past.all[numbers])


class FittedPredictors:
    """As LinearPredictors, with copies of a regressor, refitted each time the data has grown by a fraction."""

    block = 1024  # a call of predict costs the same for few as for many

    def __init__(self, regressor: Regressor, models: int, growth: float) -> None:
        self._regressor = regressor
        self._growth = growth
        self._data: list[tuple[list[Array], list[float]]] = [([], []) for _ in range(models)]
        self._due = [1.0] * models
        self._past: list[tuple[Regressor | None, float, float]] = [(None, 0.0, 0.0)]  # with what maps its predictions
        self._now = [0] * models

    @staticmethod
    def inputs(x: Array) -> Array:
        return x

    def learn(self, model: int, x: Array, y: float) -> Callable[[], int | None]:
        xs, ys = self._data[model]
        count = len(ys) + 1
        regressor = None
        if count >= self._due[model]:
            regressor = copy.deepcopy(self._regressor)
            regressor.fit(np.array([*xs, x]), np.array([*ys, y]))
            self._predict_one(regressor, x[None])  # refuses a bad one

        def commit() -> int | None:
            xs.append(x.copy())  # the caller may write over it
            ys.append(y)
            if regressor is None:
                return None
            self._due[model] = count * (1 + self._growth)
            self._now[model] = self._add(regressor, 1.0, 0.0)
            return self._now[model]

        return commit

    def _add(self, regressor: Regressor | None, scale: float, shift: float) -> int:
        self._past.append((regressor, scale, shift))
        return len(self._past) - 1

    def predict(self, numbers: Numbers | slice, x: Array) -> Array:
        past = self._past[numbers] if isinstance(numbers, slice) else [self._past[i] for i in numbers]
        table = np.zeros((len(past), len(x)))
        for row, (regressor, scale, shift) in zip(table, past, strict=True):
            row[:] = shift if regressor is None else shift + scale * self._predict_one(regressor, x)
        return table

    def relabel(self, scale: float, shift: float, past_too: bool) -> Numbers:
        """As LinearPredictors.relabel, but a fitted regressor stays until the next fit, with its predictions mapped."""

        def mapped(predictor: tuple[Regressor | None, float, float]) -> tuple[Regressor | None, float, float]:
            regressor, a, b = predictor
            return regressor, scale * a, scale * b + shift

        now = [self._past[i] for i in self._now]
        if past_too:
            self._past = [mapped(predictor) for predictor in self._past]
        for _, ys in self._data:
            ys[:] = [scale * y + shift for y in ys]
        self._now = [self._add(*(p if p[0] is None else mapped(p))) for p in now]
        return np.array(self._now, dtype=np.int64)

    @staticmethod
    def _predict_one(regressor: Regressor, x: Array) -> Array:
        predictions = np.asarray(regressor.predict(x), dtype=float)
        if predictions.shape != (len(x),):
            raise ValueError(f"the oracle must predict one number per row: shape {predictions.shape} for {len(x)} rows")
        if not np.isfinite(predictions).all():
            raise ValueError("the oracle predicts costs that are not finite: check its settings")
        return predictions

    def merge(self, first: int, second: int, weights: tuple[int, int]) -> int:
        """Fitted predictors cannot be averaged: takes the one that was in force for longer, on a tie the later."""
        return first if weights[0] > weights[1] else second

    def keep(self, numbers: Numbers) -> None:
        self._now = np.searchsorted(numbers, self._now).tolist()
        self._past = [self._past[i] for i in numbers]
