"""Algorithm 1 of Levy and Mansour (2026) in NumPy, line by line, to be read beside the paper.

Slow and plain on purpose: what the engine computes is tested against it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["policies", "policy", "uccb"]


def policies(
    predictions: ArrayLike,
    *,
    eta: float,
    gamma: float | None = None,
    beta: float | None = None,
    decay: float = 1.0,
) -> NDArray[np.float64]:
    r"""The policies :math:`\pi_1(c, \cdot), \ldots, \pi_{K+1}(c, \cdot)` of one context.

    Args:
        predictions: :math:`\hat f_k(c, a)`, a row for each past round k = 1..K, a column for each action.
        eta: learning rate.
        beta: size of the exploration bonus, the constant of Algorithm 1.
        gamma: in place of it, :math:`\beta_k = \gamma \sqrt{k / |A|}`, as in the paper's experiments.
        decay: our addition, what is left of the past after a round: 1 is Algorithm 1.
    """
    if (gamma is None) == (beta is None):
        raise ValueError("give one of gamma and beta")
    f = np.asarray(predictions, dtype=float)
    rounds, actions = f.shape
    log_pi = np.full(actions, -np.log(actions))  # pi_1 is uniform
    played = np.zeros(actions)  # sum_{i<k} pi_i(c, a)
    result = [np.exp(log_pi)]
    for k in range(1, rounds + 1):
        beta_k = beta if beta is not None else gamma * np.sqrt(k / actions)
        bonus = np.minimum(1, (beta_k / 2) / (1 + played))  # equation (1)
        optimistic_loss = np.clip(f[k - 1] - bonus, 0, 1)
        played += result[-1]
        log_pi = decay * log_pi - eta * optimistic_loss  # policy improvement
        log_pi -= log_pi.max()  # for precision: only differences count
        log_pi -= np.log(np.exp(log_pi).sum())
        result.append(np.exp(log_pi))
    return np.array(result)


def policy(
    past_predictors: Sequence[Callable[[Any], ArrayLike]],
    context: Any,
    actions: int,
    *,
    eta: float,
    gamma: float | None = None,
    beta: float | None = None,
    decay: float = 1.0,
) -> NDArray[np.float64]:
    r""":math:`\pi_t(c_t, \cdot)` for a context, with any regression oracle.

    Args:
        past_predictors: :math:`\hat f_1, \ldots, \hat f_{t-1}`, the last from the data of rounds 1..t-2; each gives the
            predicted losses of a context's actions.
    """
    predictions = np.array([f(context) for f in past_predictors], dtype=float).reshape(-1, actions)
    return policies(predictions, eta=eta, gamma=gamma, beta=beta, decay=decay)[-1]  # type: ignore[no-any-return]


def uccb(predictions: ArrayLike, *, gamma: float, first_counts: ArrayLike | None = None) -> NDArray[np.int64]:
    r"""The actions that UCCB, the deterministic sibling of OPO-CMAB, plays for one context.

    Xu and Zeevi, "Upper Counterfactual Confidence Bounds: a New Optimism Principle for Contextual Bandits" (2020),
    Algorithm 1, for costs in place of rewards. For a context x it replays the actions that it would have played:

    .. math:: \tilde a_k = \arg\min_a \hat f_k(x, a) - \frac{\beta_k}{\sum_{j<k} 1\{\tilde a_j = a\}}

    where :math:`\beta_k \propto \sqrt{k / |A|}`; here :math:`\gamma \sqrt{k / |A|} / 2`, as in :func:`policies`.

    OPO-CMAB with a decay of 0 and :math:`\eta \to \infty` plays the action of least optimistic loss under the last
    predictor, which is this rule. Two things differ. UCCB plays every action once first, so that no count is 0;
    Algorithm 1 of OPO-CMAB starts from 1 + 1/|A|, one and the uniform first policy. And OPO-CMAB's bonus in round k
    does not know yet what round k - 1 led to: its counts are one play behind.

    Args:
        predictions: :math:`\hat f_k(x, a)`, a row for each round k = 1..K, a column for each action.
        gamma: size of the bonus.
        first_counts: of each action; without, every action is played once first, in order.
    """
    f = np.asarray(predictions, dtype=float)
    rounds, actions = f.shape
    counts = np.zeros(actions) if first_counts is None else np.array(first_counts, dtype=float)
    played = []
    behind: list[int] = []  # plays that the counts do not know yet
    for k in range(1, rounds + 1):
        beta = gamma * np.sqrt(k / actions) / 2
        in_order = first_counts is None and k <= actions
        action = k - 1 if in_order else int(np.argmin(f[k - 1] - beta / counts))
        played.append(action)
        behind.append(action)
        if first_counts is None or len(behind) > 1:
            counts[behind.pop(0)] += 1
    return np.array(played)
