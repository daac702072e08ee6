"""What the benchmark programs have in common: options, where they ran, and the files that they write."""

import argparse
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import MISSING, field, fields
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import opo_cmab
import pandas as pd
from opo_cmab.compare.rows import Row

from benchmarks.shared.vw import VW, vw_build

Options = TypeVar("Options")


def option(default: Any, text: str = "", **settings: Any) -> Any:
    """A field of a program's options, and so one of its arguments. Without a default (MISSING) it is positional.

    Args:
        default: also gives the type of the value; a tuple means several values
        text: the help
        settings: more for argparse's add_argument
    """
    if isinstance(default, tuple):
        settings = {"nargs": "+", "type": type(default[0])} | settings
    elif isinstance(default, bool):
        settings = {"action": "store_true"} | settings
    elif default is not None and default is not MISSING:
        settings = {"type": Path if isinstance(default, Path) else type(default)} | settings
    if not (default is None or default is False or default is MISSING or "default" in text):
        shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
        text = f"{text} (default: {shown})".strip()
    return field(default=default, metadata={"help": text, **settings})


def count(default: int | None, text: str = "") -> Any:
    """A number from 1 up."""
    return option(default, text, type=_from_1, metavar="N")


def _from_1(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a number from 1 up: {text!r}")
    return int(text)


def directory(name: str) -> Any:
    """The directory of the results."""
    return option(Path("results") / name, metavar="DIR")


def processes() -> Any:
    """How many processes."""
    return option(os.cpu_count(), "runs at a time (default: the number of cores)", metavar="N")


def parse(kind: type[Options], name: str, description: str | None, arguments: Sequence[str] | None) -> Options:
    """The arguments of `python -m benchmarks.NAME` as options: a frozen dataclass whose fields are made by `option`. A
    ValueError in its constructor becomes the parser's error."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for f in fields(kind):  # type: ignore[arg-type]  # typeshed's name of dataclasses is not public
        if f.default is MISSING:
            parser.add_argument(f.name, **f.metadata)
        else:
            parser.add_argument(f"--{f.name.replace('_', '-')}", default=f.default, **f.metadata)
    given = vars(parser.parse_args(arguments))
    try:
        return kind(**given)
    except ValueError as error:
        parser.error(str(error))


def where() -> Row:
    """The machine, the date and the versions, for every row of the results."""
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


def write(name: str, results: pd.DataFrame, text: str, out: Path) -> None:
    """OUT/NAME.csv and OUT/NAME.md, which is printed too."""
    out.mkdir(parents=True, exist_ok=True)
    results.to_csv(out / f"{name}.csv", index=False)
    (out / f"{name}.md").write_text(text)
    print(text)
