"""The online problems: families of contextual bandits whose expected costs are known, so that regret is exact.

Each seed of a family draws its parameters at random from the family's ranges, and then contexts and costs. Defaults may
be chosen on the split "choose", without limit; nobody looks at "report" before the defaults are fixed (docs/online.md).
The two have independent random numbers. A click costs -1, as in VW's tutorials, unless the family is about something
else.
"""

import zlib
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.online.family import Family, Params, clicked, dense_lines, fixed_actions, one_hot
from benchmarks.online.real import REAL
from benchmarks.online.wide import WIDE
from benchmarks.shared.bandit import Problem

Split = Literal["choose", "report"]
SPLITS: tuple[Split, ...] = ("choose", "report")
DRAWS = {"choose": 0, "report": 2}  # of their random numbers; a report that has been looked at is drawn anew
VERSION = 2  # raise it when the same parameters and seed give another problem: earlier runs then no longer count


def preferences(
    rng: np.random.Generator, rounds: int, users: int, times: int, unliked: int, changes: bool = False
) -> Problem:
    """VW's content personalization: a user likes one article in the morning and another in the evening, and clicks
    on that one with certainty. With changes, everybody likes the next article from half way on.

    The liked articles all differ. So a linear model of user and time crossed with the article ranks them right,
    though it cannot represent the costs exactly.
    """
    articles = users * times + unliked
    liked = rng.choice(articles, size=users * times, replace=False).reshape(users, times)
    user, time = rng.integers(users, size=rounds), rng.integers(times, size=rounds)
    likes = liked[user, time]
    if changes:
        likes = (likes + (np.arange(rounds) >= rounds // 2)) % articles
    costs = 0 - one_hot(likes, articles)  # not -0
    return Problem(
        contexts=np.hstack([one_hot(user, users), one_hot(time, times)]),
        shared=[f"shared |U user={u} time={t}" for u, t in zip(user, time, strict=True)],
        actions=fixed_actions(articles, rounds),
        expected=list(costs),
        costs=list(costs),
    )


def _by_user(rng: np.random.Generator, rounds: int, users: int, articles: int) -> tuple[Params, NDArray[np.int64]]:
    """Shared by the problems whose context is the user: the contexts, and the user of each round."""
    user = rng.integers(users, size=rounds)
    common = {
        "contexts": one_hot(user, users),
        "shared": [f"shared |U user={u}" for u in user],
        "actions": fixed_actions(articles, rounds),
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
    return Problem(**common, expected=list(-rates[user]), costs=list(clicked(rng, rates[user])), batch=batch)


def linear(rng: np.random.Generator, rounds: int, features: int, actions: int) -> Problem:
    """The paper's setting: expected costs linear in dense features, observed costs 0 or 1. The features are on the
    simplex, where that is linear without a constant."""
    x = rng.dirichlet(np.full(features, 0.5), size=rounds)
    expected = x @ rng.uniform(0.1, 0.9, size=(features, actions))
    return Problem(
        contexts=x,
        shared=dense_lines("shared |U", "x", x),
        actions=fixed_actions(actions, rounds),
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
    item_lines = dense_lines("|A", "topic", item_topics)
    offers = [rng.choice(catalogue, size=rng.integers(fewest, most + 1), replace=False) for _ in range(rounds)]
    rates = [rate * item_topics[offer] @ x for offer, x in zip(offers, interests, strict=True)]
    return Problem(
        contexts=interests,
        shared=dense_lines("shared |U", "interest", interests),
        actions=[[item_lines[i] for i in offer] for offer in offers],
        expected=[-r for r in rates],
        costs=[clicked(rng, r) for r in rates],
        items=[item_topics[offer] for offer in offers],
    )


def units(
    rng: np.random.Generator, rounds: int, users: int, articles: int, decade: float, times: float, noise_share: float
) -> Problem:
    """Costs from 10 ** `decade` to `times` that, such as milliseconds or cents: a mean for each user and action, and
    even noise, which is a share of the width."""
    common, user = _by_user(rng, rounds, users, articles)
    low = 10**decade
    high = low * times
    noise = noise_share * (high - low)
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
        actions=fixed_actions(articles, rounds),
        expected=list(-rates),
        costs=list(clicked(rng, rates)),
    )


def habits(rng: np.random.Generator, rounds: int, users: int, articles: int, spread: float) -> Problem:
    """Users differ in how often they click on anything, more than in what they like: the rate is a sigmoid of the sum
    of the user's habit, the article's appeal and the user's liking for it."""
    common, user = _by_user(rng, rounds, users, articles)
    habit = rng.uniform(-spread, spread, size=(users, 1))
    liking = 0.7 * rng.normal(size=(users, articles))
    rates = 1 / (1 + np.exp(-(habit + rng.normal(size=articles) + liking)))
    return Problem(**common, expected=list(-rates[user]), costs=list(clicked(rng, rates[user])))


def wandering(rng: np.random.Generator, rounds: int, users: int, articles: int, noise: float, step: float) -> Problem:
    """Milliseconds, whose level for all actions is a random walk: a mean for each user and action, and the level."""
    common, user = _by_user(rng, rounds, users, articles)
    level = np.abs(step * rng.normal(size=rounds).cumsum())
    expected = rng.uniform(100, 300, size=(users, articles))[user] + level[:, None]
    return Problem(**common, expected=list(expected), costs=list(expected + noise * rng.normal(size=expected.shape)))


def news(
    rng: np.random.Generator, rounds: int, users: int, offered: int, articles: int, rates: tuple[float, float]
) -> Problem:
    """Articles come and go: a few are on offer, known by their ids, and from time to time a new one takes the place of
    the oldest. Each user clicks on each article at a rate of its own."""
    common, user = _by_user(rng, rounds, users, articles)
    rate = rng.uniform(*rates, size=(users, articles))
    oldest = np.arange(rounds) * (articles - offered + 1) // rounds
    offers = oldest[:, None] + np.arange(offered)
    offered_rates = rate[user[:, None], offers]
    ids = np.eye(articles)
    common["actions"] = [[f"|A article={a}" for a in offer] for offer in offers]
    return Problem(
        **common,
        expected=list(-offered_rates),
        costs=list(clicked(rng, offered_rates)),
        items=[ids[offer] for offer in offers],
    )


SIXTEEN: Mapping[str, Family] = {
    "certain": Family(
        "certain rewards",
        preferences,
        {"rounds": 2200, "users": (2, 5), "times": (2, 3), "unliked": (1, 4)},
    ),
    "change": Family(
        "change half way",
        preferences,
        {"rounds": 2600, "users": (2, 5), "times": (2, 3), "unliked": (1, 3), "changes": True},
    ),
    "noisy": Family(
        "noisy clicks",
        clicks,
        {"rounds": 2600, "users": (4, 8), "articles": (4, 8), "best": (0.5, 0.65), "others": [(0.2, 0.3), (0.3, 0.45)]},
    ),
    "rare": Family(
        "rare clicks, 1 to 15 %",
        clicks,
        {
            "rounds": 3500,
            "users": (2, 4),
            "articles": (5, 8),
            "best": (0.08, 0.15),
            "others": [(0.01, 0.02), (0.03, 0.07)],
        },
    ),
    "linear": Family("linear, costs 0/1", linear, {"rounds": 2300, "features": (5, 10), "actions": (3, 6)}),
    "items": Family(
        "items with features",
        items,
        {
            "rounds": 2300,
            "topics": (3, 7),
            "catalogue": (30, 70),
            "fewest": (3, 5),
            "most": (5, 12),
            "rate": (0.6, 0.8),
        },
    ),
    "many": Family(
        "many actions",
        clicks,
        {"rounds": 2500, "users": (2, 4), "articles": (30, 80), "best": (0.7, 0.8), "others": [(0.0, 0.1), (0.3, 0.4)]},
    ),
    "units": Family(
        "another unit",
        units,
        {
            "rounds": 2300,
            "users": (3, 6),
            "articles": (4, 8),
            "decade": (0.0, 3.0),
            "times": (5.0, 20.0),
            "noise_share": (0.12, 0.2),
        },
        other_unit=True,
    ),
    "heavy": Family(
        "heavy tails",
        heavy_tails,
        {"rounds": 2300, "users": (2, 4), "articles": (4, 6), "shape": (2.2, 3.0)},
        other_unit=True,
    ),
    "revenue": Family(
        "rare sales",
        sales,
        {
            "rounds": 3200,
            "users": (2, 3),
            "articles": (4, 6),
            "rates": [(0.01, 0.03), (0.1, 0.15)],
            "values": [(5, 20), (50, 200)],
        },
        other_unit=True,
    ),
    "delayed": Family(
        "costs come in batches",
        clicks,
        {
            "rounds": 2500,
            "users": (3, 5),
            "articles": (4, 6),
            "best": (0.55, 0.7),
            "others": [(0.2, 0.3), (0.3, 0.45)],
            "batch": (80, 120),
        },
    ),
    "words": Family(
        "sparse words",
        words,
        {"rounds": 3400, "vocabulary": (40, 100), "length": (3, 6), "articles": (3, 6)},
    ),
    "few": Family(
        "few rounds",
        clicks,
        {"rounds": 120, "users": (2, 3), "articles": (3, 5), "best": (0.75, 0.9), "others": [(0.1, 0.2), (0.2, 0.3)]},
    ),
    "habits": Family(
        "some users click on everything",
        habits,
        {"rounds": 3000, "users": (6, 60), "articles": (4, 8), "spread": (2.0, 4.0)},
    ),
    "level": Family(
        "a level that wanders",
        wandering,
        {"rounds": 2600, "users": (2, 5), "articles": (4, 8), "noise": (30, 60), "step": (5, 20)},  # milliseconds
        other_unit=True,
    ),
    "news": Family(
        "articles come and go",
        news,
        {"rounds": 2600, "users": (2, 4), "offered": (4, 8), "articles": (20, 50), "rates": [(0.02, 0.1), (0.4, 0.7)]},
    ),
}

FAMILIES: Mapping[str, Family] = {**SIXTEEN, **WIDE, **REAL}
FAMILY_GROUPS = {"sixteen": tuple(SIXTEEN), "wide": tuple(WIDE), "real": tuple(REAL)}


def _random_numbers(family: str, split: Split, seed: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([DRAWS[split], zlib.crc32(family.encode()), seed, purpose])


def draw_params(family: str, split: Split, seed: int) -> Params:
    """The parameters of one problem; the same for the same arguments."""
    return FAMILIES[family].draw(_random_numbers(family, split, seed, 0))


def make_problem(family: str, params: Params, split: Split, seed: int) -> Problem:
    """The same for the same arguments; splits have independent random numbers."""
    return FAMILIES[family].make(_random_numbers(family, split, seed, 1), **params)
