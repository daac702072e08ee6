"""The report of a comparison: one self-contained page."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from opo_cmab.compare.rows import Row

from benchmarks.comparison import plots, tables
from benchmarks.comparison.algorithms import ALGORITHMS, SUPERVISED
from benchmarks.comparison.plan import SUITES, Plan
from benchmarks.shared import ranking
from benchmarks.shared.datasets import LeftOut
from benchmarks.shared.plots import colour, dashes
from benchmarks.shared.tables import as_text, markdown

SHOWN_FIRST = 7  # explorers whose curves the page shows before a reader chooses others


def image(svg: str) -> str:
    """As a data URL, so that the ids and styles of two pictures cannot collide."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def curves(runs: pd.DataFrame, names: Sequence[str], order: Sequence[str]) -> Row:
    """The data of the page's curves. At first it shows the baseline and the explorers with the best ranks."""
    first = {SUPERVISED, *order[:SHOWN_FIRST]}
    return {
        "algorithms": [
            {"name": name, "colour": _colour(name), "dashes": dashes(name), "shown": name in first} for name in names
        ],
        "sets": [
            {"title": f"{did} {rows['name'].iloc[0]}", "rounds": plots.shown_rounds(n), "curves": plots.curves(rows)}
            for did, rows in runs.groupby("dataset", sort=False)
            for n in [int(rows["rows"].iloc[0])]
        ],
    }


def _colour(name: str) -> str:
    """The baseline has the colour of the text, also on a dark page."""
    return "currentColor" if name == SUPERVISED else colour(name)


def heat(differences: pd.DataFrame) -> tuple[float, pd.DataFrame]:
    """The colour strength of each cell, from 0 to 100; and the difference that has 100, which few exceed."""
    full = float(differences.abs().stack().quantile(0.95)) or 1.0
    return full, (100 * differences.abs() / full).clip(upper=100).round()


def verdict(losses: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """The ranks and the tests in words."""
    ranks = ranking.mean_ranks(losses).sort_values()
    text = [f"{ranks.index[0]} has the best average rank, {ranks.iloc[0]:.2f} over {len(losses)} data sets."]
    if losses.shape[1] >= 3:
        p = ranking.friedman(losses)
        text.append(f"Friedman's test that all {losses.shape[1]} explorers are alike: p = {p:.2g}.")
    differ = pairs[pairs["p_holm"] < ranking.LEVEL]
    text.append(
        f"Of {len(pairs)} pairs {len(differ) or 'none'} differ{'s' if len(differ) == 1 else ''} at {ranking.LEVEL} "
        "(Wilcoxon's signed-rank test over the data sets, Holm's correction for the number of pairs)."
    )
    return text


def matrix(pairs: pd.DataFrame, order: Sequence[str]) -> list[list[Row | None]]:
    """For every two explorers, row against column: sets better, equal, worse, and the p-values."""
    cells: dict[tuple[str, str], Row] = {}
    for pair in pairs.to_dict("records"):
        first, second = pair["first"], pair["second"]
        cells[first, second] = pair
        cells[second, first] = pair | {"better": pair["worse"], "worse": pair["better"]}
    return [[cells.get((row, column)) for column in order] for row in order]


def in_markdown(
    plan: Plan,
    found: Mapping[str, pd.DataFrame],
    losses: pd.DataFrame,
    left_out: LeftOut,
    sessions: Sequence[Row],
) -> str:
    """The report's main figures, for a page of a repository."""
    session = sessions[-1]
    text = [
        f"# {SUITES[plan.suite].title}",
        "",
        " ".join(verdict(losses, found["pairs"])),
        "",
        f"Settings: {plan.params}; feature names: {plan.feature_names}; permutations: {plan.permutations}, "
        f"seed {plan.seed}. `{session['command']}`, {session['date']}, {session['machine']}, {session['cores']} "
        f"cores: {sum(s['seconds'] for s in sessions):.0f} s, {max(s['peak_mb'] for s in sessions) / 1000:.1f} GB. "
        f"{session['versions']}. Mean difference from supervised over all explorers and data sets: "
        f"{found['summary']['mean_difference_from_supervised'].mean():.4f}.",
    ]
    differ = found["pairs"][found["pairs"]["p_holm"] < ranking.LEVEL].sort_values("p")
    parts = {
        "By average rank:": found["summary"],
        f"Pairs that differ at {ranking.LEVEL}, and on how many sets the first is better, equal and worse:": differ,
    }
    if plan.suite == "paper":
        words, wins = tables.words_of_the_paper(found["pv_loss"]), tables.wins_as_the_paper_counts(losses)
        parts["The order of the final PV losses, in the paper's words and here, with Kendall's tau:"] = words
        parts["Data sets won among the paper's explorers, in the paper among 18:"] = wins
    for title, part in parts.items():
        if len(part):
            text += ["", title, "", *markdown(list(part), as_text(part).to_numpy())]
    if left_out:
        text += ["", "Left out:", ""]
        text += [f"- {reason}: {', '.join(names)}" for reason, names in left_out.items()]
    return "\n".join(text) + "\n"


def render(
    plan: Plan,
    found: Mapping[str, pd.DataFrame],
    losses: pd.DataFrame,
    runs: pd.DataFrame,
    pictures: Mapping[str, str],
    left_out: LeftOut,
    sessions: Sequence[Row],
) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["image"] = image
    environment.globals |= {"len": len}
    datasets = runs.drop_duplicates("dataset").set_index("dataset")[["name", "rows", "features", "actions"]]
    order = list(found["summary"]["algorithm"])
    names = [name for name in ALGORITHMS if name in set(runs["algorithm"])]
    pv_loss = found["pv_loss"].set_index(["dataset", "algorithm"])
    differences = found["differences"].set_index("dataset")
    full, shades = heat(differences)
    return environment.get_template("report.html").render(
        title=SUITES[plan.suite].title,
        plan=plan,
        session=sessions[-1],
        seconds=sum(session["seconds"] for session in sessions),
        peak_mb=max(session["peak_mb"] for session in sessions),
        versions=sorted(set(runs["versions"])),
        grids={name: ALGORITHMS[name].grid() for name in names},
        datasets=datasets,
        verdict=verdict(losses, found["pairs"]),
        algorithms={name: ALGORITHMS[name] for name in names},
        supervised=SUPERVISED if SUPERVISED in names else None,
        explorers=list(losses),
        losses=losses,
        pv_loss=pv_loss,
        summary=found["summary"].to_dict("records"),
        order=order,
        matrix=matrix(found["pairs"], order),
        level=ranking.LEVEL,
        words=tables.words_of_the_paper(found["pv_loss"]).to_dict("records") if plan.suite == "paper" else [],
        wins=tables.wins_as_the_paper_counts(losses).to_dict("records") if plan.suite == "paper" else [],
        best=found["best_params"].to_dict("records") if "best_params" in found else [],
        pictures=pictures,
        curves=curves(runs, names, order),
        differences=differences,
        full=full,
        shades=shades,
        left_out=left_out,
    )
