"""How many rounds a log allows for a comparison."""

from __future__ import annotations

import math

import numpy as np

from .logs import Log, LogError
from .replay import Plan

__all__ = ["default_passes", "make_plan"]

SHARE = 0.8  # the largest share of lines that a pass keeps: two passes must differ
MOST_ROUNDS = 5000  # unless asked for more: a longer log makes narrower intervals instead
FEWEST_ROUNDS = 10
MARGIN = 2.5  # standard deviations of the number of accepted rounds


def make_plan(log: Log, rounds: int | None, seed: int, vw: str) -> Plan:
    """The number of rounds that a log allows, and the multiplier for it.

    A line is accepted with probability 1 / M. M is at least 1 / (SHARE * the smallest probability), and larger if fewer
    rounds are wanted, so that they come from the whole log.
    """
    lines = log.rounds
    least = 1 / (SHARE * log.smallest_probability())
    most = math.floor(lines / least - MARGIN * math.sqrt(lines / least))
    if most < FEWEST_ROUNDS:
        raise LogError(
            f"{', '.join(log.files)}: too short to compare explorers. Its probabilities go down to "
            f"{log.smallest_probability():.3g}, so about one round in {least:.0f} can be accepted: about "
            f"{lines / least:.0f} of {lines} usable rounds. At least {FEWEST_ROUNDS} are needed; collect about "
            f"{math.ceil(100 * least):,} rounds for 100."
        )
    if rounds is not None and not FEWEST_ROUNDS <= rounds <= most:
        raise LogError(f"rounds must be from {FEWEST_ROUNDS} to {most}, the most that this log allows: {rounds}")
    wanted = min(most, MOST_ROUNDS) if rounds is None else rounds
    expected = ((MARGIN + math.sqrt(MARGIN**2 + 4 * wanted)) / 2) ** 2  # less its MARGIN standard deviations: wanted
    return Plan(wanted, max(least, lines / expected), SHARE, seed, vw)


def default_passes(log: Log, plan: Plan) -> int:
    """More if a pass keeps few lines: it is faster, and passes have less in common."""
    kept = log.inverse_probabilities / (log.rounds * plan.multiplier)
    return int(np.clip(round(8 / kept), 10, 40))
