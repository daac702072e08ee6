"""The benchmark of budgets: its figures from small runs, and the ways to divide the past that it compares."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import budget


def test_differences_count_data_sets_by_the_mean_over_permutations():
    losses = {("a", 0): [0.2, 0.4], ("a", 64): [0.4, 0.2], ("b", 0): [0.1, 0.1], ("b", 64): [0.1, 0.3]}
    rows = [
        {"dataset": dataset, "budget": n, "permutation": i, "pv_loss": loss}
        for (dataset, n), both in losses.items()
        for i, loss in enumerate(both)
    ]
    [found] = budget.differences(pd.DataFrame(rows)).to_dict("records")
    assert (found["better"], found["equal"], found["worse"]) == (0, 1, 1)
    assert found["mean"] == pytest.approx(0.05)


@pytest.mark.parametrize("divide", budget.DIVISIONS.values())
def test_each_way_divides_the_past_into_as_many_segments(divide):
    for rounds in (501, 1999):
        starts = divide(rounds, 64)
        assert starts[0] == 0
        assert starts[-1] == rounds
        assert (np.diff(starts.astype(int)) > 0).all()
        assert len(starts) == len(budget.as_the_engine(rounds, 64))


def test_a_run_over_the_built_in_sets_writes_its_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(budget, "available", list)
    monkeypatch.setattr(budget, "ACTIONS", (2, 3))
    monkeypatch.setattr(budget, "SEEDS", 1)
    budget.main(["--permutations", "1", "--jobs", "1", "--out", str(tmp_path)])
    text = capsys.readouterr().out
    assert (tmp_path / "budget.md").read_text() == text.removesuffix("\n")
    assert "on 2 data sets of 569 to 1,797 rows" in text
    assert "power 3/4 of the age" in text
    by_actions = text.partition("## By number of actions")[2]
    for actions in (2, 3):
        [line] = [line for line in by_actions.splitlines() if line.startswith(f"| {actions} |")]
        distances = [float(cell) for cell in line.strip("| ").split("|")[1:]]
        assert len(distances) == len(budget.BUDGETS)
        assert all(0 <= distance < 0.5 for distance in distances)
    rows = pd.read_csv(tmp_path / "budget.csv")
    assert rows["budget"].tolist() == [0, 16, 32, 64] * 2
    assert rows["pv_loss"].between(0, 1).all()
