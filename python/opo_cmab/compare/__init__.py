r"""Which explorer on my logs? What each would have cost, from a log with probabilities of what was shown.

>>> result = opo_cmab.compare_explorers("log.txt", vw="-q ua")  # doctest: +SKIP
>>> print(result)  # doctest: +SKIP

or ``python -m opo_cmab.compare log.txt --vw "-q ua"``. docs/compare.md explains what is estimated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np

from .estimate import Estimate, Passes, estimate, share_in_common, student_quantile, times_as_many
from .logs import Log, LogError, scan
from .replay import Plan
from .runs import Row, Workers, run_missing

__all__ = ["EXPLORERS", "Comparison", "Difference", "Explorer", "LogError", "compare_explorers"]

#: What is compared unless told otherwise, by name: the flags. {min} and {max} become the range of the log's costs.
EXPLORERS: Mapping[str, str] = MappingProxyType(
    {
        "epsilon-greedy": "",
        "SquareCB": "--squarecb",
        "FastCB": "--fastcb",
        "OPO-CMAB": "--opo_cmab",
        "RegCB-opt": "--regcb --regcbopt --cb_min_cost {min} --cb_max_cost {max}",
    }
)
#: Further names that may be given.
MORE_EXPLORERS: Mapping[str, str] = MappingProxyType(
    {"bag": "--bag 5", "AdaCB-fixed": "--adacb", "softmax": "--softmax"}
)
LEVEL = 0.95
SHARE = 0.8  # of lines that a pass keeps at most: what two passes have in common must leave something that differs
MOST_ROUNDS = 5000  # unless asked for more: a longer log makes narrower intervals instead
FEWEST_ROUNDS = 10
MARGIN = 2.5  # standard deviations of the number of accepted rounds
SUPPORTED = 0.95
OURS = (
    "-d",
    "--data",
    "-p",
    "--predictions",
    "-f",
    "--final_regressor",
    "-t",
    "--testonly",
    "--daemon",
    "-c",
    "--cache",
)


@dataclass(frozen=True)
class Explorer:
    """What is known of one explorer."""

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

    @property
    def times_as_many(self) -> float:
        """How many times as many rounds in the log would tell a difference of this size from none."""
        return times_as_many(self.cost)


@dataclass(frozen=True)
class Comparison:
    """The result. ``print`` it, or see ``explorers``, ``differences`` and ``verdict``."""

    logs: list[str]
    vw: str
    seed: int
    log_rounds: int
    log_cost: Estimate  #: of what was shown
    rounds: int  #: that the estimates are of
    passes: int
    multiplier: float
    reference: str
    explorers: list[Explorer]
    differences: list[Difference]  #: from the reference; the intervals hold for all together
    verdict: list[str]
    notes: list[str]
    curve_rounds: list[int]

    def __str__(self) -> str:
        from .report import in_text

        return in_text(self)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        result = asdict(self)
        for row, difference in zip(result["differences"], self.differences, strict=True):
            times = difference.times_as_many
            row["tells"] = difference.cost.tells
            row["times_as_many"] = times if math.isfinite(times) else None
        return result

    def to_html(self) -> str:
        """A page with nothing to load from elsewhere."""
        from .report import in_html

        return in_html(self)


def named_explorers(explorers: Mapping[str, str] | Sequence[str] | None, log: Log) -> dict[str, str]:
    """The flags of each: known names, "name=flags", or flags alone."""
    known = {name.casefold(): (name, flags) for name, flags in {**EXPLORERS, **MORE_EXPLORERS}.items()}
    if explorers is None:
        explorers = list(EXPLORERS)
    if isinstance(explorers, str):
        raise TypeError(f"explorers is a list or a mapping, not a string: [{explorers!r}]")
    chosen: dict[str, str] = {}
    pairs = explorers.items() if isinstance(explorers, Mapping) else [_name_and_flags(e, known) for e in explorers]
    low, high = log.cost_range
    for name, flags in pairs:
        if name in chosen:
            raise ValueError(f"two explorers are called {name!r}")
        check_flags(flags)
        words = flags.replace("{min}", f"{low:g}").replace("{max}", f"{high if high > low else low + 1:g}").split()
        chosen[name] = " ".join(word for word in words if word != "--cb_explore_adf")
    if not chosen:
        raise ValueError("no explorer to compare")
    return chosen


def _name_and_flags(explorer: str, known: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    if explorer.lstrip().startswith("-"):
        return explorer.strip(), explorer
    name, equals, flags = explorer.partition("=")
    if equals:
        return name.strip(), flags
    if name.casefold() not in known:
        names = ", ".join(name for name, _ in known.values())
        raise ValueError(f"no explorer is called {name!r}. Known: {names}; or give its flags, as 'mine=--squarecb'")
    return known[name.casefold()]


def check_flags(flags: str) -> None:
    """Refuses what the comparison decides itself."""
    for word in flags.split():
        if word.partition("=")[0] in OURS:
            raise ValueError(f"{word} cannot be given: the comparison reads the log and predicts by itself")


def make_plan(log: Log, rounds: int | None, seed: int, vw: str) -> Plan:
    """How many rounds can be had from a log, and the multiplier for it.

    A line is accepted with probability 1 / M. M is at least 1 / (SHARE * the smallest probability), and larger if fewer
    rounds are wanted, so that they come from all of the log.
    """
    lines = log.rounds
    least = 1 / (SHARE * log.smallest_probability())
    most = math.floor(lines / least - MARGIN * math.sqrt(lines / least))
    if most < FEWEST_ROUNDS:
        raise LogError(
            f"{', '.join(log.files)}: too short to tell anything. Actions are shown with probabilities down to "
            f"{log.smallest_probability():.3g}, so about one line in {least:.0f} can be accepted: of {lines} "
            f"usable rounds about {lines / least:.0f}. {FEWEST_ROUNDS} are the least, hundreds are useful: about "
            f"{math.ceil(100 * least):,} lines."
        )
    if rounds is not None and not FEWEST_ROUNDS <= rounds <= most:
        raise LogError(f"rounds must be from {FEWEST_ROUNDS} to {most}, which is what this log has: {rounds}")
    wanted = min(most, MOST_ROUNDS) if rounds is None else rounds
    expected = ((MARGIN + math.sqrt(MARGIN**2 + 4 * wanted)) / 2) ** 2  # less its MARGIN standard deviations: wanted
    return Plan(wanted, max(least, lines / expected), SHARE, seed, vw)


def default_passes(log: Log, plan: Plan) -> int:
    """More where a pass keeps few lines: it takes less time, and passes have less in common."""
    kept = log.inverse_probabilities / (log.rounds * plan.multiplier)
    return int(np.clip(round(8 / kept), 10, 40))


def compare_explorers(
    logs: str | Path | Sequence[str | Path],
    explorers: Mapping[str, str] | Sequence[str] | None = None,
    *,
    vw: str = "",
    reference: str | None = None,
    passes: int | None = None,
    rounds: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> Comparison:
    """What explorers would have cost on a log, learning as they go.

    Args:
        logs: files of one log, in order: VW's text format (--cb_explore_adf) or dsjson, plain or gz.
        explorers: names out of EXPLORERS, "name=flags", or a mapping from names to flags (default: EXPLORERS).
        vw: arguments for all, for example interactions.
        reference: the explorer in use, with which the others are compared (default: the first).
        passes: over the log, each with other coins (default: 10 to 40).
        rounds: the number n of rounds that is asked about (default: what the log has, at most 5,000).
        seed: of the coins.
        jobs: processes.
        scheduler: address of a Dask scheduler to run on instead.
        out: a directory for compare.json, compare.html and runs.jsonl, from which a killed comparison goes on.
        progress: shown on stderr.

    Raises:
        LogError: if the log does not tell anything, with the reason.
    """
    files = [Path(log).resolve() for log in ([logs] if isinstance(logs, str | Path) else logs)]
    if not files:
        raise LogError("no log is given")
    if passes is not None and passes < 5:
        raise ValueError(f"passes must be at least 5, to see how they vary: {passes}")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1: {jobs}")
    check_flags(vw)
    directory = Path(out) if out is not None else None
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        log = scan(files, Path(temporary) / "index")
        chosen = named_explorers(explorers, log)
        reference = next(iter(chosen)) if reference is None else reference
        if reference not in chosen:
            raise ValueError(f"the reference {reference!r} is not among the explorers: {', '.join(chosen)}")
        plan = make_plan(log, rounds, seed, " ".join(vw.split()))
        count = default_passes(log, plan) if passes is None else passes
        file = directory / "runs.jsonl" if directory is not None else None
        rows = run_missing(log, plan, count, chosen, Workers(jobs, scheduler), file, progress)
    comparison = summarize(log, plan, count, chosen, reference, rows)
    if directory is not None:
        from .report import write

        write(comparison, directory)
    return comparison


def summarize(
    log: Log, plan: Plan, passes: int, chosen: Mapping[str, str], reference: str, rows: Mapping[str, Sequence[Row]]
) -> Comparison:
    """The comparison from the rows of all runs."""
    from .verdict import notes, verdict

    errors = {name: next((row["error"] for row in rows[name] if row["error"]), None) for name in chosen}
    working = [name for name in chosen if errors[name] is None]
    if not working:
        raise ValueError(f"no explorer runs. {reference}: {errors[reference]}")
    supported = {
        name: float(np.mean([row["accepted"] * plan.multiplier / max(row["lines"], 1) for row in rows[name]]))
        for name in working
    }
    # An explorer that wants what the log never shows has fewer rounds. It must not shorten the others'.
    usable = [name for name in working if supported[name] > SUPPORTED or name == reference] or working
    rounds = min(row["accepted"] for name in usable for row in rows[name]) // plan.step * plan.step
    width = log.cost_range[1] - log.cost_range[0]
    points = sorted({max(1, round(i * rounds / plan.step / 60)) for i in range(1, 61)})

    lines: dict[str, list[Counter[int]]] = {name: [Counter(row["sample"]) for row in rows[name]] for name in working}
    shared = {name: share_in_common(lines[name]) for name in working}

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
                supported=min(1.0, supported[name]),
                seconds=float(np.mean([row["seconds"] for row in rows[name]])),
                curve=curve,
            )
        )
    names = [e.name for e in explorers if e.cost is not None]

    def difference(first: str, second: str, level: float) -> Difference:
        passes = passes_of(first, last) - passes_of(second, last)
        return Difference(first, second, estimate(passes, rounds, width, level))

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
        notes=notes(log, explorers, rows),
        curve_rounds=[point * plan.step for point in points],
    )
