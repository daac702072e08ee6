"""What there is to see of a bandit: why a decision was made, and a page about all of them."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ..compare.report import table
from .features import Plain, lines
from .model import Model
from .store import BanditError, Store

PARTS, ACTIONS, LATEST = 60, 7, 20  # points of a curve, actions with a curve of their own, decisions in the table
WIDTH, HEIGHT = 720, 200  # of a curve
NAME = "json_extract(actions, '$[' || chosen || '][0]')"
CELLS = f"""CREATE TEMP TABLE cells AS
SELECT (n - 1) * {PARTS} / (SELECT max(n) FROM decisions) AS part, {NAME} AS action, count(*) AS decisions,
count(cost) AS learnt, sum(-cost) AS reward, sum(1 - (SELECT max(value) FROM json_each(probabilities))) AS explored
FROM decisions GROUP BY 1, 2"""
CURVES = "SELECT sum(reward) / sum(learnt), sum(explored) / sum(decisions) FROM cells GROUP BY part ORDER BY part"
MOST_PLAYED = f"SELECT action FROM cells GROUP BY action ORDER BY sum(decisions) DESC LIMIT {ACTIONS}"
SHARE = "SELECT total(decisions * (action = ?)) / sum(decisions) FROM cells GROUP BY part ORDER BY part"
DECIDED = f"""SELECT datetime(time, 'unixepoch'), id, context, {NAME}, printf('%.4f', probability), ifnull(-cost, '')
FROM decisions ORDER BY n DESC LIMIT {LATEST}"""


def reasons(store: Store, flags: str, id: str) -> dict[str, dict[Any, float]]:
    context, actions, rounds = (json.loads(str(value)) for value in store.find("context, actions, after", id))
    then = Model.restore(store, flags, rounds)
    predicted, base = then.costs(lines(context, actions)), then.costs(lines({}, actions))
    if not np.isfinite(predicted).all():
        raise BanditError(f"decision {id}: only those of --opo_cmab that has learnt two costs can be explained")
    rows = {"predicted cost": predicted, "the action itself": base}
    rows |= {name: predicted - then.costs(lines(rest, actions)) for name, rest in _left_out(context)}
    return {name: {action[0]: float(x) for action, x in zip(actions, row, strict=True)} for name, row in rows.items()}


def _left_out(context: Plain) -> Iterator[tuple[str, Plain]]:
    """Each feature, and the context without it."""
    for key, value in context.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", context | {key: inner}) for name, inner in _left_out(value))
        elif isinstance(value, list):
            yield from ((f"{key}={item}", context | {key: [i for i in value if i != item]}) for item in value)
        else:
            yield f"{key}={value}", {k: v for k, v in context.items() if k != key}


def _curves(series: Mapping[str, Sequence[float | None]]) -> str:
    """An SVG with a line for each, and what the lines are."""
    known = [0.0, *(y for values in series.values() for y in values if y is not None)]
    low, height = min(known), max(known) - min(known) or 1.0

    def at(y: float) -> str:
        return f"{HEIGHT * (1 - (y - low) / height):.1f}"

    ends = [(low, at(low)), (low + height, at(low + height))]
    drawn = [f'<path class="grid" d="M0 {y}H{WIDTH}"/><text y="{y}">{end:.3g}</text>' for end, y in ends]
    for number, values in enumerate(series.values()):
        points = [f"{WIDTH * (x + 0.5) / len(values):.1f},{at(y)}" for x, y in enumerate(values) if y is not None]
        drawn.append(f'<polyline class="c{number}" points="{" ".join(points)}"/>')
    named = "".join(f'<li class="c{number}">{html.escape(name)}</li>' for number, name in enumerate(series))
    return f'<svg viewBox="-60 -10 {WIDTH + 70} {HEIGHT + 20}">{"".join(drawn)}</svg><ul>{named}</ul>'


def page(store: Store, status: dict[str, Any]) -> str:
    store.run(CELLS)
    rewards, explored = zip(*store.run(CURVES) or [(None, None)], strict=True)
    shares = {str(a): [share for (share,) in store.run(SHARE, a)] for (a,) in store.run(MOST_PLAYED)}
    return Template((Path(__file__).parent / "report.html").read_text()).substitute(
        title=html.escape(store.path.name),
        status=table(list(status), [[f"{v:.4g}" if isinstance(v, float) else v for v in status.values()]]),
        reward=_curves({"mean reward": rewards}),
        shares=_curves(shares),
        exploration=_curves({"exploration": explored}),
        latest=table(["time", "id", "context", "action", "probability", "reward"], store.run(DECIDED)),
    )
