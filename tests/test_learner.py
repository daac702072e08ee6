"""OPOLearner: equal to the NumPy reference with any oracle, in batches as one by one, whole and within a budget."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from opo_cmab import OPOLearner, Ridge, _kernel, reference
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor
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


def make(joint: bool, **settings) -> OPOLearner:
    return OPOLearner(actions=None if joint else ACTIONS, **settings)


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
    rounds = problem(70, joint)
    learner = learnt(make(joint, **settings), *rounds)
    contexts = problem(40, joint, seed=1)[0]
    expected = [reference.policies(ridge_predictions(*rounds, c, joint), **settings)[-1] for c in contexts]
    assert_allclose(learner.predict_proba(contexts), expected, atol=1e-9)
    assert_allclose(learner.predict_proba(contexts[:1]), expected[:1], atol=1e-9)


def test_with_a_tree_it_equals_the_reference():
    x, actions, costs = problem(60, joint=True)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    settings = {"eta": 10, "gamma": 0.5, "decay": 1}
    learner = learnt(make(joint=True, oracle=tree, refit=0.2, **settings), x, actions, costs)

    past, due = [lambda rows: np.zeros(len(rows))], 1.0
    for n in range(1, len(x)):  # the predictor of round n + 1: fitted anew when the data is 20% more
        if n >= due:
            past.append(clone(tree).fit(x[np.arange(n), actions[:n]], costs[:n]).predict)
            due = 1.2 * n
        else:
            past.append(past[-1])
    assert len(set(past)) < 30
    contexts = problem(5, joint=True, seed=1)[0]
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


@pytest.mark.parametrize("decay", [1, 0.9])
def test_rounds_at_once_equal_rounds_one_by_one_where_one_action_is_alone(decay):
    predictions = np.tile([[0.2], [0.4], [0.9]], GROUP)
    rows = np.array([[0, 1, 2]])
    policies = []
    for most_steps in (0, 1, 3):
        batch = _kernel.PolicyBatch(1, 3, eta=1e4, beta=0, decay=decay)
        batch.step(predictions, rows, np.array([1]))  # from here on the first action is alone
        batch.step(predictions, rows, np.array([50]), most_steps)
        policies.append(batch.probabilities())
    assert_allclose(policies, [[[1, 0, 0]]] * 3, atol=1e-12)


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


def test_costs_of_another_range_are_mapped():
    x, actions, costs = problem(50, joint=False)
    plain = learnt(make(False), x, actions, costs)
    mapped = learnt(make(False, min_cost=-3, max_cost=1), x, actions, 4 * costs - 3)
    assert_allclose(mapped.predict_proba(x), plain.predict_proba(x), atol=1e-9)


def test_scikit_learn_can_clone_it():
    learner = learnt(make(False, oracle=DecisionTreeRegressor(), eta=3), *problem(5, joint=False))
    copy = clone(learner)
    assert copy.eta == 3
    assert copy.rounds == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"actions": 0}, "actions"),
        ({"budget": 1}, "budget"),
        ({"refit": -1}, "refit"),
        ({"threads": -1}, "threads"),
        ({"min_cost": 1}, "min_cost must be below max_cost"),
        ({"eta": -1}, "eta"),
        ({"decay": 2}, "decay"),
        ({"gamma": 1, "beta": 1}, "give one of gamma and beta"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        OPOLearner(**settings)


def test_a_ridge_without_penalty_is_refused():
    with pytest.raises(ValueError, match="l2"):
        Ridge(0)


@pytest.mark.parametrize(
    ("context", "action", "cost", "words"),
    [
        (np.ones(3), 4, 0.5, "action must be in 0 .. 3"),
        (np.ones(3), 0, float("nan"), "cost must be finite"),
        (np.ones((2, 3)), 0, 0.5, "must be of shape"),
        (np.ones(2), 0, 0.5, "3 features before, now 2"),
        (np.array([1, np.nan, 1]), 0, 0.5, "contexts must be finite"),
    ],
)
def test_a_bad_round_is_refused_and_changes_nothing(context, action, cost, words):
    learner = make(False)
    learner.update(np.ones(3), 1, 0.5)
    with pytest.raises(ValueError, match=words):
        learner.update(context, action, cost)
    assert learner.rounds == 1


class Nonsense:
    def fit(self, x, y):
        pass

    def predict(self, x):
        return np.full(len(x), np.inf)


def test_an_oracle_that_predicts_nonsense_is_refused():
    learner = make(False, oracle=Nonsense())
    for _ in range(2):
        learner.update(np.ones(3), 1, 0.5)
    with pytest.raises(ValueError, match="oracle predicts costs that are not finite"):
        learner.predict_proba(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("columns", "rows", "lengths", "words"),
    [
        (GROUP - 1, [[0, 1]], [1], "a multiple of GROUP"),
        (GROUP, [[0, 2]], [1], "rows must be of predictions"),
        (GROUP, [[-1, 0]], [1], "rows must be of predictions"),
        (GROUP, [[0, 1]], [0], "lengths must be at least 1"),
        (GROUP, [[0, 1]], [1, 1], "a row for each of lengths"),
        (GROUP, [[0, 1, 1]], [1], "a column for each action"),
    ],
)
def test_the_batch_kernel_checks_its_input(columns, rows, lengths, words):
    batch = _kernel.PolicyBatch(5, 2, eta=1, gamma=1)
    with pytest.raises(ValueError, match=words):
        batch.step(np.zeros((2, columns)), np.array(rows), np.array(lengths))
