"""The commands that the README shows, as they are written there, and those that it and the other pages name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import VW

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def assert_shown(output: str) -> None:
    """The README says what its commands print."""
    assert output.strip()
    for line in filter(None, output.splitlines()):
        assert f"# {line}" in README


@pytest.mark.parametrize("code", blocks("python"))
def test_the_readme_s_python_prints_what_it_says(tmp_path, code):
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert_shown(result.stdout)


@pytest.mark.parametrize("code", blocks("sh"))
def test_the_readme_s_shell_commands_print_what_it_says(tmp_path, code):
    path = os.pathsep.join([str(Path(VW).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    result = subprocess.run(
        ["sh", "-ec", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert_shown(result.stdout)
    assert {"model.vw", "probabilities.txt"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_links_to_exist(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def named(pattern: str) -> list[str]:
    return sorted({match for page in PAGES for match in re.findall(pattern, page.read_text(), re.MULTILINE)})


@pytest.mark.parametrize("target", named(r"(?:^    |`)make (\w+)"))
def test_the_make_targets_that_the_pages_name_exist(target):
    subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("module", named(r"`python -m (benchmarks\.\w+)"))
def test_the_programs_that_the_pages_name_explain_themselves(module):
    result = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout.startswith(f"usage: python -m {module}"), result.stderr
