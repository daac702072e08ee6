"""A page about a bandit: reward over time, share of each action, exploration, latest decisions."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .store import Store

__all__ = ["write_report"]

PARTS = 60  # points of a curve
ACTIONS = 7  # with a curve of their own
LATEST = 20
WIDTH, HEIGHT = 720, 200
PART = f"min({PARTS - 1}, (n - 1) * {PARTS} / (SELECT max(n) FROM decisions))"
NAME = "ifnull(json_extract(actions, '$[' || chosen || '][0]'), json_extract(actions, '$[' || chosen || ']'))"
CURVES = f"""
SELECT avg(-cost), avg(1 - (SELECT max(value) FROM json_each(probabilities)))
FROM decisions LEFT JOIN lessons USING (n) GROUP BY {PART} ORDER BY {PART}
"""
MOST_PLAYED = f"SELECT {NAME} FROM decisions GROUP BY 1 ORDER BY count(*) DESC LIMIT {ACTIONS}"
SHARE = f"SELECT avg({NAME} = ?) FROM decisions GROUP BY {PART} ORDER BY {PART}"
DECIDED = f"""
SELECT datetime(time, 'unixepoch'), id, context, {NAME}, printf('%.4f', probability), ifnull(-cost, '')
FROM decisions LEFT JOIN lessons USING (n) ORDER BY n DESC LIMIT {LATEST}
"""

Curve = Sequence[float | None]


def _curves(series: Mapping[str, Curve]) -> str:
    """An SVG with a line for each, and what the lines are."""
    known = [y for values in series.values() for y in values if y is not None]
    low, high = min([0.0, *known]), max([0.0, *known])

    def at(y: float) -> str:
        return f"{HEIGHT * (1 - (y - low) / (high - low or 1)):.1f}"

    drawn = [f'<path class="grid" d="M0 {at(y)}H{WIDTH}"/><text y="{at(y)}">{y:.3g}</text>' for y in (low, high)]
    for number, values in enumerate(series.values()):
        step = WIDTH / len(values)
        points = " ".join(f"{step * (x + 0.5):.1f},{at(y)}" for x, y in enumerate(values) if y is not None)
        drawn.append(f'<polyline class="c{number}" points="{points}"/>')
    named = "".join(f'<li class="c{number}">{html.escape(name)}</li>' for number, name in enumerate(series))
    return f'<svg viewBox="-60 -10 {WIDTH + 70} {HEIGHT + 20}">{"".join(drawn)}</svg><ul>{named}</ul>'


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    cells = ["".join(f"<th>{html.escape(cell)}</th>" for cell in head)]
    cells += ["".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def write_report(store: Store, status: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    rewards, explored = zip(*store.run(CURVES) or [(None, None)], strict=True)
    shares = {str(name): [share for (share,) in store.run(SHARE, name)] for (name,) in store.run(MOST_PLAYED)}
    values = {
        "title": html.escape(store.path.name),
        "status": _table(list(status), [[f"{v:.4g}" if isinstance(v, float) else v for v in status.values()]]),
        "reward": _curves({"mean reward": rewards}),
        "shares": _curves(shares),
        "exploration": _curves({"exploration": explored}),
        "latest": _table(["time", "id", "context", "action", "probability", "reward"], store.run(DECIDED)),
    }
    page = (Path(__file__).parent / "report.html").read_text()
    for key, value in values.items():
        page = page.replace("{{" + key + "}}", value)
    Path(path).write_text(page)
    return Path(path)
