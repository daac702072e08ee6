"""How the regret of the explorers grows with the number of rounds K, in a simulation in the paper's setting.

Contexts are drawn i.i.d., the expected losses are linear in the features, so that VW's linear learner can represent
them (realizability), and the observed losses are 0 or 1. For OPO-CMAB the paper proves regret O(sqrt(K)), up to
logarithms, with an exact least-squares oracle. Here we use VW's online learner instead, and fit regret ~ K^p.

Results: OUT/regret.md, OUT/regret.csv and OUT/regret.svg.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from opo_cmab.compare.rows import Row
from tqdm import tqdm

from benchmarks.shared.bandit import Array, Problem, VWBandit, play
from benchmarks.shared.plots import svg
from benchmarks.shared.program import count, directory, option, parse, processes, write
from benchmarks.shared.tables import markdown

ACTIONS = 4

# The cost that VW is given is the loss plus this. Weights start at 0.
PROBLEMS = {
    # A cost of 0 is the lowest, so an action looks good until it is tried: every explorer starts optimistic.
    "cost = loss": 0,
    # The cost is the negative reward, as in VW's own examples: 0 is the highest, so an action looks bad until it is
    # tried. The greedy explorer never tries a second one: it is stuck with the first, which is right for one context
    # in |A|.
    "cost = -reward": -1,
}

# Algorithm 1 needs a larger bonus than the paper's gamma of 0.1. With --opo_paper and --ftrl, p was on the two
# problems, on seeds that are not used below:
#   gamma 0.1: 0.41 and 0.81, 0.5: 0.31 and 0.40, 1: 0.41 and 0.34, 3: 0.56 and 0.58
# It hardly depends on eta (1: 0.38 and 0.43 in place of 0.41 and 0.34).
OURS = "OPO-CMAB, Algorithm 1"
EXPLORERS = {
    OURS: "--opo_cmab --opo_paper --opo_gamma 1",
    "OPO-CMAB": "--opo_cmab",
    "UCCB": "--opo_cmab --opo_decay 0 --opo_eta 1000000",
    "SquareCB": "--squarecb",
    "greedy": "--epsilon 0",
    "uniform": "--epsilon 1",
}

# The oracle of the theorem is exact least squares, and no online learner of VW is that. Its error has to fall fast,
# also for an action that is first tried late. In the same way p was, for Algorithm 1 with gamma 1:
#   --ftrl: 0.41 and 0.34, --ftrl --ftrl_alpha 0.2: 0.32 and 0.53, --sgd -l 2: 0.42 and 0.62,
#   -l 0.1: 0.46 and 0.66, VW's default learner: 0.70 and 0.55
LEARNER = "--ftrl"
HORIZONS = (500, 1000, 2000, 4000, 8000, 16_000, 32_000)


def draw(rounds: int, seed: int, shift: float = 0) -> Problem:
    """Losses of 0 or 1, plus the shift.

    The features are uniform on the simplex, one for each action, and an action's loss falls with its feature from 0.75
    to 0.25. On the simplex that is linear without a constant. Each action has the features of the context, in a
    namespace of its own.
    """
    rng = np.random.default_rng(seed)
    x = rng.dirichlet(np.ones(ACTIONS), size=rounds)
    expected = 0.75 - 0.5 * x
    observed = rng.uniform(size=x.shape) < expected
    features = [" ".join(f"x{i}:{v:.6f}" for i, v in enumerate(row)) for row in x]
    lines = [[f"|{chr(ord('a') + action)} {text}" for action in range(ACTIONS)] for text in features]
    return Problem(x, lines, list(expected + shift), list(observed + shift))


def cumulative_regret(explorer: str, learner: str, shift: float, rounds: int, seed: int) -> Array:
    """Pseudo-regret after each round: the sum of <pi_t, l(c_t, .)> - min_a l(c_t, a). No setting depends on the number
    of rounds, so the first K rounds equal a run of K rounds."""
    problem = draw(rounds, seed, shift)
    costs = f"--cb_min_cost {shift} --cb_max_cost {shift + 1}" if "--opo_paper" in explorer else ""  # others learn it
    bandit = VWBandit(f"--cb_explore_adf {explorer} {costs} {learner} --noconstant", problem, seed)
    probabilities, _ = play(problem, bandit, seed)
    return problem.regret(probabilities).cumsum()


def exponent(rounds: ArrayLike, regrets: ArrayLike) -> float:
    """The p of regret ~ rounds^p, by least squares in logarithms."""
    return float(np.polyfit(np.log(rounds), np.log(regrets), 1)[0])


def simulate(learner: str, horizons: Sequence[int], seeds: int, jobs: int) -> pd.DataFrame:
    """A row for each problem, explorer, seed and number of rounds."""

    def run(problem: str, explorer: str, seed: int) -> list[Row]:
        regret = cumulative_regret(EXPLORERS[explorer], learner, PROBLEMS[problem], max(horizons), seed)
        row = {
            "problem": problem,
            "explorer": explorer,
            "flags": f"{EXPLORERS[explorer]} {learner}".strip(),
            "seed": seed,
        }
        return [{**row, "rounds": k, "regret": regret[k - 1]} for k in horizons]

    def tasks() -> Iterator[Any]:
        for problem in PROBLEMS:
            for explorer in EXPLORERS:
                for seed in range(seeds):
                    yield delayed(run)(problem, explorer, seed)

    finished = Parallel(n_jobs=jobs, return_as="generator")(tasks())
    total = len(PROBLEMS) * len(EXPLORERS) * seeds
    return pd.DataFrame([row for rows in tqdm(finished, total=total, unit="run") for row in rows])


def report(results: pd.DataFrame) -> str:
    """Mean regret and exponents in Markdown."""
    horizons = sorted(results["rounds"].unique())
    text = [
        "# Regret",
        "",
        f"Mean pseudo-regret over {results['seed'].nunique()} seeds after K rounds, {ACTIONS} actions. p: the exponent "
        "of regret ~ K^p, fitted to the means; in brackets the lowest and the highest of a seed.",
    ]
    for problem, on_problem in results.groupby("problem", sort=False):
        lines = []
        for explorer, rows in on_problem.groupby("explorer", sort=False):
            means = rows.groupby("rounds")["regret"].mean()
            each = [exponent(r["rounds"], r["regret"]) for _, r in rows.groupby("seed")]
            p = f"{exponent(means.index, means):.2f} ({min(each):.2f} to {max(each):.2f})"
            lines.append([str(explorer), f"`{rows['flags'].iloc[0]}`", *(f"{m:.0f}" for m in means), p])
        columns = ["explorer", "flags", *(f"K = {k:,}" for k in horizons), "p"]
        text += ["", f"## {problem}", "", *markdown(columns, lines, left=2)]
    return "\n".join(text) + "\n"


def plot(results: pd.DataFrame) -> str:
    """Mean regret by the number of rounds, with a band from the lowest to the highest seed."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    all_axes = figure.subplots(1, len(PROBLEMS), sharey=True)
    for axes, (problem, on_problem) in zip(all_axes, results.groupby("problem", sort=False), strict=True):
        for explorer, rows in on_problem.groupby("explorer", sort=False):
            regret = rows.groupby("rounds")["regret"].agg(["mean", "min", "max"])
            line = "--" if explorer == "uniform" else "-"  # where greedy is stuck, the two are the same
            axes.loglog(regret.index, regret["mean"], line, marker="o", label=explorer)
            axes.fill_between(regret.index, regret["min"], regret["max"], alpha=0.15)
        first = on_problem.loc[on_problem["rounds"] == regret.index[0], "regret"].min()
        axes.loglog(regret.index, first * np.sqrt(regret.index / regret.index[0]), "k:", label="sqrt(K)")
        axes.set_title(problem)
        axes.set_xlabel("rounds K")
        axes.set_xticks([], minor=True)
        axes.set_xticks(regret.index, [f"{k:,}" for k in regret.index])
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0].set_ylabel("regret")
    all_axes[0].legend(frameon=False)
    return svg(figure, "regret")


@dataclass(frozen=True)
class Options:
    horizons: Sequence[int] = option(HORIZONS, "numbers of rounds, at least two", metavar="K")
    seeds: int = count(10, "runs of each explorer")
    learner: str = option(LEARNER, "VW's learner, as in --learner='-l 0.1'", metavar="FLAGS")
    jobs: int = processes()
    out: Path = directory("regret")

    def __post_init__(self) -> None:
        if len(set(self.horizons)) < 2 or min(self.horizons) < 1:
            raise ValueError("--horizons takes at least two numbers from 1 up")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "regret", __doc__, arguments)
    results = simulate(options.learner, options.horizons, options.seeds, options.jobs)
    write("regret", results, report(results), options.out)
    (options.out / "regret.svg").write_text(plot(results))


if __name__ == "__main__":
    main()
