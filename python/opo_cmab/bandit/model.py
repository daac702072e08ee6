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
ALL = 1 << 62
PART = 1000  # lessons that are read at a time
SAVED = "SELECT rounds FROM models WHERE rounds <= ? ORDER BY rounds DESC"
LESSONS = """
SELECT round, context, actions, chosen, cost, probability FROM lessons JOIN decisions USING (n)
WHERE round > ? AND round <= ? ORDER BY round LIMIT ?
"""


class Model:
    """Learns lessons in their order. The same lessons give the same model, wherever it was saved in between."""

    def __init__(self, flags: str, rounds: int = 0, saved: bytes = b"") -> None:
        from vowpalwabbit import Workspace  # here, so that importing the package stays quick

        self.flags = flags
        self.rounds = self.saved_rounds = rounds  #: learnt
        self._seconds = self._seconds_of_save = 0.0
        with TemporaryDirectory(prefix="opo_cmab-") as folder:
            file = Path(folder) / "model"
            file.write_bytes(saved)
            self._workspace = Workspace(f"{f'-i {file} ' if saved else ''}{flags} --quiet")

    @classmethod
    def restore(cls, store: Store, flags: str, rounds: int = ALL) -> Model:
        """The model after so many lessons: from the newest saved one, and the lessons after it."""
        model = None
        for (number,) in store.run(SAVED, rounds):
            try:
                model = cls(flags, number, *store.run("SELECT bytes FROM models WHERE rounds = ?", number)[0])
                break
            except RuntimeError as error:
                text = f"{store.path}: the model of round {number} does not load, and is learnt again: {error}"
                warnings.warn(text, stacklevel=2)
        model = model or cls(flags)
        model.catch_up(store, rounds)
        return model

    def catch_up(self, store: Store, rounds: int = ALL) -> None:
        """Learns what is recorded and not learnt."""
        is_more = True
        while is_more:
            found = store.run(LESSONS, self.rounds, rounds, PART)
            is_more = len(found) == PART
            for number, context, actions, chosen, cost, probability in found:
                start = time.perf_counter()
                round = lines(json.loads(context), json.loads(actions))
                self._workspace.learn(labelled(round, chosen, cost, probability))
                self._seconds += time.perf_counter() - start
                self.rounds = number

    def predict(self, round: Sequence[str]) -> list[float]:
        """Probabilities, in the order of the actions."""
        probabilities: list[float] = self._workspace.predict(list(round))
        total = math.fsum(probabilities)
        if not 0 < total < math.inf:
            raise BanditError("the model has diverged, it has no probabilities: make a new file with other flags")
        return [p / total for p in probabilities]

    def explain(self, round: Sequence[str]) -> Explanation:
        return explain(self._workspace, list(round))

    def save(self, store: Store, fewest: int = 1, share: float = 0) -> None:
        """Into the file, if so much is new. If it cannot be saved nothing is lost: the lessons are recorded."""
        if self.rounds < self.saved_rounds + fewest or self._seconds < share * self._seconds_of_save:
            return
        start = time.perf_counter()
        try:
            with TemporaryDirectory(prefix="opo_cmab-") as folder:
                file = Path(folder) / "model"
                self._workspace.save(str(file))
                store.keep_model(self.rounds, file.read_bytes())
            self.saved_rounds = self.rounds
        except (OSError, RuntimeError) as error:
            warnings.warn(f"the model is not saved, it will be learnt again from the file: {error}", stacklevel=3)
        self._seconds, self._seconds_of_save = 0.0, time.perf_counter() - start

    def close(self) -> None:
        self._workspace.finish()
