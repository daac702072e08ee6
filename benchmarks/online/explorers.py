"""What plays the online problems: VW's explorers, and peers from their own packages.

Every explorer gets the same information: the user or the features of the context, the actions, and the cost of the
action that was played (a peer: the reward, minus the cost). All are at their defaults, except for settings in the name.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared.bandit import Array, Bandit, OPOLearnerBandit, Problem, UnfitError, VWBandit
from benchmarks.shared.vw import vw_build

OURS = "OPO-CMAB"
UNIFORM = "uniform"
SQUARECB = "SquareCB"

# The flags of VW. {low} and {high} stand for the range of the problem's costs.
VW_EXPLORERS = {
    OURS: "--opo_cmab",
    "FastCB": "--fastcb",
    "AdaCB": "--adacb",
    SQUARECB: "--squarecb",
    "RegCB-opt": "--regcb --regcbopt",
    "bag": "--bag 5",
    "cover": "--cover 5",
    "softmax": "--softmax",
    "synthcover": "--synthcover",
    "epsilon-greedy": "",
    UNIFORM: "--epsilon 1",
}
# With our mapping of costs in any unit, which ours have by default. Run when they are named.
MAPPED = "--cb_cost_unit range"
MAPPED_EXPLORERS = {
    f"{name}, mapped": f"{VW_EXPLORERS[name]} {MAPPED}".strip()
    for name in (SQUARECB, "RegCB-opt", "bag", "softmax", "epsilon-greedy")
}


def vw_command(flags: str) -> str:
    return f"--cb_explore_adf -q UA {flags}".strip()


def _one(action: int, problem: Problem, t: int) -> Array:
    """All probability on the action that a peer chose."""
    pi = np.zeros(len(problem.expected[t]))
    pi[action] = 1
    return pi


def _refuse_items(problem: Problem) -> None:
    if problem.items is not None:
        raise UnfitError("its actions are fixed")


def _refuse_wide(columns: int, most: int) -> None:
    """With a matrix of more columns, a run would take minutes."""
    if columns > most:
        raise UnfitError(f"its matrices would have more than {most:,} columns")


class MABWiserBandit:
    def __init__(self, problem: Problem, seed: int, policy: str, **settings: Any) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        _refuse_items(problem)
        self._problem = problem
        self._contexts = problem.dense_contexts()
        _refuse_wide(self._contexts.shape[1], 500)
        arms = list(range(len(problem.expected[0])))
        self._mab = MAB(arms, getattr(LearningPolicy, policy)(**settings), seed=seed)
        self._rng = np.random.default_rng(seed)
        self._learn = self._mab.fit  # for the first time; then partial_fit

    def probabilities(self, t: int) -> Array:
        if self._learn == self._mab.fit:  # it does not predict yet
            return _one(int(self._rng.integers(len(self._problem.expected[t]))), self._problem, t)
        return _one(self._mab.predict(self._contexts[t : t + 1]), self._problem, t)

    def learn(self, t: int, action: int, probability: float, cost: float) -> None:
        self._learn([action], [-cost], self._contexts[t : t + 1])
        self._learn = self._mab.partial_fit


class CobaBandit:
    """Actions are one-hot, or their features; crossed with the context, as is coba's default."""

    def __init__(self, problem: Problem, seed: int, learner: str, **settings: Any) -> None:
        import coba.learners

        self._problem = problem
        self._contexts = problem.dense_contexts()
        of_action = len(problem.expected[0]) if problem.items is None else problem.items[0].shape[1]
        columns = 1 + of_action * (1 + self._contexts.shape[1])
        _refuse_wide(columns, 1000 if learner == "LinTSLearner" else 2000)
        self._learner = getattr(coba.learners, learner)(seed=seed, **settings)
        self._fixed = [tuple(row) for row in np.eye(len(problem.expected[0])).tolist()]

    def _actions(self, t: int) -> list[tuple[float, ...]]:
        items = self._problem.items
        return self._fixed if items is None else [tuple(row) for row in items[t].tolist()]

    def probabilities(self, t: int) -> Array:
        actions = self._actions(t)
        chosen = self._learner.predict(self._contexts[t].tolist(), actions)[0]
        return _one(actions.index(chosen), self._problem, t)

    def learn(self, t: int, action: int, probability: float, cost: float) -> None:
        context = self._contexts[t].tolist()
        self._learner.learn(context, self._actions(t)[action], -cost, 1.0)


class ContextualBanditsBandit:
    """It bootstraps classifiers, so it needs two costs: the lower one is reward 1, the other 0. It decides and learns
    10 rounds at a time (its own examples: 50), because one at a time takes a minute per run."""

    def __init__(self, problem: Problem, seed: int, policy: str, **settings: Any) -> None:
        from contextualbandits import online

        _refuse_items(problem)
        self._problem = problem
        self._contexts = problem.dense_contexts()
        self._rng = np.random.default_rng(seed)
        self._highest, self._batch = 0.0, 1
        settings = {"nchoices": len(problem.expected[0]), "random_state": seed + 1} | settings
        if policy.startswith("Bootstrapped"):
            from sklearn.linear_model import SGDClassifier

            low, high = problem.cost_range()
            if any(((costs != low) & (costs != high)).any() for costs in problem.costs) or high - low != 1:
                raise UnfitError("its rewards are 0 or 1")
            self._highest, self._batch = high, 10
            base = SGDClassifier(loss="log_loss", random_state=seed + 1)
            settings |= {"base_algorithm": base, "batch_train": True, "njobs_arms": 1}
        self._policy = getattr(online, policy)(**settings)
        self._started = False
        self._chosen: dict[int, int] = {}  # by round, for the batch
        self._played: list[tuple[int, int, float]] = []  # round, action and reward, not yet learnt

    def probabilities(self, t: int) -> Array:
        if t not in self._chosen:
            rounds = range(t, min(t + self._batch, self._problem.rounds))
            if self._started:
                chosen = self._policy.predict(self._contexts[rounds.start : rounds.stop])
            else:
                chosen = self._rng.integers(len(self._problem.expected[t]), size=len(rounds))
            self._chosen = dict(zip(rounds, map(int, chosen), strict=True))
        return _one(self._chosen[t], self._problem, t)

    def learn(self, t: int, action: int, probability: float, cost: float) -> None:
        self._played.append((t, action, self._highest - cost))
        if len(self._played) == self._batch:
            rounds, actions, rewards = map(np.array, zip(*self._played, strict=True))
            self._policy.partial_fit(self._contexts[rounds], actions, rewards)
            self._played = []
            self._started = True


@dataclass(frozen=True)
class Peer:
    package: str
    make: Callable[..., Bandit]
    settings: dict[str, Any]


def _alphas(package: str, make: Callable[..., Bandit], kind: dict[str, str], name: str, label: str) -> dict[str, Peer]:
    """At its default, and with less exploration."""
    (what,) = kind.values()
    peers = {f"{what.removesuffix('Learner')} of {label}": Peer(package, make, kind)}
    for value in (0.3, 0.1):
        peers[f"{what.removesuffix('Learner')} of {label}, {name} {value}"] = Peer(package, make, kind | {name: value})
    return peers


PEERS: dict[str, Peer] = {
    "OPOLearner": Peer("vw-opo-cmab", OPOLearnerBandit, {}),
    **_alphas("mabwiser", MABWiserBandit, {"policy": "LinUCB"}, "alpha", "MABWiser"),
    **_alphas("mabwiser", MABWiserBandit, {"policy": "LinTS"}, "alpha", "MABWiser"),
    **_alphas("coba", CobaBandit, {"learner": "LinUCBLearner"}, "alpha", "coba"),
    **_alphas("coba", CobaBandit, {"learner": "LinTSLearner"}, "v", "coba"),
    **_alphas("contextualbandits", ContextualBanditsBandit, {"policy": "LinUCB"}, "alpha", "contextualbandits"),
    "BootstrappedUCB": Peer("contextualbandits", ContextualBanditsBandit, {"policy": "BootstrappedUCB"}),
    "BootstrappedTS": Peer("contextualbandits", ContextualBanditsBandit, {"policy": "BootstrappedTS"}),
}


@cache
def engine(package: str) -> str | None:
    """The version of a package, or None if it is not installed. Ours is identified by its files."""
    try:
        number = version(package)
    except PackageNotFoundError:
        return None
    if package != "vw-opo-cmab":
        return f"{package} {number}"
    spec = find_spec("opo_cmab")
    assert spec is not None
    assert spec.origin is not None
    files = sorted(path for path in Path(spec.origin).parent.rglob("*") if path.suffix in (".py", ".so"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    return f"opo_cmab {number} {digest}"


def identity(name: str, flags: str | None) -> dict[str, str]:
    """The identity of an explorer's runs; without flags it is a peer."""
    if flags is not None:
        return {"explorer": name, "command": vw_command(flags), "engine": f"vw {vw_build()}"}
    found = engine(PEERS[name].package)
    assert found
    return {"explorer": name, "command": name, "engine": found}


def make_bandit(command: str, problem: Problem, seed: int) -> Bandit:
    if command in PEERS:
        peer = PEERS[command]
        return peer.make(problem, seed, **peer.settings)
    return VWBandit(command, problem, seed)
