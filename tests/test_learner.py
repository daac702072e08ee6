"""OPOLearner: equal to the NumPy reference with any oracle, in batches as one by one, whole and within a budget."""

import pickle
from copy import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from opo_cmab import OPOLearner, Ridge, _kernel, reference
from opo_cmab.costs import LARGEST_START, CostRange
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

ACTIONS, FEATURES = 4, 3
GROUP = _kernel.PolicyBatch.GROUP
SETTINGS = [
    {"eta": 100, "gamma": 0.1, "decay": 0.9},
    {"eta": 10, "gamma": 0.5, "decay": 1},
    {"eta": 1, "beta": 3, "decay": 1},
]


def problem(rounds: int, joint: bool, seed: int = 0):
    """Contexts (of each action, if joint), actions taken at random, and their costs in [0, 1]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(rounds, ACTIONS, FEATURES) if joint else (rounds, FEATURES))
    actions = rng.integers(ACTIONS, size=rounds)
    hidden = rng.normal(size=(ACTIONS, FEATURES))
    taken = x[np.arange(rounds), actions] if joint else x
    means = 0.5 + 0.2 * (taken * (hidden[0] if joint else hidden[actions])).sum(axis=1)
    return x, actions, np.clip(means + rng.normal(scale=0.1, size=rounds), 0, 1)


def learnt(learner: OPOLearner, x, actions, costs) -> OPOLearner:
    for one_round in zip(x, actions, costs, strict=True):
        learner.update(*one_round)
    return learner


def zero_or_one(costs):
    """Costs whose range is 0 to 1 from the second round on."""
    result = np.round(costs)
    result[:2] = [0, 1]
    return result


def range_of(learner: OPOLearner) -> tuple[float, float]:
    assert learner.cost_range is not None
    return learner.cost_range


def make(joint: bool, **settings) -> OPOLearner:
    return OPOLearner(**{"actions": None if joint else ACTIONS, "seed": 0, "budget": 0, **settings})


def with_constant(x):
    return np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)


def ridge_predictions(x, actions, costs, context, joint: bool):
    """What the ridge regressions before each round predict for a context, each from the normal equations."""

    def coefficients(rows, y):
        return np.linalg.solve(rows.T @ rows + np.eye(FEATURES + 1), rows.T @ y)

    predictions = np.zeros((len(x), ACTIONS))
    for k in range(len(x)):
        if joint:
            rows = with_constant(x[np.arange(k), actions[:k]])
            predictions[k] = with_constant(context) @ coefficients(rows, costs[:k])
        else:
            for a in range(ACTIONS):
                own = actions[:k] == a
                w = coefficients(with_constant(x[:k][own]), costs[:k][own])
                predictions[k, a] = with_constant(context) @ w
    return predictions


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_with_ridge_it_equals_the_reference(joint, settings):
    x, actions, costs = problem(70, joint)
    costs = zero_or_one(costs)
    learner = learnt(make(joint, min_cost=0, max_cost=1, **settings), x, actions, costs)
    contexts = problem(40, joint, seed=1)[0]
    labels = costs - LARGEST_START
    losses = [LARGEST_START + ridge_predictions(x, actions, labels, c, joint) for c in contexts]
    for f in losses:
        f[1] = LARGEST_START  # before two different costs are known, models stay where they start
    expected = [reference.policies(f, **settings)[-1] for f in losses]
    assert_allclose(learner.predict_proba(contexts), expected, atol=1e-9)
    assert_allclose(learner.predict_proba(contexts[:1]), expected[:1], atol=1e-9)


def test_with_a_tree_it_equals_the_reference():
    x, actions, costs = problem(60, joint=True, seed=1)
    costs = zero_or_one(costs)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    settings = {"eta": 10, "gamma": 0.5, "decay": 1}
    learner = learnt(make(joint=True, oracle=tree, refit=0.2, min_cost=0, max_cost=1, **settings), x, actions, costs)
    labels = costs - LARGEST_START

    def fitted(n):
        model = clone(tree).fit(x[np.arange(n), actions[:n]], labels[:n])
        return lambda rows: LARGEST_START + model.predict(rows)

    past, due = [lambda rows: np.full(len(rows), LARGEST_START)], 1.0
    for n in range(1, len(x)):  # the predictor of round n + 1: fitted anew when the data is 20% more
        if n >= due:
            past.append(fitted(n) if n > 1 else past[0])  # from one cost nothing is known yet
            due = 1.2 * n
        else:
            past.append(past[-1])
    assert len(set(past)) < 30
    contexts = problem(5, joint=True, seed=2)[0]
    expected = [reference.policy(past, c, ACTIONS, **settings) for c in contexts]
    assert_allclose(learner.predict_proba(contexts), expected, atol=1e-9)
    assert_allclose([learner.predict_proba(c[None])[0] for c in contexts], expected, atol=1e-9)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("budget", [0, 20])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_equals_one_by_one(joint, budget, threads):
    learner = learnt(make(joint, budget=budget, threads=threads), *problem(300, joint))
    contexts = problem(600, joint, seed=1)[0]
    one_by_one = np.concatenate([learner.predict_proba(c[None]) for c in contexts])
    for count in (2, GROUP + 1, 600):  # within a group, over its border, over that of a block
        assert_allclose(learner.predict_proba(contexts[:count]), one_by_one[:count], atol=1e-9)


@pytest.mark.parametrize("settings", [(0.3, 1), (100, 1), (100, 0.9), (3000, 0.99)])
def test_the_batch_kernel_equals_the_reference_over_long_replays(settings):
    arguments = {"eta": settings[0], "decay": settings[1], "gamma": 0.1}
    rounds, actions, contexts = 1000, 5, GROUP + 8
    steps = np.random.default_rng(3).normal(scale=0.02, size=(rounds, actions, contexts))
    predictions = np.clip(0.5 + np.cumsum(steps, axis=0), -0.2, 1.2)
    padded = np.zeros((rounds * actions, 2 * GROUP))
    padded[:, :contexts] = predictions.reshape(rounds * actions, contexts)
    batch = _kernel.PolicyBatch(contexts, actions, **arguments)
    batch.step(padded, np.arange(rounds * actions).reshape(rounds, actions), np.ones(rounds, dtype=int))
    some = range(0, contexts, 5)  # the reference is slow
    expected = [reference.policies(predictions[..., c], **arguments)[-1] for c in some]
    assert_allclose(batch.probabilities()[some], expected, atol=1e-9)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_with_a_budget_it_equals_the_reference(joint, settings):
    x, actions, costs = problem(90, joint)
    costs = zero_or_one(costs)
    learner = learnt(make(joint, budget=12, min_cost=0, max_cost=1, **settings), x, actions, costs)
    contexts = problem(20, joint, seed=1)[0]
    starts = reference.segment_starts(90, budget=12)
    predictions = [0.25 + ridge_predictions(x, actions, costs - 0.25, c, joint) for c in contexts]
    for f in predictions:
        f[1] = 0.25  # before two different costs are known, models stay where they start
    expected = [reference.bounded_policy(reference.averages(f, starts), starts, **settings) for f in predictions]
    assert_allclose(learner.predict_proba(contexts), expected, atol=1e-9)


@pytest.mark.parametrize("oracle", [Ridge(), DecisionTreeRegressor(max_depth=2, random_state=0)])
def test_a_budget_bounds_the_predictors_and_changes_little(oracle):
    rounds = problem(400, joint=False)
    contexts = problem(200, joint=False, seed=1)[0]
    settings = {"oracle": oracle, "eta": 10, "gamma": 0.1, "refit": 0.05}
    exact = learnt(make(False, **settings), *rounds).predict_proba(contexts)
    bounded = learnt(make(False, budget=32, **settings), *rounds)
    lengths = bounded._lengths.all
    assert bounded.rounds == 400
    assert len(lengths) <= 32
    assert lengths[-4:].max() < lengths[:4].max()  # recent ones are short
    assert np.abs(bounded.predict_proba(contexts) - exact).sum(axis=1).mean() < 0.1


def test_a_merged_predictor_of_ridge_is_the_average_of_its_rounds():
    rounds = problem(40, joint=True)
    exact, bounded = learnt(make(True), *rounds), learnt(make(True, budget=5), *rounds)
    every = exact._past._past.all[exact._numbers.all[:, 0]]
    lengths = bounded._lengths.all
    means = np.add.reduceat(every, np.cumsum(lengths) - lengths, axis=0) / lengths[:, None]
    assert_allclose(bounded._past._past.all[bounded._numbers.all[:, 0]], means, atol=1e-12)


@pytest.mark.parametrize("oracle", [Ridge(0.5), GradientBoostingRegressor(n_estimators=5, random_state=0)])
@pytest.mark.parametrize("budget", [0, 8])
def test_a_pickled_learner_goes_on_exactly(oracle, budget):
    x, actions, costs = problem(60, joint=False)
    whole = learnt(make(False, oracle=oracle, budget=budget, seed=5), x[:30], actions[:30], costs[:30])
    loaded = pickle.loads(pickle.dumps(whole))
    for learner in (whole, loaded):
        learnt(learner, x[30:], actions[30:], costs[30:])
    assert (loaded.predict_proba(x) == whole.predict_proba(x)).all()
    assert [loaded.choose(c) for c in x[:5]] == [whole.choose(c) for c in x[:5]]


def test_it_learns_which_action_is_best():
    rng = np.random.default_rng(0)
    learner = OPOLearner(actions=3, seed=0)
    right = []
    for _ in range(300):
        context = rng.uniform(size=3)
        action, probability = learner.choose(context)
        assert probability == learner.predict_proba(context[None])[0, action]
        right.append(action == context.argmax())
        learner.update(context, action, 1 - context[action])
    assert np.mean(right[-100:]) > 0.9


def test_before_the_first_round_the_policy_is_uniform():
    assert_allclose(OPOLearner(actions=5).predict_proba(np.ones((2, 7))), 0.2)
    assert OPOLearner(actions=5).predict_proba(np.ones((0, 7))).shape == (0, 5)


def test_action_sets_may_change_from_round_to_round():
    learner = OPOLearner()
    rng = np.random.default_rng(0)
    for actions in (2, 5, 3):
        learner.update(rng.uniform(size=(actions, 4)), 1, 0.5)
    assert learner.predict_proba(rng.uniform(size=(6, 7, 4))).shape == (6, 7)


@pytest.mark.parametrize("joint", [False, True])
def test_a_range_that_is_learnt_gives_past_predictors_their_meaning(joint):
    x, actions, costs = problem(60, joint)
    costs = (7 * costs - 3) * (1 + np.arange(60) / 6)  # they spread, and so the range moves
    costs[:4] = costs[0]  # it is not known at first
    learner = learnt(make(joint, eta=10, gamma=0.5), x, actions, costs)
    ranges, now = [], CostRange()
    for cost in costs:
        ranges.append(copy(now))
        now.observe(cost)
    assert len({(r.low, r.high) for r in ranges}) > 4
    first = next(r for r in ranges if r.known)
    contexts = problem(5, joint, seed=1)[0]
    for context, got in zip(contexts, learner.predict_proba(contexts), strict=True):
        losses = np.empty((len(costs), ACTIONS))
        for k, then in enumerate(ranges):
            unit = then if then.known else first
            labels = (costs - unit.low) / unit.width - unit.start if then.known else np.zeros(len(costs))
            loss = unit.start + ridge_predictions(x, actions, labels, context, joint)[k]
            losses[k] = (unit.low - now.low + unit.width * loss) / now.width
        assert_allclose(got, reference.policies(losses, eta=10, gamma=0.5, decay=learner.decay)[-1], atol=1e-8)


@pytest.mark.parametrize(
    "settings", [{}, {"budget": 12}, {"oracle": DecisionTreeRegressor(max_depth=3, random_state=0)}, {"gamma": 1}]
)
def test_the_unit_of_the_costs_does_not_matter(settings):
    x, actions, costs = problem(80, joint=False)
    costs = np.round(16 * costs)
    plain = learnt(make(False, **settings), x, actions, costs)
    for a, b in [(-16, 1), (0, 128), (128, 512), (0, 1 / 1024)]:
        assert (
            learnt(make(False, **settings), x, actions, a + b * costs).predict_proba(x) == plain.predict_proba(x)
        ).all()
        limits = {"min_cost": a + b * costs.min(), "max_cost": a + b * costs.max()}
        limited = learnt(make(False, **settings, **limits), x, actions, a + b * costs)
        assert (limited.predict_proba(x) == plain.predict_proba(x)).all()
    low, high = range_of(plain)
    assert costs.min() <= low < high <= costs.max()


@pytest.mark.parametrize("settings", [{}, {"oracle": DecisionTreeRegressor(max_depth=3, random_state=0)}])
def test_a_wrong_cost_counts_as_the_nearest_right_one(settings):
    x, actions, costs = problem(80, joint=False)
    wrong = costs.copy()
    wrong[40], costs[40] = -9999, costs[:40].min()
    got = learnt(make(False, **settings), x, actions, wrong)
    assert (got.predict_proba(x) == learnt(make(False, **settings), x, actions, costs).predict_proba(x)).all()


def test_it_is_uniform_until_two_different_costs_are_seen():
    x, actions, _ = problem(10, joint=False)
    learner = learnt(make(False), x, actions, np.full(10, -5.0))
    assert (learner.predict_proba(x) == 1 / ACTIONS).all()
    assert learner.cost_range is None
    learner.update(x[0], 0, -6)
    learner.update(x[1], 1, -5)
    low, high = range_of(learner)
    assert -6 < low < high == -5  # one cost in twelve is unusual
    assert (learner.predict_proba(x) != 1 / ACTIONS).any()


def test_absurd_costs_are_learnt_or_refused_but_not_half():
    learner = learnt(make(False), np.ones((3, FEATURES)), [0, 1, 2], [0.0, 1.0, 1e200])
    assert learner.rounds == 3
    assert np.isfinite(learner.predict_proba(np.ones((1, FEATURES)))).all()


def test_scikit_learn_can_clone_it():
    learner = learnt(make(False, oracle=DecisionTreeRegressor(), eta=3), *problem(5, joint=False))
    copy = clone(learner)
    assert copy.eta == 3
    assert copy.rounds == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"actions": 0}, "actions"),
        ({"actions": 3.0}, "actions"),
        ({"actions": True}, "actions"),
        ({"oracle": Ridge}, r"oracle must be an instance, not a class: did you mean Ridge\(\)"),
        ({"oracle": DecisionTreeRegressor}, r"an instance, not a class: did you mean DecisionTreeRegressor\(\)"),
        ({"oracle": "ridge"}, "oracle must be .* have fit and predict: 'ridge'"),
        ({"oracle": StandardScaler()}, "oracle must be .* have fit and predict"),
        ({"oracle": None}, "oracle"),
        ({"budget": 1}, "budget"),
        ({"budget": 1.5}, "budget"),
        ({"budget": None}, "budget"),
        ({"refit": -1}, "refit"),
        ({"refit": float("nan")}, "refit"),
        ({"refit": float("inf")}, "refit"),
        ({"refit": "0.1"}, "refit"),
        ({"threads": -1}, "threads"),
        ({"threads": 0.5}, "threads"),
        ({"min_cost": 1, "max_cost": 1}, "min_cost must be below max_cost"),
        ({"min_cost": 1, "max_cost": np.inf}, "min_cost must be below max_cost"),
        ({"min_cost": "0"}, "min_cost must be below max_cost"),
        ({"scale": -1}, "scale must be"),
        ({"scale": 1, "gamma": 1}, "give only one"),
        ({"eta": -1}, "eta"),
        ({"decay": 2}, "decay"),
        ({"gamma": 1, "beta": 1}, "give only one"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        OPOLearner(**settings)


def test_a_ridge_without_penalty_is_refused():
    with pytest.raises(ValueError, match="l2"):
        Ridge(0)


BAD_ROUNDS = [
    (np.ones(3), 4, 0.5, "action must be a whole number in 0 .. 3: 4"),
    (np.ones(3), -1, 0.5, "action"),
    (np.ones(3), 0.5, 0.5, "action"),
    (np.ones(3), float("nan"), 0.5, "action"),
    (np.ones(3), 10**400, 0.5, "action"),
    (np.ones(3), True, 0.5, "action must be a whole number in 0 .. 3: True"),
    (np.ones(3), np.array(True), 0.5, "action"),
    (np.ones(3), np.array([1]), 0.5, "action"),
    (np.ones(3), "1", 0.5, "action"),
    (np.ones(3), None, 0.5, "action"),
    (np.ones(3), 0, float("nan"), "cost must be one finite number: nan"),
    (np.ones(3), 0, np.inf, "cost"),
    (np.ones(3), 0, [0.5], "cost"),
    (np.ones(3), 0, np.array([0.5]), "cost"),
    (np.ones(3), 0, "0.5", "cost"),
    (np.ones(3), 0, None, "cost"),
    (np.ones(3), 0, 10**400, "cost"),
    (np.ones((2, 3)), 0, 0.5, "must have shape"),
    (np.ones(2), 0, 0.5, "3 features before, now 2"),
    (np.ones(0), 0, 0.5, "3 features before, now 0"),
    (np.array([1, np.nan, 1]), 0, 0.5, "contexts must be finite"),
    (np.full(3, 1e200), 0, 0.5, "too large to learn from"),
]


@pytest.mark.parametrize(("context", "action", "cost", "words"), BAD_ROUNDS)
@pytest.mark.parametrize("budget", [0, 2])
def test_a_bad_round_is_refused_and_changes_nothing(context, action, cost, words, budget):
    learner = learnt(make(False, budget=budget), *problem(5, joint=False))
    before = pickle.dumps(learner)
    with pytest.raises(ValueError, match=words):
        learner.update(context, action, cost)
    assert pickle.dumps(learner) == before


@pytest.mark.parametrize(
    ("action", "cost"),
    [
        (1.0, 1),
        (np.int64(1), True),
        (np.float64(1), np.True_),
        (np.uint8(1), np.float32(1)),
        (np.array(1.0), np.array(1)),
    ],
)
@pytest.mark.parametrize("joint", [False, True])
def test_whole_numbers_are_actions_and_any_number_is_a_cost(action, cost, joint):
    context = problem(1, joint)[0][0]
    learner, expected = make(joint), make(joint)
    learner.update(context, action, cost)
    expected.update(context, 1, 1.0)
    assert pickle.dumps(learner) == pickle.dumps(expected)


class Mean:
    """An oracle that predicts the mean, unless told to fail."""

    failure = None  # of all copies

    def fit(self, x, y):
        if Mean.failure == "fit":
            raise RuntimeError("fit")
        self.mean = y.mean()
        if Mean.failure == "not finite":
            self.mean = np.inf
        self.columns = 1 if Mean.failure == "shape" else None

    def predict(self, x):
        if Mean.failure == "predict":
            raise RuntimeError("predict")
        return np.full(len(x) if self.columns is None else (len(x), self.columns), self.mean)


FAILURES = {
    "fit": "fit",
    "predict": "predict",
    "not finite": "oracle predicts costs that are not finite",
    "shape": "oracle must predict one number per row",
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("rounds", [0, 6])
@pytest.mark.parametrize("budget", [0, 3])
def test_when_the_oracle_fails_nothing_has_changed_and_the_round_can_be_tried_again(
    failure, rounds, budget, monkeypatch
):
    x, actions, costs = problem(rounds + 1, joint=False)
    learner = learnt(make(False, oracle=Mean(), refit=0, budget=budget), x[:-1], actions[:-1], costs[:-1])
    before = pickle.dumps(learner)
    monkeypatch.setattr(Mean, "failure", failure)
    with pytest.raises((RuntimeError, ValueError), match=FAILURES[failure]):
        learner.update(x[-1], actions[-1], costs[-1])
    assert pickle.dumps(learner) == before
    monkeypatch.undo()
    learner.update(x[-1], actions[-1], costs[-1])
    expected = learnt(make(False, oracle=Mean(), refit=0, budget=budget), x, actions, costs)
    assert pickle.dumps(learner) == pickle.dumps(expected)


def test_an_oracle_that_predicts_nonsense_elsewhere_is_refused(monkeypatch):
    learner = learnt(make(False, oracle=Mean()), *problem(5, joint=False))
    monkeypatch.setattr(Mean, "predict", lambda self, x: np.full(len(x), np.nan))
    with pytest.raises(ValueError, match="oracle predicts costs that are not finite"):
        learner.predict_proba(np.ones((2, 3)))


GOOD_ROUNDS = st.tuples(
    st.lists(st.floats(-2, 2), min_size=FEATURES, max_size=FEATURES),
    st.integers(0, ACTIONS - 1) | st.sampled_from([0.0, 1.0, np.int64(2)]),
    st.floats(-0.5, 1.5),
)
ROUNDS = GOOD_ROUNDS | st.sampled_from([one_round for *one_round, _ in BAD_ROUNDS])


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(ROUNDS, st.sampled_from([None, None, *FAILURES])), max_size=40),
    st.sampled_from([Ridge(), Mean()]),
    st.sampled_from([0, 2, 5]),
    st.sampled_from([0.0, 0.5]),
)
def test_after_any_updates_it_is_as_if_only_the_good_ones_had_been(rounds, oracle, budget, refit):
    arguments = {"oracle": oracle, "budget": budget, "refit": refit}
    learner, expected = make(False, **arguments), make(False, **arguments)
    taken = []
    for (context, action, cost), failure in rounds:
        Mean.failure = failure
        try:
            learner.update(context, action, cost)
        except (RuntimeError, ValueError):
            continue
        finally:
            Mean.failure = None
        expected.update(context, action, cost)
        taken.append(context)
    assert learner.rounds == len(taken)
    assert pickle.dumps(learner) == pickle.dumps(expected)
    if taken:
        assert (learner.predict_proba(taken) == expected.predict_proba(taken)).all()


@pytest.mark.parametrize("oracle", [Ridge(), DecisionTreeRegressor(random_state=0)])
def test_the_caller_may_write_over_a_context(oracle):
    x, actions, costs = problem(20, joint=False)
    room = np.empty(FEATURES)
    learner = make(False, oracle=oracle)
    for context, action, cost in zip(x, actions, costs, strict=True):
        room[:] = context
        learner.update(room, action, cost)
    expected = learnt(make(False, oracle=oracle), x, actions, costs)
    assert (learner.predict_proba(x) == expected.predict_proba(x)).all()


@pytest.mark.parametrize("oracle", [Ridge(), Mean()])
def test_contexts_may_have_no_features(oracle):
    learner = OPOLearner(actions=2, oracle=oracle)
    for _ in range(50):
        learner.update([], 0, 0.9)
        learner.update([], 1, 0.1)
    assert learner.predict_proba([[]])[0, 1] > 0.9
    with pytest.raises(ValueError, match="0 features before, now 1"):
        learner.update([1], 0, 0.9)


@pytest.mark.parametrize(
    ("columns", "rows", "lengths", "words"),
    [
        (GROUP - 1, [[0, 1]], [1], "a multiple of GROUP"),
        (GROUP, [[0, 2]], [1], "rows must be row numbers of predictions"),
        (GROUP, [[-1, 0]], [1], "rows must be row numbers of predictions"),
        (GROUP, [[0, 1]], [0], "lengths must be at least 1"),
        (GROUP, [[0, 1]], [1, 1], "a row for each of lengths"),
        (GROUP, [[0, 1, 1]], [1], "a column for each action"),
    ],
)
def test_the_batch_kernel_checks_its_input(columns, rows, lengths, words):
    batch = _kernel.PolicyBatch(5, 2, eta=1, gamma=1)
    with pytest.raises(ValueError, match=words):
        batch.step(np.zeros((2, columns)), np.array(rows), np.array(lengths))
