"""The file of a bandit: decisions, what was learnt from them and in which order, and the model now and then.

One SQLite database in write-ahead mode, one writer. A lesson is one decision with its cost; lessons are numbered in the
order in which they are learnt. The file holds the last two models, each written in one transaction with the number of
lessons behind it: whatever a process was doing when it was killed, the newest model and the lessons after it are there.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

__all__ = ["BanditError", "Store"]

APPLICATION = 0x6F706F62  # "opob", in the file's header
FORMAT = 1
SCHEMA = f"""
CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE decisions (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  time REAL NOT NULL,             -- seconds since 1970, never decreasing
  context TEXT NOT NULL,          -- JSON
  actions TEXT NOT NULL,          -- JSON: names, or pairs of a name and its features
  chosen INTEGER NOT NULL,        -- its place among the actions
  probability REAL NOT NULL,      -- with which it was drawn
  probabilities TEXT NOT NULL,    -- JSON: the bandit's, of all actions
  rounds INTEGER NOT NULL,        -- learnt from, at that time
  gain REAL                       -- of the apprentice: what it expected to gain over the baseline
);
CREATE TABLE lessons (
  round INTEGER PRIMARY KEY,      -- in the order in which they are learnt
  n INTEGER NOT NULL UNIQUE,
  cost REAL NOT NULL,
  given INTEGER NOT NULL,         -- 0: nobody gave a reward in time
  late REAL                       -- a cost that came after that
);
CREATE TABLE waiting (n INTEGER PRIMARY KEY);  -- decisions without a lesson
CREATE TRIGGER decided AFTER INSERT ON decisions BEGIN INSERT INTO waiting VALUES (new.n); END;
CREATE TRIGGER learnt AFTER INSERT ON lessons BEGIN DELETE FROM waiting WHERE n = new.n; END;
CREATE TABLE models (rounds INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
"""
ADVICE = {
    "full": "the disk is full: nothing was recorded. Make room and try again",
    "readonly": "the file cannot be written: give this process the right to write it, or open it with read_only=True",
    "unable to open": "the file cannot be opened: check that its folder exists and that this process may write there",
    "not a database": "the file is not a bandit's. Choose another path",
    "malformed": "the file is damaged: restore a copy",
    "locked": "another process is writing to the file and does not finish. Try again",
    "disk I/O": "the disk refuses (full, over quota, or broken): nothing was recorded. Make room and try again",
}


class BanditError(RuntimeError):
    """The bandit or its file cannot be used. The message says why and what to do."""


class Store:
    """SQLite's connection to the file of a bandit, and for a writer the lock that keeps others from writing."""

    def __init__(self, path: str | os.PathLike[str], read_only: bool, synchronous: str = "NORMAL") -> None:
        self.path = Path(path)
        self._lock: IO[str] | None = None
        if read_only and not self.path.is_file():
            raise BanditError(f"{path}: there is no such file to read. Make it: open it without read_only")
        if self.path.is_dir():
            raise BanditError(f"{path} is a folder: give the path of a file, which need not exist")
        self._connection: sqlite3.Connection | None = None
        try:
            if not read_only:
                self._lock = self._take_lock()
            self._open(read_only, synchronous)
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> IO[str]:
        """Held through flock, which the system gives back when the process ends, however it ends."""
        try:
            lock = Path(f"{self.path}-lock").open("a+")  # noqa: SIM115  held until close
        except OSError as error:
            raise BanditError(f"{self.path}: {ADVICE['unable to open']} ({error.strerror})") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise BanditError(
                f"{self.path} is open for writing in {holder}. One process writes: send decisions and rewards there, "
                "or read with read_only=True"
            ) from None
        try:
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
        except OSError:  # a full disk: the lock holds, only the name of its holder is missing
            pass
        return lock

    def _open(self, read_only: bool, synchronous: str) -> None:
        mode = "ro" if read_only else "rwc"
        with self._explained():
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=10,
                isolation_level=None,
                check_same_thread=False,
            )
            [(application,)] = self.read("PRAGMA application_id")
            [(version,)] = self.read("PRAGMA user_version")
            [(tables,)] = self.read("SELECT count(*) FROM sqlite_master")
            if application != APPLICATION and (tables or read_only):
                raise BanditError(f"{self.path}: {ADVICE['not a database']}")
            if tables and version != FORMAT:
                raise BanditError(
                    f"{self.path} has format {version}, not {FORMAT}: open it with the version that made it"
                )
            if read_only:
                return
            self.read("PRAGMA journal_mode = WAL")
            self.read(f"PRAGMA synchronous = {synchronous}")
            self.read(f"PRAGMA journal_size_limit = {1 << 24}")
            if not tables:
                self._connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
            with self.transaction():  # may we write?
                self.write("INSERT OR REPLACE INTO settings VALUES ('opened', ?)", [time.time()])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.rollback()
            advice = next((advice for words, advice in ADVICE.items() if words in str(error)), str(error))
            raise BanditError(f"{self.path}: {advice}") from error

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise BanditError(f"{self.path} is closed: open it again")
        return self._connection

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._explained():
            return self.connection.execute(sql, values).fetchall()

    def rows(self, sql: str) -> Iterator[Any]:
        """One after the other, for many."""
        with self._explained():
            yield from self.connection.execute(sql)

    def write(self, sql: str, values: Sequence[Any] = ()) -> int:
        """One statement: a transaction of its own, unless there is one. Returns the number of the new row."""
        with self._explained():
            return self.connection.execute(sql, values).lastrowid or 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self.write("BEGIN IMMEDIATE")
        try:
            yield
            self.write("COMMIT")
        except BaseException:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.rollback()
            raise

    def setting(self, name: str, default: Any = None) -> Any:
        found = self.read("SELECT value FROM settings WHERE name = ?", [name])
        return found[0][0] if found else default

    def keep(self, name: str, value: Any) -> None:
        self.write("INSERT OR REPLACE INTO settings VALUES (?, ?)", [name, value])

    def keep_model(self, rounds: int, model: bytes) -> None:
        """The file keeps this one and the one before it."""
        with self.transaction():
            self.write("INSERT OR REPLACE INTO models VALUES (?, ?)", [rounds, model])
            self.write("DELETE FROM models WHERE rounds NOT IN (SELECT rounds FROM models ORDER BY 1 DESC LIMIT 2)")

    def close(self) -> None:
        """Once more does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._connection is not None
