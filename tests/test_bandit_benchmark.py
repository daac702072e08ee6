"""The benchmark of Bandit runs and writes its table. No time is checked."""

import pandas as pd

from benchmarks import bandit


def test_the_benchmark_writes_a_row_for_each_load(tmp_path, capsys):
    bandit.main(["--rounds", "40", "--long", "50", "--out", str(tmp_path)])
    assert (tmp_path / "bandit.md").read_text() == capsys.readouterr().out.removesuffix("\n")
    rows = pd.read_csv(tmp_path / "bandit.csv")
    assert rows["threads"].dropna().tolist() == [1, 1, 2, 4, 8]
    assert rows["rounds"].dropna().tolist() == [10, 20, 30, 40, 50]
