"""Fuzzing of the whole path: the vw program with our explorers, on random lines, flags and model files.

Every case follows from its seed and number alone, so any can be run again: --replay SEED:NUMBER. What must hold:

- vw ends by itself, in time, with exit code 0 or 1, and no sanitizer has anything to report (`make fuzz` runs this on
  the sanitized build, with a check for leaks);
- the probabilities of every answer sum to 1;
- a damaged model is refused or predicts what the whole one predicts; a forged one, whose checksums are right, is
  refused or harmless;
- the same stream gives the same answers through the program and Workspace, in one run and in two with the model saved
  in between, with and without -t.

A case that breaks a rule is kept in OUT/SEED-NUMBER, with its input and its commands. docs/fuzzing.md says what was
found.
"""

import argparse
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import date
from itertools import count, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from joblib import Parallel, delayed

from tests.helpers import VW
from tests.helpers.fuzz_input import (
    any_flags,
    any_stream,
    damage,
    damage_field,
    good_flags,
    noisy_events,
    noisy_json,
    noisy_text,
)
from tests.helpers.model_file import ModelFile
from tests.helpers.streams import random_rounds, to_text, without_labels

SUPPRESSIONS = Path(__file__).parent / "lsan.supp"
TIMEOUT = 60.0
HALF_A_DIGIT = 5.1e-7  # vw prints six digits after the point
MEMORY_MB = 4096  # that vw may have: a forged model can claim any number of rounds
REPORT = re.compile(r"(Address|Leak|UndefinedBehavior)Sanitizer|runtime error: |terminate called|Assertion .* failed")
# Predicts and learns, round by round. With --opo_cmab it asks for reasons too, which must be those of the answer and
# change nothing.
WORKSPACE_RUN = """
import json, sys
import opo_cmab
from numpy.testing import assert_allclose
from vowpalwabbit import Workspace

arguments, rounds = json.load(sys.stdin)
slots = "--cb_explore_adf" not in arguments
workspace = Workspace(arguments + " --quiet")
answers = []
for lines in rounds:
    why = opo_cmab.explain(workspace, lines, slot=0) if "--opo_cmab" in arguments else None
    examples = workspace.parse(lines)
    if slots:  # each is predicted on the way of learning, after the slots before it have been learnt
        workspace.learn(examples)
        answers += [dict(slot) for slot in examples[0].get_decision_scores()]
        answer = answers[-sum(line.startswith(("ccb slot", "slates slot")) for line in lines)]
    else:
        answer = dict(enumerate(workspace.predict(examples)))
        answers.append(answer)
        workspace.learn(examples)
    workspace.finish_example(examples)
    if why is not None and "--epsilon" not in arguments:  # which comes after the decision
        assert_allclose(why.decision, [answer[a] for a in why.actions], atol=1e-6)
json.dump([list(answer.items()) for answer in answers], sys.stdout)
"""


def probabilities(line: str) -> list[tuple[int, float]]:
    """An answer of vw: of each action. A tag may follow."""
    pairs = (pair.split(":") for pair in line.split(" ")[0].split(","))
    return [(int(action), float(p)) for action, p in pairs]


class FindingError(AssertionError):
    """A rule is broken."""


class Case:
    """A case's random numbers and its directory, in which vw runs."""

    def __init__(self, seed: int, number: int, directory: Path) -> None:
        self.rng = random.Random(f"{seed}:{number}")  # a string: the same in every Python
        self.directory = directory
        self.commands: list[str] = []

    def write(self, name: str, content: str | bytes) -> str:
        (self.directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def vw(self, *arguments: str, out_of_memory_is_refusal: bool = False) -> bool:
        """Runs vw, and checks how it ends; whether it took what it was given."""
        self.commands.append(shlex.join(["vw", *arguments]))
        sanitized = "ASAN_OPTIONS" in os.environ  # the sanitizers need all addresses, and limit allocations themselves
        limit = "" if sanitized else f"ulimit -v {MEMORY_MB * 1024}; "
        options = f"detect_leaks=1:detect_container_overflow=0:max_allocation_size_mb={MEMORY_MB}"
        try:
            process = subprocess.run(
                ["sh", "-c", limit + 'exec "$0" "$@"', VW, *arguments],
                cwd=self.directory,
                env={
                    **os.environ,
                    "ASAN_OPTIONS": options,
                    "LSAN_OPTIONS": f"print_suppressions=0:suppressions={SUPPRESSIONS}",
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise FindingError(f"no end after {TIMEOUT:g} s") from None
        output = (process.stdout + process.stderr).decode(errors="replace")
        if out_of_memory_is_refusal and "exceeds maximum supported size" in output:
            return False
        if process.returncode not in (0, 1) or REPORT.search(output):
            raise FindingError(f"exit code {process.returncode}: {output[-20000:]}")
        return process.returncode == 0

    def train(self, model: str, flags: Sequence[str]) -> list[list[str]]:
        """A model of a random stream; the stream."""
        rounds = random_rounds(self.rng.getrandbits(32), n=self.rng.randrange(1, 40))
        data = self.write(f"{model}.data", to_text(rounds))
        self.require("-d", data, *flags, "-f", model)
        return rounds

    def require(self, *arguments: str) -> None:
        if not self.vw(*arguments):
            raise FindingError("refused, but nothing is wrong with it")

    @staticmethod
    def expect(how: str, got: Sequence[str], expected: Sequence[str]) -> None:
        if got != expected:
            n = next((i for i, (g, e) in enumerate(zip(got, expected, strict=False)) if g != e), "at the end")
            raise FindingError(f"other answers {how}, first in line {n}")

    def predictions(self, name: str = "predictions") -> list[str]:
        """The answers that vw has written, their probabilities checked."""
        path = self.directory / name
        lines = path.read_text(errors="replace").split("\n") if path.exists() else []
        for line in filter(None, lines):
            try:
                total = sum(p for _, p in probabilities(line))
            except ValueError:
                raise FindingError(f"this is no answer: {line[:1000]}") from None
            if not abs(total - 1) < 1e-4:
                raise FindingError(f"the probabilities do not sum to 1: {line[:1000]}")
        return lines


# -- the kinds of cases: each returns whether its input was taken or refused ------------------------------------------


def text_lines(case: Case) -> bool:
    stream = any_stream(case.rng, 30)
    noisy = noisy_text if stream.flag == "--cb_explore_adf" else noisy_events
    data = case.write("data", noisy(case.rng, stream.rounds))
    taken = case.vw("-d", data, *good_flags(case.rng, stream.flag), "-p", "predictions", "-f", "model")
    case.predictions()
    if taken:  # a model of whatever was learnt can be loaded
        probes = case.write("probes", to_text(stream.probes[:3]))
        case.require("-d", probes, "-i", "model", "-p", "predictions")
        case.predictions()
    return taken


def json_lines(case: Case) -> bool:
    rounds = random_rounds(case.rng.getrandbits(32), n=case.rng.randrange(1, 20))
    data = case.write("data", noisy_json(case.rng, rounds))
    reader = case.rng.choice(["--dsjson", "--dsjson", "--json"])
    taken = case.vw("-d", data, reader, *good_flags(case.rng), "-p", "predictions", "-f", "model")
    case.predictions()
    return taken


def flags(case: Case) -> bool:
    data = case.write("data", to_text(random_rounds(case.rng.getrandbits(32), n=15)))
    return case.vw("-d", data, *any_flags(case.rng), "-f", "model", out_of_memory_is_refusal=True)


def damaged_model(case: Case) -> bool:
    rounds = case.train("model", good_flags(case.rng))
    probes = case.write("probes", to_text(without_labels(rounds[:5])))
    case.require("-d", probes, "-i", "model", "-p", "expected")
    case.write("damaged", damage(case.rng, (case.directory / "model").read_bytes()))
    taken = case.vw("-d", probes, "-i", "damaged", "-p", "predictions")
    if taken and case.predictions() != case.predictions("expected"):
        raise FindingError("a damaged model was loaded and predicts something else")
    return taken


def forged_model(case: Case) -> bool:
    rng = case.rng
    rounds = case.train("model", good_flags(rng))
    model = ModelFile.parse((case.directory / "model").read_bytes())
    kinds = ["state", "state", "below", "options", "sizes", "other state", "other options"]
    parts = rng.choices(kinds, k=rng.randrange(1, 3))
    for part in parts:
        forge(case, model, part)
    case.write("forged", model.assemble())
    probes = case.write("probes", to_text(rounds[:5]))
    more = rng.choice([[], ["-t"], ["-f", "again"]])
    taken = case.vw("-d", probes, "-i", "forged", "-p", "predictions", *more, out_of_memory_is_refusal=True)
    if taken and "options" not in parts:  # else the answers may be of another kind
        case.predictions()
    return taken


def forge(case: Case, model: ModelFile, part: str) -> None:
    rng = case.rng
    if part == "state" and model.state:
        model.state = damage_field(rng, model.state)
    elif part == "below":
        model.below = damage_field(rng, model.below)
    elif part == "sizes":
        sizes = [len(model.state), len(model.below)]
        sizes[rng.randrange(2)] = rng.choice([0, 1, 2**31, 2**32, 2**48, 2**63, 2**64 - 64, 2**64 - 1])
        model.sizes = (sizes[0], sizes[1])
    elif part == "options":
        model.options += " " + " ".join(rng.choice([good_flags, any_flags])(rng))
    else:  # parts of a model of another kind
        case.train("other", good_flags(rng))
        other = ModelFile.parse((case.directory / "other").read_bytes())
        if part == "other options":
            model.start, model.options = other.start, other.options
        else:
            model.state = other.state
            model.below = rng.choice([model.below, other.below])
            model.flag = rng.choice([model.flag, other.flag])


def same_stream(case: Case) -> bool:
    rng = case.rng
    stream = any_stream(rng, 60, actions=(1, rng.randrange(2, 8)))
    rounds, flags = stream.rounds, good_flags(rng, stream.flag)
    case.require("-d", case.write("data", to_text(rounds)), *flags, "-p", "whole")
    whole = case.predictions("whole")

    split = rng.randrange(1, 1 + len(rounds))
    case.require("-d", case.write("first", to_text(rounds[:split])), *flags, "-p", "part1", "-f", "model")
    case.require("-d", case.write("second", to_text(rounds[split:])), "-i", "model", "-p", "part2")
    if "--sgd" not in flags or "--cb_explore_adf" in flags:  # VW saves no time that is right for the slots of CCB
        case.expect("in two runs", [*case.predictions("part1")[:-1], *case.predictions("part2")], whole)

    probes = case.write("probes", to_text(stream.probes))
    case.require("-d", probes, "-i", "model", "-p", "learning")
    case.require("-d", probes, "-i", "model", "-t", "-p", "testing")
    testing, learning = case.predictions("testing"), case.predictions("learning")
    if "--adacb" not in flags:  # VW keeps no adaptive rates under -t, which RegCB's sensitivity goes by, and so AdaCB's
        case.expect("with -t", testing, learning)

    if "--sgd" in flags:  # its learning rate goes by time, and VW counts what a Workspace predicts as time too
        return True
    process = subprocess.run(
        [sys.executable, "-c", WORKSPACE_RUN],
        input=json.dumps([shlex.join(flags), rounds]),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if process.returncode != 0:
        raise FindingError(f"Workspace: exit code {process.returncode}: {process.stderr[-20000:]}")
    for answer, line in zip(filter(None, json.loads(process.stdout)), filter(None, whole), strict=True):
        if any(abs(dict(answer)[a] - p) > HALF_A_DIGIT for a, p in probabilities(line)):
            raise FindingError(f"other answers in Workspace: {answer}, not {line}")
    return True


KINDS = [text_lines, json_lines, flags, damaged_model, forged_model, same_stream]


# -- running them -----------------------------------------------------------------------------------------------------


def run_case(seed: int, number: int, out: Path) -> tuple[str, str]:
    """Runs a case; its kind and how it ended. One that breaks a rule is kept."""
    kind = KINDS[number % len(KINDS)]
    with TemporaryDirectory() as temporary:
        case = Case(seed, number, Path(temporary))
        try:
            return kind.__name__, "taken" if kind(case) else "refused"
        except FindingError as finding:
            case.write("finding.txt", "\n".join([*case.commands, "", str(finding), ""]))
            shutil.copytree(case.directory, out / f"{seed}-{number}", dirs_exist_ok=True)
            return kind.__name__, "finding"


def fuzz(seed: int, minutes: float, jobs: int, out: Path) -> Counter[tuple[str, str]]:
    deadline = time.monotonic() + 60 * minutes
    numbers = takewhile(lambda _: time.monotonic() < deadline, count())
    # Threads: the work is done by vw, in processes of its own.
    parallel = Parallel(n_jobs=jobs, backend="threading", return_as="generator_unordered")
    return Counter(parallel(delayed(run_case)(seed, number, out) for number in numbers))


def report(ends: Counter[tuple[str, str]], seed: int, minutes: float) -> str:
    """A table for docs/fuzzing.md."""
    lines = [
        f"Seed {seed}, {minutes:g} minutes, {ends.total()} cases, {date.today()}:",
        "",
        "| kind | taken | refused | findings |",
        "| --- | --: | --: | --: |",
    ]
    for kind in KINDS:
        counts = [ends[kind.__name__, end] for end in ("taken", "refused", "finding")]
        lines.append(f"| `{kind.__name__}` | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1, help="how long to go on (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the cases (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("results/fuzz"), metavar="DIR", help="(default: %(default)s)")
    parser.add_argument("--replay", metavar="SEED:NUMBER", help="run this one case again")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.replay:
        seed, number = map(int, options.replay.split(":"))
        kind, end = run_case(seed, number, options.out)
        print(f"{kind}: {end}")
        return end == "finding"
    ends = fuzz(options.seed, options.minutes, options.jobs, options.out)
    print(report(ends, options.seed, options.minutes))
    return any(end == "finding" for _, end in ends)


if __name__ == "__main__":
    sys.exit(main())
