"""Why did it explore here? The steps behind a decision of ``--opo_cmab``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _explain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from vowpalwabbit import Example, Workspace

__all__ = ["Explanation", "explain"]

INSTALL = 'pip install "vw-opo-cmab[explain]"'
ROWS = 20  # at most, in the printed table
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#000000", "#bcbd22", "#17becf")
GREY = "#c8c8c8"


@dataclass(frozen=True)
class Explanation:
    r"""The replay of one context: what each past model predicts for it, and the resulting policies.

    Algorithm 1 of Levy and Mansour (2026) decides by replaying the past for the current context. Each step k is a row:

    $$
    \begin{split}
    b_k(a) &= \min\{2, (\beta_k / 2) / (1 + N_k(a))\}, \quad N_k(a) = \sum_{i<k} \pi_i(a), \\
    \pi_{k+1}(a) &\propto \pi_k(a)^{\text{decay}} \exp(-\eta \, \mathrm{clip}(\hat f_k(c, a) - b_k(a), 0, 1))
    \end{split}
    $$

    An absurd prediction, more than the width of the range above the highest cost so far, counts as 0.5: the model does
    not know that action here. Otherwise a prediction above 2 counts as 2.

    Arrays have a row for each step and a column for each action. A step is a past round or, with ``--opo_budget``, one
    or more rounds with averaged models.
    """

    first_round: NDArray[np.int64]  #: the first past round of each step, counted from 0
    rounds: NDArray[np.int64]  #: the number of past rounds in each step; 1 without a budget
    actions: NDArray[np.int64]  #: the number of each column's action: all, or the ones left by earlier slots
    cost: NDArray[np.float64]  #: predicted by the step's model, in your unit; at most a width above the range
    bonus: NDArray[np.float64]  #: for exploration, as a share of the cost range
    optimistic_loss: NDArray[np.float64]  #: the cost mapped to [0, 1], minus the bonus, clipped to [0, 1]
    cost_range: tuple[float, float]  #: the cost range of this decision; nan until it is known
    policy: NDArray[np.float64]  #: before each step, and in one more row after the last: the decision, before --epsilon

    @property
    def decision(self) -> NDArray[np.float64]:
        """The last policy."""
        last: NDArray[np.float64] = self.policy[-1]
        return last

    def __str__(self) -> str:
        """A table: the cost and the bonus of each action in the last step, and the resulting probability."""
        steps, actions = self.cost.shape
        shown = _most_probable(self.decision, ROWS)
        lines = [
            f"{self.rounds.sum()} past rounds in {steps} steps",
            f"{'action':>6} {'cost':>10} {'bonus':>6} {'probability':>11}",
        ]
        for a in shown:
            last = f"{self.cost[-1, a]:>#10.4g} {self.bonus[-1, a]:>6.3f}" if steps else f"{'-':>10} {'-':>6}"
            lines.append(f"{self.actions[a]:>6} {last} {self.decision[a]:>11.4f}")
        if len(shown) < actions:
            rest = 1 - self.decision[shown].sum()
            lines.append(f"and {actions - len(shown)} less probable actions, {max(0, rest):.4f} in all")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """A row for each step and action (pandas)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"to_frame needs pandas: {INSTALL}") from error

        steps, actions = self.cost.shape
        return pd.DataFrame(
            {
                "first_round": np.repeat(self.first_round, actions),
                "rounds": np.repeat(self.rounds, actions),
                "action": np.tile(self.actions, steps),
                "cost": self.cost.ravel(),
                "bonus": self.bonus.ravel(),
                "optimistic_loss": self.optimistic_loss.ravel(),
                "policy": self.policy[:-1].ravel(),
            }
        )

    def plot(self, names: Sequence[str] | None = None) -> Figure:
        """Four pictures over the past rounds (matplotlib): policy, predicted costs, bonuses, optimistic losses.

        The most probable action has the thickest line. With more than 10 actions, the 10 that the replay plays most are
        coloured and the others are grey.

        Args:
            names: of ``actions`` (default: their numbers).
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(f"plot needs matplotlib: {INSTALL}") from error

        actions = self.policy.shape[1]
        names = [f"action {a}" for a in self.actions] if names is None else names
        if len(names) != actions:
            raise ValueError(f"names must have one name per action: {len(names)} names for {actions} actions")
        best = int(self.decision.argmax())
        played = np.average(self.policy, axis=0, weights=[*self.rounds, 1])
        played[best] = 1  # always has a colour
        coloured = _most_probable(played, len(COLOURS))
        others = np.setdiff1d(np.arange(actions), coloured)
        colours = dict(zip(coloured, COLOURS, strict=False))

        figure = Figure(figsize=(8, 8), layout="constrained")
        policy, *below = figure.subplots(4, 1, sharex=True)
        replayed = f"{self.rounds.sum()} past rounds, replayed for this context"
        policy.set_title(f"{replayed}\nMost probable: {names[best]}, {self.decision[best]:.2f}", loc="left")
        edges = np.concatenate([self.first_round, [self.rounds.sum()]])
        shares, labels = list(self.policy.T[coloured]), [names[a] for a in coloured]
        if len(others):
            shares.append(self.policy[:, others].sum(axis=1))
            labels.append(f"{len(others)} others")
        policy.stackplot(edges, shares, labels=labels, colors=[*colours.values(), GREY], step="post", linewidth=0)
        policy.set_ylim(0, 1)
        figure.legend(loc="outside right upper", frameon=False)

        for axes, values in zip(below, (self.cost, self.bonus, self.optimistic_loss), strict=True):
            to_the_end = np.concatenate([values, values[-1:] if len(values) else np.full((1, actions), np.nan)])
            for a in [*others, *coloured]:
                width, height = (2.0, 3) if a == best else (1.0, 2)
                style = {"color": colours.get(a, GREY), "linewidth": width, "zorder": height}
                axes.plot(edges, to_the_end[:, a], drawstyle="steps-post", **style)
        for axes, label in zip(figure.axes, ("policy", "predicted cost", "bonus", "optimistic loss"), strict=True):
            axes.set_ylabel(label)
            axes.spines[["top", "right"]].set_visible(False)
            axes.margins(x=0)
        figure.axes[-1].set_xlabel("past round")
        return figure


def _most_probable(probabilities: NDArray[np.float64], count: int) -> list[int]:
    """The actions with the largest probabilities, in the order of their numbers."""
    return sorted(np.argsort(-probabilities, kind="stable")[:count].tolist())


def explain(workspace: Workspace, example: str | list[str] | list[Example], slot: int | None = None) -> Explanation:
    """The steps behind what ``workspace.predict(example)`` returns. Does not change the model.

    Args:
        workspace: a ``vowpalwabbit.Workspace`` with ``--opo_cmab``, new, trained or loaded.
        example: a context with its actions, as for ``Workspace.predict``.
        slot: with ``--ccb_explore_adf`` or ``--slates``, the slot, counted from 0. The slots before it choose as in
            the next ``predict``.
    """
    examples = workspace.parse(example)
    if not isinstance(examples, list):
        raise TypeError("only decisions of --cb_explore_adf --opo_cmab can be explained, not a single example")
    try:
        slots = _explain.explain(workspace, examples)
    finally:
        if examples is not example:
            _explain.discard(workspace, examples)
    steps = _select(slots, slot)
    low, high = float(steps["min_cost"]), float(steps["max_cost"])
    loss, bonus = steps["losses"], steps["bonuses"]
    return Explanation(
        first_round=steps["first_rounds"].astype(np.int64),
        rounds=steps["rounds"].astype(np.int64),
        actions=steps["actions"].astype(np.int64),
        cost=low + (high - low) * loss,
        bonus=bonus,
        optimistic_loss=np.clip(loss - bonus, 0, 1),
        cost_range=(low, high),
        policy=steps["policies"],
    )


def _select(slots: list[dict[str, Any] | None], slot: int | None) -> dict[str, Any]:
    """The steps of a slot."""
    if slot is None:
        if len(slots) != 1:
            raise ValueError(
                f"this context has {len(slots)} slots: say which one to explain, as in "
                "explain(workspace, example, slot=0)"
            )
        slot = 0
    if slot not in range(len(slots)):
        raise ValueError(f"slot must be from 0 to {len(slots) - 1}: {slot}")
    steps = slots[slot]
    if steps is None and len(slots) == 1:
        raise ValueError("the context has no actions to choose from: give a line for each action")
    if steps is None:
        raise ValueError(f"slot {slot} has no action left to choose: the slots before it took all of its actions")
    return steps
