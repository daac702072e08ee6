"""--opo_cmab against stock VW: a saved stock model for every round, the recursion in NumPy."""

import numpy as np
import pytest
from formulas import sigmoid
from numpy.testing import assert_allclose
from opo_cmab.reference import policies
from streams import random_rounds, with_probability_one

STREAMS = {
    "plain": ("", {}),
    "quadratic": ("-q sa", {}),
    "wildcard": ("-q ::", {}),
}


def oracle(stock, arguments, rounds, *, logistic=False, low=0.0, high=1.0, **settings):
    """Algorithm 1 on the predictions of stock VW: those of the model before each round, for each context."""
    past = stock(f"--cb_adf --cb_type mtr {arguments}", rounds, every_model=True)
    result = []
    for predictions in past:
        f = np.array(predictions[:-1], dtype=float).reshape(-1, len(predictions[-1]))
        if logistic:
            f = low + (high - low) * sigmoid(f)
        result.append(policies((f - low) / (high - low), **settings)[-1])
    return result


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("seed", range(2))
def test_probabilities_equal_algorithm_1_on_stock_models(ours, stock, stream, seed):
    arguments, more = STREAMS[stream]
    rounds = random_rounds(seed, **more)
    got = ours(f"--cb_explore_adf --opo_cmab --opo_eta 10 --opo_gamma 0.5 {arguments}", rounds)
    expected = oracle(stock, arguments, with_probability_one(rounds), eta=10, gamma=0.5)
    for t, (p, e) in enumerate(zip(got, expected, strict=True)):
        assert_allclose(p, e, atol=1e-4, err_msg=f"round {t}")
