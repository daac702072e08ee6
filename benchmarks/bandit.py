"""How many rounds a second: `Bandit` from 1 to 8 threads, with `Workspace` alone beside it; memory in the long run.

A round is a `choose` and a `reward`: 4 actions, a context of 3 features. Workspace alone predicts and learns the same
rounds as text, and records nothing. Results: OUT/bandit.md and OUT/bandit.csv.
"""

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import opo_cmab
import pandas as pd
import psutil
from opo_cmab.bandit.features import labelled, lines
from opo_cmab.compare.rows import Row

from benchmarks.shared.program import count, directory, parse, where, write
from benchmarks.shared.tables import markdown_of

ACTIONS = ["politics", "sports", "music", "food"]
Round = Callable[[int, random.Random], tuple[float, float]]  # the seconds of choosing and of learning


def context_of(n: int, rng: random.Random) -> dict[str, Any]:
    return {"user": f"u{rng.randrange(50)}", "hour": n % 24, "device": rng.choice(["phone", "tablet"])}


def with_bandit(bandit: opo_cmab.Bandit) -> Round:
    def play(n: int, rng: random.Random) -> tuple[float, float]:
        context = context_of(n, rng)
        start = time.perf_counter()
        decision = bandit.choose(context, ACTIONS)
        chosen = time.perf_counter()
        bandit.reward(decision.id, float(rng.random() < 0.3))
        return chosen - start, time.perf_counter() - chosen

    return play


def with_workspace(workspace: Any) -> Round:
    def play(n: int, rng: random.Random) -> tuple[float, float]:
        context = context_of(n, rng)
        start = time.perf_counter()
        text = lines(context, [(name, {}) for name in ACTIONS])
        p = workspace.predict(text)
        [action] = rng.choices(range(4), p)
        chosen = time.perf_counter()
        workspace.learn(labelled(text, action, -float(rng.random() < 0.3), p[action]))
        return chosen - start, time.perf_counter() - chosen

    return play


def measure(name: str, play: Round, rounds: int, threads: int) -> Row:
    def work(thread: int) -> list[tuple[float, float]]:
        rng = random.Random(thread)
        return [play(n, rng) for n in range(rounds // threads)]

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        taken = 1e6 * np.concatenate(list(pool.map(work, range(threads))))
    row: Row = {"what": name, "threads": threads, "per_second": len(taken) / (time.perf_counter() - start)}
    for column, call in enumerate(("choose", "reward")):
        row[f"{call}_p50"], row[f"{call}_p99"] = np.quantile(taken[:, column], [0.5, 0.99])
    return row


def memory(bandit: opo_cmab.Bandit, rounds: int) -> list[Row]:
    """Of this process, after each fifth of the rounds."""
    play, rng, found = with_bandit(bandit), random.Random(0), []
    for n in range(1, rounds + 1):
        play(n, rng)
        if n % (rounds // 5) == 0:
            found.append({"what": "memory", "rounds": n, "megabytes": psutil.Process().memory_info().rss / 1e6})
    return found


def table(rows: Sequence[Row]) -> list[str]:
    columns = {"": "{what}", "threads": "{threads:.0f}", "rounds a second": "{per_second:,.0f}"}
    columns |= {f"{call} p{q} µs": f"{{{call}_p{q}:,.0f}}" for call in ("choose", "reward") for q in (50, 99)}
    return markdown_of(rows, columns)


def report(rows: Sequence[Row], flat: Sequence[Row], place: Row) -> str:
    about = f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}"
    text = ["# Bandit: rounds a second", "", f"{about}. `python -m benchmarks.bandit`; a round is a decision and its"]
    text[-1] += " reward: 4 actions, 3 features. One thread after the other in the model, so threads wait in turn."
    text += ["", *table(rows), "", "Memory of the process in the long run:", ""]
    return "\n".join([*text, *markdown_of(flat, {"rounds": "{rounds:,}", "MB": "{megabytes:.0f}"})]) + "\n"


@dataclass(frozen=True)
class Options:
    rounds: int = count(20_000, "of each load")
    long: int = count(1_000_000, "rounds of the long run")
    out: Path = directory("bandit")


def main(arguments: Sequence[str] | None = None) -> None:
    from vowpalwabbit import Workspace

    options, place = parse(Options, "bandit", __doc__, arguments), where()
    with TemporaryDirectory() as folder:
        with opo_cmab.Bandit(f"{folder}/flags") as bandit, Workspace(f"{bandit.flags} --quiet") as workspace:
            rows = [measure("Workspace alone", with_workspace(workspace), options.rounds, 1)]
        for threads in (1, 2, 4, 8):
            with opo_cmab.Bandit(f"{folder}/{threads}", seed=0) as bandit:
                rows.append(measure("Bandit", with_bandit(bandit), options.rounds, threads))
        with opo_cmab.Bandit(f"{folder}/long", seed=0) as bandit:
            flat = memory(bandit, options.long)
    write("bandit", pd.DataFrame([*rows, *flat]).assign(**place), report(rows, flat, place), options.out)


if __name__ == "__main__":
    main()
