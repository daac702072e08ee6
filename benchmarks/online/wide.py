"""Families of online problems with more features: crossed contexts, texts, embeddings, crowds, ads."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.online.family import Family, clicked, dense_lines, fixed_actions, one_hot
from benchmarks.shared.bandit import Array, Problem

TRAITS = ("age", "region", "device")


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _up_to_1(x: Array) -> Array:
    """Divided by the largest absolute value: still linear in what it was linear in."""
    return x / np.abs(x).max()


def crossed(rng: np.random.Generator, rounds: int, users: int, times: int, articles: int) -> Problem:
    """A user likes one article at each time and clicks on it with certainty; from half way on, everybody likes the
    next one. The context has the user, the time, and the user at that time as one feature."""
    liked = rng.integers(articles, size=(users, times))
    user, time = rng.integers(users, size=rounds), rng.integers(times, size=rounds)
    likes = (liked[user, time] + (np.arange(rounds) >= rounds // 2)) % articles
    costs = 0 - one_hot(likes, articles)  # not -0
    return Problem(
        contexts=np.hstack([one_hot(user, users), one_hot(time, times), one_hot(user * times + time, users * times)]),
        shared=[f"shared |U user={u} time={t} user^time={u}^{t}" for u, t in zip(user, time, strict=True)],
        actions=fixed_actions(articles, rounds),
        expected=list(costs),
        costs=list(costs),
    )


def texts(
    rng: np.random.Generator,
    rounds: int,
    vocabulary: int,
    lengths: tuple[int, int],
    articles: int,
    topics: int,
    carriers: float,
    topical: float,
    best: float,
    other: float,
) -> Problem:
    """Texts of Zipf's words. A share of the vocabulary (`carriers`) belongs to topics; with probability `topical`, a
    word is one of the text's own topic, else any word. Readers of a topic click on its article at the rate `best`, on
    others at the rate `other`.

    Expected costs are those given the words, by Bayes' rule: where these do not tell the topic, no article is good.
    """
    frequency = 1 / np.arange(1, vocabulary + 1)
    topic_of = np.where(rng.uniform(size=vocabulary) < carriers, rng.integers(topics, size=vocabulary), -1)
    topic_of[rng.choice(vocabulary, size=topics, replace=False)] = np.arange(topics)  # none is without words
    own = np.where(topic_of == np.arange(topics)[:, None], frequency, 0)
    chances = (1 - topical) * frequency / frequency.sum() + topical * own / own.sum(axis=1, keepdims=True)
    rates = np.full((topics, articles), other)
    rates[np.arange(topics), rng.permutation(np.arange(topics) % articles)] = best

    topic = rng.integers(topics, size=rounds)
    length = rng.integers(lengths[0], lengths[1] + 1, size=rounds)
    starts = length.cumsum() - length
    word = _drawn_words(rng, chances, np.repeat(topic, length))
    log_posterior = np.add.reduceat(np.log(chances.T)[word], starts)
    posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    return Problem(
        contexts=None,
        shared=["shared |U " + " ".join(f"w{i}" for i in text) for text in np.split(word, starts[1:])],
        actions=fixed_actions(articles, rounds),
        expected=list(-posterior @ rates),
        costs=list(clicked(rng, rates[topic])),
    )


def _drawn_words(rng: np.random.Generator, chances: Array, topic: NDArray[np.int64]) -> NDArray[np.int64]:
    """A word for each topic, by the chances of its row."""
    word = np.empty(len(topic), np.int64)
    for z, row in enumerate(chances.cumsum(axis=1)):
        of_it = topic == z
        word[of_it] = np.searchsorted(row / row[-1], rng.uniform(size=of_it.sum()), side="right")
    return word


def _embedded(rng: np.random.Generator, count: int, features: int, factors: int) -> Array:
    """Gaussian vectors of length 1, whose features are correlated by a few common factors."""
    x = rng.normal(size=(count, factors)) @ rng.normal(size=(factors, features)) / np.sqrt(factors)
    x += rng.normal(size=x.shape)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _around(rng: np.random.Generator, expected: Array, noise: float) -> Array:
    return expected + rng.uniform(-noise, noise, size=expected.shape)


def embeddings(
    rng: np.random.Generator, rounds: int, features: int, factors: int, articles: int, noise: float
) -> Problem:
    """Contexts are embeddings. Costs within [0, 1], linear in them for each article, with even noise."""
    x = _embedded(rng, rounds, features, factors)
    appeal = 0.05 * rng.normal(size=articles)
    expected = 0.5 + (0.5 - noise) * _up_to_1(x @ rng.normal(size=(features, articles)) / np.sqrt(features) + appeal)
    return Problem(
        contexts=x,
        shared=dense_lines("shared |U", "x", x),
        actions=fixed_actions(articles, rounds),
        expected=list(expected),
        costs=list(_around(rng, expected, noise)),
    )


def item_embeddings(
    rng: np.random.Generator,
    rounds: int,
    features: int,
    of_item: int,
    factors: int,
    catalogue: int,
    fewest: int,
    most: int,
    noise: float,
) -> Problem:
    """The same with items, which have embeddings of their own; a few are on offer in each round. The cost is linear in
    the item's features and in the crossed ones."""
    x = _embedded(rng, rounds, features, factors)
    z = _embedded(rng, catalogue, of_item, factors)
    affinity = x @ rng.normal(size=(features, of_item)) @ z.T
    costs = 0.5 + (0.5 - noise) * _up_to_1(affinity + 0.5 * z @ rng.normal(size=of_item))
    offers = [rng.choice(catalogue, size=rng.integers(fewest, most + 1), replace=False) for _ in range(rounds)]
    expected = [row[offer] for row, offer in zip(costs, offers, strict=True)]
    lines = dense_lines("|A", "z", z)
    return Problem(
        contexts=x,
        shared=dense_lines("shared |U", "x", x),
        actions=[[lines[i] for i in offer] for offer in offers],
        expected=expected,
        costs=[_around(rng, row, noise) for row in expected],
        items=[z[offer] for offer in offers],
    )


def crowd(
    rng: np.random.Generator,
    rounds: int,
    users: int,
    traits: list[int],
    articles: int,
    level: float,
    of_traits: float,
    of_user: float,
) -> Problem:
    """Many users, each for a few rounds: an id and traits, each with some values. The rate of a click is a sigmoid of
    the article's appeal (around `level`), what the traits add for it, and a little that only this user adds."""
    values = [rng.integers(count, size=users) for count in traits]
    score = rng.normal(level, 0.5, size=articles) + of_user * rng.normal(size=(users, articles))
    for value, count in zip(values, traits, strict=True):
        score += of_traits * rng.normal(size=(count, articles))[value]
    user = rng.permutation(np.arange(rounds) % users)
    traits_given = [one_hot(value[user], count) for value, count in zip(values, traits, strict=True)]
    named = [
        f"user={u} " + " ".join(f"{name}={value[u]}" for name, value in zip(TRAITS, values, strict=True))
        for u in range(users)
    ]
    rates = _sigmoid(score)[user]
    return Problem(
        contexts=np.hstack([one_hot(user, users), *traits_given]),
        shared=[f"shared |U {named[u]}" for u in user],
        actions=fixed_actions(articles, rounds),
        expected=list(-rates),
        costs=list(clicked(rng, rates)),
    )


def ads(
    rng: np.random.Generator,
    rounds: int,
    segments: int,
    offered: int,
    lives: tuple[int, int],
    brands: int,
    formats: int,
    own: float,
) -> Problem:
    """Ads of short lives, known by id, brand and format: in a round, several may be new. The rate of a click is a
    sigmoid of what the segment of users makes of brand and format, and of the ad's own appeal."""
    offers = np.empty((rounds, offered), np.int64)
    count = 0
    for place in range(offered):
        t = -int(rng.integers(lives[1]))  # some have begun before
        while t < rounds:
            life = int(rng.integers(lives[0], lives[1] + 1))
            if t + life > 0:
                offers[max(t, 0) : t + life, place] = count
                count += 1
            t += life
    brand, form = rng.integers(brands, size=count), rng.integers(formats, size=count)
    score = -1 + rng.normal(size=(segments, brands))[:, brand] + 0.7 * rng.normal(size=(segments, formats))[:, form]
    rate = _sigmoid(score + own * rng.normal(size=count))
    segment = rng.integers(segments, size=rounds)
    rates = rate[segment[:, None], offers]
    lines = [f"|A ad={i} brand={brand[i]} format={form[i]}" for i in range(count)]
    z = np.hstack([np.eye(count), one_hot(brand, brands), one_hot(form, formats)])
    return Problem(
        contexts=one_hot(segment, segments),
        shared=[f"shared |U segment={s}" for s in segment],
        actions=[[lines[i] for i in offer] for offer in offers],
        expected=list(-rates),
        costs=list(clicked(rng, rates)),
        items=[z[offer] for offer in offers],
    )


WIDE: Mapping[str, Family] = {
    "crossed": Family(
        "change with crossed contexts",
        crossed,
        {"rounds": 2600, "users": (2, 8), "times": (2, 4), "articles": (4, 8)},
    ),
    "texts": Family(
        "texts of 2,000 to 30,000 words",
        texts,
        {
            "rounds": 3000,
            "vocabulary": (2000, 30000),
            "lengths": [(5, 15), (20, 60)],
            "articles": (3, 6),
            "topics": (6, 12),
            "carriers": (0.1, 0.5),
            "topical": (0.15, 0.5),
            "best": (0.35, 0.98),
            "other": (0.01, 0.15),
        },
    ),
    "embeddings": Family(
        "embeddings",
        embeddings,
        {"rounds": 3000, "features": (32, 128), "factors": (2, 8), "articles": (3, 6), "noise": (0.03, 0.2)},
    ),
    "item_embeddings": Family(
        "embeddings of contexts and items",
        item_embeddings,
        {
            "rounds": 2500,
            "features": (8, 16),
            "of_item": (6, 10),
            "factors": (2, 5),
            "catalogue": (40, 120),
            "fewest": (3, 5),
            "most": (5, 12),
            "noise": (0.03, 0.2),
        },
    ),
    "crowd": Family(
        "many users with few rounds each",
        crowd,
        {
            "rounds": 3600,
            "users": (360, 720),
            "traits": [(4, 7), (5, 12), (2, 4)],
            "articles": (4, 10),
            "level": (-2.5, -0.5),
            "of_traits": (0.4, 1.0),
            "of_user": (0.1, 0.5),
        },
    ),
    "ads": Family(
        "ads of short lives",
        ads,
        {
            "rounds": 3000,
            "segments": (2, 5),
            "offered": (5, 10),
            "lives": [(50, 100), (150, 200)],
            "brands": (5, 10),
            "formats": (2, 4),
            "own": (0.4, 0.9),
        },
    ),
}
