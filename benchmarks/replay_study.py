"""Whether `opo_cmab.compare` is right: its estimates and intervals from logs of known problems, against the true costs
of real runs.

Results: OUT/compare.md and OUT/compare.csv. Finished logs are kept in OUT/logs.jsonl and real runs in OUT/truth-*:
the same command resumes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
import opo_cmab
import pandas as pd
from numpy.typing import NDArray
from opo_cmab.compare import EXPLORERS
from opo_cmab.compare.rows import Key, Row, Rows
from scipy.stats import spearmanr
from tqdm import tqdm
from vowpalwabbit import Workspace

from benchmarks.shared.program import count, directory, option, parse, where, write
from benchmarks.shared.tables import markdown_of

Context = tuple[str, NDArray[np.float64]]  # what VW sees of it, and the expected cost of each action


@dataclass(frozen=True)
class Problem:
    """A bandit whose expected costs are known."""

    draw: Callable[[np.random.Generator], Context]
    actions: int
    unit: float = 1.0  #: a cost is 0 or this, with the expected cost as its mean
    noise: float | None = None  #: if given, costs are expected ones with normal noise in place of 0 or 1

    def cost(self, expected: float, rng: np.random.Generator) -> float:
        if self.noise is not None:
            return round(float(np.clip(expected + self.noise * rng.normal(), 0, 1)), 4)
        return self.unit * (rng.random() < expected / self.unit)

    def lines(self, shared: str) -> list[str]:
        return [f"shared |u {shared}", *(f"|a a{a}" for a in range(self.actions))]


def one_hot(means: NDArray[np.float64]) -> Callable[[np.random.Generator], Context]:
    def draw(rng: np.random.Generator) -> Context:
        user = int(rng.integers(len(means)))
        return f"user{user}", means[user]

    return draw


def dense(weights: NDArray[np.float64]) -> Callable[[np.random.Generator], Context]:
    def draw(rng: np.random.Generator) -> Context:
        x = rng.uniform(size=weights.shape[1:])
        return " ".join(f"x{i}:{v:.4f}" for i, v in enumerate(x)), 0.5 + weights @ (x - 0.5)

    return draw


_RNG = np.random.default_rng(15)
PROBLEMS: Mapping[str, Problem] = MappingProxyType(
    {
        "noisy clicks": Problem(one_hot(_RNG.uniform(0.1, 0.9, (5, 3))), 3),
        "rare clicks": Problem(one_hot(-0.02 - 0.13 * np.eye(4)), 4, unit=-1.0),
        "linear": Problem(dense(_RNG.uniform(-0.5, 0.5, (4, 6))), 4, noise=0.1),
        "many actions": Problem(one_hot(_RNG.uniform(0.1, 0.9, (2, 10))), 10),
    }
)


@dataclass(frozen=True)
class Logging:
    """How logs are made, and the question asked of them."""

    flags: str | None = None  #: of the logging policy; none: uniform
    lines: int = 20_000
    rounds: int | None = None  #: asked for; none: what the log has


# A budget, so that a log is made in seconds. What logs need not be exact, only its probabilities.
LOGGING: Mapping[str, Logging] = MappingProxyType(
    {
        "uniform": Logging(rounds=500),
        "uniform, 2,000 lines": Logging(lines=2000),
        "epsilon-greedy 0.1": Logging("--epsilon 0.1"),
        "OPO-CMAB 0.05": Logging("--opo_cmab --opo_budget 64 --epsilon 0.05"),
    }
)
FEATURES = "-q ua"
DIFFER = 0.02  # explorers differ on a problem if their true costs are this far apart, in widths of the cost range
LOG_SEED = 1_000_000


@dataclass(frozen=True)
class Options:
    logs: int = count(25, "of each problem and policy")
    logging: Sequence[str] = option(tuple(LOGGING), "(default: all)", choices=LOGGING, metavar="POLICY")
    passes: int = count(12)
    truth_runs: int = count(200, "real runs of an explorer")
    out: Path = directory("compare")


def draw_action(p: NDArray[np.float64], rng: np.random.Generator) -> int:
    return min(int(np.searchsorted(np.cumsum(p), rng.random())), len(p) - 1)


def play(problem: Problem, flags: str | None, rounds: int, seed: int, log: Path | None = None) -> NDArray[np.float64]:
    """Runs an explorer (none: the uniform policy); the cost of each round. Writes what it did as a log."""
    rng = np.random.default_rng([seed, 7])
    arguments = f"--cb_explore_adf {flags} {FEATURES} --random_seed {seed + 1} --quiet"
    workspace: Any = None if flags is None else Workspace(arguments)
    costs = np.empty(rounds)
    written = []
    p = np.full(problem.actions, 1 / problem.actions)
    for t in range(rounds):
        shared, expected = problem.draw(rng)
        lines = problem.lines(shared)
        if workspace is not None:
            examples = workspace._parse("\n".join(lines))  # as opo_cmab.compare: pyvw's own parse takes longer
            workspace.predict_multi(examples)
            p = np.array(examples[0].get_action_scores())
            p /= p.sum()  # RegCB gives each of several actions that are equally good a 1
        action = draw_action(p, rng)
        costs[t] = problem.cost(expected[action], rng)
        label = f"{action}:{costs[t]:g}:{min(p[action], 1):.6g}"
        if workspace is not None:
            examples[1 + action].set_label_string(workspace, label, 0)
            workspace.learn_multi(examples)
            workspace._finish_example_multi_ex(examples)
        if log is not None:
            lines[1 + action] = f"{label} {lines[1 + action]}"
            written.append("\n".join(lines) + "\n\n")
    if log is not None:
        log.write_text("".join(written))
    return costs


def flags_of(name: str, problem: Problem) -> str:
    low, high = ("-1", "0") if problem.unit < 0 else ("0", "1")
    return EXPLORERS[name].replace("{min}", low).replace("{max}", high)


@cache
def truth(problem: str, explorer: str, rounds: int, runs: int, out: Path) -> NDArray[np.float64]:
    """The mean cost over the first 1, 2, ... rounds of real runs, a row for each. Kept in OUT."""
    file = out / f"truth-{problem}-{explorer}-{rounds}-{runs}.npy".replace(" ", "-")
    if not file.exists():
        of = PROBLEMS[problem]
        played = [play(of, flags_of(explorer, of), rounds, seed) for seed in range(runs)]
        np.save(file, np.cumsum(played, axis=1) / np.arange(1, rounds + 1))
    result: NDArray[np.float64] = np.load(file)
    return result


def one_log(problem: str, policy: str, number: int, options: Options) -> list[Row]:
    """A row for each explorer: the result of a comparison on a log, as a user gets it."""
    start = time.perf_counter()
    of, how = PROBLEMS[problem], LOGGING[policy]
    with TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        play(of, how.flags, how.lines, LOG_SEED + number, log)
        explorers = {name: flags_of(name, of) for name in EXPLORERS}
        found = opo_cmab.compare_explorers(
            log, explorers, vw=FEATURES, passes=options.passes, rounds=how.rounds, seed=number
        )
    seconds = time.perf_counter() - start
    rows = []
    differences = {d.first: d.cost for d in found.differences}
    for e in found.explorers:
        assert e.cost is not None
        row = {"problem": problem, "policy": policy, "log": number, "explorer": e.name, "rounds": found.rounds}
        row |= {"estimate": e.cost.mean, "low": e.cost.low, "high": e.cost.high, "seconds": seconds}
        if e.name in differences:
            d = differences[e.name]
            row |= {"difference": d.mean, "difference_low": d.low, "difference_high": d.high}
        rows.append(row)
    return rows


def key(row: Row) -> Key:
    return row["problem"], row["policy"], row["log"], row["explorer"]


def run_logs(options: Options) -> pd.DataFrame:
    options.out.mkdir(parents=True, exist_ok=True)
    rows = Rows(options.out / "logs.jsonl", key)
    last = list(EXPLORERS)[-1]  # a log whose rows a kill has cut short is made again
    wanted = [(problem, policy, n) for n in range(options.logs) for policy in options.logging for problem in PROBLEMS]
    missing = [order for order in wanted if (*order, last) not in rows]
    for problem, policy, number in tqdm(missing, unit="log", mininterval=10):
        for row in one_log(problem, policy, number, options):
            rows.add(row)
    return pd.DataFrame(rows.values())


def beside_truth(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """With the true cost of each explorer over as many rounds, and that of the first explorer."""
    most = int(rows["rounds"].max())

    def true_cost(problem: str, explorer: str, rounds: int) -> tuple[float, float]:
        costs = truth(problem, explorer, most, options.truth_runs, options.out)[:, rounds - 1]
        return float(costs.mean()), float(costs.std(ddof=1) / np.sqrt(len(costs)))

    keys = list(rows[["problem", "explorer", "rounds"]].itertuples(index=False, name=None))
    found = [true_cost(*key) for key in tqdm(keys, desc="truth", mininterval=10)]
    reference = next(iter(EXPLORERS))
    true_reference = [true_cost(problem, reference, rounds)[0] for problem, _, rounds in keys]
    return rows.assign(truth=[t for t, _ in found], truth_se=[se for _, se in found], true_reference=true_reference)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """By policy and problem: how often intervals hold the truth, and whether the order is right."""
    rows = rows.assign(
        held=(rows["low"] <= rows["truth"]) & (rows["truth"] <= rows["high"]),
        error=rows["estimate"] - rows["truth"],
        half_width=(rows["high"] - rows["low"]) / 2,
        true_difference=rows["truth"] - rows["true_reference"],
    )
    result = []
    for (policy, problem), group in rows.groupby(["policy", "problem"], sort=False):
        logs = [log for _, log in group.groupby("log")]
        pairs = group.dropna(subset="difference")
        low, high, true = pairs["difference_low"], pairs["difference_high"], pairs["true_difference"]
        by_log = ((low <= true) & (true <= high)).groupby(pairs["log"]).all()
        told = (low > 0) | (high < 0)
        result.append(
            {
                "policy": policy,
                "problem": problem,
                "logs": len(logs),
                "rounds": int(group["rounds"].median()),
                "spread": float(np.mean([log["truth"].max() - log["truth"].min() for log in logs])),
                "held": float(group["held"].mean()),
                "pairs_held": float(by_log.mean()),
                "told": float(told.mean()),
                "told_wrong": int((told & (np.sign(pairs["difference"]) != np.sign(true))).sum()),
                "bias": float(group["error"].mean()),
                "error": float(np.sqrt((group["error"] ** 2).mean())),
                "half_width": float(group["half_width"].mean()),
                "rank": float(np.mean([spearmanr(log["estimate"], log["truth"]).statistic for log in logs])),
                "seconds": float(group["seconds"].median()),
            }
        )
    return pd.DataFrame(result)


def report(found: pd.DataFrame, options: Options, place: Row) -> str:
    differ = found[found["spread"] >= DIFFER]
    by_policy = found.groupby("policy", sort=False)
    text = [
        "# Whether the comparison on logs is right",
        "",
        "Logs from problems whose costs are known, by several policies; 20,000 rounds, or fewer where it says so. "
        f"`opo_cmab.compare_explorers` compares {len(EXPLORERS)} explorers on each, in {options.passes} passes. "
        f"The truth is the mean cost over as many rounds in {options.truth_runs} real runs. From long uniform logs "
        f"the first {LOGGING['uniform'].rounds} rounds are asked for, from the others what they have: short uniform "
        "logs are used to the full, so that passes have most in common.",
        "",
        *[
            f"- {policy}: the 95 % interval holds the truth in {np.average(part['held'], weights=part['logs']):.1%} of "
            f"{part['logs'].sum()} logs x {len(EXPLORERS)} explorers; all differences from {next(iter(EXPLORERS))} "
            f"together in {np.average(part['pairs_held'], weights=part['logs']):.1%} of logs. Differences told with "
            f"the wrong sign: {part['told_wrong'].sum()}."
            for policy, part in by_policy
        ],
        f"- Rank correlation (Spearman) of the estimates with the truth where explorers differ (true costs at least "
        f"{DIFFER} apart; {len(differ)} of {len(found)} lines below): {differ['rank'].mean():.2f} on average.",
        "",
        f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}. "
        "`python -m benchmarks.replay_study`.",
        "",
        *markdown_of(
            found.to_dict("records"),
            {
                "policy": "{policy}",
                "problem": "{problem}",
                "logs": "{logs}",
                "rounds": "{rounds}",
                "spread of true costs": "{spread:.3f}",
                "interval holds truth": "{held:.0%}",
                "all differences hold": "{pairs_held:.0%}",
                "differences told": "{told:.0%}",
                "bias": "{bias:+.4f}",
                "error (rms)": "{error:.4f}",
                "half width": "{half_width:.4f}",
                "rank correlation": "{rank:.2f}",
                "s": "{seconds:.1f}",
            },
        ),
        "",
        "Spread: between the best and the worst explorer. Told: the interval of a difference excludes 0. s: seconds to "
        "make a log and compare, on a machine with other work.",
    ]
    return "\n".join(text) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "replay_study", __doc__, arguments)
    rows = beside_truth(run_logs(options), options)
    write("compare", rows.round(5), report(summary(rows), options, where()), options.out)


if __name__ == "__main__":
    main()
