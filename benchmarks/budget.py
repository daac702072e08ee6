"""What --opo_budget costs in quality: progressive validation loss beside the exact algorithm, over the data sets of 500
to 6,000 rows in OpenML's cache (else scikit-learn's), and how close other ways to divide the past come.

Results: OUT/budget.md and OUT/budget.csv.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import opo_cmab
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from opo_cmab.compare.rows import Row
from scipy.stats import wilcoxon
from tqdm import tqdm

from benchmarks.online.problems import clicks
from benchmarks.shared.datasets import Dataset, available, builtin, load, to_vw
from benchmarks.shared.program import count, directory, option, parse, processes, where, write
from benchmarks.shared.tables import markdown, markdown_of
from benchmarks.shared.vw import round_losses

BUDGETS = (16, 32, 64)
ROWS = (500, 6000)
LARGE = (6, 26, 727)  # letter, nursery, 2dplanes: too many rows for the exact algorithm in seconds
SETTINGS = {"eta": 20.0, "gamma": 0.2, "decay": 0.8}
DECIDED = 2000  # rounds of a stream whose decisions are compared with exact ones
ACTIONS = (2, 5, 10, 30, 50, 100)
SEEDS = 3


def flags(budget: int) -> str:
    return f"--opo_cmab --opo_budget {budget}"


def run(dataset: Dataset, permutation: int, budget: int) -> Row:
    start = time.perf_counter()
    text = "".join(line + "\n" for line in to_vw(dataset, permutation))
    losses = round_losses(f"--cbify {dataset.actions} --cb_explore_adf {flags(budget)}", text)
    return {
        "dataset": dataset.did,
        "rows": dataset.rows,
        "permutation": permutation,
        "budget": budget,
        "pv_loss": losses.count("1") / len(losses),
        "seconds": time.perf_counter() - start,
    }


def differences(rows: pd.DataFrame) -> pd.DataFrame:
    """For each budget: the loss minus that of the exact algorithm on the same permutations, over the data sets."""
    losses = rows.pivot_table("pv_loss", "dataset", "budget")  # the mean over permutations
    result = []
    for budget in losses.columns.drop(0):
        difference = (losses[budget] - losses[0]).round(12)
        result.append(
            {
                "budget": budget,
                "loss": losses[budget].mean(),
                "exact": losses[0].mean(),
                "mean": difference.mean(),
                "sd": difference.std(),
                "largest": difference.abs().max(),
                "better": int((difference < 0).sum()),
                "equal": int((difference == 0).sum()),
                "worse": int((difference > 0).sum()),
                "p": wilcoxon(difference).pvalue if difference.any() else 1.0,
            }
        )
    return pd.DataFrame(result)


# -- other ways to divide the past, into the same number of segments as --opo_budget: the starts of the segments


def as_the_engine(rounds: int, budget: int) -> NDArray[np.uint32]:
    return opo_cmab.segment_starts(rounds, budget=budget)


def geometric(rounds: int, budget: int) -> NDArray[np.uint32]:
    """Segments that get geometrically longer with age, starting from 1."""
    count = len(as_the_engine(rounds, budget)) - 1
    points = count + 1
    while True:  # the first lengths would be below 1: use more points until enough differ
        ages = np.unique(np.geomspace(1, rounds + 1, points).astype(int)) - 1
        if len(ages) > count:
            break
        points += 1
    return (rounds - ages[::-1]).astype(np.uint32)


def uniform(rounds: int, budget: int) -> NDArray[np.uint32]:
    return np.linspace(0, rounds, len(as_the_engine(rounds, budget))).astype(np.uint32)


DIVISIONS: Mapping[str, Callable[[int, int], NDArray[np.uint32]]] = MappingProxyType(
    {
        "lengths as the power 3/4 of the age (--opo_budget)": as_the_engine,
        "lengths as the age": geometric,
        "all of one length": uniform,
    }
)


def bounded(predictions: NDArray[np.float64], starts: NDArray[np.uint32], budget: int) -> NDArray[np.float64]:
    averages = np.add.reduceat(predictions, starts[:-1].astype(int)) / np.diff(starts)[:, None]
    return opo_cmab.bounded_policy(averages, starts, budget=budget, **SETTINGS)


class Round(NamedTuple):
    """A context in VW's format and the cost of each action."""

    shared: str
    actions: Sequence[str]
    costs: Sequence[float] | NDArray[np.float64]


def rounds_of(dataset: Dataset, seed: int) -> Iterator[Round]:
    actions = [f"|A {a}" for a in range(1, dataset.actions + 1)]
    for line in to_vw(dataset, seed)[:DECIDED]:
        label, _, features = line.partition(" | ")
        costs = [int(a + 1 != int(label)) for a in range(dataset.actions)]
        yield Round(f"shared |U {features}", actions, costs)


def rounds_of_clicks(actions: int, seed: int) -> Iterator[Round]:
    """Three users, each of whom clicks on one article more often than on the others."""
    rng = np.random.default_rng(seed)
    problem = clicks(rng, rounds=DECIDED, users=3, articles=actions, best=0.6, others=(0.1, 0.4))
    assert problem.shared is not None
    yield from map(Round, problem.shared, problem.actions, problem.costs)


def decisions(rounds: Iterable[Round], seed: int) -> Iterator[opo_cmab.Explanation]:
    """Some decisions of the exact algorithm, explained."""
    from vowpalwabbit import Workspace

    rng = np.random.default_rng(seed)
    workspace = Workspace(
        "--cb_explore_adf --opo_cmab --opo_budget 0 -q UA --quiet "
        + " ".join(f"--opo_{name} {value}" for name, value in SETTINGS.items())
    )
    for t, (shared, actions, costs) in enumerate(rounds):
        context = [shared, *actions]
        p = np.array(workspace.predict(context))
        chosen = int(rng.choice(len(p), p=p / p.sum()))
        if t >= 500 and t % 50 == 0:
            yield opo_cmab.explain(workspace, context)
        context[chosen + 1] = f"0:{costs[chosen]}:{max(p[chosen], 1e-3):.6f} {context[chosen + 1]}"
        workspace.learn(context)


def distances(rounds: Iterable[Round], seed: int = 0) -> list[Row]:
    """How far each way is from the exact decision: the total variation distance, 0 (the same) to 1."""
    result = []
    for explanation in decisions(rounds, seed):
        low, high = explanation.cost_range
        f, exact = (explanation.cost - low) / (high - low), explanation.decision
        for budget in BUDGETS:
            policies = {name: bounded(f, divide(len(f), budget), budget) for name, divide in DIVISIONS.items()}
            policies["the last rounds only"] = opo_cmab.policy(f[-budget:], **SETTINGS)
            for name, policy in policies.items():
                row = {"way": name, "budget": budget, "actions": len(exact)}
                result.append(row | {"distance": np.abs(policy - exact).sum() / 2})
    return result


def distances_of(dataset: Dataset) -> list[Row]:
    return distances(rounds_of(dataset, seed=0))


def distances_with(actions: int, seed: int) -> list[Row]:
    return distances(rounds_of_clicks(actions, seed), seed)


def report(
    losses: pd.DataFrame,
    large: pd.DataFrame,
    ways: pd.DataFrame,
    by_actions: pd.DataFrame,
    place: Row,
    permutations: int,
) -> str:
    engine = by_actions[by_actions["way"] == next(iter(DIVISIONS))]
    text = [
        "# What a budget costs in quality",
        "",
        f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}.",
        "",
        "## Loss beside the exact algorithm",
        "",
        f"Progressive validation loss at the default settings on {losses['dataset'].nunique()} data sets of "
        f"{losses['rows'].min():,} to {losses['rows'].max():,} rows, permutations of each: {permutations}, the same "
        "for all. Difference: with the budget less without. p: Wilcoxon signed-rank test over the data sets.",
        "",
        *markdown_of(
            differences(losses).to_dict("records"),
            {
                "N": "{budget}",
                "loss": "{loss:.4f}",
                "exact": "{exact:.4f}",
                "mean difference": "{mean:+.4f}",
                "sd": "{sd:.4f}",
                "largest": "{largest:.4f}",
                "better": "{better}",
                "equal": "{equal}",
                "worse": "{worse}",
                "p": "{p:.2g}",
            },
        ),
        "",
        "## Other ways to divide the past",
        "",
        "Distance (total variation) from the exact decision on contexts of the same data sets, from round 500 on, for "
        "as many segments; and for the last N rounds alone.",
        "",
        *markdown(
            ["way", *(f"N = {budget}" for budget in BUDGETS)],
            [
                [str(way), *(f"{distance:.4f}" for distance in row)]
                for way, row in ways.pivot_table("distance", "way", "budget", sort=False).iterrows()
            ],
        ),
        "",
        "## By number of actions",
        "",
        "The same distance for `--opo_budget` on simulated clicks: three users, each of whom clicks on one article at "
        f"a rate of 0.6 and on the others at 0.1 to 0.4; {DECIDED:,} rounds, {SEEDS} seeds.",
        "",
        *markdown(
            ["actions", *(f"N = {budget}" for budget in BUDGETS)],
            [
                [str(actions), *(f"{distance:.4f}" for distance in row)]
                for actions, row in engine.pivot_table("distance", "actions", "budget").iterrows()
            ],
        ),
    ]
    if len(large):
        text += [
            "",
            f"## Large sets, N = {BUDGETS[1]}",
            "",
            *markdown_of(
                large.to_dict("records"),
                {"data set": "{dataset}", "rows": "{rows:,}", "loss": "{pv_loss:.4f}", "seconds": "{seconds:.1f}"},
            ),
        ]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Options:
    datasets: Sequence[int] | None = option(
        None, "OpenML ids (default: all of 500 to 6,000 rows)", nargs="+", type=int, metavar="ID"
    )
    permutations: int = count(3, "of the rows of each set")
    jobs: int = processes()
    out: Path = directory("budget")


def choose_datasets(ids: Sequence[int] | None) -> list[Dataset]:
    if ids is not None:
        return [load(did) for did in ids]
    sets = [load(did) for did in tqdm(available(), desc="reading", unit="set")] or builtin()
    return [d for d in sets if ROWS[0] <= d.rows <= ROWS[1] and d.features <= 1000]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "budget", __doc__, arguments)
    datasets = choose_datasets(options.datasets)
    parallel = Parallel(n_jobs=options.jobs, return_as="generator_unordered")
    tasks = [delayed(run)(d, p, b) for d in datasets for p in range(options.permutations) for b in (0, *BUDGETS)]
    losses = pd.DataFrame(tqdm(parallel(tasks), total=len(tasks), unit="run", desc="losses"))
    large_sets = [load(did) for did in LARGE if did in available() and options.datasets is None]
    large = pd.DataFrame([run(d, 0, BUDGETS[1]) for d in large_sets])
    tasks = [delayed(distances_of)(d) for d in datasets if d.rows > 600]
    ways = pd.DataFrame([row for rows in tqdm(parallel(tasks), total=len(tasks), desc="ways") for row in rows])
    tasks = [delayed(distances_with)(actions, seed) for actions in ACTIONS for seed in range(SEEDS)]
    by_actions = pd.DataFrame([row for rows in tqdm(parallel(tasks), total=len(tasks), desc="actions") for row in rows])
    text = report(losses, large, ways, by_actions, where(), options.permutations)
    write("budget", losses.sort_values(["dataset", "permutation", "budget"]), text, options.out)


if __name__ == "__main__":
    main()
