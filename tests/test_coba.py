"""coba: its experiments run VW with our flags and OPOLearner side by side."""

import pytest
from coba import Environments, Experiment, RandomLearner, VowpalLearner
from coba.context import CobaContext, NullLogger
from opo_cmab import FastCBOptions, Options, Ridge
from opo_cmab.coba import CobaLearner
from sklearn.tree import DecisionTreeRegressor

# coba's costs are negative rewards: see docs/options.md.
REWARDS = {"min_cost": -1, "max_cost": 0}
ROUNDS = 300
FEATURES = "--interactions xa --ignore_linear x --quiet"


@pytest.fixture(autouse=True)
def _quiet():
    logger, CobaContext.logger = CobaContext.logger, NullLogger()
    yield
    CobaContext.logger = logger


def test_an_experiment_compares_opo_cmab_fastcb_and_opolearner():
    environment = Environments.from_linear_synthetic(
        ROUNDS, n_actions=3, n_context_features=4, n_action_features=0, seed=1
    )
    learners = {
        "random": RandomLearner(),
        "opo_cmab": VowpalLearner(f"{Options(gamma=1, **REWARDS)} {FEATURES}"),
        "fastcb": VowpalLearner(f"{FastCBOptions(**REWARDS)} {FEATURES}"),
        "ridge": CobaLearner(),
        "tree": CobaLearner(
            features=["a", "x"], oracle=DecisionTreeRegressor(min_samples_leaf=10), refit=0.5, budget=8
        ),
    }
    result = Experiment(environment, list(learners.values())).run(quiet=True)
    assert len(result.interactions) == ROUNDS * len(learners)
    frame = result.interactions.to_pandas()
    means = dict(zip(learners, frame.groupby("learner_id")["reward"].mean(), strict=True))
    assert min(means["opo_cmab"], means["fastcb"], means["ridge"]) > means["random"] + 0.05


def test_the_adapter_keeps_to_coba_s_protocol():
    learner = CobaLearner(seed=3, eta=10, oracle=Ridge(2))
    actions = [(1, 0), (0, 1)]
    assert learner.params == {
        "family": "OPOLearner",
        "features": ["a", "xa"],
        "eta": 10,
        "oracle": "Ridge(l2=2)",
        "seed": 3,
    }
    assert [learner.score((1, 2), actions, a) for a in actions] == [0.5, 0.5]
    for _ in range(20):
        action, probability = learner.predict((1, 2), actions)
        assert probability == learner.score((1, 2), actions, action)
        learner.learn((1, 2), action, float(action == (0, 1)), probability)
    assert learner.score((1, 2), actions, (0, 1)) > 0.9


def test_there_may_be_no_context():
    learner, actions = CobaLearner(), [(1, 0), (0, 1)]
    for action in actions * 5:
        learner.learn(None, action, float(action == (0, 1)), 0.5)
    assert learner.score(None, actions, (0, 1)) > 0.9
