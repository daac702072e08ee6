"""The benchmark of the service runs and writes its table. No time is checked."""

import pandas as pd

from benchmarks import serve


def test_the_benchmark_writes_a_row_for_each_load(tmp_path, capsys):
    serve.main(["--rounds", "80", "--out", str(tmp_path)])
    assert (tmp_path / "serve.md").read_text() == capsys.readouterr().out.removesuffix("\n")
    rows = pd.read_csv(tmp_path / "serve.csv")
    assert rows["clients"].tolist() == [1, 1, 4, 16, 64, 64]
    assert rows["errors"].tolist() == [0] * 6
