"""The reference beside the papers: OPO-CMAB's decay goes from UCCB (0) to Algorithm 1 (1)."""

import numpy as np
import opo_cmab
import pytest
from numpy.testing import assert_allclose
from opo_cmab import reference


@pytest.mark.parametrize("seed", range(5))
def test_without_memory_and_with_a_large_eta_it_is_uccb(seed):
    rng = np.random.default_rng(seed)
    f = 0.45 + 0.1 * rng.uniform(size=(300, 5))  # so that nothing is clipped and nothing is tied
    pi = reference.policies(f, eta=1e12, gamma=0.05, decay=0)
    assert_allclose(opo_cmab.policy(f, eta=1e12, gamma=0.05, decay=0), pi[-1], atol=1e-9)
    # pi_{k+1} is the k-th action; the first policy is uniform, and counts for 1 + 1/|A|.
    played = reference.uccb(f, gamma=0.05, first_counts=np.full(5, 1 + 1 / 5))
    assert_allclose(pi[1:], np.eye(5)[played], atol=1e-9)
    assert len(set(played)) == 5


def test_actions_that_are_both_clipped_tie_where_uccb_prefers_one():
    f = np.tile([0.1, 0.2, 0.9], (4, 1))  # with a bonus of about 0.3 the first two are clipped to 0
    pi = reference.policies(f, eta=1e12, gamma=0.8, decay=0)
    assert_allclose(pi[1], [0.5, 0.5, 0], atol=1e-9)
    assert_allclose(opo_cmab.policy(f[:1], eta=1e12, gamma=0.8, decay=0), pi[1], atol=1e-9)
    assert reference.uccb(f, gamma=0.8, first_counts=np.full(3, 1 + 1 / 3))[0] == 0


def test_uccb_as_published_plays_every_action_once_and_then_what_looks_best():
    f = np.tile([0.5, 0.4, 0.6], (200, 1))
    played = reference.uccb(f, gamma=0.2)
    assert played[:3].tolist() == [0, 1, 2]
    counts = np.bincount(played)
    assert counts[1] > counts[0] > counts[2] >= 1
