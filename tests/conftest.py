"""Stock VW beside ours: the same rounds through either engine.

In this process vowpalwabbit runs on our engine. Stock VW, the published wheel, runs in a process of its own.
"""

import json
import subprocess
import sys
from pathlib import Path

import opo_cmab  # noqa: F401  before vowpalwabbit
import pytest
from hypothesis import settings

from tests.helpers import VW
from tests.helpers.streams import Predictions, run

settings.register_profile("seeded", derandomize=True, deadline=None)
settings.load_profile("seeded")

STOCK_RUN = (
    "import json, sys; from tests.helpers.streams import run; json.dump(run(**json.load(sys.stdin)), sys.stdout)"
)


@pytest.fixture(scope="session")
def vw():
    """Our vw program: runs it with a string of arguments."""

    def run_program(arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        result = subprocess.run([VW, *arguments.split()], capture_output=True, text=True, timeout=120)
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result

    return run_program


@pytest.fixture(scope="session")
def ours():
    """Rounds through vowpalwabbit.Workspace on our engine: streams.run."""
    return run


@pytest.fixture(scope="session")
def stock():
    """Rounds through vowpalwabbit.Workspace on the stock engine: streams.run in a process of its own."""

    def run_stock(arguments: str, rounds: list[list[str]], **more) -> Predictions:
        process = subprocess.run(
            [sys.executable, "-c", STOCK_RUN],
            input=json.dumps({"arguments": arguments, "rounds": rounds, **more}),
            capture_output=True,
            text=True,
            timeout=300,
            cwd=Path(__file__).parent.parent,
        )
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    return run_stock
