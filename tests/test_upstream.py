"""The faults of VW that docs/upstream.md tells of are those of the VW that is built here."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.helpers import VW

TEXT = (Path(__file__).parent.parent / "docs" / "upstream.md").read_text()
COMMANDS = re.findall(r"^```sh\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("commands", COMMANDS)
def test_the_commands_show_what_is_written_beside_them(tmp_path, commands):
    path = os.pathsep.join([str(Path(VW).parent), os.environ["PATH"]])
    shell = ["bash", "-c", commands]
    run = subprocess.run(
        shell, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
    )
    shown = run.stdout + run.stderr
    written = re.findall(r"# (.*)$", commands, flags=re.MULTILINE)
    assert written
    for part in ", ".join(written).split(", "):
        if part not in ("twice", "three times", "no error"):
            assert part.removeprefix("then ") in shown
