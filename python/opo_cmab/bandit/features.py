"""Contexts and actions: plain values, as they are recorded, and VW's text, as they are learnt.

>>> lines(plain_context({"user": "Tom", "hour": 9}), plain_actions(["politics", "sports"]))
['shared |c user=Tom hour:9', '|a politics', '|a sports']
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["INTERACTIONS", "as_json", "labelled", "lines", "names", "plain_actions", "plain_context", "plain_contexts"]

INTERACTIONS = "-q ca -q cf --hash all"  # the context with names and features of actions; "017" is not 17
LARGEST = float(np.finfo(np.float32).max)  # VW's numbers are floats
IN_VALUES = re.compile(r"[%|:\s\x00-\x1f\x7f]")  # mean something in VW's text, or start an escape
IN_NAMES = re.compile(r"[%|:=.\s\x00-\x1f\x7f]")  # these, and what joins names with values and with names

Name = str | int
Plain = dict[str, Any]  # of JSON's values, nested one level
Action = Name | list[Any]  # a name, or a name and its features


def _escape(text: str, special: re.Pattern[str] = IN_VALUES) -> str:
    """Percent-encoded, so that different texts stay different."""
    text.encode()  # half a character raises UnicodeEncodeError, a ValueError
    return special.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


# -- from what users have to plain values


def _of_pandas(value: Any, kind: str) -> bool:
    pandas = sys.modules.get("pandas")  # who has one has imported it
    return pandas is not None and isinstance(value, getattr(pandas, kind))


def _records(frame: Any) -> list[dict[Any, Any]]:
    """The rows of a DataFrame, without what is missing."""
    return [row.dropna().to_dict() for _, row in frame.iterrows()]


def plain_context(given: Any) -> Plain:
    """From a dict, a row of pandas, or a vector of NumPy.

    Raises:
        ValueError: if something in it cannot be a feature; the message names it.
    """
    if _of_pandas(given, "Series"):
        given = given.dropna().to_dict()
    elif _of_pandas(given, "DataFrame"):
        if len(given) != 1:
            raise ValueError(f"the context has {len(given)} rows: give one, or use choose_many")
        [given] = _records(given)
    return _mapping(given, "the context", deep=True)


def plain_contexts(given: Any) -> list[Plain]:
    """From a DataFrame or a matrix, a context in each row, or from a list of contexts."""
    if isinstance(given, Mapping | str) or not isinstance(given, Iterable):
        raise ValueError(f"contexts must be a list, a DataFrame or a matrix, not {type(given).__name__}")
    return [plain_context(one) for one in (_records(given) if _of_pandas(given, "DataFrame") else given)]


def _mapping(given: Any, where: str, deep: bool = False) -> Plain:
    if isinstance(given, np.ndarray):
        if given.ndim != 1:
            raise ValueError(f"{where} must be a vector, not an array with {given.ndim} dimensions")
        given = {f"x{i}": value for i, value in enumerate(given)}
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} must be a dict, a row of pandas or a vector of NumPy, not {type(given).__name__}")
    plain: Plain = {}
    for key, value in given.items():
        name = str(_name(key, f"{where}: a feature's name"))
        if name in plain:
            raise ValueError(f"{where}: two features are called {name!r}")
        if value is not None:
            plain[name] = _value(value, f"{where}: {name}", deep)
    return plain


def _value(value: Any, where: str, deep: bool) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        if not abs(value) <= LARGEST:
            raise ValueError(f"{where} must be a finite number: {value!r}")
        return value
    if isinstance(value, set | frozenset | list | tuple):
        items = [_name(item, f"{where}: an item (a vector is a NumPy array)") for item in value]
        return list(dict.fromkeys(sorted(items, key=str) if isinstance(value, set | frozenset) else items))
    if isinstance(value, Mapping | np.ndarray):
        if not deep:
            raise ValueError(f"{where} is nested too deep: one level is allowed")
        return _mapping(value, where)
    raise ValueError(f"{where} must be a number, string, boolean, list or dict, not {type(value).__name__}")


def _name(value: Any, where: str) -> Name:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"{where} must be a string or a whole number, and not empty: {value!r}")
    return value


def plain_actions(given: Any, exclude: Iterable[Name] = ()) -> list[Action]:
    """From names, pairs of a name and a dict, a dict from names to dicts, or a DataFrame with names as its index.

    Raises:
        ValueError: if there is none, or one of them cannot be an action, is there twice, or is excluded but not there.
    """
    if _of_pandas(given, "DataFrame"):
        given = zip(given.index.tolist(), _records(given), strict=True)
    elif isinstance(given, Mapping):
        given = given.items()
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(f"actions must be names, or a dict from names to features: {given!r}")
    actions: dict[str, Action] = {}
    for action in given:
        name, features = action if isinstance(action, tuple | list) and len(action) == 2 else (action, None)
        name = _name(name, "an action's name")
        if str(name) in actions:
            raise ValueError(f"two actions are called {name}")
        own = _mapping(features, f"action {name}", deep=True) if features is not None else None
        actions[str(name)] = [name, own] if own else name
    exclude = [exclude] if isinstance(exclude, str | int) else exclude
    for name in exclude:
        if actions.pop(str(name), None) is None:
            raise ValueError(f"{name!r} is excluded but is not an action")
    if not actions:
        raise ValueError("there is no action to choose from: give at least one")
    return list(actions.values())


def names(actions: Sequence[Action]) -> list[Any]:
    return [action[0] if isinstance(action, list) else action for action in actions]


# -- from plain values to VW's text


def _features(values: Plain, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Names and values as VW has them."""
    for key, value in values.items():
        name = prefix + _escape(key, IN_NAMES)
        if isinstance(value, str | list):
            yield from ((f"{name}={_escape(str(item))}", 1) for item in ([value] if isinstance(value, str) else value))
        elif isinstance(value, dict):
            yield from _features(value, f"{name}.")
        elif value is not False:  # as in VW's JSON, false is no feature
            yield name, 1 if value is True else value


def _text(values: Plain) -> str:
    return " ".join(name if value == 1 else f"{name}:{value}" for name, value in _features(values))


def lines(context: Plain, actions: Sequence[Action]) -> list[str]:
    """A round without a label: the context, and a line for each action."""
    own = [f" |f {_text(action[1])}" if isinstance(action, list) else "" for action in actions]
    named = [f"|a {_escape(str(name))}" for name in names(actions)]
    return [f"shared |c {_text(context)}", *map(str.__add__, named, own)]


def labelled(lines: Sequence[str], chosen: int, cost: float, probability: float) -> list[str]:
    """The round with its label: action:cost:probability in front of the chosen action."""
    label = f"{chosen}:{cost}:{probability} "
    return [*lines[: chosen + 1], label + lines[chosen + 1], *lines[chosen + 2 :]]


def as_json(context: Plain, actions: Sequence[Action]) -> dict[str, Any]:
    """The same features as VW's JSON."""
    own = [{"f": dict(_features(action[1]))} if isinstance(action, list) else {} for action in actions]
    named = [{"a": {_escape(str(name)): 1}} for name in names(actions)]
    return {"c": dict(_features(context)), "_multi": list(map(dict.__or__, named, own))}
