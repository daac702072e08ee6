"""The explorers that are compared, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

__all__ = ["EXPLORERS", "MORE_EXPLORERS", "check_flags", "named_explorers"]

#: The default explorers, by name: the flags. {min} and {max} become the range of the log's costs.
EXPLORERS: Mapping[str, str] = MappingProxyType(
    {
        "epsilon-greedy": "",
        "SquareCB": "--squarecb",
        "FastCB": "--fastcb",
        "OPO-CMAB": "--opo_cmab",
        "RegCB-opt": "--regcb --regcbopt --cb_min_cost {min} --cb_max_cost {max}",
    }
)
#: Further known names.
MORE_EXPLORERS: Mapping[str, str] = MappingProxyType({"bag": "--bag 5", "AdaCB": "--adacb", "softmax": "--softmax"})
# Options that the comparison sets itself.
OURS = (
    "-d",
    "--data",
    "-p",
    "--predictions",
    "-f",
    "--final_regressor",
    "-t",
    "--testonly",
    "--daemon",
    "-c",
    "--cache",
)


def named_explorers(
    explorers: Mapping[str, str] | Sequence[str] | None, cost_range: tuple[float, float]
) -> dict[str, str]:
    """The flags of each: known names, "name=flags", or flags alone."""
    known = {name.casefold(): (name, flags) for name, flags in {**EXPLORERS, **MORE_EXPLORERS}.items()}
    if explorers is None:
        explorers = list(EXPLORERS)
    if isinstance(explorers, str):
        raise TypeError(f"explorers must be a list or a mapping, not a string: write [{explorers!r}]")
    chosen: dict[str, str] = {}
    pairs = explorers.items() if isinstance(explorers, Mapping) else [_name_and_flags(e, known) for e in explorers]
    low, high = cost_range
    for name, flags in pairs:
        if name in chosen:
            raise ValueError(f"two explorers are called {name!r}: rename one, as in 'name=flags'")
        check_flags(flags)
        words = flags.replace("{min}", f"{low:g}").replace("{max}", f"{high if high > low else low + 1:g}").split()
        chosen[name] = " ".join(word for word in words if word != "--cb_explore_adf")
    if not chosen:
        raise ValueError("no explorer to compare: name at least one")
    return chosen


def _name_and_flags(explorer: str, known: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    if explorer.lstrip().startswith("-"):
        return explorer.strip(), explorer
    name, equals, flags = explorer.partition("=")
    if equals:
        return name.strip(), flags
    if name.casefold() not in known:
        names = ", ".join(name for name, _ in known.values())
        raise ValueError(f"no explorer is called {name!r}. Known: {names}; or give its flags, as 'mine=--squarecb'")
    return known[name.casefold()]


def check_flags(flags: str) -> None:
    """Refuses options that the comparison sets itself."""
    for word in flags.split():
        if word.partition("=")[0] in OURS:
            raise ValueError(f"{word} is not allowed here: the comparison reads the log itself. Leave it out")
