"""The Python page: its code runs as it is written there, from top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text()


def test_the_code_of_the_python_page_runs(tmp_path):
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "--cb_explore_adf --opo_cmab --epsilon 0.05 --opo_scale 1\n" in result.stdout
    assert "decay must be in [0, 1]: 2\n" in result.stdout
    assert "(10, 3)\n3 True\n" in result.stdout
    assert (tmp_path / "why.svg").exists()
