"""Programs of others that drive vw, on ours. VW's own Python tests: test_engine.py. Versions: docs/peers.md."""

import numpy as np
import pytest
from vw_executor.vw import ExecutionStatus, Vw

from tests.helpers import VW
from tests.helpers.streams import random_rounds, write

OPO = "--cb_explore_adf --opo_cmab -q sa"


@pytest.fixture
def executor(tmp_path):
    return Vw(tmp_path / "cache", path=VW, procs=2, handler=None)


@pytest.fixture
def files(tmp_path):
    """A stream in two files."""
    rounds = random_rounds(41, n=80)
    return [write(tmp_path / "1", rounds[:40]), write(tmp_path / "2", rounds[40:])]


def test_vw_executor_trains_file_by_file_and_loses_nothing(executor, files, vw, tmp_path):
    # Between the files it hands over the model, with all flags again.
    job = executor.train(files, OPO, ["-p"])
    assert job.status == ExecutionStatus.Success
    whole, out = tmp_path / "whole", tmp_path / "out"
    whole.write_text("".join(file.read_text() for file in files))
    vw(f"-d {whole} {OPO} -p {out}")
    assert "".join(path.read_text() for path in job.outputs["-p"]) == out.read_text()


def test_vw_executor_searches_a_grid_of_our_options(executor, files, vw):
    grid = [{"#base": OPO, "--opo_eta": eta, "--opo_budget": 16} for eta in (1.0, 33.0, 1000.0)]
    jobs = executor.test(files[0], grid)
    losses = [job.loss for job in jobs]
    assert np.isfinite(losses).all()
    assert len(set(losses)) == 3
    direct = vw(f"-d {files[0]} {OPO} --opo_eta 33 --opo_budget 16").stderr
    assert f"average loss = {losses[1]:.6f}" in direct


def test_vw_executor_sees_a_refusal(executor, files):
    job = executor.test(files[0], f"{OPO} --l1 0.1")
    assert job.status == ExecutionStatus.Failed
    assert "--l1" in job[0].stdout.path.with_name(job[0].stdout.path.name + ".out.txt").read_text()
