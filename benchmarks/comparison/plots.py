"""The pictures of a comparison, as SVG text."""

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.shared import ranking
from benchmarks.shared.plots import colour, dashes, svg

POINTS = 75  # of a curve; more cannot be seen


def curves(runs: pd.DataFrame, title: str) -> str:
    """The loss up to each round, the mean over the permutations with a band of one standard deviation."""
    with rc_context({"font.size": 9, "font.family": "sans-serif"}):
        figure = Figure(figsize=(4.6, 3.2), layout="constrained")
        axes = figure.subplots()
        for algorithm, rows in runs.groupby("algorithm", sort=False):
            losses = np.array([np.frombuffer(text.encode(), np.uint8) for text in rows["losses"]]) - ord("0")
            rounds = np.arange(1, losses.shape[1] + 1)
            progressive = losses.cumsum(axis=1) / rounds
            shown = np.unique(np.linspace(0, len(rounds) - 1, POINTS).astype(int))
            mean, std = progressive.mean(axis=0)[shown], progressive.std(axis=0)[shown]
            pattern = [float(length) for length in dashes(str(algorithm)).split()]
            (line,) = axes.plot(rounds[shown], mean, color=colour(str(algorithm)), linewidth=1.6)
            if pattern:
                line.set_dashes(pattern)
            axes.fill_between(rounds[shown], mean - std, mean + std, color=line.get_color(), alpha=0.07, linewidth=0)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("examples")
        axes.set_ylabel("PV loss")
        axes.set_xlim(1, len(rounds))
        axes.set_ylim(0, 1)
        axes.grid(color="#eeeeee")
        axes.spines[["top", "right"]].set_visible(False)
    return svg(figure, title)


def _groups(ranks: pd.Series, difference: float) -> list[tuple[float, float]]:
    """The longest stretches of sorted ranks within the critical difference, from two algorithms up."""
    values = ranks.to_numpy()
    ends = [np.searchsorted(values, v + difference, side="right") - 1 for v in values]
    found = [(i, e) for i, e in enumerate(ends) if e > i and (i == 0 or e > ends[i - 1])]
    return [(values[i], values[e]) for i, e in found]


def critical_difference(losses: pd.DataFrame) -> str:
    """Demsar's diagram: average ranks on a line, best on the left, and bars over those that do not differ at 0.05 by
    Nemenyi's test."""
    ranks = ranking.mean_ranks(losses).sort_values()
    difference = ranking.critical_difference(losses)
    groups = _groups(ranks, difference)
    half = (len(ranks) + 1) // 2
    depth = 0.35 * len(groups) + 0.5
    low, high = np.floor(ranks.min()), np.ceil(ranks.max())
    pad = 0.18 * (high - low)
    with rc_context({"font.size": 9.5, "font.family": "sans-serif"}):
        figure = Figure(figsize=(8.5, 1.1 + 0.24 * (half + depth)), layout="constrained")
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_xlim(low - pad, high + pad)
        axes.set_ylim(-(depth + half + 0.3), 1.9)
        axes.plot([low, high], [0, 0], color="black", linewidth=1)
        for tick in np.arange(low, high + 1):
            axes.plot([tick, tick], [0, 0.25], color="black", linewidth=1)
            axes.text(tick, 0.4, f"{tick:g}", ha="center")
        axes.plot([low, low + difference], [1.3, 1.3], color="black", linewidth=2)
        axes.text(
            low + difference, 1.3, f"  critical difference {difference:.2f}, {len(losses)} data sets", va="center"
        )
        for i, (start, end) in enumerate(groups):
            y = -0.35 * (i + 1)
            axes.plot([start - 0.02, end + 0.02], [y, y], color="#555555", linewidth=3.5, solid_capstyle="round")
        for i, (name, rank) in enumerate(ranks.items()):
            left = i < half
            y = -(depth + (i if left else len(ranks) - 1 - i) + 0.5)
            edge, align, text = (
                (low - 0.02, "right", f"{name}  {rank:.2f} ") if left else (high + 0.02, "left", f" {rank:.2f}  {name}")
            )
            axes.plot([rank, rank, edge], [0, y, y], color=colour(str(name)), linewidth=1)
            axes.text(edge, y, text, ha=align, va="center")
    return svg(figure, "critical difference")


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
