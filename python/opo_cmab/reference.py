"""Algorithm 1 of Levy and Mansour (2026) in NumPy, line by line, to be read beside the paper.

Slow and plain on purpose: what the engine computes is tested against it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["policies", "policy"]


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
