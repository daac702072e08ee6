"""Processes that predict from the file of a bandit that another process writes."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .features import Name, plain_actions, plain_context
from .session import Bandit

__all__ = ["Pool"]

_reader: Bandit | None = None  # of this process, if it is one of a pool


def _open(path: Path) -> None:
    global _reader
    _reader = Bandit(path, read_only=True)


def _predict(context: Any, actions: Any) -> dict[Any, float]:
    assert _reader is not None
    return _reader.predict(context, actions)


class Pool:
    """Reading processes, each with a model of its own that learns what the writer records, before it answers."""

    def __init__(self, path: Path, processes: int) -> None:
        self._executor = ProcessPoolExecutor(processes, get_context("spawn"), _open, (path,))

    def predict(self, context: Any, actions: Any, *, exclude: Iterable[Name] = ()) -> dict[Any, float]:
        """As ``Bandit.predict``, in the next free process. May be called from many threads."""
        plain = plain_actions(actions, exclude)
        return self._executor.submit(_predict, plain_context(context), plain).result()

    def close(self) -> None:
        self._executor.shutdown()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
