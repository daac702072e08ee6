"""The comparison of explorers: its data, its runs, its resuming and its statistics."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import compare_defaults, datasets, ranking

ROOT = Path(__file__).parent.parent

FLAGS = ["", "--bag 5", "--regcb --regcbopt", "--fastcb"]


@pytest.fixture(scope="module")
def builtin():
    return {d.did: d for d in datasets.builtin()}


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Runs a small comparison on scikit-learn's sets; the rows of its results, in the order of the file."""
    monkeypatch.delenv(datasets.CACHE_VARIABLE, raising=False)

    def run(*arguments: str, out: str = "out") -> list[dict]:
        compare_defaults.main([*arguments, "--out", str(tmp_path / out)])
        return read(tmp_path / out / "runs.jsonl")

    return run


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def small(*features: float) -> datasets.Dataset:
    names = tuple(f"column {i}" for i in range(len(features)))
    return datasets.Dataset("small", "small", np.array([features]), np.array([1]), names)


def test_builtin_sets_have_labels_from_1_to_the_number_of_classes(builtin):
    assert {name: (d.rows, d.features, d.actions) for name, d in builtin.items()} == {
        "iris": (150, 4, 3),
        "wine": (178, 13, 3),
        "breast_cancer": (569, 30, 2),
        "digits": (1797, 64, 10),
    }
    assert all(set(d.y) == set(range(1, d.actions + 1)) for d in builtin.values())


def test_lines_leave_out_zeros_and_name_features_as_asked():
    dataset = small(1.5, 0, -2, 1e-7)
    assert datasets.to_vw(dataset, 0) == ["1 | f0:1.5 f2:-2 f3:1e-07"]
    assert datasets.to_vw(dataset, 0, "published") == ["1 | 0:1.5 2:-2 3:1e-07"]


def test_lines_give_vw_every_digit_of_a_float(builtin):
    values = [float(f.split(":")[1]) for line in datasets.to_vw(builtin["wine"], 0) for f in line.split()[2:]]
    assert set(np.float32(values)) == set(np.float32(builtin["wine"].X[builtin["wine"].X != 0]))


def test_a_permutation_changes_the_order_of_the_rows_only_and_is_the_seed_s(builtin):
    one, again, other = (datasets.to_vw(builtin["iris"], seed) for seed in ([0, 1], [0, 1], [0, 2]))
    assert one == again != other
    assert sorted(one) == sorted(other)


def test_columns_become_numbers_with_0_for_missing():
    nominal = pd.Series(pd.Categorical(["low", None, "high", "low"], categories=["high", "low"]))
    assert datasets._numbers(nominal).tolist() == [1, 0, 0, 1]
    assert datasets._numbers(pd.Series([True, False])).tolist() == [1, 0]
    assert datasets._numbers(pd.Series([2.5, np.nan])).tolist() == [2.5, 0]
    assert datasets._numbers(pd.Series([3, pd.NA], dtype="UInt8")).tolist() == [3, 0]


def test_no_cache_means_no_openml_sets(monkeypatch, tmp_path):
    monkeypatch.setenv(datasets.CACHE_VARIABLE, str(tmp_path))
    assert datasets.available() == []
    with pytest.raises(FileNotFoundError, match="data set 61 is not in the OpenML cache"):
        datasets.load(61)
    monkeypatch.delenv(datasets.CACHE_VARIABLE)
    assert datasets.available() == []


def test_an_openml_set_loads_from_the_cache_and_runs():
    if not datasets.available():
        pytest.skip(f"{datasets.CACHE_VARIABLE} is not set, or holds no data")
    did = min(datasets.available())
    dataset = datasets.load(did)
    assert dataset.did == did
    assert dataset.X.shape == (dataset.rows, dataset.features)
    assert np.isfinite(dataset.X).all()
    assert set(dataset.y) == set(range(1, dataset.actions + 1))
    lines = datasets.to_vw(dataset, 0)
    assert 0 < compare_defaults.pv_loss("", dataset.actions, lines) < 1


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", ["iris", "digits"])
def test_the_loss_is_the_program_s_and_the_workspace_s_average_loss(vw, builtin, tmp_path, name, flags):
    from vowpalwabbit import Workspace

    dataset = builtin[name]
    lines = datasets.to_vw(dataset, 0)
    file = tmp_path / "data.vw"
    file.write_text("\n".join(lines) + "\n")
    arguments = f"--cbify {dataset.actions} --cb_explore_adf {flags} -d {file}"
    loss = compare_defaults.pv_loss(flags, dataset.actions, lines)
    assert f"average loss = {loss:.6f}\n" in vw(arguments).stderr
    workspace = Workspace(f"{arguments} --quiet")
    assert loss == workspace.get_sum_loss() / workspace.get_weighted_examples()
    workspace.finish()


def test_the_same_numbers_for_any_number_of_jobs(compare):
    arguments = ["--datasets", "iris", "wine", "--permutations", "2", "--algorithms", "bag", "SquareCB", "FastCB"]
    one, two = (compare(*arguments, "--jobs", jobs, out=jobs) for jobs in ("1", "2"))

    def losses(rows):
        return {compare_defaults.run_key(row): row["pv_loss"] for row in rows}

    assert losses(one) == losses(two)
    assert len(one) == 2 * 2 * 3


def test_a_killed_comparison_goes_on_where_it_was(compare, tmp_path):
    arguments = ["--datasets", "digits", "--permutations", "10", "--algorithms", "SquareCB", "FastCB", "--jobs", "1"]
    results = tmp_path / "out" / "runs.jsonl"
    command = [sys.executable, "-m", "benchmarks.compare_defaults", *arguments, "--out", str(results.parent)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not results.exists() or results.read_bytes().count(b"\n") < 3:
            assert process.poll() is None, "ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    finished = results.read_bytes()
    assert 3 <= finished.count(b"\n") < 20
    results.write_bytes(finished + finished[: finished.index(b"\n") // 2])  # as if killed in the middle of a line
    rows = compare(*arguments)
    assert results.read_bytes().startswith(finished[: finished.rindex(b"\n") + 1])
    assert len(rows) == len({compare_defaults.run_key(row) for row in rows}) == 20
    assert compare(*arguments) == rows, "nothing is left to run"


def test_results_of_another_build_of_vw_are_told(compare, tmp_path, monkeypatch):
    arguments = ["--datasets", "iris", "--permutations", "1", "--algorithms", "SquareCB", "FastCB"]
    compare(*arguments)
    assert "vw is now" not in (tmp_path / "out" / "summary.md").read_text()
    monkeypatch.setattr(compare_defaults, "vw_build", lambda: "another")
    compare(*arguments)
    assert "Careful: vw is now another" in (tmp_path / "out" / "summary.md").read_text()


def test_failures_are_recorded_named_and_tried_again(compare, tmp_path):
    arguments = ["--datasets", "iris", "wine", "nowhere", "--max-features", "10", "--permutations", "1"]
    arguments += ["--algorithms", "SquareCB", "FastCB", "--variant", "no = such=--no_such_flag"]
    rows = compare(*arguments)
    assert {row["algorithm"] for row in rows if row["error"]} == {"no = such"}
    assert len(compare(*arguments)) == len(rows) + 1
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "unrecognised option '--no_such_flag': no = such (everywhere)" in summary
    assert re.search(r"- does not load: data set nowhere is not in the OpenML cache .*: nowhere\n", summary)
    assert "- more than 10 features: wine\n" in summary


def test_a_set_on_which_an_algorithm_fails_is_left_out_for_all():
    rows = [
        {"dataset": d, "algorithm": a, "pv_loss": loss, "error": None if loss else "stopped after 1 s"}
        for d, a, loss in [("a", "x", 0.1), ("a", "y", 0.3), ("b", "x", 0.2), ("b", "y", None)]
    ]
    losses, left_out = compare_defaults.complete_losses(rows)
    assert losses.loc["a"].to_dict() == {"x": 0.1, "y": 0.3}
    assert list(losses.index) == ["a"]
    assert left_out == {"stopped after 1 s": ["data set b (y)"]}


def test_a_run_is_stopped_at_its_time_limit(builtin):
    lines = datasets.to_vw(builtin["digits"], 0)
    with pytest.raises(RuntimeError, match=r"stopped after 0\.001 s"):
        compare_defaults.pv_loss("--bag 50", 10, lines, timeout=0.001)


def test_the_summary_s_columns_and_files(compare, tmp_path):
    arguments = ["--datasets", "iris", "wine", "breast_cancer", "--permutations", "1", "--reference", "OPO eta=100"]
    arguments += ["--algorithms", "epsilon-greedy", "SquareCB", "--variant", "OPO eta=100=--squarecb --gamma_scale 100"]
    rows = compare(*arguments)
    summary = pd.read_csv(tmp_path / "out" / "summary.csv", index_col="algorithm")
    for name, s in summary.iterrows():
        assert s["mean_pv_loss"] == pytest.approx(np.mean([r["pv_loss"] for r in rows if r["algorithm"] == name]))
    others = summary.drop(index="OPO eta=100")
    assert (others[["better", "equal", "worse"]].sum(axis=1) == 3).all()
    assert summary["rank"].mean() == 2
    assert "<svg" in (tmp_path / "out" / "ranks.svg").read_text()


def test_ranks_share_ties_and_comparisons_count_sets():
    losses = pd.DataFrame({"a": [0.1, 0.2, 0.3], "b": [0.1, 0.3, 0.4], "c": [0.5, 0.1, 0.6]})
    assert ranking.mean_ranks(losses).to_dict() == pytest.approx({"a": 4.5 / 3, "b": 6.5 / 3, "c": 7 / 3})
    versus = ranking.against(losses, "a")
    assert versus.loc["b", ["better", "equal", "worse"]].tolist() == [0, 1, 2]
    assert versus.loc["c", ["better", "equal", "worse"]].tolist() == [1, 0, 2]
    assert ranking.against(losses.assign(b=losses["a"]), "a").loc["b", "p"] == 1


def test_holm_and_nemenyi_equal_published_numbers():
    # Holm's correction as R's p.adjust gives it; Nemenyi's q of 10 algorithms is 3.164 (Demsar 2006, Table 5a).
    np.testing.assert_allclose(ranking.holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    losses = pd.DataFrame(np.zeros((30, 10)))
    assert ranking.critical_difference(losses) == pytest.approx(3.164 * np.sqrt(10 * 11 / (6 * 30)), abs=1e-3)


def test_help_reads_well(capsys):
    with pytest.raises(SystemExit, match="0"):
        compare_defaults.main(["--help"])
    text = capsys.readouterr().out
    assert all(words in text for words in ["progressive validation", "--variant NAME=FLAGS", "OPENML_CACHE_DIR"])
