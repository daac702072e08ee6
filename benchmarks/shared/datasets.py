"""Classification data sets, from OpenML (its local cache, then its server) or scikit-learn, and their text for VW.

A set becomes bandit rounds by ``vw --cbify K``: the features are the context, the classes are the actions.
As in the bake-off of Bietti, Agarwal and Langford, nominal features are integer codes and missing values are 0.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from tqdm import tqdm

CACHE_VARIABLE = "OPENML_CACHE_DIR"
FeatureNames = Literal["distinct", "published"]
Id = int | str  # OpenML's id, or scikit-learn's name
LeftOut = dict[str, list[str]]  # for each reason: what it keeps out of a comparison

# The three sets whose curves the paper shows come first.
PAPER = (1084, 1062, 1015, 339, 346, 457, 476, 729, 785, 835, 848, 874, 905, 928, 964, 1006, 1012, 1073)
# 200 of the 528 sets of the bake-off (Bietti, Agarwal and Langford): those that could be had without OpenML's server.
BAKEOFF = tuple(map(int, (Path(__file__).parent / "bakeoff_ids.txt").read_text().split()))
# Every second set, from the first on, may choose defaults; the others report (docs/online.md).
BAKEOFF_HALVES = {"choose": BAKEOFF[::2], "report": BAKEOFF[1::2]}
_LOADERS = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer, "digits": load_digits}
BUILTIN = tuple(_LOADERS)


@dataclass(frozen=True)
class Dataset:
    did: Id
    name: str
    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.int64]  # 1..actions
    feature_names: tuple[str, ...]

    @property
    def rows(self) -> int:
        return len(self.y)

    @property
    def features(self) -> int:
        return len(self.feature_names)

    @property
    def actions(self) -> int:
        return int(self.y.max())


@cache
def _openml() -> Any:
    import openml  # takes seconds, and not everyone needs it

    return openml


def _cache() -> Path:
    openml = _openml()
    if root := os.environ.get(CACHE_VARIABLE):
        openml.config.set_root_cache_directory(root)  # openml itself reads the variable only when imported
    return Path(openml.config.get_cache_directory()) / "datasets"


def available() -> list[int]:
    """The ids of the sets in OpenML's local cache, in order."""
    return sorted(int(path.parent.name) for path in _cache().glob("*/dataset.arff"))


@cache
def _server_fault(server: str) -> str | None:
    """Why OpenML's server cannot be reached, or None. One short attempt for all sets: openml itself would try for
    minutes on each set."""
    import requests

    try:
        requests.head(server, timeout=5)
    except requests.RequestException as error:
        return type(error).__name__
    return None


def load(did: int) -> Dataset:
    """One set of OpenML, from its cache or else from its server.

    The cache must be writable: openml keeps pickles in it, and deletes an entry that it fails to load.
    """
    openml = _openml()
    if did not in available() and (fault := _server_fault(openml.config.server)):
        raise FileNotFoundError(f"not in the OpenML cache, and OpenML's server cannot be reached ({fault})")
    entry: Any = openml.datasets.get_dataset(did, download_data=True)
    table, target, _, _ = entry.get_data(target=entry.default_target_attribute, dataset_format="dataframe")
    # Declared classes without a row are left out: each would be an action that is always wrong.
    classes = target.astype("category").cat.remove_unused_categories()
    columns = [_numbers(table[name]) for name in table.columns]
    return Dataset(did, entry.name, np.column_stack(columns), classes.cat.codes.to_numpy(np.int64) + 1, tuple(table))


def _numbers(column: pd.Series) -> npt.NDArray[np.float64]:
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        column = column.astype("category").cat.codes.replace(-1, 0)  # -1 is missing
    numbers: npt.NDArray[np.float64] = column.to_numpy(np.float64, na_value=np.nan)
    return np.nan_to_num(numbers, nan=0.0)


def builtin() -> list[Dataset]:
    """The sets that come with scikit-learn, in case none from OpenML is available."""
    sets = {name: loader() for name, loader in _LOADERS.items()}
    return [
        Dataset(name, name, b.data, b.target.astype(np.int64) + 1, tuple(b.feature_names)) for name, b in sets.items()
    ]


def choose(wanted: Sequence[Id], max_rows: int) -> tuple[list[Dataset], LeftOut]:
    """The data sets to run on, and for each reason those that are left out."""
    small = {d.did: d for d in builtin()}
    chosen: list[Dataset] = []
    left_out: LeftOut = {}
    for did in tqdm(wanted, desc="loading", unit="set", leave=False):
        try:
            dataset = small[did] if did in small else load(int(did))
        except Exception as error:  # whatever is wrong with one set, the others can run
            left_out.setdefault(f"cannot be had: {error}", []).append(str(did))
            continue
        if dataset.rows > max_rows:
            left_out.setdefault(f"more than {max_rows} rows", []).append(str(did))
        else:
            chosen.append(dataset)
    return chosen, left_out


def to_vw(
    dataset: Dataset, permutation_seed: int | Sequence[int], feature_names: FeatureNames = "distinct"
) -> list[str]:
    """VW's multiclass lines, the rows permuted, zeros left out.

    The order of the rows is the only source of variation under --cbify: its sampling ignores --random_seed.
    Names are ``f0``, ``f1``, ... because --cbify clears the low bits of a feature's index, so that neighbours among
    the ``published`` names, the integers 0, 1, ..., share a weight.
    """
    prefix = "f" if feature_names == "distinct" else ""

    def line(row: int) -> str:
        x = dataset.X[row]
        features = " ".join(f"{prefix}{i}:{x[i]:.9g}" for i in np.flatnonzero(x))
        return f"{dataset.y[row]} | {features}"

    order = np.random.default_rng(permutation_seed).permutation(dataset.rows)
    return [line(row) for row in order]
