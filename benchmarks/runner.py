"""Runs what is planned and not yet done, on all cores or on a Dask cluster, and keeps each result at once.

Results are lines of JSON that are only ever appended. A run is known by its data, its command and its seed, so that a
comparison which was killed goes on where it was, and what differs only in name is not run again.
"""

import json
import os
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
from tqdm import tqdm

from benchmarks.algorithms import ALGORITHMS, Params
from benchmarks.datasets import Dataset, FeatureNames, to_vw
from benchmarks.vw import round_losses, versions

TUNING = 1_000_000  # the permutation on which settings are chosen; those that are reported count from 0

Row = dict[str, Any]
Key = tuple[Any, ...]
Task = tuple[Any, ...]  # what a run is given; first of all its identity, a row
Run = Callable[..., Row]  # an identity and more to the row of a finished run, with its error or none
Planned = TypeVar("Planned")

NO_RESULT: Row = {"pv_loss": None, "losses": None}


@dataclass(frozen=True)
class Order:
    """What a run is given, before it is known what comes of it."""

    dataset: Dataset
    algorithm: str
    params: Params
    permutation: int
    seed: int
    feature_names: FeatureNames

    def identity(self) -> Row:
        d = self.dataset
        return {
            "dataset": d.did,
            "name": d.name,
            "rows": d.rows,
            "actions": d.actions,
            "features": d.features,
            "feature_names": self.feature_names,
            "algorithm": self.algorithm,
            "params": self.params,
            "command": ALGORITHMS[self.algorithm].command(d.actions, self.params),
            "phase": "tuning" if self.permutation == TUNING else "test",
            "permutation": self.permutation,
            "seed": self.seed,
        }


def key(row: Row) -> Key:
    """What makes two runs the same."""
    return tuple(row[field] for field in ("dataset", "feature_names", "command", "permutation", "seed"))


def run(identity: Row, text: str) -> Row:
    """One run: with the loss of each round, or with the reason why there is none."""
    start = time.perf_counter()
    result: Row = {**NO_RESULT, "error": None}
    try:
        losses = round_losses(identity["command"], text)
        result |= {"pv_loss": losses.count("1") / len(losses), "losses": losses}
    except Exception as error:  # whatever is wrong with one run, the others go on
        result["error"] = f"{type(error).__name__}: {error}"
    return {**identity, **result, "seconds": round(time.perf_counter() - start, 4)}


def read_rows(path: Path, key: Callable[[Row], Key] = key) -> dict[Key, Row]:
    """The rows of earlier runs, the last one of each run. A line that a kill cut short is taken off the file."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    os.truncate(path, len(whole))
    return {key(row): row for row in map(json.loads, whole.splitlines())}


def _leave_with_parent() -> None:
    """In a worker: ends it when the process that started it is killed. joblib's would wait for more work for ever."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class Workers:
    """Where the runs are done: in processes of this machine, or on the workers of a Dask cluster."""

    jobs: int
    scheduler: str | None = None

    @contextmanager
    def connected(self) -> Iterator[None]:
        if self.scheduler is None:
            with parallel_config(backend="loky", initializer=_leave_with_parent):
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
        """For when a worker has died, and with it all that it was given: the run that kills it becomes known."""
        for task in tasks:
            try:
                yield from Workers(2).finish(run, [task])  # of one worker joblib makes none, and runs it here
            except TerminatedWorkerError as error:
                yield {**task[0], "error": str(error).split(".")[0], "seconds": None}


def _with_data(orders: Sequence[Order]) -> Iterator[tuple[Row, str]]:
    """Identity and data of each run; the data of neighbours on one file are written once."""
    written, text = None, ""
    for order in orders:
        data = (order.dataset.did, order.seed, order.permutation, order.feature_names)
        if data != written:
            lines = to_vw(order.dataset, [order.seed, order.permutation], order.feature_names)
            written, text = data, "\n".join(lines) + "\n"
        yield order.identity(), text


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
    """Runs what has no result in the file yet, or a failure; the rows of the file, by what makes a run."""
    rows = read_rows(path, key)
    done = {k for k, row in rows.items() if row["error"] is None}
    missing = {k: order for k, order in planned.items() if k not in done}
    about = {"versions": versions()}
    with (
        path.open("a") as file,
        tqdm(total=len(planned), initial=len(planned) - len(missing), desc=what, unit="run") as bar,
    ):
        for finish in (workers.finish, workers.finish_one_by_one):
            try:
                for row in finish(run, tasks(list(missing.values()))):
                    file.write(json.dumps(row | about) + "\n")
                    file.flush()
                    rows[key(row)] = row | about
                    del missing[key(row)]
                    bar.update()
                break
            except TerminatedWorkerError:
                bar.write("A worker process has died: the runs that are left go on one by one.")
    return rows


def run_missing(orders: Sequence[Order], path: Path, workers: Workers, what: str) -> list[Row]:
    """The rows of all orders, in their order."""
    keys = [key(order.identity()) for order in orders]
    planned = dict(zip(keys, orders, strict=True))
    rows = finish_missing(planned, path, workers, what, run=run, key=key, tasks=_with_data)
    return [NO_RESULT | rows[k] | {"algorithm": order.algorithm} for order, k in zip(orders, keys, strict=True)]


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
