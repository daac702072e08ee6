"""The paper's comparison of explorers by progressive validation (PV) loss, run again, and past it.

Each run is VW over one data set with its rows permuted. Tuned: every setting of the paper's grids once on each set, the
best by final PV loss chosen for each set and algorithm, and then run on other permutations, which are reported.

Suites: paper, the paper's 18 OpenML sets; bakeoff, 200 sets of the contextual bandit bake-off; builtin, the four sets
that come with scikit-learn, also used when no other can be had. OpenML's sets come from its cache (OPENML_CACHE_DIR in
the environment moves it; it must be writable), then from its server. Nominal values are integer codes, missing ones 0,
columns that OpenML marks as ignored are left out.

Results, in OUT: report.html, a page with everything; report.md, its main figures; pv_loss, best_params, summary, pairs
and differences as CSV and LaTeX; plots/; runs.jsonl, a line for each finished run. Killed and started again, it goes on
where it was.
"""

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":  # as python benchmarks/reproduce.py: the project is the parent of this directory
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

from benchmarks import plots, report, tables
from benchmarks.algorithms import ALGORITHMS, SUPERVISED, TUNED, Params, papers_choice
from benchmarks.datasets import (
    BAKEOFF,
    BAKEOFF_HALVES,
    BUILTIN,
    CACHE_VARIABLE,
    PAPER,
    Dataset,
    Id,
    available,
    builtin,
    load,
)
from benchmarks.program import where
from benchmarks.runner import TUNING, Meter, Order, Row, Workers, read_rows, run_missing
from benchmarks.tables import LeftOut


@dataclass(frozen=True)
class Suite:
    datasets: tuple[Id, ...]
    algorithms: tuple[str, ...]
    params: str
    permutations: int


SUITES = {
    "paper": Suite(PAPER, TUNED, "tuned", 10),
    "bakeoff": Suite(BAKEOFF, tuple(ALGORITHMS), "default", 3),
    "builtin": Suite(BUILTIN, TUNED, "tuned", 10),
}


def choose_datasets(wanted: Sequence[Id], max_rows: int) -> tuple[list[Dataset], LeftOut]:
    """The data sets to run on, and for each reason those that are left out."""
    small = {d.did: d for d in builtin()}
    chosen: list[Dataset] = []
    left_out: LeftOut = {}
    for did in tqdm(wanted, desc="loading", unit="set", leave=False):
        try:
            dataset = small[did] if did in small else load(int(did))
        except Exception as error:  # whatever is wrong with one set, the others can run
            left_out.setdefault(f"cannot be had: {error}", []).append(str(did))
            continue
        if dataset.rows > max_rows:
            left_out.setdefault(f"more than {max_rows} rows", []).append(str(did))
        else:
            chosen.append(dataset)
    return chosen, left_out


def settings(
    options: argparse.Namespace, datasets: Sequence[Dataset], workers: Workers
) -> tuple[dict[tuple[Id, str], Params], list[Row]]:
    """By data set and algorithm, the setting to run, where there is one; and the runs that led to it."""
    pairs = [(d, name) for d in datasets for name in options.algorithms]
    if options.params == "default":
        return {(d.did, name): {} for d, name in pairs}, []
    if options.params == "paper":
        choices = {(d.did, name): papers_choice(d.did, name) for d, name in pairs}
        return {at: params for at, params in choices.items() if params is not None}, []
    orders = [
        Order(d, name, params, TUNING, options.seed, options.feature_names)
        for d, name in pairs
        for params in ALGORITHMS[name].grid()
    ]
    tuning = run_missing(orders, options.out / "runs.jsonl", workers, "tuning")
    return {at: best["params"] for at, best in tables.best_settings(tuning).items()}, tuning


def evaluate(
    options: argparse.Namespace, datasets: Sequence[Dataset], chosen: dict[tuple[Id, str], Params], workers: Workers
) -> list[Row]:
    orders = [
        Order(d, name, chosen[d.did, name], permutation, options.seed, options.feature_names)
        for d in datasets
        for permutation in range(options.permutations)
        for name in options.algorithms
        if (d.did, name) in chosen
    ]
    return run_missing(orders, options.out / "runs.jsonl", workers, "permutations")


def write(options: argparse.Namespace, tuning: list[Row], test: list[Row], left_out: LeftOut) -> pd.DataFrame:
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
        "pairs": tables.ranking.pairs(losses),
    }
    if tuning:
        found["best_params"] = tables.best_params(tuning)
    for name, table in found.items():
        tables.write(table, options.out / name)
    names = dict(zip(runs["dataset"], runs["name"], strict=True))
    pictures = {"ranks": plots.critical_difference(losses)} if losses.shape[1] > 1 else {}
    if differences.notna().all(axis=None):
        pictures["differences"] = plots.differences(differences)
    draw = Parallel(n_jobs=options.jobs, return_as="generator")
    groups = list(runs.groupby("dataset", sort=False))
    drawn = draw(delayed(plots.curves)(group, f"{did} {names[did]}") for did, group in groups)
    for (did, _), picture in zip(groups, tqdm(drawn, desc="plotting", total=len(groups), unit="set"), strict=True):
        pictures[f"curves-{did}"] = picture
    (options.out / "plots").mkdir(exist_ok=True)
    for name, picture in pictures.items():
        (options.out / "plots" / f"{name}.svg").write_text(picture)
    sessions = [json.loads(line) for line in (options.out / "sessions.jsonl").read_text().splitlines()]
    page = report.render(options, found, losses, runs, pictures, left_out | failed, sessions)
    (options.out / "report.html").write_text(page)
    (options.out / "report.md").write_text(report.in_markdown(options, found, losses, left_out | failed, sessions))
    return found["summary"]


def describe() -> str:
    """What there is to choose from, for --list."""
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


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/reproduce.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--suite", choices=SUITES, default="paper", help="what to run (default: %(default)s)")
    add(
        "--datasets",
        nargs="+",
        type=lambda text: int(text) if text.isdigit() else text,
        metavar="ID",
        help="only these: OpenML's ids, or scikit-learn's names",
    )
    add(
        "--sets",
        choices=["all", *BAKEOFF_HALVES],
        default="all",
        help="of the bakeoff: the half on which defaults are chosen, or the half that reports (default: %(default)s)",
    )
    add("--algorithms", nargs="+", choices=ALGORITHMS, metavar="NAME", help="only these; --list names them")
    add(
        "--params",
        choices=["tuned", "paper", "default"],
        help="settings: tuned here on the paper's grids, those that the paper chose, or VW's defaults "
        "(default: tuned; for the bakeoff default)",
    )
    add(
        "--feature-names",
        choices=["distinct", "published"],
        default="distinct",
        help="name features f0, f1, ..., or 0, 1, ... as the paper's converter does, which makes VW's cbify merge "
        "neighbours (default: %(default)s)",
    )
    add("--permutations", type=int, metavar="N", help="reported orders of the rows (default: 10; for the bakeoff 3)")
    add("--max-rows", type=int, default=6000, metavar="N", help="leave out larger sets (default: %(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="of the permutations (default: %(default)s)")
    add("--jobs", type=int, default=os.cpu_count(), metavar="N", help="runs at a time (default: the number of cores)")
    add("--backend", choices=["processes", "dask"], default="processes", help="where to run (default: %(default)s)")
    add("--scheduler", metavar="ADDRESS", help="of the Dask cluster, as tcp://host:8786; see docs/reproduction.md")
    add("--out", type=Path, metavar="DIR", help="(default: results/SUITE, with what differs from its defaults)")
    add("--list", action="store_true", help="show suites, data sets and algorithms, and end")
    options = parser.parse_args(arguments)
    if (options.backend == "dask") != bool(options.scheduler):
        parser.error("--backend dask and --scheduler go together")
    if options.sets != "all":
        if options.suite != "bakeoff" or options.datasets:
            parser.error("--sets is for --suite bakeoff, and not with --datasets")
        options.datasets = BAKEOFF_HALVES[options.sets]
    return options


def complete_options(options: argparse.Namespace) -> None:
    """What was not given is the suite's."""
    suite = SUITES[options.suite]
    options.algorithms = options.algorithms or list(suite.algorithms)
    options.params = options.params or suite.params
    options.permutations = options.permutations or suite.permutations
    if options.out is None:
        parts = [options.suite, options.sets if options.sets != "all" else ""]
        parts += ["published" if options.feature_names == "published" else ""]
        parts += [f"{options.params}-params" if options.params != suite.params else ""]
        options.out = Path("results") / "-".join(part for part in parts if part)
    without = [name for name in options.algorithms if options.params != "default" and not ALGORITHMS[name].paper]
    if without:
        sys.exit(f"The paper has no settings for {', '.join(without)}: run them with --params default.")


def fall_back(options: argparse.Namespace, left_out: LeftOut) -> list[Dataset]:
    """Without any set of OpenML: scikit-learn's, said so loudly."""
    reasons = [f"{reason}: {', '.join(names)}" for reason, names in left_out.items()]
    bar = "!" * 100
    print(bar, f"NO DATA SET OF THE SUITE {options.suite!r} CAN BE HAD.", *reasons, sep="\n", file=sys.stderr)
    print(f"Set {CACHE_VARIABLE}, or go online. Until then:", file=sys.stderr)
    print(
        "RUNNING THE SUITE 'builtin' INSTEAD: scikit-learn's data sets, NOT THE PAPER'S.",
        bar,
        sep="\n",
        file=sys.stderr,
    )
    options.suite = "builtin"
    if options.params == "paper":
        options.params = None
    return builtin()


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.list:
        print(describe())
        return
    datasets, left_out = choose_datasets(options.datasets or SUITES[options.suite].datasets, options.max_rows)
    if not datasets and options.datasets:
        sys.exit(f"No data set to run on: {left_out}")
    datasets = datasets or fall_back(options, left_out)
    complete_options(options)
    options.out.mkdir(parents=True, exist_ok=True)
    workers = Workers(-1 if options.scheduler else options.jobs, options.scheduler)
    before = len(read_rows(options.out / "runs.jsonl"))
    with Meter() as meter:
        chosen, tuning = settings(options, datasets, workers)
        for dataset in datasets:
            if not any((dataset.did, name) in chosen for name in options.algorithms):
                left_out.setdefault("the paper chose no settings", []).append(str(dataset.did))
        test = evaluate(options, datasets, chosen, workers)
    session = {
        "command": shlex.join(
            ["python", "benchmarks/reproduce.py", *(sys.argv[1:] if arguments is None else arguments)]
        ),
        "ended": time.strftime("%Y-%m-%d %H:%M:%S"),
        "seconds": round(meter.seconds, 1),
        "peak_mb": round(meter.peak_mb),
        **where(),
    }
    if len(read_rows(options.out / "runs.jsonl")) > before:  # or else only the pages are written again
        with (options.out / "sessions.jsonl").open("a") as file:
            file.write(json.dumps(session) + "\n")
    summary = write(options, tuning, test, left_out)
    for reason, names in left_out.items():
        print(f"Left out, {reason}: {', '.join(names)}")
    print(summary.round(4).to_string(index=False))
    print(f"\n{len(tuning) + len(test)} runs, {meter.seconds:.0f} s, {meter.peak_mb:.0f} MB.")
    print(f"The report: {(options.out / 'report.html').resolve()}")


if __name__ == "__main__":
    main()
