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
from .features import as_json, finite, plain_actions, plain_context
from .store import Store

EXACT = "opo_cmab"  # the key of what VW and others leave alone
LEARNT = """SELECT id, time, context, actions, chosen, probability, probabilities, cost
FROM decisions WHERE round IS NOT NULL ORDER BY round"""
RECORD = """INSERT INTO decisions (n, id, time, context, actions, chosen, probability, probabilities, after, round,
cost, given) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?1 - 1, ?1, ?9, 1)"""


def write_dsjson(store: Store, path: str | os.PathLike[str]) -> None:
    with Path(path).open("w") as file:
        for id, time, context, actions, chosen, probability, p, cost in store.connection.execute(LEARNT):
            round, p = (json.loads(context), json.loads(actions)), json.loads(p)
            if abs(p[chosen] - probability) > 1e-6:  # the baseline's
                p = [float(place == chosen) for place in range(len(p))]
            ranking = sorted(range(len(p)), key=lambda place: place != chosen)
            event = {"_label_cost": cost, "_label_probability": probability, "_label_Action": chosen + 1}
            event |= {"_labelIndex": chosen, "Version": "1", "EventId": id}
            event |= {"Timestamp": datetime.fromtimestamp(time, timezone.utc).isoformat()}
            event |= {"a": [place + 1 for place in ranking], "p": [p[place] for place in ranking]}
            file.write(json.dumps(event | {"c": as_json(*round), EXACT: round}) + "\n")


def read_dsjson(store: Store, path: str | os.PathLike[str]) -> None:
    """Records a decision for each round with a cost, as learnt."""
    n, last = 0, 0.0
    with open_log(Path(path)) as log, store.transaction():
        for number, line in enumerate(log, 1):
            try:
                event = json.loads(line)
                if event.get("_skipLearn") or "_label_cost" not in event:
                    continue
                context, actions = _round(event)
                p = dict(zip(event.get("a", []), event.get("p", []), strict=True))
                every = json.dumps([p.get(number, 0.0) for number in range(1, len(actions) + 1)])
                made = datetime.fromisoformat(event.get("Timestamp", "1970-01-01T00:00:00")[:19] + "+00:00")
                n, last = n + 1, max(last, made.timestamp())
                values = n, str(event.get("EventId", n)), last, json.dumps(context), json.dumps(actions)
                chosen, probability, cost = (event[f"_label{x}"] for x in ("Index", "_probability", "_cost"))
                store.run(RECORD, *values, chosen, probability, every, finite(cost, "_label_cost"))
            except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
                raise ValueError(f"{path}, line {number}: {type(error).__name__}: {error}") from error


def _round(event: dict[str, Any]) -> tuple[Any, Any]:
    context, offered = event.get(EXACT) or (dict(leaves(event["c"])), list[Any]())
    for choice in [] if EXACT in event else event["c"]["_multi"]:
        features = dict(leaves(choice))
        id = next((key for key in features if key.split(".")[-1] == "id"), None)
        offered.append((features.pop(id) if id else json.dumps(features), features))
    return plain_context(context), plain_actions(offered)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The features of an object as VW reads it: at any depth, without keys that start with _."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.startswith("_"):
                yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from leaves(item, path)
    else:
        is_vector = isinstance(value, list) and all(isinstance(item, int | float) for item in value)
        yield path, np.array(value, float) if is_vector else value


def compare(store: Store, flags: str, settings: dict[str, Any]) -> Comparison:
    """The rounds with the features and the arguments of the bandit."""
    words = [word for word in flags.split() if word not in ("--cb_explore_adf", "--opo_cmab", "--fastcb", "--adacb")]
    if "--opo_cmab" in flags.split() and "explorers" not in settings:
        settings = {"reference": "OPO-CMAB"} | settings
    with TemporaryDirectory(prefix="opo_cmab-") as folder:
        log = Path(folder) / "log.json"
        write_dsjson(store, log)
        return compare_explorers(log, vw=" ".join(words), **settings)
