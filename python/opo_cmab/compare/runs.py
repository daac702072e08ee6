"""Passes over a log, here or on a Dask cluster. Each result is saved at once, so that a killed comparison resumes."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from .logs import Log, scan
from .replay import Plan, Run, replay
from .rows import Key, Row, Rows

__all__ = ["Workers", "leave_with_parent", "run_missing"]

Task = tuple[Log, Plan, int, list[str]]  # a pass over a log for explorers, given by their flags
IDENTITY = ("log", "build", "vw", "flags", "seed", "pass", "rounds", "multiplier", "share")


@cache
def build() -> str:
    """Identifies the build of the engine: the version does not change during development."""
    library = sys.modules["pylibvw"].__file__
    assert library is not None
    return hashlib.blake2b(Path(library).read_bytes(), digest_size=6).hexdigest()


def identity(log: Log, plan: Plan, number: int, flags: str) -> Row:
    """The identity of a run."""
    values = (
        log.fingerprint,
        build(),
        plan.vw,
        flags,
        plan.seed,
        number,
        plan.rounds,
        plan.multiplier,
        plan.share,
    )
    return dict(zip(IDENTITY, values, strict=True))


def run_pass(log: Log, plan: Plan, number: int, explorers: Sequence[str]) -> list[Row]:
    """A row for each explorer: its result, or the error."""
    if not log.index.exists():  # a worker on another machine, which sees the logs but not the index
        with TemporaryDirectory() as directory:
            return run_pass(scan(log.files, Path(directory) / "index"), plan, number, explorers)
    rows = []
    for flags, run in zip(explorers, replay(log, plan, number, explorers), strict=True):
        row: Row = identity(log, plan, number, flags)
        if isinstance(run, Run):
            row |= {
                "error": run.error,
                "accepted": run.accepted,
                "lines": run.lines,
                "unreadable": run.unreadable,
                "sums": run.sums,
                "accepted_sums": run.accepted_sums,
                "sample": run.sample,
                "seconds": round(run.seconds, 4),
            }
        else:
            row["error"] = run
        rows.append(row)
    return rows


def leave_with_parent() -> None:
    """In a worker: ends it if its parent is killed. Otherwise it would wait for work for ever."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class Workers:
    """Runs passes in this process, in several local processes, or on a Dask cluster."""

    jobs: int = 1
    scheduler: str | None = None

    def finish(self, tasks: Sequence[Task]) -> Iterator[list[Row]]:
        """The rows of each pass, as they come."""
        if self.scheduler is not None:
            yield from self._on_dask(tasks)
        elif self.jobs == 1 or len(tasks) == 1:
            for task in tasks:
                yield run_pass(*task)
        else:
            spawn = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(self.jobs, mp_context=spawn, initializer=leave_with_parent) as pool:
                try:
                    for done in as_completed([pool.submit(run_pass, *task) for task in tasks]):
                        yield done.result()
                except BrokenProcessPool:
                    raise RuntimeError(
                        "a worker process has died (out of memory?). Finished runs are kept in --out; resume with "
                        "--jobs 1 or fewer explorers."
                    ) from None
                finally:
                    pool.shutdown(cancel_futures=True)

    def _on_dask(self, tasks: Sequence[Task]) -> Iterator[list[Row]]:
        try:
            distributed: Any = import_module("distributed")  # takes a second, and not everyone needs it
        except ImportError:
            raise ImportError("a Dask scheduler needs Dask: pip install vw-opo-cmab[compare]") from None

        with distributed.Client(self.scheduler) as client:
            futures = [client.submit(run_pass, *task, pure=False) for task in tasks]
            for future in distributed.as_completed(futures):
                yield future.result()


def key(row: Row) -> Key:
    return tuple(row[name] for name in IDENTITY)


class _Progress:
    """Progress: on a terminal one changing line, elsewhere a line every ten seconds."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done = total, done
        self._start = self._said = time.monotonic()

    def update(self) -> None:
        self._done += 1
        now, last = time.monotonic(), self._done == self._total
        text = f"{self._done} of {self._total} passes, {now - self._start:.0f} s"
        if sys.stderr.isatty():
            print(f"\r{text}", end="\n" if last else "", file=sys.stderr, flush=True)
        elif last or now - self._said > 10:
            print(text, file=sys.stderr, flush=True)
            self._said = now


def run_missing(
    log: Log, plan: Plan, passes: int, explorers: Mapping[str, str], workers: Workers, file: Path | None, progress: bool
) -> dict[str, list[Row]]:
    """Runs what is missing in the file or has failed. Returns the rows of each explorer, one for each pass."""
    rows = Rows(file, key)
    keys = {(name, p): key(identity(log, plan, p, f)) for name, f in explorers.items() for p in range(passes)}
    tasks: list[Task] = []
    for p in range(passes):
        missing = [f for name, f in explorers.items() if rows.get(keys[name, p], {"error": ""})["error"] is not None]
        if missing:
            tasks.append((log, plan, p, list(dict.fromkeys(missing))))
    bar = _Progress(passes, passes - len(tasks)) if progress else None
    for finished in workers.finish(tasks):
        for row in finished:
            rows.add(row)
        if bar is not None:
            bar.update()
    return {name: [rows[keys[name, p]] for p in range(passes)] for name in explorers}
