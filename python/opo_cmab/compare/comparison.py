"""The result of a comparison, put together from its runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from . import report
from .estimate import Estimate, Passes, estimate, passes_needed, share_in_common, student_quantile, times_as_many
from .logs import Log
from .replay import Plan
from .rows import Row
from .verdict import notes, verdict

__all__ = ["Comparison", "Difference", "Explorer", "summarize"]

LEVEL = 0.95
MOST_PASSES = 400  # the most that we advise
SUPPORTED = 0.95  # of decisions; an explorer below this does not shorten the others' rounds


@dataclass(frozen=True)
class Explorer:
    """The results of one explorer."""

    name: str
    flags: str
    cost: Estimate | None = None  #: the mean over its first rounds
    accepted: float = 0.0  #: rounds of a pass, on average
    supported: float = 1.0  #: the share of its decisions that the log can show
    seconds: float = 0.0  #: of a pass
    curve: list[Estimate] = field(default_factory=list)  #: the mean cost up to each of Comparison.curve_rounds
    error: str | None = None


@dataclass(frozen=True)
class Difference:
    """The cost of an explorer less that of another, in the same passes."""

    first: str
    second: str
    cost: Estimate
    passes: int

    @property
    def passes_needed(self) -> float:
        """The passes needed to detect a difference of this size; infinite if the log is too short."""
        return passes_needed(self.cost, self.passes)

    @property
    def times_as_many(self) -> float:
        """How many times longer the log would have to be to detect a difference of this size."""
        return times_as_many(self.cost)

    @property
    def lacks(self) -> Literal["passes", "data"] | None:
        """What there is not enough of to tell the two apart; None if they can be told."""
        if self.cost.tells:
            return None
        return "passes" if self.passes_needed <= MOST_PASSES else "data"


@dataclass(frozen=True)
class Comparison:
    """The result. ``print`` it, or see ``explorers``, ``differences`` and ``verdict``."""

    logs: list[str]
    vw: str
    seed: int
    log_rounds: int
    log_cost: Estimate  #: of the logged actions
    rounds: int  #: covered by the estimates
    passes: int
    multiplier: float
    reference: str
    explorers: list[Explorer]
    differences: list[Difference]  #: from the reference; the intervals hold for all together
    verdict: list[str]
    notes: list[str]
    curve_rounds: list[int]

    def __str__(self) -> str:
        return report.in_text(self)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        result = asdict(self)
        for row, difference in zip(result["differences"], self.differences, strict=True):
            row |= {"tells": difference.cost.tells, "lacks": difference.lacks}
            for name in ("times_as_many", "passes_needed"):
                value = getattr(difference, name)
                row[name] = value if math.isfinite(value) else None
        return result

    def to_html(self) -> str:
        """A self-contained page."""
        return report.in_html(self)


def share_supported(rows: Sequence[Row], plan: Plan, shared: float) -> float:
    """The share of an explorer's decisions that the log supports. If it supports all, one line in M is accepted.

    1 unless the observed share is lower by more than three standard deviations.
    """
    share = float(np.mean([row["accepted"] * plan.multiplier / max(row["lines"], 1) for row in rows]))
    accepted = float(np.mean([row["accepted"] for row in rows]))
    noise = math.sqrt((shared / (1 - shared) + 1 / len(rows)) / max(accepted, 1.0))
    return share if share < 1 - 3 * noise else 1.0


def summarize(
    log: Log, plan: Plan, passes: int, chosen: Mapping[str, str], reference: str, rows: Mapping[str, Sequence[Row]]
) -> Comparison:
    """The comparison from the rows of all runs."""
    errors = {name: next((row["error"] for row in rows[name] if row["error"]), None) for name in chosen}
    working = [name for name in chosen if errors[name] is None]
    if not working:
        raise ValueError(f"no explorer runs. {reference}: {errors[reference]}")
    lines: dict[str, list[Counter[int]]] = {name: [Counter(row["sample"]) for row in rows[name]] for name in working}
    shared = {name: share_in_common(lines[name]) for name in working}
    supported = {name: share_supported(rows[name], plan, shared[name]) for name in working}
    # An explorer that wants actions that the log never shows gets fewer rounds. It must not shorten the others'.
    usable = [name for name in working if supported[name] > SUPPORTED or name == reference] or working
    rounds = min(row["accepted"] for name in usable for row in rows[name]) // plan.step * plan.step
    width = log.cost_range[1] - log.cost_range[0]
    points = sorted({max(1, round(i * rounds / plan.step / 60)) for i in range(1, 61)})

    def passes_of(name: str, point: int) -> Passes:
        n = point * plan.step
        return Passes(
            np.array([row["sums"][point - 1] / n for row in rows[name]]),
            np.array([row["accepted_sums"][point - 1] / n for row in rows[name]]),
            lines[name],
            shared[name],
        )

    last = rounds // plan.step
    explorers = []
    for name, flags in chosen.items():
        if errors[name] is not None:
            explorers.append(Explorer(name, flags, error=errors[name]))
            continue
        told = last > 0 and all(len(row["sums"]) >= last for row in rows[name])
        curve = [estimate(passes_of(name, point), point * plan.step, width) for point in points] if told else []
        explorers.append(
            Explorer(
                name,
                flags,
                cost=curve[-1] if told else None,
                accepted=float(np.mean([row["accepted"] for row in rows[name]])),
                supported=supported[name],
                seconds=float(np.mean([row["seconds"] for row in rows[name]])),
                curve=curve,
            )
        )
    names = [e.name for e in explorers if e.cost is not None]

    def difference(first: str, second: str, level: float) -> Difference:
        paired = passes_of(first, last) - passes_of(second, last)
        return Difference(first, second, estimate(paired, rounds, width, level), passes)

    others = [name for name in names if name != reference] if reference in names else []
    each = 1 - (1 - LEVEL) / max(1, len(others))  # Bonferroni: all intervals hold together
    differences = [difference(name, reference, each) for name in others]
    every_pair = 1 - (1 - LEVEL) / max(1, len(names) * (len(names) - 1) // 2)
    half = student_quantile((1 + LEVEL) / 2, 10**6) * math.sqrt(log.cost_variance / log.rounds)
    said = verdict(reference, explorers, differences, lambda a, b: difference(a, b, every_pair))
    return Comparison(
        logs=log.files,
        vw=plan.vw,
        seed=plan.seed,
        log_rounds=log.rounds,
        log_cost=Estimate(log.mean_cost, log.mean_cost - half, log.mean_cost + half),
        rounds=rounds,
        passes=passes,
        multiplier=plan.multiplier,
        reference=reference,
        explorers=explorers,
        differences=differences,
        verdict=said,
        notes=notes(log, plan.vw, explorers, rows),
        curve_rounds=[point * plan.step for point in points],
    )
