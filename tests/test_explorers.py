"""--fastcb, --adacb and --cb_cost_unit raw: their formulas on stock VW's scores, and what explorers have in common."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.helpers.formulas import adacb, fastcb, plausible, sigmoid, squarecb
from tests.helpers.streams import random_rounds, with_probability_one, write

INTERACTIONS = "-q sa"
EXPLORERS = ["--fastcb", "--adacb"]
LOSSES = ["", "--loss_function logistic"]
RAW = "--cb_cost_unit raw --cb_min_cost 0 --cb_max_cost 1"
STOCK_SCORES = "--cb_adf --cb_type mtr"
STOCK_MARGINS = "--cb_adf --cb_type mtr --loss_function logistic --logistic_min 0 --logistic_max 1"


def greediness(rounds, scale=10.0, exponent=0.5):
    return scale * float(rounds) ** exponent


@pytest.mark.parametrize("settings", [(10.0, 0.5), (3.0, 0.25)])
@pytest.mark.parametrize("seed", range(3))
def test_fastcb_equals_its_formula_on_stock_scores(ours, stock, seed, settings):
    scale, exponent = settings
    rounds = random_rounds(seed)
    arguments = f"--cb_explore_adf --fastcb {RAW} --gamma_scale {scale} --gamma_exponent {exponent}"
    got = ours(f"{arguments} {INTERACTIONS}", rounds)
    scores = stock(f"{STOCK_SCORES} {INTERACTIONS}", with_probability_one(rounds))
    for t, (p, f) in enumerate(zip(got, scores, strict=True)):
        assert_allclose(p, fastcb(f, greediness(t, scale, exponent)), atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("seed", range(3))
def test_fastcb_under_logistic_loss_equals_its_formula_on_linked_margins(ours, stock, seed):
    rounds = random_rounds(seed)
    got = ours(f"--cb_explore_adf --fastcb {RAW} --loss_function logistic {INTERACTIONS}", rounds)
    margins = stock(f"{STOCK_MARGINS} {INTERACTIONS}", with_probability_one(rounds))
    for t, (p, m) in enumerate(zip(got, margins, strict=True)):
        assert_allclose(p, fastcb(sigmoid(m), greediness(t)), atol=1e-4, err_msg=f"round {t}")


def test_fastcb_maps_another_cost_range_to_0_1(ours, stock):
    rounds = random_rounds(5, costs=(-2.0, 6.0))
    got = ours(f"--cb_explore_adf --fastcb --cb_cost_unit raw --cb_min_cost -2 --cb_max_cost 6 {INTERACTIONS}", rounds)
    scores = stock(f"{STOCK_SCORES} {INTERACTIONS}", with_probability_one(rounds))
    for t, (p, f) in enumerate(zip(got, scores, strict=True)):
        assert_allclose(p, fastcb((np.array(f) + 2) / 8, greediness(t)), atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("seed", range(3))
def test_the_link_gives_stock_squarecb_costs_instead_of_margins(ours, stock, seed):
    rounds = with_probability_one(random_rounds(seed))
    got = ours(f"--cb_explore_adf --squarecb --loss_function logistic --cb_cost_unit raw {INTERACTIONS}", rounds)
    margins = stock(f"{STOCK_MARGINS} {INTERACTIONS}", rounds)
    for t, (p, m) in enumerate(zip(got, margins, strict=True)):
        assert_allclose(p, squarecb(sigmoid(m), greediness(t)), atol=1e-4, err_msg=f"round {t}")


def test_the_link_maps_margins_to_the_label_range_the_user_gives(ours, stock):
    rounds = with_probability_one(random_rounds(3, costs=(0.0, 4.0)))
    label_range = "--loss_function logistic --logistic_min -1 --logistic_max 5"
    got = ours(f"--cb_adf --cb_cost_unit raw {label_range}", rounds)
    margins = stock(f"{STOCK_SCORES} {label_range}", rounds)
    for p, m in zip(got, margins, strict=True):
        assert_allclose(p, -1 + 6 * sigmoid(m), atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mellowness", [0.001, 0.1])
def test_adacb_equals_its_formula_on_stock_scores_and_stock_plausible_sets(ours, stock, seed, mellowness):
    rounds = with_probability_one(random_rounds(seed))
    got = ours(f"--cb_explore_adf --adacb {RAW} --mellowness {mellowness} {INTERACTIONS}", rounds)
    scores = stock(f"{STOCK_SCORES} {INTERACTIONS}", rounds)
    # Stock RegCB is uniform over the plausible actions: from stock VW's own sensitivities.
    regcb = stock(f"--cb_explore_adf --regcb --mellowness {mellowness} {INTERACTIONS}", rounds)
    eliminated = 0
    for t, (p, f, uniform) in enumerate(zip(got, scores, regcb, strict=True)):
        survives = np.array(uniform) > 0
        eliminated += int(np.count_nonzero(~survives))
        assert_allclose(p, adacb(f, survives, greediness(t)), atol=1e-4, err_msg=f"round {t}")
    assert eliminated > 0, "the stream should tell AdaCB from SquareCB"


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize("explorer", ["--adacb", "--regcb"])
def test_sensitivities_follow_the_link_by_the_chain_rule(ours, stock, logistic, explorer):
    # Plain gradient steps of a fixed size: the sensitivity of a score is the step times |x|^2, known without VW.
    step, mellowness = (0.5, 0.0005) if logistic else (0.05, 0.02)
    sgd = f"--sgd -l {step} --power_t 0"
    rounds = with_probability_one(random_rounds(11, n=80))
    link = f"{RAW} --loss_function logistic" if logistic else RAW if explorer == "--adacb" else ""
    got = ours(f"--cb_explore_adf {explorer} --mellowness {mellowness} {sgd} {link}", rounds)
    scores = stock(f"{STOCK_MARGINS if logistic else STOCK_SCORES} {sgd}", rounds)
    kinds = set()
    for t, (p, f, lines) in enumerate(zip(got, scores, rounds, strict=True)):
        if t == 0:
            continue
        costs = sigmoid(f) if logistic else np.array(f)
        slopes = costs * (1 - costs) if logistic else 1.0
        survives = plausible(costs, slopes * step * squared_lengths(lines), delta=mellowness * np.log(len(costs) * t))
        expected = adacb(costs, survives, greediness(t)) if explorer == "--adacb" else survives / survives.sum()
        assert_allclose(p, expected, atol=1e-4, err_msg=f"round {t}")
        kinds.add(bool(survives.all()))
    assert kinds == {True, False}, "rounds with and without elimination"


def squared_lengths(lines):
    """|x|^2 of each action: its own features, the shared ones and VW's constant."""

    def squares(line):
        values = [feature.partition(":")[2] or "1" for feature in line.partition("|")[2].split()[1:]]
        return sum(float(v) ** 2 for v in values)

    shared, *actions = lines
    return np.array([squares(shared) + squares(action) + 1 for action in actions])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_probabilities_are_a_distribution_from_the_first_round_on(ours, explorer, loss):
    for actions in [(1, 1), (3, 3), (2, 8)]:
        rounds = random_rounds(7, n=100, actions=actions)
        predictions = ours(f"--cb_explore_adf {explorer} {loss} --gamma_scale 1000", rounds)
        assert_allclose(predictions[0], 1 / len(predictions[0]), atol=1e-6)
        for p in predictions:
            assert min(p) >= 0
            assert sum(p) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_extreme_settings_and_costs_give_no_nan(ours, explorer):
    rounds = random_rounds(8, n=30, costs=(-1e6, 1e6))
    for settings in ["--gamma_scale 1e38 --gamma_exponent 30", "--gamma_scale 0", "-l 100"]:
        predictions = ours(f"--cb_explore_adf {explorer} {settings}", rounds)
        assert np.isfinite(np.concatenate(predictions)).all()
        assert_allclose([sum(p) for p in predictions], 1, atol=1e-5)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_epsilon_is_the_total_of_minimum_probabilities(ours, explorer):
    predictions = ours(f"--cb_explore_adf {explorer} --epsilon 0.2", random_rounds(9))
    assert all(min(p) >= 0.2 / len(p) - 1e-6 for p in predictions)
    assert any(min(p) == pytest.approx(0.2 / len(p)) for p in predictions)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_learning_does_not_depend_on_the_logged_probabilities(ours, explorer):
    rounds = random_rounds(10)
    arguments = f"--cb_explore_adf {explorer} {INTERACTIONS}"
    assert ours(arguments, rounds) == ours(arguments, with_probability_one(rounds))


@pytest.mark.parametrize(
    "arguments",
    [
        *(f"{explorer} {loss}" for explorer in EXPLORERS for loss in LOSSES),
        "--adacb --cb_min_cost -0.3333333 --mellowness 0.0123456789",
        f"--fastcb {RAW} --loss_function logistic --logistic_min -0.5 --logistic_max 1.25",
        "--squarecb --cb_cost_unit range",
        "--squarecb --loss_function logistic --cb_cost_unit raw",
    ],
)
@pytest.mark.parametrize("split", [1, 23])
def test_a_saved_model_goes_on_exactly_with_nothing_but_i(ours, tmp_path, arguments, split):
    rounds = with_probability_one(random_rounds(12))
    arguments = f"--cb_explore_adf {arguments} {INTERACTIONS} --gamma_scale 0.3333333"
    whole = ours(arguments, rounds)
    model = tmp_path / "model"
    first = ours(arguments, rounds[:split], save=str(model))
    second = ours(f"-i {model}", rounds[split:])
    assert first + second == whole


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_the_program_does_what_the_workspace_does(ours, vw, tmp_path, explorer, loss):
    rounds = random_rounds(13)
    arguments = f"--cb_explore_adf {explorer} {loss} {INTERACTIONS}"
    data, out = write(tmp_path / "data", rounds), tmp_path / "out"
    vw(f"-d {data} {arguments} -p {out} --quiet")
    lines = [line for line in out.read_text().splitlines() if line]
    for line, p in zip(lines, ours(arguments, rounds), strict=True):
        printed = {int(a): float(v) for a, v in (pair.split(":") for pair in line.split(","))}
        assert_allclose([printed[a] for a in range(len(p))], p, atol=2e-6)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_cbify_hands_its_costs_to_our_explorers(vw, tmp_path, explorer):
    data = tmp_path / "data"
    data.write_text("".join(f"{1 + i % 3} | f{i % 3} x:{i}\n" for i in range(30)))
    model, readable = tmp_path / "model", tmp_path / "readable"
    vw(f"-d {data} --cbify 3 --cb_explore_adf {explorer} --loss0 -2 --loss1 5 -f {model} --readable_model {readable}")
    options = readable.read_text()
    assert "--cb_min_cost -2 " in options
    assert "--cb_max_cost 5 " in options


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_a_readable_model_shows_the_rounds(vw, tmp_path, explorer):
    data = write(tmp_path / "data", random_rounds(14, n=17))
    readable = tmp_path / "readable"
    vw(f"-d {data} --cb_explore_adf {explorer} --readable_model {readable}")
    assert f"{explorer.strip('-')}_rounds = 17\n" in readable.read_text()


REFUSED = [
    ("--fastcb --squarecb", ["--fastcb", "--squarecb"]),
    ("--fastcb --adacb", ["--fastcb", "--adacb"]),
    ("--adacb --bag 3", ["--adacb", "--bag"]),
    ("--adacb --regcbopt", ["--adacb", "--regcbopt"]),
    ("--fastcb --gamma_scale -1", ["--gamma_scale", "-1"]),
    ("--fastcb --gamma_scale nan", ["--gamma_scale must be a finite number"]),
    ("--adacb --mellowness=none", ["--mellowness must be a finite number"]),
    ("--adacb --gamma_scale inf", ["--gamma_scale must be a finite number"]),
    ("--adacb --gamma_exponent -0.5", ["--gamma_exponent"]),
    ("--adacb --mellowness -1", ["--mellowness"]),
    ("--fastcb --epsilon 1.5", ["--epsilon", "1.5"]),
    ("--fastcb --epsilon -0.1", ["--epsilon"]),
    ("--fastcb --cb_min_cost 1 --cb_max_cost 1", ["--cb_min_cost", "--cb_max_cost"]),
    ("--adacb --cb_min_cost 3 --cb_max_cost 2", ["--cb_min_cost", "--cb_max_cost"]),
    ("--fastcb --cb_type dr", ["cb_type"]),
    ("--fastcb --loss_function hinge", ["--loss_function", "hinge"]),
    ("--adacb --loss_function poisson", ["--loss_function", "poisson"]),
    ("--fastcb --large_action_space", ["--large_action_space"]),
    ("--fastcb --loss_function logistic --link logistic", ["--link"]),
    ("--fastcb --loss_function logistic --logistic_min 2", ["--logistic_min", "--cb_cost_unit raw"]),
    (f"--fastcb {RAW} --loss_function logistic --logistic_min 2", ["--logistic_min", "--logistic_max"]),
    ("--squarecb --cb_cost_unit probit", ["cb_cost_unit"]),
    *(
        (f"{flags} --cb_cost_unit range", [name])
        for flags, name in [
            ("--cover 3", "--cover"),
            ("--synthcover", "--synthcover"),
            ("--rnd 2", "--rnd"),
            ("--cb_type dr", "--cb_type"),
            ("--cb_type ips", "--cb_type"),
            ("--regcb --cb_min_cost -1", "--regcb"),
            ("--squarecb --elim --cb_max_cost 2", "--elim"),
            ("--squarecb --min_prediction 0", "--min_prediction"),
        ]
    ),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=[a for a, _ in REFUSED])
def test_what_cannot_work_is_refused_at_the_start_by_name(vw, tmp_path, arguments, named):
    data = write(tmp_path / "data", random_rounds(15, n=2))
    result = vw(f"-d {data} --cb_explore_adf {arguments}", check=False)
    message = result.stdout + result.stderr
    assert result.returncode == 1
    assert all(name in message for name in named), message


def test_the_link_without_cb_adf_is_refused(vw):
    result = vw("--cb_cost_unit raw --loss_function logistic", check=False)
    assert result.returncode == 1
    assert "--cb_cost_unit needs --cb_explore_adf or --cb_adf" in result.stdout + result.stderr


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_loss_that_contradicts_the_model_is_refused(ours, tmp_path, loss):
    other = {"squared": "logistic", "logistic": "squared"}[loss]
    model = tmp_path / "model"
    ours(f"--cb_explore_adf --fastcb --loss_function {loss}", random_rounds(16, n=5), save=str(model))
    with pytest.raises(RuntimeError, match="loss_function"):
        ours(f"-i {model} --loss_function {other}", [])


def test_another_explorer_than_the_model_s_is_refused(ours, tmp_path):
    model = tmp_path / "model"
    ours("--cb_explore_adf --squarecb", random_rounds(16, n=5), save=str(model))
    with pytest.raises(RuntimeError, match=r"--fastcb and --squarecb are both explorers.*convert it first"):
        ours(f"-i {model} --fastcb", [])
    with pytest.raises(RuntimeError, match=r"give only one of them$"):
        ours("--cb_explore_adf --fastcb --squarecb", [])


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_a_stock_model_s_weights_are_taken_and_exploration_starts_anew(ours, stock, tmp_path, explorer):
    before, rounds = with_probability_one(random_rounds(17)), with_probability_one(random_rounds(18))
    model = str(tmp_path / "stock")
    stock(f"{STOCK_SCORES} {INTERACTIONS}", before, save=model)
    got = ours(f"-i {model} --cb_explore_adf {explorer}", rounds)
    assert_allclose(got[0], 1 / len(got[0]), atol=1e-6)
    flagged = ours(f"-i {model} --cb_explore_adf {explorer} --cb_min_cost 0 --cb_max_cost 1", rounds)
    if explorer == "--fastcb":  # weights of stock models are in costs as they are, and stay so
        scores = stock(f"-i {model}", rounds)
        for t, (p, f) in enumerate(zip(flagged, scores, strict=True)):
            assert_allclose(p, fastcb(f, greediness(t)), atol=1e-4, err_msg=f"round {t}")


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_a_damaged_model_is_refused(ours, tmp_path, explorer):
    model = tmp_path / "model"
    ours(f"--cb_explore_adf {explorer}", random_rounds(19, n=5), save=str(model))
    data = model.read_bytes()
    state = data.rindex(explorer.strip("-").encode())
    for damaged in [data[:-3], data + b"more", data[:-9] + b"\xff" + data[-8:], data[: state + 60], b""]:
        model.write_bytes(damaged)
        with pytest.raises(RuntimeError):
            ours(f"-i {model} -t", [])


@pytest.mark.parametrize("explorer", ["opo_cmab", "opo_cmab --opo_budget 16", "fastcb", "adacb"])
def test_weights_that_infinite_features_have_spoilt_still_give_probabilities(ours, explorer):
    spoilt = ["shared |s x:inf y:1", "|a b", "1:0.5:0.5 |a c:1e39"]
    rounds = [spoilt, *random_rounds(31, n=5), ["|a"], ["shared |s x:1", "|a b", "|a c"]]
    predictions = ours(f"--cb_explore_adf --{explorer} -b 2 -q sa", rounds)
    assert_allclose([sum(p) for p in predictions], 1, atol=1e-5)


@pytest.mark.parametrize("explorer", ["--opo_cmab", "--fastcb", "--adacb"])
def test_an_explorer_without_cb_explore_adf_is_refused(vw, tmp_path, explorer):
    result = vw(f"-d {write(tmp_path / 'data', random_rounds(1, n=2))} --quiet {explorer}", check=False)
    assert result.returncode != 0
    assert f"{explorer} needs --cb_explore_adf" in result.stdout + result.stderr


@pytest.mark.parametrize("flag", ["--opo_paper", "--opo_eta 5", "--opo_budget 0"])
@pytest.mark.parametrize("explorer", ["", "--squarecb"])
def test_a_setting_without_its_explorer_is_refused(vw, tmp_path, explorer, flag):
    """VW would play with another explorer, and say so in one line among many."""
    data = write(tmp_path / "data", random_rounds(1, n=3))
    result = vw(f"-d {data} --cb_explore_adf {explorer} {flag}", check=False)
    assert result.returncode != 0
    assert f"{flag.split()[0]} needs --opo_cmab: add it" in result.stdout + result.stderr
