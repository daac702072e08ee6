"""Why a decision was made: what each feature of the context adds to the predicted costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Explanation
from .features import Plain, lines, names
from .model import Model
from .store import BanditError, Store

__all__ = ["Reasons", "reasons"]


@dataclass(frozen=True)
class Reasons:
    """The predicted costs behind a decision. The share of a feature is what the prediction changes if it is left out;
    with VW's linear learners, ``base`` and the shares add up to ``costs``, unless a prediction is clipped."""

    actions: list[Any]
    chosen: int  #: its place among the actions
    costs: NDArray[np.float64]  #: predicted, of each action
    base: NDArray[np.float64]  #: the same without a context
    shares: dict[str, NDArray[np.float64]]  #: by feature of the context
    replay: Explanation  #: the steps from predictions to probabilities

    def __str__(self) -> str:
        """The shares in the cost of the chosen action, largest first."""
        largest = sorted(self.shares.items(), key=lambda share: -abs(share[1][self.chosen]))
        rows = [(name, share[self.chosen]) for name, share in largest]
        rows = [("predicted cost", self.costs[self.chosen]), ("the action itself", self.base[self.chosen]), *rows]
        width = max(len(name) for name, _ in rows)
        return "\n".join([f"{self.actions[self.chosen]}", *(f"{name:{width}} {value:>+9.4f}" for name, value in rows)])


def reasons(store: Store, flags: str, id: str) -> Reasons:
    found = store.run("SELECT context, actions, chosen, rounds FROM decisions WHERE id = ?", id)
    if not found:
        raise KeyError(f"{store.path} has no decision with the id {id!r}: give the id of a Decision")
    [(context, actions, chosen, rounds)] = found
    if "--opo_cmab" not in flags.split():
        raise BanditError("only decisions of --opo_cmab can be explained, not those of another explorer")
    if not rounds:
        raise BanditError(f"decision {id} was made before anything was learnt: all actions were the same")
    context, actions = json.loads(context), json.loads(actions)
    then = Model.restore(store, flags, rounds)

    def costs(context: Plain) -> NDArray[np.float64]:
        last: NDArray[np.float64] = then.explain(lines(context, actions)).cost[-1]
        return last

    replay, predicted = then.explain(lines(context, actions)), costs(context)
    shares = {name: predicted - costs(rest) for name, rest in _left_out(context)}
    base = costs({})
    then.close()
    return Reasons(names(actions), chosen, predicted, base, shares, replay)


def _left_out(context: Plain) -> Iterator[tuple[str, Plain]]:
    """Each feature, and the context without it."""
    for key, value in context.items():
        rest = {k: v for k, v in context.items() if k != key}
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", rest | {key: inner}) for name, inner in _left_out(value))
        elif isinstance(value, list):
            yield from ((f"{key}={item}", rest | {key: [i for i in value if i != item]}) for item in value)
        else:
            yield f"{key}={value}", rest
