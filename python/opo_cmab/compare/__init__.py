r"""Which explorer on my logs? Estimates what each would have cost, from a log with probabilities.

>>> result = opo_cmab.compare_explorers("log.txt", vw="-q ua")  # doctest: +SKIP
>>> print(result)  # doctest: +SKIP

or ``python -m opo_cmab.compare log.txt --vw "-q ua"``. docs/compare.md explains the estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from . import report
from .comparison import Comparison, Difference, Explorer, summarize
from .explorers import EXPLORERS, check_flags, named_explorers
from .logs import LogError, scan
from .plan import default_passes, make_plan
from .runs import Workers, run_missing

__all__ = ["EXPLORERS", "Comparison", "Difference", "Explorer", "LogError", "compare_explorers"]


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
    """Estimates what explorers would have cost on a log, learning as they go.

    Args:
        logs: files of one log, in order: VW's text format (--cb_explore_adf) or dsjson, plain or gz.
        explorers: names from EXPLORERS, "name=flags", or a mapping from names to flags (default: EXPLORERS).
        vw: arguments for all explorers, for example interactions.
        reference: the explorer in use, with which the others are compared (default: the first).
        passes: replays of the log with different random numbers (default: 10 to 40).
        rounds: estimate the cost of this many first rounds (default: as many as the log allows, at most 5,000).
        seed: of the random numbers.
        jobs: number of processes.
        scheduler: address of a Dask scheduler, to run there instead.
        out: a directory for compare.json, compare.html and runs.jsonl. A killed comparison resumes from the last.
        progress: show progress on stderr.

    Raises:
        LogError: if nothing can be estimated from the log; the message says why and what to do.
    """
    files = [Path(log).resolve() for log in ([logs] if isinstance(logs, str | Path) else logs)]
    if not files:
        raise LogError("no log is given: name at least one file")
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
        chosen = named_explorers(explorers, log.cost_range)
        reference = next(iter(chosen)) if reference is None else reference
        if reference not in chosen:
            raise ValueError(f"the reference {reference!r} is not among the explorers: {', '.join(chosen)}")
        plan = make_plan(log, rounds, seed, " ".join(vw.split()))
        count = default_passes(log, plan) if passes is None else passes
        file = directory / "runs.jsonl" if directory is not None else None
        rows = run_missing(log, plan, count, chosen, Workers(jobs, scheduler), file, progress)
    comparison = summarize(log, plan, count, chosen, reference, rows)
    if directory is not None:
        report.write(comparison, directory)
    return comparison
