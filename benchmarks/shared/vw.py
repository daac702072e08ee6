"""Our vw: its path, its build, and runs of it, as a process or in this one."""

import hashlib
import json
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

VW = Path(sys.executable).parent / "vw"


@cache
def vw_build() -> str:
    """Identifies the build of the program: the version does not change during development."""
    return hashlib.sha256(VW.read_bytes()).hexdigest()[:12]


def versions() -> str:
    return f"vw-opo-cmab {version('vw-opo-cmab')}, VW {version('vowpalwabbit')}, build {vw_build()}"


class Usage(NamedTuple):
    """What a program took. CPU time says less of the wait and more of the work: vw reads its input in a thread."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


# The peak memory of a process starts with that of the process that started it. So this starts it, in a Python of its
# own that is smaller than vw.
LAUNCHER = """
import json, os, sys, time
start = time.perf_counter()
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
seconds = time.perf_counter() - start
peak = used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
print(json.dumps([seconds, used.ru_utime + used.ru_stime, peak]))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run_vw(arguments: str) -> Usage:
    command = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(VW), "--quiet", *arguments.split()]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode != 0:
        raise RuntimeError(f"vw {arguments} ended with {process.returncode}: {process.stderr.strip()}")
    return Usage(*json.loads(process.stdout))


def probabilities(line: str) -> list[float]:
    """Of a line of vw's predictions, `action:probability,..`, in the order of the actions."""
    pairs = (pair.split(":") for pair in line.strip().split(","))
    return [float(p) for _, p in sorted(pairs, key=lambda pair: int(pair[0]))]


def round_losses(command: str, text: str) -> str:
    """A character for each line of multiclass data: 1 where VW predicted another class, else 0.

    VW's own driver runs over the data. Not in a process of its own: for the paper's small sets, starting one takes as
    long as the run (13 against 7 ms of CPU time).
    """
    import opo_cmab  # noqa: F401  here, before vowpalwabbit: worker processes run this without the head of their caller
    from vowpalwabbit import Workspace

    with TemporaryDirectory() as directory:
        data, predictions = Path(directory) / "data", Path(directory) / "predictions"
        data.write_text(text)
        # A short queue: making VW's 256 examples takes as long as all the rest of its start.
        Workspace(f"{command} --quiet --example_queue_limit 16 -d {data} -p {predictions}").finish()
        predicted = predictions.read_text().split()
    labels = [line.split(maxsplit=1)[0] for line in text.splitlines()]
    return "".join("01"[p != label] for p, label in zip(predicted, labels, strict=True))
