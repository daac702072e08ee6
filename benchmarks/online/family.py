"""What the families of online problems are made of: ranges of parameters, and pieces of contexts, actions and costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.bandit import Array, Problem

Params = dict[str, Any]
#: How a parameter is drawn: from whole numbers or numbers between two, ends included; each of a list; else a constant.
Range = tuple[int, int] | tuple[float, float] | list["Range"] | int | bool


def one_hot(values: NDArray[np.int64], count: int) -> Array:
    return np.eye(count)[values]


def dense_lines(tag: str, name: str, x: Array) -> list[str]:
    return [f"{tag} " + " ".join(f"{name}{i}:{v:.6f}" for i, v in enumerate(row)) for row in x]


def fixed_actions(count: int, rounds: int) -> list[list[str]]:
    lines = [f"|A article={a}" for a in range(count)]
    return [lines] * rounds


def clicked(rng: np.random.Generator, rates: Array) -> Array:
    """Costs of clicks that come at these rates: -1 for a click, else 0."""
    return np.where(rng.uniform(size=rates.shape) < rates, -1.0, 0.0)


def _draw(rng: np.random.Generator, choice: Range) -> Any:
    if isinstance(choice, list):
        return [_draw(rng, each) for each in choice]
    if not isinstance(choice, tuple):
        return choice
    low, high = choice
    if isinstance(low, int) and isinstance(high, int):
        return int(rng.integers(low, high + 1))
    return round(float(rng.uniform(low, high)), 3)


def _described(choice: Range) -> str:
    if isinstance(choice, list):
        return f"[{', '.join(map(_described, choice))}]"
    return " to ".join(map(str, choice)) if isinstance(choice, tuple) else str(choice)


@dataclass(frozen=True)
class Family:
    title: str
    make: Callable[..., Problem]
    ranges: Mapping[str, Range]
    other_unit: bool = False  # costs go beyond [-1, 1]

    def draw(self, rng: np.random.Generator) -> Params:
        return {name: _draw(rng, choice) for name, choice in self.ranges.items()}

    def described(self) -> str:
        """The ranges, for tables: users 4 to 8, best 0.5 to 0.65, ..."""
        return ", ".join(f"{name} {_described(choice)}" for name, choice in self.ranges.items())
