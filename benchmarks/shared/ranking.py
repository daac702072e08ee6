"""Statistics for several algorithms on several data sets, after Demsar (JMLR 2006).

Everything starts from a table of losses: a row for each data set, a column for each algorithm, no gaps.
"""

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import friedmanchisquare, wilcoxon

LEVEL = 0.05


def mean_ranks(losses: pd.DataFrame) -> pd.Series:
    """Average rank over the data sets, 1 the lowest loss; algorithms that tie share the mean of their ranks."""
    return losses.rank(axis=1).mean()


def friedman(losses: pd.DataFrame) -> float:
    """The p-value of the hypothesis that all algorithms are alike; nan for fewer than 3 algorithms."""
    return float(friedmanchisquare(*losses.to_numpy().T).pvalue) if losses.shape[1] >= 3 else float("nan")


def pairs(losses: pd.DataFrame) -> pd.DataFrame:
    """For every two algorithms: on how many sets the first is better, equal and worse, and the p-value of Wilcoxon's
    signed-rank test over the sets, raw and after Holm's correction for the number of pairs."""
    rows = []
    for first, second in combinations(losses, 2):
        d = losses[first] - losses[second]
        p = wilcoxon(d).pvalue if d.any() else 1.0  # the test is not defined when all differences are 0
        rows.append((first, second, (d < 0).sum(), (d == 0).sum(), (d > 0).sum(), p))
    table = pd.DataFrame(rows, columns=["first", "second", "better", "equal", "worse", "p"])
    return table.assign(p_holm=holm(table["p"].to_numpy(float)))


def p_values(losses: pd.DataFrame) -> pd.DataFrame:
    """The corrected p-values of `pairs` as a symmetric matrix."""
    matrix = pd.DataFrame(1.0, index=losses.columns, columns=losses.columns)
    for first, second, p in pairs(losses)[["first", "second", "p_holm"]].itertuples(index=False):
        matrix.loc[first, second] = matrix.loc[second, first] = p
    return matrix


def holm(p_values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Holm's step-down correction: the i-th smallest of m p-values times m - i + 1, never decreasing, at most 1."""
    order = np.argsort(p_values)
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected
