"""A daemon under load: `vw --daemon` with --opo_cmab, clients over the loopback interface, SquareCB beside it.

Learning: one child, clients in turn, each answer compared with an offline run of the requests in the order served. In
the middle the model is saved by VW's save command; the daemon continues, is killed with SIGKILL, and a new one starts
from the file: nothing saved may be lost. Predicting (-t): several children, all clients at once. A request
waits for the answer to the one before it, so the latency is what a caller sees. Results: OUT/load.md and OUT/load.csv.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from opo_cmab.compare.rows import Row

from benchmarks.shared.daemon import TURN, Daemon, Served, in_turn, offline, requests, save, serve
from benchmarks.shared.program import count, directory, parse, where, write
from benchmarks.shared.tables import markdown_of

EXPLORERS = {"SquareCB": "--squarecb", "OPO-CMAB": "--opo_cmab"}
COMMON = "--cb_explore_adf -q ua"
CLIENTS = 4


def at_once(daemon: Daemon, texts: Sequence[str]) -> list[Served]:
    """All clients at the same time, each with its share of the requests."""
    share = -(-len(texts) // CLIENTS)
    shares = [texts[first : first + share] for first in range(0, len(texts), share)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        return [served for part in pool.map(partial(serve, daemon), shares) for served in part]


def offline_answers(arguments: str, texts: Sequence[str], directory: Path) -> list[str]:
    return [line for line in offline(arguments, texts, directory).read_text().splitlines() if line]


def different(served: Sequence[Served], expected: Sequence[str]) -> int:
    return sum(s.answer != e for s, e in zip(served, expected, strict=True))


def figures(part: str, explorer: str, served: Sequence[Served], expected: Sequence[str], seconds: float) -> Row:
    p50, p99 = np.quantile([s.seconds for s in served], [0.5, 0.99])
    return {
        "part": part,
        "explorer": explorer,
        "requests": len(expected),
        "different": different(served, expected),
        "p50_ms": 1e3 * p50,
        "p99_ms": 1e3 * p99,
        "per_second": len(expected) / seconds,
    }


def learning(explorer: str, texts: Sequence[str], directory: Path) -> tuple[Row, Path]:
    """Clients in turn; a save, a kill and a new start in the middle; the figures, and the model of all requests."""
    arguments = f"{COMMON} {EXPLORERS[explorer]}"
    middle, saved, model = len(texts) // 2, directory / "saved", directory / "model"
    with Daemon(f"{arguments} --num_children 1") as daemon:
        served = in_turn(daemon, texts[:middle])
        save(daemon, saved)
        lost = in_turn(daemon, texts[middle : middle + TURN])  # learnt after the save, and lost with the daemon
    with Daemon(f"-i {saved} --num_children 1") as daemon:
        served += in_turn(daemon, texts[middle:])
    expected = offline_answers(f"{arguments} -f {model}", texts, directory)
    if different(lost, expected[middle : middle + TURN]):
        raise RuntimeError(f"{explorer}: saving changed the answers of the running daemon")
    return figures("learning", explorer, served, expected, sum(s.seconds for s in served)), model


def predicting(explorer: str, model: Path, texts: Sequence[str], directory: Path) -> Row:
    """All clients at once, as many children."""
    with Daemon(f"-i {model} -t --num_children {CLIENTS}") as daemon:
        start = time.perf_counter()
        served = at_once(daemon, texts)
        seconds = time.perf_counter() - start
    return figures("predicting", explorer, served, offline_answers(f"-i {model} -t", texts, directory), seconds)


def report(rows: Sequence[Row], place: Row) -> str:
    """The results in Markdown."""
    text = [
        "# A daemon under load",
        "",
        f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}. "
        "`python -m benchmarks.load`; the clients, in Python, share the cores with the daemon.",
        "",
        f"Learning: `--num_children 1`, {CLIENTS} clients in turn, {TURN} requests a turn; in the middle the model is "
        "saved by VW's save command, the daemon killed (SIGKILL) after more requests, and a new one started from the "
        f"file. Predicting: `-t --num_children {CLIENTS}`, {CLIENTS} clients at once. A request is a round of 5 "
        "actions with 4 + 3 features and their interactions, and waits for the answer to the one before it.",
        "",
        *markdown_of(
            rows,
            {
                "": "{part}",
                "explorer": "{explorer}",
                "requests": "{requests:,}",
                "answers other than offline": "{different}",
                "p50 ms": "{p50_ms:.3f}",
                "p99 ms": "{p99_ms:.3f}",
                "requests a second": "{per_second:,.0f}",
            },
        ),
    ]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Options:
    requests: int = count(100_000)
    out: Path = directory("load")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "load", __doc__, arguments)
    place = where()
    labelled = list(requests(options.requests))
    unlabelled = list(requests(options.requests, labels=False, seed=1))
    rows = []
    for explorer in EXPLORERS:
        with TemporaryDirectory() as temporary:
            row, model = learning(explorer, labelled, Path(temporary))
            rows += [row, predicting(explorer, model, unlabelled, Path(temporary))]
    write("load", pd.DataFrame(rows).assign(**place), report(rows, place), options.out)


if __name__ == "__main__":
    main()
