"""Algorithm 1 of Levy and Mansour (2026) in NumPy, line by line, to read beside the paper; and the bounded replay.

Slow and simple on purpose: the engine is tested against it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opo_cmab.reference_least_squares import LeastSquares

__all__ = ["LARGEST_LOSS", "LeastSquares", "averages", "bounded_policy", "policies", "policy", "segment_starts", "uccb"]

#: Predictions and bonuses above this count as this. The paper has both in [0, 1], and there this changes nothing. But a
#: regression can predict 100 for an action that it hardly knows; a bonus of at most 1 would never outweigh that.
LARGEST_LOSS = 2.0


def policies(
    predictions: ArrayLike,
    *,
    eta: float,
    gamma: float | None = None,
    beta: float | None = None,
    decay: float = 1.0,
) -> NDArray[np.float64]:
    r"""The policies $\pi_1(c, \cdot), \ldots, \pi_{K+1}(c, \cdot)$ of one context.

    Args:
        predictions: $\hat f_k(c, a)$, a row for each past round k = 1..K, a column for each action.
        eta: learning rate.
        beta: size of the exploration bonus, the constant of Algorithm 1.
        gamma: in place of it, $\beta_k = \gamma \sqrt{k / |A|}$, as in the paper's experiments.
        decay: our addition, forgetting: 1 is Algorithm 1.
    """
    if (gamma is None) == (beta is None):
        raise ValueError("give one of gamma and beta")
    f = np.minimum(predictions, LARGEST_LOSS)
    rounds, actions = f.shape
    log_pi = np.full(actions, -np.log(actions))  # pi_1 is uniform
    played = np.zeros(actions)  # sum_{i<k} pi_i(c, a)
    result = [np.exp(log_pi)]
    for k in range(1, rounds + 1):
        beta_k = beta if beta is not None else gamma * np.sqrt(k / actions)
        bonus = np.minimum(LARGEST_LOSS, (beta_k / 2) / (1 + played))  # equation (1)
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
    r"""$\pi_t(c_t, \cdot)$ for a context, with any regression oracle.

    Args:
        past_predictors: $\hat f_1, \ldots, \hat f_{t-1}$, the last from the data of rounds 1..t-2; each gives the
            predicted losses of a context's actions.
    """
    predictions = np.array([f(context) for f in past_predictors], dtype=float).reshape(-1, actions)
    return policies(predictions, eta=eta, gamma=gamma, beta=beta, decay=decay)[-1]  # type: ignore[no-any-return]


def uccb(predictions: ArrayLike, *, gamma: float, first_counts: ArrayLike | None = None) -> NDArray[np.int64]:
    r"""The actions that UCCB, the deterministic sibling of OPO-CMAB, plays for one context.

    Xu and Zeevi, "Upper Counterfactual Confidence Bounds: a New Optimism Principle for Contextual Bandits" (2020),
    Algorithm 1, for costs in place of rewards. For a context x it replays the actions that it would have played:

    $$
    \tilde a_k = \mathrm{argmin}_a \hat f_k(x, a) - \frac{\beta_k}{\sum_{j<k} 1\{\tilde a_j = a\}}
    $$

    where $\beta_k \propto \sqrt{k / |A|}$; here $\gamma \sqrt{k / |A|} / 2$, as in ``policies``.

    OPO-CMAB with a decay of 0 and $\eta \to \infty$ plays the action of least optimistic loss under the last
    predictor, which is this rule. Two things differ. UCCB plays every action once first, so that no count is 0;
    Algorithm 1 of OPO-CMAB starts from 1 + 1/|A|, because its first policy is uniform. And OPO-CMAB's bonus in round k
    does not include the play of round k - 1: its counts are one play behind.

    Args:
        predictions: $\hat f_k(x, a)$, a row for each round k = 1..K, a column for each action.
        gamma: size of the bonus.
        first_counts: the initial count of each action; without them, every action is played once first, in order.
    """
    f = np.asarray(predictions, dtype=float)
    rounds, actions = f.shape
    counts = np.zeros(actions) if first_counts is None else np.array(first_counts, dtype=float)
    played = []
    behind: list[int] = []  # plays that are not in the counts yet
    for k in range(1, rounds + 1):
        beta = gamma * np.sqrt(k / actions) / 2
        in_order = first_counts is None and k <= actions
        action = k - 1 if in_order else int(np.argmin(f[k - 1] - beta / counts))
        played.append(action)
        behind.append(action)
        if first_counts is None or len(behind) > 1:
            counts[behind.pop(0)] += 1
    return np.array(played)


def segment_starts(rounds: int, *, budget: int) -> NDArray[np.int64]:
    """The first round of each segment, and the number of rounds, for a budget.

    Each round starts as a segment of its own. Over budget, the two neighbours that are shortest for their age merge:
    those with the least length / age^(3/4), where the age of their end counts from 1.
    """
    starts = [0]
    for now in range(1, rounds + 1):
        starts.append(now)
        if len(starts) - 1 > budget:
            edges = np.array(starts)
            age = 1.0 + now - edges[2:]
            shortest = int(np.argmin((edges[2:] - edges[:-2]) / np.sqrt(age * np.sqrt(age))))
            del starts[shortest + 1]
    return np.array(starts)


def averages(predictions: ArrayLike, starts: ArrayLike) -> NDArray[np.float64]:
    """The average predictions over each segment, from a row for each past round."""
    f, edges = np.asarray(predictions, dtype=float), np.asarray(starts).astype(int)
    means: NDArray[np.float64] = np.add.reduceat(f, edges[:-1], axis=0) / np.diff(edges)[:, None]
    return means


def bounded_policy(
    averages: ArrayLike,
    starts: ArrayLike,
    *,
    eta: float,
    gamma: float | None = None,
    beta: float | None = None,
    decay: float = 1.0,
) -> NDArray[np.float64]:
    r"""The policy after a replay in segments, one step for each segment.

    A segment of one round is a step of ``policies``. A longer one, of h rounds from round k on, uses the
    average predictions of its rounds, and we solve for x(a), the number of times that each action is played:

    $$
    \begin{split}
    x(a) / h &\propto \exp(w(a)) \\
    w(a) &= \text{decay}^h \log \pi(a) - \eta S\, \mathrm{clip}(f(a) - b(a), 0, 1) \\
    b(a) &= \min\{2, (\beta_{k+m} / 2) / (1 + N(a) + x(a) m / h)\}
    \end{split}
    $$

    S is the sum of the weights $\text{decay}^{h-1}, \ldots, \text{decay}, 1$ of its rounds, and m their mean
    round, counted from 0.

    Args:
        averages: a row for each segment, a column for each action.
        starts: the first round of each segment, from 0, and the number of rounds.
    """
    if (gamma is None) == (beta is None):
        raise ValueError("give one of gamma and beta")
    f, edges = np.minimum(averages, LARGEST_LOSS), np.asarray(starts).astype(int)
    actions = f.shape[1]
    log_weights, pi, count = np.zeros(actions), np.full(actions, 1 / actions), np.ones(actions)  # count: 1 + N
    log_shares = _log(pi)  # of the last plays, up to a constant
    for losses, first, h in zip(f, edges[:-1], np.diff(edges), strict=True):
        weights = decay ** np.arange(h - 1, -1, -1.0)
        mean = weights @ np.arange(h) / weights.sum()
        half_beta = (beta if beta is not None else gamma * np.sqrt((first + 1 + mean) / actions)) / 2
        step = _Step(losses, decay**h * log_weights, count, eta * weights.sum(), half_beta, mean / h, float(h))
        if h == 1:
            log_weights, count = step.log_weights(np.zeros(actions)), count + pi
            log_weights -= log_weights.max()
            pi = np.where(log_weights > NEGLIGIBLE, np.exp(log_weights), 0)
            pi /= pi.sum()
            log_shares = _log(pi)
        else:
            pi, log_shares = step.shares(pi, log_shares)
            log_weights, count = step.log_weights(h * pi), count + h * pi
            log_weights -= log_weights.max()
    return pi


NEGLIGIBLE = -37  # the log-weight, relative to the largest, of an action that is not played
LEAST = -60  # the least log-share


def _log(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = np.log(np.maximum(shares, np.exp(LEAST)))
    return result


class _Step(NamedTuple):
    """A step through a segment."""

    losses: NDArray[np.float64]
    decayed: NDArray[np.float64]  # decay^h log pi
    counts: NDArray[np.float64]  # 1 + N
    eta: float  # eta S
    half_beta: float
    before: float  # m / h: the part of the plays that counts in the bonus
    rounds: float

    def bonus(self, plays: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.half_beta / (self.counts + self.before * plays)

    def log_weights(self, plays: NDArray[np.float64]) -> NDArray[np.float64]:
        optimistic_loss = np.clip(self.losses - np.minimum(LARGEST_LOSS, self.bonus(plays)), 0, 1)
        result: NDArray[np.float64] = self.decayed - self.eta * optimistic_loss
        return result

    def shares(
        self, last: NDArray[np.float64], log_last: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Solves for the shares x / h and their logarithms y: y - w(a) must be the same for all actions, the level.

        The shares in the last segment are mostly near: then one step of Newton's method from them will do. The
        logarithms are up to a constant: only differences count.
        """
        move, _ = self.newton_step(self.rounds * last, log_last)
        y = log_last + move
        y = np.maximum(y - y.max(), LEAST)
        shares = np.exp(y) / np.exp(y).sum()
        if np.abs(shares - last).sum() < 0.45:
            return shares, y
        shares = self.shares_afresh()
        return shares, _log(shares)

    def newton_step(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """The step of y, and the level."""
        bonus = self.bonus(x)
        unclipped = (bonus < LARGEST_LOSS) & (self.losses - bonus > 0) & (self.losses - bonus < 1)
        slope = 1 + np.where(unclipped, self.eta * self.before * bonus / (self.counts + self.before * x) * x, 0)
        residual = y - self.log_weights(x)
        level = (self.rounds - (x - x / slope * residual).sum()) / (x / slope).sum()
        return (level - residual) / slope, level

    def shares_afresh(self) -> NDArray[np.float64]:
        """The same from the log-weights alone."""
        h = self.rounds
        result = np.zeros(len(self.losses))
        highest = -self.log_weights(np.full(len(result), h)).max()  # the level if one action is always played
        candidates = np.flatnonzero(self.log_weights(result) + highest > NEGLIGIBLE)
        if len(candidates) == 1:
            result[candidates] = 1
            return result
        c = self._replace(
            losses=self.losses[candidates], decayed=self.decayed[candidates], counts=self.counts[candidates]
        )
        y = c.shares_at_level(highest, np.full(len(candidates), -5.3))
        for step in (1, 2):
            x = h * np.exp(y)
            move, level = c.newton_step(x, y)
            large = (move > 1) & (y + move > -3)
            if step == 2 or (x * np.abs(move)).sum() + h * large.sum() < 0.1 * h:
                break
            newton = y + np.where(move > 0, move / (1 + np.maximum(move, 0) / 4), move)
            far = (move > 1) | (move < -3)
            y = np.clip(np.where(far, c.shares_at_level(level, np.maximum(y, -12)), newton), LEAST, 0)
        x *= np.maximum(0, 1 + move)
        result[candidates] = x / x.sum()
        return result

    def shares_at_level(self, level: float, guess: NDArray[np.float64]) -> NDArray[np.float64]:
        """Approximate log-shares y for a level: the smaller of two values. One ignores that plays change the bonus; the
        other solves for the bonus that reaches the level, from a guess of the log-shares."""
        flat = level + self.log_weights(np.zeros(len(self.losses)))
        with np.errstate(divide="ignore", invalid="ignore"):
            bonus = self.losses - (level + self.decayed - guess) / self.eta
            share = (self.half_beta / bonus - self.counts) / (self.before * self.rounds)
            rising = np.log(np.where((bonus > 0) & (share > 1e-30), np.minimum(share, 1), 1))
        return np.clip(np.minimum(flat, rising), LEAST, 0)
