"""What several tests use: our program, streams of rounds, formulas, model files, noise."""

import os
import subprocess
import sys
from pathlib import Path

VW = Path(os.environ.get("OPO_CMAB_TEST_VW") or Path(sys.executable).parent / "vw")  # make sanitize sets another


def vw_source() -> Path:
    """VW's source distribution, which our build has unpacked."""
    script = Path(__file__).parent.parent.parent / "cmake" / "vw_source.cmake"
    command = ["cmake", f"-DPython_EXECUTABLE={sys.executable}", "-P", script]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return Path((found.stdout + found.stderr).split()[-1])
