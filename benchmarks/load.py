"""A daemon under load: `vw --daemon` with --opo_cmab, clients over the loopback interface, SquareCB beside it.

Learning: one child, clients in turn, each answer compared with an offline run of the requests in the order served. In
the middle the model is saved by VW's save command; the daemon goes on, is killed with SIGKILL, and a new one starts
from the file: nothing that was saved may be lost. Predicting (-t): several children, all clients at once. A request
waits for the answer to the one before it, so the latency is what a caller sees. Results: OUT/load.md and OUT/load.csv.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.program import Row, make_parser, table, where, write
from benchmarks.speed import run_vw
from benchmarks.vw import VW

EXPLORERS = {"SquareCB": "--squarecb", "OPO-CMAB, budget 64": "--opo_cmab --opo_budget 64"}
COMMON = "--cb_explore_adf -q ua"
CLIENTS = 4
TURN = 250  # requests of a client before it is the next one's turn
TIMEOUT = 60.0


class Served(NamedTuple):
    answer: str
    seconds: float  # that the client waited


def requests(n: int, labels: bool = True, actions: int = 5, seed: int = 0) -> Iterator[str]:
    """Rounds in VW's text format: 4 features of the context, 5 actions of 3 features each, a logged cost."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(actions, 4))
    for _ in range(n):
        context = rng.uniform(-1, 1, size=4).round(3)
        features = rng.uniform(size=(actions, 2)).round(3)
        chosen = rng.integers(actions)
        cost = 1 / (1 + np.exp(-hidden[chosen] @ context - rng.normal() / 2))
        lines = ["shared |u " + " ".join(f"u{i}:{v}" for i, v in enumerate(context))]
        for a, (x, y) in enumerate(features):
            label = f"{a}:{cost:.3f}:{1 / actions} " if labels and a == chosen else ""
            lines.append(f"{label}|a id{a} x:{x} y:{y}")
        yield "\n".join(lines) + "\n\n"


class Client:
    """A connection to a daemon. An answer is a line, and an empty one after it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("r")

    def send(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def ask(self, request: str) -> str:
        self.send(request)
        answer, end = self._answers.readline(), self._answers.readline()
        if not answer.strip() or end != "\n":
            raise RuntimeError(f"the daemon's answer is cut short: {answer!r}")
        return answer.rstrip("\n")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


class Daemon:
    """`vw --daemon` in the foreground of a process group of its own."""

    def __init__(self, arguments: str, program: Path = VW) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process = subprocess.Popen(
            [program, "--daemon", "--foreground", "--port", str(self.port), "--quiet", *arguments.split()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                Client(self.port).close()
                return
            except ConnectionRefusedError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the daemon does not answer") from None
                time.sleep(0.02)

    def kill(self) -> None:
        """All of its processes, with no chance to save anything."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(TIMEOUT)

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def serve(daemon: Daemon, texts: Sequence[str]) -> list[Served]:
    """One client's requests, one after the other over one connection."""
    served = []
    client = Client(daemon.port)
    for text in texts:
        start = time.perf_counter()
        answer = client.ask(text)
        served.append(Served(answer, time.perf_counter() - start))
    client.close()
    return served


def in_turn(daemon: Daemon, texts: Sequence[str]) -> list[Served]:
    """A child of the daemon serves one connection until it is closed: client after client has its turn."""
    turns = (texts[first : first + TURN] for first in range(0, len(texts), TURN))
    return [served for turn in turns for served in serve(daemon, turn)]


def at_once(daemon: Daemon, texts: Sequence[str]) -> list[Served]:
    """All clients at the same time, each with its share of the requests."""
    share = -(-len(texts) // CLIENTS)
    shares = [texts[first : first + share] for first in range(0, len(texts), share)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        return [served for part in pool.map(partial(serve, daemon), shares) for served in part]


def save(daemon: Daemon, path: Path) -> None:
    """By VW's save command: it writes to another name, then renames."""
    client = Client(daemon.port)
    client.send(f"save_{path}\n\n")
    client.close()
    deadline = time.monotonic() + TIMEOUT
    while not path.exists():
        if time.monotonic() > deadline:
            raise RuntimeError("the daemon does not save")
        time.sleep(0.02)


def offline(arguments: str, texts: Sequence[str], directory: Path) -> list[str]:
    """What `vw` answers to the requests in a file."""
    data, out = directory / "requests.txt", directory / "answers.txt"
    data.write_text("".join(texts))
    run_vw(f"-d {data} {arguments} -p {out}")
    return [line for line in out.read_text().splitlines() if line]


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
    expected = offline(f"{arguments} -f {model}", texts, directory)
    if different(lost, expected[middle : middle + TURN]):
        raise RuntimeError(f"{explorer}: saving has changed the answers of the daemon that went on")
    return figures("learning", explorer, served, expected, sum(s.seconds for s in served)), model


def predicting(explorer: str, model: Path, texts: Sequence[str], directory: Path) -> Row:
    """All clients at once, as many children."""
    with Daemon(f"-i {model} -t --num_children {CLIENTS}") as daemon:
        start = time.perf_counter()
        served = at_once(daemon, texts)
        seconds = time.perf_counter() - start
    return figures("predicting", explorer, served, offline(f"-i {model} -t", texts, directory), seconds)


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
        *table(
            ["", "explorer", "requests", "answers other than offline", "p50 ms", "p99 ms", "requests a second"],
            [
                [
                    *[r["part"], r["explorer"], f"{r['requests']:,}", f"{r['different']}"],
                    *[f"{r['p50_ms']:.3f}", f"{r['p99_ms']:.3f}", f"{r['per_second']:,.0f}"],
                ]
                for r in rows
            ],
        ),
    ]
    return "\n".join(text) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("load", __doc__)
    parser.add_argument("--requests", type=int, default=100_000, metavar="N", help="(default: %(default)s)")
    options = parser.parse_args(arguments)
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
