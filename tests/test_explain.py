"""explain: the steps behind a decision, equal to the decision, on any workspace, without changing it."""

import sys
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import opo_cmab
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose
from opo_cmab import _explain
from opo_cmab.reference import policies
from vowpalwabbit import Workspace

from tests.helpers.streams import random_rounds

LOGISTIC = "--loss_function logistic"


def trained(arguments, n=70, **more):
    workspace = Workspace(f"--cb_explore_adf --opo_cmab --quiet {arguments}")
    for lines in random_rounds(1, n=n, **more):
        workspace.learn(lines)
    return workspace


@pytest.mark.parametrize("loss", ["", LOGISTIC], ids=["squared", "logistic"])
@pytest.mark.parametrize("budget", [0, 12], ids=["exact", "bounded"])
@pytest.mark.parametrize("arguments", ["-q ::", "--cubic ssa --opo_decay 1 --opo_eta 5", "--opo_beta 2 -b 5"])
def test_the_last_policy_is_the_prediction(arguments, budget, loss):
    workspace = trained(f"{arguments} --opo_budget {budget} {loss}")
    for lines in random_rounds(2, n=15, actions=(1, 6)):
        explanation = opo_cmab.explain(workspace, lines)
        assert_allclose(explanation.decision, workspace.predict(lines), atol=1e-6)
        assert explanation.rounds.sum() == 70
        assert (np.cumsum(explanation.rounds)[:-1] == explanation.first_round[1:]).all()
        assert len(explanation.rounds) == 70 if not budget else len(explanation.rounds) <= 12


def test_the_steps_are_algorithm_1():
    raw = "--cb_cost_unit raw --cb_min_cost 0 --cb_max_cost 1"
    workspace = trained(f"-q :: {raw} --opo_budget 0 --opo_eta 7 --opo_gamma 0.5 --opo_decay 0.8")
    explanation = opo_cmab.explain(workspace, random_rounds(3)[0])
    assert_allclose(explanation.policy, policies(explanation.cost, eta=7, gamma=0.5, decay=0.8), atol=1e-6)
    played = np.cumsum(explanation.policy, axis=0)[:-1] - explanation.policy[:-1]
    beta = 0.5 * np.sqrt((explanation.first_round + 1) / explanation.cost.shape[1])
    assert_allclose(explanation.bonus, np.minimum(1, beta[:, None] / 2 / (1 + played)), atol=1e-6)
    assert_allclose(explanation.optimistic_loss, np.clip(explanation.cost - explanation.bonus, 0, 1))


def test_costs_are_in_their_range():
    explanation = opo_cmab.explain(
        trained("--cb_min_cost -3 --cb_max_cost -1", costs=(-3.0, -1.0)), random_rounds(3)[0]
    )
    low, high = explanation.cost_range
    assert -3 <= low < high <= -1
    assert_allclose(
        explanation.optimistic_loss, np.clip((explanation.cost - low) / (high - low) - explanation.bonus, 0, 1)
    )


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


@pytest.mark.parametrize("budget", [0, 12], ids=["exact", "bounded"])
def test_an_explanation_that_breaks_off_leaves_the_next_decision_right(budget):
    workspace, untouched = (trained(f"-q sa --opo_budget {budget}") for _ in range(2))
    for lines in random_rounds(2, n=5, actions=(2, 6)):
        examples = workspace.parse(lines)
        with pytest.raises(RuntimeError, match="takes more than 7 steps"):
            _explain.explain(workspace, examples, most_steps=7)
        workspace.finish_example(examples)
        assert workspace.predict(lines) == untouched.predict(lines)
        workspace.learn(lines)
        untouched.learn(lines)


def test_workspaces_are_explained_independently_of_each_other():
    """In turn, in threads, and after one broke off or is gone."""
    lines = ["shared |s x0:1 x1:-1", "|a id1", "|a id2", "|a id3"]
    exact, bounded = trained("-q sa --opo_budget 0"), trained("-q sa --opo_budget 12 --opo_eta 5")
    other = Workspace("--cb_explore_adf --fastcb --quiet")
    alone = [opo_cmab.explain(workspace, lines) for workspace in (exact, bounded)]
    assert [len(explanation.rounds) for explanation in alone] == [70, 12]

    examples = exact.parse(lines)
    with pytest.raises(RuntimeError, match="takes more than 7 steps"):
        _explain.explain(exact, examples, most_steps=7)
    exact.finish_example(examples)
    with pytest.raises(RuntimeError, match="can be explained"):
        opo_cmab.explain(other, lines)
    assert_allclose(bounded.predict(lines), alone[1].decision, atol=1e-6)  # more than 7 steps

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda workspace: opo_cmab.explain(workspace, lines), [exact, bounded] * 20))
    for i, explanation in enumerate(together):
        assert (explanation.policy == alone[i % 2].policy).all()
    exact.finish()
    assert (opo_cmab.explain(bounded, lines).policy == alone[1].policy).all()


def test_a_context_without_actions_is_refused_even_after_a_decision():
    workspace = trained("")
    examples = workspace.parse(["shared |s x", "|a b", "|a c"])
    workspace.predict(examples)
    with pytest.raises(ValueError, match="no action"):
        opo_cmab.explain(workspace, examples[:1])


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
    assert str(explanation).splitlines() == [
        "0 past rounds in 0 steps",
        "action       cost  bonus probability",
        "     0          -      -      0.5000",
        "     1          -      -      0.5000",
    ]
    explanation.plot().savefig(BytesIO())


def test_the_frame_has_a_row_for_each_step_and_action():
    explanation = opo_cmab.explain(trained("-q sa --opo_budget 16"), random_rounds(7)[0])
    frame = explanation.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == explanation.cost.size
    by_action = frame.pivot_table(index="first_round", columns="action", values="policy")
    assert_allclose(by_action.to_numpy(), explanation.policy[:-1])


def test_the_plot_shows_policy_costs_bonuses_and_losses(tmp_path):
    explanation = opo_cmab.explain(trained("-q sa"), ["shared |s x0:1", "|a id1", "|a id2", "|a id3"])
    names = ["coffee", "tea", "juice"]
    figure = explanation.plot(names)
    policy, *below = figure.axes
    best = explanation.decision.argmax()
    assert policy.get_title("left") == (
        f"70 past rounds, replayed for this context\nMost probable: {names[best]}, {explanation.decision[best]:.2f}"
    )
    assert legend(figure) == names
    assert [axes.get_ylabel() for axes in below] == ["predicted cost", "bonus", "optimistic loss"]
    bands = [to_hex(band.get_facecolor()[0]) for band in policy.collections]
    for axes, values in zip(below, (explanation.cost, explanation.bonus, explanation.optimistic_loss), strict=True):
        lines = axes.get_lines()
        assert [to_hex(line.get_color()) for line in lines] == bands
        assert_allclose([np.asarray(line.get_ydata())[:-1] for line in lines], values.T)
        assert not axes.collections  # nothing shaded: shades of several actions mix
        assert np.argmax([line.get_linewidth() for line in lines]) == best
    figure.savefig(tmp_path / "why.svg")
    with pytest.raises(ValueError, match="2 names for 3 actions"):
        explanation.plot(["coffee", "tea"])


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def made_up(policy):
    """An explanation with these policies, the last of which is the decision."""
    policy = np.array(policy)
    steps, actions = len(policy) - 1, policy.shape[1]
    some = np.linspace(0, 1, steps * actions).reshape(steps, actions)
    return opo_cmab.Explanation(
        first_round=np.arange(steps),
        rounds=np.ones(steps, dtype=np.int64),
        actions=np.arange(actions),
        cost=100 * some,
        bonus=some,
        optimistic_loss=some,
        cost_range=(0, 100),
        policy=policy,
    )


def test_ten_actions_have_ten_colours():
    figure = made_up(np.full((3, 10), 0.1)).plot()
    for axes in figure.axes[1:]:
        assert len({to_hex(line.get_color()) for line in axes.get_lines()}) == 10


def test_of_many_actions_those_that_are_played_have_colours():
    policy = np.zeros((9, 25))
    policy[:8, 10:20] = 0.1
    policy[8, 22] = 1  # the decision
    figure = made_up(policy).plot()
    assert legend(figure) == [*(f"action {a}" for a in range(10, 19)), "action 22", "15 others"]
    for axes in figure.axes[1:]:
        colours = [to_hex(line.get_color()) for line in axes.get_lines()]
        assert len(set(colours[:15])) == 1  # grey, below the others
        assert len(set(colours)) == 11


def test_it_prints_as_a_short_table():
    explanation = made_up([[0.5, 0.5], [0.25, 0.75], [0.125, 0.875]])
    assert str(explanation).splitlines() == [
        "2 past rounds in 2 steps",
        "action       cost  bonus probability",
        "     0      66.67  0.667      0.1250",
        "     1      100.0  1.000      0.8750",
    ]


def test_of_many_actions_it_prints_the_most_probable():
    lines = str(made_up([np.full(100, 0.01), [0.0025] * 80 + [0.04] * 20])).splitlines()
    assert len(lines) == 23
    assert lines[2].split() == ["80", "80.81", "0.808", "0.0400"]
    assert lines[-1] == "and 80 less probable actions, 0.2000 in all"


def test_a_context_without_actions_is_refused():
    with pytest.raises(ValueError, match="the context has no actions to choose from"):
        opo_cmab.explain(trained("-q sa"), ["shared |s a"])


@pytest.mark.parametrize(("method", "module"), [("to_frame", "pandas"), ("plot", "matplotlib.figure")])
def test_without_its_package_it_says_what_to_install(method, module, monkeypatch):
    explanation = made_up([[0.5, 0.5], [0.25, 0.75]])
    monkeypatch.setitem(sys.modules, module, None)  # as if it was not there
    package = module.split(".")[0]
    with pytest.raises(ImportError, match=rf'^{method} needs {package}: pip install "vw-opo-cmab\[explain\]"$'):
        getattr(explanation, method)()


@pytest.mark.parametrize(
    ("arguments", "example"), [("--cb_explore_adf", ["| a", "| b"]), ("--cbify 2 --cb_explore_adf --opo_cmab", "1 | a")]
)
def test_other_workspaces_cannot_be_explained(arguments, example):
    with pytest.raises((RuntimeError, TypeError), match="can be explained"):
        opo_cmab.explain(Workspace(f"{arguments} --quiet"), example)
