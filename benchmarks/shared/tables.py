"""Tables as Markdown, CSV and LaTeX."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 0) -> list[str]:
    """The lines of a table. The first `left` columns are aligned left, the others right."""
    rule = [":--" if i < left else "--:" for i in range(len(columns))]
    return ["| " + " | ".join(cells) + " |" for cells in (columns, rule, *rows)]


def markdown_of(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> list[str]:
    """The same, from rows of fields; `columns` gives a format for each column."""
    return markdown(list(columns), ([cell.format(**row) for cell in columns.values()] for row in rows))


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers with four digits; missing values are empty."""
    return table.map(lambda v: "" if pd.isna(v) else f"{v:.4g}" if isinstance(v, float) else str(v))


def write(table: pd.DataFrame, path: Path) -> None:
    """As path.csv and path.tex."""
    table.to_csv(path.with_suffix(".csv"), index=False)
    latex = as_text(table).style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis="columns")
    path.with_suffix(".tex").write_text(latex.to_latex(hrules=True))
