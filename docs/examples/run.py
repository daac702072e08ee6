"""Runs the examples as they are on their pages, and writes their output and pictures beside them."""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OUTPUT = r"(<!-- output -->\n```text\n).*?(```\n)"


def code(page: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL))


def run(page: Path) -> None:
    text = page.read_text()
    result = subprocess.run([sys.executable, "-c", code(text)], cwd=HERE, check=True, capture_output=True, text=True)
    page.write_text(re.sub(OUTPUT, lambda match: match[1] + result.stdout + match[2], text, flags=re.DOTALL))


if __name__ == "__main__":
    for example in sorted(HERE.glob("*.md")):
        print(example.name)
        run(example)
