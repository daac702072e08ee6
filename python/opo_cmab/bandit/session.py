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
from bisect import bisect, bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..compare import Comparison
from . import logs, reasons, report
from .features import INTERACTIONS, LARGEST, Name, Plain, lines, names, plain_actions, plain_context, plain_contexts
from .model import FEWEST, SHARE, Model
from .store import BanditError, Store

if TYPE_CHECKING:
    from .pool import Pool

__all__ = ["Bandit", "Decision"]

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
EXPLORERS = {"opo_cmab", "fastcb", "adacb", "squarecb", "regcb", "softmax", "bag", "cover", "first", "rnd"}
REFUSED = {"-d", "--data", "-p", "--predictions", "-f", "--final_regressor", "-i", "--initial_regressor", "-t"}
REFUSED |= {"--testonly", "--daemon", "-c", "--cache", "--dsjson", "--cb_adf", "--ccb_explore_adf", "--slates"}
DECISION = "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
LESSON = "INSERT INTO lessons (n, cost, given, late) VALUES (?, ?, ?, ?)"
FOUND = "SELECT n, time, cost, given, late FROM decisions LEFT JOIN lessons USING (n) WHERE id = ?"
OLDEST = "SELECT n, time FROM waiting JOIN decisions USING (n) ORDER BY n LIMIT ?"
STATUS = """
WITH l AS (SELECT count(*) lessons, total(NOT given) defaults, count(late) late, avg(-cost) mean FROM lessons)
SELECT d.n AS decisions, lessons - CAST(defaults AS INTEGER) AS rewarded, d.n - lessons AS waiting, lessons AS rounds,
late, mean AS mean_reward FROM l, (SELECT ifnull(max(n), 0) n FROM decisions) d
"""
APPRENTICE = """
SELECT avg(json_extract(probabilities, '$[' || chosen || ']')) AS agrees, avg(gain) AS expected_gain
FROM (SELECT * FROM decisions ORDER BY n DESC LIMIT 1000)
"""
AT_ONCE = 2  # overdue decisions that one call settles


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
        read_only: beside a process that writes: everything but ``choose``, rewards and ``switch_on``.

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
        least = 0.0 if epsilon is None else _finite(epsilon, "epsilon")
        for is_wrong, message in (
            (not 0 <= least <= 1, f"epsilon must be a number in [0, 1]: {epsilon!r}"),
            (type(seed) not in (int, type(None)), f"seed must be a whole number: {seed!r}"),
            (not (baseline is None or callable(baseline)), f"baseline must be a function: {baseline!r}"),
            (durable not in ("process", "machine"), f"durable must be 'process' or 'machine': {durable!r}"),
        ):
            if is_wrong:
                raise ValueError(message)
        self._wait, self._otherwise = _seconds(wait), 0.0 - _finite(otherwise, "otherwise")  # as a cost
        self._baseline, self._read_only, self._process = baseline, read_only, os.getpid()
        flags = _flags(vw or "", epsilon)
        self._lock, self._is_sure = threading.RLock(), True
        self._store = Store(path, read_only, "FULL" if durable == "machine" else "NORMAL")
        try:
            if self._store.setting("flags") is None:
                self._new_file(flags, vw=vw, epsilon=epsilon, seed=secrets.randbits(32) if seed is None else seed)
            for name, value in (("vw", vw), ("epsilon", epsilon), ("seed", seed)):
                if value is not None and value != (kept := self._store.setting(name)):
                    raise ValueError(f"{path} was made with {name}={kept!r}, not {value!r}: leave {name} out")
            self.flags, self._seed = self._store.setting("flags"), self._store.setting("seed")
            self._model = Model.restore(self._store, self.flags)
            [(last,)] = self._store.run(
                "SELECT ifnull(max(time), 0) FROM (SELECT time FROM decisions ORDER BY n DESC LIMIT 1)"
            )
            self._opened: tuple[float, float] = max(time.time(), last), time.monotonic()
        except BaseException:
            self._store.close()
            raise

    def _new_file(self, flags: str, **settings: Any) -> None:
        try:
            Model(flags).close()
        except RuntimeError as error:
            raise ValueError(f"vw={settings['vw']!r}: {error}") from error
        self._store.keep(flags=flags, **settings)

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
        rounds = [(json.dumps(context), lines(context, actions)) for context in contexts]
        played = [self._played(context, named) for context in contexts]
        if ids is not None and (len(ids) != len(contexts) or len(set(ids)) != len(ids)):
            raise ValueError(f"ids must be {len(contexts)} different strings")
        decisions = []
        with self._held(writing=True):
            self._settle(AT_ONCE)
            now, at = self._now(), datetime.fromtimestamp(self._now(), timezone.utc)
            with self._store.transaction():
                [(before,)] = self._store.run("SELECT ifnull(max(n), 0) FROM decisions")
                for place, ((context, round), baseline) in enumerate(zip(rounds, played, strict=True)):
                    p, n = self._model.predict(round), before + 1 + place
                    id = uuid4().hex if ids is None else self._new_id(ids[place])
                    chosen = _drawn(p, self._seed, n) if baseline is None else baseline
                    probability, gain = (p[chosen], None) if baseline is None else (1.0, self._gain(round, chosen, p))
                    rounded = json.dumps([float(f"{x:.9g}") for x in p])
                    values = (context, recorded, chosen, probability, rounded, self._model.rounds, gain)
                    self._store.run(DECISION, n, id, now, *values)
                    ranking = tuple(sorted(zip(named, p, strict=True), key=lambda pair: -pair[1]))
                    decisions.append(Decision(id, named[chosen], probability, ranking, at))
        return decisions

    def predict(self, context: Any, actions: Any, *, exclude: Iterable[Name] = ()) -> dict[Any, float]:
        """The probabilities of the actions. Records nothing."""
        actions = plain_actions(actions, exclude)
        round = lines(plain_context(context), actions)
        with self._held():
            if self._read_only:
                self._learn()
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
        with self._held(writing=True):
            self._settle(AT_ONCE)
            found = self._store.run(FOUND, id) if isinstance(id, str) else []
            if not found:
                raise KeyError(f"{self._store.path} has no decision with the id {id!r}: give the id of a Decision")
            [(n, made, before, given, late)] = found
            if before is None:
                is_late = self._is_overdue(made)
                self._teach(n, self._otherwise if is_late else cost, not is_late, cost if is_late else None)
                return not is_late
            known = before if given else late
            if known is None:
                self._store.run("UPDATE lessons SET late = ? WHERE n = ?", cost, n)
            elif known != cost:
                raise ValueError(f"decision {id!r} already has the reward {-known:g}: it stays, not {-cost:g}")
            return False

    def _teach(self, *lesson: Any) -> None:
        """Records a lesson, then learns what is recorded: what is not learnt now is learnt when the file is opened."""
        self._store.run(LESSON, *lesson)
        self._learn()
        self._model.save(self._store, FEWEST, SHARE)

    def _learn(self) -> None:
        self._is_sure = False  # until it has learnt: after an interrupt, is the lesson in the model?
        self._model.catch_up(self._store)
        self._is_sure = True

    def settle(self) -> int:
        """Learns all decisions whose ``wait`` is over as ``otherwise``; returns how many. Other calls do two each."""
        count = 0
        while True:
            with self._held(writing=True):  # others choose in between
                settled = self._settle(1)
            count += settled
            if not settled:
                return count

    def _settle(self, most: int) -> int:
        waiting = self._store.run(OLDEST, most) if self._wait is not None else []
        overdue = [n for n, made in waiting if self._is_overdue(made)]
        for n in overdue:
            self._teach(n, self._otherwise, False, None)
        return len(overdue)

    def _is_overdue(self, made: float) -> bool:
        return self._wait is not None and made + self._wait <= self._now()

    # -- the apprentice

    def switch_on(self) -> None:
        """From now on the bandit decides, and no longer the baseline, also when the file is opened again."""
        with self._held(writing=True):
            self._store.keep(on=1)

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
        found: dict[str, Any] = {}
        with self._reader() as store:
            for query in [STATUS, *([APPRENTICE] if self._is_apprentice else [])]:
                cursor = store.connection.execute(query)
                found |= zip([name for name, *_ in cursor.description], cursor.fetchone(), strict=True)
        return found

    def explain(self, id: str) -> reasons.Reasons:
        """Why a decision was made as it was, with the model of that time, which is learnt again for this."""
        with self._reader() as store:
            return reasons.reasons(store, self.flags, id)

    def log(self, path: str | os.PathLike[str]) -> int:
        """Writes what was learnt, in its order, as dsjson, a line for each round. Returns their number."""
        with self._reader() as store:
            return logs.write_dsjson(store, path)

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
        with cls(path, **settings) as bandit:
            if bandit.status()["decisions"]:
                raise BanditError(f"{path} has decisions already: give the path of a new file")
            logs.read_dsjson(bandit._store, log)
            bandit._learn()
        return cls(path, **settings)

    def compare(self, **settings: Any) -> Comparison:
        """Estimates from what was learnt what each explorer would have cost: ``compare_explorers``, with its
        ``settings``. Needs decisions with propensities: ``epsilon``."""
        with self._reader() as store:
            return logs.compare(store, self.flags, settings)

    def report(self, path: str | os.PathLike[str] = "report.html") -> Path:
        """Writes a page: reward over time, share of each action, exploration, latest decisions."""
        with self._reader() as store:
            return report.write_report(store, self.status(), path)

    def serve(self, processes: int) -> Pool:
        """Processes that only predict, each with a model of its own that follows this one."""
        from .pool import Pool

        return Pool(self._store.path, processes)

    # -- the file

    @contextmanager
    def _held(self, writing: bool = False) -> Iterator[None]:
        """The lock of the model, if it can be used."""
        if os.getpid() != self._process:
            raise BanditError("this bandit was opened before the process forked: open it after that, in one process")
        if writing and self._read_only:
            raise BanditError("this bandit is read_only=True: send decisions and rewards to the one that writes")
        with self._lock:
            self._store.connection  # noqa: B018  raises if it is closed
            if not self._is_sure:
                self._model, self._is_sure = Model.restore(self._store, self.flags), True
            yield

    def _reader(self) -> Store:
        """Another view of the file, so that long reading does not keep others from choosing."""
        with self._held():
            return Store(self._store.path, read_only=True)

    def _now(self) -> float:
        """Never goes back, and does not jump with the machine's clock while the file is open."""
        wall, monotonic = self._opened
        return wall + time.monotonic() - monotonic

    def _new_id(self, id: str) -> str:
        if not isinstance(id, str) or not id:
            raise ValueError(f"the id of a decision must be a string, and not empty: {id!r}")
        if self._store.run("SELECT 1 FROM decisions WHERE id = ?", id):
            raise ValueError(f"there is a decision with the id {id!r} already: give another, or none")
        return id

    def close(self) -> None:
        """Saves the model and lets others write. Once more does nothing."""
        with self._lock:
            if self._store.is_open and os.getpid() == self._process:
                if self._is_sure and not self._read_only:
                    self._model.save(self._store)
                self._store.close()
                self._model.close()

    def __enter__(self) -> Bandit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _flags(vw: str, epsilon: float | None) -> str:
    words = {word.partition("=")[0] for word in vw.split()}
    if words & REFUSED:
        raise ValueError(f"vw: leave out {' '.join(words & REFUSED)}, the bandit reads and writes its own file")
    explorer = "" if {word.removeprefix("--") for word in words} & EXPLORERS else "--opo_cmab"
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


def _drawn(probabilities: Sequence[float], seed: int, n: int) -> int:
    """The place of the action of decision n."""
    digest = hashlib.blake2b(f"{seed}:{n}".encode(), digest_size=8).digest()
    draw, cumulated = (int.from_bytes(digest, "big") >> 11) / (1 << 53), list(accumulate(probabilities))
    return min(bisect(cumulated, draw), bisect_left(cumulated, cumulated[-1]))  # never an action with probability 0
