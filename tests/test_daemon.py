"""A daemon that learns, saves and resumes; small versions of benchmarks.load and benchmarks.long_run: the same checks,
no look at times."""

import subprocess
import sys

import pandas as pd
import pytest

from benchmarks import load
from benchmarks.shared.daemon import Daemon, in_turn, requests, save
from tests.helpers import VW
from tests.helpers.streams import random_rounds, to_text, write

linux = pytest.mark.skipif(sys.platform != "linux", reason="VW's daemon, and /proc, are Linux's")


@linux
def test_a_daemon_learns_saves_on_command_and_goes_on_from_the_file(vw, tmp_path):
    arguments = "--cb_explore_adf --opo_cmab --opo_paper --opo_eta 10 --opo_gamma 0.5 -q sa"
    rounds = random_rounds(26, n=40)
    texts = [to_text([lines]) for lines in rounds]
    out, model = tmp_path / "out", tmp_path / "model"
    vw(f"-d {write(tmp_path / 'data', rounds)} {arguments} -p {out}")
    with Daemon(f"{arguments} --num_children 1", VW) as daemon:
        served = in_turn(daemon, texts[:20])
        save(daemon, model)
    with Daemon(f"-i {model} --num_children 1", VW) as daemon:
        served += in_turn(daemon, texts[20:])
    assert [s.answer for s in served] == out.read_text().split()


@linux
def test_a_daemon_answers_all_requests_as_an_offline_run_does(tmp_path, capsys):
    # Clients in turn while it learns, with a save, a kill and a new start in the middle; at once with -t.
    load.main(["--requests", "1000", "--out", str(tmp_path)])
    assert (tmp_path / "load.md").read_text() == capsys.readouterr().out.removesuffix("\n")
    rows = pd.read_csv(tmp_path / "load.csv")
    assert rows["part"].tolist() == ["learning", "predicting"] * len(load.EXPLORERS)
    assert (rows["requests"] == 1000).all()
    assert (rows["different"] == 0).all()
    assert (rows[["p50_ms", "p99_ms", "per_second"]] > 0).all(axis=None)


@linux
def test_what_was_learnt_after_the_save_is_lost_and_no_more(tmp_path):
    texts = list(requests(60))
    arguments = f"{load.COMMON} --opo_cmab --num_children 1"
    saved = tmp_path / "saved"
    with Daemon(arguments) as daemon:
        in_turn(daemon, texts[:20])
        save(daemon, saved)
        in_turn(daemon, texts[20:40])
    with Daemon(f"-i {saved} --num_children 1") as daemon:
        served = in_turn(daemon, texts[40:])
    expected = load.offline_answers(f"{load.COMMON} --opo_cmab", texts[:20] + texts[40:], tmp_path)
    assert [s.answer for s in served] == expected[20:]


@linux
def test_a_long_run_s_memory_is_flat_and_its_answers_are_the_command_line_s(tmp_path):
    # In a process of its own, whose memory nobody else uses.
    command = [sys.executable, "-m", "benchmarks.long_run", "--rounds", "6000", "--marks", "6", "--out", str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)
    rows = pd.read_csv(tmp_path / "long_run.csv")
    assert rows["learns"].tolist() == [1000, 2000, 3000, 4000, 5000, 6000]
    assert (rows["different"] == 0).all()
    assert rows["memory_mb"].iloc[-1] - rows["memory_mb"].iloc[1] < 0.5
