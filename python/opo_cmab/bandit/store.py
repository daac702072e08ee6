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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

__all__ = ["BanditError", "Store"]

APPLICATION, FORMAT = 0x6F706F62, 1  # in the file's header: "opob"
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
FORMER_MODELS = "DELETE FROM models WHERE rounds NOT IN (SELECT rounds FROM models ORDER BY rounds DESC LIMIT 2)"
NOT_OURS = "the file is not a bandit's. Choose another path"
NO_ROOM = "nothing was recorded. Make room and try again"
ADVICE = {  # by words of SQLite's errors
    "full": f"the disk is full: {NO_ROOM}",
    "disk I/O": f"the disk refuses (full, over quota or broken): {NO_ROOM}",
    "readonly": "the file cannot be written: give this process the right to write it, or open it with read_only=True",
    "unable to open": "the file cannot be opened: check that its folder exists and that this process may write there",
    "not a database": NOT_OURS,
    "malformed": "the file is damaged: restore a copy",
    "locked": "another process is writing to the file and does not finish. Try again",
}


class BanditError(RuntimeError):
    """The bandit or its file cannot be used. The message says why and what to do."""


class Store:
    """SQLite's connection to the file of a bandit, and for a writer the lock that keeps others from writing."""

    def __init__(self, path: str | os.PathLike[str], read_only: bool = False, synchronous: str = "NORMAL") -> None:
        self.path = Path(path)
        if self.path.is_dir() or (read_only and not self.path.is_file()):
            raise BanditError(f"{path}: there is no such file. Give the path of a file; a writer makes it")
        self._lock = None if read_only else self._take_lock()
        self._connection: sqlite3.Connection | None = None
        try:
            with self._explained():
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
            with lock:
                lock.seek(0)
                raise BanditError(
                    f"{self.path} is open for writing in {lock.read() or 'another process'}. One process writes: send "
                    "decisions and rewards there, or read with read_only=True"
                ) from None
        with suppress(OSError):  # a full disk: only the name of the holder is missing
            lock.truncate(0)
            print(f"process {os.getpid()} on {socket.gethostname()}", end="", file=lock, flush=True)
        return lock

    def _open(self, read_only: bool, synchronous: str) -> None:
        uri = f"{self.path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False, "timeout": 10}
        self._connection = sqlite3.connect(uri, uri=True, **options)
        [(application, version, tables)] = self.run(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_application_id, pragma_user_version"
        )
        if application != APPLICATION and (tables or read_only):
            raise BanditError(f"{self.path}: {NOT_OURS}")
        if tables and version != FORMAT:
            raise BanditError(f"{self.path} has format {version}, not {FORMAT}: open it with the version that made it")
        if not read_only:
            self._connection.executescript(
                f"PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA journal_size_limit = {1 << 24};"
                + ("" if tables else f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
            )
            self.keep(writer=os.getpid())  # may we write?

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if self._connection is not None:
                self._connection.rollback()
            advice = next((advice for words, advice in ADVICE.items() if words in str(error)), str(error))
            raise BanditError(f"{self.path}: {advice}") from error

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise BanditError(f"{self.path} is closed: open it again")
        return self._connection

    def run(self, sql: str, *values: Any) -> list[Any]:
        """One statement: a transaction of its own, unless there is one."""
        with self._explained():
            return self.connection.execute(sql, values).fetchall()

    def rows(self, sql: str) -> Iterator[Any]:
        """One after the other, for many."""
        with self._explained():
            yield from self.connection.execute(sql)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        with self._explained(), self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def setting(self, name: str) -> Any:
        found = self.run("SELECT value FROM settings WHERE name = ?", name)
        return found[0][0] if found else None

    def keep(self, **settings: Any) -> None:
        with self.transaction():
            for item in settings.items():
                self.run("INSERT OR REPLACE INTO settings VALUES (?, ?)", *item)

    def keep_model(self, rounds: int, model: bytes) -> None:
        """The file keeps this one and the one before it."""
        with self.transaction():
            self.run("INSERT OR REPLACE INTO models VALUES (?, ?)", rounds, model)
            self.run(FORMER_MODELS)

    def close(self) -> None:
        """Once more does nothing."""
        for held in (self._connection, self._lock):
            if held is not None:
                held.close()
        self._connection = self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
