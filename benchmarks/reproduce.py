"""The paper's comparison of explorers by progressive validation (PV) loss, reproduced and extended.

Each run is VW over one data set with its rows permuted. Tuned: every setting of the paper's grids once on each set, the
best by final PV loss chosen for each set and algorithm, and then run on other permutations, which are reported.

Suites: paper, the paper's 18 OpenML sets; bakeoff, 200 sets of the contextual bandit bake-off; builtin, the four sets
that come with scikit-learn, also used when no other can be had. OpenML's sets come from its cache (OPENML_CACHE_DIR in
the environment moves it; it must be writable), then from its server. Nominal values are integer codes, missing ones 0,
columns that OpenML marks as ignored are left out.

Results, in OUT: report.html, a page with everything, the curves too; report.md, its main figures; pv_loss, best_params,
summary, pairs and differences as CSV and LaTeX; plots/; runs.jsonl, a line for each finished run. Killed and started
again, it goes on where it was.
"""

import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
from opo_cmab.compare.rows import Row, Rows

from benchmarks.comparison import plots, report, tables
from benchmarks.comparison.algorithms import ALGORITHMS, SUPERVISED, Params, papers_choice
from benchmarks.comparison.plan import SUITES, Plan
from benchmarks.comparison.runner import TUNING, Order, key, run_missing
from benchmarks.shared import ranking
from benchmarks.shared.datasets import (
    BAKEOFF_HALVES,
    CACHE_VARIABLE,
    Dataset,
    FeatureNames,
    Id,
    LeftOut,
    available,
    builtin,
    choose,
)
from benchmarks.shared.program import count, option, parse, processes, where
from benchmarks.shared.runner import Meter, Workers
from benchmarks.shared.tables import write as write_table


def _id(text: str) -> Id:
    return int(text) if text.isdigit() else text


@dataclass(frozen=True)
class Options:
    """The options; what is not given comes from the suite."""

    suite: str = option("paper", "what to run", choices=SUITES)
    datasets: Sequence[Id] | None = option(
        None, "only these: OpenML's ids, or scikit-learn's names", nargs="+", type=_id, metavar="ID"
    )
    sets: str = option(
        "all",
        "of the bakeoff: all, the half on which settings are chosen, or the half that reports",
        choices=["all", *BAKEOFF_HALVES],
    )
    algorithms: Sequence[str] | None = option(
        None, "only these; --list names them", nargs="+", choices=ALGORITHMS, metavar="NAME"
    )
    params: str | None = option(
        None,
        "settings: tuned here on the paper's grids, those that the paper chose, or VW's defaults (default: tuned; for "
        "the bakeoff default)",
        choices=["tuned", "paper", "default"],
    )
    feature_names: FeatureNames = option(
        "distinct",
        "f0, f1, ..., or as the paper's converter writes them, 0, 1, ..., which makes VW's cbify merge neighbours",
        choices=["distinct", "published"],
    )
    permutations: int | None = count(None, "reported orders of the rows (default: 10; for the bakeoff 3)")
    max_rows: int = option(6000, "leave out larger sets", metavar="N")
    seed: int = option(0, "of the permutations", metavar="N")
    jobs: int = processes()
    backend: Literal["processes", "dask"] = option("processes", "where to run", choices=["processes", "dask"])
    scheduler: str | None = option(
        None, "of the Dask cluster, as tcp://host:8786; see docs/reproduction.md", metavar="ADDRESS"
    )
    out: Path | None = option(
        None, "(default: results/SUITE, with what differs from its defaults)", type=Path, metavar="DIR"
    )
    list: bool = option(False, "show suites, data sets and algorithms, and end")

    def __post_init__(self) -> None:
        if (self.backend == "dask") != bool(self.scheduler):
            raise ValueError("--backend dask and --scheduler go together")
        if self.sets != "all" and (self.suite != "bakeoff" or self.datasets):
            raise ValueError("--sets is for --suite bakeoff, and not with --datasets")

    def ids(self) -> Sequence[Id]:
        """Of the data sets."""
        return self.datasets or (SUITES[self.suite].datasets if self.sets == "all" else BAKEOFF_HALVES[self.sets])

    def plan(self, suite: str) -> Plan:
        """All that is run, for this suite or the one that takes its place."""
        of = SUITES[suite]
        params = self.params if self.params and not (self.params == "paper" and suite != self.suite) else of.params
        algorithms = tuple(self.algorithms or of.algorithms)
        without = [name for name in algorithms if params != "default" and not ALGORITHMS[name].paper]
        if without:
            sys.exit(f"The paper has no settings for {', '.join(without)}: run them with --params default.")
        parts = [suite, self.sets if self.sets != "all" else ""]
        parts += ["published" if self.feature_names == "published" else ""]
        parts += [f"{params}-params" if params != of.params else ""]
        out = self.out or Path("results") / "-".join(part for part in parts if part)
        permutations = self.permutations or of.permutations
        return Plan(suite, algorithms, params, permutations, self.seed, self.feature_names, out)


def settings(
    plan: Plan, datasets: Sequence[Dataset], workers: Workers
) -> tuple[dict[tuple[Id, str], Params], list[Row]]:
    """The setting to run, by data set and algorithm; and the tuning runs behind it."""
    pairs = [(d, name) for d in datasets for name in plan.algorithms]
    if plan.params == "default":
        return {(d.did, name): {} for d, name in pairs}, []
    if plan.params == "paper":
        choices = {(d.did, name): papers_choice(d.did, name) for d, name in pairs}
        return {at: params for at, params in choices.items() if params is not None}, []
    orders = [
        Order(d, name, params, TUNING, plan.seed, plan.feature_names)
        for d, name in pairs
        for params in ALGORITHMS[name].grid()
    ]
    tuning = run_missing(orders, plan.out / "runs.jsonl", workers, "tuning")
    return {at: best["params"] for at, best in tables.best_settings(tuning).items()}, tuning


def evaluate(
    plan: Plan, datasets: Sequence[Dataset], chosen: dict[tuple[Id, str], Params], workers: Workers
) -> list[Row]:
    orders = [
        Order(d, name, chosen[d.did, name], permutation, plan.seed, plan.feature_names)
        for d in datasets
        for permutation in range(plan.permutations)
        for name in plan.algorithms
        if (d.did, name) in chosen
    ]
    return run_missing(orders, plan.out / "runs.jsonl", workers, "permutations")


def write(plan: Plan, tuning: list[Row], test: list[Row], left_out: LeftOut) -> pd.DataFrame:
    """Tables, plots and the report; the summary of them all."""
    runs, failed = tables.complete(test)
    if set(runs["algorithm"]) <= {SUPERVISED}:
        sys.exit(f"No explorer to compare. Left out: {failed}")
    pv_loss = tables.pv_loss(runs)
    losses = tables.by_dataset(pv_loss, "mean")
    differences = tables.by_dataset(pv_loss, "difference_from_supervised")
    found = {
        "pv_loss": pv_loss,
        "differences": differences.reset_index(),
        "summary": tables.summary(losses, differences),
        "pairs": ranking.pairs(losses),
    }
    if tuning:
        found["best_params"] = tables.best_params(tuning)
    for name, table in found.items():
        write_table(table, plan.out / name)
    pictures = {"ranks": plots.rank_diagram(losses)} if losses.shape[1] > 1 else {}
    if differences.notna().all(axis=None):
        pictures["differences"] = plots.differences(differences)
    (plan.out / "plots").mkdir(exist_ok=True)
    for name, picture in pictures.items():
        (plan.out / "plots" / f"{name}.svg").write_text(picture)
    sessions = [json.loads(line) for line in (plan.out / "sessions.jsonl").read_text().splitlines()]
    page = report.render(plan, found, losses, runs, pictures, left_out | failed, sessions)
    (plan.out / "report.html").write_text(page)
    (plan.out / "report.md").write_text(report.in_markdown(plan, found, losses, left_out | failed, sessions))
    return found["summary"]


def describe() -> str:
    """The choices, for --list."""
    cached = set(available())
    text = []
    for name, suite in SUITES.items():
        have = sum(did in cached for did in suite.datasets) if name != "builtin" else len(suite.datasets)
        text += [
            f"{name}: {len(suite.datasets)} data sets, {have} of them here; --params {suite.params}, "
            f"--permutations {suite.permutations}",
            "  " + " ".join(f"{did}" if did in cached or name == "builtin" else f"({did})" for did in suite.datasets),
        ]
    text += ["", "Data sets in brackets are not in OpenML's cache.", "", "algorithm, settings in its grid, flags:"]
    text += [f"  {name:20} {len(a.grid()):4}  {a.task} {a.flags}" for name, a in ALGORITHMS.items()]
    return "\n".join(text)


def fall_back(suite: str, left_out: LeftOut) -> list[Dataset]:
    """Without any set from OpenML, uses scikit-learn's and says so loudly."""
    reasons = [f"{reason}: {', '.join(names)}" for reason, names in left_out.items()]
    bar = "!" * 100
    print(bar, f"NO DATA SET OF THE SUITE {suite!r} CAN BE HAD.", *reasons, sep="\n", file=sys.stderr)
    print(f"Set {CACHE_VARIABLE}, or go online. Until then:", file=sys.stderr)
    print(
        "RUNNING THE SUITE 'builtin' INSTEAD: scikit-learn's data sets, NOT THE PAPER'S.",
        bar,
        sep="\n",
        file=sys.stderr,
    )
    return builtin()


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "reproduce", __doc__, arguments)
    if options.list:
        print(describe())
        return
    datasets, left_out = choose(options.ids(), options.max_rows)
    if not datasets and options.datasets:
        sys.exit(f"No data set to run on: {left_out}")
    plan = options.plan(options.suite if datasets else "builtin")
    datasets = datasets or fall_back(options.suite, left_out)
    plan.out.mkdir(parents=True, exist_ok=True)
    workers = Workers(-1 if options.scheduler else options.jobs, options.scheduler)
    before = len(Rows(plan.out / "runs.jsonl", key))
    with Meter() as meter:
        chosen, tuning = settings(plan, datasets, workers)
        for dataset in datasets:
            if not any((dataset.did, name) in chosen for name in plan.algorithms):
                left_out.setdefault("the paper chose no settings", []).append(str(dataset.did))
        test = evaluate(plan, datasets, chosen, workers)
    session = {
        "command": shlex.join(
            ["python", "-m", "benchmarks.reproduce", *(sys.argv[1:] if arguments is None else arguments)]
        ),
        "ended": time.strftime("%Y-%m-%d %H:%M:%S"),
        "seconds": round(meter.seconds, 1),
        "peak_mb": round(meter.peak_mb),
        **where(),
    }
    if len(Rows(plan.out / "runs.jsonl", key)) > before:  # or else only the pages are written again
        with (plan.out / "sessions.jsonl").open("a") as file:
            file.write(json.dumps(session) + "\n")
    summary = write(plan, tuning, test, left_out)
    for reason, names in left_out.items():
        print(f"Left out, {reason}: {', '.join(names)}")
    print(summary.round(4).to_string(index=False))
    print(f"\n{len(tuning) + len(test)} runs, {meter.seconds:.0f} s, {meter.peak_mb:.0f} MB.")
    print(f"The report: {(plan.out / 'report.html').resolve()}")


if __name__ == "__main__":
    main()
