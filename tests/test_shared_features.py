"""What all actions of a round share is left out of the regression where crossed features say the same."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose
from opo_cmab.reference import policies
from vowpalwabbit import Workspace

from tests.helpers.streams import GD, random_rounds, run, without_labels, write
from tests.test_costs import CROSSED, LOGISTIC, OPO, SETTINGS, stock_on_mapped_costs
from tests.test_opo_cmab import MODELS

LEARN = "--cb_shared_features learn"
EXPLORERS = ["--opo_cmab", "--fastcb", "--adacb"]

# Ours, and what it is in stock VW.
LEFT_OUT = {
    "-q sa": CROSSED,
    "-q as": "-q as --ignore_linear s --noconstant",
    "-q ::": "-q sa -q aa --ignore_linear s --noconstant",
    "-q ss -q sa --cubic sas": "-q sa --cubic ssa --ignore_linear s --noconstant",
    "-q sa --cubic ssa --cubic sss": "-q sa --cubic ssa --ignore_linear s --noconstant",
    "-q sa --ftrl": f"{CROSSED} --ftrl",
    "-q sa --noconstant": CROSSED,
}
ALL_LEARNT = {
    "nothing is crossed": ("", ""),
    "only the actions are crossed": ("-q aa", "-q aa"),
    "only by three": ("--cubic ssa", "--cubic ssa"),
    "the actions by themselves are not learnt": ("-q sa --ignore_linear a", "-q sa --ignore_linear a"),
    "a constant of one's own": ("-q sa --constant 0.5", "-q sa --constant 0.5"),
    "as asked": (f"-q sa {LEARN}", "-q sa"),
}


def with_features(rounds, change):
    """The rounds with other features of the actions."""

    def changed(line):
        label, bar, features = line.partition("|a")
        return label + bar + change(features) if bar else line

    return [[changed(line) for line in lines] for lines in rounds]


def assert_equals_stock(ours, stock, rounds, flags, stock_flags, logistic=False):
    got = ours(f"{OPO} {flags} {LOGISTIC if logistic else ''}", rounds)
    mapping, mapped, arguments = stock_on_mapped_costs(stock, rounds, stock_flags, logistic)
    for t, predictions in enumerate(stock(arguments, mapped, every_model=True)):
        if mapping.known(t):
            expected = policies(mapping.losses(predictions), **SETTINGS)[-1]
            assert_allclose(got[t], expected, atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize("flags", LEFT_OUT)
def test_it_is_left_out_where_features_of_the_context_are_crossed_with_those_of_actions(ours, stock, flags, logistic):
    assert_equals_stock(ours, stock, random_rounds(1, n=40), flags, LEFT_OUT[flags], logistic)


@pytest.mark.parametrize("case", ALL_LEARNT)
def test_it_is_learnt_where_nothing_else_says_the_same(ours, stock, case):
    assert_equals_stock(ours, stock, random_rounds(2, n=40), *ALL_LEARNT[case])


def numbers_only(rounds):
    return with_features(rounds, lambda features: " " + features.split()[1])


def test_it_is_learnt_if_no_feature_tells_which_action_it_is(ours, stock):
    """A feature with the value 1 stands for the action. Where actions have numbers only, the constant is needed."""
    rounds = numbers_only(random_rounds(3, n=40))
    assert_equals_stock(ours, stock, rounds, "-q sa", "-q sa")


def ids_only(rounds):
    return with_features(rounds, lambda features: " " + features.split()[0])


@pytest.mark.parametrize(
    ("flags", "stock_flags"),
    [
        ("-q ::", CROSSED),
        ("-q aa -q as", "-q as --ignore_linear s --noconstant"),
        ("-q :: --cubic :::", "-q sa --cubic ssa --ignore_linear s --noconstant"),
        ("-q sa --cubic asa", CROSSED),
        ("--cubic asa --cubic ssa -q sa", "--cubic ssa -q sa --ignore_linear s --noconstant"),
        (f"-q sa -q aa {LEARN}", "-q sa -q aa"),
        ("-q sa -q aa --ignore_linear a", "-q sa -q aa --ignore_linear a"),
    ],
)
def test_the_square_of_an_id_is_left_out(ours, stock, flags, stock_flags):
    """It is the same feature once more. Where the id by itself is not learnt, its square is."""
    assert_equals_stock(ours, stock, ids_only(random_rounds(25, n=40)), flags, stock_flags)


def test_squares_are_learnt_from_the_first_action_with_more_than_an_id_on(ours):
    rounds = ids_only(random_rounds(26, n=60))
    rounds[30] = random_rounds(26, n=31)[30]
    with_squares = f"{CROSSED} -q aa {LEARN}"
    got, without, always = (ours(f"{OPO} {flags}", rounds) for flags in ("-q ::", CROSSED, with_squares))
    assert got[:30] == without[:30]
    assert got[31:] != without[31:]
    assert got[:30] != always[:30]


def with_tags(rounds, most):
    """Each action gets 1 to `most` tags for its id, always the same."""
    rng = np.random.default_rng(0)
    tags = {f"id{i}": rng.choice(12, size=1 + i % most, replace=False) for i in range(8)}
    return with_features(rounds, lambda features: " " + " ".join(f"tag{t}" for t in tags[features.split()[0]]))


def test_it_is_learnt_if_actions_have_different_numbers_of_tags(ours, stock):
    """The weights of tags make up for a constant only if each action has the same number of them."""
    assert_equals_stock(ours, stock, with_tags(random_rounds(16, n=40), most=3), "-q sa", "-q sa")


def test_it_is_left_out_if_actions_have_the_same_number_of_tags(ours, stock):
    rounds = with_features(
        random_rounds(16, n=40), lambda features: f"{features} kind{int(features.split()[0][2:]) % 3}"
    )
    assert_equals_stock(ours, stock, rounds, "-q sa", CROSSED)


def test_it_is_learnt_from_the_first_action_without_such_a_feature_on(ours):
    """Before it, decisions are those without what is shared; after it, VW's usual regression goes on from there."""
    rounds = random_rounds(4, n=60)
    rounds[30] = numbers_only(rounds[30:31])[0]
    got = ours(f"{OPO} -q sa", rounds)
    left_out = ours(f"{OPO} {CROSSED}", rounds)
    assert got[:30] == left_out[:30]
    assert all(p != q for p, q in zip(got[35:], left_out[35:], strict=True) if len(p) > 1)


def test_once_something_was_not_crossed_all_is_learnt_from_then_on(ours):
    """Else rounds with and without it would learn the same crossed weights as parts of two different regressions."""
    rounds = random_rounds(18)
    for lines in rounds[::2]:
        lines[0] += " |v v1"
    assert ours(f"{OPO} -q sa", rounds) == ours(f"{OPO} -q sa {LEARN}", rounds)


def test_rounds_in_which_nothing_is_shared_decide_nothing(ours):
    rounds = random_rounds(24)
    rounds[:20] = [lines[1:] for lines in rounds[:20]]
    flags = f"{OPO} -q sa --noconstant"
    assert ours(flags, rounds) == ours(f"{flags} --ignore_linear s", rounds)


def weight_names(vw, tmp_path, rounds, arguments):
    inverted = tmp_path / "inverted"
    vw(f"-d {write(tmp_path / 'data', rounds)} {arguments} --invert_hash {inverted}")
    return set(re.findall(r"^(\S+):\d+:", inverted.read_text(), re.MULTILINE))


def learnt(vw, tmp_path, rounds, arguments):
    """The namespaces and interactions that have weights."""
    names = weight_names(vw, tmp_path, rounds, arguments)
    return {"*".join(part.split("^")[0] for part in name.split("*")) for name in names}


def test_rounds_of_one_action_before_all_others_do_not_have_shared_features_learnt(vw, tmp_path):
    rounds = ids_only([*random_rounds(19, n=20, actions=(1, 1)), *random_rounds(20, n=20)])
    assert learnt(vw, tmp_path, rounds, f"{OPO} -q sa") == {"a", "s*a"}
    assert learnt(vw, tmp_path, rounds, f"{OPO} -q sa {LEARN}") == {"a", "s", "s*a", "Constant"}


@pytest.mark.parametrize("flags", ["-q sa -q aa", "-q ::"])
def test_interactions_that_rounds_without_a_choice_have_learnt_are_learnt_from_then_on(vw, tmp_path, flags):
    rounds = ids_only([*random_rounds(19, n=1, actions=(1, 1)), *random_rounds(20, n=40)])
    names = weight_names(vw, tmp_path, rounds, f"{OPO} {flags}")
    ids = {name for name in names if name.startswith("a^") and "*" not in name}
    assert len(ids) > 4
    assert {f"{name}*{name}" for name in ids} <= names
    assert ("s^x1*s^x2" in names) == (flags == "-q ::")


def test_a_context_that_begins_with_one_feature_is_not_taken_for_an_id(ours, stock):
    """Squares are left out of ids of actions only."""
    rounds = ids_only(random_rounds(30, n=40))
    flat = [[f"{line} {lines[0].removeprefix('shared ')}" for line in lines[1:]] for lines in rounds]
    flat[0] = [line.partition("|s")[0] + "|s x0" for line in flat[0]]
    stock_flags = "-q sa --cubic ssa --ignore_linear s --noconstant"
    assert_equals_stock(ours, stock, flat, "-q sa --cubic ssa", stock_flags)
    first = [[line.replace("|a", "|s x0 |a").rpartition(" |s")[0] for line in flat[0]], *flat[1:]]
    assert_equals_stock(ours, stock, first, "-q sa --cubic ssa", stock_flags)


def test_a_model_of_format_6_continues_to_learn_interactions_of_the_context(vw, tmp_path):
    """It was trained with -q ::, and has weights of them: a new model has none."""
    rounds, saved = random_rounds(27, n=20), tmp_path / "model"
    old = f"-i {MODELS / 'v6-wildcard.model'}"
    assert "s*s" in learnt(vw, tmp_path, rounds, f"{old} -f {saved}")
    assert "s*s" in learnt(vw, tmp_path, rounds, f"-i {saved}")  # now of a later format
    assert learnt(vw, tmp_path, rounds, f"{OPO} -q ::") == {"a", "a*a", "a*s"}


def test_actions_that_all_have_the_same_features_do_not_make_these_shared(ours, stock):
    """In some rounds a namespace is the same for all actions by chance, and for one action it always is."""
    rounds = random_rounds(5, n=60, actions=(1, 3))
    rounds[20] = with_features(rounds[20:21], lambda _: " id1 v:0.5")[0]
    assert sum(len(lines) == 2 for lines in rounds[1:]) > 5
    first = next(t for t, lines in enumerate(rounds) if len(lines) > 2)
    assert_equals_stock(ours, stock, rounds[first:], "-q sa", CROSSED)


def test_without_a_shared_line_features_that_all_actions_have_are_shared_too(ours):
    rounds = random_rounds(6, n=40)
    flat = [[f"{line} {lines[0].removeprefix('shared ')}" for line in lines[1:]] for lines in rounds]
    for p, q in zip(ours(f"{OPO} -q sa", rounds), ours(f"{OPO} -q sa", flat), strict=True):
        assert_allclose(p, q, atol=1e-6)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_each_of_our_explorers_does_it(ours, explorer):
    rounds = random_rounds(7, n=60)
    arguments = f"--cb_explore_adf {explorer} --random_seed 1"
    assert ours(f"{arguments} -q sa", rounds) == ours(f"{arguments} {CROSSED}", rounds)
    assert ours(f"{arguments} -q sa", rounds) != ours(f"{arguments} -q sa {LEARN}", rounds)


def test_a_learner_that_is_not_linear_learns_all(ours):
    rounds = random_rounds(8, n=40)
    fastcb = "--cb_explore_adf --fastcb -q sa --nn 2 --random_seed 1"
    assert ours(fastcb, rounds) == ours(f"{fastcb} {LEARN}", rounds)


def test_raw_costs_are_learnt_as_vw_does_unless_asked(ours):
    rounds = random_rounds(9, n=40)
    raw = f"{OPO} -q sa --cb_cost_unit raw --cb_min_cost 0 --cb_max_cost 1"
    assert ours(raw, rounds) == ours(f"{raw} {LEARN}", rounds)
    assert ours(f"{raw} --cb_shared_features auto", rounds) == ours(f"{raw} --ignore_linear s --noconstant", rounds)


@pytest.mark.parametrize("split", [1, 15, 29])
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_a_saved_model_remembers_what_it_saw_of_the_actions(ours, tmp_path, explorer, split):
    """Rounds of one action look as if all was shared: only the memory tells that it is not."""
    rounds = [*random_rounds(10, n=25, actions=(2, 4)), *random_rounds(11, n=20, actions=(1, 1))]
    arguments = f"--cb_explore_adf {explorer} -q sa"
    whole = run(arguments, rounds, save=str(tmp_path / "whole"))
    first = run(arguments, rounds[:split], save=str(tmp_path / "model"))
    rest = run(f"-i {tmp_path / 'model'}", rounds[split:], save=str(tmp_path / "both"))
    assert first + rest == whole
    one, other = (Workspace(f"-i {tmp_path / name} -t --quiet") for name in ("whole", "both"))
    for lines in without_labels(random_rounds(12, n=10)):
        assert one.predict(lines) == other.predict(lines)


def test_predicting_alone_changes_nothing(ours):
    rounds = random_rounds(13, n=30)
    strange = ["shared |s x0:1", "|a v:0.5", "|a v:0.25"]  # learnt from, all would be learnt from then on
    with Workspace(f"{OPO} -q sa --quiet") as workspace:
        got = []
        for lines in rounds:
            workspace.predict(strange)
            got.append(list(workspace.predict(lines)))
            workspace.learn(lines)
    assert got == ours(f"{OPO} -q sa", rounds)


def test_the_ignored_namespaces_of_the_user_are_ignored_too(ours, stock):
    rounds = [[f"{lines[0]} |t t{t % 3}", *lines[1:]] for t, lines in enumerate(random_rounds(14, n=40))]
    flags = "-q sa -q ta --ignore_linear t"
    assert_equals_stock(ours, stock, rounds, flags, f"{flags} --ignore_linear s --noconstant")
    rounds[0] = numbers_only(rounds[:1])[0]  # from here on, what is shared is learnt
    assert_equals_stock(ours, stock, rounds, flags, flags)


def test_a_namespace_that_the_user_ignores_need_not_be_crossed(ours):
    rounds = [[f"{lines[0]} |t t{t % 3}", *lines[1:]] for t, lines in enumerate(random_rounds(21, n=40))]
    assert ours(f"{OPO} -q sa --ignore_linear t", rounds) == ours(
        f"{OPO} -q sa --ignore_linear t s --noconstant", rounds
    )


@pytest.mark.parametrize("model", ["of VW", "v5-default"])
def test_a_model_that_has_learnt_shared_features_continues_to(ours, stock, tmp_path, model):
    rounds = random_rounds(22, n=20)
    path = MODELS / f"{model}.model"
    if model == "of VW":
        path = tmp_path / "model"
        stock("--cb_explore_adf -q sa", rounds, save=str(path))
    start = f"-i {path} --cb_explore_adf --opo_cmab --cb_cost_unit range"
    assert ours(start, rounds) == ours(f"{start} {LEARN}", rounds)
    with pytest.raises(RuntimeError, match="leave out --cb_shared_features auto"):
        ours(f"{start} --cb_shared_features auto", rounds)


@pytest.mark.parametrize(("flags", "expected"), [("-q sa", True), ("", False)])
def test_the_metrics_say_whether_they_are_left_out(vw, tmp_path, flags, expected):
    metrics = tmp_path / "metrics"
    vw(f"-d {write(tmp_path / 'data', random_rounds(23, n=10))} {OPO} {flags} --extra_metrics {metrics}")
    assert json.loads(metrics.read_text())["cb_shared_features"]["cb_leaves_out_shared_features"] is expected


NOT_CROSSED = "No interaction (-q) crosses the features of the context with those of the actions"


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_who_forgets_to_cross_the_context_with_the_actions_is_told_once(vw, tmp_path, explorer):
    data = write(tmp_path / "data", random_rounds(23, n=10))
    result = vw(f"-d {data} --cb_explore_adf {explorer}")
    message = result.stdout + result.stderr
    assert message.count(NOT_CROSSED) == 1
    assert "Add -q sa or -q ::." in message


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_who_has_context_and_actions_in_one_namespace_is_told_to_use_two(vw, tmp_path, explorer):
    rounds = [[line.replace("|s", "|").replace("|a", "|") for line in lines] for lines in random_rounds(23, n=10)]
    data = write(tmp_path / "data", rounds)
    result = vw(f"-d {data} --cb_explore_adf {explorer}")
    assert (result.stdout + result.stderr).count("Use two namespaces, such as |U and |A, and add -q UA.") == 1
    result = vw(f"-d {data} --cb_explore_adf {explorer} -q ::")
    assert "Use two namespaces" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("flags", "change"),
    [
        ("-q sa", lambda lines: lines),
        ("-q ::", lambda lines: lines),
        ("--cubic ssa", lambda lines: lines),
        ("-t", lambda lines: lines),
        ("", lambda lines: lines[1:]),  # there is no context
        ("", lambda lines: [lines[0], next(line for line in lines if line[0].isdigit())]),  # there is no choice
    ],
)
def test_who_crosses_them_or_has_nothing_to_cross_is_not_told(vw, tmp_path, flags, change):
    data = write(tmp_path / "data", [change(lines) for lines in random_rounds(23, n=10)])
    result = vw(f"-d {data} {OPO} {flags}")
    assert "cannot change which action" not in result.stdout + result.stderr


def test_automl_tries_other_interactions_in_each_of_its_models(vw, tmp_path):
    """They are as many in each: what is left out must not depend on their number alone."""
    rounds = [[f"{lines[0]} |t t{t % 3}", *lines[1:]] for t, lines in enumerate(random_rounds(17, n=200))]
    data = write(tmp_path / "data", rounds)
    automl = "--automl 7 --oracle_type one_diff --priority_type none"
    sizes = []
    for mode in ("auto", "learn"):
        model = tmp_path / mode
        vw(f"-d {data} --cb_explore_adf --fastcb {automl} --cb_shared_features {mode} --readable_model {model}")
        weights = [line for line in model.read_text().splitlines() if line.split(":")[0].isdigit()]
        by_model = Counter(int(line.split(":")[0]) % 8 for line in weights)
        sizes.append(len(set(by_model.values())))
    assert min(sizes) > 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--opo_cmab --opo_paper --cb_shared_features auto",
            "--opo_paper implies --cb_shared_features learn, not auto",
        ),
        ("--squarecb --cb_shared_features auto", "--cb_shared_features needs --opo_cmab, --fastcb or --adacb"),
        ("--opo_cmab --cb_shared_features all", "cb_shared_features"),
    ],
)
def test_what_does_not_go_together_is_said(vw, tmp_path, flags, message):
    data = write(tmp_path / "data", random_rounds(15, n=3))
    result = vw(f"-d {data} --cb_explore_adf {flags}", check=False)
    assert result.returncode != 0
    assert message in result.stdout + result.stderr


def test_vw_s_tutorial_gets_more_clicks():
    """The purpose: what is learnt from one topic does not move the predictions for all others."""
    topics = ["politics", "sports", "music", "food", "finance", "health", "camping"]
    likes = {("Tom", 0): "politics", ("Tom", 1): "music", ("Anna", 0): "sports", ("Anna", 1): "politics"}

    def clicks(flags, seed):
        rng = np.random.default_rng(seed)
        total = 0
        with Workspace(f"--cb_explore_adf --opo_cmab {GD} -q UA {flags} --quiet") as vw:
            for _ in range(600):
                user, time = list(likes)[rng.integers(len(likes))]
                lines = [f"shared |User user={user} time={time}", *(f"|Action topic={topic}" for topic in topics)]
                p = np.array(vw.predict(lines))
                a = rng.choice(len(p), p=p / p.sum())
                clicked = topics[a] == likes[user, time]
                total += clicked
                lines[a + 1] = f"0:{-int(clicked)}:{p[a]} {lines[a + 1]}"
                vw.learn(lines)
        return total

    assert sum(clicks("", seed) for seed in range(8)) > sum(clicks(LEARN, seed) for seed in range(8))


@pytest.mark.parametrize("explorer", ["--fastcb", "--adacb"])
def test_a_learner_without_weights_is_not_asked_for_any(vw, tmp_path, explorer):
    data, predicted = write(tmp_path / "data", random_rounds(60, n=5)), tmp_path / "predicted"
    vw(f"-d {data} --cb_explore_adf {explorer} -q sa --noop -p {predicted}")
    rounds = [[float(word.split(":")[1]) for word in line.split(",")] for line in predicted.read_text().split()]
    assert len(rounds) == 5
    for probabilities in rounds:  # it predicts the same for all actions
        assert_allclose(probabilities, 1 / len(probabilities), atol=1e-6)
