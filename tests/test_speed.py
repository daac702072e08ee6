"""The speed benchmark: what it compares does the same job, and its results are written. No time is checked."""

import pandas as pd
from numpy.testing import assert_allclose

from benchmarks import speed
from benchmarks.shared.vw import run_vw


def test_the_naive_implementation_gives_the_engine_s_probabilities(tmp_path):
    stream = speed.logged_stream(rounds=80, seed=1)
    data = speed.write_logged(tmp_path / "logged.txt", stream)
    run_vw(f"-d {data} {speed.SAME_JOB} -p {tmp_path / 'predictions.txt'}")
    expected, size = speed.naive(stream)
    assert size == 80 * 2**18 * 4
    assert_allclose(speed.read_probabilities(tmp_path / "predictions.txt"), expected, atol=1e-4)


def test_the_benchmark_writes_tables_and_a_plot(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(speed, "CASES", {speed.Case(30, 4, 5): 40, speed.Case(10, 2, 50): 4})
    monkeypatch.setattr(speed, "BOUNDED_CASES", {speed.Case(90, 3, 5): 4, speed.Case(40, 3, 5, words=20): 4})
    monkeypatch.setattr(speed, "NAIVE_ROUNDS", [10, 20])
    speed.main(["--rounds-curve", "10", "20", "--repeats", "1", "--out", str(tmp_path)])
    assert (tmp_path / "speed.md").read_text() == capsys.readouterr().out.removesuffix("\n")
    assert "<svg" in (tmp_path / "growth.svg").read_text()
    rows = pd.read_csv(tmp_path / "speed.csv")
    assert rows["part"].tolist() == ["case"] * 12 + ["naive"] * 2 + ["growth"] * 6
    assert rows[["seconds", "machine", "cores", "date", "versions"]].notna().all(axis=None)
    assert (rows["largest_difference"].dropna() < 1e-4).all()
