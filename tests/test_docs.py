"""The pages: their Python code runs as it is written there, from top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ELSEWHERE = {"compare.md", "production.md"}  # run in tests of their own
PRINTED = {
    "bandit.md": ["politics True\n1\nTrue False\npolitics True True\n"],
    "from-personalizer.md": ["400\n"],
    "from-squarecb.md": ["200 True\n"],
    "python.md": [
        "--cb_explore_adf --opo_cmab --epsilon 0.05 --opo_scale 1\n",
        "decay must be in [0, 1]: 2\n",
        "(10, 3)\n3 True\n",
    ],
    "theory.md": ["[[0.4  0.37 0.23]]\n"],
}


def code(page: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL))


def outputs(page: Path) -> list[str]:
    """What the page says that its code prints."""
    return re.findall(r"<!-- output -->\n```text\n(.*?)```", page.read_text(), flags=re.DOTALL)


def run(text: str, folder: Path) -> str:
    result = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    "page",
    [page for page in sorted(DOCS.glob("*.md")) if code(page) and page.name not in ELSEWHERE],
    ids=lambda p: p.name,
)
def test_the_code_of_a_page_runs(tmp_path, page):
    printed = run(code(page), tmp_path)
    assert all(words in printed for words in [*PRINTED.get(page.name, []), *outputs(page)])
    pictures = re.findall(r'savefig\("(.*?)"', code(page))
    assert all((tmp_path / name).stat().st_size > 1000 for name in pictures)


def test_the_example_of_an_explanation_prints_what_its_page_shows(tmp_path):
    page = DOCS / "examples" / "explain.md"
    assert [run(code(page), tmp_path)] == outputs(page)


@pytest.mark.parametrize("page", sorted((DOCS / "examples").glob("*.md")), ids=lambda page: page.name)
def test_an_example_runs_in_a_short_version_and_draws_its_picture(tmp_path, page):
    text, changed = re.subn(r"^rounds(, seeds)? = .*$", r"rounds\1 = 120\1", code(page), flags=re.MULTILINE)
    assert changed == 1
    text = text.replace("= 120, seeds", "= 120, 2").replace("p.argmax() != 0", "True")  # any decision is a surprise
    printed = run(text, tmp_path)
    assert printed
    [picture] = re.findall(r'savefig\("(.*?)"', text)
    assert picture == f"{page.stem}.svg"
    assert (tmp_path / picture).stat().st_size > 1000
    assert (page.parent / picture).exists()
    [output] = outputs(page)  # of the whole version
    words = re.sub(r"[\d.:-]+", "", printed).split()
    assert set(words) <= set(re.sub(r"[\d.:-]+", "", output).split())
