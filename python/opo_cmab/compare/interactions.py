"""Whether the learners cross the context with the actions, and which namespaces of a log they could cross."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

__all__ = ["crosses", "dsjson_namespaces", "hint", "text_namespaces"]

Namespaces = tuple[set[str], set[str]]  # first letters: of the shared ones, of those of the actions
DEFAULT = " "  # the namespace without a name
MOST_PAIRS = 4  # that are spelt out
# With these a model is more than a sum over features, or may be: a loaded one brings its own.
CROSSING = {"quadratic", "cubic", "interactions", "experimental_full_name_interactions", "initial_regressor"}
CROSSING |= {"lrq", "lrqfa", "nn", "stage_poly", "autolink", "interact"}


def crosses(flags: str) -> bool:
    """Whether arguments of VW bring interactions."""
    words = [word.partition("=")[0] for word in flags.split()]
    return any(word.startswith(("-q", "-i")) or word.removeprefix("--") in CROSSING for word in words)


def text_namespaces(text: str) -> Namespaces:
    """Of a round in VW's text format."""
    shared: set[str] = set()
    actions: set[str] = set()
    for line in text.split("\n"):
        label, *namespaces = line.split("|")
        letters = shared if label.split()[:1] == ["shared"] else actions
        for namespace in namespaces:
            name = "" if namespace[:1].isspace() else namespace.split(maxsplit=1)[0] if namespace else ""
            if namespace[len(name) :].strip():  # it has features
                letters.add(name[:1] or DEFAULT)
    return shared, actions


def dsjson_namespaces(text: str) -> Namespaces:
    """Of a round in dsjson."""
    context = json.loads(text)["c"]
    return set(_letters(context)), {letter for action in context["_multi"] for letter in _letters(action)}


def _letters(features: dict[str, Any], letter: str = DEFAULT) -> Iterable[str]:
    """An object is a namespace, what is not in one is in the default namespace, and _ starts what is no feature."""
    for key, value in features.items():
        if key.startswith("_"):
            continue
        if isinstance(value, dict):
            yield from _letters(value, key[:1])
        else:
            yield key[:1] if isinstance(value, list) else letter


def hint(shared: str, actions: str) -> str:
    """What to add so that it can be learnt which action suits which context."""
    pairs = [a + b for a in shared for b in actions]
    named = all(letter.isascii() and letter.isalnum() for letter in shared + actions)
    flags = " ".join(f"-q {pair}" for pair in pairs) if named and len(pairs) <= MOST_PAIRS else "-q ::"
    return (
        "The log has shared features and --vw has no interactions: the learners cannot tell which action suits which "
        f'context. Add them, for example --vw "{flags}".'
    )
