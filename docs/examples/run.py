"""Runs the code of the examples, of docs/bandit.md and docs/python.md as it is there, and writes output and pictures.

Between <!-- output --> and the next fence goes what the block of code before it prints.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PAGES = [*sorted(HERE.glob("*.md")), HERE.parent / "bandit.md", HERE.parent / "python.md"]
OUTPUT = r"(<!-- output -->\n```text\n)(.*?)(```\n)"
MARK = "----- what the last block prints -----"


def printed_by_last(blocks: list[str], folder: Path) -> str:
    code = "\n".join([*blocks[:-1], f"print({MARK!r}, flush=True)", blocks[-1]])
    with tempfile.TemporaryDirectory() as settings:
        (Path(settings) / "matplotlibrc").write_text("svg.hashsalt: docs\n")  # the same picture, the same bytes
        cwd = folder if "savefig" in code else Path(settings)  # only pictures stay
        environment = {**os.environ, "MATPLOTLIBRC": settings, "SOURCE_DATE_EPOCH": "0"}
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return result.stdout.partition(MARK + "\n")[2]


def run(page: Path) -> None:
    text = page.read_text()
    for match in reversed(list(re.finditer(OUTPUT, text, flags=re.DOTALL))):
        blocks = re.findall(r"^```python\n(.*?)^```", text[: match.start()], flags=re.MULTILINE | re.DOTALL)
        text = text[: match.start(2)] + printed_by_last(blocks, page.parent) + text[match.end(2) :]
    page.write_text(text)


if __name__ == "__main__":
    for page in PAGES:
        print(page.relative_to(HERE.parent))
        run(page)
