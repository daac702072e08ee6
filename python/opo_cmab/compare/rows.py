"""Rows of finished runs, appended to a file of JSON lines, so that a killed program can resume."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Key", "Row", "Rows"]

Row = dict[str, Any]
Key = tuple[Any, ...]


class Rows(dict[Key, Row]):
    """The rows in a file, by the identity of the run; the last one of each counts.

    An incomplete last line, left by a kill, is removed. Without a file, rows are kept in memory only.
    """

    def __init__(self, path: Path | None, key: Callable[[Row], Key]) -> None:
        super().__init__()
        self._path, self._key = path, key
        if path is None or not path.exists():
            return
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(path, len(whole))
        self.update({key(row): row for row in map(json.loads, whole.splitlines())})

    def add(self, row: Row) -> None:
        """Adds a row, also to the file."""
        self[self._key(row)] = row
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
