"""explain: the steps behind a decision, equal to the decision, on any workspace, without changing it."""

from io import BytesIO

import numpy as np
import opo_cmab
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from opo_cmab.reference import policies
from streams import random_rounds
from vowpalwabbit import Workspace

LOGISTIC = "--loss_function logistic"


def trained(arguments, n=70, **more):
    workspace = Workspace(f"--cb_explore_adf --opo_cmab --quiet {arguments}")
    for lines in random_rounds(1, n=n, **more):
        workspace.learn(lines)
    return workspace


@pytest.mark.parametrize("loss", ["", LOGISTIC], ids=["squared", "logistic"])
@pytest.mark.parametrize("budget", ["", "--opo_budget 12"], ids=["exact", "bounded"])
@pytest.mark.parametrize("arguments", ["-q ::", "--cubic ssa --opo_decay 1 --opo_eta 5", "--opo_beta 2 -b 5"])
def test_the_last_policy_is_the_prediction(arguments, budget, loss):
    workspace = trained(f"{arguments} {budget} {loss}")
    for lines in random_rounds(2, n=15, actions=(1, 6)):
        explanation = opo_cmab.explain(workspace, lines)
        assert_allclose(explanation.decision, workspace.predict(lines), atol=1e-6)
        assert explanation.rounds.sum() == 70
        assert (np.cumsum(explanation.rounds)[:-1] == explanation.first_round[1:]).all()
        assert len(explanation.rounds) == 70 if not budget else len(explanation.rounds) <= 12


def test_the_steps_are_algorithm_1():
    explanation = opo_cmab.explain(trained("-q :: --cb_cost_unit raw --cb_min_cost 0 --cb_max_cost 1 --opo_eta 7 --opo_gamma 0.5 --opo_decay 0.8"), random_rounds(3)[0])
    assert_allclose(explanation.policy, policies(explanation.cost, eta=7, gamma=0.5, decay=0.8), atol=1e-6)
    played = np.cumsum(explanation.policy, axis=0)[:-1] - explanation.policy[:-1]
    beta = 0.5 * np.sqrt((explanation.first_round + 1) / explanation.cost.shape[1])
    assert_allclose(explanation.bonus, np.minimum(1, beta[:, None] / 2 / (1 + played)), atol=1e-6)
    assert_allclose(explanation.optimistic_loss, np.clip(explanation.cost - explanation.bonus, 0, 1))


def test_costs_are_in_their_range():
    explanation = opo_cmab.explain(
        trained("--cb_min_cost -3 --cb_max_cost -1", costs=(-3.0, -1.0)), random_rounds(3)[0]
    )
    assert explanation.cost_range == (-3, -1)
    assert_allclose(explanation.optimistic_loss, np.clip((explanation.cost + 3) / 2 - explanation.bonus, 0, 1))


def test_a_loaded_model_is_explained_as_the_one_that_was_saved(tmp_path):
    workspace, lines = trained("-q sa"), random_rounds(4)[0]
    workspace.save(str(tmp_path / "model"))
    expected = opo_cmab.explain(workspace, lines)
    for arguments in ("", "-t"):
        got = opo_cmab.explain(Workspace(f"-i {tmp_path / 'model'} --quiet {arguments}"), lines)
        assert (got.policy == expected.policy).all()
        assert (got.cost == expected.cost).all()


def test_asking_does_not_change_the_model(tmp_path):
    workspace = trained("-q sa --opo_budget 20")
    files = [tmp_path / "before", tmp_path / "after"]
    workspace.save(str(files[0]))
    for lines in random_rounds(5):
        opo_cmab.explain(workspace, lines)
    workspace.save(str(files[1]))
    assert files[0].read_bytes() == files[1].read_bytes()


def test_examples_that_are_parsed_already_stay_the_callers():
    workspace, lines = trained("-q sa"), random_rounds(6)[0]
    examples = workspace.parse(lines)
    explanation = opo_cmab.explain(workspace, examples)
    assert_allclose(workspace.predict(examples), explanation.decision, atol=1e-6)
    workspace.finish_example(examples)


def test_a_new_workspace_has_one_policy_the_uniform_one():
    explanation = opo_cmab.explain(Workspace("--cb_explore_adf --opo_cmab --quiet"), ["| a", "| b"])
    assert explanation.policy.tolist() == [[0.5, 0.5]]
    assert explanation.cost.shape == (0, 2)
    assert explanation.to_frame().empty
    explanation.plot().savefig(BytesIO())


def test_the_frame_has_a_row_for_each_step_and_action():
    explanation = opo_cmab.explain(trained("-q sa --opo_budget 16"), random_rounds(7)[0])
    frame = explanation.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == explanation.cost.size
    by_action = frame.pivot_table(index="first_round", columns="action", values="policy")
    assert_allclose(by_action.to_numpy(), explanation.policy[:-1])


def test_the_plot_shows_policy_costs_and_losses(tmp_path):
    explanation = opo_cmab.explain(trained("-q sa"), ["shared |s x0:1", "|a id1", "|a id2", "|a id3"])
    figure = explanation.plot(["coffee", "tea", "juice"])
    policy, cost, loss = figure.axes
    assert [text.get_text() for text in policy.get_legend().get_texts()] == ["coffee", "tea", "juice"]
    assert len(cost.get_lines()) == len(loss.get_lines()) == 3
    figure.savefig(tmp_path / "why.svg")
    with pytest.raises(ValueError, match="2 names for 3 actions"):
        explanation.plot(["coffee", "tea"])


@pytest.mark.parametrize(
    ("arguments", "example"), [("--cb_explore_adf", ["| a", "| b"]), ("--cbify 2 --cb_explore_adf --opo_cmab", "1 | a")]
)
def test_other_workspaces_cannot_be_explained(arguments, example):
    with pytest.raises((RuntimeError, TypeError), match="can be explained"):
        opo_cmab.explain(Workspace(f"{arguments} --quiet"), example)
