"""Logs of a bandit: their formats, what is wrong with them, and an index for any number of passes.

A log is read once from top to bottom. Each usable round leaves a record of fixed size in a file (where its text is, the
action shown, its cost and probability), so that memory does not grow with the log, and a pass that needs one line in a
hundred reads the text of that line only.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .interactions import dsjson_namespaces, text_namespaces

__all__ = ["BadRound", "Log", "LogError", "Round", "open_log", "scan"]

Format = Literal["text", "dsjson"]
RECORD = np.dtype(
    [
        ("file", "u2"),
        ("offset", "u8"),  # of the round's text, in the unpacked file
        ("length", "u4"),
        ("action", "u4"),  # shown, from 0
        ("actions", "u4"),
        ("cost", "f8"),
        ("probability", "f8"),
    ]
)
BLOCK = 65_536  # records held at a time
NAMED = 5  # bad rounds that are named; the others are counted
LOOKED_AT = 1000  # rounds, for their namespaces
BINS = 400  # of probabilities, on a logarithmic scale from 1e-8
UNPACKING = (EOFError, zlib.error, gzip.BadGzipFile)
LABEL_KEYS = ("_label_cost", "_label_probability", "_label_Action", "_labelIndex", "pdrop")


class LogError(ValueError):
    """A log that cannot be used. The message says why and what to do."""


class _UnusableError(Exception):
    """What is wrong with one round: a kind of fault, with places for values of this round."""

    def __init__(self, kind: str, *values: Any) -> None:
        super().__init__(kind.format(*values))
        self.kind = kind


@dataclass(frozen=True)
class BadRound:
    """A round that cannot be used: where it starts and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


@dataclass(frozen=True)
class FarCost:
    """The lowest or the highest cost of a log, and where it is."""

    cost: float
    file: str
    line: int


@dataclass(frozen=True)
class Round:
    """The label of one round."""

    action: int
    actions: int
    cost: float
    probability: float
    certain: bool  #: no other action could have been shown


@dataclass
class Log:
    """A summary of a log after one reading."""

    files: list[str]
    formats: list[Format]
    index: Path
    fingerprint: str = ""
    rounds: int = 0  #: usable
    bad: int = 0
    named: list[BadRound] = field(default_factory=list)
    deterministic: int = 0  #: rounds with several actions in which the one shown had probability 1
    far_costs: list[FarCost] = field(default_factory=list)  #: the lowest and the highest
    mean_cost: float = 0.0
    cost_variance: float = 0.0
    actions: int = 0  #: summed over rounds
    inverse_probabilities: float = 0.0  #: summed over rounds: an estimate of the number of actions that could be shown
    by_probability: list[tuple[float, float]] = field(default_factory=list)  #: from low to high: smallest, sum of 1/p
    shared_namespaces: str = ""  #: first letters, in the first rounds
    action_namespaces: str = ""

    @property
    def cost_range(self) -> tuple[float, float]:
        return self.far_costs[0].cost, self.far_costs[1].cost

    @property
    def format(self) -> Format:
        return self.formats[0]

    def share_of_spread(self, cost: float) -> float:
        """How much of the sum of squared deviations from the mean cost is that of one round with this cost."""
        return (cost - self.mean_cost) ** 2 / (self.rounds * self.cost_variance) if self.cost_variance > 0 else 0.0

    def smallest_probability(self, neglected: float = 0.01) -> float:
        r"""The bound $\tau$ below which probabilities are clipped.

        The mean of $1[p_i < \tau] / p_i$ estimates how many actions of a context have a probability below
        $\tau$. It may be at most ``neglected``: even an explorer that wants such actions wherever it can is
        affected in no larger share of rounds.
        """
        total = 0.0
        for smallest, inverse in self.by_probability:
            total += inverse
            if total > neglected * self.rounds:
                return smallest
        return 1.0

    def blocks(self) -> Iterator[NDArray[Any]]:
        """The records, a block at a time."""
        with self.index.open("rb") as file:
            while len(block := np.fromfile(file, RECORD, BLOCK)):
                yield block

    def texts(self) -> _Texts:
        return _Texts(self)


class _Texts:
    """Reads the text of rounds, in the order of the log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._number = -1
        self._file: IO[bytes] | None = None

    def __call__(self, record: Any) -> str:
        """The round without its label."""
        number = int(record["file"])
        if self._file is None or number != self._number:
            self.close()
            self._file, self._number = open_log(Path(self._log.files[number])), number
        self._file.seek(int(record["offset"]))  # in a packed file this skips forward
        text = self._file.read(int(record["length"])).decode("utf-8", "replace")
        return (_unlabelled_text if self._log.formats[number] == "text" else _unlabelled_dsjson)(
            text, int(record["action"]) - int(record["actions"])
        )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def open_log(path: Path) -> IO[bytes]:
    """Opens a file; unpacks gz, whatever the name."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.GzipFile(path) if packed else path.open("rb")  # type: ignore[return-value]


def _detect(path: Path) -> Format:
    """Recognizes the format by the first character that is not a space: a brace starts JSON."""
    if not path.is_file():
        raise LogError(f"{path} is not a file: give the path of a log")
    try:
        with open_log(path) as file:
            start: bytes = file.read1(65_536)  # type: ignore[attr-defined]  # what there is of a file that is cut
    except UNPACKING as error:
        raise LogError(f"{path} cannot be unpacked: {error}. Use an intact copy.") from None
    if b"\0" in start:
        raise LogError(f"{path} is not a text file. Logs are VW's text format or dsjson, plain or as gz.")
    first = start.lstrip()[:1]
    return "dsjson" if first == b"{" else "text"


# -- VW's text format: a round is the lines up to an empty one


def _label_words(line: str) -> list[str]:
    """The text before the first bar, without the tag: the last word, if it touches the bar or has a quote."""
    label, bar, _ = line.partition("|")
    if not bar:
        raise _UnusableError("a line without '|': cut off, or not in VW's format")
    words = label.split()
    if words and (words[-1].startswith("'") or not label[-1].isspace()):
        words.pop()
    return words


def _parse_text(text: str) -> Round:
    lines = text.split("\n")
    shared = 0
    found: list[tuple[int, list[str]]] = []
    for position, line in enumerate(lines):
        bar = line.find("|")
        if bar == 0:
            continue
        if words := _label_words(line):
            if words[0] == "shared":
                if position:
                    raise _UnusableError("the shared line is not the first of its round: an empty line is missing")
                shared = 1
                if len(words) > 1:
                    raise _UnusableError("the shared line has a label")
            else:
                found.append((position, words))
    actions = len(lines) - shared
    if not found:
        raise _UnusableError("no action has a cost: its label, action:cost:probability, is missing")
    if len(found) > 1:
        raise _UnusableError("more than one action has a label")
    position, words = found[0]
    parts = words[0].split(":")
    if len(words) > 1 or len(parts) > 3:
        raise _UnusableError("the label {!r} is not action:cost:probability", " ".join(words))
    if len(parts) == 1:
        raise _UnusableError("the label {!r} has no cost", words[0])
    if len(parts) == 2:
        raise _UnusableError("the label {!r} has no probability", words[0])
    if actions == 1 and not shared:
        raise _UnusableError("a round of one line: this is --cb data, not --cb_explore_adf with a line for each action")
    probability = _probability(_number(parts[2], "probability"))
    return Round(position - shared, actions, _number(parts[1], "cost"), probability, probability == 1 and actions > 1)


def _unlabelled_text(text: str, position: int) -> str:
    """Removes the label of the line at this position, counted from the end."""
    lines = text.split("\n")
    label, bar, features = lines[position].partition("|")
    words = label.split()
    tag = words[-1] if words[-1].startswith("'") or not label[-1].isspace() else ""
    lines[position] = tag + bar + features
    return "\n".join(lines)


def _number(word: Any, what: str) -> float:
    try:
        value = float(word)
    except (TypeError, ValueError):
        raise _UnusableError("the {} {!r} is not a number", what, word) from None
    if not math.isfinite(value):
        raise _UnusableError("the {} is {}", what, word)
    return value


def _probability(value: float) -> float:
    if not 0 < value <= 1:
        raise _UnusableError("the probability {:g} is not above 0 and at most 1", value)
    return value


# -- dsjson: a round is a line


def _parse_dsjson(text: str) -> Round:
    try:
        event = json.loads(text)
    except json.JSONDecodeError as error:
        raise _UnusableError("not JSON, or cut off: {} at character {}", error.msg, error.pos + 1) from None
    if not isinstance(event, dict):
        raise _UnusableError("not a JSON object")
    context = event.get("c")
    choices = context.get("_multi") if isinstance(context, dict) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(c, dict) for c in choices):
        raise _UnusableError("no list of actions in c._multi")
    if isinstance(context, dict) and "_slots" in context:
        raise _UnusableError("a round of CCB or slates: only contextual bandits are compared")
    if event.get("_skipLearn"):
        raise _UnusableError("marked _skipLearn: the action was not taken")
    if "_label_cost" not in event:
        raise _UnusableError("no _label_cost")
    if "_label_probability" not in event:
        raise _UnusableError("no _label_probability")
    if "_labelIndex" in event:
        action = _number(event["_labelIndex"], "_labelIndex")
    elif "_label_Action" in event:
        action = _number(event["_label_Action"], "_label_Action") - 1
    else:
        raise _UnusableError("no _labelIndex or _label_Action")
    if action != int(action) or not 0 <= action < len(choices):
        raise _UnusableError("the action shown, number {:g}, is not among the {} of c._multi", action + 1, len(choices))
    probability = _probability(_number(event["_label_probability"], "_label_probability"))
    dropped = _number(event.get("pdrop", 0), "pdrop")
    if not 0 <= dropped < 1:
        raise _UnusableError("pdrop, {:g}, is not at least 0 and below 1", dropped)
    # A round kept with probability 1 - pdrop stands for 1 / (1 - pdrop) rounds: as if shown that much more rarely.
    cost = _number(event["_label_cost"], "_label_cost")
    return Round(int(action), len(choices), cost, probability * (1 - dropped), probability == 1 and len(choices) > 1)


def _unlabelled_dsjson(text: str, _: int) -> str:
    for key in LABEL_KEYS:
        text = text.replace(f'"{key}"', f'"logged{key}"')  # VW ignores keys that it does not know
    return text


# -- the scan


def _rounds(path: Path, format: Format) -> Iterator[tuple[int, int, bytes, bool]]:
    """The first line of each round, its offset, its text, and whether its last line is complete."""
    offset = first = start = 0
    lines: list[bytes] = []  # of the round that is being read
    with open_log(path) as file:
        for number, line in enumerate(file, 1):
            empty = not line.strip()
            if not empty:
                if not lines:
                    first, start = number, offset
                lines.append(line)
            offset += len(line)
            if lines and (empty or format == "dsjson"):
                yield first, start, b"".join(lines).rstrip(b"\r\n"), lines[-1].endswith(b"\n")
                lines = []
    if lines:
        yield first, start, b"".join(lines).rstrip(b"\r\n"), lines[-1].endswith(b"\n")


class _Sums:
    """Sums over the usable rounds."""

    def __init__(self) -> None:
        self.rounds = self.actions = 0
        self._lowest, self._highest = FarCost(math.inf, "", 0), FarCost(-math.inf, "", 0)
        self._first = self._sum = self._squares = (
            0.0  # costs minus the first one: no cancellation if they are far from 0
        )
        self._smallest, self._inverse = np.full(BINS + 1, np.inf), np.zeros(BINS + 1)

    def add(self, label: Round, file: str, line: int) -> None:
        if not self.rounds:
            self._first = label.cost
        self.rounds += 1
        self.actions += label.actions
        if label.cost < self._lowest.cost:
            self._lowest = FarCost(label.cost, file, line)
        if label.cost > self._highest.cost:
            self._highest = FarCost(label.cost, file, line)
        cost = label.cost - self._first
        self._sum += cost
        self._squares += cost * cost
        bin = min(BINS, max(0, int(BINS * (1 + math.log10(label.probability) / 8))))
        self._inverse[bin] += 1 / label.probability
        self._smallest[bin] = min(self._smallest[bin], label.probability)

    def into(self, log: Log) -> None:
        log.rounds, log.actions = self.rounds, self.actions
        log.far_costs = [self._lowest, self._highest]
        if self.rounds:
            mean = self._sum / self.rounds
            log.mean_cost, log.cost_variance = self._first + mean, max(0.0, self._squares / self.rounds - mean * mean)
        used = self._inverse > 0
        log.inverse_probabilities = float(self._inverse.sum())
        log.by_probability = list(zip(self._smallest[used].tolist(), self._inverse[used].tolist(), strict=True))


def scan(files: Sequence[str | Path], index: Path) -> Log:
    """Reads logs once, notes what is wrong with them and writes the index.

    Raises:
        LogError: if the log cannot be used.
    """
    log = Log([str(file) for file in files], [_detect(Path(file)) for file in files], index)
    for file, format in zip(log.files, log.formats, strict=True):
        if format != log.format:
            raise LogError(f"{file} is {format} and {log.files[0]} is {log.format}: compare them one by one")
    parse = _parse_text if log.format == "text" else _parse_dsjson
    namespaces_of = text_namespaces if log.format == "text" else dsjson_namespaces
    shared: set[str] = set()
    actions: set[str] = set()
    digest = hashlib.blake2b(digest_size=12)
    sums = _Sums()
    kinds: Counter[str] = Counter()  # of faults
    first_of_kind: dict[str, BadRound] = {}
    records: list[tuple[Any, ...]] = []

    def leave_out(file: str, line: int, wrong: _UnusableError) -> None:
        log.bad += 1
        bad = BadRound(file, line, str(wrong))
        if len(log.named) < NAMED:
            log.named.append(bad)
        first_of_kind.setdefault(wrong.kind, bad)
        kinds[wrong.kind] += 1

    with index.open("wb") as output:
        for number, file in enumerate(log.files):
            line = 0
            try:
                for line, offset, text, ended in _rounds(Path(file), log.format):
                    digest.update(text + b"\n\n")
                    try:
                        if not ended and log.format == "text":
                            raise _UnusableError("the file ends without a new line: left out in case it was cut")
                        label = parse(text.decode("utf-8", "replace"))
                    except _UnusableError as wrong:
                        leave_out(file, line, wrong)
                        continue
                    if label.certain:
                        log.deterministic += 1
                        continue
                    if sums.rounds < LOOKED_AT:
                        of_shared, of_actions = namespaces_of(text.decode("utf-8", "replace"))
                        shared |= of_shared
                        actions |= of_actions
                    sums.add(label, file, line)
                    where = number, offset, len(text)
                    records.append((*where, label.action, label.actions, label.cost, label.probability))
                    if len(records) == BLOCK // 8:
                        np.array(records, RECORD).tofile(output)
                        records.clear()
            except UNPACKING as error:
                leave_out(file, line, _UnusableError("the packed file is cut or damaged after this round: {}", error))
        np.array(records, RECORD).tofile(output)
    log.fingerprint = digest.hexdigest()
    log.shared_namespaces, log.action_namespaces = "".join(sorted(shared)), "".join(sorted(actions))
    sums.into(log)
    _check(log, [(count, first_of_kind[kind]) for kind, count in kinds.most_common(1)])
    return log


def _check(log: Log, faults: Sequence[tuple[int, BadRound]]) -> None:
    """Refuses an unusable log, with the most frequent fault: how many rounds have it, and the first of them."""
    names = ", ".join(log.files)
    if log.rounds:
        return
    if log.deterministic:
        raise LogError(
            f"{names}: in all {log.deterministic} rounds the action shown had probability 1. No method can estimate "
            "from such a log what another action would have cost. Log with an explorer that tries actions at random "
            "(--epsilon 0.1 is enough), and log the probability of each action shown."
        )
    if not log.bad:
        raise LogError(f"{names}: the log is empty. Give a log with at least a few hundred rounds.")
    [(count, first)] = faults
    advice = ""
    if "no probability" in first.reason or "no _label_probability" in first.reason:
        advice = (
            " Without the probabilities of the actions shown, explorers cannot be compared. Log them as "
            "action:cost:probability; Workspace.predict returns them."
        )
    raise LogError(f"{names}: none of {log.bad} rounds can be used. {count} are like {first}.{advice}")
