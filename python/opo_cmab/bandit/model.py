"""The model of a bandit: a Workspace, and how many lessons it has learnt."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ..explanation import Explanation, explain
from .features import labelled, lines
from .store import BanditError, Store

__all__ = ["Model"]

SHARE = 100  # a model is saved after learning for this many times as long as saving it takes,
FEWEST = 1000  # and this many lessons
LESSONS = """
SELECT round, context, actions, chosen, cost, probability FROM lessons JOIN decisions USING (n)
WHERE round > ? AND round <= ? ORDER BY round
"""


class Model:
    """Learns lessons in their order. The same lessons give the same model, wherever it was saved in between."""

    def __init__(self, flags: str, rounds: int = 0, saved: bytes | None = None) -> None:
        from vowpalwabbit import Workspace  # here, so that importing the package stays quick

        self.flags = flags
        self.rounds = self.saved_rounds = rounds  #: learnt
        self._seconds, self._seconds_of_save = 0.0, 0.0
        with TemporaryDirectory(prefix="opo_cmab-") as folder:
            file = Path(folder) / "model"
            if saved is not None:
                file.write_bytes(saved)
            start = f"-i {file} " if saved is not None else ""
            self._workspace = Workspace(f"{start}{flags} --quiet")

    @classmethod
    def restore(cls, store: Store, flags: str, rounds: int | None = None) -> Model:
        """The model after so many lessons, or all: from the newest saved one, and the lessons after it."""
        last = rounds if rounds is not None else 1 << 62
        for (saved_rounds,) in store.read("SELECT rounds FROM models WHERE rounds <= ? ORDER BY 1 DESC", [last]):
            [(saved,)] = store.read("SELECT bytes FROM models WHERE rounds = ?", [saved_rounds])
            try:
                model = cls(flags, saved_rounds, saved)
                break
            except RuntimeError as error:
                text = f"{store.path}: the model of round {saved_rounds} does not load, and is learnt again: {error}"
                warnings.warn(text, stacklevel=2)
        else:
            model = cls(flags)
        model.catch_up(store, last)
        return model

    def catch_up(self, store: Store, last: int = 1 << 62) -> None:
        """Learns what others have recorded since."""
        while rows := store.read(LESSONS + " LIMIT 1000", [self.rounds, last]):
            for number, context, actions, chosen, cost, probability in rows:
                self.learn(number, lines(json.loads(context), json.loads(actions)), chosen, cost, probability)

    def predict(self, round: Sequence[str]) -> list[float]:
        """Probabilities, in the order of the actions."""
        probabilities: list[float] = self._workspace.predict(list(round))
        total = math.fsum(probabilities)
        if not 0 < total < math.inf:
            raise BanditError("the model has diverged, it has no probabilities: make a new file with other flags")
        return [p / total for p in probabilities]

    def learn(self, number: int, round: Sequence[str], chosen: int, cost: float, probability: float) -> None:
        if number != self.rounds + 1:
            raise BanditError(f"lesson {number} follows lesson {self.rounds}: close the bandit and open it again")
        start = time.perf_counter()
        self._workspace.learn(labelled(round, chosen, cost, probability))
        self._seconds += time.perf_counter() - start
        self.rounds = number

    def explain(self, round: Sequence[str]) -> Explanation:
        return explain(self._workspace, list(round))

    def due(self) -> bool:
        """Whether to save it now."""
        return self.rounds >= self.saved_rounds + FEWEST and self._seconds >= SHARE * self._seconds_of_save

    def save(self, store: Store) -> None:
        """Into the file, unless nothing is new."""
        if self.rounds == self.saved_rounds:
            return
        start = time.perf_counter()
        with TemporaryDirectory(prefix="opo_cmab-") as folder:
            file = Path(folder) / "model"
            self._workspace.save(str(file))
            saved = file.read_bytes()
        store.keep_model(self.rounds, saved)
        self.saved_rounds = self.rounds
        self._seconds, self._seconds_of_save = 0.0, time.perf_counter() - start

    def close(self) -> None:
        self._workspace.finish()
