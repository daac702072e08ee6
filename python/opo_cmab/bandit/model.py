"""The model of a bandit: a Workspace, and how many rounds it has learnt."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from ..explanation import explain
from .features import labelled, lines
from .store import BanditError, Store

EVERY, ALL = 1000, 1 << 62  # rounds: after so many a model is saved; more than there are
SAVED = "SELECT rounds, bytes FROM models WHERE rounds <= ? ORDER BY rounds DESC"
FORMER = "DELETE FROM models WHERE rounds NOT IN (SELECT rounds FROM models ORDER BY rounds DESC LIMIT 2)"
ROUNDS = """SELECT round, context, actions, chosen, cost, probability FROM decisions
WHERE round > ? AND round <= ? ORDER BY round LIMIT 1000"""


class Model:
    """Learns rounds in their order. The same rounds give the same model, wherever it was saved in between."""

    def __init__(self, flags: str, rounds: int = 0, saved: bytes = b"") -> None:
        from vowpalwabbit import Workspace  # here, so that importing the package stays quick

        self.rounds = self._saved_rounds = rounds  #: learnt
        self.is_sure = True  #: that they are learnt once: not after an interrupt
        with TemporaryDirectory(prefix="opo_cmab-") as folder:
            file = Path(folder) / "model"
            file.write_bytes(saved)
            try:
                self._workspace = Workspace(f"{f'-i {file} ' if saved else ''}{flags} --quiet")
            except RuntimeError as error:
                raise ValueError(f"VW cannot use {flags!r}: {error}") from error

    @classmethod
    def restore(cls, store: Store, flags: str, rounds: int = ALL) -> Model:
        """The model after so many rounds: from the newest saved one, and the rounds after it."""
        for number, saved in store.run(SAVED, rounds):
            try:
                model = cls(flags, number, saved)
                break
            except ValueError as error:
                warnings.warn(f"{store.path}: a model does not load, and is learnt again: {error}", stacklevel=2)
        else:
            model = cls(flags)
        model.catch_up(store, rounds)
        return model

    def catch_up(self, store: Store, rounds: int = ALL) -> None:
        """Learns what is recorded and not learnt."""
        self.is_sure = False
        while found := store.run(ROUNDS, self.rounds, rounds):
            for number, context, actions, chosen, cost, probability in found:
                round = lines(json.loads(context), json.loads(actions))
                self._workspace.learn(labelled(round, chosen, cost, probability))
                self.rounds = number
        self.is_sure = True

    def predict(self, round: list[str]) -> list[float]:
        """Probabilities, in the order of the actions."""
        probabilities: list[float] = self._workspace.predict(round)
        total = sum(probabilities)
        if not 0 < total < np.inf:
            raise BanditError("the model has diverged, it has no probabilities: make a new file with other flags")
        return [p / total for p in probabilities]

    def costs(self, round: list[str]) -> NDArray[np.float64]:
        """Predicted; nan before two different costs were learnt, and of explorers other than --opo_cmab."""
        with suppress(RuntimeError, IndexError):
            return np.asarray(explain(self._workspace, round).cost[-1])
        return np.full(len(round) - 1, np.nan)

    def save(self, store: Store, every: int) -> None:
        """Into the file, if so many rounds are new. If it cannot be saved nothing is lost: the rounds are recorded."""
        if not self.is_sure or self.rounds < self._saved_rounds + every:
            return
        try:
            with TemporaryDirectory(prefix="opo_cmab-") as folder, store.transaction():
                file = Path(folder) / "model"
                self._workspace.save(str(file))
                store.run("INSERT OR REPLACE INTO models VALUES (?, ?)", self.rounds, file.read_bytes())
                store.run(FORMER)
        except (OSError, RuntimeError) as error:
            warnings.warn(f"the model is not saved, it will be learnt again from the file: {error}", stacklevel=3)
        self._saved_rounds = self.rounds
