"""Our explorers on least squares, their default: equal to NumPy, from the features of a round to its probabilities."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from opo_cmab.costs import CostRange
from opo_cmab.reference_least_squares import LeastSquares

from tests.helpers.formulas import fastcb
from tests.helpers.streams import random_rounds, relabel, without_labels

FLAGS = "--cb_explore_adf -q sa"
STREAMS = {
    "continuous costs": lambda seed: random_rounds(seed, n=120),
    "another unit": lambda seed: random_rounds(seed, n=120, costs=(1000.0, 7000.0)),
    "clicks": lambda seed: relabel(random_rounds(seed, n=120), lambda c, p: (str(-int(float(c) < 0.4)), p)),
    "rare clicks": lambda seed: relabel(random_rounds(seed, n=120), lambda c, p: (str(-int(float(c) < 0.1)), p)),
}


def features_of(lines):
    """Of each action: its own and those crossed with the context. What all actions share is left out."""

    def pairs(line):
        words = (word.partition(":") for word in line.partition("|")[2].split()[1:])
        return [(name, float(value or 1)) for name, _, value in words]

    shared, *actions = lines
    result = []
    for action in map(pairs, actions):
        crossed = [((n, m), np.float32(x) * np.float32(y)) for n, x in pairs(shared) for m, y in action]
        result.append([*action, *crossed])
    return result


class Explorer:
    """What a round teaches, and what a context is predicted, in plain Python."""

    def __init__(self):
        self.model, self.range, self.numbers, self.rounds = LeastSquares(), CostRange(), {}, 0

    def arrays(self, features) -> tuple[np.ndarray, np.ndarray]:
        numbers = [self.numbers.setdefault(name, len(self.numbers)) for name, _ in features]
        return np.array(numbers, np.uint64), np.array([x for _, x in features], np.float32)

    @property
    def initial(self):
        return self.range.low + self.range.newcomer_loss(self.range.start) * self.range.width

    def losses(self, actions):
        known = [self.arrays(features) for features in actions]
        cost = [self.model.predict(numbers, values, self.initial) for numbers, values in known]
        return np.array([self.range.loss(c) for c in cost])

    def optimistic(self, actions):
        losses = self.losses(actions)
        width = np.sqrt([self.model.variance(*self.arrays(features)) for features in actions])
        bonus = 0.5 * np.sqrt(np.clip(losses.min(), 0, 1) + 0.02) * np.minimum(width, 1.5)
        optimistic = np.clip(losses - self.range.shift(losses.min()) - bonus, 0, 1)
        p = np.exp(-500 * (optimistic - optimistic.min()))
        return p / p.sum()

    def learn(self, features, cost):
        counts_as = self.range.tame(cost)
        self.range.observe(cost)
        is_new = all(name not in self.numbers for name, _ in features)
        initial = self.initial if self.range.known else counts_as
        numbers, values = self.arrays(features)
        self.model.learn(numbers, values, counts_as, 1.0, initial)
        if is_new:
            self.range.observe_newcomer(counts_as)
        self.rounds += 1


def play(rounds, decide):
    explorer = Explorer()
    for lines in rounds:
        actions = features_of(without_labels([lines])[0])
        if explorer.range.known:
            yield decide(explorer, actions)
        else:
            yield np.full(len(actions), 1 / len(actions))
        for features, line in zip(actions, lines[1:], strict=True):
            if label := re.match(r"\d+:(\S+):\S+ \|", line):
                explorer.learn(features, float(np.float32(label[1])))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("seed", range(3))
def test_opo_cmab_is_a_softmax_of_optimistic_losses(ours, stream, seed):
    rounds = STREAMS[stream](seed)
    for t, (got, expected) in enumerate(
        zip(ours(f"{FLAGS} --opo_cmab", rounds), play(rounds, Explorer.optimistic), strict=True)
    ):
        assert_allclose(got, expected, atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("stream", STREAMS)
def test_fastcb_is_its_formula_on_the_predicted_losses(ours, stream):
    rounds = STREAMS[stream](5)
    decisions = play(rounds, lambda explorer, actions: fastcb(explorer.losses(actions), 10 * explorer.rounds**0.5))
    for t, (got, expected) in enumerate(zip(ours(f"{FLAGS} --fastcb", rounds), decisions, strict=True)):
        assert_allclose(sorted(got), sorted(expected), atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("explorer", ["--opo_cmab", "--fastcb", "--adacb"])
@pytest.mark.parametrize("unit", [(1e-3, 0.0), (250.0, -40.0), (1e4, 1e5)])
def test_decisions_do_not_depend_on_the_unit_of_costs(ours, explorer, unit):
    a, b = unit
    rounds = random_rounds(8, n=100)
    other = relabel(rounds, lambda cost, p: (repr(a * float(cost) + b), p))
    for got, expected in zip(ours(f"{FLAGS} {explorer}", other), ours(f"{FLAGS} {explorer}", rounds), strict=True):
        assert_allclose(got, expected, atol=2e-3)


@pytest.mark.parametrize(
    ("flags", "learner"),
    [
        ("", "least_squares"),
        ("--power_t 0.5", "gd"),
        ("--ftrl", "ftrl"),
        ("--loss_function logistic", "gd"),
        ("--loss_function squared", "least_squares"),
        ("--cb_cost_unit raw", "gd"),
    ],
)
@pytest.mark.parametrize("explorer", ["--opo_cmab", "--fastcb", "--adacb"])
def test_least_squares_is_the_learner_unless_the_command_line_needs_another(vw, explorer, flags, learner):
    header = vw(f"--cb_explore_adf {explorer} {flags} --no_stdin").stderr
    assert re.search(rf"Enabled learners: {learner}", header)


@pytest.mark.parametrize(
    "flags", ["--opo_paper", "--opo_gamma 0.1", "--opo_beta 1", "--opo_scale 0.2", "--opo_decay 1"]
)
def test_settings_of_the_replay_choose_the_replay_on_gd(vw, flags):
    header = vw(f"--cb_explore_adf --opo_cmab {flags} --no_stdin").stderr
    assert "Enabled learners: gd," in header
