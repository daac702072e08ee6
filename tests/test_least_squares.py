"""--least_squares: the kernel against NumPy, and the base learner below the reductions and in the life of a model."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from opo_cmab import _kernel, reference

from tests.helpers.fuzz_input import damage_field

# -- the kernel -------------------------------------------------------------------------------------------------------


class Pair:
    """The kernel and the reference on one stream. Beyond rounding, they may differ in which of two candidates with the
    same error they take: then the reference takes the kernel's."""

    def __init__(self, block: int = 32, penalty: float = 0.0) -> None:
        self.kernel, self.reference = _kernel.LeastSquares(block, penalty), reference.LeastSquares(block, penalty)

    def learn(self, weights, values, label, weight=1.0):
        self.kernel.learn(weights, values, label, weight, self.kernel.mean)
        self.reference.learn(weights, values, label, weight, self.reference.mean)
        self.follow()

    def follow(self):
        of, (kernel, slow) = self.reference.candidates, (self.kernel, self.reference)
        used = [k for k, (p, b) in enumerate(of) if (np.float32(p), b) == (np.float32(kernel.penalty), kernel.in_blocks)]
        best = min(used, key=lambda k: slow.errors[k])
        assert slow.errors[best] <= slow.errors.min() * (1 + 1e-3) + 1e-6
        slow.best = best

    def check(self, weights, values, unit=1.0):
        kernel, slow = self.kernel, self.reference
        expected = slow.predict(weights, values, slow.mean)
        assert_allclose(kernel.predict(weights, values, kernel.mean), expected, atol=1e-4 * unit)
        assert_allclose(kernel.variance(weights, values), slow.variance(weights, values), rtol=1e-4)
        assert kernel.blocks == len(slow.rooms)


def numbers_to(n):
    return np.arange(n, dtype=np.uint64)


def example_of(rng, weights, features, kind):
    """Weights and values of an example."""
    numbers = rng.integers(weights, size=features)
    if kind != "duplicates":
        numbers = np.unique(numbers)
    values = rng.normal(size=len(numbers))
    if kind == "growing":
        values *= 10 ** rng.uniform(-2, 1, size=len(numbers))
    elif kind == "ones":
        values[:] = 1
    values[rng.random(len(numbers)) < 0.1] = 0
    return numbers.astype(np.uint64) * 2**33, values.astype(np.float32)


KINDS = ["sparse", "dense", "duplicates", "growing", "ones"]
STREAM = {
    "seed": st.integers(0, 10**6),
    "kind": st.sampled_from(KINDS),
    "block": st.sampled_from([1, 2, 8, 32]),
    "penalty": st.sampled_from([0.0, 0.0, 0.25, 1.0, 40.0]),
    "weights": st.integers(1, 60),
    "rounds": st.integers(1, 60),
}


@settings(max_examples=150)
@given(**STREAM)
def test_the_kernel_equals_the_reference(seed, kind, block, penalty, weights, rounds):
    rng, pair = np.random.default_rng(seed), Pair(block, penalty)
    hidden = rng.normal(size=weights)
    features = weights if kind == "dense" else 8
    examples = [example_of(rng, weights, rng.integers(1, features + 1), kind) for _ in range(rounds)]
    labels = [3 + hidden[(n // 2**33).astype(int)] @ x + rng.normal() / 10 for n, x in examples]
    for (numbers, values), label in zip(examples, labels, strict=True):
        pair.check(numbers, values, max(1.0, np.std(labels)))
        pair.learn(numbers, values, float(label), float(rng.choice([0.1, 0.5, 1, 3, 10])))


def test_the_kernel_equals_the_reference_where_late_weights_wait_and_get_smaller_blocks():
    rng, pair = np.random.default_rng(0), Pair()
    for t in range(70):
        first = 35 * min(t, 50)
        numbers = rng.integers(max(0, first - 100), first + 40, size=40).astype(np.uint64)
        values = rng.choice([0.5, 1, 2], size=40).astype(np.float32)
        pair.check(numbers, values)
        pair.learn(numbers, values, float(values[:5].sum() + rng.normal()))
    assert len(pair.reference.scale) > 1200
    assert {8, 32} == set(pair.reference.rooms)
    assert (pair.reference.home < 0).any()  # occurred once


def test_a_weight_of_0_teaches_nothing():
    rng, pair = np.random.default_rng(1), Pair()
    for _ in range(10):
        numbers, values = example_of(rng, 9, 4, "sparse")
        pair.learn(numbers, values, float(rng.normal()))
    before = pair.kernel.serialize()
    predicted = pair.kernel.predict(numbers, values, 0.0)
    assert pair.kernel.learn(numbers, values, 100.0, 0.0, 0.0) == predicted
    assert pair.kernel.serialize() == before


def ridge(z, y, penalty, h=None):
    """The weights of ridge regression towards 0, solved in one piece."""
    zh = z * (np.ones(len(z)) if h is None else np.asarray(h))[:, None]
    return np.linalg.solve(z.T @ zh + penalty * np.eye(z.shape[1]), zh.T @ y)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), penalty=st.sampled_from([1e-2, 1.0, 100.0]), weights=st.integers(1, 32))
def test_one_block_with_a_penalty_is_ridge_regression(seed, penalty, weights):
    rng, kernel = np.random.default_rng(seed), _kernel.LeastSquares(32, penalty)
    z = rng.normal(size=(120, weights)).astype(np.float32)
    y = z @ rng.normal(size=weights) + rng.normal(size=120)
    h = rng.choice([0.1, 1.0, 10.0], size=120)
    numbers = numbers_to(weights)
    for row, label, weight in zip(z, y, h, strict=True):
        kernel.learn(numbers, row, label, weight)
    expected = z @ ridge(z.astype(float), y, penalty, h)
    assert_allclose([kernel.predict(numbers, row, 0.0) for row in z], expected, atol=1e-4 * y.std())


def test_the_order_of_the_examples_does_not_matter_in_one_block():
    rng = np.random.default_rng(2)
    z, y = rng.normal(size=(60, 10)).astype(np.float32), rng.normal(size=60)
    kernels = [_kernel.LeastSquares(32, 1.0) for _ in range(2)]
    for kernel, order in zip(kernels, (range(60), rng.permutation(60)), strict=True):
        for t in order:
            kernel.learn(numbers_to(10), z[t], y[t])
    first, second = ([kernel.predict(numbers_to(10), row, 0.0) for row in z] for kernel in kernels)
    assert_allclose(first, second, atol=1e-5)


# The exact variance of the prediction for z, after n times z: |z|^2 / (penalty + n |z|^2).
@pytest.mark.parametrize("rounds", [1, 2, 5, 20, 100, 1000])
@pytest.mark.parametrize(("weights", "block"), [(8, 32), (32, 32), (64, 32), (512, 32), (16, 1), (4, 1), (1, 1)])
@pytest.mark.parametrize("penalty", [1.0, 10.0])
def test_the_variance_for_a_context_that_repeats_is_near_the_exact_one(rounds, weights, block, penalty):
    kernel, numbers, ones = _kernel.LeastSquares(block, penalty), numbers_to(weights), np.ones(weights, np.float32)
    for _ in range(rounds):
        kernel.learn(numbers, ones, 1.0)
    exact = weights / (penalty + rounds * weights)
    assert exact / 1.5 <= kernel.variance(numbers, ones) <= exact * 1.5


def test_the_variance_of_what_was_never_seen_is_that_of_the_prior():
    kernel = _kernel.LeastSquares(32, 2.0)
    kernel.learn([1, 2], [0.0, 1.0], 1.0)  # a value of 0 tells nothing
    for number in (1, 3):
        assert kernel.variance([number], [5.0]) == pytest.approx(25 / 2.0)
    assert kernel.variance([], []) == kernel.variance([2], [0.0]) == 0


def test_features_on_one_weight_add_up():
    pairs = [Pair(), Pair()]
    rng = np.random.default_rng(3)
    for _ in range(30):
        numbers, values = rng.integers(5, size=4), rng.normal(size=4).astype(np.float32)
        label = float(values.sum())
        pairs[0].learn([*numbers, 7, 7], [*values, 0.25, 0.75], label)
        pairs[1].learn([*numbers, 7], [*values, 0.75], label)  # its largest value is the same
        pairs[1].learn([7], [0.25], 0.0, 0.0)
    kernel = pairs[0].kernel
    split, whole = (kernel.variance(n, v) for n, v in (([7, 1, 7], [0.5, 1, 0.25]), ([1, 7], [1, 0.75])))
    assert split == pytest.approx(whole)
    split, whole = (kernel.predict(n, v, 0.0) for n, v in (([7, 1, 7], [0.5, 1, 0.25]), ([1, 7], [1, 0.75])))
    assert split == pytest.approx(whole)


def test_one_absurd_feature_does_not_ruin_the_others():
    rng, kernel = np.random.default_rng(4), _kernel.LeastSquares()
    z = rng.normal(size=(400, 5)).astype(np.float32)
    y = 2 + z @ np.arange(1, 6) + rng.normal(size=400) / 10
    late = []
    for t, (row, label) in enumerate(zip(z, y, strict=True)):
        values = np.append(row, np.float32(1))
        if t in (50, 120):
            values[3] = 1e30
        predicted = kernel.learn(numbers_to(6), values, label, 1.0, kernel.mean)
        late += [predicted - label] if t >= 300 else []
        assert np.isfinite(predicted)
    without = [0, 1, 2, 4, 5]
    rest = np.column_stack([z, np.ones(400)])[:, without]
    # what the other features can say, once this one is lost
    residual = y - rest @ ridge(rest, y, 1.0)
    assert np.std(late) < 1.2 * residual[300:].std()


@pytest.mark.parametrize("largest", [1e10, 1e30, 3e38])
def test_absurd_features_and_labels_leave_numbers(largest):
    rng, kernel = np.random.default_rng(5), _kernel.LeastSquares()
    for t in range(300):
        values = rng.normal(size=6).astype(np.float32)
        if t % 7 == 3:
            values[t % 6] = rng.choice([-largest, largest])
        label = largest if t % 31 == 5 else float(rng.normal())
        kernel.learn(numbers_to(6), values, label, 1.0, kernel.mean)
        assert np.isfinite(kernel.predict(numbers_to(6), values, kernel.mean))
        assert np.isfinite(kernel.variance(numbers_to(6), values))
    restored = _kernel.LeastSquares()
    assert restored.deserialize(kernel.serialize())


def collinear_stream(rng, rounds):
    """Six features that nearly say the same, of 1e-6 and of 1e6."""
    common = rng.normal(size=(rounds, 2))[:, [0, 0, 0, 1, 1, 1]]
    z = (common + 1e-3 * rng.normal(size=(rounds, 6))) * [1e-6, 1e6, 1, 1e-6, 1e6, 1]
    z = z.astype(np.float32)
    y = common[:, 0] - 2 * common[:, 3] + 0.1 * rng.normal(size=rounds)
    return z, y


@pytest.mark.parametrize("rounds", [3000, pytest.param(10**6, marks=pytest.mark.slow)])
def test_nearly_collinear_features_of_any_size_are_solved_as_in_double(rounds):
    z, y = collinear_stream(np.random.default_rng(6), rounds)
    kernel, numbers = _kernel.LeastSquares(), numbers_to(6)
    scale = np.abs(z).max(axis=0).astype(float)
    for row, label in zip(z, y, strict=True):
        kernel.learn(numbers, row, label, 1.0, 0.0)
    assert kernel.in_blocks
    expected = z[-1000:] / scale @ ridge(z / scale, y, kernel.penalty)
    predicted = np.array([kernel.predict(numbers, row, 0.0) for row in z[-1000:]])
    assert np.abs(predicted - np.clip(expected, y.min(), y.max())).max() < 1e-3 * y.std()
