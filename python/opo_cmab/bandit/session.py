"""`Bandit`: decisions and rewards over a file."""

from __future__ import annotations

import json
import math
import os
import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from ..compare import Comparison
from . import logs, model, report
from .features import INTERACTIONS, Plain, finite, lines, plain_actions, plain_context, rows_of
from .model import Model
from .store import BanditError, Store

T = TypeVar("T")
EXPLORERS = re.compile(r"--(opo_cmab|fastcb|adacb|squarecb|regcb|softmax|bag|cover|first|rnd)\b")
REFUSED = re.compile(r"(?:^|\s)(-[cdfipt]|--(data|testonly|daemon|cache|dsjson|cb_adf|ccb_explore_adf|slates))\b")
DECISION = """INSERT INTO decisions (id, time, context, actions, after, n, chosen, probability, probabilities, gain)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING n"""
ROUND = "UPDATE decisions SET round = (SELECT ifnull(max(round), 0) + 1 FROM decisions), cost = ?, given = ? WHERE n=?"
AWAY = 1e11  # the time of a decision that nobody has seen yet (opo_cmab.serve) is later than this
LATEST = "SELECT time FROM decisions WHERE time < ? ORDER BY n DESC LIMIT 1"
OLDEST = "SELECT n FROM decisions WHERE round IS NULL AND time <= ? ORDER BY time LIMIT 2"
STATUS = """SELECT json_object('decisions', count(*), 'rewarded', count(*) FILTER (WHERE given), 'waiting',
count(*) - count(round), 'rounds', count(round), 'late', count(late), 'mean_reward', avg(-cost)) FROM decisions"""
APPRENTICE = """SELECT json_object('agrees', avg(json_extract(probabilities, '$[' || chosen || ']')), 'expected_gain',
avg(gain)) FROM (SELECT * FROM decisions ORDER BY n DESC LIMIT 1000)"""


@dataclass(frozen=True)
class Decision:
    """What was chosen, and how."""

    id: str  #: for the reward
    action: Any  #: the name, as you gave it
    probability: float  #: with which it was drawn
    ranking: tuple[tuple[Any, float], ...]  #: all actions with their probabilities, the most probable first
    time: datetime  #: in UTC


class Bandit(AbstractContextManager["Bandit"]):
    """Chooses actions, learns from rewards, and keeps both in one file. docs/bandit.md is the guide.

    >>> with Bandit("articles.db") as bandit:  # doctest: +SKIP
    ...     decision = bandit.choose({"user": "Tom", "hour": 9}, ["politics", "sports", "music"])
    ...     bandit.reward(decision.id, 1.0)

    Opened again, it continues exactly where it stopped. One process writes; any number may read. A file that cannot be
    used, or that another process writes to, raises BanditError; a wrong argument ValueError.

    Args:
        path: of the file. Made if it does not exist.
        vw: arguments of VW, besides the interactions, which are set already: another explorer, a learner, ``-b 22``.
        epsilon: each action has at least this probability / the number of actions, so that the log can be evaluated.
        seed: of the draws (default: a random one). Draw n depends on the seed and n only. These three belong to the
            file: leave them out, or give the same, when it is opened again.
        wait: how long to wait for a reward: "30s", "5min", "1h", "2d" or seconds (default: for ever).
        otherwise: the reward of a decision that got none in this time.
        baseline: called with the context as a dict and the names of the actions, returns a name: played instead, while
            the bandit learns, until ``switch_on()``.
        read_only: beside a process that writes: everything but ``choose``, rewards and ``switch_on``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vw: str | None = None,
        epsilon: float | None = None,
        seed: int | None = None,
        wait: str | float | None = None,
        otherwise: float = 0.0,
        baseline: Callable[[Plain, list[Any]], Any] | None = None,
        read_only: bool = False,
    ) -> None:
        self._wait, self._otherwise = _seconds(wait), 0.0 - finite(otherwise, "otherwise")  # as a cost
        given = {"vw": vw, "epsilon": epsilon, "seed": seed}
        new = given | {"flags": _flags(vw or "", epsilon), "seed": secrets.randbits(32) if seed is None else seed}
        self._is_writer, self._process, self._lock = not read_only, os.getpid(), threading.Lock()
        self._store = Store(path, read_only)
        try:
            settings = new | self._store.settings()
            for name, value in given.items():
                if value not in (None, settings[name]):
                    raise ValueError(f"{path} was made with {name}={settings[name]!r}, not {value!r}: leave {name} out")
            self.flags, self._seed = settings["flags"], settings["seed"]
            self._baseline = None if "on" in settings else baseline
            self._model = Model.restore(self._store, self.flags)
            [(last,)] = self._store.run(LATEST, AWAY) or [(0.0,)]
            self._ahead = max(time.time(), last) - time.monotonic()  # time never goes back, nor jumps while it is open
            if not read_only:
                self._store.keep(**settings)
        except BaseException:
            self._store.close()
            raise

    def choose(self, context: Any, actions: Any, *, exclude: Iterable[Any] = (), ids: str | None = None) -> Decision:
        """Draws an action and records the decision.

        Args:
            context: a dict (numbers, strings, booleans, lists, dicts of these), a row of pandas, a vector of NumPy.
            actions: names, or a dict from names to features of their own, pairs, or a DataFrame indexed by names.
            exclude: names of actions that must not be chosen now.
            ids: your own id for the decision.
        """
        return self.choose_many([context], actions, exclude=exclude, ids=None if ids is None else [ids])[0]

    def choose_many(
        self, contexts: Any, actions: Any, *, exclude: Iterable[Any] = (), ids: Sequence[str] | None = None
    ) -> list[Decision]:
        """A decision for each row of a DataFrame or a matrix, or for each context of a list, in one transaction."""
        plain = [plain_context(one) for one in (rows_of(contexts) if hasattr(contexts, "iterrows") else contexts)]
        offered, decisions = plain_actions(actions, exclude), []
        named, recorded = [name for name, _ in offered], json.dumps(offered)
        texts = [lines(context, offered) for context in plain]
        own = [secrets.token_hex(8) for _ in plain] if ids is None else list(ids)
        if len(own) != len(plain) or len({id for id in own if isinstance(id, str) and id}) != len(plain):
            raise ValueError(f"ids must be {len(plain)} different strings, none of them empty: {ids!r}")
        rule = self._baseline  # its names are checked: one that is not there raises a ValueError
        played = [None if rule is None else named.index(rule(context, list(named))) for context in plain]
        with self._held():
            self._settle()
            at = datetime.fromtimestamp(self._ahead + time.monotonic(), timezone.utc)
            with self._store.transaction():
                [(last,)] = self._store.run("SELECT ifnull(max(n), 0) FROM decisions")
                for n, (id, context, round, place) in enumerate(zip(own, plain, texts, played, strict=True), last + 1):
                    p = self._model.predict(round)
                    weights = p if place is None else [float(i == place) for i in range(len(p))]
                    [chosen] = random.Random(f"{self._seed}:{n}").choices(range(len(p)), weights)
                    gain = None if place is None else float((costs := self._model.costs(round))[chosen] - costs @ p)
                    kept = n, chosen, weights[chosen], json.dumps([float(f"{x:.9g}") for x in p]), gain
                    about = id, at.timestamp(), json.dumps(context), recorded, self._model.rounds
                    if not self._store.run(DECISION, *about, *kept):
                        raise ValueError(f"there is a decision with the id {id!r} already: give another, or none")
                    ranking = tuple(sorted(zip(named, p, strict=True), key=lambda pair: -pair[1]))
                    decisions.append(Decision(id, named[chosen], weights[chosen], ranking, at))
        return decisions

    def predict(self, context: Any, actions: Any, *, exclude: Iterable[Any] = ()) -> dict[Any, float]:
        """The probabilities of the actions. Records nothing."""
        offered = plain_actions(actions, exclude)
        round = lines(plain_context(context), offered)
        with self._held():
            return {name: p for (name, _), p in zip(offered, self._model.predict(round), strict=True)}

    def reward(self, id: str, value: float) -> bool:
        """Records what a decision brought, learns from it and returns True.

        Returns False if the same reward was recorded before, or if it comes after ``wait``: then the decision has
        counted as ``otherwise``, and ``status()["late"]`` counts it. KeyError: there is no such decision. ValueError:
        another reward was recorded before.
        """
        return self.cost(id, 0.0 - finite(value, "the reward"))

    def cost(self, id: str, value: float) -> bool:
        """The reward's negative, as ``reward``."""
        cost = finite(value, "the cost")
        with self._held():
            self._settle()
            n, made, known, given, late = self._store.find("n, time, cost, given, late", id)
            if known is None and made > self._due():
                self._teach(n, cost, 1)
                return True
            if known is None:
                self._teach(n, self._otherwise, 0)
            if not given and late is None:
                self._store.run("UPDATE decisions SET late = ? WHERE n = ?", cost, n)
            elif (before := known if given else late) != cost:
                raise ValueError(f"decision {id!r} already has the reward {-before:g}: it stays, not {-cost:g}")
            return False

    def _teach(self, n: int, cost: float, given: int) -> None:
        """Records a round, then learns what is recorded: what is not learnt now is learnt when the file is opened."""
        self._store.run(ROUND, cost, given, n)
        self._model.catch_up(self._store)
        self._model.save(self._store, model.EVERY)

    def _settle(self) -> None:
        """Two overdue decisions in a call: enough for all of them, and nobody waits for many."""
        for (n,) in self._store.run(OLDEST, self._due()):
            self._teach(n, self._otherwise, 0)

    def _due(self) -> Any:
        """Decisions up to this time have waited long enough."""
        return self._ahead + time.monotonic() - self._wait

    def switch_on(self) -> None:
        """From now on the bandit decides, and no longer the baseline, also when the file is opened again."""
        with self._held():
            self._store.keep(on=1)
            self._baseline = None

    def status(self) -> dict[str, Any]:
        """Numbers of decisions, of those rewarded, waiting and late, of rounds learnt from, the mean reward, and how
        the apprentice does: how often it would have played as the baseline, and what it expects to gain in a round."""
        found: dict[str, Any] = json.loads(self._read(Store.run, STATUS)[0][0])
        return found if self._baseline is None else found | json.loads(self._read(Store.run, APPRENTICE)[0][0])

    def explain(self, id: str) -> dict[str, dict[Any, float]]:
        """Why a decision was made as it was, with the model of that time, which is learnt again for this."""
        return self._read(report.reasons, self.flags, id)

    def log(self, path: str | os.PathLike[str]) -> None:
        """Writes what was learnt, in its order, as dsjson, a line for each round."""
        self._read(logs.write_dsjson, path)

    @classmethod
    def from_log(cls, log: str | os.PathLike[str], path: str | os.PathLike[str], **settings: Any) -> Bandit:
        """A new bandit that has learnt from a log: dsjson, of Personalizer or from ``Bandit.log``, without the rounds
        that have no cost. ValueError: a line cannot be read; nothing is kept then. ``settings`` are Bandit's."""
        with cls(path, **settings) as bandit:
            if bandit.status()["decisions"]:
                raise BanditError(f"{path} has decisions already: give the path of a new file")
            logs.read_dsjson(bandit._store, log)
        return cls(path, **settings)

    def compare(self, **settings: Any) -> Comparison:
        """Estimates from what was learnt what each explorer would have cost: ``compare_explorers``, with its
        ``settings``. Needs decisions with propensities: ``epsilon``."""
        return self._read(logs.compare, self.flags, settings)

    def report(self, path: str | os.PathLike[str] = "report.html") -> Path:
        """Writes a page: reward over time, share of each action, exploration, latest decisions."""
        Path(path).write_text(self._read(report.page, self.status()))
        return Path(path)

    def serve(self, processes: int) -> Pool:
        """Processes that only predict, each with a model of its own that follows this one."""
        return Pool(self._store.path, processes)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The lock of the model, which has learnt all that is recorded."""
        if os.getpid() != self._process:
            raise BanditError("this bandit was opened before the process forked: open it after that, in one process")
        with self._lock:
            if self._model.is_sure:
                self._model.catch_up(self._store)
            else:  # interrupted
                self._model = Model.restore(self._store, self.flags)
            yield

    def _read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Through another connection, so that long reading does not keep others from choosing."""
        with self._held():
            store = Store(self._store.path, read_only=True)
        with closing(store):
            return function(store, *arguments)

    def close(self) -> None:
        """Saves the model and lets others write. Once more does nothing."""
        with self._lock:
            if os.getpid() == self._process:
                if self._is_writer:
                    self._model.save(self._store, every=1)
                self._store.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class Pool(ProcessPoolExecutor):
    """Reading processes, each with a model of its own that learns what the writer has recorded before it answers."""

    def __init__(self, path: Path, processes: int) -> None:
        super().__init__(processes, get_context("spawn"))
        self._path = path

    def predict(self, context: Any, actions: Any, *, exclude: Iterable[Any] = ()) -> dict[Any, float]:
        """As ``Bandit.predict``, in the next free process. May be called from many threads."""
        return self.submit(_predict, self._path, plain_context(context), plain_actions(actions, exclude)).result()


_reader = cache(lambda path: Bandit(path, read_only=True))  # of a process of a pool


def _predict(path: Path, context: Plain, actions: Any) -> dict[Any, float]:
    return _reader(path).predict(context, actions)


def _flags(vw: str, epsilon: float | None) -> str:
    if found := REFUSED.search(vw):
        raise ValueError(f"vw: leave out {found[1]}, the bandit reads and writes its own file")
    explorer, minimum = "--opo_cmab " * (not EXPLORERS.search(vw)), f"--epsilon {epsilon} " * (epsilon is not None)
    return f"--cb_explore_adf {explorer}{INTERACTIONS} {minimum}{vw}".strip()


def _seconds(wait: str | float | None) -> float:
    if isinstance(wait, str) and (match := re.fullmatch(r"([\d.]+) *(s|min|h|d)", wait.strip())):
        wait = float(match[1]) * {"s": 1, "min": 60, "h": 3600, "d": 86_400}[match[2]]
    if wait is not None and (isinstance(wait, bool | str) or not wait > 0):
        raise ValueError('wait must be like "30s", "5min", "1h" or "2d", or a number of seconds above 0')
    return math.inf if wait is None else wait
