"""The runs of a comparison: VW over one data set, its rows permuted.

Data, command, seed and the build of vw identify a run: a killed comparison resumes, runs that differ only in name are
not repeated, and those of another build are not mixed in.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opo_cmab.compare.rows import Key, Row

from benchmarks.comparison.algorithms import ALGORITHMS, Params
from benchmarks.shared.datasets import Dataset, FeatureNames, to_vw
from benchmarks.shared.runner import Workers, finish_missing
from benchmarks.shared.vw import round_losses, vw_build

TUNING = 1_000_000  # the permutation on which settings are chosen; those that are reported count from 0
NO_RESULT: Row = {"pv_loss": None, "losses": None}


@dataclass(frozen=True)
class Order:
    """The input of a run."""

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
            "build": vw_build(),
        }


def key(row: Row) -> Key:
    """The identity of a run."""
    # Files of earlier versions do not have the build.
    return tuple(row.get(field) for field in ("dataset", "feature_names", "command", "permutation", "seed", "build"))


def run(identity: Row, text: str) -> Row:
    """One run: the loss of each round, or the error."""
    start = time.perf_counter()
    result: Row = {**NO_RESULT, "error": None}
    try:
        losses = round_losses(identity["command"], text)
        result |= {"pv_loss": losses.count("1") / len(losses), "losses": losses}
    except Exception as error:  # whatever is wrong with one run, the others continue
        result["error"] = f"{type(error).__name__}: {error}"
    return {**identity, **result, "seconds": round(time.perf_counter() - start, 4)}


def _with_data(orders: Sequence[Order]) -> Iterator[tuple[Row, str]]:
    """Identity and data of each run; the data of neighbours on one file are written once."""
    written, text = None, ""
    for order in orders:
        data = (order.dataset.did, order.seed, order.permutation, order.feature_names)
        if data != written:
            lines = to_vw(order.dataset, [order.seed, order.permutation], order.feature_names)
            written, text = data, "\n".join(lines) + "\n"
        yield order.identity(), text


def run_missing(orders: Sequence[Order], path: Path, workers: Workers, what: str) -> list[Row]:
    """The rows of all orders, in their order."""
    keys = [key(order.identity()) for order in orders]
    planned = dict(zip(keys, orders, strict=True))
    rows = finish_missing(planned, path, workers, what, run=run, key=key, tasks=_with_data)
    return [NO_RESULT | rows[k] | {"algorithm": order.algorithm} for order, k in zip(orders, keys, strict=True)]
