"""CCB and slates: a labelled slot is a round, and the rounds are those of Algorithm 1 on stock models."""

import json

import numpy as np
import opo_cmab
import pytest
from formulas import fastcb, sigmoid, squarecb
from numpy.testing import assert_allclose
from opo_cmab._kernel import bounded_policy, segment_starts
from opo_cmab.reference import policies
from slots import decide, random_events
from streams import with_probability_one
from test_costs import LOGISTIC, stock_on_mapped_costs
from vowpalwabbit import Workspace

KINDS = {"ccb": "--ccb_explore_adf", "slates": "--slates"}
SETTINGS = {"eta": 10.0, "gamma": 0.5, "decay": 0.8}
BITS = "-b 24 --sparse_weights"  # the features have other names here and there, and must not collide
OPO = "--opo_cmab --opo_eta 10 --opo_gamma 0.5 --opo_decay 0.8"

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


@pytest.mark.parametrize("ends", [{}, {"low": -0.5, "high": 2.5}], ids=["learnt", "given"])
@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize("interactions", INTERACTIONS)
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
        past = predictions[:-1]
        expected = np.full(len(got[t]), 1 / len(got[t]))
        if mapping.known(len(past)):
            expected = policies(mapping.losses(past), **SETTINGS)[-1] if past else expected
        assert_allclose(got[t], expected, atol=1e-4, err_msg=f"decision {t}")
    assert len(past) > 20
    assert any(max(p) > 2 / len(p) for p in got)


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
    got, rounds = run(f"{KINDS[kind]} --fastcb -q sa {BITS}", random_events(4, slates=kind == "slates"))
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, f"{INTERACTIONS['-q sa']} {BITS}", False)
    learnt = 0
    for t, scores in enumerate(stock(arguments, mapped)):
        if mapping.known(learnt):
            expected = fastcb(mapping.loss(scores, mapping.ranges[learnt - 1]), 10 * learnt**0.5)
            assert_allclose(sorted(got[t]), sorted(expected), atol=1e-4, err_msg=f"decision {t}")
        learnt += is_labelled(rounds[t])
