"""Explorers on online problems with exact regret: VW's at their defaults, and peers from their own packages.

The problems belong to families (docs/online.md): sixteen, more with many features, and real data with full
information. Each seed draws the parameters of its problem at random. Defaults are chosen on the problems of the split
"choose", and reported on those of "report". The measure is the regret share: 0 is perfect, 1 is playing at random.

Results, in OUT: online.md, online.csv, online.tex and online.svg, and its data, online-curves.csv;
by_family.csv and .tex; runs.jsonl, a line for each finished run. After a kill, the same command resumes.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.online import report, simulate
from benchmarks.online.explorers import MAPPED_EXPLORERS, PEERS, VW_EXPLORERS, engine
from benchmarks.online.problems import FAMILIES, FAMILY_GROUPS, SPLITS, Split
from benchmarks.shared.program import count, option, parse, processes, where
from benchmarks.shared.runner import Workers
from benchmarks.shared.tables import write as write_table

GROUPS = {"vw": tuple(VW_EXPLORERS), "mapped": tuple(MAPPED_EXPLORERS), "peers": tuple(PEERS)}
DEFAULT = ("vw", "peers")


def describe() -> str:
    """The choices, for --list."""
    text = []
    for group, families in FAMILY_GROUPS.items():
        text += [f"families, {group}:"]
        text += [f"  {name:16} {FAMILIES[name].title}" for name in families]
    for group, names in GROUPS.items():
        text += [f"explorers, {group}:"]
        text += [f"  {name:40} {(VW_EXPLORERS | MAPPED_EXPLORERS).get(name, '')}" for name in names]
    return "\n".join(text)


def named_flags(text: str) -> tuple[str, str]:
    name, equals, flags = text.partition("=")
    if not (equals and name.strip()):
        raise argparse.ArgumentTypeError(f"not of the form NAME=FLAGS: {text!r}")
    return name.strip(), flags.strip()


def choose_explorers(wanted: Sequence[str], extra: dict[str, str]) -> tuple[dict[str, str | None], list[str]]:
    """VW's flags by name, None for a peer; and the peers whose package is not installed."""
    flags: dict[str, str | None] = {**VW_EXPLORERS, **MAPPED_EXPLORERS, **dict.fromkeys(PEERS), **extra}
    names = [name for entry in [*wanted, *extra] for name in GROUPS.get(entry, (entry,))]
    missing = [name for name in names if flags[name] is None and engine(PEERS[name].package) is None]
    return {name: flags[name] for name in names if name not in missing}, missing


@dataclass(frozen=True)
class Options:
    split: Split = option(
        "choose", "which problems: those that may choose defaults, or those that report them", choices=SPLITS
    )
    families: Sequence[str] = option(
        tuple(FAMILY_GROUPS),
        f"only these: names that --list shows, or {', '.join(FAMILY_GROUPS)}",
        choices=[*FAMILY_GROUPS, *FAMILIES],
        metavar="NAME",
    )
    explorers: Sequence[str] = option(
        DEFAULT, f"only these: names that --list shows, or {', '.join(GROUPS)}", metavar="NAME"
    )
    vw_explorer: Sequence[tuple[str, str]] | None = option(
        None,
        "another explorer of VW, by its flags; {low} and {high} in them are the range of the problem's costs",
        action="append",
        type=named_flags,
        metavar="NAME=FLAGS",
    )
    seeds: int = count(20, "problems of each family")
    rounds: int | None = count(None, "at most this many, for a quick try")
    jobs: int = processes()
    out: Path | None = option(None, "(default: results/online/SPLIT)", type=Path, metavar="DIR")
    list: bool = option(False, "show families and explorers, and end")

    def __post_init__(self) -> None:
        known, extra = {*GROUPS, *VW_EXPLORERS, *MAPPED_EXPLORERS, *PEERS}, set(self.extra)
        if unknown := set(self.explorers) - known - extra:
            raise ValueError(f"no explorer is called {', '.join(sorted(unknown))}: --list shows them")
        if taken := extra & known:
            raise ValueError(f"--vw-explorer: the name is taken: {', '.join(sorted(taken))}")

    @property
    def extra(self) -> dict[str, str]:
        """The flags of --vw-explorer, by name."""
        return dict(self.vw_explorer or ())


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "online", __doc__, arguments)
    if options.list:
        print(describe())
        return
    explorers, missing = choose_explorers(options.explorers, options.extra)
    for name in missing:
        print(f"Left out, no package {PEERS[name].package} (pip install --group peers): {name}", file=sys.stderr)
    if not explorers:
        sys.exit("No explorer is left.")
    out = options.out or Path("results/online") / options.split
    out.mkdir(parents=True, exist_ok=True)
    families = list(dict.fromkeys(f for name in options.families for f in FAMILY_GROUPS.get(name, (name,))))
    planned = simulate.plan(explorers, families, options.split, options.seeds, options.rounds)
    runs = simulate.run_missing(planned, out / "runs.jsonl", Workers(options.jobs))
    if runs["share"].isna().all():
        sys.exit("No run has succeeded:\n" + "\n".join(report.left_out(runs)))
    found = report.summary(runs)
    write_table(found, out / "online")
    write_table(report.by_family(runs), out / "by_family")
    text = report.in_markdown(runs, found, options.split, where())
    (out / "online.md").write_text(text)
    curves = report.curves(runs, found)
    curves.to_csv(out / "online-curves.csv", index=False)
    (out / "online.svg").write_text(report.picture(curves, found))
    print(text)


if __name__ == "__main__":
    main()
