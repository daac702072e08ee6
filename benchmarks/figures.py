"""The README's and the docs' figures from the data in docs/results: python -m benchmarks.figures.

A table is between <!-- figures:NAME --> and <!-- /figures --> on its page, and is rewritten. NAME is one of TABLES.
Pictures are redrawn from the same data.

Arguments are directories of results, for example results/online/report or results/bakeoff: their pages and data are
first copied to docs/results. So a new measurement is one command and one commit.
"""

import math
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

import pandas as pd

from benchmarks import bandit, regression, serve, speed
from benchmarks.comparison import plots, tables
from benchmarks.online import report as online
from benchmarks.online.explorers import MAPPED_EXPLORERS, OURS, PEERS, VW_EXPLORERS
from benchmarks.shared import ranking
from benchmarks.shared.program import option, parse
from benchmarks.shared.tables import markdown

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "results"
MARKED = re.compile(r"(<!-- figures:([\w-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)
MARKER = re.compile(r"<!-- (?:figures:[\w-]+|/figures) -->")
# The explorers of the table, beside our OPOLearner and the best peer.
EXPLORERS = (OURS, "FastCB", "AdaCB", "SquareCB, mapped", "SquareCB", "bag", "RegCB-opt", "epsilon-greedy")
LEARNER = "OPOLearner"
# What a user would call the problems of each family.
PROBLEMS = {
    "certain": "clicks are certain, few contexts",
    "change": "preferences change half way",
    "noisy": "noisy clicks",
    "rare": "rare clicks",
    "linear": "dense features, expected cost linear",
    "items": "items known by their features, others on offer each round",
    "many": "many actions that share no features",
    "units": "costs in another unit (euros)",
    "heavy": "heavy-tailed costs",
    "revenue": "rare sales of different value",
    "delayed": "costs come in batches",
    "words": "short texts: a few of many words",
    "few": "a hundred rounds",
    "habits": "some users click on everything",
    "level": "latencies whose level wanders",
    "news": "articles come and go",
    "crossed": "preferences change half way, users crossed with times",
    "texts": "texts of some of 30,000 words",
    "embeddings": "embeddings as contexts",
    "item_embeddings": "embeddings of contexts and of items",
    "crowd": "many users, few rounds each",
    "ads": "ads of short lives, new ones all the time",
    "real_digits": "real: digits",
    "real_wine": "real: wines",
    "real_cancer": "real: tumours",
    "real_doses": "real: doses for patients",
}


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(DATA / f"{name}.csv")


def losses_of(name: str) -> pd.DataFrame:
    """The mean losses of a comparison: a row for each data set, a column for each explorer."""
    return tables.by_dataset(read(name), "mean")


def flags_of(name: str) -> str:
    """Of an explorer in VW; else what it is."""
    flags = (VW_EXPLORERS | MAPPED_EXPLORERS).get(name)
    if flags is None:
        return "ours, in Python" if name == LEARNER else "not VW"
    return f"`{flags}`" if flags else "none"


def best_peer(found: pd.DataFrame) -> str | None:
    """The peer with the lowest mean among those that play all families; OPOLearner is ours, so it does not count."""
    peers = [name for name in found.dropna(subset="mean").index if name in PEERS and name != LEARNER]
    return min(peers, key=lambda name: found.loc[name, "mean"], default=None)


def _lowest_in_bold(values: Sequence[float], of: Sequence[bool]) -> list[str]:
    """With three digits; the lowest of those that compete is bold."""
    lowest = min((value for value, within in zip(values, of, strict=True) if within), default=math.nan)
    return [
        "-" if math.isnan(value) else f"**{value:.3f}**" if within and value == lowest else f"{value:.3f}"
        for value, within in zip(values, of, strict=True)
    ]


def online_table() -> list[str]:
    """The explorers by mean regret share on the online problems, and their mean loss on the bake-off's data sets."""
    found = read("online").set_index("explorer")
    found = found.loc[[name for name in found.index if name in (*EXPLORERS, LEARNER, best_peer(found))]]
    of_vw = [name in EXPLORERS for name in found.index]
    losses = losses_of("bakeoff").mean().reindex(found.index)
    in_bold = [_lowest_in_bold(column.tolist(), of_vw) for column in (found["mean"], losses)]
    rows = [
        [
            str(row.Index),
            flags_of(str(row.Index)),
            share,
            "" if row.Index == OURS else f"{row.difference:+.3f} ± {row.half_width:.3f}",
            loss,
        ]
        for row, share, loss in zip(found.itertuples(), *in_bold, strict=True)
    ]
    columns = ["explorer", "flags", "online: regret share", f"minus {OURS}", "data sets: mean loss"]
    return markdown(columns, rows, left=2)


def default_table() -> list[str]:
    """Our explorers on least squares beside those on gd: regret shares by group of families, and loss."""
    found = read("default").set_index("explorer")
    names = {"sixteen": "16 kinds", "wide": "6 new kinds", "real": "4 real ones", "bakeoff": "mean loss"}
    cells = [_lowest_in_bold(found[column].tolist(), [True] * len(found)) for column in names]
    rows = [
        [name, f"`{flags}`", *values] for name, flags, *values in zip(found.index, found["flags"], *cells, strict=True)
    ]
    return markdown(["explorer", "flags", *names.values()], rows, left=2)


def families_table() -> list[str]:
    """The regret share on each kind of problem: OPO-CMAB, the best of the others in VW, and the best peer."""
    found = read("online").set_index("explorer")
    others = found.loc[[name for name in EXPLORERS if name != OURS and name in found.index]]
    peer = best_peer(found)
    rows = []
    for family in (family for family in PROBLEMS if family in found):
        best = str(others[family].idxmin())
        values = [found.loc[name, family] for name in (OURS, best, *([peer] if peer else []))]
        ours, other, *of_peer = _lowest_in_bold(values, [True, True, False][: len(values)])
        rows.append([PROBLEMS[family], ours, f"{other} {best}", *of_peer])
    return markdown(["your problem", OURS, "best of the others in VW", *([peer] if peer else [])], rows, left=1)


def _cases() -> Iterator[tuple[list[int], pd.Series, pd.Series]]:
    """The measured problems, with the rows of OPO-CMAB and of SquareCB."""
    for work, case in read("speed").query("part == 'case'").groupby(list(speed.Case._fields), sort=False):
        by_name = case.set_index("algorithm")
        if speed.OURS in by_name.index:
            yield list(map(int, work)), by_name.loc[speed.OURS], by_name.loc[speed.BASELINE]


def cost_table() -> list[str]:
    """Time and memory of OPO-CMAB and SquareCB."""
    rows = []
    for (rounds, actions, features, words), ours, baseline in _cases():
        what = f"{words:,} words, about {features} a text" if words else f"{features:,} features"
        rows.append(
            [
                f"{rounds:,} rounds, {actions} actions, {what}",
                f"{1e6 * ours['seconds'] / rounds:,.0f} µs",
                f"{ours['times_baseline']:.1f} ({ours['times_on_all_cores']:.1f})",
                f"{ours['peak_mb']:.0f} MB ({baseline['peak_mb']:.0f} MB)",
            ]
        )
    columns = ["problem", "a round takes", f"times {speed.BASELINE} (on all cores)", f"memory ({speed.BASELINE})"]
    return markdown(columns, rows, left=1)


def cost_in_short() -> list[str]:
    """The cost table in a sentence: its extremes, and the first problem."""
    cases = list(_cases())
    (rounds, actions, features, _), first, _ = cases[0]
    times = [ours["times_baseline"] for _, ours, _ in cases]
    memory = [ours["peak_mb"] / baseline["peak_mb"] for _, ours, baseline in cases]
    return [
        f"A round takes {min(times):.1f} to {max(times):.1f} times as long as with {speed.BASELINE}, "
        f"{1e6 * first['seconds'] / rounds:,.0f} µs with {actions} actions of {features} features, and the process "
        f"uses up to {max(memory):.1f} times as much memory ([measured](docs/which-explorer.md#what-it-costs))."
    ]


def bakeoff_table() -> list[str]:
    """Average rank and mean loss on the bake-off's data sets, with either kind of feature names, and the p-value of the
    difference to OPO-CMAB."""
    parts = []
    for name in ("bakeoff", "bakeoff-published"):
        losses = losses_of(name)
        p = ranking.p_values(losses)[OURS]
        parts.append(pd.DataFrame({"rank": ranking.mean_ranks(losses), "loss": losses.mean(), "p": p}))
    distinct, published = parts
    rows = [
        [name, *(cell for part in (distinct, published) for cell in _ranked(part.loc[name], name == OURS))]
        for name in distinct.sort_values("rank").index
    ]
    of = ["rank", "mean loss", f"p to {OURS}"]
    return markdown(["explorer", *of, *(f"{column}, published names" for column in of)], rows, left=1)


def regression_table() -> list[str]:
    """The errors of VW's learners on plain regression."""
    return regression.table(read("regression"))


def _ranked(row: pd.Series, ours: bool) -> list[str]:
    return [f"{row['rank']:.2f}", f"{row['loss']:.3f}", "" if ours else f"{row['p']:.2g}"]


def bandit_table() -> list[str]:
    """What a round of `Bandit` costs."""
    return bandit.table(read("bandit").dropna(subset="threads").to_dict("records"))


def serve_table() -> list[str]:
    """What a round over HTTP costs."""
    return serve.table(read("serve").to_dict("records"))


TABLES: dict[str, Callable[[], list[str]]] = {
    "online": online_table,
    "default": default_table,
    "families": families_table,
    "cost": cost_table,
    "cost-in-short": cost_in_short,
    "bakeoff": bakeoff_table,
    "regression": regression_table,
    "bandit": bandit_table,
    "serve": serve_table,
}


def rewrite(text: str, page: str) -> str:
    """A page with its tables rewritten from the data."""

    def table(match: re.Match[str]) -> str:
        if match[2] not in TABLES:
            raise SystemExit(f"{page}: no table is called {match[2]!r}. Known: {', '.join(TABLES)}.")
        return match[1] + "\n".join(TABLES[match[2]]()) + "\n" + match[4]

    if len(MARKER.findall(text)) != 2 * len(MARKED.findall(text)):
        raise SystemExit(f"{page}: a marker has no partner. Write <!-- figures:NAME --> and <!-- /figures -->.")
    return MARKED.sub(table, text)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def pictures() -> dict[str, str]:
    """The pictures by name, as SVG text. The one of the online problems needs their curves."""
    drawn = {f"{name}-ranks": plots.rank_diagram(losses_of(name)) for name in ("paper", "bakeoff", "bakeoff-published")}
    drawn["paper-differences"] = plots.differences(tables.by_dataset(read("paper"), "difference_from_supervised"))
    drawn["growth"] = speed.plot_growth(read("speed").query("part == 'growth'").to_dict("records"))
    if (DATA / "online-curves.csv").exists():
        drawn["online"] = online.picture(read("online-curves"), read("online"))
    return drawn


def publish(results: Path, data: Path) -> list[Path]:
    """Copies the page and the data of a benchmark. Returns the new paths."""
    found = sorted(results.glob("*.md"))
    if len(found) != 1:
        raise SystemExit(f"{results} is not the directory of a benchmark's results: it must have exactly one .md page.")
    stem = found[0].stem
    if stem == "report":  # of a comparison, known by its directory
        files = {"report.md": f"{results.name}.md", "pv_loss.csv": f"{results.name}.csv"}
        if (results / "best_params.csv").exists():
            files["best_params.csv"] = f"{results.name}-best-params.csv"
    else:
        kinds = (".csv", ".md", ".svg")
        files = {f.name: f.name for f in sorted(results.iterdir()) if f.name.startswith(stem) and f.suffix in kinds}
    return [Path(shutil.copyfile(results / name, data / target)) for name, target in files.items()]


@dataclass(frozen=True)
class Options:
    results: Sequence[Path] = option(
        MISSING,
        "directories of results, for example results/online/report: copied to docs/results first",
        nargs="*",
        type=Path,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "figures", __doc__, arguments)
    changed = [path for results in options.results for path in publish(results, DATA)]
    new = {DATA / f"{name}.svg": picture for name, picture in pictures().items()}
    new |= {page: rewrite(page.read_text(), str(page.relative_to(ROOT))) for page in pages()}
    for path, text in new.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    print("\n".join(f"written: {path.relative_to(ROOT)}" for path in changed) or "Everything is up to date.")


if __name__ == "__main__":
    main()
