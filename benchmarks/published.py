"""What the OPO-CMAB of the paper's published code does, beside Algorithm 1.

VW returns predictions sorted by score. The published explorer reads those of past models by their position in that
list, not by their action, and assigns the probabilities by position in the present model's list. So the lowest
prediction of every past model counts for whatever action looks best now: the past cannot change which action that is,
and after a few rounds the policy is nearly greedy.

Here both are simulated on VW's own cb_adf, with the past models kept as weights in NumPy and the paper's settings and
names of features. "action" is Algorithm 1 with importance weights, as the engine runs it, and shows that the simulation
is right; "position" is the published code. Two traits of it are left out: it does not clip losses at 1, and it looks
predictions up by a hash of the first ten feature values. Results: OUT/published.csv and OUT/published.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import wilcoxon
from tqdm import tqdm

from benchmarks.comparison import tables
from benchmarks.comparison.algorithms import AS_IN_THE_PAPER, FLAGS, MARGINS, Params, papers_choice
from benchmarks.shared.datasets import PAPER, Dataset, choose
from benchmarks.shared.program import count, directory, option, parse, processes, write
from benchmarks.shared.tables import markdown

Reading = Literal["action", "position"]
OPO = AS_IN_THE_PAPER["OPO-CMAB"]


def merged(x: NDArray[np.float64], actions: int) -> list[tuple[str, float]]:
    """The features that are not 0, by names that merge those whose integers cbify merges; and a constant."""
    width = 2 ** actions.bit_length()
    return [("constant", 1.0)] + [(f"f{i // width}", float(x[i])) for i in np.flatnonzero(x)]


class Round(NamedTuple):
    lines: list[str]  # with the label
    policy: NDArray[np.float64]
    cost: int


def rounds(
    dataset: Dataset, order: Iterable[int], params: Params, reading: Reading, seed: Sequence[int]
) -> Iterator[Round]:
    """A bandit on the classes of a data set, as cbify makes it."""
    import opo_cmab  # before vowpalwabbit
    from vowpalwabbit import Workspace

    logistic = params["loss"] == "logistic"
    loss = f"--loss_function logistic {MARGINS}" if logistic else ""
    vw = Workspace(f"--cb_adf {FLAGS['learning_rate']} {params['learning_rate']:g} {loss} --noconstant --quiet")
    rng = np.random.default_rng(seed)
    spaces = [chr(ord("a") + action) for action in range(dataset.actions)]
    history: list[dict[int, float]] = []  # for each round: the weights that it changed
    for row in order:
        features = merged(dataset.X[row], dataset.actions)
        text = " ".join(f"{name}:{value:.9g}" for name, value in features)
        lines = [f"|{space} {text}" for space in spaces]
        indices = [[vw.hash_feature(name, vw.hash_space(space)) % 2**18 for name, _ in features] for space in spaces]
        past = _past(history, indices, np.array([value for _, value in features]))
        if logistic:
            past = 1 / (1 + np.exp(-past))
        present = past[-1]
        if reading == "position":
            past = np.sort(past, axis=1)
        policy = opo_cmab.policy(past[:-1], eta=float(params["eta"]), gamma=float(params["gamma"]))
        if reading == "position":
            by_place, policy = policy, np.empty_like(policy)
            policy[np.argsort(present, kind="stable")] = by_place
        action = rng.choice(dataset.actions, p=policy / policy.sum())
        cost = int(dataset.y[row] != action + 1)
        lines[action] = f"{action}:{cost}:{policy[action]} {lines[action]}"
        vw.learn(lines)
        history.append({index: vw.get_weight(index) for index in indices[action]})
        yield Round(lines, policy, cost)
    vw.finish()


def _past(history: Sequence[dict[int, float]], indices: list[list[int]], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The predictions of the models before each past round and of the present one: a row for each, by action."""
    weights = np.zeros((len(history) + 1, len(indices), len(x)))
    places: dict[int, list[tuple[int, int]]] = {}
    for action, own in enumerate(indices):
        for i, index in enumerate(own):
            places.setdefault(index, []).append((action, i))
    for k, changed in enumerate(history):
        for index in changed.keys() & places.keys():
            for action, i in places[index]:
                weights[k + 1 :, action, i] = changed[index]
    return weights @ x


def compare(others: pd.DataFrame, simulated: pd.DataFrame) -> str:
    """The paper's count of data sets won and its words, with the published OPO-CMAB in place of ours."""
    means = simulated.groupby(["reading", "dataset"], sort=False)["pv_loss"].mean().round(12)
    text = [
        "# The published OPO-CMAB",
        "",
        f"With the paper's settings and its names of features, on {simulated['dataset'].nunique()} of its 18 data sets "
        f"with {simulated['permutation'].nunique()} permutations: `python -m benchmarks.published`. The others by "
        "`python -m benchmarks.reproduce --params paper --feature-names published`.",
        "",
        f"Mean PV loss of the engine's {OPO}: {others.loc[others['algorithm'] == OPO, 'mean'].mean():.4f}. Simulated, "
        f"predictions read by action (the same algorithm): {means['action'].mean():.4f}; read by position (the "
        f"published code): {means['position'].mean():.4f}. The two readings: p = "
        f"{wilcoxon(means['action'], means['position']).pvalue:.2g} (Wilcoxon's signed-rank test over the data sets).",
        "",
        "Data sets on which each explorer is closest to the supervised baseline, a tie going to the first by name:",
        "",
    ]
    counts: dict[str, dict[str, int]] = {"paper, of 18": tables.PAPERS_WINS}
    words = []
    for reading in ("action", "position"):
        table = others.set_index(["dataset", "algorithm"])["mean"].copy()
        for dataset, mean in means[reading].items():
            table[dataset, OPO] = mean
        table = table.reset_index()
        wins = tables.wins_as_the_paper_counts(tables.by_dataset(table, "mean")).set_index("algorithm")
        counts[f"by {reading}"] = wins["ties_to_the_first_by_name"].to_dict()
        for row in tables.words_of_the_paper(table).to_dict("records"):
            words.append([str(row["dataset"]), f"by {reading}", row["here"], f"{row['kendall_tau']:.2f}"])
    won = [[name, *(str(wins[algorithm]) for algorithm in tables.PAPERS_WINS)] for name, wins in counts.items()]
    text += markdown(["", *tables.PAPERS_WINS], won, left=1)
    text += ["", "The order of final PV losses, best first, and Kendall's tau with the paper's words:", ""]
    text += markdown(["data set", OPO, "order", "tau"], words, left=3)
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Options:
    permutations: int = count(10)
    seed: int = option(0, "of the permutations", metavar="N")
    others: Path = option(
        Path("results/paper-published-paper-params/pv_loss.csv"), "the other algorithms' losses", metavar="FILE"
    )
    jobs: int = processes()
    out: Path = directory("published")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "published", __doc__, arguments)

    def run(dataset: Dataset, permutation: int, reading: Reading) -> dict[str, Any]:
        order = np.random.default_rng([options.seed, permutation]).permutation(dataset.rows)
        params = papers_choice(dataset.did, OPO)
        assert params is not None
        played = rounds(dataset, order, params, reading, [options.seed, permutation, 1])
        row = {"dataset": dataset.did, "reading": reading, "permutation": permutation}
        return {**row, "pv_loss": np.mean([r.cost for r in played])}

    datasets, _ = choose(PAPER, max_rows=6000)
    readings: tuple[Reading, ...] = ("action", "position")
    tasks = [delayed(run)(d, p, r) for d in datasets for p in range(options.permutations) for r in readings]
    finished = Parallel(n_jobs=options.jobs, return_as="generator")(tasks)
    simulated = pd.DataFrame(tqdm(finished, total=len(tasks), unit="run"))
    write("published", simulated, compare(pd.read_csv(options.others), simulated), options.out)


if __name__ == "__main__":
    main()
