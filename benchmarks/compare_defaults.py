"""Compare explorers at their default settings over many data sets, by progressive validation loss.

Each run is `vw --cbify K --cb_explore_adf FLAGS` on one set with its rows permuted; its loss is VW's average loss.
Finished runs are appended to OUT/runs.jsonl. Started again with the same OUT, only what is missing or failed is run.
At the end: OUT/summary.csv, OUT/summary.md and OUT/ranks.svg.

Data: the sets in OpenML's cache, found by the environment variable OPENML_CACHE_DIR (give it a writable copy: openml
writes into it). Without one, the four small sets that come with scikit-learn.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

from benchmarks.datasets import CACHE_VARIABLE, Dataset, available, builtin, load, to_vw
from benchmarks.ranking import against, critical_difference, friedman, mean_ranks, plot_ranks

VW = Path(sys.executable).parent / "vw"
OURS = "OPO-CMAB"
ALGORITHMS = {
    "epsilon-greedy": "",
    "bag": "--bag 5",
    "cover": "--cover 5",
    "softmax": "--softmax",
    "RegCB-elim": "--regcb",
    "RegCB-opt": "--regcb --regcbopt",
    "SquareCB": "--squarecb",
    "FastCB": "--fastcb",
    "AdaCB": "--adacb",
    OURS: "--opo_cmab",
    "Algorithm 1 (decay 1)": "--opo_cmab --opo_decay 1",  # the paper's, to the letter
}

Row = dict[str, Any]
LeftOut = dict[str, list[str]]  # for each reason: what it keeps out of the comparison


def pv_loss(flags: str, actions: int, lines: Sequence[str], timeout: float | None = None) -> float:
    """The progressive validation loss that vw prints.

    A process for each run: its start costs 10 ms, and neither a crash nor a hang takes the other runs with it.
    """
    command = [str(VW), "--cbify", str(actions), "--cb_explore_adf", *flags.split()]
    try:
        run = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"stopped after {timeout:g} s") from None
    report = dict(re.findall(r"^(number of examples|average loss) = (\S+)$", run.stderr, flags=re.MULTILINE))
    if run.returncode != 0 or report.get("number of examples") != str(len(lines)):
        words = (run.stdout + run.stderr).strip().splitlines() or ["no output"]
        raise RuntimeError(f"vw ended with {run.returncode}: {words[-1]}")
    # Each round costs 0 or 1: the number of errors undoes the rounding to six digits, which would break ties.
    return round(float(report["average loss"]) * len(lines)) / len(lines)


def run(identity: Row, lines: Sequence[str], timeout: float) -> Row:
    """One run, as a row of the results: with its loss, or with the reason why there is none."""
    start = time.perf_counter()
    result: Row = {"pv_loss": None, "error": None}
    try:
        result["pv_loss"] = pv_loss(identity["flags"], identity["actions"], lines, timeout)
    except RuntimeError as error:
        result["error"] = str(error)
    return {**identity, **result, "seconds": round(time.perf_counter() - start, 3)}


def run_key(row: Row) -> tuple[Any, ...]:
    """What makes two runs the same. The flags, not the name: a variant may be renamed without running it again."""
    return tuple(row[field] for field in ("dataset", "flags", "permutation", "seed", "feature_names"))


def read_rows(path: Path) -> dict[tuple[Any, ...], Row]:
    """The rows of earlier runs, the last one of each run. A line that a kill cut short is taken off the file."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    os.truncate(path, len(whole))
    rows = [json.loads(line) for line in whole.splitlines()]
    return {run_key(row): row for row in rows}


def vw_build() -> str:
    """Tells one build of the program from another: its version does not change while it is worked on."""
    return hashlib.sha256(VW.read_bytes()).hexdigest()[:12]


def planned(datasets: Sequence[Dataset], algorithms: dict[str, str], options: argparse.Namespace) -> list[Row]:
    """Everything known about each run before it starts; the runs on one file are neighbours."""
    build = vw_build()
    return [
        {
            "dataset": d.did,
            "name": d.name,
            "rows": d.rows,
            "actions": d.actions,
            "features": d.features,
            "algorithm": algorithm,
            "flags": flags,
            "permutation": permutation,
            "seed": options.seed,
            "feature_names": options.feature_names,
            "vw": build,
        }
        for d in datasets
        for permutation in range(options.permutations)
        for algorithm, flags in algorithms.items()
    ]


def run_missing(plan: Sequence[Row], datasets: Sequence[Dataset], options: argparse.Namespace) -> list[Row]:
    """Runs what has no result yet; the rows of the whole plan."""
    path = options.out / "runs.jsonl"
    rows = read_rows(path)
    missing = [p for p in plan if run_key(p) not in rows or rows[run_key(p)]["error"]]
    by_id = {d.did: d for d in datasets}

    def tasks() -> Iterator[Any]:
        written, lines = None, []
        for identity in missing:
            data = (identity["dataset"], identity["permutation"])
            if data != written:
                seed = [options.seed, identity["permutation"]]
                written, lines = data, to_vw(by_id[identity["dataset"]], seed, options.feature_names)
            yield delayed(run)(identity, lines, options.timeout)

    # Threads: the work is done by vw, in processes of its own.
    finished = Parallel(n_jobs=options.jobs, backend="threading", return_as="generator_unordered")(tasks())
    with path.open("a") as file:
        for row in tqdm(finished, total=len(plan), initial=len(plan) - len(missing), unit="run"):
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows[run_key(row)] = row
    return [{**rows[run_key(p)], "algorithm": p["algorithm"]} for p in plan]


def choose_datasets(options: argparse.Namespace) -> tuple[list[Dataset], LeftOut]:
    """The data sets to run on, and those left out for their size or because they do not load."""
    small = {d.did: d for d in builtin()}
    wanted = options.datasets or available()
    if not wanted:
        print(
            f"No data in {CACHE_VARIABLE} ({os.environ.get(CACHE_VARIABLE, 'not set')}): scikit-learn's sets instead."
        )
        wanted = list(small)
    chosen: list[Dataset] = []
    left_out: LeftOut = {}
    for did in wanted:
        try:
            dataset = small[did] if did in small else load(did)
        except Exception as error:  # whatever is wrong with one set, the others can run
            left_out.setdefault(f"does not load: {error}", []).append(str(did))
            continue
        if dataset.rows > options.max_rows:
            left_out.setdefault(f"more than {options.max_rows} rows", []).append(str(did))
        elif dataset.features > options.max_features:
            left_out.setdefault(f"more than {options.max_features} features", []).append(str(did))
        else:
            chosen.append(dataset)
    return chosen, left_out


def complete_losses(rows: Sequence[Row]) -> tuple[pd.DataFrame, LeftOut]:
    """Losses by data set and algorithm, the mean over permutations, without gaps; and what failures leave out:
    an algorithm that has failed everywhere, then each data set on which one of the others has failed."""
    frame = pd.DataFrame(rows)
    failed_everywhere = set(frame["algorithm"]) - set(frame.loc[frame["error"].isna(), "algorithm"])
    left_out: LeftOut = {}
    for _, row in frame[frame["error"].notna()].iterrows():
        if row["algorithm"] in failed_everywhere:
            what = f"{row['algorithm']} (everywhere)"
        else:
            what = f"data set {row['dataset']} ({row['algorithm']})"
        names = left_out.setdefault(row["error"], [])
        if what not in names:
            names.append(what)
    frame = frame[~frame["algorithm"].isin(failed_everywhere)]
    frame = frame[~frame["dataset"].isin(frame.loc[frame["error"].notna(), "dataset"])]
    losses = frame.astype({"pv_loss": float}).pivot_table("pv_loss", "dataset", "algorithm", sort=False)
    return losses.round(12), left_out  # rounded: the same losses summed in another order must tie


def summarise(losses: pd.DataFrame, algorithms: dict[str, str], reference: str) -> pd.DataFrame:
    summary = pd.DataFrame({"flags": pd.Series(algorithms), "mean_pv_loss": losses.mean(), "rank": mean_ranks(losses)})
    summary = summary.loc[losses.columns].join(against(losses, reference).astype({"better": "Int64"}))
    return summary.astype({"equal": "Int64", "worse": "Int64"}).sort_values("rank").rename_axis("algorithm")


def report(summary: pd.DataFrame, losses: pd.DataFrame, rows: Sequence[Row], reference: str, left_out: LeftOut) -> str:
    """The summary in words and as a table, in Markdown."""
    builds = sorted({row["vw"] for row in rows if not row["error"]})
    text = [
        "# Explorers at their default settings",
        "",
        f"Progressive validation loss on {len(losses)} data sets, with {rows[0]['feature_names']} feature names. "
        f"Permutations of the rows of each: {len({row['permutation'] for row in rows})}, seed {rows[0]['seed']}. "
        f"Build of vw: {', '.join(builds)}.",
        f"Friedman test over all algorithms: p = {friedman(losses):.2g}. Nemenyi critical difference of average ranks "
        f"(0.05): {critical_difference(losses):.2f}.",
        "",
        f"Better, equal, worse: the number of data sets on which the algorithm's mean loss is below, equal to, above "
        f"that of {reference}. p: Wilcoxon signed-rank test of the algorithm against {reference}; Holm: corrected for "
        f"the number of comparisons.",
        "",
        "| algorithm | flags | mean PV loss | average rank | better | equal | worse | p | p (Holm) |",
        "| :-- | :-- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for name, s in summary.iterrows():
        versus = [f"{s[c]}" for c in ("better", "equal", "worse")] + [f"{s[c]:.2g}" for c in ("p", "p_holm")]
        versus = ["", "", "", "", ""] if name == reference else versus
        flags = f"`{s['flags']}`" if s["flags"] else ""
        text.append(
            "| " + " | ".join([str(name), flags, f"{s['mean_pv_loss']:.4f}", f"{s['rank']:.2f}", *versus]) + " |"
        )
    if reference != OURS and reference == summary.index[0]:
        text += ["", f"Careful: {reference} is the best of these very results, which flatters its p-values."]
    if builds != [vw_build()]:
        text += [
            "",
            f"Careful: vw is now {vw_build()}, not that of all these runs. Give another --out to start afresh.",
        ]
    if left_out:
        text += ["", "Left out:", ""]
        text += [f"- {reason}: {', '.join(names)}" for reason, names in left_out.items()]
    return "\n".join(text) + "\n"


def variant(text: str) -> tuple[str, str]:
    """NAME=FLAGS, where NAME may hold = too: the flags start at the first =-."""
    name, separator, flags = text.partition("=-")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FLAGS, with FLAGS starting with -")
    return name, " ".join(f"-{flags}".split())


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare_defaults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--datasets",
        nargs="+",
        type=lambda text: int(text) if text.isdigit() else text,
        metavar="ID",
        help="OpenML ids, or names of scikit-learn's sets (default: all cached)",
    )
    add("--max-rows", type=int, default=6000, metavar="N", help="leave out sets with more rows (default: %(default)s)")
    add("--max-features", type=int, default=1000, metavar="N", help="or with more features (default: %(default)s)")
    add(
        "--feature-names",
        choices=["distinct", "published"],
        default="distinct",
        help="name features f0, f1, ..., or 0, 1, ... as published, which makes --cbify merge neighbours",
    )
    add(
        "--algorithms",
        nargs="*",
        choices=ALGORITHMS,
        default=list(ALGORITHMS),
        metavar="NAME",
        help=f"of {', '.join(ALGORITHMS)} (default: all)",
    )
    add(
        "--variant",
        action="append",
        type=variant,
        default=[],
        metavar="NAME=FLAGS",
        dest="variants",
        help="one more algorithm, for instance 'OPO eta=100=--opo_cmab --opo_eta 100'; can be repeated",
    )
    add("--reference", metavar="NAME", help=f"compare with this one (default: {OURS}, else the best average rank)")
    add(
        "--permutations", type=int, default=3, metavar="N", help="orders of the rows of each set (default: %(default)s)"
    )
    add("--seed", type=int, default=0, metavar="N", help="of the permutations (default: %(default)s)")
    add("--jobs", type=int, default=os.cpu_count(), metavar="N", help="runs at a time (default: the number of cores)")
    add(
        "--timeout", type=float, default=3600, metavar="SECONDS", help="give up a run after this (default: %(default)s)"
    )
    add("--out", type=Path, default=Path("results/defaults"), metavar="DIR", help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    names = [*options.algorithms, *(name for name, _ in options.variants)]
    if len(names) < 2 or len(names) > len(set(names)):
        parser.error("give at least two algorithms and variants, each with a name of its own")
    if options.reference and options.reference not in names:
        parser.error(f"--reference {options.reference} is not among {', '.join(names)}")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    algorithms = {name: ALGORITHMS[name] for name in options.algorithms} | dict(options.variants)
    options.out.mkdir(parents=True, exist_ok=True)
    datasets, left_out = choose_datasets(options)
    if not datasets:
        sys.exit(f"No data set to run on: {left_out}")
    rows = run_missing(planned(datasets, algorithms, options), datasets, options)
    losses, failed = complete_losses(rows)
    if losses.shape[1] < 2:
        sys.exit(f"Nothing to compare: {failed}")
    default = OURS if OURS in losses else mean_ranks(losses).idxmin()
    reference = options.reference if options.reference in losses else default
    summary = summarise(losses, algorithms, reference)
    summary.to_csv(options.out / "summary.csv")
    text = report(summary, losses, rows, reference, left_out | failed)
    (options.out / "summary.md").write_text(text)
    plot_ranks(losses, options.out / "ranks.svg")
    print(text)


if __name__ == "__main__":
    main()
