"""The benchmark of plain regression: what it compares with is exact, and what it says follows from the errors."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import regression, regression_sets
from benchmarks.regression_sets import PROBLEMS

PLACE = {"machine": "a machine", "date": "today", "versions": "versions"}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_known_by_its_seed_and_its_lines_say_what_its_matrix_says(name):
    first, same, other = (PROBLEMS[name](np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.lines == same.lines
    assert np.array_equal(first.y, same.y)
    assert first.lines != other.lines
    assert len(first.lines) == len(first.y)
    assert first.y.std() > 0
    if first.x is not None:
        assert (first.x[:, -1] == 1).all()
        for line, row in zip(first.lines[:20], first.x[:20], strict=True):
            values = [float(word.partition(":")[2] or 1) for word in line.split()[1:]]
            assert sum(values) == pytest.approx(row[:-1].sum(), rel=1e-5, abs=1e-4)


def test_there_are_twenty_problems_some_of_which_fit_one_block():
    assert len(PROBLEMS) == 20
    widths = [PROBLEMS[name](np.random.default_rng(0)).x for name in PROBLEMS]
    assert sum(x is not None and x.shape[1] <= regression.BLOCK for x in widths) >= 10
    assert sum(x is None for x in widths) >= 1


@pytest.mark.parametrize("name", ["houses", "nearly collinear", "one-hot", "powers"])
def test_the_recursive_ridge_is_what_a_solver_says_in_each_round(name):
    problem = PROBLEMS[name](np.random.default_rng(3))
    x, y = problem.x[:80], problem.y[:80]
    predictions = regression.by_ridge(x, y)
    assert predictions[0] == 0
    for t in (1, 2, 5, 30, 79):
        scale = np.abs(x[:t]).max(axis=0)
        seen = scale > 0
        z = x[:t, seen] / scale[seen]
        weights = np.linalg.solve(z.T @ z + np.eye(z.shape[1]), z.T @ (y[:t] - y[0]))
        expected = y[0] + weights @ (x[t, seen] / scale[seen])
        assert predictions[t] == pytest.approx(expected, abs=1e-6 * y.std())


def test_predictions_of_vw_come_before_their_labels():
    problem = PROBLEMS["one-hot"](np.random.default_rng(0))
    short = regression_sets.Regression(problem.lines[:30], problem.y[:30].copy(), None)
    before = regression.by_vw(short, "")
    short.y[-1] += 1000
    assert regression.by_vw(short, "") == pytest.approx(before)
    short.y[0] += 1000
    assert regression.by_vw(short, "") != pytest.approx(before)


def test_the_verdict_counts_problems():
    means = pd.DataFrame(
        {
            regression.OURS: [0.5, 0.6, 0.4, 0.3],
            regression.GD: [0.5, 0.5, 0.5, 0.5],
            regression.RIDGE: [0.48, 0.3, np.nan, 0.1],
        },
        index=["wine", "linear", "texts", "OpenML 44"],
    )
    features = pd.Series({"wine": 14, "linear": 21, "texts": 0, "OpenML 44": 58})
    assert regression.verdict(means, features)[0] == (
        "At most gd's on 2 of 3, and on 1 of 1 of OpenML; "
        "within 5 % of exact ridge on 1 of 2 whose weights fit one block."
    )
    assert regression.verdict(means.drop(columns=regression.OURS), features) == []


def test_results_are_written_with_the_lowest_of_vw_in_bold(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(regression_sets, "ROWS", 60)
    names = ["--problems", "wine", "texts", "--learners", "gd", "ftrl"]
    regression.main([*names, "--seeds", "2", "--jobs", "1", "--out", str(tmp_path)])
    text = (tmp_path / "regression.md").read_text()
    assert text in capsys.readouterr().out
    assert "| wine | 178 | 14 | **" in text
    [of_texts] = [line for line in text.splitlines() if line.startswith("| texts |")]
    assert of_texts.endswith(" |  |")  # no exact ridge
    results = pd.read_csv(tmp_path / "regression.csv")
    assert len(results) == 2 * 3 + 2 * 2
    assert (results["error"] > 0).all()


def test_data_sets_of_openml_are_added_where_the_cache_has_them(monkeypatch):
    monkeypatch.setattr(regression_sets, "available", lambda: [44, 737, 1])
    assert [name for name, _ in regression_sets.problems()][20:] == ["OpenML 44", "OpenML 737"]
