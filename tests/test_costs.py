"""Costs in any unit: the range is learnt, decisions do not depend on the unit, and past models keep their meaning."""

import copy
import json

import numpy as np
import opo_cmab
import pytest
from numpy.testing import assert_allclose
from opo_cmab.costs import UNKNOWN_LOSS, CostRange
from opo_cmab.reference import policies
from vowpalwabbit import Workspace

from tests.helpers import streams
from tests.helpers.formulas import fastcb, sigmoid, squarecb
from tests.helpers.streams import GD, random_rounds, with_probability_one, without_labels, write

LOGISTIC = "--loss_function logistic"
EXPLORERS = ["--opo_cmab", "--fastcb", "--adacb"]
SETTINGS = {"eta": 10.0, "gamma": 0.5, "decay": 0.8}
OPO = "--cb_explore_adf --opo_cmab --opo_eta 10 --opo_gamma 0.5 --opo_decay 0.8 --opo_budget 0"
CROSSED = "-q sa --ignore_linear s --noconstant"  # what -q sa is on these streams, without what all actions share


def relabel(rounds, new_cost):
    """The same rounds with other costs."""
    return streams.relabel(rounds, lambda cost, p: (f"{new_cost(float(cost)):.9g}", p))


def costs_of(rounds):
    return [float(line.split(":")[1]) for lines in rounds for line in lines if line[0].isdigit()]


def new_actions(rounds):
    """The rounds with an id for each action, every third of which is new."""
    ids = iter(range(10**6))
    old = [next(ids) for _ in range(4)]

    def known_by_id(line):
        label, bar, _ = line.partition("|a")
        number = next(ids)
        return f"{label}{bar} id{number if number % 3 == 0 else old[number % 4]}" if bar else line

    return [[known_by_id(line) for line in lines] for lines in rounds]


def newcomers_of(rounds):
    """For each round with a label whether its action had no feature in common with those learnt from before."""
    known: set[str] = set()
    result = []
    for line in (line for lines in rounds for line in lines if line[0].isdigit()):
        features = {word.split(":")[0] for word in line.partition("|a")[2].partition("|")[0].split()}
        result.append(known.isdisjoint(features))
        known |= features
    return result


def whole_costs(rounds, most=16):
    """Costs that are whole numbers: VW reads those from text exactly, and fractions not to the last bit."""
    return relabel(rounds, lambda cost: round(cost * most))


def clicks(seed, n=80, rate=0.3):
    """A click costs -1."""
    rng = np.random.default_rng(seed)
    return relabel(random_rounds(seed, n=n), lambda cost: -1.0 if rng.uniform() < rate else 0.0)


class Mapping:
    """What the regression learns, round by round, and what its scores mean: in plain Python."""

    def __init__(self, costs, newcomers, logistic, low=-np.inf, high=np.inf):
        self.logistic = logistic
        self.sign, self.labels, self.ranges = 1.0, [], []  # the range after each round
        now = CostRange(low, high)
        for cost, is_new in zip(costs, newcomers, strict=True):
            was_known, first, counts_as = now.known, now.max, now.tame(cost)
            now.observe(cost)
            if now.known and not was_known:
                self.sign = -1.0 if np.isfinite(first) and now.max > first else 1.0
            if not now.known:
                label = 1.0 if logistic else 0.75
            elif logistic:
                loss = np.clip(now.loss(counts_as), 0, 1)
                label = loss if self.sign > 0 else 1 - loss
            else:
                label = self.sign * (now.loss(counts_as) - now.start)
            self.labels.append(label)
            if is_new:
                now.observe_newcomer(counts_as)
            self.ranges.append(copy.copy(now))

    def known(self, t):
        """Whether the range is known before round t."""
        return t > 0 and self.ranges[t - 1].known

    def mapped(self, scores, unit):
        signed = self.sign * np.asarray(scores)
        return sigmoid(signed) if self.logistic else unit.start + signed

    def newcomer_loss(self, unit):
        return unit.newcomer_loss(0.5 if self.logistic else unit.start)

    def loss(self, scores, unit):
        return np.where(np.equal(scores, 0), self.newcomer_loss(unit), self.mapped(scores, unit))

    def losses(self, scores):
        """Of past predictors, for a context for which the present predictor, the last one, has these scores."""
        *scores, present = scores
        n = len(scores)
        now, first = self.ranges[n - 1], next(r for r in self.ranges if r.known)
        learnt_in = [r if r.known else first for r in [first, *self.ranges[: n - 1]]]
        in_their_ranges = zip(scores, learnt_in, strict=True)
        losses = np.array([(r.low - now.low + r.width * self.mapped(f, r)) / now.width for f, r in in_their_ranges])
        if now.newcomers:
            losses = np.where(np.equal(scores, 0), self.newcomer_loss(now), losses)
        shift = now.shift(self.loss(present, now).min())
        moved = losses - shift
        return np.where(moved > now.largest_plausible_loss - shift, UNKNOWN_LOSS, moved)


def stock_on_mapped_costs(stock, rounds, arguments, logistic, **ends):
    leaves_out = "--noconstant" in arguments
    newcomers = [is_new and leaves_out for is_new in newcomers_of(rounds)]
    mapping = Mapping(costs_of(rounds), newcomers, logistic, **ends)
    labels = iter(mapping.labels)
    mapped = with_probability_one(relabel(rounds, lambda _: next(labels)))
    loss = f"{LOGISTIC} --logistic_min 0 --logistic_max 1" if logistic else ""
    return mapping, mapped, f"--cb_adf --cb_type mtr {arguments} {loss}"


STREAMS = {
    "continuous costs": lambda: random_rounds(1, n=50, costs=(-3.0, 40.0)),
    "clicks": lambda: clicks(2, n=50),
    "rare clicks": lambda: clicks(3, n=50, rate=0.06),
    "the best cost first": lambda: relabel(clicks(4, n=50, rate=0.7), lambda c: c + 1),
    "rare failures": lambda: relabel(clicks(5, n=60, rate=0.1), lambda c: -50 * c),
    "new actions": lambda: new_actions(random_rounds(9, n=50)),
    "growing costs": lambda: [
        lines for k in range(50) for lines in relabel(random_rounds(100 + k, n=1), lambda c, k=k: c * 1.5**k)
    ],
}


@pytest.mark.parametrize(
    "ends", [{}, {"low": -2.0, "high": 30.0}, {"high": 50.0}], ids=["learnt", "given", "one given"]
)
@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize("stream", STREAMS)
def test_probabilities_equal_the_algorithm_on_stock_models_of_mapped_costs(ours, stock, stream, logistic, ends):
    rounds = STREAMS[stream]()
    flags = " ".join(f"--cb_{'min' if end == 'low' else 'max'}_cost {value}" for end, value in ends.items())
    got = ours(f"{OPO} -q sa {flags} {LOGISTIC if logistic else ''}", rounds)
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, CROSSED, logistic, **ends)
    known = 0
    for t, predictions in enumerate(stock(arguments, mapped, every_model=True)):
        actions = len(predictions[-1])
        if mapping.known(t):
            known += 1
            expected = policies(mapping.losses(predictions), **SETTINGS)[-1]
        else:
            expected = np.full(actions, 1 / actions)
        assert_allclose(got[t], expected, atol=1e-4, err_msg=f"round {t}")
    assert known > 10


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize("stream", ["continuous costs", "clicks"])
def test_by_default_gamma_is_a_quarter_of_the_lowest_loss_that_the_model_predicts(ours, stock, stream, logistic):
    rounds = STREAMS[stream]()
    got = ours(f"--cb_explore_adf --opo_cmab --opo_budget 0 -q sa {LOGISTIC if logistic else ''}", rounds)
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, CROSSED, logistic)
    for t, predictions in enumerate(stock(arguments, mapped, every_model=True)):
        if mapping.known(t):
            now = mapping.loss(predictions[-1], mapping.ranges[t - 1])
            gamma = 0.25 * np.clip(min(now), 0, 1)
            expected = policies(mapping.losses(predictions), eta=20, gamma=gamma, decay=0.8)[-1]
            assert_allclose(got[t], expected, atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize("stream", STREAMS)
def test_fastcb_equals_its_formula_on_stock_models_of_mapped_costs(ours, stock, stream, logistic):
    rounds = STREAMS[stream]()
    got = ours(f"--cb_explore_adf --fastcb -q sa {LOGISTIC if logistic else GD}", rounds)
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, CROSSED, logistic)
    for t, scores in enumerate(stock(arguments, mapped)):
        if mapping.known(t):
            losses = mapping.loss(scores, mapping.ranges[t - 1])
            expected = fastcb(losses, 10 * t**0.5)
            assert_allclose(sorted(got[t]), sorted(expected), atol=1e-4, err_msg=f"round {t}")  # the best may be tied
        else:
            assert_allclose(got[t], 1 / len(got[t]), atol=1e-6)


def test_stock_squarecb_with_the_mapping_equals_its_formula_on_mapped_costs(ours, stock):
    rounds = with_probability_one(STREAMS["continuous costs"]())
    got = ours("--cb_explore_adf --squarecb --cb_cost_unit range -q sa", rounds)
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, "-q sa", False)
    for t, scores in enumerate(stock(arguments, mapped)):
        if mapping.known(t):
            losses = mapping.loss(scores, mapping.ranges[t - 1])
            assert_allclose(got[t], squarecb(losses, 10 * t**0.5), atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("explorer", ["", "--bag 3", "--first 5", "--softmax", "--regcb", "--regcb --regcbopt"])
def test_vw_s_own_explorers_take_the_mapping_and_do_not_depend_on_the_unit_then(ours, explorer):
    rounds = whole_costs(random_rounds(5, n=60))
    arguments = f"--cb_explore_adf {explorer} --cb_cost_unit range -q sa"
    assert ours(arguments, rounds) == ours(arguments, relabel(rounds, lambda c: 16 * c - 4))
    assert ours(arguments, rounds) != ours(f"--cb_explore_adf {explorer} -q sa", rounds)


@pytest.mark.parametrize("explorer", ["", "--bag 3", "--first 12"])
def test_vw_s_own_explorers_find_the_best_action_if_the_best_cost_came_first(ours, explorer):
    lines = ["|a good", "|a bad"]
    best, worst = ["0:0:0.5 |a good", "|a bad"], ["|a good", "1:1:0.5 |a bad"]
    rounds = [best, best, best, *([best, worst] * 20), lines]
    decision = ours(f"--cb_explore_adf {explorer} --epsilon 0 --cb_cost_unit range", rounds)[-1]
    assert decision[0] > 0.99


@pytest.mark.parametrize("explorer", [*EXPLORERS, f"--opo_cmab {LOGISTIC}", "--squarecb --cb_cost_unit range"])
@pytest.mark.parametrize("stream", STREAMS)
def test_limits_that_hold_all_costs_change_nothing(ours, stream, explorer):
    rounds = STREAMS[stream]()
    arguments = f"--cb_explore_adf {explorer} -q sa"
    assert ours(f"{arguments} --cb_min_cost -1e10 --cb_max_cost 1e20", rounds) == ours(arguments, rounds)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_actions_that_are_new_in_each_round_are_not_played_for_ever(explorer):
    """New actions look good, as nothing is known of them. Here all that are known are better."""
    rng = np.random.default_rng(5)
    vw = Workspace(f"--cb_explore_adf {explorer} -q UA --quiet")
    of_new = []
    for t in range(1500):
        lines = ["shared |U user", "|A a", "|A b", "|A c", f"|A new{t}"]
        p = np.array(vw.predict(lines))
        shown = rng.choice(4, p=p / p.sum())
        click = rng.uniform() < (0.5, 0.45, 0.4, 0.15)[shown]
        vw.learn([*lines[: shown + 1], f"0:{-int(click)}:{p[shown]} {lines[shown + 1]}", *lines[shown + 2 :]])
        of_new.append(p[3])
    assert np.mean(of_new[:50]) > 0.3  # they are tried
    assert np.mean(of_new[-200:]) < 0.25  # less than at random


def test_newcomers_are_expected_to_cost_what_those_before_them_did():
    costs = CostRange()
    for cost in [0.0, -1.0] * 4:
        costs.observe(cost)
    assert costs.newcomer_loss(0.25) == 0.25
    for _ in range(100):
        costs.observe_newcomer(0.0)
    assert costs.newcomer_loss(0.25) == pytest.approx((0.25 + 1) / 2)
    for _ in range(100):
        costs.observe_newcomer(-1.0)
    assert costs.newcomer_loss(0.25) == pytest.approx((0.25 + 2 * 0.5) / 3)


# -- the unit does not matter -----------------------------------------------------------------------------------------

EXACT_UNITS = {
    "negative": lambda c: c - 16,
    "hundreds": lambda c: 128 * c,
    "around 0": lambda c: 64 * c - 512,
    "milliseconds": lambda c: 512 * c + 128,
}
ALL = [
    *(f"{explorer} {loss}" for explorer in EXPLORERS for loss in ("", LOGISTIC)),
    "--opo_cmab --opo_budget 0",
    "--opo_cmab --opo_budget 12",
    "--opo_cmab --opo_budget 2",
    f"--opo_cmab --opo_budget 2 {LOGISTIC}",
    "--opo_cmab --ftrl",
    "--opo_cmab --coin",
]


@pytest.mark.parametrize("flags", [False, True], ids=["learnt", "given"])
@pytest.mark.parametrize("explorer", ALL)
def test_another_unit_that_is_exact_in_floats_changes_no_bit(ours, explorer, flags):
    rounds = whole_costs(random_rounds(6, n=70))
    arguments = f"--cb_explore_adf {explorer} -q sa"

    def run(change):
        ends = f"--cb_min_cost {change(0.0)} --cb_max_cost {change(16.0)}" if flags else ""
        return ours(f"{arguments} {ends}", relabel(rounds, change))

    expected = run(lambda c: c)
    assert any(max(p) > 0.9 for p in expected)
    for name, change in EXACT_UNITS.items():
        assert run(change) == expected, name


@pytest.mark.parametrize("explorer", ALL)
@pytest.mark.parametrize("change", [lambda c: 0.1 + 0.3 * c, lambda c: 1000 * c - 10_000, lambda c: c / 7 - 1 / 3])
def test_any_other_unit_changes_next_to_nothing(ours, explorer, change):
    rounds = random_rounds(7, n=120)
    arguments = f"--cb_explore_adf {explorer} -q sa"
    one, other = ours(arguments, rounds), ours(arguments, relabel(rounds, change))
    different = [np.abs(np.subtract(p, q)).max() > 1e-3 for p, q in zip(one, other, strict=True)]
    assert np.mean(different) <= 0.02


@pytest.mark.parametrize("split", [1, 2, 5, 40])
@pytest.mark.parametrize("explorer", ["--opo_cmab", "--opo_cmab --opo_budget 4", f"--opo_cmab {LOGISTIC}", "--fastcb"])
@pytest.mark.parametrize("stream", ["continuous costs", "rare clicks", "growing costs", "new actions"])
def test_a_model_saved_at_any_point_goes_on_with_the_range_that_it_has_learnt(ours, tmp_path, stream, explorer, split):
    rounds = STREAMS[stream]()
    arguments, model = f"--cb_explore_adf {explorer} -q sa", str(tmp_path / "model")
    first = ours(arguments, rounds[:split], save=model)
    assert first + ours(f"-i {model}", rounds[split:]) == ours(arguments, rounds)


# -- what a user sees -------------------------------------------------------------------------------------------------


def test_an_explanation_says_that_no_range_is_known_yet():
    with Workspace("--cb_explore_adf --opo_cmab --quiet") as workspace:
        explanation = opo_cmab.explain(workspace, ["|a b", "|a c"])
        assert np.isnan(explanation.cost_range).all()
        assert explanation.decision.tolist() == [0.5, 0.5]


def test_the_policy_is_uniform_until_two_different_costs_are_seen(ours):
    same = relabel(random_rounds(8, n=30), lambda c: 7.0)
    for explorer in EXPLORERS:
        predictions = ours(f"--cb_explore_adf {explorer} -q sa", [*same, *random_rounds(9, n=5, costs=(0, 9))])
        for p in predictions[:31]:
            assert_allclose(p, 1 / len(p), atol=1e-6)
        assert any(max(p) > 1.5 / len(p) for p in predictions[31:])


@pytest.mark.parametrize("explorer", ["--opo_cmab", "--fastcb"])
def test_the_metrics_and_the_readable_model_report_the_range(vw, tmp_path, explorer):
    metrics, readable = tmp_path / "metrics", tmp_path / "readable"

    def run(rounds, flags=""):
        data = write(tmp_path / "data", rounds)
        vw(f"-d {data} --cb_explore_adf {explorer} {flags} --extra_metrics {metrics} --readable_model {readable}")
        return json.loads(metrics.read_text())["cb_cost_unit"], readable.read_text()

    found, text = run(relabel(random_rounds(10, n=5), lambda c: 3.0))
    assert found == {"cost_range_known": False}
    assert "cost_range = not known yet\n" in text
    found, text = run(clicks(11))
    ends = {"cost_min": -1.0, "cost_max": 0.0, "cost_range_low": -1.0, "cost_range_high": 0.0}
    assert found == {"cost_range_known": True, **ends}
    assert "cost_range = -1 to 0\n" in text
    assert "--cb_min_cost" not in text  # learnt, so not an option of the model
    again, text = run(clicks(11), "--cb_min_cost -5")
    assert again == found
    assert "--cb_min_cost -5" in text


def test_average_loss_and_explain_speak_in_the_unit_of_the_user(vw, tmp_path):
    rounds = random_rounds(12, n=60, costs=(100.0, 900.0), probability=0.5)
    mapped = vw(f"-d {write(tmp_path / 'data', rounds)} --cb_explore_adf --fastcb -q sa --gamma_scale 0")
    raw = vw(f"-d {tmp_path / 'data'} --cb_explore_adf --epsilon 1 -q sa")  # uniform too

    def average(result):
        return float(next(x for x in result.stderr.splitlines() if x.startswith("average loss")).split("=")[1])

    assert average(mapped) == pytest.approx(average(raw), rel=1e-5)
    with Workspace("--cb_explore_adf --opo_cmab -q sa --quiet") as workspace:
        for lines in rounds:
            workspace.learn(lines)
        explanation = opo_cmab.explain(workspace, without_labels(rounds[:1])[0])
    low, high = explanation.cost_range
    assert min(costs_of(rounds)) <= low < high <= max(costs_of(rounds))
    assert 100 < explanation.cost[-1].mean() < 900


def test_a_cost_outside_of_a_range_that_is_given_is_clipped_and_said_once(vw, ours, tmp_path):
    rounds = random_rounds(13, costs=(-5.0, 5.0))
    arguments = "--cb_explore_adf --opo_cmab -q sa --cb_min_cost 0 --cb_max_cost 1"
    result = vw(f"-d {write(tmp_path / 'data', rounds)} {arguments}")
    message = result.stdout + result.stderr
    assert message.count("Further such costs are not reported.") == 1
    assert "If it is right, change --cb_m" in message
    assert ours(arguments, rounds) == ours(arguments, relabel(rounds, lambda c: min(1.0, max(0.0, c))))


def test_costs_that_are_all_beyond_the_one_limit_that_is_given_are_said_too(vw, tmp_path):
    data = write(tmp_path / "data", random_rounds(13, n=5, costs=(2.0, 5.0)))
    result = vw(f"-d {data} --cb_explore_adf --opo_cmab --cb_max_cost 0")
    assert (result.stdout + result.stderr).count("above --cb_max_cost 0") == 1


def with_costs(rounds, costs):
    """The rounds with other costs: by round."""
    return [relabel([lines], lambda cost, t=t: costs.get(t, cost))[0] for t, lines in enumerate(rounds)]


@pytest.mark.parametrize("explorer", [*EXPLORERS, f"--opo_cmab {LOGISTIC}", "--squarecb --cb_cost_unit range"])
@pytest.mark.parametrize(("wrong", "nearest"), [(-9999.0, -1.0), (1e6, 0.0)])
def test_a_wrong_cost_counts_as_the_nearest_right_one(ours, explorer, wrong, nearest):
    rounds, arguments = clicks(26, n=120), f"--cb_explore_adf {explorer} -q sa"
    got = ours(arguments, with_costs(rounds, {40: wrong, 90: wrong}))
    assert got == ours(arguments, with_costs(rounds, {40: nearest, 90: nearest}))
    if "range" not in explorer:
        limits = "--cb_min_cost -10000 --cb_max_cost 1e6"  # it is right
        assert got != ours(f"{arguments} {limits}", with_costs(rounds, {40: wrong, 90: wrong}))


FAR_COSTS = dict.fromkeys([30, 35, 40, 45, 50], -500.0)  # by round


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
def test_from_the_third_on_far_costs_are_learnt_and_the_spread_grows(ours, stock, logistic):
    rounds = with_costs(clicks(28, n=60), FAR_COSTS)
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, CROSSED, logistic)
    assert [r.min for r in mapping.ranges[30:51:5]] == [-1, -1, -11, -121, -500]
    got = ours(f"{OPO} -q sa {LOGISTIC if logistic else ''}", rounds)
    for t, predictions in enumerate(stock(arguments, mapped, every_model=True)):
        if mapping.known(t):
            assert_allclose(got[t], policies(mapping.losses(predictions), **SETTINGS)[-1], atol=1e-4)


@pytest.mark.parametrize("split", [31, 36, 41, 46])
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_a_saved_model_remembers_how_many_costs_it_has_doubted(ours, tmp_path, explorer, split):
    rounds = with_costs(clicks(28, n=60), FAR_COSTS)
    arguments, model = f"--cb_explore_adf {explorer} -q sa", str(tmp_path / "model")
    first = ours(arguments, rounds[:split], save=model)
    assert first + ours(f"-i {model}", rounds[split:]) == ours(arguments, rounds)


@pytest.mark.parametrize(
    "costs",
    [
        [0.0] * 50 + [-9999.0],  # the first cost that differs
        [0.0, -1.0] * 2 + [-9999.0],  # too soon to tell
        [0.0, -1.0] * 50 + [-11.0],  # ten times the spread beyond
    ],
)
def test_a_cost_is_not_doubted_before_the_usual_ones_are_known(costs):
    assert learnt_range(costs).min == costs[-1]


def test_a_cost_within_the_limits_that_are_given_is_never_doubted():
    clicks_and_sales = [0.0, -1.0] * 50 + [-50.0]
    assert learnt_range(clicks_and_sales, lower_limit=-50.0).min == -50
    assert learnt_range(clicks_and_sales).min == -1


def test_a_limit_may_be_new_to_costs_that_are_all_beyond_it(ours, tmp_path):
    rounds, model = clicks(31, n=40), str(tmp_path / "model")
    ours("--cb_explore_adf --opo_cmab -q sa", rounds, save=model)
    risen = relabel(rounds, lambda cost: cost + 1)
    limited = ours(f"-i {model} --cb_min_cost 0", risen)
    assert limited == ours(f"-i {model} --cb_min_cost 0 --cb_max_cost 1", risen)
    assert learnt_range([-11.0, -10.0] * 20).tame(-10.5) == -10.5
    late = learnt_range([-11.0, -10.0] * 20)
    late.lower_limit = -5.0
    assert [late.tame(cost) for cost in (-20.0, -3.0, -1.0, 1e6)] == [-5, -3, -1, -5]


def test_raw_costs_are_never_doubted(ours):
    """They are what VW learns."""
    rounds = with_costs(clicks(29, n=50), {30: -9999.0})
    raw = f"{OPO} -q sa --cb_cost_unit raw"
    assert ours(raw, rounds)[31:] != ours(raw, with_costs(rounds, {30: -1.0}))[31:]


def test_a_cost_that_is_doubted_is_said_once(vw, tmp_path):
    """The user must learn of it: a cost that is right counts less than it should."""
    rounds = with_costs(clicks(26, n=150), {100: -9999.0, 140: -9999.0})
    result = vw(f"-d {write(tmp_path / 'data', rounds)} {OPO} -q sa")
    message = result.stdout + result.stderr
    assert message.count("The cost -9999 is far from all costs so far, -1 to 0.") == 1
    assert "It is learnt as -1." in message
    assert "such as --cb_min_cost -1 --cb_max_cost 0. If it is right, give --cb_min_cost -9999." in message
    limits = "--cb_min_cost -1 --cb_max_cost 0"
    result = vw(f"-d {write(tmp_path / 'data', rounds)} {OPO} -q sa {limits}")
    assert "far from" not in result.stdout + result.stderr


def test_costs_that_grow_for_ever_change_the_range_a_bounded_number_of_times(vw, tmp_path):
    rounds = random_rounds(14, n=600)
    counter = iter(range(600))
    data, metrics = write(tmp_path / "data", relabel(rounds, lambda c: c + next(counter))), tmp_path / "metrics"
    vw(f"-d {data} --cb_explore_adf --opo_cmab {GD} --extra_metrics {metrics}")
    assert json.loads(metrics.read_text())["cb_explore_adf_opo_cmab"]["opo_cost_ranges"] < 70


def test_a_label_without_a_probability_does_not_become_the_range(ours):
    rounds = [["shared |s x", "0:0.5 |a b", "|a c"], *random_rounds(15, n=30)]
    with_p = [["shared |s x", "0:0.5:1 |a b", "|a c"], *rounds[1:]]
    assert ours("--cb_explore_adf --opo_cmab -q sa", rounds) == ours("--cb_explore_adf --opo_cmab -q sa", with_p)


@pytest.mark.parametrize("explorer", [*EXPLORERS, f"--opo_cmab {LOGISTIC}", "--squarecb --cb_cost_unit range"])
@pytest.mark.parametrize(
    "costs",
    [(0, 1e-40), (-1e30, 1e30), (-3e38, 3e38), (1e30, 1.0000001e30), (0, 1e-45), (5.0, 5.0)],
    ids=["denormal", "1e30", "nearly all floats", "far from 0", "the smallest", "constant"],
)
def test_extreme_costs_give_probabilities(ours, explorer, costs):
    rng = np.random.default_rng(0)
    rounds = relabel(random_rounds(16, n=60), lambda _: rng.choice(costs))
    for p in ours(f"--cb_explore_adf {explorer} -q sa", rounds):
        assert min(p) >= 0
        assert sum(p) == pytest.approx(1, abs=1e-5)


def learnt_range(costs, **ends):
    result = CostRange(**ends)
    for cost in costs:
        result.observe(cost)
    return result


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_clicks_that_are_not_rare_have_the_range_of_their_costs(rate):
    found = learnt_range(-(np.arange(100) * rate % 1 < rate - 1e-9).astype(float))
    assert_allclose((found.low, found.high), (-1, 0), atol=0.25)


def test_a_few_outliers_leave_the_range_to_the_usual_costs():
    usual = np.random.default_rng(0).uniform(1, 3, size=1000)
    usual[[100, 500]] = 20.0
    found = learnt_range(usual)
    assert found.max == 20
    assert found.high < 5
    assert found.start < 0.2  # a quarter of the range would look worse than all costs but two
    assert learnt_range(usual, upper_limit=1000.0).high == found.high  # a limit is not the range


def play_latencies(level, rounds, seed=0):
    """Milliseconds: 200 for the best action, 300 for the others, above a level for all that may change. Returns the
    probability of the best action in each round, and the workspace."""
    rng = np.random.default_rng(seed)
    workspace = Workspace("--cb_explore_adf --opo_cmab --quiet")
    best = []
    for t in range(rounds):
        lines = [f"|a id{a}" for a in range(4)]
        p = np.array(workspace.predict(lines))
        best.append(p[1])
        a = rng.choice(4, p=p / p.sum())
        cost = level(t) + (200 if a == 1 else 300) + 20 * rng.normal()
        lines[a] = f"0:{cost}:{p[a]} {lines[a]}"
        workspace.learn(lines)
    return np.array(best), workspace


def test_after_all_costs_have_jumped_up_the_best_action_is_found_again_long_before_the_range_has_followed():
    """The range is that of the usual costs. All actions are above it for a while, and must not look alike there."""
    best, workspace = play_latencies(lambda t: 300 if t >= 500 else 0, 650)
    assert best[400:500].mean() > 0.9
    assert best[600:].mean() > 0.9
    _, high = opo_cmab.explain(workspace, [f"|a id{a}" for a in range(4)]).cost_range
    assert high > 550  # there is room above the best action
    workspace.finish()


def test_the_range_of_a_decision_moves_up_only_as_far_as_costs_have_been_seen():
    costs = CostRange()
    for cost in [*np.tile([0.0, 1.0], 50), 9.0]:
        costs.observe(cost)
    highest = costs.loss(9.0)
    assert highest > 2
    assert costs.shift(0.7) == 0
    assert costs.shift(0.9) == pytest.approx(0.15)
    assert costs.shift(highest + 1) == pytest.approx(highest - 1)


def test_the_range_follows_costs_that_have_moved():
    found = learnt_range([*np.tile([0.0, 1.0], 50), *np.tile([9.0, 10.0], 500)])
    assert found.min == 0
    assert found.low > 2
    assert found.high == 10


@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("cost", ["inf", "-inf", "1e39"])
def test_infinite_costs_are_refused(ours, explorer, cost):
    lines = ["shared |s x", f"0:{cost}:0.5 |a b", "|a c"]
    with pytest.raises(RuntimeError, match="costs must be finite numbers"):
        ours(f"--cb_explore_adf {explorer}", [*random_rounds(19, n=3), lines])


def test_vw_reads_a_cost_that_is_no_number_as_0(ours):
    not_a_number, zero = (["shared |s x", f"0:{cost}:0.5 |a b", "|a c"] for cost in ("nan", "0"))
    after = random_rounds(19, n=20)
    arguments = "--cb_explore_adf --opo_cmab"
    assert ours(arguments, [not_a_number, *after]) == ours(arguments, [zero, *after])


def test_a_model_that_has_not_learnt_says_so_when_it_may_not_learn(vw, stock, tmp_path):
    data, model = write(tmp_path / "data", random_rounds(20, n=3)), tmp_path / "stock"
    stock("--cb_adf --cb_type mtr", random_rounds(21, n=10), save=str(model))
    result = vw(f"-d {data} -i {model} -t --cb_explore_adf --opo_cmab")
    assert (result.stdout + result.stderr).count("has not learnt from any round yet") == 1


# -- VW's content personalization tutorial ----------------------------------------------------------------------------

ARTICLES = ["politics", "sports", "music", "food", "finance", "health", "camping"]
LIKED = {("Tom", "morning"): "politics", ("Tom", "afternoon"): "music"}
LIKED |= {("Anna", "morning"): "sports", ("Anna", "afternoon"): "politics"}


def click_rate(flags, seed, rounds=500, click=-1.0, no_click=0.0):
    rng = np.random.default_rng(seed)
    clicked = 0
    with Workspace(f"--cb_explore_adf -q UA --quiet {flags}") as vw:
        for _ in range(rounds):
            user, time = rng.choice(["Tom", "Anna"]), rng.choice(["morning", "afternoon"])
            context = [f"shared |User user={user} time_of_day={time}", *(f"|Action article={a}" for a in ARTICLES)]
            p = np.array(vw.predict(context))
            action = rng.choice(len(ARTICLES), p=p / p.sum())
            is_click = LIKED[user, time] == ARTICLES[action]
            clicked += is_click
            context[action + 1] = f"0:{click if is_click else no_click}:{p[action]} {context[action + 1]}"
            vw.learn(context)
    return clicked / rounds


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_vw_s_tutorial_is_learnt_with_no_flag_whatever_a_click_is_called(explorer):
    rates = [click_rate(explorer, seed) for seed in range(3)]
    assert np.mean(rates) > 0.6  # at random: 1 / 7
    for click, no_click in [(0, 1), (100, 900)]:
        assert [click_rate(explorer, seed, click=click, no_click=no_click) for seed in range(3)] == rates
