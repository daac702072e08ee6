r"""One pass over a log: what explorers would have cost, learning as they go.

**Rejection sampling.** In line i the log shows action $a_i$ with probability $p_i$. The explorer under
test, having learnt from the rounds accepted so far, would show it with probability $\pi(a_i)$. The line is
accepted with probability $\pi(a_i) / (M p_i)$ and only then learnt from, with $\pi(a_i)$ as its
probability. With $M p_i \ge 1$ in all lines, the accepted rounds are distributed exactly as if the explorer had
been run: each line is accepted with probability 1 / M whatever its context, and its action is drawn from $\pi$
(Li, Chu, Langford and Wang 2011; Dudik, Erhan, Langford and Li 2012). This holds even if the logging policy was
learning meanwhile. M is constant: a multiplier that adapts to what it sees, the default of ``--explore_eval``, prefers
contexts in which explorer and log agree.

We split the coin in two. A line is *kept* with probability $t_i = 1 / (M p_i)$, for all explorers alike and
before anything is parsed; a kept line is accepted with probability $\pi(a_i)$.

**The estimate.** Counting the costs of accepted lines alone wastes those that were nearly accepted. Each kept line adds

$$
\pi(a_i) (c_i - b_i) + 1[\text{accepted}]\, b_i
$$

with a baseline $b_i$ known before the line, here the running estimate. Its expectation is that of
$1[\text{accepted}]\, c_i$, for any baseline, and so is that of the sum up to the n-th accepted round (optional
stopping). So the sum over n is an unbiased estimate of the explorer's mean cost in its first n rounds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .logs import Log

__all__ = ["Plan", "Run", "replay"]

POINTS = 400  # of a curve, or a few more
SAMPLE = 500  # accepted lines that a run records, or a few more


@dataclass(frozen=True)
class Plan:
    """What all runs of a comparison share."""

    rounds: int  #: to be accepted
    multiplier: float  #: M
    share: float  #: the largest probability with which a line is kept
    seed: int
    vw: str  #: arguments for all explorers

    @property
    def step(self) -> int:
        """Rounds between two points of a curve."""
        return max(1, self.rounds // POINTS)

    @property
    def every(self) -> int:
        """Which accepted lines are recorded, to measure how many of them passes share."""
        return max(1, self.rounds // SAMPLE)


class Run:
    """One explorer in one pass."""

    def __init__(self, flags: str, plan: Plan, log: Log, seed: int) -> None:
        from vowpalwabbit import Workspace  # after opo_cmab, which a worker process may import only now

        reader = "--dsjson" if log.format == "dsjson" else ""
        arguments = f"--cb_explore_adf {flags} {plan.vw} {reader} --random_seed {seed} --quiet"
        self._vw: Any = Workspace(" ".join(arguments.split()))
        self._plan = plan
        self._baseline = [log.mean_cost, 1.0]  # the sum of pi c and of pi so far, started with what the log cost
        self._sum = self._accepted_sum = 0.0
        self.sums: list[float] = []  #: of the estimate, after each step of accepted rounds
        self.accepted_sums: list[float] = []  #: of the costs of accepted rounds alone
        self.accepted = 0
        self.sample: list[int] = []  #: of the lines of accepted rounds, those whose number is a multiple of plan.every
        self.unreadable = 0  #: lines that VW refuses
        self.lines = 0  #: read from the log
        self.seconds = 0.0
        self.error: str | None = None  #: that ended the run

    @property
    def done(self) -> bool:
        return self.accepted >= self._plan.rounds or self.error is not None

    def offer(self, text: str, actions: int, action: int, cost: float, coin: float, line: int) -> None:
        """A line that was kept."""
        start = time.perf_counter()
        vw = self._vw
        # Calls pylibvw directly: pyvw creates an object for each line and takes five times as long.
        try:
            examples = vw._parse(text)
        except RuntimeError:
            self.unreadable += 1
            return
        try:
            vw.predict_multi(examples)
            scores = examples[0].get_action_scores()
            total = sum(scores)  # not always 1: RegCB gives probability 1 to each of several equally good actions
            if len(scores) != actions or not 0 < total < math.inf:
                self.unreadable += 1
                return
            probability = scores[action] / total
            weighted, weights = self._baseline
            baseline = weighted / weights
            self._sum += probability * (cost - baseline)
            self._baseline = [weighted + probability * cost, weights + probability]
            if coin < probability:
                self._sum += baseline
                self._accepted_sum += cost
                label = f"{action}:{cost!r}:{probability!r}"
                examples[len(examples) - actions + action].set_label_string(vw, label, 0)
                vw.learn_multi(examples)
                self.accepted += 1
                if line % self._plan.every == 0:
                    self.sample.append(line)
                if self.accepted % self._plan.step == 0:
                    self.sums.append(self._sum)
                    self.accepted_sums.append(self._accepted_sum)
        finally:
            vw._finish_example_multi_ex(examples)
            self.seconds += time.perf_counter() - start

    def finish(self) -> None:
        self._vw.finish()


def replay(log: Log, plan: Plan, number: int, explorers: Sequence[str]) -> list[Run | str]:
    """Pass ``number`` over a log, for explorers given by their flags: the run of each, or the error.

    A pass has its own random numbers, shared by all explorers, so that their costs can be compared in pairs. They
    depend only on seed, pass and line.
    """
    runs: list[Run | str] = []
    for flags in explorers:
        try:
            runs.append(Run(flags, plan, log, number + 1))
        except Exception as error:  # whatever is wrong with these flags, the others continue
            runs.append(f"{type(error).__name__}: {error}")
    started = active = [run for run in runs if isinstance(run, Run)]
    rng = np.random.default_rng([plan.seed, number])
    texts = log.texts()
    lines = 0
    try:
        for block in log.blocks():
            kept = np.minimum(1 / (plan.multiplier * block["probability"]), plan.share)
            keep, accept = rng.random((2, len(block)))
            for i in np.flatnonzero(keep < kept):
                record = block[i]
                text = texts(record)
                label = int(record["actions"]), int(record["action"]), float(record["cost"])
                for run in active:
                    try:
                        run.offer(text, *label, float(accept[i]), lines + int(i))
                    except Exception as error:  # the others continue
                        run.error = f"{type(error).__name__}: {error}"
                    run.lines = lines + int(i) + 1
                active = [run for run in active if not run.done]
                if not active:
                    return runs
            lines += len(block)
            for run in active:
                run.lines = lines
        return runs
    finally:
        texts.close()
        for run in started:
            run.finish()
