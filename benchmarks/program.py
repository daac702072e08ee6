"""What the benchmark programs have in common: arguments, where they ran, tables and files."""

import argparse
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import opo_cmab
import pandas as pd

from benchmarks.vw import VW, vw_build

Row = dict[str, Any]


def make_parser(
    name: str, description: str | None, *, out: str | None = None, jobs: bool = False
) -> argparse.ArgumentParser:
    """A parser for `python -m benchmarks.NAME` with --out, and --jobs if asked for."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    if jobs:
        cores = os.cpu_count()
        add("--jobs", type=int, default=cores, metavar="N", help="runs at a time (default: the number of cores)")
    add("--out", type=Path, default=Path(f"results/{out or name}"), metavar="DIR", help="(default: %(default)s)")
    return parser


def where() -> Row:
    """The machine, the day and the versions, which every row of the results holds."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    version = subprocess.run([VW, "--version"], capture_output=True, text=True, check=True).stdout.split()[0]
    return {
        "machine": model[1] if model else platform.processor(),
        "cores": os.cpu_count(),
        "date": date.today().isoformat(),
        "versions": f"opo_cmab {opo_cmab.__version__}, VW {version} (build {vw_build()}), "
        f"Python {platform.python_version()}, NumPy {np.__version__}",
    }


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (columns, ["--:"] * len(columns), *rows)]


def write(name: str, results: pd.DataFrame, text: str, out: Path) -> None:
    """OUT/NAME.csv and OUT/NAME.md, which is printed too."""
    out.mkdir(parents=True, exist_ok=True)
    results.to_csv(out / f"{name}.csv", index=False)
    (out / f"{name}.md").write_text(text)
    print(text)
