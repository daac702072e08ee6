"""One explorer on one problem, and all of them, resumable."""

import json
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from opo_cmab.compare.rows import Key, Row
from threadpoolctl import threadpool_limits

from benchmarks.online.explorers import identity, make_bandit
from benchmarks.online.problems import VERSION, Split, draw_params, make_problem
from benchmarks.shared.bandit import Array, Problem, UnfitError, play
from benchmarks.shared.runner import Workers, finish_missing

POINTS = 50  # of a regret curve
KEY = ("version", "family", "params", "split", "seed", "command", "engine")


def results(problem: Problem, probabilities: list[Array], paid: Array) -> Row:
    """The regret share: 0 is perfect, 1 is playing at random. The curve has its value up to a few rounds."""
    of_random = float(problem.uniform_regret().sum())
    regret = problem.regret(probabilities).cumsum() / of_random
    shown = np.unique(np.linspace(0, problem.rounds - 1, min(POINTS, problem.rounds)).astype(int))
    return {
        "share": round(float(regret[-1]), 6),
        "mean_cost": round(float(paid.mean()), 6),
        "rounds": (shown + 1).tolist(),
        "curve": regret[shown].round(5).tolist(),
        "unfit": None,
    }


def run(identity: Row) -> Row:
    """One run: its regret, the reason why this explorer cannot play this problem, or an error."""
    start = time.perf_counter()
    result: Row = {"error": None, "share": None, "mean_cost": None}
    try:
        problem = make_problem(identity["family"], json.loads(identity["params"]), identity["split"], identity["seed"])
        start = time.perf_counter()
        with threadpool_limits(1):  # small matrices: on busy cores, BLAS's threads wait for each other
            bandit = make_bandit(identity["command"], problem, identity["seed"])
            result |= results(problem, *play(problem, bandit, identity["seed"]))
    except UnfitError as reason:
        result["unfit"] = str(reason)
    except Exception as error:  # whatever is wrong with one run, the others continue
        result["error"] = f"{type(error).__name__}: {error}"
    return {**identity, **result, "seconds": round(time.perf_counter() - start, 4)}


def key(row: Row) -> Key:
    """The identity of a run."""
    return tuple(row[field] for field in KEY)


def plan(
    explorers: dict[str, str | None], families: Sequence[str], split: Split, seeds: int, rounds: int | None
) -> list[Row]:
    """All runs to do. Explorers by name: VW's flags, None for a peer."""
    who = [identity(name, flags) for name, flags in explorers.items()]
    planned = []
    for family, seed in product(families, range(seeds)):
        params = draw_params(family, split, seed)
        if rounds is not None:
            params = params | {"rounds": min(rounds, params["rounds"])}
        what = {"version": VERSION, "family": family, "params": json.dumps(params, sort_keys=True), "split": split}
        planned += [{**what, "seed": seed, **explorer} for explorer in who]
    return planned


def run_missing(planned: Sequence[Row], path: Path, workers: Workers) -> pd.DataFrame:
    """Runs what has no result in the file yet. Returns a row for each planned run."""

    def tasks(rows: Iterable[Row]) -> Iterable[tuple[Row]]:
        return ((row,) for row in rows)

    rows = finish_missing({key(row): row for row in planned}, path, workers, "online", run=run, key=key, tasks=tasks)
    return pd.DataFrame([rows[key(row)] | {"explorer": row["explorer"]} for row in planned])
