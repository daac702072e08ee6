"""Statistics and a plot for several algorithms on several data sets, after Demsar (JMLR 2006).

Everything starts from a table of losses: a row for each data set, a column for each algorithm, no gaps.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare, studentized_range, wilcoxon

LEVEL = 0.05


def mean_ranks(losses: pd.DataFrame) -> pd.Series:
    """Average rank over the data sets, 1 the lowest loss; algorithms that tie share the mean of their ranks."""
    return losses.rank(axis=1).mean()


def friedman(losses: pd.DataFrame) -> float:
    """The p-value of the hypothesis that all algorithms are alike; nan for fewer than 3 algorithms."""
    return float(friedmanchisquare(*losses.to_numpy().T).pvalue) if losses.shape[1] >= 3 else float("nan")


def critical_difference(losses: pd.DataFrame) -> float:
    """Nemenyi: two average ranks that are further apart than this differ at level 0.05."""
    n, k = losses.shape
    return float(studentized_range.ppf(1 - LEVEL, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n)))


def against(losses: pd.DataFrame, reference: str) -> pd.DataFrame:
    """For each algorithm: on how many sets it is better than the reference, equal and worse, and Wilcoxon's p-value
    of the difference, raw and after Holm's correction for the number of comparisons."""
    differences = losses.drop(columns=reference).sub(losses[reference], axis=0)
    # Wilcoxon's test is not defined when all differences are 0.
    p_values = np.array([wilcoxon(d).pvalue if d.any() else 1.0 for _, d in differences.items()])
    return pd.DataFrame(
        {
            "better": (differences < 0).sum(),
            "equal": (differences == 0).sum(),
            "worse": (differences > 0).sum(),
            "p": p_values,
            "p_holm": holm(p_values),
        },
        index=differences.columns,
    )


def holm(p_values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Holm's step-down correction: the i-th smallest of m p-values times m - i + 1, never decreasing, at most 1."""
    order = np.argsort(p_values)
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def plot_ranks(losses: pd.DataFrame, path: Path) -> None:
    """A dot for each algorithm's average rank, best on top, and a bar as long as the critical difference."""
    ranks = mean_ranks(losses).sort_values(ascending=False)
    difference = critical_difference(losses)
    figure = Figure(figsize=(7, 1.2 + 0.3 * len(ranks)), layout="constrained")
    axes = figure.subplots()
    axes.hlines(ranks.index, ranks.min(), ranks, color="lightgrey", zorder=1)
    axes.scatter(ranks, ranks.index, color="black", zorder=2)
    bar = len(ranks) - 0.3
    axes.plot([ranks.min(), ranks.min() + difference], [bar, bar], color="tab:red", linewidth=3)
    axes.text(ranks.min(), bar + 0.2, f"critical difference {difference:.2f} (Nemenyi, {LEVEL})", color="tab:red")
    axes.set_ylim(-0.6, len(ranks) + 0.4)
    axes.set_xlabel(f"average rank over {len(losses)} data sets (lower is better)")
    axes.spines[["top", "right"]].set_visible(False)
    with rc_context({"svg.hashsalt": "ranks"}):  # the same numbers give the same file
        figure.savefig(path, metadata={"Date": None})
