"""How much faster OPOLearner.predict_proba is for many contexts at once than one by one.

The same learner, the same contexts. The variants run in turn, several times; the lowest time of each counts.
Results: OUT/batch.md and OUT/batch.csv.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from opo_cmab import OPOLearner

from benchmarks.shared.program import count, directory, option, parse, where, write
from benchmarks.shared.tables import markdown_of

ACTIONS, FEATURES = 10, 20
GOAL = 5
ROUNDS = (100, 1000, 3000)
LEARNERS: dict[str, dict[str, Any]] = {
    "ridge": {},
    "ridge, one thread": {"threads": 1},
    "ridge, Algorithm 1 (decay 1)": {"decay": 1},
    "ridge, budget 32": {"budget": 32},
}


def learnt(settings: dict[str, Any], rounds: int, seed: int = 0) -> OPOLearner:
    """A learner after this many rounds, with losses linear in the context."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(ACTIONS, FEATURES))
    learner = OPOLearner(actions=ACTIONS, seed=seed, **settings)
    for context in contexts(rounds, seed + 1):
        action, _ = learner.choose(context)
        learner.update(context, action, float(rng.uniform() < np.clip(0.5 + 0.5 * hidden[action] @ context, 0, 1)))
    return learner


def contexts(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, FEATURES)) / np.sqrt(FEATURES)


def compare(name: str, rounds: int, count: int, repeats: int) -> dict[str, Any]:
    learner = learnt(LEARNERS[name], rounds)
    x = contexts(count, seed=99)
    at_once, one_by_one = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        batch = learner.predict_proba(x)
        middle = time.perf_counter()
        single = np.concatenate([learner.predict_proba(c[None]) for c in x])
        at_once.append(middle - start)
        one_by_one.append(time.perf_counter() - middle)
    return {
        "learner": name,
        "rounds": rounds,
        "contexts": count,
        "seconds_one_by_one": min(one_by_one),
        "seconds_at_once": min(at_once),
        "times_faster": min(one_by_one) / min(at_once),
        "largest_difference": float(np.abs(batch - single).max()),
    }


def report(rows: Sequence[dict[str, Any]], place: dict[str, Any]) -> str:
    text = [
        "# Many contexts at once",
        "",
        f"`predict_proba` of {rows[0]['contexts']:,} contexts, {ACTIONS} actions, {FEATURES} features. The goal "
        f"for ridge is {GOAL} times faster. {place['cores']} cores of {place['machine']}, {place['date']}, "
        f"`python -m benchmarks.batch`. {place['versions']}.",
        "",
        *markdown_of(
            [{**r, "one_ms": 1e3 * r["seconds_one_by_one"], "all_ms": 1e3 * r["seconds_at_once"]} for r in rows],
            {
                "": "{learner}",
                "rounds learnt": "{rounds:,}",
                "one by one, ms": "{one_ms:.0f}",
                "at once, ms": "{all_ms:.1f}",
                "times faster": "{times_faster:.1f}",
                "largest difference": "{largest_difference:.0e}",
            },
        ),
    ]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Options:
    rounds: Sequence[int] = option(ROUNDS, "rounds learnt before", metavar="N")
    contexts: int = count(1000)
    repeats: int = count(5, "times that everything is run")
    learners: Sequence[str] = option(tuple(LEARNERS), "(default: all)", choices=LEARNERS)
    out: Path = directory("batch")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "batch", __doc__, arguments)
    rows = [compare(name, k, options.contexts, options.repeats) for name in options.learners for k in options.rounds]
    place = where()
    write("batch", pd.DataFrame(rows).assign(**place), report(rows, place), options.out)


if __name__ == "__main__":
    main()
