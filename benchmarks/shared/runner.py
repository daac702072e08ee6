"""Runs what is planned and not yet done, on all cores or on a Dask cluster, and saves each result at once."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import psutil
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from opo_cmab.compare.rows import Key, Row, Rows
from opo_cmab.compare.runs import leave_with_parent
from tqdm import tqdm

from benchmarks.shared.vw import versions

Task = tuple[Any, ...]  # what a run is given; first of all its identity, a row
Run = Callable[..., Row]  # an identity and more to the row of a finished run, with its error or none
Planned = TypeVar("Planned")


@dataclass(frozen=True)
class Workers:
    """Runs in local processes or on a Dask cluster."""

    jobs: int
    scheduler: str | None = None

    @contextmanager
    def connected(self) -> Iterator[None]:
        if self.scheduler is None:
            with parallel_config(backend="loky", initializer=leave_with_parent):
                yield
            return
        from distributed import Client  # takes a second, and not everyone needs it

        with Client(self.scheduler) as client, parallel_config(backend="dask"):  # joblib takes the client that is open
            try:  # a scheduler that cannot read the tasks says so in its own log only, and this would wait for ever
                client.run_on_scheduler(import_module, __name__)
                client.run(import_module, __name__)
            except ImportError as error:
                raise RuntimeError(
                    "start Dask's scheduler and workers with this project on their PYTHONPATH"
                ) from error
            yield

    def finish(self, run: Run, tasks: Iterable[Task]) -> Iterator[Row]:
        with self.connected():
            parallel = Parallel(n_jobs=self.jobs, return_as="generator_unordered")
            yield from parallel(delayed(run)(*task) for task in tasks)

    def finish_one_by_one(self, run: Run, tasks: Iterable[Task]) -> Iterator[Row]:
        """After a worker has died: one run at a time, to find the run that kills it."""
        for task in tasks:
            try:
                yield from Workers(2).finish(run, [task])  # of one worker joblib makes none, and runs it here
            except TerminatedWorkerError as error:
                yield {**task[0], "error": str(error).split(".")[0], "seconds": None}


def finish_missing(
    planned: Mapping[Key, Planned],
    path: Path,
    workers: Workers,
    what: str,
    *,
    run: Run,
    key: Callable[[Row], Key],
    tasks: Callable[[Sequence[Planned]], Iterable[Task]],
) -> dict[Key, Row]:
    """Runs what is missing in the file or has failed. Returns the rows of the file, by the identity of the run."""
    rows = Rows(path, key)
    done = {k for k, row in rows.items() if row["error"] is None}
    missing = {k: order for k, order in planned.items() if k not in done}
    about = {"versions": versions()}
    with tqdm(total=len(planned), initial=len(planned) - len(missing), desc=what, unit="run") as bar:
        for finish in (workers.finish, workers.finish_one_by_one):
            try:
                for row in finish(run, tasks(list(missing.values()))):
                    rows.add(row | about)
                    del missing[key(row)]
                    bar.update()
                break
            except TerminatedWorkerError:
                bar.write("A worker process has died: the remaining runs continue one by one.")
    return rows


class Meter:
    """How long a block took and the most memory that this process and its workers held, looked at twice a second."""

    def __enter__(self) -> "Meter":
        self._start = time.monotonic()
        self._stop = Event()
        self._peak = 0
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.seconds = time.monotonic() - self._start
        self.peak_mb = self._peak / 1e6

    def _watch(self) -> None:
        this = psutil.Process()
        while True:
            total = 0
            for process in [this, *this.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self._peak = max(self._peak, total)
            if self._stop.wait(0.5):
                return
