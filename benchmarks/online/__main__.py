"""Explorers on online problems with exact regret: VW's at their defaults, and peers from their own packages.

Problems are of 12 families (docs/online.md), each in three variants with other parameters and seeds: defaults are
chosen on the splits "choose" and "seen", and reported on "report". The measure is regret as a share of that of playing
at random.

Results, in OUT: online.md, online.csv, online.tex and online.svg; by_family.csv and .tex; runs.jsonl, a line for each
finished run. Killed and started again, it goes on where it was.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks import tables
from benchmarks.online import report, simulate
from benchmarks.online.explorers import MAPPED_EXPLORERS, PEERS, VW_EXPLORERS, engine
from benchmarks.online.problems import FAMILIES, SPLITS
from benchmarks.program import make_parser, where
from benchmarks.runner import Workers

GROUPS = {"vw": tuple(VW_EXPLORERS), "mapped": tuple(MAPPED_EXPLORERS), "peers": tuple(PEERS)}
DEFAULT = ("vw", "peers")


def describe() -> str:
    """What there is to choose from, for --list."""
    text = ["families:"]
    text += [f"  {name:10} {family.title}" for name, family in FAMILIES.items()]
    for group, names in GROUPS.items():
        text += [f"explorers, {group}:"]
        text += [f"  {name:40} {(VW_EXPLORERS | MAPPED_EXPLORERS).get(name, '')}" for name in names]
    return "\n".join(text)


def named_flags(text: str) -> tuple[str, str]:
    name, equals, flags = text.partition("=")
    if not (equals and name.strip()):
        raise argparse.ArgumentTypeError(f"not of the form NAME=FLAGS: {text!r}")
    return name.strip(), flags.strip()


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a number from 1 up: {text!r}")
    return int(text)


def choose_explorers(wanted: Sequence[str], extra: dict[str, str]) -> tuple[dict[str, str | None], list[str]]:
    """By name: VW's flags, none for a peer; and the peers whose package is not here."""
    flags: dict[str, str | None] = {**VW_EXPLORERS, **MAPPED_EXPLORERS, **dict.fromkeys(PEERS), **extra}
    names = [name for entry in [*wanted, *extra] for name in GROUPS.get(entry, (entry,))]
    missing = [name for name in names if flags[name] is None and engine(PEERS[name].package) is None]
    return {name: flags[name] for name in names if name not in missing}, missing


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("online", __doc__, out="online/SPLIT", jobs=True)
    add = parser.add_argument
    add("--split", choices=SPLITS, default="choose", help="the variants and seeds of the problems (default: choose)")
    add("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="NAME", help="only these")
    add(
        "--explorers",
        nargs="+",
        default=list(DEFAULT),
        metavar="NAME",
        help=f"only these: names that --list shows, or {', '.join(GROUPS)} (default: {' '.join(DEFAULT)})",
    )
    add(
        "--vw-explorer",
        action="append",
        type=named_flags,
        default=[],
        metavar="NAME=FLAGS",
        help="another explorer of VW, by its flags; {low} and {high} in them are the range of the problem's costs",
    )
    add("--seeds", type=positive, default=20, metavar="N", help="problems of each family (default: %(default)s)")
    add("--rounds", type=positive, metavar="N", help="at most so many, for a try")
    add("--list", action="store_true", help="show families and explorers, and end")
    options = parser.parse_args(arguments)
    known = {*GROUPS, *VW_EXPLORERS, *MAPPED_EXPLORERS, *PEERS}
    extra = dict(options.vw_explorer)
    if unknown := set(options.explorers) - known - set(extra):
        parser.error(f"no explorer is called {', '.join(sorted(unknown))}: --list shows them")
    if taken := set(extra) & known:
        parser.error(f"--vw-explorer: the name is taken: {', '.join(sorted(taken))}")
    options.explorers = [name for name in options.explorers if name not in extra]
    options.vw_explorer = extra
    if options.out == parser.get_default("out"):
        options.out = options.out.with_name(options.split)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.list:
        print(describe())
        return
    explorers, missing = choose_explorers(options.explorers, options.vw_explorer)
    for name in missing:
        print(f"Left out, no package {PEERS[name].package} (pip install --group peers): {name}", file=sys.stderr)
    if not explorers:
        sys.exit("No explorer is left.")
    options.out.mkdir(parents=True, exist_ok=True)
    planned = simulate.plan(explorers, options.families, options.split, options.seeds, options.rounds)
    runs = simulate.run_missing(planned, options.out / "runs.jsonl", Workers(options.jobs))
    if runs["share"].isna().all():
        sys.exit("No run has succeeded:\n" + "\n".join(report.left_out(runs)))
    found = report.summary(runs)
    tables.write(found, options.out / "online")
    tables.write(report.by_family(runs), options.out / "by_family")
    text = report.in_markdown(runs, found, options.split, where())
    (options.out / "online.md").write_text(text)
    (options.out / "online.svg").write_text(report.picture(runs, found))
    print(text)


if __name__ == "__main__":
    main()
