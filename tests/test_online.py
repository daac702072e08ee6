"""The online problems: their expected costs are right, and runs can be stopped and resumed."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from benchmarks.online import __main__ as online
from benchmarks.online import explorers, report, simulate
from benchmarks.online.family import Params
from benchmarks.online.problems import FAMILIES, FAMILY_GROUPS, SPLITS, Split, draw_params, make_problem
from benchmarks.shared import bandit


def small(family: str, split: Split = "choose", rounds: int = 60) -> Params:
    return draw_params(family, split, 0) | {"rounds": rounds}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_problem_is_known_by_its_seed(family, split):
    first, same, other = (make_problem(family, small(family, split), split, seed) for seed in (3, 3, 4))
    assert first.shared == same.shared
    assert first.actions == same.actions
    assert all(np.array_equal(a, b) for a, b in zip(first.costs, same.costs, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(first.expected, same.expected, strict=True))
    assert first.shared != other.shared


@pytest.mark.parametrize("family", FAMILIES)
def test_the_splits_share_no_problem(family):
    params = small(family)
    one, other = (make_problem(family, params, split, 0) for split in SPLITS)
    assert one.shared != other.shared
    if any(isinstance(choice, tuple | list) for choice in FAMILIES[family].ranges.values()):
        drawn = [[draw_params(family, split, seed) for seed in range(20)] for split in SPLITS]
        assert drawn[0] != drawn[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_seed_draws_its_parameters_within_their_ranges(family):
    def within(value, choice):
        if isinstance(choice, list):
            return all(map(within, value, choice))
        return choice[0] <= value <= choice[1] if isinstance(choice, tuple) else value == choice

    ranges = FAMILIES[family].ranges
    drawn = [draw_params(family, "choose", seed) for seed in range(60)]
    assert drawn[:3] == [draw_params(family, "choose", seed) for seed in range(3)]
    for params in drawn:
        assert set(params) == set(ranges)
        assert all(within(params[name], choice) for name, choice in ranges.items())
    for name, choice in ranges.items():
        if isinstance(choice, tuple) and isinstance(choice[0], int) and choice[1] - choice[0] < 6:
            assert {params[name] for params in drawn} == set(range(choice[0], choice[1] + 1))
    assert FAMILIES["few"].described() == (
        "rounds 120, users 2 to 3, articles 3 to 5, best 0.75 to 0.9, others [0.1 to 0.2, 0.2 to 0.3]"
    )


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("family", FAMILIES)
def test_expected_costs_are_those_of_the_samples(family, split):
    problem = make_problem(family, small(family, split, 4000), split, 0)
    expected, costs = np.concatenate(problem.expected), np.concatenate(problem.costs)
    deviation = (costs - expected) / max(costs.std(), 1e-9)
    assert abs(deviation.mean()) < 4 / np.sqrt(len(costs)) * max(deviation.std(), 1e-9) + 1e-12
    high = expected > np.median(expected)  # and so they are among the dear ones alone
    if high.any():
        assert abs(deviation[high].mean()) < 5 / np.sqrt(high.sum())


@pytest.mark.parametrize("family", FAMILIES)
def test_lines_arrays_and_costs_fit_together(family):
    problem = make_problem(family, small(family), "choose", 0)
    assert len(problem.shared) == len(problem.actions) == len(problem.expected) == problem.rounds == 60
    for t in range(problem.rounds):
        assert len(problem.actions[t]) == len(problem.expected[t]) == len(problem.costs[t])
        assert len(set(problem.actions[t])) == len(problem.actions[t])
        assert problem.items is None or len(problem.items[t]) == len(problem.costs[t])
    assert (problem.contexts is None) == (family == "texts")
    if problem.contexts is not None:
        assert len(problem.contexts) == 60
        assert len({tuple(x) for x in problem.contexts}) == len(set(problem.shared))
    low, high = problem.cost_range()
    assert FAMILIES[family].other_unit == (low < -1 or high > 1)


def test_half_way_the_best_article_changes():
    problem = make_problem("change", draw_params("change", "choose", 0), "choose", 0)
    liked: list[dict[str, int]] = [{}, {}]
    for t in range(problem.rounds):
        best = liked[t >= problem.rounds // 2].setdefault(problem.shared[t], problem.expected[t].argmin())
        assert best == problem.expected[t].argmin()
    assert all(liked[0][context] != liked[1][context] for context in liked[0])


def test_articles_come_and_go():
    problem = make_problem("news", small("news", rounds=2600), "choose", 0)
    params = draw_params("news", "choose", 0)
    seen = list(dict.fromkeys(line for offer in problem.actions for line in offer))
    assert len(seen) == params["articles"]
    for line in seen:  # on offer in rounds one after the other
        offered = [t for t, offer in enumerate(problem.actions) if line in offer]
        assert offered == list(range(offered[0], offered[-1] + 1))
        assert len(offered) < problem.rounds
    assert {len(offer) for offer in problem.actions} == {params["offered"]}


def test_crossed_contexts_change_half_way_for_everybody():
    params = draw_params("crossed", "choose", 0)
    problem = make_problem("crossed", params, "choose", 0)
    liked: list[dict[str, int]] = [{}, {}]
    for t, line in enumerate(problem.shared):
        user, time, both = (part.partition("=")[2] for part in line.split()[2:])
        assert both == f"{user}^{time}"
        best = problem.expected[t].argmin()
        assert liked[t >= problem.rounds // 2].setdefault(both, best) == best
    assert all((liked[0][both] + 1) % params["articles"] == liked[1][both] for both in liked[0])


def test_the_words_of_a_text_tell_its_expected_costs():
    params = small("texts", rounds=3000) | {"topical": 0.5, "lengths": [30, 60], "best": 0.9, "other": 0.1}
    problem = make_problem("texts", params, "choose", 0)
    words = [line.split()[2:] for line in problem.shared]
    assert all(30 <= len(text) <= 60 for text in words)
    assert len({word for text in words for word in text}) < params["vocabulary"]
    expected = np.array(problem.expected)
    assert expected.min() >= -0.9 - 1e-9
    assert expected.max() <= -0.1 + 1e-9
    assert (expected.min(axis=1) < -0.85).mean() > 0.9  # long texts of clear topics
    without = np.array(make_problem("texts", params | {"topical": 0.0}, "choose", 0).expected)
    assert np.ptp(without, axis=0) == pytest.approx(0, abs=1e-9)  # words that tell nothing


@pytest.mark.parametrize("family", ["embeddings", "item_embeddings"])
def test_costs_of_embeddings_are_linear_in_what_is_crossed(family):
    problem = make_problem(family, small(family, rounds=2500), "choose", 0)
    x = problem.dense_contexts()
    assert np.linalg.norm(x, axis=1) == pytest.approx(1)
    if family == "embeddings":
        features, expected = np.column_stack([x, np.ones(len(x))]), np.array(problem.expected)
    else:
        z = np.array([items[0] for items in problem.items])
        features = np.column_stack([np.einsum("ti,tj->tij", x, z).reshape(len(x), -1), z, np.ones(len(x))])
        expected = np.array([costs[0] for costs in problem.expected])
    weights = np.linalg.lstsq(features, expected)[0]
    assert features @ weights == pytest.approx(expected, abs=1e-9)
    assert 0 <= min(map(np.min, problem.costs)) <= max(map(np.max, problem.costs)) <= 1


def test_a_crowd_has_many_users_with_few_rounds_each():
    params = draw_params("crowd", "choose", 0)
    problem = make_problem("crowd", params, "choose", 0)
    rounds_of = Counter(line.split()[2] for line in problem.shared)
    assert len(rounds_of) == params["users"]
    assert set(rounds_of.values()) <= set(range(5, 11))
    assert len(set(problem.shared)) == params["users"]  # traits belong to the user
    assert {len(line.split()) for line in problem.shared} == {2 + 1 + 3}


def test_ads_live_for_a_while_and_new_ones_have_known_traits():
    params = draw_params("ads", "choose", 0)
    problem = make_problem("ads", params, "choose", 0)
    lives: dict[str, list[int]] = {}
    for t, offer in enumerate(problem.actions):
        for line in offer:
            lives.setdefault(line, []).append(t)
    shortest, longest = params["lives"]
    for rounds in lives.values():
        assert len(rounds) == rounds[-1] - rounds[0] + 1 <= longest
        if rounds[0] > 0 and rounds[-1] < problem.rounds - 1:
            assert len(rounds) >= shortest
    assert len({line.split()[2] for line in lives if line.split()[1] != "ad=0"}) <= params["brands"]
    starts = Counter(rounds[0] for rounds in lives.values())
    assert max(count for t, count in starts.items() if t > 0) >= 2  # several new ads in one round


def test_real_problems_show_each_row_once_a_pass():
    problem = make_problem("real_wine", draw_params("real_wine", "choose", 0), "choose", 0)
    first, second = problem.shared[:178], problem.shared[178:]
    assert first != second
    assert sorted(first) == sorted(second)
    assert {costs.min() for costs in problem.costs} == {-1}
    doses = make_problem("real_doses", draw_params("real_doses", "choose", 0), "choose", 0)
    assert len({int(costs.argmin()) for costs in doses.costs}) == len(doses.costs[0])


def test_texts_are_refused_by_peers_of_dense_contexts():
    found = play("OPOLearner", "texts", rounds=20)
    assert found["share"] is None
    assert found["unfit"] == "its contexts are dense matrices"


@pytest.mark.parametrize("name", ["LinUCB of MABWiser", "LinUCB of coba", "LinTS of coba"])
@pytest.mark.filterwarnings("ignore")
def test_peers_refuse_problems_that_would_take_them_minutes(name):
    if explorers.engine(explorers.PEERS[name].package) is None:
        pytest.skip(f"no package {explorers.PEERS[name].package}")
    assert play(name, "crowd", rounds=20)["unfit"].startswith("its matrices would have more than ")
    assert play(name, "embeddings", rounds=20)["unfit"] is None


def play(name: str, family: str, rounds: int = 60):
    flags = (explorers.VW_EXPLORERS | explorers.MAPPED_EXPLORERS).get(name)
    (row,) = simulate.plan({name: flags}, [family], "choose", 1, rounds)
    return simulate.run(row)


@pytest.mark.parametrize("family", FAMILIES)
def test_playing_at_random_has_regret_1_and_the_best_action_0(family):
    found = play("uniform", family)
    assert found["error"] is None
    assert found["share"] == pytest.approx(1, abs=1e-4)
    assert found["curve"] == sorted(found["curve"])
    assert found["curve"][-1] == pytest.approx(found["share"], abs=1e-5)
    problem = make_problem(family, small(family), "choose", 0)
    best = [np.eye(len(c))[c.argmin()] for c in problem.expected]
    assert problem.regret(best).sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", explorers.VW_EXPLORERS)
def test_explorers_of_vw_play(name):
    for family in ("linear", "items", "delayed"):
        found = play(name, family, rounds=30)
        assert found["error"] is None
        assert 0 <= found["share"] < 3


def test_costs_of_a_batch_are_learnt_after_its_last_decision():
    problem = make_problem("delayed", small("delayed", rounds=250) | {"batch": 100}, "choose", 0)
    events = []

    class Spy:
        def probabilities(self, t):
            events.append(("decide", t))
            return np.full(len(problem.expected[t]), 1 / len(problem.expected[t]))

        def learn(self, t, action, probability, cost):
            assert cost == problem.costs[t][action]
            events.append(("learn", t))

    bandit.play(problem, Spy(), 0)
    batches = [range(100), range(100, 200), range(200, 250)]
    assert events == [(what, t) for batch in batches for what in ("decide", "learn") for t in batch]


@pytest.mark.parametrize("name", explorers.PEERS)
@pytest.mark.filterwarnings("ignore")
def test_peers_play_or_say_why_not(name):
    if explorers.engine(explorers.PEERS[name].package) is None:
        pytest.skip(f"no package {explorers.PEERS[name].package}")
    for family in ("noisy", "items", "units"):
        found = play(name, family, rounds=30)
        assert found["error"] is None
        assert (found["share"] is None) == (found["unfit"] is not None)


def run(tmp_path, *arguments: str) -> str:
    names = ["--families", "certain", "few", "--explorers", "OPO-CMAB", "SquareCB", "uniform", "OPOLearner"]
    online.main(["--seeds", "3", "--rounds", "20", "--jobs", "1", "--out", str(tmp_path), *names, *arguments])
    return (tmp_path / "online.md").read_text()


def without_times(path) -> pd.DataFrame:
    return pd.read_csv(path).drop(columns=["ms_a_round", "seconds"], errors="ignore")


def test_a_run_that_was_killed_goes_on_and_gives_the_same_table(tmp_path, capsys):
    text = run(tmp_path)
    assert text in capsys.readouterr().out
    table = without_times(tmp_path / "online.csv")
    assert list(table["explorer"]) != []
    assert (tmp_path / "online.tex").exists()
    curves, found = pd.read_csv(tmp_path / "online-curves.csv"), pd.read_csv(tmp_path / "online.csv")
    assert list(curves) == ["family", "round", "OPO-CMAB", "SquareCB"]
    ends = curves.groupby("family").last()
    for name in ("OPO-CMAB", "SquareCB"):
        shares = found.set_index("explorer").loc[name, ["certain", "few"]].astype(float)
        assert ends[name].to_dict() == pytest.approx(shares.to_dict(), abs=1e-4)
    assert report.picture(curves, found) == (tmp_path / "online.svg").read_text()
    path = tmp_path / "runs.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == len({simulate.key(json.loads(line)) for line in lines}) == 2 * 3 * 4

    path.write_text("".join(lines[:5]) + lines[5][:30])  # killed while it wrote a line
    run(tmp_path)
    assert len(path.read_text().splitlines()) == 2 * 3 * 4
    pd.testing.assert_frame_equal(without_times(tmp_path / "online.csv"), table)
    before = path.read_text()
    assert run(tmp_path) == (tmp_path / "online.md").read_text()
    assert path.read_text() == before


def test_explorers_can_be_given_by_their_flags(tmp_path):
    flags = "--squarecb --cb_min_cost {low} --cb_max_cost {high}"
    text = run(tmp_path, "--vw-explorer", f"with range={flags}", "--vw-explorer", "greedy=--epsilon 0")
    assert "| with range |" in text
    assert f"`--cb_explore_adf -q UA {flags}`" in text
    assert "| greedy |" in text


def test_a_failure_leaves_a_gap_and_its_reason(tmp_path):
    text = run(tmp_path, "--vw-explorer", "broken=--no_such_flag")
    assert "- broken on certain, few: " in text
    assert "no_such_flag" in text


def test_a_missing_package_is_named_and_the_rest_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(online, "engine", lambda package: None)
    text = run(tmp_path)
    assert "no package vw-opo-cmab" in capsys.readouterr().err
    assert "| SquareCB |" in text
    assert "OPOLearner" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--explorers", "nobody"], "no explorer is called nobody"),
        (["--families", "nothing"], "invalid choice: 'nothing'"),
        (["--split", "test"], "invalid choice: 'test'"),
        (["--seeds", "0"], "not a number from 1 up: '0'"),
        (["--rounds", "-3"], "not a number from 1 up: '-3'"),
        (["--vw-explorer", "--squarecb"], "expected one argument"),
        (["--vw-explorer", "squarecb"], "not of the form NAME=FLAGS: 'squarecb'"),
        (["--vw-explorer", "bag=--bag 3"], "the name is taken: bag"),
    ],
)
def test_bad_arguments_get_a_clear_error(arguments, message, capsys):
    with pytest.raises(SystemExit):
        online.main(arguments)
    assert message in capsys.readouterr().err


def test_the_list_names_families_and_explorers(capsys):
    online.main(["--list"])
    text = capsys.readouterr().out
    assert all(name in text for name in [*FAMILY_GROUPS, *FAMILIES, *explorers.VW_EXPLORERS, *explorers.PEERS])


def test_families_can_be_given_by_their_group(tmp_path):
    names = ["--explorers", "uniform", "--families", "real", "few", "real_wine"]
    online.main(["--seeds", "1", "--rounds", "5", "--jobs", "1", "--out", str(tmp_path), *names])
    assert list(pd.read_csv(tmp_path / "by_family.csv")["family"]) == [*FAMILY_GROUPS["real"], "few"]


def test_the_page_compares_with_squarecb_by_a_bootstrap_over_the_seeds():
    shares = {"OPO-CMAB": [0.1, 0.2, 0.3], "SquareCB": [0.2, 0.4, 0.6]}
    rows = [
        {"explorer": name, "family": family, "seed": seed, "share": share}
        for name, values in shares.items()
        for seed, share in enumerate(values)
        for family in ("few", "noisy")
    ]
    runs = pd.DataFrame(rows)
    assert report.ratio(runs, "OPO-CMAB", "SquareCB") == pytest.approx((0.5, 0.5, 0.5))
    runs.loc[runs["explorer"] == "SquareCB", "share"] += [0.3, 0.3, 0.0, 0.0, 0.0, 0.0]
    found, low, high = report.ratio(runs, "OPO-CMAB", "SquareCB")
    assert found == pytest.approx(0.2 / 0.5)
    assert low == pytest.approx(0.1 / 0.5)  # three times the first seed
    assert high == pytest.approx(0.5)


def test_ranks_and_differences_are_over_what_an_explorer_can_play():
    def row(explorer, family, seed, share):
        return {
            "explorer": explorer,
            "family": family,
            "seed": seed,
            "share": share,
            "params": '{"rounds": 10}',
            "seconds": 1.0,
        }

    found = {"OPO-CMAB": (0.2, 0.4), "SquareCB": (0.1, 0.6), "LinUCB of MABWiser": (0.3, None)}
    rows = [
        row(name, family, seed, None if share is None else share + 0.01 * seed * (name == "SquareCB"))
        for name, both in found.items()
        for family, share in zip(("units", "noisy"), both, strict=True)
        for seed in (-1, 0, 1)
    ]
    table = report.summary(pd.DataFrame(rows)).set_index("explorer")
    assert list(table.index) == ["SquareCB", "OPO-CMAB", "LinUCB of MABWiser"]
    assert table["mean"].round(6).tolist()[:2] == [0.35, 0.3]
    assert np.isnan(table.loc["LinUCB of MABWiser", ["mean", "rank", "without_units", "noisy"]].astype(float)).all()
    assert table["rank"].tolist()[:2] == [1.5, 1.5]
    assert table["rank_common"].tolist() == [1, 2, 3]
    assert table["without_units"].round(6).tolist()[:2] == [0.6, 0.4]
    assert table["difference"].round(6).tolist() == [0.05, 0, 0.1]
    # 0.01 is the standard deviation over three seeds, 4.303 the quantile of Student's t with 2 degrees of freedom
    assert table["half_width"].round(4).tolist() == [round(4.3027 * 0.01 / np.sqrt(3), 4), 0, 0]
