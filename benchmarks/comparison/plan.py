"""What a comparison runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.comparison.algorithms import ALGORITHMS, TUNED
from benchmarks.shared.datasets import BAKEOFF, BUILTIN, PAPER, FeatureNames, Id


@dataclass(frozen=True)
class Suite:
    """Data sets, and the default runs on them."""

    title: str
    datasets: tuple[Id, ...]
    algorithms: tuple[str, ...]
    params: str
    permutations: int


SUITES: Mapping[str, Suite] = MappingProxyType(
    {
        "paper": Suite("The paper's comparison, run again", PAPER, TUNED, "tuned", 10),
        "bakeoff": Suite("Explorers on the bake-off's data sets", BAKEOFF, tuple(ALGORITHMS), "default", 3),
        "builtin": Suite("Explorers on scikit-learn's data sets", BUILTIN, TUNED, "tuned", 10),
    }
)


@dataclass(frozen=True)
class Plan:
    """Everything that is run."""

    suite: str
    algorithms: tuple[str, ...]
    params: str
    permutations: int
    seed: int
    feature_names: FeatureNames
    out: Path
