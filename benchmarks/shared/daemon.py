"""`vw --daemon` in a process of its own, clients over the loopback interface, and requests for them."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.shared.vw import VW, run_vw

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


def offline(arguments: str, texts: Iterable[str], directory: Path) -> Path:
    """What `vw` answers to the requests in a file, a line each."""
    data, out = directory / "requests.txt", directory / "answers.txt"
    with data.open("w") as file:
        file.writelines(texts)
    run_vw(f"-d {data} {arguments} -p {out}")
    return out
