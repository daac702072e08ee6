"""Random input for fuzz.py: flags, lines and bytes, most of them nearly right."""

import json
import random
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.helpers.slots import random_events
from tests.helpers.streams import dsjson, random_rounds, to_text, without_labels


def number(rng: random.Random, low: float, high: float) -> str:
    """A number between the powers of 10."""
    return f"{10 ** rng.uniform(low, high):.4g}"


@dataclass
class Stream:
    """Good lines, and the flag that they are for."""

    flag: str
    rounds: list[list[str]]
    probes: list[list[str]]  # the same without labels


def any_stream(rng: random.Random, most: int, actions: tuple[int, int] = (2, 5)) -> Stream:
    """Up to so many rounds with one decision each, or some events with several slots."""
    seed, n = rng.getrandbits(32), rng.randrange(1, most)
    flag = rng.choice(["--cb_explore_adf"] * 3 + ["--ccb_explore_adf", "--slates"])
    if flag == "--cb_explore_adf":
        rounds = random_rounds(seed, n=n, actions=actions)
        return Stream(flag, rounds, without_labels(rounds))
    events = random_events(seed, n=1 + n // 2, slates=flag == "--slates")
    return Stream(flag, [e.lines() for e in events], [e.lines(labelled=False) for e in events])


def good_flags(rng: random.Random, flag: str = "--cb_explore_adf") -> list[str]:
    """Flags that go together."""
    explorer = rng.choice(["--opo_cmab", "--opo_cmab", "--opo_cmab", "--fastcb", "--adacb"])
    if rng.random() < 0.3:
        return [flag, *least_squares_flags(rng)]
    flags = [flag, explorer]

    def maybe(*choice: str) -> None:
        if rng.random() < 0.3:
            flags.extend(choice)

    if explorer == "--opo_cmab":
        maybe("--opo_eta", number(rng, -2, 6))
        maybe(rng.choice(["--opo_gamma", "--opo_beta"]), number(rng, -3, 2))
        maybe("--opo_decay", f"{rng.choice([0, 0.5, 0.9, 0.99, 1])}")
        maybe("--opo_budget", f"{rng.randrange(8, 300)}")
        maybe("--opo_importance_weighted")
    else:
        maybe("--gamma_scale", number(rng, -2, 4))
        maybe("--gamma_exponent", f"{rng.uniform(0, 1):.3f}")
    if explorer == "--adacb":
        maybe("--mellowness", number(rng, -4, 0))
    else:
        maybe(rng.choice(["--ftrl", "--coin", "--pistol", "--sgd", "--adaptive"]))
    maybe("-q", rng.choice(["sa", "::", "aa"]))
    maybe("--cubic", "ssa")
    maybe("-b", f"{rng.randrange(2, 20)}")
    maybe("--epsilon", f"{rng.choice([0, 0.1, 1])}")
    maybe("--loss_function", "logistic")
    maybe("--cb_min_cost", "-1", "--cb_max_cost", "2")
    maybe("--noconstant")
    maybe(*rng.choice([["--sparse_weights"], ["--initial_weight", "0.1"]]))  # not both: docs/fuzzing.md
    maybe("--power_t", "0.3", "-l", number(rng, -2, 1))
    return flags


def least_squares_flags(rng: random.Random) -> list[str]:
    """Flags that go with --least_squares."""
    flags = [rng.choice(["--opo_cmab", "--fastcb", "--adacb"]), "--least_squares"]
    for choice in (
        ["--ls_block", f"{rng.choice([1, 2, 7, 8, 9, 32, 100])}"],
        ["--ls_penalty", number(rng, -3, 3)],
        ["-q", rng.choice(["sa", "::", "aa"])],
        ["-b", f"{rng.randrange(2, 20)}"],
        ["--epsilon", f"{rng.choice([0, 0.1, 1])}"],
        ["--cb_min_cost", "-1", "--cb_max_cost", "2"],
        ["--noconstant"],
        ["--sparse_weights"],
    ):
        if rng.random() < 0.3:
            flags += choice
    return flags


BAD_VALUES = ["nan", "inf", "-inf", "-1", "0", "1e38", "1e39", "1e-45", "99999999999999999999", "", "x", "é", "--quiet"]
VALUED = shlex.split("""
    --opo_eta --opo_gamma --opo_beta --opo_decay --opo_budget --epsilon --cb_min_cost --cb_max_cost --gamma_scale
    --gamma_exponent --mellowness --logistic_min --logistic_max --cb_cost_unit --loss_function --cb_type
    --explorer_state -l --power_t --initial_t --l1 --l2 --initial_weight --random_seed -q --interactions --ignore
    --keep --ls_block --ls_penalty
""")
OTHERS = shlex.split("""
    --squarecb --elim --regcb --regcbopt --softmax --bag=2 --cover=2 --first=3 --rnd=2 --synthcover --nn=2 --lrq=sa2
    --boosting=2 --bootstrap=2 --stage_poly --autolink=1 --OjaNewton --svrg --freegrad --bfgs --marginal=s
    --baseline --large_action_space --cb_adf --cb_sample --cbify=3 --cb=2 --ccb_explore_adf --slates --warm_cb=3
    --oaa=3 --automl=2 --epsilon_decay --multiworld_test=a --explore_eval --shadow_squash --random_weights
    --normal_weights --holdout_off --save_resume --predict_only_model --preserve_performance_counters --no_predict
    --audit --invariant --adaptive --normalized --link=glf1 --noop --print --sendto=x --testonly -t --onethread
    --interact=sa --chain_hash --readable_model=readable --invert_hash=inverted --extra_metrics=metrics
    --cache_file=cache --passes=2 --feature_mask=model --no_stdin --strict_parse --ngram=a2 --skips=a1 --spelling=a
    --affix=+2a --leave_duplicate_interactions --sparse_weights --thread_safe --simulate_daemon --progress=1
    --hash=all --quiet --examples=5 --least_squares
""")


def any_flags(rng: random.Random) -> list[str]:
    """Good flags, with some that need not go with them or have values that they cannot have."""
    flags = good_flags(rng)
    for _ in range(rng.randrange(1, 4)):
        more = [rng.choice(OTHERS)] if rng.random() < 0.6 else [rng.choice(VALUED), rng.choice(BAD_VALUES)]
        at = rng.choice([2, len(flags)])
        flags[at:at] = more
    return flags


TOKENS = [
    *[
        "",
        " ",
        "|",
        "||",
        ":",
        "::",
        "|a",
        "|s",
        "|é",
        "shared",
        "shared |",
        "\0",
        "\t",
        "\r",
        "\n",
        "\n\n",
        "'tag",
        "*",
    ],
    *["0:1:0.5", "0:1:0", "0:-1:2", "1:0.5:-0.5", "0:nan:nan", "0:inf:1", "0:1e38:1e-38", "4294967295:1:1", "-1:1:1"],
    *[
        "0:1",
        "0",
        "0:1:1:1",
        "0:0.5:0.5 1:0.5:0.5",
        "x:nan",
        "x:inf",
        "x:-inf",
        "x:1e39",
        "x:1e38",
        "x:-1e38",
        "x:1e-45",
    ],
    *["x:", ":1", "x:1:2", "|a:2", "|a:nan", "|a:1e38", "\xff", "é:1", "a" * 5000, "ccb shared |", "slates shared 0 |"],
]


def noisy_text(rng: random.Random, rounds: list[list[str]]) -> bytes:
    """The stream with parts of it replaced, left out, doubled or out of order."""
    lines = to_text(rounds).split("\n")
    for _ in range(rng.randrange(1, 12)):
        i = rng.randrange(len(lines))
        words = lines[i].split(" ")
        match rng.randrange(6):
            case 0:
                words[rng.randrange(len(words))] = rng.choice(TOKENS)
            case 1:
                words.insert(rng.randrange(len(words) + 1), rng.choice(TOKENS))
            case 2:
                words = []
            case 3:
                words += rng.choice(lines).split(" ")
            case 4:
                lines.insert(i, rng.choice(lines))
            case 5:
                words = [" ".join(words)[: rng.randrange(1 + len(lines[i]))]]
        lines[i] = " ".join(words)
    return "\n".join(lines).encode("latin-1" if rng.random() < 0.1 else "utf-8", errors="replace")


COSTS = ["0", "-1", "1e38", "-1e38", "1e39", "inf", "nan", "1e-45", "x", ""]


def noisy_events(rng: random.Random, events: list[list[str]]) -> bytes:
    """Events with several slots: other features and costs, events doubled or out of order.

    Which lines an event has stays as it is: VW ends with a segmentation fault if it is not whole (docs/fuzzing.md)."""
    events = [list(lines) for lines in events]
    for _ in range(rng.randrange(1, 12)):
        lines = rng.choice(events)
        i = rng.randrange(len(lines))
        label, _, features = lines[i].partition("|")
        words = features.split(" ")
        match rng.randrange(4):
            case 0:
                words[rng.randrange(len(words))] = rng.choice([t for t in TOKENS if "\n" not in t])
            case 1:
                cost = rng.choice(COSTS)
                label = re.sub(r"^(ccb slot \d+):[^:]*:", rf"\1:{cost}:", label)
                label = re.sub(r"^(slates shared) \S+", rf"\1 {cost}", label)
            case 2:
                events.insert(rng.randrange(len(events)), lines)
            case 3:
                events.remove(lines)
                events.append(lines)
        lines[i] = f"{label}|{' '.join(words)}"
    return to_text(events).encode("utf-8", errors="replace")


NAMES = shlex.split("""
    _label _labelIndex _label_cost _label_Action _label_probability _label_action _labels _multi _slots _tag _text
    _inc _skipLearn _original_label_cost _outcomes _id _a _p _o _e a p c o pdrop cost probability action s x EventId
    Timestamp VWState m v
""")
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    1e38,
    1e308,
    -1e308,
    2**31,
    2**32,
    2**63,
    "",
    "x",
    "1",
    "a b|c:d",
    "é",
    [],
    {},
]


def any_json(rng: random.Random, depth: int = 0) -> Any:
    if depth > 3 or rng.random() < 0.4:
        return rng.choice(VALUES)
    some = range(rng.randrange(4))
    if rng.random() < 0.3:
        return [any_json(rng, depth + 1) for _ in some]
    return {rng.choice(NAMES): any_json(rng, depth + 1) for _ in some}


def replace_in_json(rng: random.Random, value: Any) -> Any:
    """The value with one thing in it replaced, left out or put under another name."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.2:
        return any_json(rng)
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    at = rng.choice(places)
    what = rng.random()
    if what < 0.7:
        value[at] = replace_in_json(rng, value[at])
    elif what < 0.8:
        del value[at]
    elif isinstance(value, dict):
        value[rng.choice(NAMES)] = value.pop(at)
    else:
        value.insert(at, any_json(rng))
    return value


# Faults of VW itself, on which stock VW ends in the same way (docs/fuzzing.md): such lines are left out.
VW_FAULTS: dict[str, Callable[[str], object]] = {
    "a JSON line that is no object": re.compile(r"\s*[^{\s]").match,
    "a context in --dsjson that is no object": re.compile(r'"c"\s*:\s*[^{\s]').search,
    "an array in the slots of --dsjson": re.compile(r'"_slots"\s*:\s*\[.*\[').search,
    "a namespace in JSON whose name begins with a byte above 127": re.compile(r'[{,]\s*"[^ -~]').search,
}


def noisy_json(rng: random.Random, rounds: list[list[str]]) -> str:
    lines = [dsjson(r) for r in rounds]
    for _ in range(rng.randrange(1, 6)):
        i = rng.randrange(len(lines))
        if rng.random() < 0.8:
            lines[i] = json.dumps(replace_in_json(rng, json.loads(dsjson(rounds[i]))), ensure_ascii=rng.random() < 0.5)
        else:
            at = rng.randrange(len(lines[i]))
            lines[i] = lines[i][:at] + rng.choice(["", "{", "}", '"', "[", ",", "\\", "\0"]) + lines[i][at + 1 :]
    return "".join(line + "\n" for line in lines if not any(fault(line) for fault in VW_FAULTS.values()))


def damage(rng: random.Random, data: bytes) -> bytes:
    """Not the same bytes: cut short, or some of them flipped, overwritten, left out or doubled."""
    at, n = rng.randrange(len(data)), rng.choice([1, 1, 2, 4, 8, 100])
    changed = {
        "cut": data[:at],
        "flipped": data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
        "overwritten": data[:at] + rng.choice([b"\0", b"\xff", rng.randbytes(1)]) * n + data[at + n :],
        "left out": data[:at] + data[at + n :],
        "doubled": data[: at + n] + data[at:],
        "longer": data + rng.randbytes(n),
    }[rng.choice(["cut", "flipped", "flipped", "overwritten", "left out", "doubled", "longer"])]
    return changed if changed != data else data[:-1]


def damage_field(rng: random.Random, data: bytes) -> bytes:
    """As damage, or with a number somewhere in it replaced by one that is out of place."""
    if len(data) < 8 or rng.random() < 0.3:
        return damage(rng, data)
    size = rng.choice([4, 8])
    value = rng.choice([0, 1, 2, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**61, 2**63 - 1, 2**63, 2**64 - 1])
    at = 4 * rng.randrange(min(len(data), rng.choice([32, 256, 2**20])) // 4)
    return (data[:at] + (value % 2 ** (8 * size)).to_bytes(size, "little") + data[at + size :])[: max(len(data), 8)]
