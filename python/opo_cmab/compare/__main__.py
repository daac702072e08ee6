"""Which explorer on my logs? Replays a log with probabilities and estimates what each explorer would have cost.

Logs: VW's text format for --cb_explore_adf, or dsjson, plain or gz; several files are one log, in their order.
Example: python -m opo_cmab.compare log.txt --vw "-q ua" --out results
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import LogError, compare_explorers
from .explorers import EXPLORERS, MORE_EXPLORERS


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m opo_cmab.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    names = ", ".join([*EXPLORERS, *MORE_EXPLORERS])
    add("logs", nargs="+", type=Path, metavar="LOG")
    add(
        "--explorers",
        nargs="+",
        metavar="NAME",
        help=f'names ({names}) or "name=flags"; the first is the explorer in use (default: the first {len(EXPLORERS)})',
    )
    add("--vw", default="", metavar="ARGS", help='arguments for all explorers, for example --vw "-q ua"')
    add("--reference", metavar="NAME", help="the explorer in use, if not the first")
    add(
        "--rounds",
        type=int,
        metavar="N",
        help="estimate the cost of the first N rounds (default: as many as the log allows, at most 5,000)",
    )
    add("--passes", type=int, metavar="N", help="replays of the log with different random numbers (default: 10 to 40)")
    add("--seed", type=int, default=0, metavar="N", help="random seed (default: %(default)s)")
    add("--jobs", type=int, default=1, metavar="N", help="passes at a time (default: %(default)s)")
    add("--scheduler", metavar="ADDRESS", help="run on a Dask cluster: tcp://...; its workers must see the logs")
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="directory for compare.html, compare.json and runs.jsonl; the same command resumes from it",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        comparison = compare_explorers(**vars(options), progress=True)
    except (LogError, ValueError, ImportError, RuntimeError, OSError) as error:
        print(f"{'The log' if isinstance(error, LogError) else 'Error'}: {error}", file=sys.stderr)
        return 1
    print(comparison)
    if options.out is not None:
        print(f"\nThe page: {(options.out / 'compare.html').resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
