"""Writes the figures on the pages from docs/results/*.csv: a new measurement is one command, `make figures`.

A page marks where a table goes: <!-- figures: NAME --> and <!-- end of figures -->. What is between is replaced.
"""

import csv
import re
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "which-explorer.md")

OURS = "OPO-CMAB"
EXACT_PEER = "LinUCB of coba"
# Flags, then the name in online.csv, then that in bakeoff.csv.
EXPLORERS = {
    "**`--opo_cmab`**": (OURS, "OPO-CMAB-default"),
    "`--fastcb`": ("FastCB", "FastCB-mapped"),
    "`--adacb`": ("AdaCB", "AdaCB-mapped"),
    "`--squarecb --cb_cost_unit range`": ("SquareCB, mapped", "SquareCB-mapped"),
    "`--squarecb`": ("SquareCB", "SquareCB"),
    "`--bag 5`": ("bag", "bag"),
    "epsilon-greedy (VW's default)": ("epsilon-greedy", "epsilon-greedy"),
    "`--regcb --regcbopt`": ("RegCB-opt", "RegCB-opt"),
    "LinUCB of coba: exact ridge regression, not VW": (EXACT_PEER, None),
}
FAMILIES = {
    "certain": "clicks are certain, few contexts",
    "change": "preferences change half way",
    "noisy": "noisy clicks",
    "rare": "rare clicks",
    "linear": "dense features, expected cost linear",
    "items": "items known by their features, others on offer each round",
    "many": "many actions that share no features",
    "units": "costs of hundreds (milliseconds, cents)",
    "heavy": "heavy-tailed costs",
    "revenue": "rare sales of different value",
    "delayed": "costs come in batches",
    "few": "a hundred rounds",
}


def rows(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def table(head: list[str], lines: list[list[str]]) -> str:
    columns = [":--", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, columns, *lines])


def explorers() -> str:
    """Means over the online problems and over the data sets."""
    online = {row["explorer"]: row for row in rows("online.csv")}
    losses = defaultdict(list)
    for row in rows("bakeoff.csv"):
        losses[row["algorithm"]].append(float(row["mean"]))
    lines = []
    for flags, (online_name, sets_name) in EXPLORERS.items():
        regret = f"{float(online[online_name]['mean']):.3f}" if online_name in online else "-"
        time = f"{float(online[online_name]['ms_a_round']):.2f}" if online_name in online else "-"
        values = losses.get(sets_name or "", [])
        loss = f"{sum(values) / len(values):.3f}" if values else "-"
        lines.append([flags, regret, loss, time])
    return table(["explorer", "online: regret share", "data sets: mean loss", "online: ms a round"], lines)


def families() -> str:
    """For each kind of problem: ours, the best of VW's other explorers, and an exact regression."""
    online = {row["explorer"]: row for row in rows("online.csv")}
    names = {name: flags for flags, (name, _) in EXPLORERS.items() if name not in (OURS, EXACT_PEER) and name in online}
    known = list(online[OURS])
    lines = []
    for family in known[known.index("ms_a_round") + 1 :]:
        own = float(online[OURS][family])
        best = min(names, key=lambda name: float(online[name][family] or "inf"))
        other = float(online[best][family])
        marks = ("**", "") if own <= other else ("", "**")
        shown = [f"{mark}{value:.3f}{mark}" for mark, value in zip(marks, (own, other), strict=True)]
        exact = online.get(EXACT_PEER, {}).get(family, "")
        peer = f"{float(exact):.3f}" if exact else "-"
        lines.append([FAMILIES.get(family, family), shown[0], f"{shown[1]} {names[best]}", peer])
    return table(["your problem", "`--opo_cmab`", "best of the others in VW", "LinUCB"], lines)


def cost() -> str:
    """Time and memory beside SquareCB."""
    cases = [row for row in rows("speed.csv") if row["part"] == "case"]
    lines = []
    for base, own in pairwise(cases):
        if (base["algorithm"], own["algorithm"]) != ("SquareCB", OURS):
            continue
        words = f"{int(float(own['words'])):,} words, about {own['features']} a text" if float(own["words"]) else None
        features = words or f"{int(own['features']):,} features"
        a_round = [1e6 * float(row["seconds"]) / int(row["rounds"]) for row in (base, own)]
        lines.append(
            [
                f"{int(own['rounds']):,} rounds, {own['actions']} actions, {features}",
                f"{a_round[1]:,.0f} µs",
                f"{a_round[1] / a_round[0]:.1f}",
                f"{float(own['peak_mb']):.0f} MB ({float(base['peak_mb']):.0f} MB)",
            ]
        )
    return table(["problem", "a round takes", "times SquareCB", "memory (SquareCB)"], lines)


TABLES = {"explorers": explorers, "families": families, "cost": cost}


def fill(text: str) -> str:
    def filled(match: re.Match[str]) -> str:
        return f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}"

    pattern = r"(<!-- figures: (\w+) -->)\n.*?(<!-- end of figures -->)"
    return re.sub(pattern, filled, text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in [Path(argument) for argument in sys.argv[1:]] or PAGES:
        page.write_text(fill(page.read_text()))
