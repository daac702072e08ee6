"""Contexts and actions: plain values, as they are recorded, and VW's text, as they are learnt.

>>> lines(plain_context({"user": "Tom", "hour": 9}), plain_actions(["politics", "sports"]))
['shared |c user=Tom hour:9', '|a politics', '|a sports']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

INTERACTIONS = "-q ca -q cf --hash all"  # the context with names and features of actions; "017" is not 17
LARGEST = float(np.finfo(np.float32).max)  # VW's numbers are floats
IN_VALUES = re.compile(r"[%|:\s\x00-\x1f\x7f]")  # mean something in VW's text, or start an escape
IN_NAMES = re.compile(r"[%|:=.\s\x00-\x1f\x7f]")  # these, and what joins names with values and with names

Plain = dict[str, Any]  # of JSON's values, nested one level
Action = tuple[Any, Plain]  # its name and its features


def finite(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not abs(value) <= LARGEST:  # type: ignore[operator]
        raise ValueError(f"{what} must be a finite number: {value!r}")
    return float(value)


def rows_of(frame: Any) -> list[dict[Any, Any]]:
    """The rows of a DataFrame, without what is missing."""
    return [row.dropna().to_dict() for _, row in frame.iterrows()]


def plain_context(given: Any, where: str = "the context") -> Plain:
    """From a dict, a row of pandas, or a vector of NumPy; else a ValueError that names what cannot be a feature."""
    plain = _plain(given.dropna().to_dict() if hasattr(given, "to_frame") else given, where, 2)
    if not isinstance(plain, dict):
        raise ValueError(f"{where} must be a dict, a row of pandas or a vector of NumPy, not {type(given).__name__}")
    return plain


def _plain(value: Any, where: str, depth: int) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = {f"x{i}": number for i, number in enumerate(value)}
    if isinstance(value, Mapping):
        plain: Plain = {}
        for key, inner in value.items():
            name = str(_name(key, f"{where}: a feature's name"))
            if name in plain or not depth:
                raise ValueError(f"{where}: {f'two features are called {name!r}' if depth else 'is nested too deep'}")
            plain[name] = _plain(inner, f"{where}: {name}", depth - 1)
        return {name: inner for name, inner in plain.items() if inner is not None}
    if isinstance(value, list | tuple):
        return list(dict.fromkeys(_name(item, f"{where}: an item (a vector is a NumPy array)") for item in value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        finite(value, where)
    elif not isinstance(value, str | bool | None):
        raise ValueError(f"{where} must be a number, string, boolean, list, dict or vector, not {type(value).__name__}")
    return value


def _name(value: Any, where: str) -> str | int:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"{where} must be a string or a whole number, and not empty: {value!r}")
    return value


def plain_actions(given: Any, exclude: Iterable[Any] = ()) -> list[Action]:
    """From names, pairs of a name and a dict, a dict from names to dicts, or a DataFrame with names as its index."""
    if hasattr(given, "iterrows"):
        given = zip(given.index.tolist(), rows_of(given), strict=True)
    elif isinstance(given, Mapping):
        given = given.items()
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(f"actions must be names, or a dict from names to features: {given!r}")
    actions: dict[str, Action] = {}
    for action in given:
        name, own = action if isinstance(action, tuple | list) and len(action) == 2 else (action, None)
        name = _name(name, "an action's name")
        if str(name) in actions:
            raise ValueError(f"two actions are called {name}")
        actions[str(name)] = name, plain_context({} if own is None else own, f"action {name}")
    for name in exclude:
        if actions.pop(str(name), None) is None:
            raise ValueError(f"{name!r} is excluded but is not an action")
    if not actions:
        raise ValueError("there is no action to choose from: give at least one")
    return list(actions.values())


def _escape(text: str, special: re.Pattern[str] = IN_VALUES) -> str:
    """Percent-encoded, so that different texts stay different."""
    text.encode()  # half a character raises UnicodeEncodeError, a ValueError
    return special.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


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


def lines(context: Plain, actions: Iterable[Action]) -> list[str]:
    """A round without a label: the context, and a line for each action."""
    own = [f"|a {_escape(str(name))}" + (f" |f {_text(own)}" if own else "") for name, own in actions]
    return [f"shared |c {_text(context)}", *own]


def labelled(lines: Sequence[str], chosen: int, cost: float, probability: float) -> list[str]:
    """The round with its label: action:cost:probability in front of the chosen action."""
    return [*lines[: chosen + 1], f"{chosen}:{cost}:{probability} {lines[chosen + 1]}", *lines[chosen + 2 :]]


def as_json(context: Plain, actions: Iterable[Action]) -> dict[str, Any]:
    """The same features as VW's JSON."""
    choices = [{"a": {_escape(str(name)): 1}, "f": dict(_features(own))} for name, own in actions]
    return {"c": dict(_features(context)), "_multi": choices}
