"""The file of a bandit: decisions with what was learnt from them, and the model now and then.

One SQLite database in write-ahead mode, one writer. Rounds are numbered in the order in which they are learnt. The file
holds the last two models, each written in one transaction with the number of rounds behind it: whatever a process was
doing when it was killed, the newest model and the rounds after it are there.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

APPLICATION = 0x6F706F31  # in the file's header: "opo" and the version of the format
SCHEMA = f"""BEGIN IMMEDIATE;
CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE decisions (
  n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time REAL NOT NULL,  -- seconds since 1970; see AWAY
  context TEXT NOT NULL, actions TEXT NOT NULL,    -- JSON; an action is a pair of a name and its features
  chosen INTEGER NOT NULL CHECK (typeof(chosen) = 'integer' AND chosen BETWEEN 0 AND json_array_length(actions) - 1),
  probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),  -- with which it was drawn
  probabilities TEXT NOT NULL, gain REAL,          -- the bandit's; what an apprentice expected to gain
  after INTEGER NOT NULL,                          -- rounds learnt from, at that time
  round INTEGER, cost REAL CHECK ((cost IS NULL) = (round IS NULL)),   -- none while it waits
  given INTEGER, late REAL                         -- 0: nobody gave a reward in time; a cost that came after that
);
CREATE INDEX waiting ON decisions (time) WHERE round IS NULL;
CREATE INDEX learnt ON decisions (round, cost, given, late);
CREATE TABLE models (rounds INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
PRAGMA application_id = {APPLICATION}; COMMIT;"""
PRAGMAS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216;"
NOT_OURS = "the file is not a bandit's of this version. Choose another path"
ADVICE = {  # by words of SQLite's errors
    "full": "the disk is full: nothing was recorded. Make room and try again",
    "disk I/O": "the disk refuses (full, over quota or broken, a folder): nothing was recorded. Try again",
    "readonly": "read_only=True, or this process has not the right to write: send decisions and rewards to the writer",
    "unable": "there is no such file, or it cannot be opened: check that its folder exists and that you may write",
    "not a database": NOT_OURS,
    "closed": "the bandit is closed: open it again",
    "malformed": "the file is damaged: restore a copy",
}


class BanditError(RuntimeError):
    """The bandit or its file cannot be used. The message says why and what to do."""


class Store:
    """SQLite's connection to the file of a bandit, and for a writer the lock that keeps others from writing."""

    def __init__(self, path: str | os.PathLike[str], read_only: bool = False) -> None:
        self.path, self._exits = Path(path), ExitStack()
        try:
            if not read_only:
                self._take_lock()
            self.connection = self._connect(path, "ro" if read_only else "rwc")
            [(id, tables)] = self.run("SELECT *, (SELECT count(*) FROM sqlite_master) FROM pragma_application_id")
            if id != APPLICATION and (tables or read_only):
                raise BanditError(f"{path}: {NOT_OURS}")
            if not read_only:
                with self._explained():
                    self.connection.executescript(PRAGMAS + ("" if tables else SCHEMA))
                self.keep(writer=f"process {os.getpid()} on {socket.gethostname()}")  # may we write?
        except BaseException:
            self.close()
            raise

    def _connect(self, path: str | os.PathLike[str], mode: str) -> sqlite3.Connection:
        uri = f"{Path(path).absolute().as_uri()}?mode={mode}"
        with self._explained():
            connection = sqlite3.connect(uri, 10, uri=True, isolation_level=None, check_same_thread=False)
            return self._exits.enter_context(closing(connection))

    def _take_lock(self) -> None:
        """Another database, locked for good: the system gives it back when the process ends, however it ends."""
        lock = self._connect(f"{self.path}-lock", "rwc")
        try:
            lock.executescript("PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            with closing(Store(self.path, read_only=True)) as store:
                holder = f"{self.path} is open for writing in {store.settings()['writer']}. One process writes"
                raise BanditError(f"{holder}: send what it is to learn there, or read with read_only=True") from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            advice = [advice for words, advice in ADVICE.items() if words in str(error)]
            raise BanditError(f"{self.path}: {': '.join([*advice, str(error)])}") from error

    def run(self, sql: str, *values: Any) -> list[Any]:
        """One statement: a transaction of its own, unless there is one."""
        with self._explained():
            return self.connection.execute(sql, values).fetchall()

    def settings(self) -> dict[str, Any]:
        return dict(self.run("SELECT name, value FROM settings"))

    def keep(self, **settings: Any) -> None:
        for setting in settings.items():
            self.run("INSERT OR REPLACE INTO settings VALUES (?, ?)", *setting)

    def find(self, columns: str, id: Any) -> Any:
        found = self.run(f"SELECT {columns} FROM decisions WHERE id = ?", str(id))
        if not found:
            raise KeyError(f"{self.path} has no decision with the id {id!r}: give the id of a Decision")
        return found[0]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        with self._explained(), self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def close(self) -> None:
        self._exits.close()
