"""Rows of finished runs in a file of JSON lines that is only ever appended to: a program that was killed resumes."""

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
    """The rows in a file by what makes two runs the same, the last one of each.

    A line that a kill cut short is taken off the file. Without a file, rows are kept in memory only.
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
        """Keeps a row, in the file too."""
        self[self._key(row)] = row
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
