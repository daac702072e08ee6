"""The simulation of the published code: right where it is Algorithm 1, and otherwise what its reading says."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import published
from benchmarks.comparison.algorithms import ALGORITHMS, AS_IN_THE_PAPER
from benchmarks.shared import datasets


@pytest.fixture(scope="module")
def iris():
    return next(d for d in datasets.builtin() if d.did == "iris")


def played(dataset, params, reading, seed=0):
    order = np.random.default_rng(seed).permutation(dataset.rows)[:60]
    return list(published.rounds(dataset, order, params, reading, [seed]))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_read_by_action_it_is_the_engine_s_algorithm_1(iris, ours, loss):
    params = {"loss": loss, "eta": 10.0, "gamma": 0.1, "learning_rate": 1.0}
    rounds = played(iris, params, "action")
    flags = ALGORITHMS[published.OPO].command(iris.actions, params).removeprefix("--cbify 3 ")
    probabilities = ours(f"{flags} --noconstant --quiet", [r.lines for r in rounds])
    np.testing.assert_allclose([r.policy for r in rounds], probabilities, atol=1e-4)


def test_read_by_position_the_most_likely_action_is_the_one_that_looks_best_now(iris):
    params = {"loss": "squared", "eta": 100.0, "gamma": 0.01, "learning_rate": 0.5}
    assert all(np.max(r.policy) > 0.99 for r in played(iris, params, "position")[30:])


@pytest.mark.parametrize(("actions", "width"), [(2, 4), (3, 4), (4, 8), (10, 16)])
def test_features_are_merged_as_cbify_merges_them(vw, tmp_path, actions, width):
    """Two integers get one name where cbify gives them one weight: the class cannot be learnt from which one it is."""
    names = dict(published.merged(np.ones(width + 1), actions))
    assert list(names) == ["constant", "f0", "f1"]
    for other, same in ((width - 1, True), (width, False)):
        (tmp_path / "data").write_text(f"1 | 0:1\n2 | {other}:1\n" * 500)
        shown = vw(f"--cbify {actions} --cb_explore_adf --squarecb -d {tmp_path / 'data'}").stderr
        loss = float(shown.split("average loss = ")[1].split()[0])
        assert (loss > 0.4) == same


def test_the_page_puts_the_simulated_losses_in_the_place_of_the_engine_s():
    sets = [1062, 1015, 339]
    names = AS_IN_THE_PAPER.values()
    others = pd.DataFrame([(d, name, 0.5) for d in sets for name in names], columns=["dataset", "algorithm", "mean"])
    simulated = pd.DataFrame(
        [(d, r, 0, loss) for d in sets for r, loss in (("action", 0.9), ("position", 0.1))],
        columns=["dataset", "reading", "permutation", "pv_loss"],
    )
    page = published.compare(others, simulated)
    assert "| by action | 3 | 0 | 0 | 0 | 0 |" in page
    assert "| by position | 0 | 0 | 3 | 0 | 0 |" in page
    assert "read by position (the published code): 0.1000" in page
    assert page.count("| 1062 | by ") == page.count("| 1015 | by ") == 2
