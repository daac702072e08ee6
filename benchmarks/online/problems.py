"""The online problems: families of contextual bandits whose expected costs are known, so that regret is exact.

Each family has eight variants with different parameters and seeds. Defaults may be chosen on "choose", and on "seen",
"reported", "former", "shown", "published" and "printed", which reported earlier versions and have been looked at since.
Nobody looks at "report" before the defaults are fixed (docs/online.md). A click costs -1, as in VW's tutorials, unless
the family is about something else.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.bandit import Array, Problem

Params = dict[str, Any]
Split = Literal["choose", "seen", "reported", "former", "shown", "published", "printed", "report"]
SPLITS: tuple[Split, ...] = ("choose", "seen", "reported", "former", "shown", "published", "printed", "report")
VERSION = 1  # raise it when the same parameters and seed give another problem: earlier runs then no longer count


def _one_hot(users: NDArray[np.int64], count: int) -> Array:
    return np.eye(count)[users]


def _dense_lines(tag: str, name: str, x: Array) -> list[str]:
    return [f"{tag} " + " ".join(f"{name}{i}:{v:.6f}" for i, v in enumerate(row)) for row in x]


def _fixed_actions(count: int, rounds: int) -> list[list[str]]:
    lines = [f"|A article={a}" for a in range(count)]
    return [lines] * rounds


def _play(rng: np.random.Generator, rates: Array) -> Array:
    """Costs of clicks that come at these rates: -1 for a click, else 0."""
    return np.where(rng.uniform(size=rates.shape) < rates, -1.0, 0.0)


def preferences(
    rng: np.random.Generator, rounds: int, users: int, times: int, articles: int, changes: bool = False
) -> Problem:
    """VW's content personalization: a user likes one article in the morning and another in the evening, and clicks
    on that one with certainty. With changes, everybody likes the next article from half way on.

    The liked articles all differ. So a linear model of user and time crossed with the article ranks them right,
    though it cannot represent the costs exactly.
    """
    liked = rng.choice(articles, size=users * times, replace=False).reshape(users, times)
    user, time = rng.integers(users, size=rounds), rng.integers(times, size=rounds)
    likes = liked[user, time]
    if changes:
        likes = (likes + (np.arange(rounds) >= rounds // 2)) % articles
    costs = 0 - _one_hot(likes, articles)  # not -0
    return Problem(
        contexts=np.hstack([_one_hot(user, users), _one_hot(time, times)]),
        shared=[f"shared |U user={u} time={t}" for u, t in zip(user, time, strict=True)],
        actions=_fixed_actions(articles, rounds),
        expected=list(costs),
        costs=list(costs),
    )


def _by_user(rng: np.random.Generator, rounds: int, users: int, articles: int) -> tuple[Params, NDArray[np.int64]]:
    """Shared by the problems whose context is the user: the contexts, and the user of each round."""
    user = rng.integers(users, size=rounds)
    common = {
        "contexts": _one_hot(user, users),
        "shared": [f"shared |U user={u}" for u in user],
        "actions": _fixed_actions(articles, rounds),
    }
    return common, user


def clicks(
    rng: np.random.Generator,
    rounds: int,
    users: int,
    articles: int,
    best: float,
    others: tuple[float, float],
    batch: int = 1,
) -> Problem:
    """Each user clicks on one article at the rate `best`, on the others at rates between the two of `others`."""
    common, user = _by_user(rng, rounds, users, articles)
    rates = rng.uniform(*others, size=(users, articles))
    rates[np.arange(users), rng.integers(articles, size=users)] = best
    return Problem(**common, expected=list(-rates[user]), costs=list(_play(rng, rates[user])), batch=batch)


def linear(rng: np.random.Generator, rounds: int, features: int, actions: int) -> Problem:
    """The paper's setting: expected costs linear in dense features, observed costs 0 or 1. The features are on the
    simplex, where that is linear without a constant."""
    x = rng.dirichlet(np.full(features, 0.5), size=rounds)
    expected = x @ rng.uniform(0.1, 0.9, size=(features, actions))
    return Problem(
        contexts=x,
        shared=_dense_lines("shared |U", "x", x),
        actions=_fixed_actions(actions, rounds),
        expected=list(expected),
        costs=list((rng.uniform(size=expected.shape) < expected).astype(float)),
    )


def items(
    rng: np.random.Generator, rounds: int, topics: int, catalogue: int, fewest: int, most: int, rate: float
) -> Problem:
    """A few items of a catalogue are on offer in each round, known by their topics. The rate of a click is the match of
    the user's interests with the item's topics, times `rate`: linear in the crossed features."""
    interests = rng.dirichlet(np.full(topics, 0.3), size=rounds)
    item_topics = rng.dirichlet(np.full(topics, 0.3), size=catalogue)
    item_lines = _dense_lines("|A", "topic", item_topics)
    offers = [rng.choice(catalogue, size=rng.integers(fewest, most + 1), replace=False) for _ in range(rounds)]
    rates = [rate * item_topics[offer] @ x for offer, x in zip(offers, interests, strict=True)]
    return Problem(
        contexts=interests,
        shared=_dense_lines("shared |U", "interest", interests),
        actions=[[item_lines[i] for i in offer] for offer in offers],
        expected=[-r for r in rates],
        costs=[_play(rng, r) for r in rates],
        items=[item_topics[offer] for offer in offers],
    )


def units(
    rng: np.random.Generator, rounds: int, users: int, articles: int, low: float, high: float, noise: float
) -> Problem:
    """Costs from `low` to `high`, such as milliseconds or cents: a mean for each user and action, and even noise."""
    common, user = _by_user(rng, rounds, users, articles)
    expected = rng.uniform(low + noise, high - noise, size=(users, articles))[user]
    return Problem(**common, expected=list(expected), costs=list(expected + rng.uniform(-noise, noise, expected.shape)))


def heavy_tails(rng: np.random.Generator, rounds: int, users: int, articles: int, shape: float) -> Problem:
    """Costs of Pareto's distribution with means from 1 to 5: mostly near the lowest, occasionally far above. The
    moments of order `shape` and above are infinite."""
    common, user = _by_user(rng, rounds, users, articles)
    expected = rng.uniform(1, 5, size=(users, articles))[user]
    noise = (1 + rng.pareto(shape, size=expected.shape)) * (shape - 1) / shape
    return Problem(**common, expected=list(expected), costs=list(expected * noise))


def sales(
    rng: np.random.Generator,
    rounds: int,
    users: int,
    articles: int,
    rates: tuple[float, float],
    values: tuple[float, float],
) -> Problem:
    """Most rounds cost 0; occasionally there is a sale, which costs minus its value. Each user and article has its own
    rate and mean value; single values vary around the mean (log-normally, by half of it)."""
    common, user = _by_user(rng, rounds, users, articles)
    rate = rng.uniform(*rates, size=(users, articles))[user]
    value = rng.uniform(*values, size=(users, articles))[user]
    spread = 0.5
    values_drawn = value * rng.lognormal(-(spread**2) / 2, spread, size=value.shape)
    sold = rng.uniform(size=rate.shape) < rate
    return Problem(**common, expected=list(-rate * value), costs=list(np.where(sold, -values_drawn, 0.0)))


def words(rng: np.random.Generator, rounds: int, vocabulary: int, length: int, articles: int) -> Problem:
    """Contexts are short texts: a few words of a vocabulary, some much more frequent than others. Each word makes a
    click on an article likelier or less likely; the rate is a sigmoid of the sum, so not quite linear."""
    frequency = 1 / np.arange(1, vocabulary + 1)
    # Gumbel's trick: the largest of log-frequency and noise are a draw without replacement.
    keys = np.log(frequency) + rng.gumbel(size=(rounds, vocabulary))
    drawn = np.sort(np.argsort(-keys, axis=1)[:, :length])
    x = np.zeros((rounds, vocabulary))
    np.put_along_axis(x, drawn, 1.0, axis=1)
    rates = 1 / (1 + np.exp(1.5 - x @ rng.normal(size=(vocabulary, articles))))
    return Problem(
        contexts=x,
        shared=["shared |U " + " ".join(f"w{i}" for i in row) for row in drawn],
        actions=_fixed_actions(articles, rounds),
        expected=list(-rates),
        costs=list(_play(rng, rates)),
    )


def habits(rng: np.random.Generator, rounds: int, users: int, articles: int, spread: float) -> Problem:
    """Users differ in how often they click on anything, more than in what they like: the rate is a sigmoid of the sum
    of the user's habit, the article's appeal and the user's liking for it."""
    common, user = _by_user(rng, rounds, users, articles)
    habit = rng.uniform(-spread, spread, size=(users, 1))
    liking = 0.7 * rng.normal(size=(users, articles))
    rates = 1 / (1 + np.exp(-(habit + rng.normal(size=articles) + liking)))
    return Problem(**common, expected=list(-rates[user]), costs=list(_play(rng, rates[user])))


def wandering(rng: np.random.Generator, rounds: int, users: int, articles: int, noise: float, step: float) -> Problem:
    """Milliseconds, whose level for all actions is a random walk: a mean for each user and action, and the level."""
    common, user = _by_user(rng, rounds, users, articles)
    level = np.abs(step * rng.normal(size=rounds).cumsum())
    expected = rng.uniform(100, 300, size=(users, articles))[user] + level[:, None]
    return Problem(**common, expected=list(expected), costs=list(expected + noise * rng.normal(size=expected.shape)))


@dataclass(frozen=True)
class Family:
    title: str
    make: Callable[..., Problem]
    choose: Params
    seen: Params
    reported: Params
    former: Params
    shown: Params
    published: Params
    printed: Params
    report: Params
    other_unit: bool = False  # costs go beyond [-1, 1]

    def params(self, split: Split) -> Params:
        params: Params = getattr(self, split)
        return params


FAMILIES: Mapping[str, Family] = {
    "certain": Family(
        "certain rewards",
        preferences,
        choose={"rounds": 2000, "users": 2, "times": 2, "articles": 7},
        seen={"rounds": 2000, "users": 3, "times": 2, "articles": 9},
        reported={"rounds": 2500, "users": 4, "times": 2, "articles": 10},
        former={"rounds": 2500, "users": 3, "times": 3, "articles": 12},
        shown={"rounds": 2200, "users": 5, "times": 2, "articles": 11},
        published={"rounds": 2400, "users": 6, "times": 2, "articles": 14},
        printed={"rounds": 2300, "users": 4, "times": 3, "articles": 13},
        report={"rounds": 2000, "users": 2, "times": 2, "articles": 14},
    ),
    "change": Family(
        "change half way",
        preferences,
        choose={"rounds": 2000, "users": 2, "times": 2, "articles": 6, "changes": True},
        seen={"rounds": 3000, "users": 3, "times": 2, "articles": 8, "changes": True},
        reported={"rounds": 2400, "users": 2, "times": 3, "articles": 7, "changes": True},
        former={"rounds": 3000, "users": 3, "times": 2, "articles": 9, "changes": True},
        shown={"rounds": 2600, "users": 4, "times": 2, "articles": 10, "changes": True},
        published={"rounds": 2800, "users": 5, "times": 2, "articles": 12, "changes": True},
        printed={"rounds": 2700, "users": 3, "times": 3, "articles": 11, "changes": True},
        report={"rounds": 2000, "users": 3, "times": 2, "articles": 6, "changes": True},
    ),
    "noisy": Family(
        "noisy clicks",
        clicks,
        choose={"rounds": 2000, "users": 4, "articles": 5, "best": 0.6, "others": [0.3, 0.3]},
        seen={"rounds": 3000, "users": 8, "articles": 4, "best": 0.6, "others": [0.3, 0.3]},
        reported={"rounds": 2500, "users": 6, "articles": 6, "best": 0.55, "others": [0.25, 0.25]},
        former={"rounds": 3000, "users": 5, "articles": 8, "best": 0.5, "others": [0.2, 0.3]},
        shown={"rounds": 2800, "users": 7, "articles": 5, "best": 0.65, "others": [0.35, 0.45]},
        published={"rounds": 2600, "users": 5, "articles": 7, "best": 0.6, "others": [0.2, 0.4]},
        printed={"rounds": 2700, "users": 6, "articles": 6, "best": 0.55, "others": [0.3, 0.4]},
        report={"rounds": 2000, "users": 6, "articles": 7, "best": 0.6, "others": [0.3, 0.4]},
    ),
    "rare": Family(
        "rare clicks, 1 to 15 %",
        clicks,
        choose={"rounds": 3000, "users": 3, "articles": 5, "best": 0.12, "others": [0.01, 0.06]},
        seen={"rounds": 3000, "users": 2, "articles": 8, "best": 0.15, "others": [0.01, 0.08]},
        reported={"rounds": 3000, "users": 4, "articles": 6, "best": 0.1, "others": [0.01, 0.05]},
        former={"rounds": 4000, "users": 3, "articles": 5, "best": 0.08, "others": [0.01, 0.03]},
        shown={"rounds": 3500, "users": 2, "articles": 7, "best": 0.11, "others": [0.02, 0.05]},
        published={"rounds": 4000, "users": 2, "articles": 6, "best": 0.09, "others": [0.01, 0.04]},
        printed={"rounds": 3600, "users": 3, "articles": 7, "best": 0.13, "others": [0.01, 0.07]},
        report={"rounds": 4000, "users": 4, "articles": 8, "best": 0.12, "others": [0.01, 0.05]},
    ),
    "linear": Family(
        "linear, costs 0/1",
        linear,
        choose={"rounds": 2000, "features": 5, "actions": 4},
        seen={"rounds": 2000, "features": 8, "actions": 6},
        reported={"rounds": 2500, "features": 6, "actions": 5},
        former={"rounds": 2500, "features": 10, "actions": 3},
        shown={"rounds": 2200, "features": 7, "actions": 5},
        published={"rounds": 2400, "features": 9, "actions": 4},
        printed={"rounds": 2300, "features": 6, "actions": 6},
        report={"rounds": 2500, "features": 9, "actions": 5},
    ),
    "items": Family(
        "items with features",
        items,
        choose={"rounds": 2000, "topics": 3, "catalogue": 30, "fewest": 5, "most": 5, "rate": 0.8},
        seen={"rounds": 2000, "topics": 5, "catalogue": 60, "fewest": 4, "most": 10, "rate": 0.6},
        reported={"rounds": 2500, "topics": 4, "catalogue": 45, "fewest": 3, "most": 8, "rate": 0.7},
        former={"rounds": 2500, "topics": 6, "catalogue": 50, "fewest": 4, "most": 12, "rate": 0.65},
        shown={"rounds": 2300, "topics": 5, "catalogue": 40, "fewest": 3, "most": 10, "rate": 0.75},
        published={"rounds": 2400, "topics": 7, "catalogue": 70, "fewest": 5, "most": 9, "rate": 0.7},
        printed={"rounds": 2400, "topics": 6, "catalogue": 55, "fewest": 4, "most": 8, "rate": 0.75},
        report={"rounds": 2500, "topics": 6, "catalogue": 45, "fewest": 3, "most": 10, "rate": 0.75},
    ),
    "many": Family(
        "many actions",
        clicks,
        choose={"rounds": 2000, "users": 2, "articles": 30, "best": 0.7, "others": [0.05, 0.3]},
        seen={"rounds": 2000, "users": 2, "articles": 80, "best": 0.8, "others": [0.0, 0.4]},
        reported={"rounds": 2500, "users": 3, "articles": 50, "best": 0.75, "others": [0.05, 0.35]},
        former={"rounds": 3000, "users": 4, "articles": 40, "best": 0.7, "others": [0.1, 0.3]},
        shown={"rounds": 2600, "users": 3, "articles": 60, "best": 0.75, "others": [0.1, 0.4]},
        published={"rounds": 2800, "users": 2, "articles": 70, "best": 0.7, "others": [0.05, 0.35]},
        printed={"rounds": 2700, "users": 3, "articles": 45, "best": 0.75, "others": [0.1, 0.35]},
        report={"rounds": 2000, "users": 3, "articles": 50, "best": 0.75, "others": [0.05, 0.35]},
    ),
    "units": Family(
        "another unit",
        units,
        choose={"rounds": 2000, "users": 3, "articles": 4, "low": 5, "high": 60, "noise": 10},  # cents
        seen={"rounds": 2000, "users": 4, "articles": 6, "low": 100, "high": 900, "noise": 150},  # milliseconds
        reported={"rounds": 2500, "users": 5, "articles": 5, "low": 20, "high": 400, "noise": 60},
        former={"rounds": 2500, "users": 3, "articles": 8, "low": 1000, "high": 5000, "noise": 700},
        shown={"rounds": 2300, "users": 4, "articles": 6, "low": 2, "high": 25, "noise": 4},
        published={"rounds": 2400, "users": 6, "articles": 5, "low": 300, "high": 2000, "noise": 300},
        printed={"rounds": 2500, "users": 5, "articles": 7, "low": 1, "high": 9, "noise": 1.5},
        report={"rounds": 2000, "users": 5, "articles": 5, "low": 2, "high": 25, "noise": 4},
        other_unit=True,
    ),
    "heavy": Family(
        "heavy tails",
        heavy_tails,
        choose={"rounds": 2000, "users": 3, "articles": 4, "shape": 3.0},
        seen={"rounds": 2000, "users": 4, "articles": 5, "shape": 2.2},
        reported={"rounds": 2500, "users": 2, "articles": 6, "shape": 2.5},
        former={"rounds": 2500, "users": 3, "articles": 5, "shape": 2.8},
        shown={"rounds": 2300, "users": 4, "articles": 4, "shape": 2.6},
        published={"rounds": 2400, "users": 3, "articles": 6, "shape": 2.4},
        printed={"rounds": 2500, "users": 4, "articles": 5, "shape": 2.7},
        report={"rounds": 2500, "users": 4, "articles": 4, "shape": 2.8},
        other_unit=True,
    ),
    "revenue": Family(
        "rare sales",
        sales,
        choose={"rounds": 3000, "users": 2, "articles": 4, "rates": [0.02, 0.1], "values": [10, 50]},
        seen={"rounds": 3000, "users": 3, "articles": 5, "rates": [0.03, 0.12], "values": [5, 100]},
        reported={"rounds": 3000, "users": 2, "articles": 6, "rates": [0.02, 0.15], "values": [20, 80]},
        former={"rounds": 3500, "users": 3, "articles": 4, "rates": [0.01, 0.12], "values": [10, 200]},
        shown={"rounds": 3200, "users": 2, "articles": 5, "rates": [0.02, 0.14], "values": [5, 60]},
        published={"rounds": 3400, "users": 3, "articles": 6, "rates": [0.02, 0.13], "values": [15, 120]},
        printed={"rounds": 3300, "users": 2, "articles": 5, "rates": [0.02, 0.11], "values": [8, 90]},
        report={"rounds": 3300, "users": 3, "articles": 4, "rates": [0.02, 0.1], "values": [10, 200]},
        other_unit=True,
    ),
    "delayed": Family(
        "costs come in batches",
        clicks,
        choose={"rounds": 2000, "users": 3, "articles": 4, "best": 0.6, "others": [0.3, 0.3], "batch": 100},
        seen={"rounds": 3000, "users": 5, "articles": 6, "best": 0.7, "others": [0.2, 0.4], "batch": 100},
        reported={"rounds": 2400, "users": 4, "articles": 5, "best": 0.65, "others": [0.25, 0.35], "batch": 80},
        former={"rounds": 2400, "users": 3, "articles": 6, "best": 0.6, "others": [0.2, 0.35], "batch": 120},
        shown={"rounds": 2700, "users": 4, "articles": 4, "best": 0.7, "others": [0.3, 0.45], "batch": 90},
        published={"rounds": 2600, "users": 3, "articles": 5, "best": 0.55, "others": [0.25, 0.35], "batch": 110},
        printed={"rounds": 2500, "users": 4, "articles": 5, "best": 0.65, "others": [0.3, 0.4], "batch": 100},
        report={"rounds": 2700, "users": 4, "articles": 5, "best": 0.6, "others": [0.3, 0.45], "batch": 80},
    ),
    "words": Family(
        "sparse words",
        words,
        choose={"rounds": 3000, "vocabulary": 40, "length": 4, "articles": 4},
        seen={"rounds": 3000, "vocabulary": 60, "length": 5, "articles": 6},
        reported={"rounds": 3000, "vocabulary": 100, "length": 3, "articles": 3},
        former={"rounds": 4000, "vocabulary": 80, "length": 6, "articles": 5},
        shown={"rounds": 3500, "vocabulary": 70, "length": 4, "articles": 5},
        published={"rounds": 3600, "vocabulary": 90, "length": 5, "articles": 6},
        printed={"rounds": 3400, "vocabulary": 50, "length": 5, "articles": 5},
        report={"rounds": 3600, "vocabulary": 90, "length": 6, "articles": 5},
    ),
    "few": Family(
        "few rounds",
        clicks,
        choose={"rounds": 100, "users": 2, "articles": 4, "best": 0.8, "others": [0.2, 0.2]},
        seen={"rounds": 100, "users": 3, "articles": 3, "best": 0.9, "others": [0.1, 0.3]},
        reported={"rounds": 120, "users": 2, "articles": 5, "best": 0.85, "others": [0.15, 0.25]},
        former={"rounds": 150, "users": 2, "articles": 4, "best": 0.75, "others": [0.2, 0.3]},
        shown={"rounds": 130, "users": 3, "articles": 4, "best": 0.85, "others": [0.1, 0.3]},
        published={"rounds": 140, "users": 2, "articles": 5, "best": 0.8, "others": [0.15, 0.3]},
        printed={"rounds": 120, "users": 3, "articles": 4, "best": 0.8, "others": [0.1, 0.25]},
        report={"rounds": 120, "users": 3, "articles": 4, "best": 0.8, "others": [0.2, 0.3]},
    ),
    "habits": Family(
        "some users click on everything",
        habits,
        choose={"rounds": 3000, "users": 10, "articles": 5, "spread": 3.0},
        seen={"rounds": 3000, "users": 30, "articles": 4, "spread": 2.0},
        reported={"rounds": 2500, "users": 6, "articles": 8, "spread": 4.0},
        former={"rounds": 4000, "users": 50, "articles": 6, "spread": 3.0},
        shown={"rounds": 3000, "users": 200, "articles": 5, "spread": 3.0},
        published={"rounds": 3200, "users": 20, "articles": 6, "spread": 3.5},
        printed={"rounds": 3000, "users": 40, "articles": 6, "spread": 2.5},
        report={"rounds": 3000, "users": 10, "articles": 4, "spread": 2.0},
    ),
    "level": Family(
        "a level that wanders",
        wandering,
        choose={"rounds": 2500, "users": 3, "articles": 4, "noise": 30, "step": 5},  # milliseconds
        seen={"rounds": 2500, "users": 4, "articles": 6, "noise": 50, "step": 10},
        reported={"rounds": 2500, "users": 2, "articles": 8, "noise": 30, "step": 10},
        former={"rounds": 2500, "users": 5, "articles": 5, "noise": 60, "step": 20},
        shown={"rounds": 2800, "users": 3, "articles": 7, "noise": 40, "step": 8},
        published={"rounds": 2600, "users": 4, "articles": 5, "noise": 45, "step": 7},
        printed={"rounds": 2700, "users": 3, "articles": 6, "noise": 35, "step": 9},
        report={"rounds": 2800, "users": 4, "articles": 7, "noise": 35, "step": 9},
        other_unit=True,
    ),
}


def make_problem(family: str, params: Params, split: Split, seed: int) -> Problem:
    """The same for the same arguments; splits have independent random numbers."""
    rng = np.random.default_rng([SPLITS.index(split), zlib.crc32(family.encode()), seed])
    return FAMILIES[family].make(rng, **params)
