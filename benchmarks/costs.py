"""Costs in other units: the loss of explorers when the same data sets cost 0/1, -1/0, 0/100 or -50/50.

No range is given, so our explorers learn it; for comparison, costs 0/1 also run with the right range, and with one
wrong cost after a third of the rounds. The sets become rounds as with --cbify, with separate features for each action.
We do not use --cbify itself: it tells some explorers the range.

Results: OUT/costs.md and OUT/costs.csv. The online problems with and without the range: python -m benchmarks.online.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from opo_cmab.compare.rows import Row
from tqdm import tqdm

from benchmarks.shared.bandit import Problem, VWBandit, play
from benchmarks.shared.datasets import BAKEOFF, Dataset, available, builtin, load
from benchmarks.shared.program import count, directory, option, parse, processes, where, write
from benchmarks.shared.tables import markdown

UNITS = {"0/1": (0.0, 1.0), "-1/0": (-1.0, 0.0), "0/100": (0.0, 100.0), "-50/50": (-50.0, 50.0)}
GIVEN = "0/1, range given"
WRONG = "0/1, once -9999"
EXPLORERS = {
    "OPO-CMAB": "--opo_cmab",
    "FastCB": "--fastcb",
    "AdaCB": "--adacb",
    "SquareCB": "--squarecb",
    "SquareCB, mapped": "--squarecb --cb_cost_unit range",
}


def as_problem(dataset: Dataset, seed: int, right: float, wrong: float) -> Problem:
    """The rows in random order; the classes are the actions."""
    order = np.random.default_rng([seed, 2]).permutation(dataset.rows)
    costs = np.where(np.arange(1, dataset.actions + 1) == dataset.y[order, None], right, wrong)

    def lines(x: Any) -> list[str]:
        features = [(i, x[i]) for i in np.flatnonzero(x)]
        return [
            "| " + " ".join(f"f{i}_{action}:{value:.9g}" for i, value in features) + f" a{action}"
            for action in range(dataset.actions)
        ]

    return Problem(dataset.X[order], [lines(x) for x in dataset.X[order]], list(costs), list(costs))


def losses(dataset: Dataset, seed: int, explorers: Sequence[str]) -> list[Row]:
    """The share of wrong classes for each explorer and unit."""

    def run(explorer: str, unit: str, right: float, wrong: float, flags: str = "") -> Row:
        problem = as_problem(dataset, seed, right, wrong)
        if unit == WRONG:
            problem.costs[dataset.rows // 3] = np.full(dataset.actions, -9999.0)
        bandit = VWBandit(f"--cb_explore_adf {EXPLORERS[explorer]} {flags}", problem, seed)
        _, paid = play(problem, bandit, seed)
        wrong_share = float(np.mean(paid == wrong))
        return {"dataset": dataset.did, "seed": seed, "explorer": explorer, "unit": unit, "loss": wrong_share}

    def runs() -> Iterator[Row]:
        for explorer in explorers:
            for unit, (right, wrong) in UNITS.items():
                yield run(explorer, unit, right, wrong)
            yield run(explorer, GIVEN, 0, 1, "--cb_min_cost 0 --cb_max_cost 1")
            yield run(explorer, WRONG, 0, 1)

    return list(runs())


def report(results: pd.DataFrame, place: Row) -> str:
    means = results.pivot_table("loss", "explorer", "unit", sort=False)
    text = [
        "# Costs in other units",
        "",
        f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}.",
        "",
        f"Mean share of wrong classes over {results['dataset'].nunique()} data sets, runs of each: "
        f"{results['seed'].nunique()}. No range is given unless the column says so.",
        "",
        *markdown(
            ["explorer", *means.columns], [[str(name), *(f"{x:.4f}" for x in row)] for name, row in means.iterrows()]
        ),
    ]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Options:
    explorers: Sequence[str] = option(tuple(EXPLORERS), "(default: all)", choices=EXPLORERS, metavar="NAME")
    max_rows: int = option(6000, "leave out larger sets", metavar="N")
    seeds: int = count(1, "runs on each set")
    jobs: int = processes()
    out: Path = directory("costs")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "costs", __doc__, arguments)
    here = set(available())
    sets = [load(did) for did in tqdm(BAKEOFF, desc="reading", unit="set") if did in here] or builtin()
    tasks = [
        delayed(losses)(dataset, seed, options.explorers)
        for dataset in sets
        if dataset.rows <= options.max_rows
        for seed in range(options.seeds)
    ]
    finished = Parallel(n_jobs=options.jobs, return_as="generator")(tasks)
    results = pd.DataFrame([row for rows in tqdm(finished, total=len(tasks), unit="set") for row in rows])
    write("costs", results, report(results, where()), options.out)


if __name__ == "__main__":
    main()
