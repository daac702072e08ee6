"""Beyond linear models: OPO-CMAB with boosted trees as its oracle, on losses that no linear model can represent.

The losses are realizable by trees: which action is best depends on the band that one of the features lies in, and each
action has two bands that are not neighbours. Regret is the sum of <pi_t, l(c_t, .)> - min_a l(c_t, a).

Results: OUT/nonlinear.md, OUT/nonlinear.csv and OUT/nonlinear.svg.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from opo_cmab.compare.rows import Row
from sklearn.ensemble import GradientBoostingRegressor

from benchmarks.shared.bandit import Array, Bandit, OPOLearnerBandit, Problem, VWBandit, play
from benchmarks.shared.plots import svg
from benchmarks.shared.program import count, directory, parse, processes, where, write
from benchmarks.shared.tables import markdown

BEST_OF_BAND = np.array([0, 2, 1, 3, 2, 0, 3, 1])
ACTIONS, FEATURES = 4, 3
BEST_LOSS, OTHER_LOSS = 0.1, 0.9
TREES = "OPOLearner, boosted trees"

Make = Callable[[Problem, int], Bandit]


def draw(rounds: int, seed: int) -> Problem:
    """Losses of 0 or 1. Each action has the features in a namespace of its own: a linear model for each action."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(rounds, FEATURES))
    best = BEST_OF_BAND[(x[:, 0] * len(BEST_OF_BAND)).astype(int)]
    expected = np.where(best[:, None] == np.arange(ACTIONS), BEST_LOSS, OTHER_LOSS)
    observed = (rng.uniform(size=expected.shape) < expected).astype(float)
    features = [" ".join(f"x{i}:{v:.6f}" for i, v in enumerate(row)) for row in x]
    lines = [[f"|{'abcd'[action]} constant {text}" for action in range(ACTIONS)] for text in features]
    return Problem(x, lines, list(expected), list(observed))


def vw(flags: str) -> Make:
    return partial(VWBandit, f"--cb_explore_adf {flags}")


def opo(**settings: Any) -> Make:
    return partial(OPOLearnerBandit, **settings)


BOOSTED_TREES = GradientBoostingRegressor(n_estimators=40, min_samples_leaf=3, random_state=0)
BANDITS: dict[str, Make] = {
    TREES: opo(oracle=BOOSTED_TREES, budget=16),
    f"{TREES}, budget 8": opo(oracle=BOOSTED_TREES, budget=8),  # two for each action: too few
    "OPOLearner, ridge": opo(),
    "VW --opo_cmab": vw("--opo_cmab"),
    "VW --opo_cmab, quadratic": vw("--opo_cmab " + " ".join(f"-q {n}{n}" for n in "abcd")),
    "VW --squarecb": vw("--squarecb"),
}


def cumulative_regret(name: str, rounds: int, seed: int) -> Array:
    """After each round."""
    problem = draw(rounds, seed)
    probabilities, _ = play(problem, BANDITS[name](problem, seed), seed)
    return problem.regret(probabilities).cumsum()


def report(results: pd.DataFrame, place: Row) -> str:
    last = results[results["round"] == results["round"].max()].groupby("bandit", sort=False)["regret"]
    rounds = results["round"].max()
    text = [
        "# Beyond linear models",
        "",
        f"Regret after {rounds:,} rounds, {results['seed'].nunique()} seeds; always playing at random has "
        f"{rounds * (OTHER_LOSS - BEST_LOSS) * (1 - 1 / ACTIONS):.0f}. {place['machine']}, {place['date']}, "
        f"`python -m benchmarks.nonlinear`. {place['versions']}.",
        "",
        *markdown(
            ["", "mean", "lowest", "highest"],
            [[str(name), *(f"{v:.0f}" for v in (r.mean(), r.min(), r.max()))] for name, r in last],
        ),
    ]
    return "\n".join(text) + "\n"


def plot(results: pd.DataFrame) -> str:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, rows in results.groupby("bandit", sort=False):
        regret = rows.groupby("round")["regret"].agg(["mean", "min", "max"])
        axes.plot(regret.index, regret["mean"], label=name)
        axes.fill_between(regret.index, regret["min"], regret["max"], alpha=0.15)
    axes.set_xlabel("rounds")
    axes.set_ylabel("regret")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return svg(figure, "nonlinear")


@dataclass(frozen=True)
class Options:
    rounds: int = count(1000)
    seeds: int = count(2, "runs of each bandit")
    jobs: int = processes()
    out: Path = directory("nonlinear")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "nonlinear", __doc__, arguments)

    runs = [(name, seed) for name in BANDITS for seed in range(options.seeds)]
    regrets = Parallel(n_jobs=options.jobs)(delayed(cumulative_regret)(name, options.rounds, s) for name, s in runs)
    kept = np.unique(np.linspace(1, options.rounds, min(options.rounds, 100)).astype(int))
    results = pd.DataFrame(
        [
            {"bandit": name, "seed": seed, "round": k, "regret": regret[k - 1]}
            for (name, seed), regret in zip(runs, regrets, strict=True)
            for k in kept
        ]
    )
    write("nonlinear", results.round(3), report(results, where()), options.out)
    (options.out / "nonlinear.svg").write_text(plot(results))


if __name__ == "__main__":
    main()
