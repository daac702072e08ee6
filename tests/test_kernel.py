"""The kernel on its own: the policy recursion and the weight history, against NumPy and against the paper's lemma."""

import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from opo_cmab import _kernel, reference

from tests.helpers.fuzz_input import damage_field

LOSS = st.floats(-0.5, 1.5, width=32)
PREDICTIONS = st.tuples(st.integers(0, 90), st.integers(1, 6)).flatmap(
    lambda shape: arrays(float, shape, elements=LOSS)
)
ETA = st.sampled_from([0.0, 0.1, 1.0, 30.0, 100.0, 1e4, 1e6])
# Rounding grows with eta twice: of a log weight (1e-16 eta), and through the counts it moves, of a bonus times eta. At
# 1e6 that is 1e-4 where actions tie, in the reference as in the kernel: there is no one right answer to compare with.
COMPARABLE_ETA = st.sampled_from([0.0, 0.1, 1.0, 30.0, 100.0, 1e4])
DECAY = st.sampled_from([1.0, 1.0, 0.99, 0.5, 0.0])
BONUS = st.one_of(
    st.fixed_dictionaries({"gamma": st.floats(0, 10), "decay": DECAY}),
    st.fixed_dictionaries({"beta": st.floats(0, 50), "decay": DECAY}),
)


def wandering_predictions(rng, rounds, actions):
    """Predictions that drift apart and cross, so that the leader changes now and then."""
    return np.clip(0.5 + np.cumsum(rng.normal(scale=0.02, size=(rounds, actions)), axis=0), -0.2, 1.2)


@given(PREDICTIONS, COMPARABLE_ETA, BONUS)
def test_policies_equal_the_reference(predictions, eta, bonus):
    expected = reference.policies(predictions, eta=eta, **bonus)
    assert_allclose(_kernel.policies(predictions, eta=eta, **bonus), expected, atol=1e-7)
    assert_allclose(_kernel.policy(predictions, eta=eta, **bonus), expected[-1], atol=1e-7)


@pytest.mark.parametrize("settings", [(0.3, 1), (10, 1), (100, 1), (100, 0.9), (3000, 1), (3000, 0.99)])
@pytest.mark.parametrize("actions", [1, 2, 4, 5, 6, 7])
def test_long_replays_equal_the_reference(settings, actions):
    arguments = {"eta": settings[0], "decay": settings[1], "gamma": 0.1}
    predictions = wandering_predictions(np.random.default_rng(actions), 3000, actions)
    expected = reference.policies(predictions, **arguments)
    assert_allclose(_kernel.policies(predictions, **arguments), expected, atol=1e-9)
    for t in (1, 31, 32, 33, 255, 256, 257, 1000, 3000):  # the borders of stretches and blocks
        assert_allclose(_kernel.policy(predictions[:t], **arguments), expected[t], atol=1e-9)


def test_an_action_whose_probability_underflowed_comes_back():
    rounds = 400
    predictions = np.empty((2 * rounds, 2))
    predictions[:rounds] = [0.1, 0.9]  # 100 * 0.8 * 400: far below the smallest double
    predictions[rounds:] = [0.9, 0.05]
    policies = _kernel.policies(predictions, eta=100, beta=0)
    assert policies[rounds, 1] == 0
    assert policies[-1, 1] == pytest.approx(1)
    assert _kernel.policy(predictions, eta=100, beta=0)[1] == pytest.approx(1)


def test_an_absurd_prediction_does_not_keep_an_action_out_for_ever():
    """A bonus of at most 1 would never outweigh a prediction of 255, and nothing would be learnt that corrects it."""
    rounds = 3000
    absurd, high = (np.tile([0.3, loss], (rounds, 1)) for loss in (255.0, reference.LARGEST_LOSS))
    replay = {"eta": 20.0, "gamma": 1.0, "decay": 0.8}
    assert (bounded_policy(absurd, 64, **replay) == bounded_policy(high, 64, **replay)).all()
    assert (_kernel.policy(absurd, **replay) == _kernel.policy(high, **replay)).all()
    plays = _kernel.policies(absurd, **replay).sum(axis=0)
    # It is played until its bonus falls to 2 - 0.3 = 1.7.
    assert plays[1] == pytest.approx(np.sqrt(rounds / 2) / 2 / 1.7, rel=0.1)


@pytest.mark.parametrize("eta", [1e2, 1e6])
@pytest.mark.parametrize("bonus", [{"gamma": 0.1}, {"beta": 300}])
def test_probabilities_are_finite_and_sum_to_1_after_100000_rounds(eta, bonus):
    predictions = wandering_predictions(np.random.default_rng(5), 100_000, 5)
    for policy in (_kernel.policy(predictions, eta=eta, **bonus), _kernel.policies(predictions, eta=eta, **bonus)[-1]):
        assert np.isfinite(policy).all()
        assert policy.min() >= 0
        assert policy.sum() == pytest.approx(1, abs=1e-12)


@given(PREDICTIONS, COMPARABLE_ETA, BONUS, st.randoms(use_true_random=False))
def test_permuting_actions_permutes_the_policy(predictions, eta, bonus, random):
    order = list(range(predictions.shape[1]))
    random.shuffle(order)
    policy = _kernel.policy(predictions, eta=eta, **bonus)
    assert_allclose(_kernel.policy(predictions[:, order], eta=eta, **bonus), policy[order], atol=1e-9)


@given(st.integers(0, 200), st.integers(1, 8), ETA, LOSS)
def test_equal_losses_stay_uniform(rounds, actions, eta, loss):
    policy = _kernel.policy(np.full((rounds, actions), loss), eta=eta, gamma=0.1)
    assert_allclose(policy, 1 / actions, atol=1e-12)


@settings(max_examples=50)
@given(st.integers(1, 200), st.integers(1, 6), ETA, st.floats(0.01, 20), st.integers(0, 99))
def test_the_sum_of_bonuses_is_bounded_as_the_paper_says(rounds, actions, eta, beta, seed):
    # Lemma "Bonuses bound": sum_k sum_a pi_k(a) min{1, (beta / 2) / (1 + sum_{i<k} pi_i(a))} <= beta |A| log(K + 1)
    predictions = wandering_predictions(np.random.default_rng(seed), rounds, actions)
    policies = _kernel.policies(predictions, eta=eta, beta=beta)[:-1]
    played = np.cumsum(policies, axis=0) - policies
    bonuses = np.minimum(1, (beta / 2) / (1 + played))
    assert (policies * bonuses).sum() <= beta * actions * np.log(rounds + 1) + 1e-9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"eta": -1, "gamma": 1}, "eta"),
        ({"eta": float("nan"), "gamma": 1}, "eta"),
        ({"eta": 1, "gamma": -1}, "gamma and beta"),
        ({"eta": 1, "beta": float("inf")}, "gamma and beta"),
        ({"eta": 1, "gamma": 1, "decay": 1.1}, "decay"),
        ({"eta": 1}, "give one of gamma and beta"),
        ({"eta": 1, "gamma": 1, "beta": 1}, "give one of gamma and beta"),
    ],
)
def test_bad_settings_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        _kernel.policy(np.zeros((3, 2)), **arguments)


def test_predictions_must_be_a_matrix():
    with pytest.raises(ValueError, match="a row for each past round"):
        _kernel.policy(np.zeros(3), eta=1, gamma=1)


class NaiveHistory:
    """A copy of all weights before each round."""

    def __init__(self, weights):
        self.weights = np.array(weights, dtype=np.float32)
        self.copies = []

    def start_round(self):
        self.copies.append(self.weights.astype(float))

    def past_predictions(self, indices, values):
        return np.array([copy[indices] @ values.astype(float) for copy in self.copies])


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([0, 0.2, 0.5, 0.9, 1]), st.integers(1, 40))
def test_the_weight_history_equals_a_copy_of_all_weights_each_round(seed, density, rounds):
    rng = np.random.default_rng(seed)
    size = 12
    first = rng.choice(np.array([0, 2**32 - 6, 2**40], dtype=np.uint64))  # of the weights
    naive = NaiveHistory(rng.normal(size=size) * rng.integers(0, 2))
    history = _kernel.WeightHistory()
    for _ in range(rounds):
        naive.start_round()
        touched = np.flatnonzero(rng.random(size) < density)  # weights that go together, more or less
        touched = np.concatenate([touched, rng.choice(size, size=rng.integers(0, 5))])  # and others, with repetition
        before = naive.weights.copy()
        naive.weights[touched] += rng.normal(size=len(touched)).astype(np.float32)
        history.record(first + touched.astype(np.uint64), before[touched], naive.weights[touched])
        history.end_round()
    indices = rng.choice(size, size=8)  # several features may sit on one weight
    values = rng.normal(size=8).astype(np.float32)
    got = history.past_predictions(first + indices.astype(np.uint64), values, naive.weights[indices])
    assert_allclose(got, naive.past_predictions(indices, values), atol=1e-9)

    copy = _kernel.WeightHistory()
    assert copy.deserialize(history.serialize())
    assert copy.serialize() == history.serialize()
    assert copy.entries == history.entries
    again = copy.past_predictions(first + indices.astype(np.uint64), values, naive.weights[indices])
    assert (again == got).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(2, 20), st.integers(1, 120))
def test_a_bounded_weight_history_predicts_the_averages_over_its_segments(seed, budget, rounds):
    rng = np.random.default_rng(seed)
    size = 6
    naive = NaiveHistory(rng.normal(size=size))
    history = _kernel.WeightHistory(budget=budget)
    indices, values = np.arange(size), rng.normal(size=size).astype(np.float32)
    for t in range(rounds):
        naive.start_round()
        touched = rng.choice(size, size=rng.integers(0, 4), replace=False)
        before = naive.weights.copy()
        naive.weights[touched] += rng.normal(size=len(touched)).astype(np.float32)
        history.record(touched.astype(np.uint64), before[touched], naive.weights[touched])
        history.end_round()
        starts = _kernel.segment_starts(t + 1, budget=budget)
        expected = reference.averages(naive.past_predictions(indices, values)[:, None], starts)[:, 0]
        got = history.past_predictions(indices.astype(np.uint64), values, naive.weights)
        assert_allclose(got, expected, atol=1e-4)  # averages are kept as float, averages of averages among them
    assert history.entries <= size * (2 * budget + 1)
    copy = _kernel.WeightHistory(budget=budget)
    assert copy.deserialize(history.serialize())
    assert (copy.past_predictions(indices.astype(np.uint64), values, naive.weights) == got).all()
    assert not _kernel.WeightHistory(budget=budget + 1).deserialize(history.serialize())


def test_a_weight_that_stopped_changing_long_ago_keeps_its_averages():
    """Rounds that are no longer remembered are searched for, also where segments merged after the last change."""
    budget, changing, rounds = 256, 106_000, 130_000
    steps = np.random.default_rng(0).normal(size=changing, scale=0.01)
    history = _kernel.WeightHistory(budget=budget)
    weight, one = np.zeros(1, dtype=np.float32), np.ones(1, dtype=np.float32)
    index = np.zeros(1, dtype=np.uint64)
    sums = np.zeros(rounds + 1)  # of the predictions before each round
    checked = 0
    for k in range(rounds):
        sums[k + 1] = sums[k] + weight[0]
        if k < changing:
            before, weight = weight, (weight + steps[k]).astype(np.float32)
            history.record(index, before, weight)
        history.end_round()
        if k > changing and k % 1000 == 0:
            starts = np.asarray(_kernel.segment_starts(k + 1, budget=budget))
            expected = np.diff(sums[starts]) / np.diff(starts)
            assert_allclose(history.past_predictions(index, one, weight), expected, atol=1e-4)
            checked += 1
    assert checked > 20


def test_a_prediction_that_is_not_a_number_counts_as_the_worst():
    predictions = np.tile([0.3, 0.4], (100, 1))
    predictions[10, 1] = np.nan
    expected = np.tile([0.3, 0.4], (100, 1))
    expected[10, 1] = reference.LARGEST_LOSS
    arguments = {"eta": 1.0, "gamma": 0.1}
    assert_allclose(_kernel.policies(predictions, **arguments), _kernel.policies(expected, **arguments))


@settings(max_examples=50)
@given(st.integers(0, 1500), st.integers(2, 300))
def test_segments_cover_the_past_within_the_budget_and_are_those_of_the_reference(rounds, budget):
    starts = _kernel.segment_starts(rounds, budget=budget)
    lengths = np.diff(starts)
    assert starts[0] == 0
    assert starts[-1] == rounds
    assert (lengths > 0).all()
    assert len(lengths) == min(rounds, budget)
    assert (starts == reference.segment_starts(rounds, budget=budget)).all()


def test_older_segments_are_longer():
    lengths = np.diff(_kernel.segment_starts(10_000, budget=32))
    assert lengths[-1] <= 2
    assert (np.add.reduceat(lengths, range(0, 32, 8)) > [5000, 1500, 300, 8]).all()
    past = _kernel.Segments(32)
    for _ in range(10_000):
        past.append()
    assert (np.diff(past.starts) == lengths).all()


def test_segments_tell_which_were_merged():
    past, expected = _kernel.Segments(5), [0]
    for t in range(1, 200):
        merged = past.append()
        expected.append(t)
        assert (merged is None) == (t <= 5)
        if merged is not None:
            del expected[merged + 1]
        assert past.starts.tolist() == expected
    assert pickle.loads(pickle.dumps(past)).starts.tolist() == expected


def bounded_policy(predictions, budget, **settings):
    starts = _kernel.segment_starts(len(predictions), budget=budget)
    return _kernel.bounded_policy(reference.averages(predictions, starts), starts, budget=budget, **settings)


BUDGET = st.integers(2, 24)


@given(PREDICTIONS.filter(len), BUDGET, COMPARABLE_ETA, BONUS)
def test_bounded_policies_equal_the_reference(predictions, budget, eta, bonus):
    starts = reference.segment_starts(len(predictions), budget=budget)
    expected = reference.bounded_policy(reference.averages(predictions, starts), starts, eta=eta, **bonus)
    assert_allclose(bounded_policy(predictions, budget, eta=eta, **bonus), expected, atol=1e-5)


# Where eta / (1 - decay) is small, as it is by default, the kernel solves in floats.
@pytest.mark.parametrize(
    "settings",
    [(0.3, 1, 1e-9), (100, 1, 1e-9), (100, 0.5, 1e-9), (3000, 0.99, 1e-8), (20, 0.8, 1e-5), (60, 0.5, 1e-5)],
)
@pytest.mark.parametrize("actions", [2, 5, 9, 40])
def test_long_bounded_replays_equal_the_reference(settings, actions):
    arguments = {"eta": settings[0], "decay": settings[1], "gamma": 0.3}
    predictions = wandering_predictions(np.random.default_rng(actions), 3000, actions)
    for budget in (8, 32):
        starts = _kernel.segment_starts(3000, budget=budget)
        averages = reference.averages(predictions, starts)
        expected = reference.bounded_policy(averages, starts, **arguments)
        got = _kernel.bounded_policy(averages, starts, budget=budget, **arguments)
        assert_allclose(got, expected, atol=settings[2])
        table = np.stack([averages.ravel(), averages[:, ::-1].ravel()], axis=1)
        rows = np.arange(averages.size).reshape(averages.shape)
        both = _kernel.bounded_policies(table, rows, starts, budget=budget, **arguments)
        assert_allclose(both, [expected, expected[::-1]], atol=settings[2])


@given(PREDICTIONS.filter(len), BUDGET, ETA, BONUS)
def test_bounded_policies_are_finite_and_sum_to_1(predictions, budget, eta, bonus):
    policy = bounded_policy(predictions, budget, eta=eta, **bonus)
    assert np.isfinite(policy).all()
    assert policy.min() >= 0
    assert policy.sum() == pytest.approx(1, abs=1e-12)


@given(PREDICTIONS.filter(len), BUDGET, COMPARABLE_ETA, BONUS, st.randoms(use_true_random=False))
def test_permuting_actions_permutes_the_bounded_policy(predictions, budget, eta, bonus, random):
    order = list(range(predictions.shape[1]))
    random.shuffle(order)
    policy = bounded_policy(predictions, budget, eta=eta, **bonus)
    assert_allclose(bounded_policy(predictions[:, order], budget, eta=eta, **bonus), policy[order], atol=1e-6)


@given(PREDICTIONS.filter(len), COMPARABLE_ETA, BONUS)
def test_a_bounded_policy_is_exact_until_the_budget_is_used_up(predictions, eta, bonus):
    expected = _kernel.policy(predictions, eta=eta, **bonus)
    assert_allclose(bounded_policy(predictions, max(2, len(predictions)), eta=eta, **bonus), expected, atol=1e-7)


@given(st.integers(1, 8), st.integers(2, 300), COMPARABLE_ETA, DECAY, LOSS)
def test_equal_losses_stay_uniform_within_a_budget(actions, rounds, eta, decay, loss):
    policy = bounded_policy(np.full((rounds, actions), loss), 8, eta=eta, gamma=0.3, decay=decay)
    assert_allclose(policy, 1 / actions, atol=1e-9)


@pytest.mark.parametrize("eta", [20, 2000], ids=["floats", "doubles"])
def test_without_a_bonus_long_segments_lead_to_a_softmax_whatever_happened_before(eta):
    rng = np.random.default_rng(0)
    for actions in (2, 3, 4, 12):
        losses = rng.uniform(0.1, 0.13, size=(40, actions))
        losses[rng.random(losses.shape) < 0.1] = 1  # now and then an action drops out
        starts = np.arange(41) * 20
        got = _kernel.bounded_policy(losses, starts, budget=40, eta=eta, decay=0.8, beta=0)
        weights = np.zeros(actions)
        for f in losses:
            weights = 0.8**20 * weights - eta * (1 - 0.8**20) / 0.2 * f
        expected = np.exp(weights - weights.max())
        assert_allclose(got, expected / expected.sum(), atol=1e-5)


def test_in_a_long_segment_played_actions_come_to_the_same_optimistic_loss():
    losses = np.array([0.3, 0.35, 0.4, 0.45, 0.9])
    averages = np.array([losses, losses])
    h, beta, eta, decay = 1000, 4, 1e4, 0.5
    policies = _kernel.bounded_policy(averages, [0, h, 2 * h], budget=2, eta=eta, beta=beta, decay=decay)
    exact = _kernel.policies(np.tile(losses, (2 * h, 1)), eta=eta, beta=beta, decay=decay)
    played = exact[:-1].sum(axis=0)
    optimistic = losses - beta / 2 / (1 + played)
    assert np.ptp(optimistic[:4]) < 0.01  # so it is in the exact replay
    assert_allclose(policies, exact[-h:].mean(axis=0), atol=0.01)


@pytest.mark.parametrize("decay", [0.8, 0.9, 1])
def test_bounded_policies_converge_to_the_exact_one_as_the_budget_grows(decay):
    rng = np.random.default_rng(1)
    streams = [wandering_predictions(rng, 2000, 4) for _ in range(40)]
    arguments = {"eta": 100, "gamma": 0.1, "decay": decay}
    exact = [_kernel.policy(p, **arguments) for p in streams]
    errors = [
        np.mean([np.abs(bounded_policy(p, budget, **arguments) - e).max() for p, e in zip(streams, exact, strict=True)])
        for budget in (8, 64, 512, 2000)
    ]
    assert errors[-1] < 1e-6
    assert errors[1] < errors[0]
    assert errors[2] < errors[1]


@pytest.mark.parametrize("starts", [[], [0], [1, 3], [0, 3, 3], [0, 1, 2, 3]])
def test_segments_that_do_not_fit_are_refused(starts):
    with pytest.raises(ValueError, match="starts must grow"):
        _kernel.bounded_policy(np.zeros((2, 2)), starts, budget=2, eta=1, gamma=1)


def record(history, weights, before):
    """Weights, all of the value `before`, have grown by 1."""
    values = np.full(len(weights), before, dtype=np.float32)
    history.record(np.array(weights, dtype=np.uint64), values, values + 1)


def test_damaged_history_bytes_are_refused():
    history = _kernel.WeightHistory()
    for t in range(20):
        record(history, [t % 3], t)
        history.end_round()
    data = history.serialize()
    assert _kernel.WeightHistory().deserialize(data)
    for cut in range(len(data)):
        assert not _kernel.WeightHistory().deserialize(data[:cut])
    assert not _kernel.WeightHistory().deserialize(data + b"\0")
    assert not _kernel.WeightHistory().deserialize(b"\xff" * len(data))


@pytest.mark.parametrize("budget", [0, 8])
def test_changed_history_bytes_are_refused_or_are_another_history(budget):
    history = _kernel.WeightHistory(budget)
    for t in range(60):
        record(history, [t % 3, 7, 2**40 + t], t)
        history.end_round()
    data = history.serialize()
    weights, ones = np.array([0, 1, 2, 7, 2**40], dtype=np.uint64), np.ones(5, dtype=np.float32)
    accepted = 0
    for seed in range(2000):
        changed = damage_field(random.Random(seed), data)
        copy, again = _kernel.WeightHistory(budget), _kernel.WeightHistory(budget)
        if not copy.deserialize(changed):
            continue
        accepted += 1
        assert again.deserialize(copy.serialize())
        assert again.serialize() == copy.serialize()
        if int.from_bytes(changed[4:8], "little") < 1000:  # rounds: each takes memory
            assert copy.past_predictions(weights, ones, ones).shape == again.past_predictions(weights, ones, ones).shape
    assert 50 < accepted < 1500


def test_what_the_round_at_hand_changes_is_not_among_the_past():
    history = _kernel.WeightHistory()
    for before in (0, 1):
        record(history, [7], before)
        history.end_round()
    record(history, [7], 2)
    one = np.ones(1, dtype=np.float32)
    assert history.past_predictions(np.array([7], dtype=np.uint64), one, one).tolist() == [0, 1]


def test_a_history_saved_in_the_middle_of_a_round_goes_on_there():
    history, copy = _kernel.WeightHistory(), _kernel.WeightHistory()
    record(history, [7], 0)
    assert copy.deserialize(history.serialize())
    for h in (history, copy):
        record(h, [7, 8], 1)  # the round learns once more
        h.end_round()
        h.end_round()
    one = np.ones(1, dtype=np.float32)
    assert copy.serialize() == history.serialize()
    assert copy.past_predictions(np.array([7], dtype=np.uint64), one, one).tolist() == [0, 2]


def test_a_history_of_more_rounds_than_can_be_is_refused():
    empty = _kernel.WeightHistory().serialize()
    assert _kernel.WeightHistory().deserialize(empty)
    assert not _kernel.WeightHistory().deserialize(empty[:4] + b"\xff" * 4 + empty[8:])


def test_several_features_on_a_weight_count_as_one_change():
    once, often = _kernel.WeightHistory(), _kernel.WeightHistory()
    rng = np.random.default_rng(0)
    record(once, range(1000), 0)
    record(often, range(1000), 0)
    for t in range(1, 100):
        weights = rng.choice(1000, size=40, replace=False)
        record(once, weights, t)
        record(often, np.repeat(weights, 16), t)
    assert often.entries == once.entries
    assert often.serialize() == once.serialize()


def test_the_memory_of_a_bounded_history_goes_with_what_it_holds():
    history = _kernel.WeightHistory(budget=8)
    rng = np.random.default_rng(0)
    for t in range(600):
        dense = np.arange(5000 if t % 2 == 0 else 0)
        record(history, np.concatenate([dense, rng.choice(np.arange(5000, 5100), size=2, replace=False)]), t)
        history.end_round()
    assert history.bytes < 8 * len(history.serialize())


@pytest.mark.parametrize("budget", [0, 8])
def test_a_decision_after_a_replay_that_broke_off_is_right(budget):
    rng = np.random.default_rng(0)
    history = _kernel.WeightHistory(budget)
    weights, now = np.arange(12, dtype=np.uint64).reshape(3, 4), np.zeros((3, 4), dtype=np.float32)
    for _ in range(40):
        action = rng.integers(3)
        before = now[action].copy()
        now[action] += rng.normal(size=4).astype(np.float32)
        history.record(weights[action], before, now[action])
        history.end_round()
    fresh = _kernel.WeightHistory(budget)
    assert fresh.deserialize(history.serialize())
    arguments = {"eta": 1, "gamma": 0.3, "decay": 0.9}

    def decide(who, values, **more):
        return who.policy(weights, values, now, **arguments, **more)

    def give_up(first, rounds):
        if first >= 20:
            raise MemoryError(f"in a step of {rounds} rounds")

    values = rng.normal(size=(2, 3, 4)).astype(np.float32)
    with pytest.raises(MemoryError, match="in a step"):
        decide(history, values[0], observer=give_up)
    assert (decide(history, values[1]) == decide(fresh, values[1])).all()

    steps = []
    observed = decide(history, values[1], observer=lambda *step: steps.append(step))
    assert_allclose(observed, decide(fresh, values[1]), atol=1e-12)
    assert sum(rounds for _, rounds in steps) == 40
    assert len(steps) == (budget or 40)
    predictions = history.past_predictions(weights, values[1], now)
    averages = fresh.past_predictions(weights, values[1], now)
    assert (predictions == averages).all()
    assert averages.shape == (budget or 40, 3)


def test_a_history_of_one_segment_is_refused():
    with pytest.raises(ValueError, match="budget must be 0"):
        _kernel.WeightHistory(budget=1)
