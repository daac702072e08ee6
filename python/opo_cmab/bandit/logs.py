"""Logs in dsjson, the format of Personalizer and of VW: written, read, and compared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..compare import Comparison, compare_explorers
from ..compare.logs import open_log
from .features import as_json, labelled, lines, names, plain_actions, plain_context
from .store import Store

__all__ = ["compare", "read_dsjson", "write_dsjson"]

EXACT = "opo_cmab"  # the key of what VW and others leave alone
LEARNT = """
SELECT id, time, context, actions, chosen, probability, probabilities, gain, cost
FROM lessons JOIN decisions USING (n) ORDER BY round
"""


def write_dsjson(store: Store, path: str | os.PathLike[str]) -> int:
    count = 0
    with Path(path).open("w") as file:
        for id, time, context, actions, chosen, probability, probabilities, gain, cost in store.rows(LEARNT):
            round = [json.loads(context), json.loads(actions)]
            ranking = sorted(range(len(round[1])), key=lambda place: place != chosen)
            p = json.loads(probabilities) if gain is None else [float(place == chosen) for place in ranking]
            event = {
                "_label_cost": cost,
                "_label_probability": probability,
                "_label_Action": chosen + 1,
                "_labelIndex": chosen,
                "Version": "1",
                "EventId": id,
                "Timestamp": datetime.fromtimestamp(time, timezone.utc).isoformat(),
                "a": [place + 1 for place in ranking],
                "c": as_json(*round),
                "p": [p[place] for place in ranking],
                EXACT: round,
            }
            file.write(json.dumps(event) + "\n")
            count += 1
    return count


def read_dsjson(store: Store, path: str | os.PathLike[str]) -> None:
    """Records a decision and a lesson for each round with a cost."""
    n, last = 0, 0.0
    with open_log(Path(path)) as log, store.transaction():
        for number, line in enumerate(log, 1):
            try:
                event = json.loads(line)
                if event.get("_skipLearn") or "_label_cost" not in event:
                    continue
                context, actions = _round(event)
                n, chosen = n + 1, int(event.get("_labelIndex", event["_label_Action"] - 1))
                p = [0.0] * len(actions)
                for action, probability in zip(event.get("a", []), event.get("p", []), strict=True):
                    p[action - 1] = probability
                made = datetime.fromisoformat(event.get("Timestamp", "1970-01-01T00:00:00")[:19] + "+00:00")
                last = max(last, made.timestamp())
                names(actions)[chosen]
                id, probability, cost = str(event.get("EventId", n)), event["_label_probability"], event["_label_cost"]
                values = (n, id, last, json.dumps(context), json.dumps(actions), chosen, probability, json.dumps(p))
                store.run("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", *values, n - 1)
                store.run("INSERT INTO lessons VALUES (?, ?, ?, 1, NULL)", n, n, float(cost))
            except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
                raise ValueError(f"{path}, line {number}: {type(error).__name__}: {error}") from error


def _round(event: dict[str, Any]) -> tuple[Any, Any]:
    if EXACT in event:
        context, actions = event[EXACT]
        return plain_context(context), plain_actions(actions)
    shared, choices = event["c"], event["c"]["_multi"]
    offered = []
    for choice in choices:
        features = dict(_leaves(choice))
        ids = [key for key in features if key.split(".")[-1] == "id"]
        name = features.pop(ids[0]) if ids else json.dumps(features)
        offered.append((name, features))
    return plain_context(dict(_leaves(shared))), plain_actions(offered)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The features of an object as VW reads it: at any depth, without keys that start with _."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.startswith("_"):
                yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from _leaves(item, path)
    elif isinstance(value, list) and not any(isinstance(item, str) for item in value):
        yield path, np.array(value, float)
    else:
        yield path, value


def compare(store: Store, flags: str, settings: dict[str, Any]) -> Comparison:
    """The rounds as VW's text, with the features and the arguments of the bandit."""
    words = [word for word in flags.split() if word not in ("--cb_explore_adf", "--opo_cmab", "--fastcb", "--adacb")]
    if "--opo_cmab" in flags.split() and "explorers" not in settings:
        settings = {"reference": "OPO-CMAB"} | settings
    with TemporaryDirectory(prefix="opo_cmab-") as folder:
        path = Path(folder) / "log.txt"
        with path.open("w") as file:
            for _, _, context, actions, chosen, probability, _, _, cost in store.rows(LEARNT):
                round = lines(json.loads(context), json.loads(actions))
                file.write("\n".join([*labelled(round, chosen, cost, probability), "\n"]))
        return compare_explorers(path, vw=" ".join(words), **settings)
