"""A bandit beside a workspace that was never stopped."""

import json

import numpy as np
from opo_cmab.bandit.features import labelled, lines, plain_actions, plain_context
from opo_cmab.bandit.model import ROUNDS
from vowpalwabbit import Workspace


def assert_decides_as_a_twin(bandit, contexts, actions) -> None:
    """Its probabilities are those of a workspace that learns the recorded rounds without a stop."""
    twin = Workspace(f"{bandit.flags} --quiet")
    for _, context, offered, chosen, cost, p in bandit._store.run(ROUNDS.replace("LIMIT 1000", ""), 0, 1 << 60):
        twin.learn(labelled(lines(json.loads(context), json.loads(offered)), chosen, cost, p))
    for context in contexts:
        expected = np.array(twin.predict(lines(plain_context(context), plain_actions(actions))))
        found = list(bandit.predict(context, actions).values())
        np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-6)
