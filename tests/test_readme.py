"""The commands that the README shows, as they are written there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import VW
from streams import random_rounds, write

README = (Path(__file__).parent.parent / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_the_readme_s_python_runs(tmp_path, code):
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.parametrize("code", blocks("sh"))
def test_the_readme_s_shell_commands_run(tmp_path, code):
    write(tmp_path / "data.txt", random_rounds(1))
    path = os.pathsep.join([str(Path(VW).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    result = subprocess.run(
        ["sh", "-ec", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert {"model.vw", "probabilities.txt"} <= {path.name for path in tmp_path.iterdir()}


def test_the_files_that_the_readme_links_to_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (Path(__file__).parent.parent / link).exists()] == []
