from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

def policies(
    predictions: ArrayLike, *, eta: float, gamma: float | None = None, beta: float | None = None, decay: float = 1.0
) -> NDArray[np.float64]: ...
def policy(
    predictions: ArrayLike, *, eta: float, gamma: float | None = None, beta: float | None = None, decay: float = 1.0
) -> NDArray[np.float64]: ...
def bounded_policy(
    averages: ArrayLike,
    starts: ArrayLike,
    *,
    budget: int,
    eta: float,
    gamma: float | None = None,
    beta: float | None = None,
    decay: float = 1.0,
) -> NDArray[np.float64]: ...
def bounded_policies(
    predictions: ArrayLike,
    rows: ArrayLike,
    starts: ArrayLike,
    *,
    budget: int,
    eta: float,
    gamma: float | None = None,
    beta: float | None = None,
    decay: float = 1.0,
    scales: ArrayLike = ...,
) -> NDArray[np.float64]: ...
def segment_starts(rounds: int, *, budget: int) -> NDArray[np.uint32]: ...

class Segments:
    def __init__(self, budget: int) -> None: ...
    def append(self) -> int | None: ...
    @property
    def starts(self) -> NDArray[np.uint32]: ...

class PolicyBatch:
    GROUP: int
    def __init__(
        self,
        contexts: int,
        actions: int,
        *,
        eta: float,
        gamma: float | None = None,
        beta: float | None = None,
        decay: float = 1.0,
        scales: ArrayLike = ...,
    ) -> None: ...
    def step(self, predictions: ArrayLike, rows: ArrayLike, lengths: ArrayLike) -> None: ...
    def probabilities(self) -> NDArray[np.float64]: ...

class WeightHistory:
    def __init__(self, budget: int = 0) -> None: ...
    def record(self, weights: ArrayLike, before: ArrayLike, after: ArrayLike) -> None: ...
    def end_round(self) -> None: ...
    def past_predictions(self, weights: ArrayLike, values: ArrayLike, now: ArrayLike) -> NDArray[np.float64]: ...
    def policy(
        self,
        weights: ArrayLike,
        values: ArrayLike,
        now: ArrayLike,
        *,
        eta: float,
        gamma: float | None = None,
        beta: float | None = None,
        decay: float = 1.0,
        observer: Callable[[int, int], None] | None = None,
    ) -> NDArray[np.float64]: ...
    def serialize(self) -> bytes: ...
    def deserialize(self, data: bytes) -> bool: ...
    @property
    def entries(self) -> int: ...
    @property
    def bytes(self) -> int: ...
