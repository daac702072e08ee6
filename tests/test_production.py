"""Warm start, delayed costs, several processes: docs/production.md, and that what it says is right."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from opo_cmab.reference import policies
from vowpalwabbit import Workspace

from tests.helpers.streams import GD, random_rounds, without_labels, write
from tests.test_costs import CROSSED, LOGISTIC, OPO, SETTINGS, stock_on_mapped_costs

PAGE = (Path(__file__).parent.parent / "docs" / "production.md").read_text()
USERS, ARTICLES = 4, 6


# -- warm start -------------------------------------------------------------------------------------------------------


def click_rates(seed):
    """Each user likes one article."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.1, 0.4, size=(USERS, ARTICLES))
    rates[np.arange(USERS), rng.integers(ARTICLES, size=USERS)] = 0.7
    return rates


def play(workspace, rates, seed, n):
    """Rounds as they are logged, and the regret."""
    rng = np.random.default_rng(seed)
    log, regret = [], 0.0
    for _ in range(n):
        user = rng.integers(USERS)
        lines = [f"shared |User u{user}", *(f"|Article a{article}" for article in range(ARTICLES))]
        p = np.array(workspace.predict(lines))
        action = rng.choice(ARTICLES, p=p / p.sum())
        regret += rates[user].max() - rates[user, action]
        cost = -1 if rng.uniform() < rates[user, action] else 0
        lines[action + 1] = f"0:{cost}:{p[action]} {lines[action + 1]}"
        workspace.learn(lines)
        log.append(lines)
    return log, regret


@pytest.mark.parametrize("explorer", ["--opo_cmab", "--fastcb", "--adacb"])
@pytest.mark.parametrize("epsilon", [1.0, 0.1], ids=["uniform", "epsilon-greedy"])
def test_a_log_of_another_explorer_gives_a_head_start(vw, tmp_path, epsilon, explorer):
    warm, cold = [], []
    for seed in range(5):
        rates, model = click_rates(seed), tmp_path / "model"
        with Workspace(f"--cb_explore_adf --epsilon {epsilon} -q UA --quiet") as logging:
            log, _ = play(logging, rates, [seed, 0], 600)
        vw(f"-d {write(tmp_path / 'log', log)} --cb_explore_adf {explorer} -q UA -f {model}")
        with Workspace(f"-i {model} --quiet") as workspace:
            warm.append(play(workspace, rates, [seed, 1], 300)[1])
        with Workspace(f"--cb_explore_adf {explorer} -q UA --quiet") as workspace:
            cold.append(play(workspace, rates, [seed, 1], 300)[1])
    assert np.mean(warm) < 0.6 * np.mean(cold)


def test_the_counts_after_a_warm_start_are_those_of_the_replay_not_of_the_log():
    """A log that shows one action only: the replay has played the other one too."""
    from opo_cmab import explain

    lines = ["shared |s x", "|a b", "|a c"]
    with Workspace(f"--cb_explore_adf --opo_cmab {GD} --quiet") as workspace:
        for k in range(30):
            workspace.learn(["shared |s x", f"0:{k % 2}:1 |a b", "|a c"])
        explanation = explain(workspace, lines)
    played = explanation.policy[:-1].sum(axis=0)
    assert explanation.rounds.sum() == 30
    assert played.sum() == pytest.approx(30)
    assert played[1] > 1  # though it was never shown


# -- delayed costs ----------------------------------------------------------------------------------------------------


def delayed(rounds, seed):
    """Decisions and costs as they come: a cost up to 20 decisions later, in any order; a few never."""
    rng = np.random.default_rng(seed)
    due = [(t + rng.integers(1, 20), t) for t in range(len(rounds)) if rng.uniform() < 0.9]
    questions = without_labels(rounds)
    for t in range(len(rounds) + 20):
        if t < len(rounds):
            yield questions[t], None
        for _, arrived in sorted(d for d in due if d[0] == t):
            yield questions[arrived], rounds[arrived]


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
def test_costs_that_come_later_are_learnt_in_the_order_in_which_they_come(stock, logistic):
    events = list(delayed(random_rounds(1, n=50, costs=(-3.0, 40.0)), seed=1))
    with Workspace(f"{OPO} -q sa --quiet {LOGISTIC if logistic else ''}") as workspace:
        got = []
        for question, answer in events:
            got.append(workspace.predict(question))
            if answer is not None:
                workspace.learn(answer)
    rounds = [answer or question for question, answer in events]
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, CROSSED, logistic)
    for t, predictions in enumerate(stock(arguments, mapped, every_model=True)):
        if mapping.known(len(predictions) - 1):
            assert_allclose(got[t], policies(mapping.losses(predictions), **SETTINGS)[-1], atol=1e-4, err_msg=f"{t}")
    assert len(predictions) > 41


@pytest.mark.parametrize("explorer", ["--opo_cmab", f"--opo_cmab {LOGISTIC}", "--fastcb"])
def test_a_process_that_decides_and_one_that_learns_are_as_one(vw, tmp_path, explorer):
    """The learning process is the program, on a file of what has come since; the deciding one loads what it saved."""
    events = list(delayed(random_rounds(2, n=60), seed=2))
    model = tmp_path / "model"
    vw(f"--no_stdin --cb_explore_adf {explorer} -q sa -f {model}")
    with Workspace(f"--cb_explore_adf {explorer} -q sa --quiet") as one:
        for first in range(0, len(events), 25):
            batch = events[first : first + 25]
            with Workspace(f"-i {model} -t --quiet") as deciding:
                assert [deciding.predict(question) for question, _ in batch] == [one.predict(q) for q, _ in batch]
            answers = [answer for _, answer in batch if answer is not None]
            vw(f"-d {write(tmp_path / 'log', answers)} -i {model} -f {tmp_path / 'next'}")
            (tmp_path / "next").rename(model)
            for answer in answers:
                one.learn(answer)


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_commands_and_the_code_of_the_page_run_in_order(tmp_path):
    """As they are written, from top to bottom, in one directory."""
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    write(tmp_path / "log.txt", random_rounds(3, n=200))
    write(tmp_path / "new.txt", random_rounds(4, n=50))
    path = f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n"
    code = []
    for language, block in blocks:
        if language == "python":  # each goes on with the names of those before
            code.append(block)
            command = [sys.executable, "-c", "\n".join(code)]
        else:
            command = ["sh", "-ec", path + block]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, block + result.stdout + result.stderr
