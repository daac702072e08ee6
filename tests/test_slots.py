"""CCB and slates: a labelled slot is a round, and the rounds are those of Algorithm 1 on stock models."""

import json
import os
import re
from pathlib import Path

import numpy as np
import opo_cmab
import pytest
from numpy.testing import assert_allclose
from opo_cmab._kernel import bounded_policy, segment_starts
from opo_cmab.reference import policies
from vowpalwabbit import Workspace

from tests.helpers import vw_source
from tests.helpers.formulas import fastcb, sigmoid, squarecb
from tests.helpers.slots import decide, random_events
from tests.helpers.streams import GD, with_probability_one
from tests.test_costs import LOGISTIC, stock_on_mapped_costs

KINDS = {"ccb": "--ccb_explore_adf", "slates": "--slates"}
SETTINGS = {"eta": 10.0, "gamma": 0.5, "decay": 0.8}
BITS = "-b 24 --sparse_weights"  # the features have other names here and there, and must not collide
# Slots differ in their namespaces: what can be left out changes from slot to slot, which stock VW cannot do.
OPO = "--opo_cmab --opo_eta 10 --opo_gamma 0.5 --opo_decay 0.8 --cb_shared_features learn"

# What the user gives, and what VW makes of it for several slots: everything also crossed with the slot (namespace i).
WITH_THE_SLOT = "-q si -q ai -q zi -q yi"
PAIRS = ["ss", "sa", "sz", "sy", "aa", "az", "ay", "zz", "zy", "yy"]
INTERACTIONS = {
    "": WITH_THE_SLOT,
    "-q sa": f"-q sa --cubic sai {WITH_THE_SLOT}",
    "-q sa -q za": f"-q sa -q za --cubic sai --cubic zai {WITH_THE_SLOT}",
    "--cubic zsa": f"--cubic zsa --interactions zsai {WITH_THE_SLOT}",
    "-q ::": " ".join(f"-q {pair} --cubic {pair}i" for pair in PAIRS) + " " + WITH_THE_SLOT,
}


def run(arguments, events, save=None):
    """The probabilities of each slot, as they are predicted and then learnt, and their rounds of --cb_adf."""
    got, rounds = [], []
    with Workspace(f"{arguments} --quiet") as workspace:
        for event in events:
            for decisions, labelled in zip(decide(workspace, event), (False, True), strict=True):
                slots = event.of_actions(decisions)
                chosen = [next(iter(slot), -1) for slot in slots]
                for j, (slot, lines) in enumerate(zip(slots, event.rounds(chosen, labelled), strict=True)):
                    if slot:  # else there was no action left
                        got.append([slot[a] for a in event.available(j, chosen)])
                        rounds.append(lines)
        if save is not None:
            workspace.save(str(save))
    return got, rounds


@pytest.mark.parametrize("interactions", INTERACTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_rounds_of_the_oracle_are_those_of_vw(stock, kind, interactions):
    events = random_events(1, slates=kind == "slates", probability=1.0)
    got, rounds = run(f"{KINDS[kind]} --squarecb {interactions} {BITS}", events)
    learnt = 0
    scores = stock(f"--cb_adf {INTERACTIONS[interactions]} {BITS}", rounds)
    for p, lines, f in zip(got, rounds, scores, strict=True):
        assert_allclose(sorted(p), sorted(squarecb(f, 10 * learnt**0.5)), atol=1e-4)
        learnt += is_labelled(lines)
    assert 20 < learnt < len(rounds)


def is_labelled(lines):
    return any(line[0].isdigit() for line in lines)


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize(
    ("interactions", "ends"), [*((given, {}) for given in INTERACTIONS), ("-q sa", {"low": -0.5, "high": 2.5})]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_labelled_slot_is_a_round_of_the_algorithm_on_stock_models(stock, kind, interactions, logistic, ends):
    events = random_events(2, n=28, slates=kind == "slates")
    flags = " ".join(f"--cb_{'min' if end == 'low' else 'max'}_cost {value}" for end, value in ends.items())
    got, rounds = run(
        f"{KINDS[kind]} {OPO} --opo_budget 0 {interactions} {BITS} {flags} {LOGISTIC if logistic else ''}", events
    )
    mapping, mapped, arguments = stock_on_mapped_costs(
        stock, rounds, f"{INTERACTIONS[interactions]} {BITS}", logistic, **ends
    )
    for t, predictions in enumerate(stock(arguments, mapped, every_model=True)):
        past = len(predictions) - 1
        expected = np.full(len(got[t]), 1 / len(got[t]))
        if mapping.known(past):
            expected = policies(mapping.losses(predictions), **SETTINGS)[-1]
        assert_allclose(got[t], expected, atol=1e-4, err_msg=f"decision {t}")
    assert past > 20
    assert any(max(p) > 2 / len(p) for p in got)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_actions_of_a_slot_share_is_left_out(stock, kind):
    """The slot's number too, by itself and crossed with the context."""
    events = random_events(6, n=28, slates=kind == "slates")
    for slot in (slot for event in events for slot in event.slots):
        slot.features = "|"
    got, rounds = run(f"{KINDS[kind]} --fastcb {GD} -q sa {BITS}", events)
    without_shared = "-q sa --cubic sai -q ai --ignore_linear s --ignore_linear i --noconstant"
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, f"{without_shared} {BITS}", False)
    learnt = 0
    for t, scores in enumerate(stock(arguments, mapped)):
        if mapping.known(learnt):
            expected = fastcb(mapping.loss(scores, mapping.ranges[learnt - 1]), 10 * learnt**0.5)
            assert_allclose(sorted(got[t]), sorted(expected), atol=1e-4, err_msg=f"decision {t}")
        learnt += is_labelled(rounds[t])
    assert learnt > 20


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_replays_the_averages_of_stock_models(stock, kind, logistic):
    events = random_events(3, slates=kind == "slates")
    loss = LOGISTIC if logistic else ""
    raw = "--cb_cost_unit raw --cb_min_cost 0 --cb_max_cost 3"
    got, rounds = run(f"{KINDS[kind]} {OPO} --opo_budget 8 -q sa {BITS} {raw} {loss}", events)
    if logistic:
        loss += " --logistic_min 0 --logistic_max 3"
    arguments = f"--cb_adf --cb_type mtr {INTERACTIONS['-q sa']} {BITS} {loss}"
    for t, predictions in enumerate(stock(arguments, with_probability_one(rounds), every_model=True)):
        past = len(predictions) - 1
        if past > 0:
            starts = segment_starts(past, budget=8)
            f = np.add.reduceat(np.array(predictions[:-1]), starts[:-1].astype(int)) / np.diff(starts)[:, None]
            expected = bounded_policy(sigmoid(f) if logistic else f / 3, starts, budget=8, **SETTINGS)
            assert_allclose(got[t], expected, atol=1e-4, err_msg=f"decision {t}")
    assert past > 20


@pytest.mark.parametrize("kind", KINDS)
def test_fastcb_counts_slots_too(stock, kind):
    got, rounds = run(f"{KINDS[kind]} --fastcb {GD} -q sa {BITS}", random_events(4, slates=kind == "slates"))
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, f"{INTERACTIONS['-q sa']} {BITS}", False)
    learnt = 0
    for t, scores in enumerate(stock(arguments, mapped)):
        if mapping.known(learnt):
            expected = fastcb(mapping.loss(scores, mapping.ranges[learnt - 1]), 10 * learnt**0.5)
            assert_allclose(sorted(got[t]), sorted(expected), atol=1e-4, err_msg=f"decision {t}")
        learnt += is_labelled(rounds[t])


# -- VW's own files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("explorer", ["--opo_cmab", "--fastcb", "--adacb"])
def test_the_events_in_vw_s_own_tests_run_as_with_squarecb(vw, tmp_path, explorer):
    """Of its C++ tests, which come with its source: consecutive lines of a test are an event."""
    tests = vw_source() / "vowpalwabbit" / "core" / "tests"
    for name, flag in [("ccb_test.cc", "--ccb_explore_adf"), ("slates_test.cc", "--slates")]:
        lines = (tests / name).read_text().splitlines()
        found = [re.search(r'read_example\(\*vw, "(.+)"\)', line) for line in lines]
        text = "".join(match[1] + "\n" if match else "\n" for match in found)
        events = [event for event in re.split(r"\n\n+", text.strip()) if is_whole(event)]
        assert len(events) >= (5 if name == "ccb_test.cc" else 1)
        (tmp_path / "data").write_text("\n\n".join(3 * events) + "\n\n")
        assert_as_with_squarecb(vw, tmp_path, flag, explorer)


def is_whole(event):
    kinds = [line.split()[1] for line in event.splitlines()]
    return kinds.count("slot") <= kinds.count("action") and "10:10" not in event  # a probability of 10 is refused


@pytest.mark.parametrize("explorer", ["--opo_cmab", "--fastcb", "--adacb"])
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("ccb_test.dat", "--ccb_explore_adf"),
        ("ccb_test_interactions.dat", "--ccb_explore_adf -q :: "),
        ("ccb_reuse_small.data", "--ccb_explore_adf -q UA"),
        ("ccb_losses.txt", "--ccb_explore_adf --all_slots_loss"),
        ("slates_simple.txt", "--slates"),
    ],
)
def test_vw_s_own_training_files_run_as_with_squarecb(vw, tmp_path, name, flags, explorer):
    """These are in VW's repository but not in the source that we build from: VW_TRAIN_SETS is their directory."""
    directory = os.environ.get("VW_TRAIN_SETS")
    if directory is None:
        pytest.skip("VW_TRAIN_SETS is not set: test/train-sets of VW's repository, which its source distribution lacks")
    (tmp_path / "data").write_text((Path(directory) / name).read_text())
    assert_as_with_squarecb(vw, tmp_path, flags, explorer)


def assert_as_with_squarecb(vw, directory, flags, explorer):
    """As many slots with as many actions, and probabilities."""
    answers = []
    for given in (explorer, "--squarecb"):
        out = directory / given.strip("-")
        vw(f"-d {directory / 'data'} {flags} {given} -p {out} -f {directory / 'model'}")
        vw(f"-d {directory / 'data'} -i {directory / 'model'} -t -p {directory / 'again'}")
        answers.append([[pair.split(":") for pair in line.split(",")] for line in out.read_text().split("\n") if line])
    ours, theirs = answers
    assert [len(slot) for slot in ours] == [len(slot) for slot in theirs]
    assert len(ours) > 1
    for slot in ours:
        assert sum(float(p) for _, p in slot) == pytest.approx(1, abs=1e-4)


# -- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [1, 2, 15])
@pytest.mark.parametrize(
    "explorer", ["--opo_cmab", "--opo_cmab --opo_budget 6", f"--opo_cmab {LOGISTIC}", "--fastcb", "--adacb"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_goes_on_exactly_and_samples_the_same(tmp_path, kind, explorer, split):
    events, model = random_events(5, slates=kind == "slates"), tmp_path / "model"
    arguments = f"{KINDS[kind]} {explorer} -q sa"
    first, _ = run(arguments, events[:split], save=model)
    second, _ = run(f"-i {model}", events[split:], save=model)
    assert first + second == run(arguments, events)[0]
    with Workspace(f"-i {model} --quiet") as learning, Workspace(f"-i {model} -t --quiet") as testing:
        for event in events[:5]:
            expected = event.of_actions(decide(learning, event, learn=False)[0])
            if explorer != "--adacb":  # which goes by adaptive rates, and VW does not load these with -t
                assert event.of_actions(decide(testing, event, learn=False)[0]) == expected


@pytest.mark.parametrize("explorer", ["--opo_cmab", "--fastcb", "--adacb"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_program_decides_as_the_workspace_does_and_counts_labelled_slots(vw, tmp_path, kind, explorer):
    events = random_events(6, slates=kind == "slates")
    data, out, metrics, readable = (tmp_path / name for name in ("data", "out", "metrics", "readable"))
    data.write_text("".join("\n".join(event.lines()) + "\n\n" for event in events))
    vw(
        f"-d {data} {KINDS[kind]} {explorer} -q sa -p {out} --extra_metrics {metrics} --readable_model {readable} "
        "--all_slots_loss"
    )
    with Workspace(f"{KINDS[kind]} {explorer} -q sa --quiet") as workspace:
        for event, printed in zip(events, out.read_text().strip().split("\n\n"), strict=True):
            examples = workspace.parse(event.lines())
            workspace.learn(examples)
            learnt = examples[0].get_decision_scores()
            workspace.finish_example(examples)
            for line, decision in zip(printed.split("\n"), learnt, strict=True):
                pairs = [pair.split(":") for pair in line.split(",")]
                assert [int(a) for a, _ in pairs] == [a for a, _ in decision]
                assert_allclose([float(p) for _, p in pairs], [p for _, p in decision], atol=2e-6)
                assert sum(p for _, p in decision) == pytest.approx(1, abs=1e-5)
    found = json.loads(metrics.read_text())
    learnt = found[f"cb_explore_adf_{explorer.strip('-')}"]["cbea_labeled_ex"]
    assert learnt > len(events)
    assert f"{explorer.strip('-').removesuffix('_cmab')}_rounds = {learnt}\n" in readable.read_text()
    if explorer == "--opo_cmab":
        assert found["cb_explore_adf_opo_cmab"]["opo_rounds"] == learnt
    costs = [slot.label[1] for event in events for slot in event.slots if slot.label]
    assert found["cb_cost_unit"]["cost_min"] <= min(costs) + 0.1
    assert found["cb_cost_unit"]["cost_max"] >= max(costs) - 0.1


def test_a_model_of_one_slot_takes_several(tmp_path):
    model = tmp_path / "model"
    lines = ["shared |s x", "0:0.5:0.5 |a b", "|a c"]
    with Workspace("--cb_explore_adf --opo_cmab -q sa --quiet") as workspace:
        for cost in (0.1, 0.9, 0.4):
            lines[1] = f"0:{cost}:0.5 |a b"
            workspace.learn(lines)
        expected = workspace.predict(["shared |s x", "|a b", "|a c"])
        workspace.save(str(model))
    with Workspace(f"-i {model} --ccb_explore_adf --quiet") as workspace:
        one = workspace.predict(["ccb shared |s x", "ccb action |a b", "ccb action |a c", "ccb slot |"])
        assert dict(one[0]) == dict(enumerate(expected))
        for event in random_events(7):
            for decisions in decide(workspace, event):
                assert all(sum(p for _, p in slot) == pytest.approx(1, abs=1e-5) for slot in decisions if slot)


# -- explain ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_each_slot_is_explained_as_it_will_be_decided(tmp_path, kind):
    files = [tmp_path / "before", tmp_path / "after"]
    with Workspace(f"{KINDS[kind]} --opo_cmab -q sa --quiet") as workspace:
        for event in random_events(8, n=40, slates=kind == "slates"):
            decide(workspace, event)
        for event in random_events(9, slates=kind == "slates"):
            lines = event.lines(labelled=False)
            workspace.save(str(files[0]))
            whys = [explain_or_none(workspace, lines, slot) for slot in range(len(event.slots))]
            workspace.save(str(files[1]))
            assert files[0].read_bytes() == files[1].read_bytes()
            for why, decision in zip(whys, workspace.predict(lines), strict=True):
                if why is None:
                    assert not decision
                else:
                    assert why.actions.tolist() == sorted(a for a, _ in decision)
                    expected = dict(decision)
                    assert_allclose(why.decision, [expected[a] for a in why.actions], atol=1e-6)
                    assert why.rounds.sum() > 40
                    assert str(why).splitlines()[2].split()[0] == str(why.actions[0])


def explain_or_none(workspace, lines, slot):
    try:
        return opo_cmab.explain(workspace, lines, slot=slot)
    except ValueError:  # no action is left for the slot
        return None


TWO_SLOTS = ["ccb shared |s x", "ccb action |a b", "ccb action |a c", "ccb slot |", "ccb slot 1 |"]


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        (None, r"this context has 2 slots: say which one to explain, as in explain\(workspace, example, slot=0\)"),
        (2, "slot must be from 0 to 1: 2"),
        (-1, "slot must be from 0 to 1: -1"),
        ("1", "slot must be from 0 to 1: 1"),
    ],
)
def test_which_slot_to_explain_must_be_said(slot, words):
    with Workspace("--ccb_explore_adf --opo_cmab --quiet") as workspace, pytest.raises(ValueError, match=words):
        opo_cmab.explain(workspace, TWO_SLOTS, slot=slot)


def test_a_slot_without_an_action_cannot_be_explained():
    lines = [*TWO_SLOTS[:-2], "ccb slot 1 |", "ccb slot 1 |"]
    with Workspace("--ccb_explore_adf --opo_cmab --quiet") as workspace:
        assert opo_cmab.explain(workspace, lines, slot=0).actions.tolist() == [1]
        with pytest.raises(ValueError, match="slot 1 has no action left to choose"):
            opo_cmab.explain(workspace, lines, slot=1)


def test_one_slot_need_not_be_said_and_parsed_examples_stay_the_callers():
    one = [*TWO_SLOTS[:-2], "ccb slot |"]
    with Workspace("--ccb_explore_adf --opo_cmab --quiet") as workspace:
        assert opo_cmab.explain(workspace, one).decision.tolist() == [0.5, 0.5]
        examples = workspace.parse(TWO_SLOTS)
        opo_cmab.explain(workspace, examples, slot=1)
        assert len(workspace.predict(examples)) == 2  # VW appends to what is there
        workspace.finish_example(examples)
    with Workspace("--cb_explore_adf --opo_cmab --quiet") as workspace:
        assert opo_cmab.explain(workspace, ["|a b", "|a c"], slot=0).actions.tolist() == [0, 1]
        with pytest.raises(ValueError, match="slot must be from 0 to 0: 1"):
            opo_cmab.explain(workspace, ["|a b", "|a c"], slot=1)
