"""The problems of `python -m benchmarks.regression`, with features and labels in the units that users have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from benchmarks.shared.bandit import Array
from benchmarks.shared.datasets import available, load

ROWS = 3000
#: Of OpenML, where its cache has them: spam, waves, a text's function words, houses, code, votes by county.
OPENML = (44, 60, 458, 853, 1067, 737)


@dataclass(frozen=True)
class Regression:
    lines: Sequence[str]  # features, as VW's lines without a label
    y: Array
    x: Array | None  # the same as a matrix with a constant; none: too wide


Make = Callable[[np.random.Generator], Regression]


def dense(x: Array, y: Array) -> Regression:
    lines = ["| " + " ".join(f"x{i}:{row[i]:.7g}" for i in np.flatnonzero(row)) for row in x]
    return Regression(lines, y, np.column_stack([x, np.ones(len(x))]))


def named(rows: Sequence[Sequence[str]], y: Array, widest: int = 700) -> Regression:
    """Features by name; a name that is repeated counts as often."""
    names = sorted({name for row in rows for name in row})
    lines = ["| " + " ".join(row) for row in rows]
    if len(names) > widest:
        return Regression(lines, y, None)
    x = np.array([[row.count(name) for name in names] + [1] for row in rows], float)
    return Regression(lines, y, x)


def _bundled(load_it: str, **settings: Any) -> Make:
    """A set of scikit-learn in random order; of a class, the label is its number."""

    def make(rng: np.random.Generator) -> Regression:
        x, y = getattr(datasets, load_it)(return_X_y=True, **settings)
        order = rng.permutation(len(y))
        return dense(x[order], y[order].astype(float))

    return make


def _generated(make_it: str, **settings: Any) -> Make:
    def make(rng: np.random.Generator) -> Regression:
        random_state = int(rng.integers(2**31))
        return dense(*getattr(datasets, make_it)(n_samples=ROWS, random_state=random_state, **settings))

    return make


def _openml(did: int) -> Make:
    def make(rng: np.random.Generator) -> Regression:
        data = load(did)
        order = rng.permutation(data.rows)[:ROWS]
        return dense(data.X[order], data.y[order].astype(float))

    return make


def _noise(rng: np.random.Generator, y: Array, share: float = 0.5) -> Array:
    """Normal, with a share of the deviation of y."""
    return y + share * y.std() * rng.normal(size=len(y))


def sparse_coefficients(rng: np.random.Generator) -> Regression:
    x = rng.normal(size=(ROWS, 200))
    return dense(x, _noise(rng, x[:, :8] @ rng.normal(size=8)))


def nearly_collinear(rng: np.random.Generator) -> Regression:
    """Twelve sensors of three quantities: their differences are a thousandth of them, and matter too."""
    x = 20 + rng.normal(size=(ROWS, 3))[:, np.arange(12) % 3] + 1e-3 * rng.normal(size=(ROWS, 12))
    return dense(x, _noise(rng, x[:, :3].sum(axis=1) + 300 * (x[:, 0] - x[:, 3])))


def powers(rng: np.random.Generator) -> Regression:
    """A curve by the powers of a temperature."""
    t = rng.uniform(0, 40, size=ROWS)
    return dense(t[:, None] ** np.arange(1, 7), _noise(rng, np.sin(t / 6) * 100, 0.2))


def houses(rng: np.random.Generator) -> Regression:
    """Prices by area, rooms, year, distance in metres, and shares of 1: units from 0.01 to 10,000."""
    area, rooms, year = rng.lognormal(4.5, 0.4, ROWS), rng.integers(1, 8, ROWS), rng.integers(1900, 2021, ROWS)
    metres, green = rng.exponential(4000, ROWS), rng.beta(1, 20, ROWS)
    price = 3000 * area + 8000 * rooms + 900 * (year - 1900) - 9 * metres + 400_000 * green
    return dense(np.column_stack([area, rooms, year, metres, green]), _noise(rng, price, 0.3).round())


def embeddings(rng: np.random.Generator) -> Regression:
    x = rng.normal(size=(ROWS, 10)) @ rng.normal(size=(10, 256)) / 3 + rng.normal(size=(ROWS, 256))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return dense(x, _noise(rng, 3 + x @ rng.normal(size=256)))


def heavy_tails(rng: np.random.Generator) -> Regression:
    x = rng.normal(size=(ROWS, 10))
    return dense(x, x @ rng.normal(size=10) + rng.standard_t(2.2, size=ROWS))


def _codes(rng: np.random.Generator, *counts: int) -> list[NDArray[np.int64]]:
    """Categories; the first of each are the most frequent."""
    return [np.minimum(rng.geometric(3 / count, size=ROWS) - 1, count - 1) for count in counts]


def _effects(rng: np.random.Generator, codes: NDArray[np.int64]) -> Array:
    return rng.normal(size=codes.max() + 1)[codes]


def crossed(rng: np.random.Generator) -> Regression:
    """Clicks' values by user, hour and both, as with -q."""
    user, hour = _codes(rng, 20, 8)
    both = user * 8 + hour
    y = _noise(rng, _effects(rng, user) + _effects(rng, hour) + _effects(rng, both))
    return named([[f"user={u}", f"hour={h}", f"both={u}^{h}"] for u, h in zip(user, hour, strict=True)], y)


def few_categories(rng: np.random.Generator) -> Regression:
    a, b, c = _codes(rng, 5, 8, 3)
    y = 50 + 10 * _noise(rng, _effects(rng, a) + _effects(rng, b) + _effects(rng, c))
    return named([[f"size={i}", f"shop={j}", f"day={k}"] for i, j, k in zip(a, b, c, strict=True)], y)


def many_ids(rng: np.random.Generator) -> Regression:
    """Ids, most of which come a few times, and their traits."""
    who = rng.integers(600, size=ROWS)
    region, plan = rng.integers(12, size=600)[who], rng.integers(4, size=600)[who]
    y = _noise(rng, 0.5 * _effects(rng, who) + _effects(rng, region) + _effects(rng, plan))
    rows = [[f"who={i}", f"region={j}", f"plan={k}"] for i, j, k in zip(who, region, plan, strict=True)]
    return named(rows, y)


def counts(rng: np.random.Generator) -> Regression:
    x = rng.uniform(size=(ROWS, 6))
    return dense(x, rng.poisson(np.exp(x @ rng.uniform(-1, 1.5, size=6))).astype(float))


def clicks(rng: np.random.Generator) -> Regression:
    a, b = _codes(rng, 10, 6)
    y = rng.uniform(size=ROWS) < 0.05 * np.exp(0.7 * (_effects(rng, a) + _effects(rng, b)))
    return named([[f"ad={i}", f"page={j}"] for i, j in zip(a, b, strict=True)], y.astype(float))


def _texts(vocabulary: int, shortest: int, longest: int) -> Make:
    """Zipf's words, of which some have a weight; a text has the sum of theirs."""

    def make(rng: np.random.Generator) -> Regression:
        frequency = 1 / np.arange(1, vocabulary + 1)
        weight = rng.normal(size=vocabulary) * (rng.uniform(size=vocabulary) < 0.2)
        lengths = rng.integers(shortest, longest + 1, size=ROWS)
        texts = [rng.choice(vocabulary, size=n, p=frequency / frequency.sum()) for n in lengths]
        y = _noise(rng, np.array([weight[text].sum() for text in texts]))
        return named([[f"w{i}" for i in text] for text in texts], y)

    return make


PROBLEMS: Mapping[str, Make] = {
    "diabetes": _bundled("load_diabetes", scaled=False),
    "digits": _bundled("load_digits"),
    "wine": _bundled("load_wine"),
    "breast cancer": _bundled("load_breast_cancer"),
    "linear": _generated("make_regression", n_features=20, n_informative=10, noise=50.0, bias=100.0),
    "Friedman 1": _generated("make_friedman1", noise=1.0),
    "Friedman 2": _generated("make_friedman2", noise=100.0),
    "Friedman 3": _generated("make_friedman3", noise=0.1),
    "200 features, 8 count": sparse_coefficients,
    "nearly collinear": nearly_collinear,
    "powers": powers,
    "houses": houses,
    "embeddings": embeddings,
    "heavy tails": heavy_tails,
    "one-hot": few_categories,
    "one-hot, crossed": crossed,
    "ids and traits": many_ids,
    "counts": counts,
    "rare clicks": clicks,
    "texts": _texts(20_000, 5, 60),
}


def problems() -> Iterator[tuple[str, Make]]:
    """The twenty, and OpenML's that are in its cache."""
    yield from PROBLEMS.items()
    here = set(available())
    yield from ((f"OpenML {did}", _openml(did)) for did in OPENML if did in here)
