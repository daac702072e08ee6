"""Moving in: models of VW's own explorers go on under ours."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from opo_cmab.adopt import adopt, main
from opo_cmab.reference import policies

from tests.helpers.streams import random_rounds, with_probability_one

STOCK = [
    "--squarecb --gamma_scale 5",
    "--regcb --mellowness 0.01",
    "--epsilon 0.1",
    "--softmax --lambda 3",
    "--first 5",
]


@pytest.mark.parametrize("explorer", [*STOCK, "--squarecb --ftrl -b 20", "--squarecb --noconstant --interactions ssa"])
def test_the_weights_of_a_stock_model_go_on_under_ours(ours, stock, tmp_path, explorer):
    before, rounds = with_probability_one(random_rounds(1)), with_probability_one(random_rounds(2, n=40))
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    stock(f"--cb_explore_adf {explorer} -q sa", before, save=old)
    settings = "--opo_cmab --opo_eta 10 --opo_gamma 0.5 --opo_decay 1 --opo_budget 0 --cb_min_cost 0 --cb_max_cost 1"
    main([old, new, f"--arguments={settings}"])
    got = ours(f"-i {new}", rounds)

    # The oracle: the stock model goes on, a model saved before each round. greedy prints no scores, cb_adf does.
    learner = " ".join(w for w in ("--ftrl", "-b 20", "--noconstant", "--interactions ssa") if w in explorer)
    scores = str(tmp_path / "scores")
    stock(f"--cb_adf --cb_type mtr -q sa {learner}", before, save=scores)
    for t, predictions in enumerate(stock(f"-i {scores}", rounds, every_model=True)):
        f = np.array(predictions[:-1], dtype=float).reshape(-1, len(predictions[-1]))
        assert_allclose(got[t], policies(f, eta=10, gamma=0.5, decay=1)[-1], atol=1e-4, err_msg=f"round {t}")


def test_the_range_is_learnt_and_saved_models_go_on(ours, stock, tmp_path):
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    stock("--cb_explore_adf --squarecb -q sa", random_rounds(3, costs=(-20, 0)), save=old)
    workspace = adopt(old)
    workspace.save(new)
    workspace.finish()
    rounds = random_rounds(4, costs=(-20, 0))
    whole = ours(f"-i {new}", rounds)
    assert any(max(p) > 1.5 / len(p) for p in whole)
    first = ours(f"-i {new}", rounds[:20], save=new)
    assert first + ours(f"-i {new}", rounds[20:]) == whole


def test_without_adopting_it_says_what_to_do(ours, stock, tmp_path):
    old = str(tmp_path / "old")
    stock("--cb_explore_adf --squarecb", random_rounds(5, n=5), save=old)
    with pytest.raises(RuntimeError, match=r"opo_cmab\.adopt"):
        ours(f"-i {old} --opo_cmab", [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--cb_explore_adf --bag 3", "--bag keeps several regressions"),
        ("--cb_explore_adf --cover 3", "--cover keeps several regressions"),
        ("--cb_explore_adf --cb_type dr", "cb_type"),
        ("--cb_explore_adf --nn 2", "nn"),
    ],
)
def test_models_that_cannot_move_in_are_refused_by_name(stock, tmp_path, capsys, arguments, words):
    old, new = tmp_path / "old", tmp_path / "new"
    stock(arguments, random_rounds(6, n=5), save=str(old))
    with pytest.raises(SystemExit) as stopped:
        main([str(old), str(new)])
    assert stopped.value.code == 1
    assert words in capsys.readouterr().err
    assert not new.exists()


@pytest.mark.parametrize("wanted", ["--opo_cmab", "--fastcb"])
@pytest.mark.parametrize("explorer", ["--opo_cmab", "--opo_cmab --opo_paper", "--fastcb", "--adacb"])
def test_a_model_of_ours_is_to_be_loaded_as_it_is(ours, tmp_path, capsys, explorer, wanted):
    old, new = tmp_path / "old", tmp_path / "new"
    rounds = random_rounds(7, n=10)
    ours(f"--cb_explore_adf {explorer} -q sa", rounds, save=str(old))
    with pytest.raises(SystemExit) as stopped:
        main([str(old), str(new), f"--arguments={wanted}"])
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert f"{old} is a model of {explorer.split()[0]}, one of our explorers already" in said
    assert f"Load it as it is: vw -i {old}." in said
    assert not new.exists()
    assert len(ours(f"-i {old}", rounds)) == 10  # as advised


def test_a_stock_explorer_on_our_cost_range_is_refused_by_name(ours, tmp_path, capsys):
    old = tmp_path / "old"
    ours("--cb_explore_adf --squarecb --cb_cost_unit range", random_rounds(8, n=10), save=str(old))
    with pytest.raises(SystemExit):
        main([str(old), str(tmp_path / "new")])
    assert "was trained with --cb_cost_unit range" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([str(tmp_path / "nothing"), str(tmp_path / "new")])
    assert "there is no file" in capsys.readouterr().err
