"""Tables and the picture of the online problems, from the rows of the runs."""

import json
import math

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from scipy.stats import bootstrap
from scipy.stats import t as student

from benchmarks.online.explorers import OURS, PEERS, SQUARECB, UNIFORM
from benchmarks.online.problems import FAMILIES
from benchmarks.shared import plots, ranking
from benchmarks.shared.tables import markdown

SHOWN = (OURS, "FastCB", "AdaCB", "SquareCB", "bag", "RegCB-opt", "epsilon-greedy")  # in the picture, and the best peer
COLOUR_OF_PEER = "#6a3d9a"
COLUMNS = 4  # of the picture


def shares(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean regret share over the seeds: a row for each explorer, a column for each family. Empty if a run failed
    or the explorer cannot play."""
    wide = runs.groupby(["explorer", "family"], sort=False)["share"].agg(lambda s: s.mean(skipna=False)).unstack()
    return wide.loc[runs["explorer"].unique(), runs["family"].unique()].astype(float)


def interval(differences: pd.Series) -> tuple[float, float]:
    """Mean and half the width of its 95 % interval by Student's t; no width from one value."""
    n = len(differences)
    if n < 2:
        return float(differences.mean()), math.nan
    return float(differences.mean()), float(student.ppf(0.975, n - 1) * differences.std(ddof=1) / math.sqrt(n))


def differences(runs: pd.DataFrame) -> pd.DataFrame:
    """The difference of each explorer's regret share to OPO-CMAB's, in the same family and with the same seed."""
    ours = runs[runs["explorer"] == OURS].set_index(["family", "seed"])["share"]
    at = pd.MultiIndex.from_frame(runs[["family", "seed"]])
    return runs.assign(difference=runs["share"].to_numpy(float) - ours.reindex(at).to_numpy(float))


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """The explorers by mean regret share over the families that all of them can play (`common`).

    mean, rank: over all families, among the explorers that can play them all; without_units: without the families whose
    costs go beyond [-1, 1]; difference: to ours, over the families that the explorer can play, paired by seed.
    """
    wide = shares(runs)
    everywhere = wide.dropna()
    common = wide.dropna(axis=1)
    against_ours = differences(runs)
    found = []
    for name, row in wide.iterrows():
        its_own = against_ours[(against_ours["explorer"] == name) & against_ours["family"].isin(row.dropna().index)]
        mean, half = interval(its_own.groupby("seed")["difference"].mean())
        timed = runs[(runs["explorer"] == name) & runs["share"].notna()]
        rounds = sum(json.loads(params)["rounds"] for params in timed["params"])
        found.append(
            {
                "explorer": name,
                "mean": row.mean(skipna=False),
                "without_units": row[[f for f in wide if not FAMILIES[f].other_unit]].mean(skipna=False),
                "rank": ranking.mean_ranks(everywhere.T).get(name, math.nan),
                "mean_common": common.loc[name].mean(),
                "rank_common": ranking.mean_ranks(common.T)[name] if common.shape[1] else math.nan,
                "difference": mean,
                "half_width": half,
                "ms_a_round": 1000 * timed["seconds"].sum() / rounds if rounds else math.nan,
                **row,
            }
        )
    by = "mean_common" if common.shape[1] else "mean"
    return pd.DataFrame(found).sort_values(by, kind="stable").reset_index(drop=True)


def by_family(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each explorer and family: regret share, its difference to ours with its interval, cost and time."""
    found = []
    for (family, name), rows in differences(runs).groupby(["family", "explorer"], sort=False):
        mean, half = interval(rows["difference"])
        found.append(
            {
                "family": family,
                "explorer": name,
                "seeds": len(rows),
                "share": rows["share"].mean(skipna=False),
                "std": rows["share"].std(skipna=False),
                "difference": mean if rows["share"].notna().all() else math.nan,
                "half_width": half,
                "mean_cost": rows["mean_cost"].mean(skipna=False),
                "seconds": rows["seconds"].mean(),
            }
        )
    return pd.DataFrame(found)


def left_out(runs: pd.DataFrame) -> list[str]:
    """The runs without a figure, and the reasons."""
    without = runs[runs["share"].isna()]
    reasons = without["error"].where(without["error"].notna(), without["unfit"])
    groups = without.assign(reason=reasons).groupby(["explorer", "reason"], sort=False)["family"].unique()
    return [f"{name} on {', '.join(families)}: {reason}" for (name, reason), families in groups.items()]


def _cell(value: float, digits: int = 3) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def ratio(runs: pd.DataFrame, name: str, of: str) -> tuple[float, float, float]:
    """The mean regret share of an explorer over that of another, with its 95 % interval: a bootstrap over the seeds."""
    by_seed = runs.groupby(["explorer", "seed"])["share"].mean()
    pairs = [by_seed[explorer].to_numpy(float) for explorer in (name, of)]
    found = float(pairs[0].mean() / pairs[1].mean())
    if len(pairs[0]) < 2:
        return found, math.nan, math.nan
    interval = bootstrap(
        pairs, lambda a, b, axis: a.mean(axis) / b.mean(axis), paired=True, method="percentile", rng=0
    ).confidence_interval
    return found, float(interval.low), float(interval.high)


def _against_squarecb(runs: pd.DataFrame) -> list[str]:
    of_ours, low, high = ratio(runs, OURS, SQUARECB)
    interval = "" if math.isnan(low) else f" ({low:.3f} to {high:.3f} by a bootstrap over the seeds)"
    return [f"{OURS} has {of_ours:.3f} times the regret share of {SQUARECB}{interval}.", ""]


def in_markdown(runs: pd.DataFrame, found: pd.DataFrame, split: str, place: dict[str, str]) -> str:
    families = list(shares(runs))
    common = list(shares(runs).dropna(axis=1))
    some = found["mean"].isna().any()  # explorers cannot play all families
    columns = ["explorer", "mean", "without units", "rank", *(["mean, common", "rank, common"] if some else [])]
    columns += [f"difference to {OURS}", "ms a round", *families]
    rows = []
    for row in found.to_dict("records"):
        difference = f"{row['difference']:+.3f} ± {_cell(row['half_width'])}".removesuffix(" ± ")
        rows.append(
            [
                row["explorer"],
                _cell(row["mean"]),
                _cell(row["without_units"]),
                _cell(row["rank"], 2),
                *([_cell(row["mean_common"]), _cell(row["rank_common"], 2)] if some else []),
                "" if row["explorer"] == OURS or math.isnan(row["difference"]) else difference,
                _cell(row["ms_a_round"], 2),
                *(_cell(row[family]) for family in families),
            ]
        )
    commands = runs.drop_duplicates("explorer")[["explorer", "command", "engine"]]
    text = [
        "# Online problems",
        "",
        f"Regret as a share of that of playing at random: 0 is perfect, 1 is random. Split `{split}`, mean over "
        f"{runs['seed'].nunique()} seeds. The difference is paired by seed, with its 95 % interval. Lower is better.",
        "",
        *(_against_squarecb(runs) if {OURS, SQUARECB} <= set(runs["explorer"]) else []),
        *markdown(columns, rows),
        "",
        *(["Families that all explorers can play (common): " + ", ".join(common) + ".", ""] if some else []),
        f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}.",
        "",
        "![Regret by round](online.svg)",
        "",
        *markdown(
            ["family", "", "drawn by each seed"], [[f, FAMILIES[f].title, FAMILIES[f].described()] for f in families]
        ),
        "",
        *markdown(
            ["explorer", "flags, or package"],
            [[n, f"`{c}`" if c.startswith("--") else e] for n, c, e in commands.to_numpy()],
        ),
    ]
    missing = left_out(runs)
    if missing:
        text += ["", "Left out:", "", *(f"- {line}" for line in missing)]
    return "\n".join(text) + "\n"


def shown(found: pd.DataFrame) -> list[str]:
    """The explorers of the picture: a few of VW's and the peer with the lowest mean."""
    names = [name for name in SHOWN if name in set(found["explorer"])]
    peers = [name for name in found["explorer"] if name in PEERS and name != "OPOLearner"]
    return names + peers[:1]


def curves(runs: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The regret up to a few rounds of each family, the mean over the seeds: a column for each explorer of the picture,
    empty where it cannot play."""
    played = runs[runs["share"].notna()]
    tables = []
    for family, rows in played.groupby("family", sort=False):
        means = {name: np.mean(own["curve"].tolist(), axis=0) for name, own in rows.groupby("explorer")}
        rounds = rows["rounds"].iloc[0]
        columns = {name: means.get(name, np.full(len(rounds), np.nan)) for name in shown(found)}
        tables.append(pd.DataFrame({"family": family, "round": rounds, **columns}))
    return pd.concat(tables).round(4)


def _colour(name: str) -> str:
    return COLOUR_OF_PEER if name in PEERS else plots.colour(name)


def picture(curves: pd.DataFrame, found: pd.DataFrame) -> str:
    """The curves, a small picture for each family, and the mean regret share over all of them in the legend."""
    families = list(curves["family"].unique())
    means = found.set_index("explorer")["mean"]
    names = sorted(curves.columns[2:], key=lambda name: means.fillna(9).get(name, 9))
    high = -(-len(families) // COLUMNS)
    with rc_context({"font.size": 9, "font.family": "sans-serif"}):
        figure = Figure(figsize=(2.6 * COLUMNS, 2.0 * high + 0.6), layout="constrained")
        places = figure.subplots(high, COLUMNS, squeeze=False, sharey=True).ravel()
        lines = {}
        for axes, family in zip(places, families, strict=False):
            rows = curves[curves["family"] == family]
            last = rows["round"].iloc[-1]
            for name in reversed(names):  # the best on top
                style = {"linewidth": 2.4, "zorder": 3} if name == OURS else {"linewidth": 1.3}
                (lines[name],) = axes.plot(rows["round"], rows[name], color=_colour(name), **style)
            (lines[UNIFORM],) = axes.plot([0, last], [0, 1], color="#444444", linewidth=1, linestyle=":")
            axes.set_title(FAMILIES[family].title, fontsize=10)
            axes.set_xlim(0, last)
            axes.set_ylim(0, 0.7)
            axes.set_xticks([0, last // 2, last], [f"{n:,}" for n in (0, last // 2, last)])
            axes.grid(color="#eeeeee")
            axes.spines[["top", "right"]].set_visible(False)
        for axes in places[len(families) :]:
            axes.set_axis_off()
        labels = {name: f"{name}  {means[name]:.2f}" if name in means else name for name in [*names, UNIFORM]}
        figure.legend(
            [lines[name] for name in labels],
            list(labels.values()),
            loc="outside upper center",
            ncols=5,
            frameon=False,
            title="explorer, and its mean regret share over the families: 0 is perfect, 1 is random",
        )
        figure.supxlabel("rounds", fontsize=9)
        figure.supylabel("regret so far, as a share of that of playing at random", fontsize=9)
    return plots.svg(figure, "online")
