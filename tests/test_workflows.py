"""The public workflows: every step of theirs is a make target that runs here, too. (make lint checks their schema.)"""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps() -> list[tuple[str, dict]]:
    jobs = [(path.name, job) for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]
    return [(name, step) for name, job in jobs for step in job["steps"]]


@pytest.mark.parametrize("command", sorted({step["run"] for _, step in steps() if "run" in step}))
def test_a_step_is_a_make_target(command):
    assert re.fullmatch(r"make \w+( \w+=\w+)*", command)
    subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


def test_the_workflows_test_lint_sanitize_document_and_package():
    commands = {step["run"] for _, step in steps() if "run" in step}
    assert {"make lint", "make test", "make sanitize", "make docs", "make wheel", "make wheels"} <= commands
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for _, step in steps() if "uses" in step)
