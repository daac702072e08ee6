"""One Python process that decides and learns a million times with --opo_budget: does its memory stay flat, and are its
answers those of the command line? Results: OUT/long_run.md and OUT/long_run.csv.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import opo_cmab  # noqa: F401  before vowpalwabbit
import pandas as pd
from opo_cmab.compare.rows import Row
from vowpalwabbit import Workspace

from benchmarks.shared.daemon import offline, requests
from benchmarks.shared.program import count, directory, parse, where, write
from benchmarks.shared.tables import markdown_of
from benchmarks.shared.vw import probabilities

HALF_A_DIGIT = 5.1e-7  # vw prints six digits after the point
ARGUMENTS = "--cb_explore_adf --opo_cmab --opo_budget 64 -q ua"


def memory_mb() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run(rounds: int, marks: int) -> list[Row]:
    """Predict, then learn, round by round; memory, time and answers other than the command line's, mark by mark."""
    rows = []
    with TemporaryDirectory() as temporary, offline(ARGUMENTS, requests(rounds), Path(temporary)).open() as lines:
        answers = map(probabilities, filter(str.strip, lines))
        texts = requests(rounds)
        workspace = Workspace(f"{ARGUMENTS} --quiet")
        for mark in range(1, marks + 1):
            start, different = time.perf_counter(), 0
            for text in islice(texts, rounds // marks):
                got = workspace.predict(text)
                workspace.learn(text)
                different += not np.allclose(got, next(answers), rtol=0, atol=HALF_A_DIGIT)
            rows.append(
                {
                    "learns": mark * (rounds // marks),
                    "memory_mb": memory_mb(),
                    "ms_a_round": 1e3 * (time.perf_counter() - start) / (rounds // marks),
                    "different": different,
                }
            )
        workspace.finish()
    return rows


def report(rows: Sequence[Row], place: Row) -> str:
    """The results in Markdown."""
    text = [
        "# A long run",
        "",
        f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}. "
        "`python -m benchmarks.long_run`.",
        "",
        f'`Workspace("{ARGUMENTS}")`: a prediction and a learn a round, 5 actions. Memory is that of the whole '
        "process, Python included. An answer is another if it differs by more than half of the last digit that `vw -p` "
        "prints, the sixth.",
        "",
        *markdown_of(
            rows,
            {
                "learns": "{learns:,}",
                "memory MB": "{memory_mb:.1f}",
                "ms a round": "{ms_a_round:.3f}",
                "answers other than the command line's": "{different}",
            },
        ),
    ]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Options:
    rounds: int = count(1_000_000)
    marks: int = count(10, "rows of the table")
    out: Path = directory("load")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "long_run", __doc__, arguments)
    place = where()
    rows = run(options.rounds, options.marks)
    write("long_run", pd.DataFrame(rows).assign(**place), report(rows, place), options.out)


if __name__ == "__main__":
    main()
