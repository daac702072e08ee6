"""Options: what they write is what the engine takes, and what they refuse it refuses too."""

import pytest
from opo_cmab import AdaCBOptions, FastCBOptions, Options
from vowpalwabbit import Workspace


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (Options(), "--cb_explore_adf --opo_cmab"),
        (
            Options(eta=30, gamma=0.5, decay=1, importance_weighted=True),
            "--cb_explore_adf --opo_cmab --opo_eta 30 --opo_gamma 0.5 --opo_decay 1 --opo_importance_weighted",
        ),
        (
            Options(beta=2, min_cost=-1, max_cost=0, epsilon=0.05, loss="logistic"),
            "--cb_explore_adf --opo_cmab --cb_min_cost -1 --cb_max_cost 0 --epsilon 0.05 --loss_function logistic "
            "--opo_beta 2",
        ),
        (Options(paper=True), "--cb_explore_adf --opo_cmab --opo_paper"),
        (
            Options(scale=1, cost_unit="raw"),
            "--cb_explore_adf --opo_cmab --cb_cost_unit raw --opo_scale 1",
        ),
        (Options(budget=64), "--cb_explore_adf --opo_cmab --opo_budget 64"),
        (FastCBOptions(gamma_scale=3), "--cb_explore_adf --fastcb --gamma_scale 3"),
        (
            AdaCBOptions(mellowness=0.1, gamma_exponent=0.25),
            "--cb_explore_adf --adacb --gamma_exponent 0.25 --mellowness 0.1",
        ),
    ],
)
def test_the_engine_takes_what_they_write(options, arguments):
    assert str(options) == arguments
    with Workspace(f"{options} --quiet") as vw:
        assert vw.predict(["| a", "| b"]) == [0.5, 0.5]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"eta": -1}, "eta must be at least 0"),
        ({"eta": True}, "eta must be a number"),
        ({"budget": 2**31}, "budget must be"),
        ({"min_cost": 0, "max_cost": 1e-50}, "min_cost must be below max_cost"),
        ({"scale": -1}, "scale must be at least 0"),
        ({"scale": 1, "gamma": 1}, "give only one"),
        ({"paper": True, "decay": 0.5}, "paper implies decay 1"),
        ({"paper": True, "cost_unit": "range"}, "paper implies cost_unit raw"),
        ({"cost_unit": "euros"}, "cost_unit must be 'range' or 'raw'"),
        ({"eta": float("nan")}, "eta must be at least 0"),
        ({"eta": 1e39}, "eta must be at least 0 and finite"),
        ({"gamma": float("inf")}, "gamma must be at least 0 and finite"),
        ({"beta": -0.1}, "beta must be at least 0"),
        ({"decay": 1.5}, "decay must be in"),
        ({"epsilon": -0.5}, "epsilon must be in"),
        ({"min_cost": 1, "max_cost": 1}, "min_cost must be below max_cost"),
        ({"max_cost": float("inf")}, "max_cost must be finite"),
        ({"loss": "hinge"}, "loss must be 'squared' or 'logistic'"),
        ({"gamma": 1, "beta": 1}, "give only one"),
    ],
)
def test_what_they_refuse_the_engine_refuses(settings, words):
    with pytest.raises(ValueError, match=words):
        Options(**settings)
    unchecked = object.__new__(Options)  # fields that are not set are the defaults
    for name, value in settings.items():
        object.__setattr__(unchecked, name, value)
    with pytest.raises(RuntimeError):
        Workspace(f"{unchecked} --quiet")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget": 1}, "budget must be 0"),
        ({"budget": -2}, "budget must be 0"),
        ({"budget": 2.5}, "budget must be 0"),
        ({"eta": "30 --bogus"}, "eta must be a number"),
    ],
)
def test_a_bad_budget_or_type_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        Options(**settings)


@pytest.mark.parametrize("options", [FastCBOptions, AdaCBOptions])
def test_greediness_is_checked(options):
    with pytest.raises(ValueError, match="gamma_scale must be at least 0"):
        options(gamma_scale=-1)


def test_a_misspelt_option_is_an_error():
    with pytest.raises(TypeError, match="etta"):
        Options(etta=3)  # type: ignore[call-arg]
