"""`Bandit`: decisions and rewards over a file."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from numbers import Real
from typing import TYPE_CHECKING, Any

from .features import INTERACTIONS, LARGEST, Name, Plain, lines, names, plain_actions, plain_context, plain_contexts
from .model import Model
from .store import BanditError, Store

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from ..compare import Comparison
    from .pool import Pool
    from .reasons import Reasons


__all__ = ["Bandit", "Decision"]

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
EXPLORERS = {
    "opo_cmab",
    "fastcb",
    "adacb",
    "squarecb",
    "regcb",
    "softmax",
    "bag",
    "cover",
    "first",
    "rnd",
    "synthcover",
}
REFUSED = {"-d", "--data", "-p", "--predictions", "-f", "--final_regressor", "-i", "--initial_regressor", "-t"}
REFUSED |= {"--testonly", "--daemon", "-c", "--cache", "--dsjson", "--cb_adf", "--ccb_explore_adf", "--slates"}
DECISION = "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
FOUND = """
SELECT d.n, d.time, d.context, d.actions, d.chosen, d.probability, l.cost, l.given, l.late
FROM decisions d LEFT JOIN lessons l USING (n)
"""
AT_ONCE = 2  # overdue decisions that one call settles
RECENT = 1000  # decisions that the apprentice is judged by


@dataclass(frozen=True)
class Decision:
    """What was chosen, and how."""

    id: str  #: for the reward
    action: Any  #: the name, as you gave it
    probability: float  #: with which it was drawn
    ranking: tuple[tuple[Any, float], ...]  #: all actions with their probabilities, the most probable first
    time: datetime  #: in UTC


class Bandit:
    """Chooses actions, learns from rewards, and keeps both in one file. docs/bandit.md is the guide.

    >>> with Bandit("articles.db") as bandit:  # doctest: +SKIP
    ...     decision = bandit.choose({"user": "Tom", "hour": 9}, ["politics", "sports", "music"])
    ...     bandit.reward(decision.id, 1.0)

    Opened again, it continues exactly where it stopped. One process writes; any number may read.

    Args:
        path: of the file. Made if it does not exist.
        vw: arguments of VW, besides the interactions, which are set already: another explorer, a learner, ``-b 22``.
        epsilon: each action has at least this probability divided by the number of actions, so that the log can be
            evaluated.
        seed: of the draws (default: a random one). Draw n depends on the seed and n only.
        wait: how long to wait for a reward: "30s", "5min", "1h", "2d", seconds or a timedelta (default: for ever).
        otherwise: the reward of a decision that got none in this time.
        baseline: called with the context as a dict and the names of the actions, returns a name: played instead, while
            the bandit learns, until ``switch_on()``.
        durable: "process" keeps what was acknowledged when the process is killed, "machine" also when the power fails
            (each call then waits for the disk).
        read_only: what changes nothing, beside another
            process that writes.

    ``vw``, ``epsilon`` and ``seed`` belong to the file: leave them out, or give the same, when it is opened again.

    Raises:
        BanditError: if the file cannot be used, or another process is writing to it.
        ValueError: if an argument is wrong, or is not what the file was made with.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vw: str | None = None,
        epsilon: float | None = None,
        seed: int | None = None,
        wait: str | float | timedelta | None = None,
        otherwise: float = 0.0,
        baseline: Callable[[Plain, list[Any]], Name] | None = None,
        durable: str = "process",
        read_only: bool = False,
    ) -> None:
        if epsilon is not None and not (isinstance(epsilon, Real) and 0 <= epsilon <= 1):
            raise ValueError(f"epsilon must be a number in [0, 1]: {epsilon!r}")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ValueError(f"seed must be a whole number: {seed!r}")
        if baseline is not None and not callable(baseline):
            raise ValueError(f"baseline must be a function of the context and the names of the actions: {baseline!r}")
        if durable not in ("process", "machine"):
            raise ValueError(f"durable must be 'process' or 'machine': {durable!r}")
        if vw is not None:
            vw = _checked_flags(vw)
        self._wait = _seconds(wait)
        self._otherwise = 0.0 - _finite(otherwise, "otherwise")  # as a cost
        self._baseline, self._read_only, self._process = baseline, read_only, os.getpid()
        self._lock = threading.RLock()
        self._store = Store(path, read_only, "FULL" if durable == "machine" else "NORMAL")
        try:
            settings = {"vw": vw, "epsilon": epsilon, "seed": seed}
            self._seed, self.flags = self._settings(settings)
            try:
                self._model = Model.restore(self._store, self.flags)
            except RuntimeError as error:
                raise error if vw is None else ValueError(f"vw={vw!r}: {error}") from error
            if not read_only:
                with self._store.transaction():
                    for name, value in {**settings, "seed": self._seed, "flags": self.flags}.items():
                        if value is not None:
                            self._store.keep(name, value)
            last = self._store.read("SELECT n, time FROM decisions ORDER BY n DESC LIMIT 1")
            self._decisions: int = last[0][0] if last else 0
            before = last[0][1] if last else 0.0
            self._opened = max(time.time(), before), time.monotonic()
        except BaseException:
            self._store.close()
            raise

    def _settings(self, given: dict[str, Any]) -> tuple[int, str]:
        """The seed and the flags: the file's, or for a new file those that are given."""
        flags = self._store.setting("flags")
        if flags is None:
            seed = given["seed"] if given["seed"] is not None else secrets.randbits(32)
            return seed, _flags(given["vw"] or "", given["epsilon"])
        for name, value in given.items():
            kept = self._store.setting(name)
            if value is not None and value != kept:
                raise ValueError(
                    f"{self._store.path} was made with {name}={kept!r}, not {value!r}: leave {name} out, or make "
                    "another file"
                )
        return self._store.setting("seed"), flags

    # -- decisions

    def choose(self, context: Any, actions: Any, *, exclude: Iterable[Name] = (), ids: str | None = None) -> Decision:
        """Draws an action and records the decision.

        Args:
            context: a dict (numbers, strings, booleans, lists; dicts within it one level deep), a row of pandas, or a
                vector of NumPy.
            actions: names, or a dict from names to features of their own, pairs, or a DataFrame indexed by names.
            exclude: names of actions that must not be chosen now.
            ids: your own id for the decision.
        """
        return self._choose([plain_context(context)], actions, exclude, None if ids is None else [ids])[0]

    def choose_many(
        self, contexts: Any, actions: Any, *, exclude: Iterable[Name] = (), ids: Sequence[str] | None = None
    ) -> list[Decision]:
        """A decision for each row of a DataFrame or a matrix, or for each context of a list, in one transaction."""
        return self._choose(plain_contexts(contexts), actions, exclude, ids)

    def _choose(
        self, contexts: list[Plain], actions: Any, exclude: Iterable[Name], ids: Sequence[str] | None
    ) -> list[Decision]:
        actions = plain_actions(actions, exclude)
        named, recorded = names(actions), json.dumps(actions)
        rounds = [lines(context, actions) for context in contexts]
        played = [self._played(context, named) for context in contexts]
        if ids is not None and (len(ids) != len(contexts) or len(set(ids)) != len(ids)):
            raise ValueError(f"ids must be {len(contexts)} different strings")
        with self._lock:
            self._check_open(writing=True)
            self._settle(AT_ONCE)
            now, first = self._now(), self._decisions + 1
            rows, decisions = [], []
            for n, (context, round, place) in enumerate(zip(contexts, rounds, played, strict=True), first):
                p = self._model.predict(round)
                id, draw = _id_and_draw(self._seed, n)
                id = id if ids is None else self._new_id(ids[n - first])
                chosen = _drawn(p, draw) if place is None else place
                probability = p[chosen] if place is None else 1.0
                gain = None if place is None else self._gain(round, place, p)
                recorded_p, learnt = json.dumps([float(f"{x:.9g}") for x in p]), self._model.rounds
                row = (n, id, now, json.dumps(context), recorded, chosen, probability, recorded_p, learnt, gain)
                rows.append(row)
                ranking = tuple(sorted(zip(named, p, strict=True), key=lambda pair: -pair[1]))
                at = datetime.fromtimestamp(now, timezone.utc)
                decisions.append(Decision(id, named[chosen], probability, ranking, at))
            if len(rows) == 1:
                self._store.write(DECISION, rows[0])  # a transaction of its own
            else:
                with self._store.transaction():
                    for row in rows:
                        self._store.write(DECISION, row)
            self._decisions += len(rows)
        return decisions

    def predict(self, context: Any, actions: Any, *, exclude: Iterable[Name] = ()) -> dict[Any, float]:
        """The probabilities of the actions. Records nothing."""
        actions = plain_actions(actions, exclude)
        round = lines(plain_context(context), actions)
        with self._lock:
            self._check_open()
            if self._read_only:
                self._model.catch_up(self._store)
            return dict(zip(names(actions), self._model.predict(round), strict=True))

    # -- rewards

    def reward(self, id: str, value: float) -> bool:
        """Records what a decision brought, and learns from it.

        Returns:
            Whether it was learnt from. Not if the same reward was recorded before, or if it comes after ``wait``: then
            the decision has counted as ``otherwise``, and ``status()["late"]`` counts it.

        Raises:
            KeyError: if there is no such decision.
            ValueError: if the value is not a finite number, or another reward was recorded before.
        """
        return self._record(id, 0.0 - _finite(value, "the reward"))

    def cost(self, id: str, value: float) -> bool:
        """The reward's negative, as ``reward``."""
        return self._record(id, _finite(value, "the cost"))

    def _record(self, id: str, cost: float) -> bool:
        with self._lock:
            self._check_open(writing=True)
            self._settle(AT_ONCE)
            found = self._store.read(FOUND + "WHERE d.id = ?", [id]) if isinstance(id, str) else []
            if not found:
                raise KeyError(f"{self._store.path} has no decision with the id {id!r}: give the id of a Decision")
            *decision, before, given, late = found[0]
            n, made = decision[:2]
            if before is None:
                overdue = self._wait is not None and made + self._wait <= self._now()
                self._teach(decision, self._otherwise if overdue else cost, not overdue, cost if overdue else None)
                return not overdue
            known = before if given else late
            if known is None:
                self._store.write("UPDATE lessons SET late = ? WHERE n = ?", [cost, n])
            elif known != cost:
                raise ValueError(f"decision {id!r} already has the reward {-known:g}: it stays, not {-cost:g}")
            return False

    def _teach(self, decision: Sequence[Any], cost: float, given: bool, late: float | None = None) -> None:
        """Records a lesson, then learns it: what is recorded is learnt, if not now then when the file is opened."""
        n, _, context, actions, chosen, probability = decision
        sql = "INSERT INTO lessons (n, cost, given, late) VALUES (?, ?, ?, ?)"
        number = self._store.write(sql, [n, cost, given, late])
        try:
            self._model.learn(number, lines(json.loads(context), json.loads(actions)), chosen, cost, probability)
        except BaseException:  # an interrupt: is the lesson in the model? Start again from what is recorded
            self._model = Model.restore(self._store, self.flags)
            raise
        if self._model.due():
            self._save()

    def settle(self) -> int:
        """Learns all decisions whose ``wait`` is over as ``otherwise``; returns how many. Other calls do two each."""
        count = 0
        while True:
            with self._lock:  # others choose in between
                self._check_open(writing=True)
                settled = self._settle(1)
            if not settled:
                return count
            count += settled

    def _settle(self, most: int) -> int:
        if self._wait is None:
            return 0
        sql = FOUND + "WHERE d.n IN (SELECT n FROM waiting ORDER BY n LIMIT ?) ORDER BY d.n"
        overdue = [row[:6] for row in self._store.read(sql, [most]) if row[1] + self._wait <= self._now()]
        for decision in overdue:
            self._teach(decision, self._otherwise, False)
        return len(overdue)

    # -- the apprentice

    def switch_on(self) -> None:
        """From now on the bandit decides, and no longer the baseline, also when the file is opened again."""
        with self._lock:
            self._check_open(writing=True)
            self._store.keep("on", 1)

    @property
    def _is_apprentice(self) -> bool:
        return self._baseline is not None and not self._store.setting("on")

    def _played(self, context: Plain, named: list[Any]) -> int | None:
        """The place of the baseline's action; none if the bandit decides."""
        if self._baseline is None or not self._is_apprentice:
            return None
        action = self._baseline(context, list(named))
        if action not in named:
            raise ValueError(f"the baseline returned {action!r}, which is not one of the actions {named}")
        return named.index(action)

    def _gain(self, round: list[str], place: int, p: list[float]) -> float | None:
        """The reward that the bandit expects beyond the baseline's."""
        if "--opo_cmab" not in self.flags.split() or not self._model.rounds:
            return None
        costs = self._model.explain(round).cost
        gain = float(costs[-1][place] - costs[-1] @ p) if len(costs) else math.nan
        return gain if math.isfinite(gain) else None

    # -- what there is

    def status(self) -> dict[str, Any]:
        """Numbers of decisions, of those rewarded, waiting and late, of rounds learnt from, the mean reward, and how
        the apprentice does: how often it would have played as the baseline, and what it expects to gain in a round."""
        with self._lock:
            self._check_open()
            [(decisions, lessons)] = self._store.read(
                "SELECT (SELECT ifnull(max(n), 0) FROM decisions), (SELECT ifnull(max(round), 0) FROM lessons)"
            )
            [(defaults, late)] = self._store.read("SELECT count(*), count(late) FROM lessons WHERE NOT given")
            [(mean,)] = self._store.read("SELECT avg(-cost) FROM lessons")
            found: dict[str, Any] = {
                "decisions": decisions,
                "rewarded": lessons - defaults,
                "waiting": decisions - lessons,
                "rounds": lessons,
                "late": late,
                "mean_reward": mean,
            }
            if self._is_apprentice:
                sql = "SELECT avg(json_extract(probabilities, '$[' || chosen || ']')), avg(gain) FROM (SELECT * FROM "
                [(agrees, gain)] = self._store.read(sql + "decisions ORDER BY n DESC LIMIT ?)", [RECENT])
                found |= {"agrees": agrees, "expected_gain": gain}
            return found

    def explain(self, id: str) -> Reasons:
        """Why a decision was made as it was, with the model of that time."""
        from .reasons import reasons

        with self._lock:
            self._check_open()
            return reasons(self._store, self._model, id)

    def log(self, path: str | os.PathLike[str]) -> int:
        """Writes what was learnt, in its order, as dsjson, a line for each round. Returns their number."""
        from .logs import write_dsjson

        with self._reader() as store:
            return write_dsjson(store, path)

    @classmethod
    def from_log(cls, log: str | os.PathLike[str], path: str | os.PathLike[str], **settings: Any) -> Bandit:
        """A new bandit that has learnt from a log: dsjson, of Personalizer or from ``Bandit.log``.

        Args:
            log: the log; rounds without a cost are left out.
            path: of the new file.
            settings: as for Bandit.

        Raises:
            ValueError: if a line cannot be read; nothing is kept then.
        """
        from .logs import read_dsjson

        with cls(path, **settings) as bandit:
            bandit._check_open(writing=True)
            if bandit._decisions:
                raise BanditError(f"{path} has decisions already: give the path of a new file")
            read_dsjson(bandit._store, log)
            bandit._model.catch_up(bandit._store)
        return cls(path, **settings)

    def compare(self, **settings: Any) -> Comparison:
        """Estimates from what was learnt what each explorer would have cost: ``compare_explorers``, with its
        ``settings``. Needs decisions with propensities: ``epsilon``."""
        from .logs import compare

        with self._reader() as store:
            return compare(store, self.flags, settings)

    def report(self, path: str | os.PathLike[str] = "report.html") -> Path:
        """Writes a page: reward over time, share of each action, exploration, latest decisions."""
        from .report import write_report

        with self._reader() as store:
            return write_report(store, self.status(), path)

    def serve(self, processes: int) -> Pool:
        """Processes that only predict, each with a model of its own that follows this one."""
        from .pool import Pool

        return Pool(self._store.path, processes)

    def _reader(self) -> Store:
        """Another view of the file, so that long reading does not keep others from choosing."""
        self._check_open()
        return Store(self._store.path, read_only=True)

    # -- the file

    def _now(self) -> float:
        """Never goes back, and does not jump with the machine's clock while the file is open."""
        wall, monotonic = self._opened
        return wall + time.monotonic() - monotonic

    def _new_id(self, id: str) -> str:
        if not isinstance(id, str) or not id:
            raise ValueError(f"the id of a decision must be a string, and not empty: {id!r}")
        if self._store.read("SELECT 1 FROM decisions WHERE id = ?", [id]):
            raise ValueError(f"there is a decision with the id {id!r} already: give another, or none")
        return id

    def _check_open(self, writing: bool = False) -> None:
        if os.getpid() != self._process:
            raise BanditError(
                "this bandit was opened before the process forked: open it after the fork, in one process"
            )
        if writing and self._read_only:
            raise BanditError(
                "this bandit is open with read_only=True: send decisions and rewards to the one that writes"
            )
        self._store.connection  # noqa: B018  raises if it is closed

    def _save(self) -> None:
        """The model, so that opening is quick. If it cannot be saved, nothing is lost: the lessons are recorded."""
        try:
            self._model.save(self._store)
        except (OSError, RuntimeError) as error:
            warnings.warn(f"the model is not saved, it will be learnt again from the file: {error}", stacklevel=3)

    def close(self) -> None:
        """Saves the model and lets others write. Once more does nothing."""
        with self._lock:
            if self._store.is_open and os.getpid() == self._process:
                if not self._read_only:
                    self._save()
                self._store.close()
                self._model.close()

    def __enter__(self) -> Bandit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _checked_flags(vw: str) -> str:
    for word in vw.split():
        if word.partition("=")[0] in REFUSED:
            raise ValueError(f"vw: {word} is not allowed here, the bandit reads and writes its own file. Leave it out")
    return " ".join(vw.split())


def _flags(vw: str, epsilon: float | None) -> str:
    words = {word.partition("=")[0].removeprefix("--") for word in vw.split()}
    explorer = "" if words & EXPLORERS else "--opo_cmab"
    minimum = "" if epsilon is None else f"--epsilon {epsilon:g}"
    return " ".join(f"--cb_explore_adf {explorer} {INTERACTIONS} {minimum} {vw}".split())


def _seconds(wait: str | float | timedelta | None) -> float | None:
    if wait is None:
        return None
    if isinstance(wait, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?) *(s|min|h|d)", wait.strip())
        wait = float(match[1]) * UNITS[match[2]] if match else math.nan
    elif isinstance(wait, timedelta):
        wait = wait.total_seconds()
    if isinstance(wait, bool) or not isinstance(wait, Real) or not 0 < float(wait) < math.inf:
        raise ValueError('wait must be like "30s", "5min", "1h" or "2d", a number of seconds or a timedelta, above 0')
    return float(wait)


def _finite(value: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(float(value)) <= LARGEST:
        raise ValueError(f"{what} must be a finite number: {value!r}")
    return float(value)


def _id_and_draw(seed: int, n: int) -> tuple[str, float]:
    digest = hashlib.blake2b(f"{seed}:{n}".encode(), digest_size=24).digest()
    return digest[8:].hex(), (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)


def _drawn(probabilities: Sequence[float], draw: float) -> int:
    total, last = 0.0, 0
    for i, p in enumerate(probabilities):
        if p > 0:
            total, last = total + p, i
            if draw < total:
                return i
    return last
