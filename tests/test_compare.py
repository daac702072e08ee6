"""Which explorer on my logs: what is estimated, when nothing can be told, and how it is run and shown."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import opo_cmab
import pytest
from opo_cmab.compare import EXPLORERS, LogError, logs
from opo_cmab.compare.__main__ import main
from opo_cmab.compare.estimate import Estimate, Passes, estimate, student_quantile
from opo_cmab.compare.replay import Plan, Run, replay
from opo_cmab.compare.verdict import notes, verdict
from scipy import stats

from benchmarks import obd
from benchmarks.replay_study import PROBLEMS, play
from tests.helpers import vw_source
from tests.helpers.browser import look
from tests.helpers.streams import dsjson, to_text

ROOT = Path(__file__).parent.parent
TWO = {"epsilon-greedy": "", "FastCB": "--fastcb"}
QUICK = {"explorers": TWO, "vw": "-q ua", "passes": 6, "rounds": 60}
EVENT: dict[str, Any] = {
    "_label_cost": 1,
    "_label_probability": 0.5,
    "_label_Action": 1,
    "_labelIndex": 0,
    "a": [1, 2],
    "p": [0.5, 0.5],
}
EVENT |= {"c": {"u": {"x": 1}, "_multi": [{"a": {"b": 1}}, {"a": {"c": 1}}]}}


def rounds_of_clicks(n: int, seed: int = 0, policy: tuple[float, ...] = (0.25, 0.25, 0.5), cost: float = 1.0):
    """Rounds in VW's text format: three actions, of which one is best for either of two users."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(n):
        user, shown = int(rng.integers(2)), int(rng.choice(3, p=policy))
        click = rng.random() < (0.9 if shown == user else 0.2)
        lines = [f"shared |u user{user}", *(f"|a a{a}" for a in range(3))]
        lines[1 + shown] = f"{shown}:{cost * (1 - click):g}:{policy[shown]:g} {lines[1 + shown]}"
        result.append(lines)
    return result


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """A log of 2,000 rounds."""
    path = tmp_path_factory.mktemp("logs") / "log.txt"
    path.write_text(to_text(rounds_of_clicks(2000)))
    return path


@pytest.fixture(scope="module")
def whole(clicks, tmp_path_factory):
    """A comparison run without interruption, and where its files are."""
    out = tmp_path_factory.mktemp("whole")
    return opo_cmab.compare_explorers(clicks, **QUICK, out=out), out


def figures(comparison) -> str:
    """All of a comparison but its times."""
    result = comparison.to_dict()
    for explorer in result["explorers"]:
        del explorer["seconds"]
    return json.dumps(result)


def scan(tmp_path: Path, text: str | bytes, name: str = "log") -> logs.Log:
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return logs.scan([tmp_path / name], tmp_path / "index")


# -- what is estimated


def test_accepted_rounds_are_those_of_a_real_run():
    """The mean over logs of the estimate is the mean cost of the explorer really run, and so is its cost by accepted
    rounds. From a log whose policy is far from uniform: without the probabilities this would be far off."""
    problem, rounds, runs = PROBLEMS["noisy clicks"], 60, 60
    real = [play(problem, "--squarecb", rounds, seed).mean() for seed in range(3 * runs)]
    found = []
    for seed in range(runs):
        found.append(_one_replay(problem, rounds, seed))
    estimates, accepted = np.transpose(found)
    for values in (estimates, accepted):
        error = np.hypot(np.std(values) / np.sqrt(runs), np.std(real) / np.sqrt(3 * runs))
        assert abs(values.mean() - np.mean(real)) < 3 * error
    assert np.std(estimates) < np.std(accepted), "lines that are nearly accepted help"


def _one_replay(problem, rounds: int, seed: int) -> tuple[float, float]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        play(problem, "--epsilon 0.3", 1000, 10_000 + seed, log)
        scanned = logs.scan([log], Path(directory) / "index")
        [run] = replay(scanned, Plan(rounds, 10.5, 1.0, seed, "-q ua"), 0, ["--squarecb"])
    assert run.accepted == rounds
    return run.sums[-1] / rounds, run.accepted_sums[-1] / rounds


def test_every_line_is_accepted_equally_often(tmp_path):
    """One line in M, whatever the context, the explorer and the policy of the log."""
    log = scan(tmp_path, to_text(rounds_of_clicks(4000, policy=(0.1, 0.2, 0.7))))
    assert log.smallest_probability() == pytest.approx(0.1)
    for run in replay(log, Plan(10**6, 10.0, 1.0, 0, "-q ua"), 0, ["--fastcb", "--epsilon 0.5"]):
        assert run.lines == 4000
        assert abs(run.accepted - 400) < 4 * np.sqrt(400)


def test_the_interval_has_a_part_for_the_log_that_more_passes_do_not_shrink():
    rng = np.random.default_rng(0)

    def made(passes: int, same_lines: int) -> Estimate:
        lines = [
            Counter([*range(same_lines), *rng.integers(1000, 10**6, 100 - same_lines).tolist()]) for _ in range(passes)
        ]
        values = rng.normal(size=passes)
        return estimate(Passes.of(values, values, lines), rounds=10**6, width=1.0)

    apart = [made(passes, same_lines=0).half_width for passes in (20, 2000)]
    alike = [made(passes, same_lines=50).half_width for passes in (20, 2000)]
    assert apart[1] < apart[0] / 5
    assert alike[1] == pytest.approx(1.96, abs=0.15)  # kappa / (1 - kappa) is 1


def test_passes_without_an_event_are_no_certainty():
    nothing = Passes.of(np.zeros(20), np.zeros(20), [Counter([i]) for i in range(20)])
    found = estimate(nothing, rounds=100, width=1.0)
    assert found.high == pytest.approx(2.09 / 2000, rel=0.01), "about the rule of three: 3 / 2,000"


@pytest.mark.parametrize("degrees", [5, 9, 19, 39])
@pytest.mark.parametrize("probability", [0.975, 0.99375, 0.9975])
def test_student_s_quantile(probability, degrees):
    assert student_quantile(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [None, "--epsilon 0.1", "--opo_cmab --opo_budget 64 --epsilon 0.05"])
def test_intervals_hold_the_truth(tmp_path, policy):
    """20 logs, two explorers. docs/results/compare.md has the measurement on more."""
    problem, rounds, held = PROBLEMS["noisy clicks"], 30, []
    runs = {name: [play(problem, flags, rounds, seed).mean() for seed in range(200)] for name, flags in TWO.items()}
    truth = {name: np.mean(costs) for name, costs in runs.items()}
    for seed in range(20):
        play(problem, policy, 5000, 1000 + seed, tmp_path / "log")
        found = opo_cmab.compare_explorers(tmp_path / "log", TWO, vw="-q ua", passes=10, rounds=rounds)
        assert found.rounds > 25
        held += [e.cost.low <= truth[e.name] <= e.cost.high for e in found.explorers]
    assert np.mean(held) >= 0.9


# -- what is said


def difference(mean: float, half: float, name: str = "b", of_the_log: float = 1.0):
    return opo_cmab.compare.Difference(name, "a", Estimate(mean, mean - half, mean + half, of_the_log), passes=10)


def test_nobody_wins_whose_interval_includes_0():
    explorers = [opo_cmab.compare.Explorer(name, "", Estimate(0, 0, 0)) for name in "ab"]
    said = verdict("a", explorers, [difference(-0.1, 0.2)], lambda first, second: difference(-0.1, 0.2))
    assert said[0] == "Not enough data to tell whether any of the others is better than a."
    assert said[1].endswith("is -0.10, you need about 4.0 times as many rounds.")
    said = verdict("a", explorers, [difference(-0.2, 0.1)], lambda first, second: difference(-0.2, 0.1))
    assert said == ["b costs least.", "b costs less than a, by 0.20 a round (0.10 to 0.30)."]
    said = verdict("a", explorers, [difference(0.2, 0.1)], lambda first, second: difference(0.2, 0.1))
    assert said[0] == "a costs least."


def test_where_the_log_has_enough_it_asks_for_passes_and_not_for_data():
    explorers = [opo_cmab.compare.Explorer(name, "", Estimate(0, 0, 0)) for name in "ab"]
    few_passes = difference(-0.1, 0.2, of_the_log=0.05)  # 0.1 ** 2 / 0.2 ** 2 = 0.25 = 0.05 + 0.95 * 10 / 47.5
    said = verdict("a", explorers, [few_passes], lambda first, second: few_passes)
    assert said[0] == "Not enough passes to tell whether any of the others is better than a."
    assert said[1].endswith("not enough passes to tell. If the true difference is -0.10, try --passes 50.")
    short_log = difference(-0.1, 0.2, "c", of_the_log=0.3)
    said = verdict("a", explorers, [few_passes, short_log], lambda first, second: short_log)
    assert said[0].startswith("Not enough data to tell"), "more passes would do for one of the two only"
    assert "about 4.0 times as many rounds" in verdict("a", explorers, [short_log], lambda first, second: short_log)[1]


@pytest.mark.parametrize(("of_the_log", "lacks"), [(0.05, "passes"), (0.3, "data")])
def test_the_table_and_the_words_name_the_same_lack(whole, of_the_log, lacks):
    untold = difference(-0.1, 0.2, of_the_log=of_the_log)
    explorers = [opo_cmab.compare.Explorer(name, "", Estimate(0, 0, 0)) for name in "ab"]
    said = verdict("a", explorers, [untold], lambda first, second: untold)
    comparison = replace(whole[0], reference="a", explorers=explorers, differences=[untold], verdict=said)
    assert str(comparison).lower().count(f"not enough {lacks} to tell") == 3  # the table, the verdict, the pair
    assert str(comparison).lower().count("not enough") == 3
    assert comparison.to_dict()["differences"][0]["lacks"] == lacks


def test_the_best_is_not_called_so_if_it_cannot_be_told_from_another():
    explorers = [opo_cmab.compare.Explorer(name, "", Estimate(0, 0, 0)) for name in "abc"]
    differences = [difference(-0.3, 0.1), difference(-0.25, 0.1, "c")]
    said = verdict("a", explorers, differences, lambda first, second: difference(-0.05, 0.1))
    assert said[0] == "b is better than a. Not enough data to tell it from c."


def test_it_finds_the_better_of_two_explorers_that_differ_much(clicks):
    explorers = {"random": "--epsilon 1", "greedy": "--epsilon 0.02"}
    found = opo_cmab.compare_explorers(clicks, explorers, vw="-q ua")
    assert found.verdict[0] == "greedy costs least."
    assert found.explorers[0].cost.low < 1 - (0.9 + 0.2 + 0.2) / 3 < found.explorers[0].cost.high
    assert [e.accepted for e in found.explorers] == [found.rounds] * 2


def test_the_same_explorer_twice_is_no_difference(clicks):
    found = opo_cmab.compare_explorers(clicks, {"a": "", "b": "--epsilon 0.05"}, vw="-q ua", passes=6, rounds=60)
    assert found.differences[0].cost.mean == 0
    assert "more than 1,000 times as many" in found.verdict[1]


def test_costs_of_any_unit_give_the_same_for_explorers_that_do_not_mind(tmp_path):
    """What is estimated has no unit of its own."""
    found = []
    for cost in (1, 1000):
        path = tmp_path / f"{cost}"
        path.write_text(to_text(rounds_of_clicks(1500, cost=cost)))
        found.append(opo_cmab.compare_explorers(path, {"random": "--epsilon 1"}, passes=6).explorers[0].cost)
    assert found[1].mean == pytest.approx(1000 * found[0].mean)
    assert found[1].half_width == pytest.approx(1000 * found[0].half_width)


def hints(comparison) -> list[str]:
    return [note for note in comparison.notes if "no interactions" in note]


@pytest.mark.parametrize("write", [to_text, lambda rounds: "".join(dsjson(r) + "\n" for r in rounds)])
def test_without_interactions_it_says_which_to_add(tmp_path, capsys, write):
    log = tmp_path / "log"
    log.write_text(write(rounds_of_clicks(500)))
    shared = "u" if write is to_text else "s"  # streams.dsjson calls it so
    assert main([str(log), "--explorers", "FastCB", "--passes", "5", "--vw=--noconstant"]) == 0
    [said] = [line for line in capsys.readouterr().out.splitlines() if "no interactions" in line]
    assert said.startswith("Note: The log has shared features")
    assert said.endswith(f'Add them, for example --vw "-q {shared}a".')
    assert hints(opo_cmab.compare_explorers(log, ["FastCB"], vw=f"-q {shared}a", passes=5)) == []  # as advised


@pytest.mark.parametrize(
    ("vw", "explorers"),
    [
        ("-qua", TWO),
        ("-q ::", TWO),
        ("--quadratic=ua", TWO),
        ("--cubic uua", TWO),
        ("--interactions ua", TWO),
        ("", {"linear": "", "crossed": "-q ua"}),
    ],
)
def test_with_interactions_there_is_no_hint(clicks, vw, explorers):
    assert hints(opo_cmab.compare_explorers(clicks, explorers, vw=vw, passes=5, rounds=20)) == []


def test_without_shared_features_there_is_no_hint(tmp_path):
    (tmp_path / "log").write_text(to_text([lines[1:] for lines in rounds_of_clicks(500)]))
    assert hints(opo_cmab.compare_explorers(tmp_path / "log", TWO, passes=5)) == []


@pytest.mark.parametrize(
    ("first", "shared", "actions", "flags"),
    [
        ("shared |User x |City y\n0:1:0.5 |Item a\n|Item b", "CU", "I", "-q CI -q UI"),
        ("shared |u:2 x\n0:1:0.5 'tag|a a |b c:3\n|a b", "u", "ab", "-q ua -q ub"),
        ("shared | x\n0:1:0.5 |a a\n|a b", " ", "a", "-q ::"),
        ("shared |$u x\n0:1:0.5 |a a\n|a b", "$", "a", "-q ::"),
        ("shared |u x |v x |w x\n0:1:0.5 |a a |b b\n|a b", "uvw", "ab", "-q ::"),
        ("shared |u\n0:1:0.5 |a a\n|a b", "", "a", None),
        (json.dumps(EVENT), "u", "a", "-q ua"),
        (
            json.dumps(EVENT | {"c": {"x": 1, "_multi": [{"a": {"f": 1}, "_tag": "t"}, {"b": [1, 2]}]}}),
            " ",
            "ab",
            "-q ::",
        ),
        (json.dumps(EVENT | {"c": {"u": {"v": {"x": 1}}, "_multi": [{"a": {"f": 1}}] * 2}}), "v", "a", "-q va"),
    ],
)
def test_the_hint_names_the_namespaces_of_the_log(tmp_path, first, shared, actions, flags):
    log = scan(tmp_path, first + "\n\n")
    assert (log.shared_namespaces, log.action_namespaces) == (shared, actions)
    said = notes(log, "", [], {})
    assert [note for note in said if "no interactions" in note] == said[-1:] * (flags is not None)
    assert flags is None or f'--vw "{flags}"' in said[-1]


# -- logs, good and bad


def test_text_and_dsjson_plain_and_packed_are_one_log(tmp_path):
    rounds = rounds_of_clicks(600)
    text, lines = to_text(rounds), "".join(dsjson(r) + "\n" for r in rounds)
    (tmp_path / "a").write_text(text)
    (tmp_path / "b.txt").write_bytes(gzip.compress(text.encode()))  # known by content, not by name
    (tmp_path / "c.gz").write_text(lines)
    (tmp_path / "d").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "e").write_bytes(text.replace("\n", "\r\n").encode())
    text_1, text_2 = (tmp_path / "f", tmp_path / "g")
    text_1.write_text(to_text(rounds[:200]))
    text_2.write_text(to_text(rounds[200:]))
    plain = opo_cmab.compare_explorers(tmp_path / "a", TWO, passes=5, vw="--interactions ::")
    for log in ["b.txt", "e", ["f", "g"]]:
        files = [tmp_path / name for name in log] if isinstance(log, list) else tmp_path / log
        found = opo_cmab.compare_explorers(files, TWO, passes=5, vw="--interactions ::")
        assert figures(found).split('"vw"')[1] == figures(plain).split('"vw"')[1]
    packed, unpacked = (
        opo_cmab.compare_explorers(tmp_path / log, TWO, passes=5, vw="--interactions ::") for log in ("c.gz", "d")
    )
    assert figures(packed).split('"vw"')[1] == figures(unpacked).split('"vw"')[1]
    # Hashes differ between the formats, and with them what collides; learning by random play does not depend on it.
    uniform = [opo_cmab.compare_explorers(tmp_path / log, {"random": "--epsilon 1"}, passes=5) for log in ("a", "d")]
    assert uniform[0].explorers[0].cost == uniform[1].explorers[0].cost


GOOD = "shared |u x\n0:1:0.5 |a a\n|a b\n\n"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("shared |u x\n|a a\n|a b\n\n", "no action has a cost"),
        ("shared |u x\n0:1 |a a\n|a b\n\n", "'0:1' has no probability"),
        ("shared |u x\n0 |a a\n|a b\n\n", "'0' has no cost"),
        ("shared |u x\n0:1:0 |a a\n|a b\n\n", "the probability 0 is not above 0 and at most 1"),
        ("shared |u x\n0:1:1.2 |a a\n|a b\n\n", "the probability 1.2 is not above 0 and at most 1"),
        ("shared |u x\n0:nan:0.5 |a a\n|a b\n\n", "the cost is nan"),
        ("shared |u x\n0:x:0.5 |a a\n|a b\n\n", "the cost 'x' is not a number"),
        ("shared |u x\n0:1:0.5 |a a\n1:1:0.5 |a b\n\n", "more than one action has a label"),
        ("shared |u x\n0:1:0.5 |a a\n|a b\nshared |u x\n\n", "an empty line is missing"),
        ("shared |u x\n0:1:0.5 |a a\nwords\n\n", "a line without '|'"),
        ("1:1:0.5 | a b\n\n", "this is --cb data"),
        ("shared |u x\n0:1:0.5:3 |a a\n|a b\n\n", "is not action:cost:probability"),
    ],
)
def test_a_bad_round_is_named_and_the_rest_goes_on(tmp_path, bad, reason):
    log = scan(tmp_path, GOOD + bad + GOOD)
    assert (log.rounds, log.bad) == (2, 1)
    assert log.named[0].line == 5
    assert reason in str(log.named[0])
    assert str(tmp_path / "log") in str(log.named[0])
    with pytest.raises(LogError, match=re.escape(reason)):
        scan(tmp_path, bad)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"_labelIndex": 2}, "the action shown, number 3, is not among the 2 of c._multi"),
        ({"_labelIndex": -1}, "is not among the 2"),
        ({"_label_probability": 0}, "the probability 0 is not above 0"),
        ({"_label_probability": None}, "None is not a number"),
        ({"_label_cost": "x"}, "'x' is not a number"),
        ({"c": {"u": {"x": 1}}}, "no list of actions in c._multi"),
        ({"c": 1}, "no list of actions"),
        ({"_skipLearn": True}, "_skipLearn"),
        ({"pdrop": 1}, "pdrop"),
        ({"c": EVENT["c"] | {"_slots": [{}]}}, "CCB or slates"),
    ],
)
def test_a_bad_line_of_dsjson_is_named(tmp_path, change, reason):
    good = json.dumps(EVENT)
    log = scan(tmp_path, f"{good}\n{json.dumps(EVENT | change)}\n{good}\n")
    assert (log.rounds, log.bad) == (2, 1)
    assert reason in log.named[0].reason
    assert log.named[0].line == 2
    for key in ("_label_cost", "_label_probability"):
        without = {k: v for k, v in EVENT.items() if k != key}
        assert f"no {key}" in scan(tmp_path, f"{good}\n{json.dumps(without)}\n").named[0].reason


def test_rounds_that_were_dropped_at_random_are_stood_for_by_the_others(tmp_path):
    log = scan(tmp_path, json.dumps(EVENT | {"pdrop": 0.75}) + "\n")
    assert next(log.blocks())["probability"][0] == 0.125


@pytest.mark.parametrize("cut", [20, 400])
def test_a_cut_file_is_used_as_far_as_it_goes(tmp_path, cut):
    text = to_text(rounds_of_clicks(300))
    log = scan(tmp_path, text[:-cut])
    assert log.rounds >= 290
    assert "cut" in log.named[0].reason or "no action has a cost" in log.named[0].reason
    packed = gzip.compress(text.encode())
    log = scan(tmp_path, packed[: -len(packed) // 3])
    assert 0 < log.rounds < 300
    assert "cut or damaged" in log.named[-1].reason
    lines = "".join(dsjson(r) + "\n" for r in rounds_of_clicks(300))
    log = scan(tmp_path, lines[:-20])
    assert (log.rounds, log.bad) == (299, 1)
    assert "cut off" in log.named[0].reason
    assert log.named[0].line == 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the log is empty"),
        ("\n\n\n", "the log is empty"),
        (GOOD.replace("0.5", "1") * 9, "in all 9 rounds the action shown had probability 1.*--epsilon 0.1 is enough"),
        (
            "".join(GOOD.replace("0:1:0.5", f"0:{cost}") for cost in range(9)),  # each label differs
            "none of 9 rounds can be used. 9 are like .*, line 1: the label '0:0' has no probability. Without",
        ),
        (
            GOOD.replace("shared", "0:1 shared") + 2 * GOOD.replace("0:1:0.5 ", ""),
            "none of 3 rounds can be used. 2 are like .*, line 5: no action has a cost",
        ),
        (GOOD.replace("0:1:0.5 ", "") * 9, "none of 9 rounds can be used.*no action has a cost"),
        (b"\x1f\x8b\x08", "cannot be unpacked"),
        (b"\0\1\2\3", "is not a text file"),
        (GOOD * 5, "too short to compare explorers.*about 2 of 5 usable rounds"),
    ],
)
def test_a_log_that_tells_nothing_is_refused_with_the_reason(tmp_path, capsys, text, message):
    path = tmp_path / "log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(LogError, match=f"{re.escape(str(path))}.*{message}"):
        opo_cmab.compare_explorers(path)
    assert main([str(path)]) == 1
    assert str(path) in capsys.readouterr().err
    with pytest.raises(LogError, match="is not a file"):
        opo_cmab.compare_explorers(tmp_path / "missing")


@pytest.mark.parametrize(("wrong", "decides"), [(-9999.0, True), (9999.0, True), (-20.0, True), (-1.0, False)])
def test_a_cost_that_decides_the_estimates_is_pointed_out(tmp_path, wrong, decides):
    rounds = rounds_of_clicks(3000)
    costs = []
    for number, lines in enumerate(rounds):
        shown = next(i for i, line in enumerate(lines) if line[0].isdigit())
        action, cost, rest = lines[shown].split(":", 2)
        costs.append(wrong if number == 100 else float(cost))
        lines[shown] = f"{action}:{costs[-1]}:{rest}"
    (tmp_path / "log").write_text(to_text(rounds))
    line = sum(len(lines) + 1 for lines in rounds[:100]) + 1
    share = (wrong - np.mean(costs)) ** 2 / np.sum((costs - np.mean(costs)) ** 2)
    said = [note for note in opo_cmab.compare_explorers(tmp_path / "log", TWO, passes=5).notes if "variance" in note]
    assert len(said) == decides
    if decides:
        assert f"The cost {wrong:g} of one round ({tmp_path / 'log'}, line {line}) is {share:.0%} of" in said[0]


def test_what_a_partly_deterministic_log_cannot_tell_is_said(tmp_path):
    certain = ["shared |u user0", "0:1:1 |a a0", "|a a1", "|a a2"]
    (tmp_path / "log").write_text(to_text([*rounds_of_clicks(1000), *[certain] * 500]))
    found = opo_cmab.compare_explorers(tmp_path / "log", TWO, passes=5)
    assert found.log_rounds == 1000
    assert "500 rounds left out because the action shown had probability 1" in found.notes[0]


def test_actions_that_the_log_never_shows_are_noticed(tmp_path):
    rounds = rounds_of_clicks(3000, policy=(0.5, 0.5, 0.0))
    (tmp_path / "log").write_text(to_text(rounds))
    found = opo_cmab.compare_explorers(tmp_path / "log", {"random": "--epsilon 1"}, passes=5)
    assert "can show only 67% of the actions" in found.notes[0]
    assert "random: in about 3" in found.notes[1]


def test_one_tiny_probability_does_not_shorten_the_log(tmp_path):
    rounds = [*rounds_of_clicks(2000), ["shared |u user0", "0:1:0.01 |a a0", "|a a1", "|a a2"]]
    log = scan(tmp_path, to_text(rounds))
    assert log.smallest_probability() == 0.01  # 100 / 2,001 of the actions: too many to neglect
    log = scan(tmp_path, to_text([*rounds_of_clicks(12_000), rounds[-1]]))
    assert log.smallest_probability() == 0.25


def test_vw_s_own_test_files_run(tmp_path):
    """Too short to tell anything as they are: the same lines over and over."""
    data = vw_source() / "vowpalwabbit" / "slim" / "test" / "data"
    names = {"Delay_Margin_AudioNetworkPCR_all__unique_context.json": "dsjson", "cb_data_5.txt": "text"}
    for name, format in names.items():
        content = (data / name).read_text().strip() + "\n\n"
        assert scan(tmp_path, content).format == format
        (tmp_path / name).write_text(content * 500)
        comparison = opo_cmab.compare_explorers(tmp_path / name, passes=5)
        assert [e.error for e in comparison.explorers] == [None] * len(EXPLORERS)
        assert comparison.notes[0].startswith("All costs in the log are ")


# -- how it is run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"explorers": ["nobody"]}, "no explorer is called 'nobody'. Known: epsilon-greedy, SquareCB"),
        ({"explorers": []}, "no explorer to compare"),
        ({"explorers": ["a=--squarecb", "a=--fastcb"]}, "two explorers are called 'a'"),
        ({"reference": "bag"}, "the reference 'bag' is not among the explorers"),
        ({"vw": "-d data"}, "-d is not allowed here"),
        ({"passes": 2}, "passes must be at least 5"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"rounds": 10**6}, "rounds must be from 10 to"),
        ({"explorers": ["a=--squarecb --gamma_scale x"]}, "no explorer runs. a: "),
    ],
)
def test_what_makes_no_comparison_is_refused(clicks, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        opo_cmab.compare_explorers(clicks, **arguments)


def test_explorers_by_name_by_flags_and_both(clicks):
    names = ["regcb-OPT", "mine=--squarecb --gamma_scale 100", "--cb_explore_adf --softmax"]
    found = opo_cmab.compare_explorers(clicks, names, passes=5, rounds=20)
    assert {e.name: e.flags for e in found.explorers} == {
        "RegCB-opt": "--regcb --regcbopt --cb_min_cost 0 --cb_max_cost 1",
        "mine": "--squarecb --gamma_scale 100",
        "--cb_explore_adf --softmax": "--softmax",
    }


def test_an_explorer_that_fails_does_not_stop_the_others(clicks):
    found = opo_cmab.compare_explorers(clicks, {**TWO, "wrong": "--squarecb --gamma_scale x"}, passes=5, rounds=20)
    assert found.explorers[2].cost is None
    assert any(note.startswith("wrong does not run: ") for note in found.notes)
    assert len(found.differences) == 1


def test_an_explorer_that_breaks_on_the_way_does_not_stop_the_others(clicks, monkeypatch):
    offer = Run.offer

    def breaks(run, *arguments):
        if run.accepted == 5 and run is broken[0]:
            raise RuntimeError("out of order")
        broken.append(run)
        offer(run, *arguments)

    broken = []
    monkeypatch.setattr(Run, "offer", breaks)
    found = opo_cmab.compare_explorers(clicks, {"b": "--fastcb", "a": ""}, reference="a", passes=5, rounds=20)
    assert found.explorers[0].error == "RuntimeError: out of order"
    assert found.explorers[1].cost is not None


def test_the_default_explorers_run_and_are_told_apart_from_their_flags(clicks, capsys):
    assert main([str(clicks), "--vw", "-q ua", "--passes", "5", "--rounds", "30"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Mean cost of each explorer over its first 30 rounds")
    assert all(re.search(rf"^{re.escape(name)} ", said, re.MULTILINE) for name in EXPLORERS)
    assert "compared with epsilon-greedy" in said


def test_any_number_of_jobs_gives_the_same(clicks, whole):
    assert figures(opo_cmab.compare_explorers(clicks, **QUICK, jobs=2)) == figures(whole[0])


@pytest.mark.filterwarnings("ignore")  # of Dask's own, about its ports and its sockets
def test_a_dask_cluster_gives_the_same(clicks, whole):
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        found = opo_cmab.compare_explorers(clicks, **QUICK, scheduler=cluster.scheduler_address)
    assert figures(found) == figures(whole[0])


def test_without_dask_the_error_names_the_extra(clicks, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=re.escape("pip install vw-opo-cmab[compare]")):
        opo_cmab.compare_explorers(clicks, **QUICK, scheduler="tcp://127.0.0.1:1")


def test_the_package_needs_numpy_and_vowpalwabbit_only(clicks):
    code = (
        "import sys, opo_cmab; opo_cmab.compare_explorers(sys.argv[1], passes=5, rounds=20).to_html();"
        "print(sorted({'pandas', 'matplotlib', 'scipy', 'jinja2', 'distributed', 'tqdm'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code, str(clicks)], capture_output=True, text=True, check=True)
    # vowpalwabbit itself imports pandas and scipy if they are there
    assert "matplotlib" not in result.stdout
    assert "distributed" not in result.stdout


def test_killed_and_started_again_it_repeats_nothing_and_ends_with_the_same_table(clicks, tmp_path):
    arguments = [str(clicks), "--explorers", "epsilon-greedy", "FastCB", "--vw", "-q ua", "--passes", "12"]
    whole, out = tmp_path / "whole", tmp_path / "killed"
    assert main([*arguments, "--out", str(whole)]) == 0
    runs = out / "runs.jsonl"
    command = [sys.executable, "-m", "opo_cmab.compare", *arguments, "--jobs", "2", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not runs.exists() or runs.read_bytes().count(b"\n") < 4:
            assert process.poll() is None, "ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    finished = runs.read_bytes()
    lines = finished[: finished.rindex(b"\n") + 1]
    assert 4 <= lines.count(b"\n") < 24
    runs.write_bytes(lines + lines[:50])  # cut in the middle of a line
    assert main([*arguments, "--out", str(out)]) == 0
    assert runs.read_bytes().startswith(lines)
    assert runs.read_bytes().count(b"\n") == 24

    def table(directory: Path) -> dict:
        found = json.loads((directory / "compare.json").read_text())
        for explorer in found["explorers"]:
            del explorer["seconds"]
        return found

    assert table(out) == table(whole)
    stamp = runs.stat().st_mtime_ns
    main([*arguments, "--out", str(out)])
    assert runs.stat().st_mtime_ns == stamp, "nothing was left to run"


def test_another_log_or_seed_is_not_mixed_with_what_is_in_the_file(clicks, whole, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(whole[1], out)
    other = tmp_path / "other"
    other.write_text(clicks.read_text().replace("user0", "user7"))
    for log, more in ((other, {}), (clicks, {"seed": 1})):
        found = opo_cmab.compare_explorers(log, **QUICK, **more, out=out)
        assert figures(found) == figures(opo_cmab.compare_explorers(log, **QUICK, **more))


MEASURE = """
import resource, sys, opo_cmab
opo_cmab.compare_explorers(sys.argv[1], {"a": "", "b": "--fastcb"}, passes=5, rounds=200)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(tmp_path):
    """A million rounds beside ten thousand."""
    some = to_text(rounds_of_clicks(10_000))
    (tmp_path / "small").write_text(some)
    with (tmp_path / "large").open("w") as file:
        for _ in range(100):
            file.write(some)
    used = []
    for name in ("small", "large"):
        result = subprocess.run(
            [sys.executable, "-c", MEASURE, str(tmp_path / name)], capture_output=True, text=True, check=True
        )
        used.append(int(result.stdout) / 1024)
    assert used[1] - used[0] < 40, f"MB: {used}"


# -- real logs


@pytest.mark.slow
def test_the_open_bandit_dataset_s_few_clicks_tell_nothing(tmp_path):
    directory = os.environ.get("OBD_DIR")
    if directory is None or not Path(directory).is_dir():
        pytest.skip("OBD_DIR does not name a copy of the Open Bandit Dataset (small version)")
    log = tmp_path / "men.txt"
    obd.write_log(Path(directory), "men", log)
    start = time.process_time()
    found = opo_cmab.compare_explorers(log, vw="-q ui --ignore_linear u")
    assert time.process_time() - start < 60
    assert found.log_rounds == 10_000
    assert round(found.log_cost.mean * -10_000) == 46
    assert found.verdict[0] == "Not enough data to tell whether any of the others is better than epsilon-greedy."


# -- how it is shown

LOOK = """
<script>
addEventListener("error", event => document.body.dataset.error = event.message);
addEventListener("load", () => {
  const svg = document.getElementById("curves"), area = svg.getBoundingClientRect();
  const box = document.getElementById("values");
  const seen = [];
  for (const part of [0.3, 0.99]) {
    const clientX = area.left + part * area.width;
    svg.dispatchEvent(new PointerEvent("pointermove", {clientX, clientY: area.top + 50}));
    const at = box.getBoundingClientRect();
    seen.push([box.innerText, box.checkVisibility(), at.left >= 0 && at.right <= innerWidth]);
  }
  svg.dispatchEvent(new PointerEvent("pointerleave"));
  const lines = [...document.querySelectorAll("#curves .line")].map(line => line.getTotalLength());
  const found = document.createElement("pre");
  found.id = "found";
  found.textContent = JSON.stringify({seen, hidden: box.hidden, lines, width: area.width,
    colour: getComputedStyle(document.body).backgroundColor, error: document.body.dataset.error ?? null,
    text: document.body.innerText});
  document.body.append(found);
});
</script>
"""


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_in_a_real_browser(whole, tmp_path, dark):
    comparison, out = whole
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    found = look((out / "compare.html").read_text(), LOOK, tmp_path, scheme)
    assert found["error"] is None
    assert found["colour"] == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")
    assert len(found["lines"]) == 2
    assert min(found["lines"]) > 100
    (first, visible, inside), (last, visible_too, inside_too) = found["seen"]
    assert [visible, visible_too, inside, inside_too, found["hidden"]] == [True] * 5
    assert first != last
    assert f"{comparison.rounds} rounds" in last
    for explorer in comparison.explorers:
        assert f"{explorer.name}\t{explorer.cost.mean:.4g}"[:12] in last
    assert comparison.verdict[0] in found["text"]


def test_the_page_loads_nothing_from_elsewhere_and_escapes_names(clicks, whole):
    page = (whole[1] / "compare.html").read_text()
    assert not re.findall(r'(?:src|href)="', page)
    assert "{{" not in page
    assert "http" not in page
    found = opo_cmab.compare_explorers(clicks, {"<b>": "", "</script>": "--fastcb"}, passes=5, rounds=20).to_html()
    assert "<b>" not in found
    assert found.count("</script>") == 2


def test_the_code_of_the_page_on_comparisons_runs(tmp_path):
    page = (ROOT / "docs" / "compare.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    code = code.replace("20_000", "4_000").replace("rounds=400", "rounds=30, passes=5")
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "explorer        flags" in result.stdout


def test_json_has_what_the_table_has(whole):
    comparison, out = whole
    found = json.loads((out / "compare.json").read_text())
    assert found["explorers"][1]["cost"]["mean"] == comparison.explorers[1].cost.mean
    assert found["differences"][0]["tells"] == comparison.differences[0].cost.tells
    assert found["verdict"] == comparison.verdict
