"""A page in a real browser."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=20000"]


def look(page: str, script: str, directory: Path, *more: str) -> Any:
    """Opens a page in Chromium, with a script in its head that puts what it has seen into `<pre id="found">`, as JSON.

    Nothing may be said on the console. More are flags of Chromium. Skips the test where there is no Chromium.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    file = directory / "page.html"
    file.write_text(page.replace("</head>", script + "</head>"))
    command = [str(chromium), *FLAGS, f"--user-data-dir={directory / 'profile'}", *more, "--dump-dom", file.as_uri()]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in seen.stderr, seen.stderr
    found = re.search(r'<pre id="found">(.*?)</pre>', seen.stdout, re.DOTALL)
    assert found is not None, seen.stdout
    return json.loads(html.unescape(found[1]))
