"""The benchmarks of OPOLearner: what they compare is what they say, and results are written. No time is checked."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import batch, nonlinear


def test_no_linear_model_says_which_action_is_best():
    problem = nonlinear.draw(4000, seed=0)
    x, expected, observed = problem.dense_contexts(), np.array(problem.expected), np.array(problem.costs)
    with_constant = np.column_stack([x, np.ones(len(x))])
    linear = with_constant @ np.linalg.lstsq(with_constant, expected)[0]
    assert np.mean(linear.argmin(axis=1) == expected.argmin(axis=1)) < 0.5
    assert (observed - expected).mean() == pytest.approx(0, abs=0.01)


@pytest.mark.slow
def test_boosted_trees_beat_the_linear_models_clearly():
    trees, ridge, vw = (
        nonlinear.cumulative_regret(name, 500, seed=5)[-1]
        for name in (nonlinear.TREES, "OPOLearner, ridge", "VW --opo_cmab")
    )
    assert trees < min(ridge, vw) / 1.5


def test_the_nonlinear_benchmark_writes_a_table_and_a_plot(tmp_path, capsys):
    nonlinear.main(["--rounds", "8", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)])
    assert (tmp_path / "nonlinear.md").read_text() == capsys.readouterr().out.removesuffix("\n")
    assert "<svg" in (tmp_path / "nonlinear.svg").read_text()
    rows = pd.read_csv(tmp_path / "nonlinear.csv")
    assert len(rows) == len(nonlinear.BANDITS) * 8
    assert (rows["regret"] > 0).all()


def test_the_batch_benchmark_compares_equal_probabilities(tmp_path, capsys):
    batch.main(["--rounds", "12", "--contexts", "40", "--repeats", "1", "--out", str(tmp_path)])
    assert (tmp_path / "batch.md").read_text() == capsys.readouterr().out.removesuffix("\n")
    rows = pd.read_csv(tmp_path / "batch.csv")
    assert rows["learner"].tolist() == list(batch.LEARNERS)
    assert (rows["largest_difference"] < 1e-9).all()
    assert (rows["times_faster"] > 0).all()
