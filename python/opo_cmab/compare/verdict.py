"""The conclusion of a comparison in words, and its caveats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from . import interactions
from .estimate import Estimate
from .logs import NAMED, Log

if TYPE_CHECKING:
    from .comparison import Difference, Explorer

__all__ = ["notes", "verdict"]

DOMINATES = 0.2  # of the variance of all costs: that of one round is pointed out


def _times(value: float) -> str:
    if value > 1000:
        return "more than 1,000 times as many"
    return f"about {value:.1f} times as many" if value < 10 else f"about {value:.0f} times as many"


def _by(cost: Estimate) -> str:
    low, high = sorted((abs(cost.low), abs(cost.high)))
    return f"by {cost.rounded(abs(cost.mean))} a round ({cost.rounded(low)} to {cost.rounded(high)})"


def verdict(
    reference: str,
    explorers: Sequence[Explorer],
    differences: Sequence[Difference],
    compare: Callable[[str, str], Difference],
) -> list[str]:
    """Sentences, the most important first. An explorer whose interval includes 0 does not win.

    Args:
        reference: the explorer in use.
        explorers: all of them.
        differences: from the reference.
        compare: the difference of any two, with intervals that hold for all pairs together.
    """
    told = [e for e in explorers if e.cost is not None]
    if reference not in [e.name for e in told]:
        return [f"There is no estimate for {reference}, the explorer in use, so nothing can be compared with it."]
    if not differences:
        return [f"There is no other estimate to compare {reference} with."]
    better = [d for d in differences if d.cost.high < 0]
    worse = [d for d in differences if d.cost.low > 0]
    sentences = []
    if better:
        best = min(better, key=lambda d: d.cost.mean).first
        others = {e.name: compare(best, e.name) for e in told if e.name not in (best, reference)}
        level = {name: d for name, d in others.items() if d.cost.high >= 0}
        if not level:
            sentences.append(f"{best} costs least.")
        else:
            lacking = _lacking(level.values())
            sentences.append(
                f"{best} is better than {reference}. Not enough {lacking} to tell it from {_list([*level])}."
            )
    elif len(worse) == len(differences):
        sentences.append(f"{reference} costs least.")
    else:
        lacking = _lacking(differences)
        sentences.append(f"Not enough {lacking} to tell whether any of the others is better than {reference}.")
    for difference in differences:
        cost = difference.cost
        if cost.tells:
            word = "less" if cost.mean < 0 else "more"
            sentences.append(f"{difference.first} costs {word} than {reference}, {_by(cost)}.")
        else:
            if difference.lacks == "passes":
                advice = f"try --passes {max(10 * ceil(difference.passes_needed / 10), 10)}"
            else:
                advice = f"you need {_times(difference.times_as_many)} rounds"
            sentences.append(
                f"{difference.first} and {reference}: not enough {difference.lacks} to tell. If the true difference is "
                f"{cost.rounded(cost.mean)}, {advice}."
            )
    return sentences


def _lacking(differences: Iterable[Difference]) -> str:
    """Of differences of which some cannot be told. More passes help only if they would do for all of these."""
    return "data" if any(d.lacks == "data" for d in differences) else "passes"


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def notes(
    log: Log, vw: str, explorers: Sequence[Explorer], rows: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[str]:
    """Problems of the log, what it cannot tell, and what the learners lack."""
    said = []
    if log.bad:
        named = "; ".join(map(str, log.named))
        more = f"; and {log.bad - NAMED} more" if log.bad > NAMED else ""
        said.append(f"{log.bad} of {log.bad + log.rounds + log.deterministic} rounds left out: {named}{more}.")
    if log.deterministic:
        said.append(
            f"{log.deterministic} rounds left out because the action shown had probability 1: the log cannot tell what "
            "the others would have cost. The estimates cover the other rounds only, and say nothing about contexts "
            "that occur only in the rounds left out."
        )
    if log.cost_range[0] == log.cost_range[1]:
        said.append(
            f"All costs in the log are {log.cost_range[0]:g}: explorers cannot differ. Check the costs in the log."
        )
    for far in log.far_costs:
        share = log.share_of_spread(far.cost)
        if share > DOMINATES:
            said.append(
                f"The cost {far.cost:g} of one round ({far.file}, line {far.line}) is {share:.0%} of the variance of "
                "all costs: the estimates depend on this round. If its cost is wrong, remove it and compare again."
            )
    could_be_shown = log.inverse_probabilities / log.actions
    if could_be_shown < 0.97:
        said.append(
            f"According to its probabilities the log can show only {could_be_shown:.0%} of the actions. It cannot "
            "tell what the others would have cost; rounds in which an explorer wants them are left out."
        )
    smallest = log.by_probability[0][0]
    if smallest < log.smallest_probability():
        said.append(
            f"A few actions had probabilities down to {smallest:.2g}. Those below {log.smallest_probability():.2g} "
            "are raised to this value: it affects at most 1 % of rounds."
        )
    unreadable = max((row["unreadable"] for runs in rows.values() for row in runs if not row["error"]), default=0)
    if unreadable:
        said.append(f"VW could not read {unreadable} rounds in one pass; they are left out.")
    for explorer in explorers:
        if explorer.error:
            said.append(f"{explorer.name} does not run: {explorer.error}")
        elif explorer.supported < 0.95:
            said.append(
                f"{explorer.name}: in about {1 - explorer.supported:.0%} of rounds it wants an action that the log "
                "never shows. " + ("No estimate." if explorer.cost is None else "Its estimate leaves them out.")
            )
    crossed = any(interactions.crosses(flags) for flags in (vw, *(e.flags for e in explorers)))
    if not crossed and log.shared_namespaces and log.action_namespaces:
        said.append(interactions.hint(log.shared_namespaces, log.action_namespaces))
    return said
