"""VW's learners on plain regression: mean progressive squared error in one pass, as a share of the label's variance.

Twenty problems, dense, one-hot and of texts, with features and labels in their own units (regression_sets.py), and a
few of OpenML's that its cache has. All learners are at their defaults. Beside them, where there are at most 700
features, exact ridge regression: penalty 1 with features divided by their largest absolute value so far, labels
relative to the first one, solved in each round.

Results: OUT/regression.md and OUT/regression.csv.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from opo_cmab.compare.rows import Row
from threadpoolctl import threadpool_limits

from benchmarks.regression_sets import PROBLEMS, Regression, problems
from benchmarks.shared.bandit import Array
from benchmarks.shared.program import count, directory, option, parse, processes, where, write
from benchmarks.shared.tables import markdown
from benchmarks.shared.vw import run_vw

OURS, GD, RIDGE = "least squares", "gd", "exact ridge"
LEARNERS = {OURS: "--least_squares", GD: "", "ftrl": "--ftrl", "coin": "--coin"}
BLOCK = 32  # weights that fit one block


def by_vw(problem: Regression, flags: str) -> Array:
    """Predictions before each label is learnt."""
    with TemporaryDirectory() as directory:
        data, predictions = Path(directory) / "data", Path(directory) / "predictions"
        data.write_text("".join(f"{y:.9g} {line}\n" for y, line in zip(problem.y, problem.lines, strict=True)))
        run_vw(f"-d {data} -p {predictions} {flags}")
        return np.array([float(line.split()[0]) for line in predictions.read_text().splitlines()])


def by_ridge(x: Array, y: Array, penalty: float = 1.0) -> Array:
    """The same of ridge regression, recursively; unknown features have the prior alone."""
    weights, covariance, scale = np.zeros(x.shape[1]), np.eye(x.shape[1]) / penalty, np.zeros(x.shape[1])
    predictions = np.empty(len(y))

    def learn(z: Array, label: float, weight: float = 1) -> None:
        nonlocal weights, covariance
        gain = covariance @ z
        variance = float(gain @ z)
        weights = weights + gain * (weight * (label - weights @ z) / (1 + weight * variance))
        covariance -= np.outer(gain, gain * (weight / (1 + weight * variance)))

    for t, row in enumerate(x):
        known = scale > 0
        predictions[t] = y[0] * (t > 0) + weights[known] @ (row[known] / scale[known])
        for i in np.flatnonzero(np.abs(row) > scale):
            if known[i]:  # the same regression in the new unit, with the penalty of that
                growth = abs(row[i]) / scale[i]
                weights[i] *= growth
                covariance[i] *= growth
                covariance[:, i] *= growth
                learn(np.eye(len(row))[i], 0.0, penalty * (1 - growth**-2))
            scale[i] = abs(row[i])
        learn(np.divide(row, scale, out=np.zeros_like(row), where=scale > 0), y[t] - y[0])
    return predictions


def errors(name: str, seed: int, learners: Sequence[str]) -> list[Row]:
    """Of each learner on a problem."""
    problem = dict(problems())[name](np.random.default_rng([zlib.crc32(name.encode()), seed]))
    columns = 0 if problem.x is None else problem.x.shape[1]
    predicted = {learner: by_vw(problem, LEARNERS[learner]) for learner in learners}
    if problem.x is not None:
        with threadpool_limits(1):
            predicted[RIDGE] = by_ridge(problem.x, problem.y)
    what = {"problem": name, "seed": seed, "rows": len(problem.y), "features": columns}
    return [
        what | {"learner": learner, "error": float(np.mean((p - problem.y) ** 2) / problem.y.var())}
        for learner, p in predicted.items()
    ]


def verdict(means: pd.DataFrame, features: pd.Series) -> list[str]:
    """How often least squares is as good as it should be."""
    if OURS not in means or GD not in means:
        return []
    good = means[OURS] <= means[GD]
    ours = [name in PROBLEMS for name in means.index]
    text = f"At most gd's on {good[ours].sum()} of {sum(ours)}"
    if not all(ours):
        text += f", and on {good.sum() - good[ours].sum()} of {len(ours) - sum(ours)} of OpenML"
    fits = features.reindex(means.index).between(1, BLOCK)
    near = means[OURS] <= 1.05 * means[RIDGE]
    return [f"{text}; within 5 % of exact ridge on {near[fits].sum()} of {fits.sum()} whose weights fit one block.", ""]


def table(results: pd.DataFrame) -> list[str]:
    """The mean error of each learner on each problem; the lowest of VW's is bold."""
    means = results.pivot_table("error", "problem", "learner", sort=False)
    sizes = results.groupby("problem", sort=False)[["rows", "features"]].max()
    rows = []
    for name, row in means.iterrows():
        cells = row.map("{:.3f}".format, na_action="ignore").fillna("")
        best = row.drop(RIDGE, errors="ignore").idxmin()
        cells[best] = f"**{cells[best]}**"
        size = sizes.loc[name]
        rows.append([str(name), f"{size['rows']:,}", str(size["features"] or "many"), *cells])
    return markdown(["problem", "rows", "weights", *map(str, means)], rows, left=1)


def report(results: pd.DataFrame, place: Row) -> str:
    means = results.pivot_table("error", "problem", "learner", sort=False)
    features = results.groupby("problem", sort=False)["features"].max()
    text = [
        "# Regression",
        "",
        f"Mean progressive squared error in one pass, as a share of the label's variance; {results['seed'].nunique()} "
        f"seeds. In bold the lowest of VW's. {place['machine']}, {place['date']}, `python -m benchmarks.regression`. "
        f"{place['versions']}.",
        "",
        *verdict(means, features),
        *table(results),
        "",
        *markdown(["learner", "flags"], [[n, f"`{LEARNERS[n]}`"] for n in means if LEARNERS.get(n)], left=2),
    ]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Options:
    learners: Sequence[str] = option(tuple(LEARNERS), "only these (default: all)", choices=LEARNERS, metavar="NAME")
    problems: Sequence[str] = option(
        tuple(PROBLEMS), "only these (default: all, with OpenML's)", choices=PROBLEMS, metavar="NAME"
    )
    seeds: int = count(3, "orders of the rows, and draws")
    jobs: int = processes()
    out: Path = directory("regression")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "regression", __doc__, arguments)
    names = [name for name, _ in problems()] if options.problems == tuple(PROBLEMS) else options.problems
    tasks = [(name, seed, options.learners) for name in names for seed in range(options.seeds)]
    found = Parallel(n_jobs=options.jobs)(delayed(errors)(*task) for task in tasks)
    results = pd.DataFrame([row for rows in found for row in rows])
    write("regression", results.round(6), report(results, where()), options.out)


if __name__ == "__main__":
    main()
