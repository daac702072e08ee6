"""The pictures of a comparison: as SVG text, and the curves as numbers that the report draws."""

from collections import Counter

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from scikit_posthocs import critical_difference_diagram

from benchmarks.shared import ranking
from benchmarks.shared.plots import colour, svg

POINTS = 75  # of a curve; more cannot be seen


def curves(runs: pd.DataFrame) -> dict[str, dict[str, list[int]]]:
    """The curves of one data set, by algorithm: the loss up to each round shown, in thousandths, as mean and standard
    deviation over the permutations."""
    found = {}
    for algorithm, rows in runs.groupby("algorithm", sort=False):
        losses = np.array([np.frombuffer(text.encode(), np.uint8) for text in rows["losses"]]) - ord("0")
        progressive = 1000 * losses.cumsum(axis=1) / np.arange(1, losses.shape[1] + 1)
        shown = progressive[:, [n - 1 for n in shown_rounds(losses.shape[1])]]
        found[str(algorithm)] = {
            "mean": shown.mean(axis=0).round().astype(int).tolist(),
            "std": shown.std(axis=0).round().astype(int).tolist(),
        }
    return found


def shown_rounds(rounds: int) -> list[int]:
    """The numbers of examples at which a curve has its points."""
    return np.unique(np.linspace(1, rounds, POINTS).astype(int)).tolist()


def rank_diagram(losses: pd.DataFrame) -> str:
    """Demsar's diagram: average ranks on a line, best on the left. A bar joins explorers that do not differ
    pairwise, by the same test as the table of pairs. Its dots mark them, because a bar may pass an explorer that does
    not belong to it."""
    ranks = ranking.mean_ranks(losses).sort_values()
    p_values = ranking.p_values(losses).loc[ranks.index, ranks.index]
    half = (len(ranks) + 1) // 2
    with rc_context({"font.size": 9.5, "font.family": "sans-serif"}):
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        drawn = critical_difference_diagram(
            ranks,
            p_values,
            alpha=ranking.LEVEL,
            ax=axes,
            label_fmt_left="{label}  {rank:.2f}\N{NO-BREAK SPACE}",
            label_fmt_right="\N{NO-BREAK SPACE}{rank:.2f}  {label}",
            marker_props={"s": 14},
            elbow_props={"linewidth": 1},
            crossbar_props={"color": "#555555", "marker": "o", "markersize": 4},
            color_palette={name: colour(str(name)) for name in ranks.index},
            text_h_margin=0.05 * float(ranks.max() - ranks.min()),
        )
        for label in drawn["labels"]:
            label.set_color("black")
        levels: Counter[float] = Counter()
        for (bar,) in drawn["crossbars"]:
            level = bar.get_ydata()[0]
            bar.set_ydata(np.full(len(bar.get_ydata()), level + 0.4 * (levels[level] % 2)))  # or two look like one
            bar.set_xdata(sorted(bar.get_xdata()))  # the same each time
            levels[level] += 1
        axes.set_ylim(-(len(levels) + half + 0.7), 0)
        figure.set_size_inches(8.5, 0.5 + 0.2 * (len(levels) + half))
    return svg(figure, "ranks")


def differences(table: pd.DataFrame) -> str:
    """The difference of each explorer's mean loss from the supervised one's: a dot for each data set, a bar for their
    mean."""
    with rc_context({"font.size": 9.5, "font.family": "sans-serif"}):
        figure = Figure(figsize=(8.5, 0.9 + 0.33 * table.shape[1]), layout="constrained")
        axes = figure.subplots()
        for y, name in enumerate(reversed(table.columns)):
            axes.scatter(table[name], np.full(len(table), y), s=16, color=colour(name), alpha=0.45, linewidth=0)
            axes.plot([table[name].mean()] * 2, [y - 0.32, y + 0.32], color=colour(name), linewidth=2.5)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(table.shape[1]), list(reversed(table.columns)))
        axes.set_xlabel("PV loss less that of the supervised baseline")
        axes.grid(axis="x", color="#eeeeee")
        axes.spines[["top", "right", "left"]].set_visible(False)
    return svg(figure, "differences")
