"""--opo_cmab: equal to Algorithm 1 on stock models, resumable, and strict about what it cannot do.

The oracle is made from stock VW: a model is saved before every round, and the recursion runs in NumPy on their
predictions.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from opo_cmab._kernel import bounded_policy, segment_starts
from opo_cmab.reference import policies, policy

from tests.helpers.formulas import sigmoid
from tests.helpers.streams import GD, dsjson, random_rounds, with_probability_one, without_labels, write

MODELS = Path(__file__).parent / "models"
SETTINGS = {"eta": 10.0, "gamma": 0.5, "decay": 1.0}
OPO = "--cb_explore_adf --opo_cmab --opo_paper --opo_eta 10 --opo_gamma 0.5"
RAW = "--cb_cost_unit raw --cb_min_cost 0 --cb_max_cost 1"
LOGISTIC = "--loss_function logistic"

# VW's arguments, and how the stream is made.
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("", {}),
    "quadratic": ("-q sa", {}),
    "wildcard": ("-q ::", {}),
    "cubic": ("--cubic ssa", {}),
    "interactions": ("--interactions ssaa", {}),
    "ignore": ("-q :: --ignore_linear s --ignore z --noconstant", {}),
    "no shared line": ("-q ::", {"shared": False}),
    "changing action sets": ("-q sa", {"actions": (1, 8)}),
    "hash collisions": ("-q :: -b 4", {}),
    "sparse weights": ("-q sa --sparse_weights", {}),
    "initial weight": ("-q sa --initial_weight 0.1", {}),
    "random weights": ("-q sa --random_weights --random_seed 3", {}),
    "ftrl": ("-q sa --ftrl", {}),
    "coin": ("-q sa --coin", {}),
    "pistol": ("-q sa --pistol", {}),
    "plain gradient steps": ("-q sa --sgd -l 0.05", {}),
    "no constant": ("-q sa --noconstant", {}),
}


def oracle(stock, arguments, rounds, *, logistic=False, low=0.0, high=1.0, importance_weighted=False, **settings):
    """Algorithm 1 on the predictions that stock VW's models, one for each past round, make for each context."""
    if logistic:
        arguments += f" {LOGISTIC} --logistic_min {low} --logistic_max {high}"
    if not importance_weighted:
        rounds = with_probability_one(rounds)
    result = []
    for predictions in stock(f"--cb_adf --cb_type mtr {arguments}", rounds, every_model=True):
        actions = len(predictions[-1])
        f = np.array(predictions[:-1], dtype=float).reshape(-1, actions)  # the last is the model of this round
        losses = sigmoid(f) if logistic else (f - low) / (high - low)
        result.append(policies(losses, **settings)[-1])
    return result


def assert_equal(got, expected):
    for t, (p, e) in enumerate(zip(got, expected, strict=True)):
        assert_allclose(p, e, atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize("stream", STREAMS)
def test_probabilities_equal_algorithm_1_on_stock_models(ours, stock, stream, logistic):
    arguments, more = STREAMS[stream]
    rounds = random_rounds(len(stream), n=50, **more)
    got = ours(f"{OPO} {arguments} {LOGISTIC if logistic else ''}", rounds)
    assert_equal(got, oracle(stock, arguments, rounds, logistic=logistic, **SETTINGS))


@pytest.mark.parametrize(
    "settings",
    [
        {"eta": 1.0, "gamma": 2.0, "decay": 1},
        {"eta": 100.0, "gamma": 0.1, "decay": 1},
        {"eta": 5, "beta": 4, "decay": 1},
        {"eta": 10, "gamma": 0.5, "decay": 0.9},
        {"eta": 100, "gamma": 0.1, "decay": 0.5},
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_other_settings_equal_algorithm_1(ours, stock, settings, seed):
    rounds = random_rounds(seed)
    flags = " ".join(f"--opo_{name} {value}" for name, value in settings.items())
    got = ours(f"--cb_explore_adf --opo_cmab --opo_budget 0 {RAW} {flags} -q sa", rounds)
    assert_equal(got, oracle(stock, "-q sa", rounds, **settings))


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
def test_another_cost_range_is_mapped_to_0_1(ours, stock, logistic):
    rounds = random_rounds(4, costs=(-3.0, 2.0))
    got = ours(f"{OPO} --cb_min_cost -3 --cb_max_cost 2 -q sa {LOGISTIC if logistic else ''}", rounds)
    assert_equal(got, oracle(stock, "-q sa", rounds, logistic=logistic, low=-3, high=2, **SETTINGS))


@pytest.mark.parametrize("logistic", [False, True], ids=["squared", "logistic"])
@pytest.mark.parametrize("stream", ["wildcard", "hash collisions", "changing action sets", "ftrl"])
def test_a_budget_replays_the_average_of_stock_models_over_each_segment(ours, stock, stream, logistic):
    arguments, more = STREAMS[stream]
    rounds = random_rounds(len(stream), n=60, **more)
    flags = "--opo_eta 10 --opo_gamma 0.5 --opo_decay 1 --opo_budget 12"
    got = ours(f"--cb_explore_adf --opo_cmab {RAW} {flags} {arguments} {LOGISTIC if logistic else ''}", rounds)
    loss = f"{LOGISTIC} --logistic_min 0 --logistic_max 1" if logistic else ""
    models = stock(f"--cb_adf --cb_type mtr {arguments} {loss}", with_probability_one(rounds), every_model=True)
    for t, predictions in enumerate(models[1:], 1):
        starts = segment_starts(t, budget=12)
        f = np.add.reduceat(np.array(predictions[:-1]), starts[:-1].astype(int)) / np.diff(starts)[:, None]
        expected = bounded_policy(sigmoid(f) if logistic else f, starts, budget=12, **SETTINGS)
        assert_allclose(got[t], expected, atol=1e-4, err_msg=f"round {t}")


def test_a_budget_changes_nothing_until_it_is_used_up_and_then_bounds_the_history(ours, vw, tmp_path):
    rounds = random_rounds(31, n=120)
    arguments = "--cb_explore_adf --opo_cmab -q sa --opo_budget"
    exact, bounded = ours(f"{arguments} 0", rounds), ours(f"{arguments} 40", rounds)
    for t in range(41):
        assert_allclose(bounded[t], exact[t], atol=1e-6)
    assert any(np.abs(np.subtract(b, e)).max() > 1e-6 for b, e in zip(bounded, exact, strict=True))
    metrics = tmp_path / "metrics"
    vw(f"-d {write(tmp_path / 'data', rounds)} {arguments} 40 --extra_metrics {metrics}")
    found = json.loads(metrics.read_text())["cb_explore_adf_opo_cmab"]
    assert found["opo_rounds"] == 120
    assert found["opo_segments"] <= 40


def test_importance_weights_are_left_on_if_asked(ours, stock):
    rounds = random_rounds(5)
    got = ours(f"{OPO} --opo_importance_weighted -q sa", rounds)
    assert_equal(got, oracle(stock, "-q sa", rounds, importance_weighted=True, **SETTINGS))
    unweighted = ours(f"{OPO} -q sa", rounds)
    assert max(abs(p - q) for a, b in zip(got, unweighted, strict=True) for p, q in zip(a, b, strict=True)) > 1e-3


def test_unlabeled_rounds_change_nothing(ours):
    rounds = random_rounds(6)
    unlabeled = without_labels(random_rounds(7, n=60))
    mixed = [r for pair in zip(rounds, unlabeled, strict=True) for r in pair]
    assert ours(f"{OPO} -q sa", mixed)[::2] == ours(f"{OPO} -q sa", rounds)


def test_epsilon_is_the_total_of_minimum_probabilities(ours):
    predictions = ours(f"{OPO} --opo_eta 10 --epsilon 0.2", random_rounds(8))
    assert all(min(p) >= 0.2 / len(p) - 1e-6 for p in predictions)
    assert any(min(p) == pytest.approx(0.2 / len(p)) for p in predictions)


def test_the_reference_takes_any_predictor():
    predictors = [lambda c: [0.5, 0.5], lambda c: [c, 1 - c]]
    expected = policies([[0.5, 0.5], [0.2, 0.8]], eta=3, beta=0.1)[-1]
    assert_allclose(policy(predictors, 0.2, 2, eta=3, beta=0.1), expected)
    assert_allclose(policy([], 0.2, 2, eta=3, beta=0.1), [0.5, 0.5])


def program_predictions(path):
    """Of each round: of each action in order, from a file that -p wrote."""
    rounds = [line for line in path.read_text().splitlines() if line]
    pairs = [sorted((int(a), float(p)) for a, p in (pair.split(":") for pair in line.split(","))) for line in rounds]
    return [[p for _, p in line] for line in pairs]


def test_the_program_does_what_the_workspace_does(ours, vw, tmp_path):
    rounds = random_rounds(9)
    data, out = write(tmp_path / "data", rounds), tmp_path / "out"
    vw(f"-d {data} {OPO} -q :: -p {out} --quiet")
    expected = ours(f"{OPO} -q ::", rounds)
    for p, e in zip(program_predictions(out), expected, strict=True):
        assert_allclose(p, e, atol=2e-6)


def test_dsjson_and_text_give_the_same(vw, tmp_path):
    rounds = random_rounds(10)
    text = write(tmp_path / "text", rounds)
    json_lines = tmp_path / "json"
    json_lines.write_text("".join(dsjson(lines) + "\n" for lines in rounds))
    outs = [tmp_path / "text_out", tmp_path / "json_out"]
    vw(f"-d {text} {OPO} -q sa -p {outs[0]} --quiet")
    vw(f"-d {json_lines} --dsjson {OPO} -q sa -p {outs[1]} --quiet")
    for p, e in zip(program_predictions(outs[1]), program_predictions(outs[0]), strict=True):
        assert_allclose(p, e, atol=1e-5)


def test_passes_go_on_with_the_same_history(vw, ours, tmp_path):
    rounds = random_rounds(11, n=30)
    data, model = write(tmp_path / "data", rounds), tmp_path / "model"
    cache = tmp_path / "cache"
    vw(f"-d {data} {OPO} -q sa --passes 2 --holdout_off --cache_file {cache} -f {model} --quiet")
    probes = random_rounds(12, n=10)
    ours(f"{OPO} -q sa", rounds + rounds, save=str(tmp_path / "twice"))
    got = ours(f"-i {model} -t", probes, learn=False)
    assert_allclose(np.concatenate(got), np.concatenate(ours(f"-i {tmp_path / 'twice'} -t", probes, learn=False)), 1e-6)


# -- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        f"{OPO} -q sa",
        f"{OPO} -q :: {LOGISTIC}",
        "--cb_explore_adf --opo_cmab -q sa",
        f"--cb_explore_adf --opo_cmab -q :: {LOGISTIC} --opo_scale 0.7",
        "--cb_explore_adf --opo_cmab --opo_beta 0.3333333 --opo_eta 33.33333 --ftrl",
        "--cb_explore_adf --opo_cmab --ftrl --ftrl_alpha 0.3 --ftrl_beta 0.2",
        "--cb_explore_adf --opo_cmab -l 0.1 --power_t 0.3",
        "--cb_explore_adf --opo_cmab --cb_max_cost 2 --opo_importance_weighted --sparse_weights",
        f"--cb_explore_adf --opo_cmab {RAW} {LOGISTIC} --logistic_min -0.5 --logistic_max 1.5 --epsilon 0.1",
        "--cb_explore_adf --opo_cmab -q :: --opo_budget 10",
        f"--cb_explore_adf --opo_cmab {LOGISTIC} --opo_budget 4",
    ],
)
@pytest.mark.parametrize("split", [1, 2, 29, 59])
def test_a_saved_model_goes_on_exactly_with_nothing_but_i(ours, tmp_path, arguments, split):
    rounds = random_rounds(13)
    model = str(tmp_path / "model")
    first = ours(arguments, rounds[:split], save=model)
    second = ours(f"-i {model}", rounds[split:], save=model)
    assert first + second == ours(arguments, rounds)
    # -t lays the weights out in another way, and must find the same ones.
    assert ours(f"-i {model} -t", rounds[:5], learn=False) == ours(f"-i {model}", rounds[:5], learn=False)


def test_predict_only_models_predict_the_same(ours, vw, tmp_path):
    rounds = random_rounds(14)
    data, full, small = write(tmp_path / "data", rounds), tmp_path / "full", tmp_path / "small"
    vw(f"-d {data} {OPO} -q sa -f {full} --quiet")
    vw(f"-d {data} {OPO} -q sa -f {small} --predict_only_model --quiet")
    assert small.stat().st_size < full.stat().st_size
    probes = random_rounds(15)
    assert ours(f"-i {small} -t", probes, learn=False) == ours(f"-i {full}", probes, learn=False)


def test_a_stock_model_s_weights_are_the_first_predictor(ours, stock, tmp_path):
    before, rounds = with_probability_one(random_rounds(16)), with_probability_one(random_rounds(17))
    model = str(tmp_path / "stock")
    stock("--cb_adf --cb_type mtr -q sa", before, save=model)
    got = ours(f"-i {model} {OPO}", rounds, save=str(tmp_path / "ours"))
    assert_equal(got, oracle(stock, f"-i {model} -q sa", rounds, **SETTINGS))
    assert_allclose(got[0], 1 / len(got[0]), atol=1e-6)
    # What began from a stock model is saved and resumed like any other.
    probes = random_rounds(18, n=3)
    both = f"-i {model} {OPO}"
    assert ours(f"-i {tmp_path / 'ours'}", probes) == ours(both, rounds + probes)[len(rounds) :]


def test_the_same_history_gives_the_same_file(ours, tmp_path):
    rounds = random_rounds(19)
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        ours(f"{OPO} -q ::", rounds, save=str(file))
    assert files[0].read_bytes() == files[1].read_bytes()


def test_every_damage_to_a_model_is_refused_or_harmless(ours, tmp_path):
    model, damaged = tmp_path / "model", tmp_path / "damaged"
    ours(f"{OPO} -q sa", random_rounds(20, n=12), save=str(model))
    data = model.read_bytes()
    probes = random_rounds(21, n=3)
    expected = ours(f"-i {model} -t", probes, learn=False)
    rng = np.random.default_rng(0)
    cuts = [data[: int(n)] for n in rng.integers(0, len(data), size=60)]
    places = zip(rng.integers(0, len(data), size=200), rng.integers(0, 8, size=200), strict=True)
    flips = [data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :] for i, bit in places]
    refused = 0
    for content in [*cuts, data + b"more", *flips]:
        damaged.write_bytes(content)
        try:
            got = ours(f"-i {damaged} -t", probes, learn=False)
        except RuntimeError:
            refused += 1
        else:
            assert got == expected
    assert refused > 250


@pytest.mark.parametrize("what", ["cut", "weights", "history", "version"])
def test_a_damaged_model_says_so(ours, tmp_path, what):
    model = tmp_path / "model"
    ours(f"{OPO} -q sa", random_rounds(20, n=12), save=str(model))
    data = bytearray(model.read_bytes())
    section = data.rindex(b"opo_cmab")
    words = "damaged or cut short"
    if what == "cut":
        del data[-5:]
    elif what == "weights":
        data[-5] ^= 1
    elif what == "history":
        data[section + 100] ^= 1
    else:
        data[section + 8] = 99
        words = "format version 99"
    model.write_bytes(data)
    with pytest.raises(RuntimeError, match=words):
        ours(f"-i {model}", [])


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.model")), ids=lambda path: path.stem)
def test_models_of_earlier_versions_load_and_predict_as_they_did(ours, path):
    expected = json.loads(path.with_suffix(".json").read_text())
    got = ours(f"-i {path} -t", random_rounds(expected["seed"], n=5), learn=False)
    assert_allclose(np.concatenate(got), np.concatenate(expected["predictions"]), atol=1e-6)


def test_a_readable_model_and_the_metrics_show_a_summary(vw, tmp_path):
    data = write(tmp_path / "data", random_rounds(22, n=17))
    readable, metrics = tmp_path / "readable", tmp_path / "metrics"
    vw(f"-d {data} {OPO} --readable_model {readable} --extra_metrics {metrics}")
    assert "opo_rounds = 17\n" in readable.read_text()
    assert "opo_history_entries = " in readable.read_text()
    found = json.loads(metrics.read_text())["cb_explore_adf_opo_cmab"]
    assert found["opo_rounds"] == 17
    assert found["opo_history_entries"] > 17
    assert found["opo_history_bytes"] > 8 * found["opo_history_entries"]
    assert found["opo_decisions"] == 17
    assert found["opo_decide_microseconds"] > 0


# -- what cannot work -------------------------------------------------------------------------------------------------

REFUSED = [
    ("--opo_eta -1", "--opo_eta"),
    ("--opo_eta nan", "--opo_eta"),
    ("--opo_gamma -0.1", "--opo_gamma"),
    ("--opo_gamma nan", "--opo_gamma"),
    ("--opo_decay 1.5", "--opo_decay"),
    ("--opo_decay -0.1", "--opo_decay"),
    ("--opo_decay nan", "--opo_decay"),
    ("--opo_beta -1", "--opo_beta"),
    ("--opo_beta inf", "--opo_beta"),
    ("--opo_gamma 1 --opo_beta 1", "--opo_beta and --opo_gamma"),
    ("--opo_budget 1", "--opo_budget"),
    ("--opo_budget -5", "--opo_budget"),
    ("--opo_budget nan", "--opo_budget must be a whole number"),
    ("--opo_budget 1.5", "--opo_budget must be a whole number"),
    ("--epsilon 2", "--epsilon"),
    ("--epsilon -0.5", "--epsilon"),
    ("--cb_min_cost 2 --cb_max_cost 1", "--cb_min_cost"),
    ("--opo_paper --opo_decay 0.9", "--opo_paper implies --opo_decay 1"),
    ("--opo_paper --opo_budget 64", "--opo_paper implies --opo_budget 0"),
    ("--opo_paper --opo_scale 1", "--opo_paper and --opo_scale"),
    ("--opo_paper --cb_cost_unit range", "--opo_paper implies --cb_cost_unit raw"),
    ("--opo_gamma 1 --opo_scale 1", "--opo_gamma and --opo_scale"),
    ("--opo_scale -1", "--opo_scale"),
    ("--min_prediction 0", "--min_prediction"),
    ("--max_prediction 1", "--max_prediction"),
    ("--cb_cost_unit euros", "cb_cost_unit"),
    ("--loss_function logistic --logistic_max 2", "--logistic_max"),
    ("--mf 3", "mf"),
    ("--ftrl --l1 0.01", "--l1"),
    ("--daemon --port 0", "--num_children 1"),
    ("--daemon --num_children 4", "--num_children 1"),
    ("--daemon --num_children 1 -f {cache}", "-f"),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=[a for a, _ in REFUSED])
def test_what_cannot_work_is_refused_at_the_start_by_name(vw, tmp_path, arguments, named):
    data = write(tmp_path / "data", random_rounds(23, n=2))
    arguments = arguments.format(cache=tmp_path / "cache")
    result = vw(f"-d {data} --cb_explore_adf --opo_cmab {arguments}", check=False)
    message = result.stdout + result.stderr
    assert result.returncode == 1, message
    assert named in message


PAGE = (Path(__file__).parent.parent / "docs" / "options.md").read_text()
ROWS = re.findall(r"^\| (`.*`) \|", PAGE[PAGE.index("### What does not go with") :].partition("\n## ")[0], re.MULTILINE)
LISTED = [flags for row in ROWS for flags in re.findall(r"`(.+?)`", row)]


@pytest.mark.parametrize("flags", LISTED)
def test_what_the_page_lists_is_refused_by_name(vw, tmp_path, flags):
    assert len(ROWS) > 10
    data = write(tmp_path / "data", random_rounds(23, n=2))
    result = vw(
        f"-d {data} --cb_explore_adf --opo_cmab {flags.replace('file cache', f'file {tmp_path}/cache')}", check=False
    )
    message = re.search(r"\[critical\].*\): (.*)", result.stdout + result.stderr)
    assert result.returncode == 1
    assert message
    assert "unrecognised" not in message[1]  # VW does not know it at all
    flag, _, value = flags.removeprefix("--").partition(" ")
    assert re.search(rf"\b({flag}|scorer-{value})\b", message[1]), message[1]


def test_settings_that_contradict_the_model_are_refused(ours, tmp_path):
    model = tmp_path / "model"
    ours(OPO, random_rounds(24, n=5), save=str(model))
    kept = "'11' vs .* The second is the model's .*: leave out the flag"
    for arguments, named in [
        ("--loss_function logistic", "loss_function"),
        ("--opo_eta 11", f"opo_eta.*{kept}"),
        ("--opo_gamma 1", "opo_gamma"),
        ("--opo_decay 0.5", "opo_decay"),
        ("--opo_beta 1", "opo_beta"),
        ("--opo_budget 64", "opo_budget"),
        ("--cb_cost_unit range", "cb_cost_unit"),
        ("--squarecb", "squarecb"),
    ]:
        with pytest.raises(RuntimeError, match=named):
            ours(f"-i {model} {arguments}", [])


@pytest.mark.parametrize("budget", ["", "--opo_budget 0"], ids=["default budget", "exact"])
def test_an_action_whose_prediction_exploded_is_tried_again(budget):
    """gd has learnt a cost of 1 at x = 0.001, so that it predicts about 100 at x = 1, and only playing corrects it."""
    import opo_cmab
    from vowpalwabbit import Workspace

    rng = np.random.default_rng(2)
    vw = Workspace(f"--cb_explore_adf --opo_cmab {GD} {budget} -q UA --noconstant --quiet")

    def lines(x, label=None, action=0):
        result = [f"shared |U x:{x}", "|A bad", "|A good"]
        if label:
            result[action + 1] = f"{label} {result[action + 1]}"
        return result

    vw.learn(lines(0.001, "0:1:0.5", 1))
    vw.learn(lines(0.001, "0:0:0.5", 0))
    assert opo_cmab.explain(vw, lines(1)).cost[-1, 1] == 0.5  # the middle of the range: it does not know
    plays = []
    for _ in range(300):
        p = np.array(vw.predict(lines(1)))
        plays.append(rng.choice(2, p=p / p.sum()))
        cost = int(rng.random() < (0.5, 0.2)[plays[-1]])
        vw.learn(lines(1, f"0:{cost}:{p[plays[-1]]}", plays[-1]))
    assert np.mean(plays[-100:]) > 0.9
