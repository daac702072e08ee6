"""How fast --opo_cmab is and how much memory it takes, compared with SquareCB and with a naive implementation.

Times depend on the machine and its load. So the algorithms run in turn, several times; the lowest figure of each
counts. Look at the ratios. VW reads its input in a thread of its own: on one core the time for reading counts, on two
it is hidden behind the learning. So both are measured.

Results: OUT/speed.md, OUT/speed.csv and OUT/growth.svg.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from opo_cmab.compare.rows import Row
from opo_cmab.reference import policies

from benchmarks.shared.plots import svg
from benchmarks.shared.program import count, directory, option, parse, where, write
from benchmarks.shared.tables import markdown_of
from benchmarks.shared.vw import Usage, probabilities, run_vw

BASELINE = "SquareCB"
OURS = "OPO-CMAB"
EXACT = "OPO-CMAB, exact"
ALGORITHMS = {
    BASELINE: "--squarecb",
    EXACT: "--opo_cmab --opo_budget 0",
    "OPO-CMAB, Algorithm 1": "--opo_cmab --opo_paper",
    "OPO-CMAB, exact, logistic loss": "--opo_cmab --opo_budget 0 --loss_function logistic",
}
WITH_BUDGET = {BASELINE: "--squarecb", OURS: "--opo_cmab"}


class Case(NamedTuple):
    """Rounds of dense features, as a bandit by --cbify; or of words, with the number of an action beside them."""

    rounds: int
    actions: int
    features: int
    words: int = 0  # that there are


# The goal: at most this many times the time of SquareCB.
CASES = {Case(rounds=10_000, actions=10, features=20): 25.0}
BOUNDED_CASES = {
    Case(rounds=1_000_000, actions=5, features=10): 3.0,
    Case(rounds=100_000, actions=50, features=10): 5.0,
    Case(rounds=220, actions=2, features=22_283): 2.2,
    Case(rounds=50_000, actions=4, features=55, words=200_000): 4.5,
}
NAIVE_ROUNDS = [200, 400]
CURVE = (1000, 2000, 4000, 8000, 16_000)


def side_by_side(runs: Mapping[str, Callable[[], Usage]], repeats: int) -> dict[str, Usage]:
    """Runs all in turn, several times. Returns the lowest of each figure, the one least disturbed by other work."""
    usages: dict[str, list[Usage]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            usages[name].append(run())
    return {name: Usage(*map(min, zip(*u, strict=True))) for name, u in usages.items()}


@contextmanager
def one_core() -> Iterator[None]:
    """Processes that are started here run on one core, where the system can do that (Linux)."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def write_multiclass(path: Path, case: Case, seed: int = 0) -> Path:
    """Dense features in [0, 1) with 3 decimals; the label is the class of the highest linear score, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(case.rounds, case.features)).round(3)
    scores = (x - 0.5) @ rng.normal(size=(case.features, case.actions)) / np.sqrt(case.features / 12)
    labels = np.argmax(scores + rng.normal(size=scores.shape) / 2, axis=1) + 1
    with path.open("w") as file:
        for label, row in zip(labels, x, strict=True):
            file.write(f"{label} | " + " ".join(f"f{i}:{v:.3f}" for i, v in enumerate(row)) + "\n")
    return path


def write_words(path: Path, case: Case, seed: int = 0) -> Path:
    """Logged rounds. A context has about this many words, drawn by Zipf's law; the costs of actions depend on them."""
    rng = np.random.default_rng(seed)
    frequencies = np.cumsum(1 / np.arange(1, case.words + 1))
    hidden = rng.normal(size=(case.words, case.actions))
    with path.open("w") as file:
        for chosen in rng.integers(case.actions, size=case.rounds):
            drawn = rng.uniform(0, frequencies[-1], size=int(1.15 * case.features))  # some twice
            words = np.unique(np.searchsorted(frequencies, drawn))
            cost = int(hidden[words].sum(axis=0).argmax() != chosen)
            file.write("shared |s " + " ".join(f"w{i}" for i in words) + "\n")
            for a in range(case.actions):
                file.write((f"{a}:{cost}:{1 / case.actions} " if a == chosen else "") + f"|a a{a}\n")
            file.write("\n")
    return path


def beside_squarecb(case: Case, algorithms: dict[str, str], repeats: int, directory: Path) -> list[Row]:
    """A row for each algorithm, SquareCB first."""
    if case.words:
        problem = f"-d {write_words(directory / 'words.txt', case)} -q sa"
    else:
        problem = f"-d {write_multiclass(directory / 'multiclass.txt', case)} --cbify {case.actions}"
    runs = {name: partial(run_vw, f"{problem} --cb_explore_adf {flags}") for name, flags in algorithms.items()}
    with one_core():
        usages = side_by_side(runs, repeats)
    on_all_cores = side_by_side(runs, repeats)
    return [
        {
            **case._asdict(),
            "algorithm": name,
            "flags": algorithms[name],
            **usage._asdict(),
            "times_baseline": usage.seconds / usages[BASELINE].seconds,
            "times_on_all_cores": on_all_cores[name].seconds / on_all_cores[BASELINE].seconds,
        }
        for name, usage in usages.items()
    ]


class Stream(NamedTuple):
    """Logged bandit rounds."""

    x: NDArray[np.float64]  # rounds x actions x features
    chosen: NDArray[np.int64]
    costs: NDArray[np.float64]


def logged_stream(rounds: int, actions: int = 3, features: int = 20, seed: int = 0) -> Stream:
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(rounds, actions, features)).round(3)
    chosen = rng.integers(actions, size=rounds)
    hidden = rng.dirichlet(np.ones(features), size=actions)
    costs = np.einsum("raf,af->ra", x, hidden)[np.arange(rounds), chosen].round(3)
    return Stream(x, chosen, costs)


def write_logged(path: Path, stream: Stream) -> Path:
    with path.open("w") as file:
        for x, chosen, cost in zip(*stream, strict=True):
            for a, row in enumerate(x):
                label = f"{a}:{cost}:1 " if a == chosen else ""
                file.write(label + "| " + " ".join(f"f{a}_{i}:{v:.3f}" for i, v in enumerate(row)) + "\n")
            file.write("\n")
    return path


LEARNING_RATE = 0.1
SETTINGS = {"eta": 100.0, "gamma": 0.1, "decay": 1.0}
# A learner that is a line of NumPy: plain gradient steps, without VW's clipping to the range of the labels so far.
SAME_JOB = (
    "--cb_explore_adf --opo_cmab --opo_budget 0 --cb_cost_unit raw --cb_min_cost 0 --cb_max_cost 1 "
    f"{' '.join(f'--opo_{name} {value}' for name, value in SETTINGS.items())} "
    f"--noconstant --sgd --power_t 0 -l {LEARNING_RATE} --min_prediction -9 --max_prediction 9"
)


def naive(stream: Stream, bits: int = 18) -> tuple[NDArray[np.float64], int]:
    """OPO-CMAB as the published research code does it: it keeps the whole weight vector of every round, and
    predicts with each of them for every later context. Unlike that code, it does not copy the past vectors, 1 MB each,
    back into a learner.

    Returns:
        the probabilities of all rounds, and the size of the kept vectors in bytes
    """
    _, actions, features = stream.x.shape
    weights = np.zeros(2**bits, dtype=np.float32)
    index = np.arange(actions * features).reshape(actions, features)
    past: list[NDArray[np.float32]] = []
    found = []
    for x, chosen, cost in zip(*stream, strict=True):
        predictions = [(w[index] * x).sum(axis=1) for w in past]
        found.append(policies(np.reshape(predictions, (-1, actions)), **SETTINGS)[-1])
        past.append(weights.copy())
        example = index[chosen]
        error = cost - weights[example] @ x[chosen]
        weights[example] += 2 * LEARNING_RATE * error / actions * x[chosen]  # VW's mtr weighs it by 1 / |A|
    return np.array(found), sum(w.nbytes for w in past)


def read_probabilities(path: Path) -> NDArray[np.float64]:
    """vw's predictions of all rounds."""
    return np.array([probabilities(line) for line in path.read_text().splitlines() if line])


def beside_naive(rounds: int, repeats: int, directory: Path) -> Row:
    stream = logged_stream(rounds)
    data = write_logged(directory / "logged.txt", stream)
    metrics, predictions = directory / "metrics.json", directory / "predictions.txt"
    expected, snapshot_bytes = naive(stream)
    run_vw(f"-d {data} {SAME_JOB} -p {predictions} --extra_metrics {metrics}")

    def time_naive() -> Usage:
        start, cpu_start = time.perf_counter(), time.process_time()
        naive(stream)
        return Usage(time.perf_counter() - start, time.process_time() - cpu_start, float("nan"))

    usages = side_by_side({"naive": time_naive, OURS: lambda: run_vw(f"-d {data} {SAME_JOB}")}, repeats)
    history_bytes = json.loads(metrics.read_text())["cb_explore_adf_opo_cmab"]["opo_history_bytes"]
    return {
        "rounds": rounds,
        "actions": stream.x.shape[1],
        "features": stream.x.shape[2],
        "naive_seconds": usages["naive"].seconds,
        "seconds": usages[OURS].seconds,
        "times_faster": usages["naive"].seconds / usages[OURS].seconds,
        "naive_history_mb": snapshot_bytes / 1e6,
        "history_mb": history_bytes / 1e6,
        "times_smaller": snapshot_bytes / history_bytes,
        "largest_difference": np.abs(read_probabilities(predictions) - expected).max(),
    }


def case_table(rows: Sequence[Row]) -> list[str]:
    def shown(row: Row) -> Row:
        about = f"about {row['features']} of {row['words']:,}" if row["words"] else f"{row['features']:,}"
        return {**beside_baseline(row), "shown_features": about, "us": 1e6 * row["seconds"] / row["rounds"]}

    columns = {
        "rounds": "{rounds:,}",
        "actions": "{actions}",
        "features": "{shown_features}",
        "algorithm": "{algorithm}",
        "seconds": "{seconds:.2f}",
        "microseconds a round": "{us:.1f}",
        "peak MB": "{peak_mb:.0f}",
        f"times {BASELINE}": "{times}",
        "on all cores": "{times_on_all}",
        "goal": "{shown_goal}",
    }
    return markdown_of(map(shown, rows), columns)


def beside_baseline(row: Row) -> Row:
    """Nothing to say of the baseline itself."""
    if row["algorithm"] == BASELINE:
        return {**row, "times": "", "times_on_all": "", "shown_goal": ""}
    return {
        **row,
        "times": f"{row['times_baseline']:.1f}",
        "times_on_all": f"{row['times_on_all_cores']:.1f}",
        "shown_goal": f"at most {row.get('goal', 0):g}" if row["algorithm"] in (OURS, EXACT) else "",
    }


def report(cases: Sequence[Row], against_naive: Sequence[Row], growth: Sequence[Row], place: Row, repeats: int) -> str:
    """The results in Markdown."""
    text = [
        "# Speed and memory",
        "",
        f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}. "
        f"What is compared ran in turn; each figure is the lowest of {repeats}. All figures are of one core; only "
        "the ratio *on all cores* is not: there VW reads its input in a thread beside the learning, so the time "
        "for reading, the same for all, drops out. On one core a third to a half of the time of each is VW switching "
        "between these two threads, once a line; the ratio of the learning alone is larger.",
        "",
        "## Beside SquareCB",
        "",
        *case_table([r for r in cases if r["rounds"] in {case.rounds for case in CASES}]),
        "",
        "## With a budget",
        "",
        "At the default budget: what a round takes, in time and memory, does not depend on how many there were.",
        "",
        *case_table([r for r in cases if r["rounds"] in {case.rounds for case in BOUNDED_CASES}]),
        "",
        "## Beside a copy of all weights in every round",
        "",
        "The same logged stream, the same learner (plain gradient steps). Ours is the whole `vw` process, which starts "
        "and reads a file; the naive one, in NumPy, has the data in memory.",
        "",
        *markdown_of(
            against_naive,
            {
                "rounds": "{rounds}",
                "naive: seconds": "{naive_seconds:.2f}",
                "ours: seconds": "{seconds:.3f}",
                "times faster": "{times_faster:.0f}",
                "naive: MB of history": "{naive_history_mb:.0f}",
                "ours: MB of history": "{history_mb:.3f}",
                "times smaller": "{times_smaller:.0f}",
                "largest difference of probabilities": "{largest_difference:.0e}",
            },
        ),
        "",
        "## Growth with the number of rounds",
        "",
        f"{growth[0]['actions']} actions, {growth[0]['features']} features. The work of a round grows with the number "
        "of rounds before it, up to the budget if there is one.",
        "",
        *markdown_of(
            [{**beside_baseline(row), "ms": 1e3 * row["seconds"] / row["rounds"]} for row in growth],
            {
                "rounds": "{rounds:,}",
                "algorithm": "{algorithm}",
                "seconds": "{seconds:.2f}",
                "milliseconds per round": "{ms:.3f}",
                "peak MB": "{peak_mb:.0f}",
                f"times {BASELINE}": "{times}",
            },
        ),
    ]
    return "\n".join(text) + "\n"


def plot_growth(rows: Sequence[Row]) -> str:
    """Seconds, and milliseconds per round, by the number of rounds."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    total, each = figure.subplots(1, 2)
    for name, group in pd.DataFrame(rows).groupby("algorithm", sort=False):
        total.loglog(group["rounds"], group["seconds"], marker="o", label=name)
        each.loglog(group["rounds"], 1e3 * group["seconds"] / group["rounds"], marker="o", label=name)
    total.set_ylabel("seconds")
    each.set_ylabel("milliseconds per round")
    for axes in (total, each):
        axes.set_xlabel("rounds")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    return svg(figure, "growth")


@dataclass(frozen=True)
class Options:
    rounds_curve: Sequence[int] = option(CURVE, "numbers of rounds to measure the growth at", metavar="N")
    repeats: int = count(5, "times that everything is run")
    out: Path = directory("speed")

    def __post_init__(self) -> None:
        if min(self.rounds_curve) < 1:
            raise ValueError("--rounds-curve takes numbers from 1 up")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "speed", __doc__, arguments)
    place = where()
    with TemporaryDirectory() as temporary:
        directory = Path(temporary)
        cases = [
            {**row, "goal": goal}
            for goals, algorithms in ((CASES, ALGORITHMS), (BOUNDED_CASES, WITH_BUDGET))
            for case, goal in goals.items()
            for row in beside_squarecb(case, algorithms, options.repeats, directory)
        ]
        against_naive = [beside_naive(rounds, options.repeats, directory) for rounds in NAIVE_ROUNDS]
        three = {EXACT: ALGORITHMS[EXACT], **WITH_BUDGET}
        growth = [
            row
            for rounds in options.rounds_curve
            for row in beside_squarecb(Case(rounds, actions=10, features=20), three, options.repeats, directory)
        ]
    parts = {"case": cases, "naive": against_naive, "growth": growth}
    results = pd.DataFrame([{"part": part, **row} for part, rows in parts.items() for row in rows]).assign(**place)
    write("speed", results, report(cases, against_naive, growth, place, options.repeats), options.out)
    (options.out / "growth.svg").write_text(plot_growth(growth))


if __name__ == "__main__":
    main()
