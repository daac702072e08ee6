"""The tables of a comparison, from the rows of its runs."""

import math
from collections.abc import Sequence

import pandas as pd
from opo_cmab.compare.rows import Row
from scipy.stats import kendalltau

from benchmarks.comparison.algorithms import ALGORITHMS, AS_IN_THE_PAPER, PARAMS, SUPERVISED, Params, papers_choice
from benchmarks.shared import ranking
from benchmarks.shared.datasets import LeftOut

# What the paper says in words about its three pictures, best first, and about its table of differences. Its names.
PAPERS_ORDER = {
    1084: ("Supervised", "OPO-CMAB", "RegCB", "FastCB", "SquareCB", "AdaCB"),
    1062: ("Supervised", "FastCB", "OPO-CMAB", "AdaCB", "RegCB", "SquareCB"),
    1015: ("AdaCB", "FastCB", "Supervised", "RegCB", "SquareCB", "OPO-CMAB"),
}
PAPERS_WINS = {"AdaCB": 4, "FastCB": 4, "OPO-CMAB": 4, "RegCB": 4, "SquareCB": 2}  # of 18 data sets


def best_settings(tuning: Sequence[Row]) -> dict[tuple[int | str, str], Row]:
    """By data set and algorithm, the run with the lowest loss; on a tie, the first in the order of the grid. If
    all have failed it is the first too, so that it runs again and its error is reported."""

    def loss(row: Row) -> float:
        return math.inf if row["error"] else row["pv_loss"]

    best: dict[tuple[int | str, str], Row] = {}
    for row in tuning:
        at = (row["dataset"], row["algorithm"])
        if at not in best or loss(row) < loss(best[at]):
            best[at] = row
    return best


def in_words(params: Params | None) -> str:
    """A setting, short: squared, lr 0.1, eta 100."""
    if params is None:
        return ""
    values = [f"{name.replace('learning_rate', 'lr')} {params[name]:g}" for name in PARAMS[1:] if name in params]
    return ", ".join([str(params["loss"]), *values])


def best_params(tuning: Sequence[Row]) -> pd.DataFrame:
    """The chosen setting, the number of equally good ones in the tuning, and the paper's choice."""
    frame = pd.DataFrame(tuning)
    rows = []
    for (dataset, algorithm), best in best_settings(tuning).items():
        same = frame[(frame["dataset"] == dataset) & (frame["algorithm"] == algorithm)]
        rows.append(
            {
                "dataset": dataset,
                "algorithm": algorithm,
                **{name: best["params"].get(name) for name in PARAMS},
                "here": in_words(best["params"]),
                "pv_loss": best["pv_loss"],
                "equally_good": (same["pv_loss"] == best["pv_loss"]).sum(),
                "settings": len(same),
                "paper": in_words(papers_choice(dataset, algorithm)),
            }
        )
    return pd.DataFrame(rows)


def complete(test: Sequence[Row]) -> tuple[pd.DataFrame, LeftOut]:
    """The runs to compare, without gaps; and what is left out because of failures: an algorithm that failed everywhere,
    then each data set on which one of the others failed."""
    frame = pd.DataFrame(test)
    failed_everywhere = set(frame["algorithm"]) - set(frame.loc[frame["error"].isna(), "algorithm"])
    left_out: LeftOut = {}
    for _, row in frame[frame["error"].notna()].iterrows():
        everywhere = row["algorithm"] in failed_everywhere
        what = f"{row['algorithm']} (everywhere)" if everywhere else f"data set {row['dataset']} ({row['algorithm']})"
        names = left_out.setdefault(row["error"], [])
        if what not in names:
            names.append(what)
    frame = frame[~frame["algorithm"].isin(failed_everywhere)]
    return frame[~frame["dataset"].isin(frame.loc[frame["error"].notna(), "dataset"])], left_out


def pv_loss(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over the permutations, and the mean's difference from the supervised baseline's."""
    losses = runs.astype({"pv_loss": float}).groupby(["dataset", "algorithm"], sort=False)["pv_loss"]
    table = losses.agg(["mean", "std", "count"]).round(12)  # rounded: the same losses in another order must tie
    table = table.rename(columns={"count": "n"}).reset_index()
    supervised = table[table["algorithm"] == SUPERVISED].set_index("dataset")["mean"]
    difference = table["mean"] - table["dataset"].map(supervised)
    return table.assign(difference_from_supervised=difference.round(12))


def by_dataset(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """A row for each data set, a column for each explorer, in order."""
    wide = table.pivot(index="dataset", columns="algorithm", values=column)
    columns = [name for name in ALGORITHMS if name in wide and name != SUPERVISED]
    return wide.loc[table["dataset"].unique(), columns].rename_axis(columns=None)


def summary(losses: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """The explorers by average rank. Won: the number of data sets on which no explorer has a lower mean loss, alone or
    with others."""
    lowest = losses.eq(losses.min(axis=1), axis=0)
    alone = lowest[lowest.sum(axis=1) == 1]
    table = pd.DataFrame(
        {
            "average_rank": ranking.mean_ranks(losses),
            "mean_pv_loss": losses.mean(),
            "mean_difference_from_supervised": differences.mean(),
            "won": lowest.sum(),
            "won_alone": alone.sum(),
        }
    )
    return table.rename_axis("algorithm").sort_values("average_rank").reset_index()


def words_of_the_paper(pv_loss: pd.DataFrame) -> pd.DataFrame:
    """The order of the algorithms in the paper's words and here, with Kendall's tau between the two."""
    rows = []
    for dataset, order in PAPERS_ORDER.items():
        means = pv_loss[pv_loss["dataset"] == dataset].set_index("algorithm")["mean"]
        names = [AS_IN_THE_PAPER[name] for name in order]
        if not set(names) <= set(means.index):
            continue
        means = means[names].set_axis(order)
        here = means.sort_values(kind="stable")
        rows.append(
            {
                "dataset": dataset,
                "paper": ", ".join(order),
                "here": ", ".join(f"{name} {mean:.3f}" for name, mean in here.items()),
                "kendall_tau": kendalltau(range(len(order)), means).statistic,
            }
        )
    return pd.DataFrame(rows, columns=["dataset", "paper", "here", "kendall_tau"])


def wins_as_the_paper_counts(losses: pd.DataFrame) -> pd.DataFrame:
    """On how many sets each of the paper's explorers has the lowest mean loss among them. The published code gives a
    tie to the first by name."""
    names = [name for name in sorted(PAPERS_WINS) if AS_IN_THE_PAPER[name] in losses]
    if not names:
        return pd.DataFrame()
    among = losses[[AS_IN_THE_PAPER[name] for name in names]].set_axis(names, axis=1)
    lowest = among.eq(among.min(axis=1), axis=0)
    first = among.idxmin(axis=1).value_counts()
    return pd.DataFrame(
        {
            "algorithm": names,
            "paper": [PAPERS_WINS[name] for name in names],
            "ties_to_the_first_by_name": [int(first.get(name, 0)) for name in names],
            "alone_or_tied": [int(lowest[name].sum()) for name in names],
        }
    )
