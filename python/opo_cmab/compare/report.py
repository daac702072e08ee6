"""A comparison as text, as a page and as JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .comparison import Comparison, Explorer

__all__ = ["in_html", "in_text", "table", "write"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 340, 64, 24, 28, 40
COLOURS = 8  # in the page's style
DASHES = ("", "7 3", "2 3", "9 3 2 3")


def _cells(explorer: Explorer) -> list[str]:
    flags = explorer.flags or "(default)"
    if explorer.cost is None:
        return [explorer.name, flags, "-", "-", f"{explorer.accepted:.0f}", "-"]
    cost = explorer.cost
    mean = cost.rounded(cost.mean)
    return [explorer.name, flags, mean, cost.interval, f"{explorer.accepted:.0f}", f"{explorer.seconds:.2f}"]


COLUMNS = ("explorer", "flags", "mean cost", "95 % interval", "accepted a pass", "seconds a pass")


def _difference_cells(comparison: Comparison) -> list[list[str]]:
    return [
        [
            d.first,
            d.cost.rounded(d.cost.mean),
            d.cost.interval,
            f"not enough {d.lacks} to tell" if d.lacks else "costs less" if d.cost.mean < 0 else "costs more",
        ]
        for d in comparison.differences
    ]


def _difference_columns(comparison: Comparison) -> tuple[str, ...]:
    return (f"compared with {comparison.reference}", "difference", "95 % interval (simultaneous)", "")


def what(comparison: Comparison) -> str:
    """What the estimates mean."""
    return (
        f"Mean cost of each explorer over its first {comparison.rounds:,} rounds, learning from scratch, replayed from "
        f"{comparison.log_rounds:,} logged rounds in {comparison.passes} passes. The estimates say nothing about later "
        f"rounds. The logged actions have a mean cost of "
        f"{comparison.log_cost.rounded(comparison.log_cost.mean)} ({comparison.log_cost.interval})."
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, *rows)
    ]


def in_text(comparison: Comparison) -> str:
    lines = [what(comparison), ""]
    lines += _table(COLUMNS, [_cells(e) for e in comparison.explorers])
    if comparison.differences:
        lines += ["", *_table(_difference_columns(comparison), _difference_cells(comparison))]
    lines += ["", *comparison.verdict]
    if comparison.notes:
        lines += ["", *(f"Note: {note}" for note in comparison.notes)]
    return "\n".join(lines)


# -- the page


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers."""
    from math import ceil, floor, log10

    raw = (high - low) / 5
    power = 10.0 ** floor(log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    return [i * step for i in range(ceil(low / step), floor(high / step) + 1)]


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], keys: Sequence[int] = ()) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = ""
    for i, row in enumerate(rows):
        swatch = _swatch(keys[i]) if keys else ""
        cells = "".join(f"<td>{swatch if j == 0 else ''}{html.escape(str(cell))}</td>" for j, cell in enumerate(row))
        body += f"<tr>{cells}</tr>\n"
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _swatch(i: int) -> str:
    return f'<svg class="swatch" viewBox="0 0 24 8" aria-hidden="true">{_line("M0 4H24", i)}</svg>'


def _line(path: str, i: int) -> str:
    dash = DASHES[i // COLOURS % len(DASHES)] or DASHES[i % len(DASHES)]
    return f'<path class="line c{i % COLOURS}" d="{path}" stroke-dasharray="{dash}"/>'


def _curves(comparison: Comparison) -> str:
    """The mean cost up to each round. The scale leaves out the first rounds, which would flatten the rest."""
    shown = [(i, e) for i, e in enumerate(comparison.explorers) if e.cost is not None]
    rounds = comparison.curve_rounds
    settled = [c for _, e in shown for n, c in zip(rounds, e.curve, strict=True) if n >= 0.1 * rounds[-1]]
    low, high = min(c.low for c in settled), max(c.high for c in settled)
    if high <= low:
        low, high = low - 0.5, high + 0.5

    def x(n: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * n / rounds[-1]

    def y(cost: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - cost) / (high - low)

    parts = []
    for tick in _ticks(low, high):
        parts.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    for tick in _ticks(0, rounds[-1]):
        parts.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:,.0f}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 4}" text-anchor="middle">rounds</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 12}">mean cost</text>')
    bands, lines = [], []
    for i, explorer in shown:
        points = list(zip(rounds, explorer.curve, strict=True))
        upper = " ".join(f"{x(n):.1f},{y(c.high):.1f}" for n, c in points)
        lower = " ".join(f"{x(n):.1f},{y(c.low):.1f}" for n, c in reversed(points))
        bands.append(f'<polygon class="band c{i % COLOURS}" points="{upper} {lower}"/>')
        lines.append(_line("M" + "L".join(f"{x(n):.1f} {y(c.mean):.1f}" for n, c in points), i))
    size = f'width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    frame = f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" {size}/></clipPath>'
    return (
        f'<svg id="curves" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Mean cost up to each round">{frame}'
        f'{"".join(parts)}<g clip-path="url(#plot)">{"".join(bands)}{"".join(lines)}</g>'
        f'<path id="cursor" class="cursor" d="M0 {TOP}V{HEIGHT - BOTTOM}" visibility="hidden"/></svg>'
    )


def in_html(comparison: Comparison) -> str:
    shown = [(i, e) for i, e in enumerate(comparison.explorers) if e.cost is not None]
    hover = {
        "rounds": comparison.curve_rounds,
        "left": LEFT,
        "width": WIDTH - LEFT - RIGHT,
        "explorers": [
            {"name": e.name, "colour": i % COLOURS, "values": [[c.mean, c.low, c.high] for c in e.curve]}
            for i, e in shown
        ],
    }
    values = {
        "what": html.escape(what(comparison)),
        "verdict": "".join(f"<p>{html.escape(sentence)}</p>" for sentence in comparison.verdict),
        "explorers": table(COLUMNS, [_cells(e) for e in comparison.explorers], range(len(comparison.explorers))),
        "differences": table(_difference_columns(comparison), _difference_cells(comparison)),
        "curves": _curves(comparison) if shown else "",
        "notes": "".join(f"<li>{html.escape(note)}</li>" for note in comparison.notes) or "<li>None.</li>",
        "about": html.escape(
            f"Logs: {', '.join(comparison.logs)}. Arguments for all: {comparison.vw or 'none'}. Seed {comparison.seed}."
        ),
        "data": json.dumps(hover).replace("<", "\\u003c"),
    }
    page = (Path(__file__).parent / "page.html").read_text()
    for key, value in values.items():
        page = page.replace("{{" + key + "}}", value)
    return page


def write(comparison: Comparison, out: Path) -> None:
    """OUT/compare.json and OUT/compare.html."""
    (out / "compare.json").write_text(json.dumps(comparison.to_dict(), indent=1) + "\n")
    (out / "compare.html").write_text(in_html(comparison))
