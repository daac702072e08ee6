"""Why did it explore here? The steps behind a decision of ``--opo_cmab``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import _explain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from vowpalwabbit import Example, Workspace

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    r"""The counterfactual timeline of one context: what each past round's model says of it, and where that leads.

    Algorithm 1 of Levy and Mansour (2026) decides by replaying the past for the context at hand. Step k has a row:

    .. math::
        b_k(a) = \min\{1, (\beta_k / 2) / (1 + N_k(a))\}, \quad N_k(a) = \sum_{i<k} \pi_i(a), \\
        \pi_{k+1}(a) \propto \pi_k(a)^{decay} \exp(-\eta \, \mathrm{clip}(\hat f_k(c, a) - b_k(a), 0, 1))

    Arrays have a row for each step and a column for each action. A step is a past round or, with ``--opo_budget``, one
    or more rounds whose models are averaged.
    """

    first_round: NDArray[np.int64]  #: of each step, counted from 0
    rounds: NDArray[np.int64]  #: how many past rounds each step stands for: 1 without a budget
    cost: NDArray[np.float64]  #: predicted by the step's model, in the range of costs
    bonus: NDArray[np.float64]  #: for exploration; 1 is the width of the range of costs
    optimistic_loss: NDArray[np.float64]  #: the cost, mapped to [0, 1], less the bonus, clipped
    cost_range: tuple[float, float]
    policy: NDArray[np.float64]  #: before each step, and in one more row after the last: the decision, before --epsilon

    @property
    def decision(self) -> NDArray[np.float64]:
        """The last policy."""
        last: NDArray[np.float64] = self.policy[-1]
        return last

    def to_frame(self) -> pd.DataFrame:
        """A row for each step and action (pandas)."""
        import pandas as pd

        steps, actions = self.cost.shape
        return pd.DataFrame(
            {
                "first_round": np.repeat(self.first_round, actions),
                "rounds": np.repeat(self.rounds, actions),
                "action": np.tile(np.arange(actions), steps),
                "cost": self.cost.ravel(),
                "bonus": self.bonus.ravel(),
                "optimistic_loss": self.optimistic_loss.ravel(),
                "policy": self.policy[:-1].ravel(),
            }
        )

    def plot(self, names: Sequence[str] | None = None) -> Figure:
        """Three pictures over the past rounds (matplotlib): policy, predictions with their bonuses, optimistic losses.

        Args:
            names: of the actions; their numbers unless given.
        """
        from matplotlib.figure import Figure

        actions = self.policy.shape[1]
        names = [f"action {a}" for a in range(actions)] if names is None else names
        if len(names) != actions:
            raise ValueError(f"{len(names)} names for {actions} actions")
        figure = Figure(figsize=(8, 7), layout="constrained")
        policy, cost, loss = figure.subplots(3, 1, sharex=True)
        edges = np.concatenate([self.first_round, [self.rounds.sum()]])
        policy.stackplot(edges, self.policy.T, labels=names, step="post", alpha=0.85)
        policy.set_ylabel("policy")
        policy.set_ylim(0, 1)
        policy.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)

        def to_the_end(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.concatenate([values, values[-1:] if len(values) else [np.nan]])

        low, high = self.cost_range
        for a in range(actions):
            costs, bonuses = to_the_end(self.cost[:, a]), to_the_end(self.bonus[:, a])
            [line] = cost.plot(edges, costs, drawstyle="steps-post")
            shade = {"step": "post", "color": line.get_color(), "alpha": 0.15, "linewidth": 0}
            cost.fill_between(edges, costs - (high - low) * bonuses, costs, **shade)
            loss.plot(edges, to_the_end(self.optimistic_loss[:, a]), drawstyle="steps-post")
        cost.set_ylabel("predicted cost,\nless the bonus (shaded)")
        loss.set_ylabel("optimistic loss")
        loss.set_xlabel("past round, replayed for this context")
        for axes in (policy, cost, loss):
            axes.spines[["top", "right"]].set_visible(False)
            axes.margins(x=0)
        return figure


def explain(workspace: Workspace, example: str | list[str] | list[Example]) -> Explanation:
    """The steps behind what ``workspace.predict(example)`` returns. Asking does not change the model.

    Args:
        workspace: a ``vowpalwabbit.Workspace`` with ``--cb_explore_adf --opo_cmab``, new, trained or loaded.
        example: a context with its actions, as for ``Workspace.predict``.
    """
    examples = workspace.parse(example)
    if not isinstance(examples, list):
        raise TypeError("only decisions of --cb_explore_adf --opo_cmab can be explained, not a single example")
    try:
        steps = _explain.explain(workspace, examples)
    finally:
        if examples is not example:
            _explain.discard(workspace, examples)
    low, high = float(steps["min_cost"]), float(steps["max_cost"])
    loss, bonus = steps["losses"], steps["bonuses"]
    return Explanation(
        first_round=steps["first_rounds"].astype(np.int64),
        rounds=steps["rounds"].astype(np.int64),
        cost=low + (high - low) * loss,
        bonus=bonus,
        optimistic_loss=np.clip(loss - bonus, 0, 1),
        cost_range=(low, high),
        policy=steps["policies"],
    )
