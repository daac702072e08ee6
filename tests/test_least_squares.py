"""--least_squares: the kernel against NumPy, and the base learner below the reductions and in the life of a model."""

import json
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from opo_cmab import _kernel, reference

from tests.helpers.fuzz_input import damage_field
from tests.helpers.slots import decide, random_events
from tests.helpers.streams import random_rounds

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
        used = [
            k for k, (p, b) in enumerate(of) if (np.float32(p), b) == (np.float32(kernel.penalty), kernel.in_blocks)
        ]
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
    for kernel, order in zip(kernels, (np.arange(60), rng.permutation(60)), strict=True):
        for t in order:
            kernel.learn(numbers_to(10), z[t], y[t])
    first, second = ([kernel.predict(numbers_to(10), row, 0.0) for row in z] for kernel in kernels)
    assert_allclose(first, second, atol=1e-5)


# The exact variance of the prediction for z, after n times z: |z|^2 / (penalty + n |z|^2).
@pytest.mark.parametrize("rounds", [1, 2, 5, 20, 100, 1000])
@pytest.mark.parametrize(("weights", "block"), [(8, 32), (32, 32), (64, 32), (512, 32), (16, 1), (4, 1), (1, 1)])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 10.0])
def test_the_variance_for_a_context_that_repeats_is_near_the_exact_one(rounds, weights, block, penalty):
    kernel, numbers, ones = _kernel.LeastSquares(block, penalty), numbers_to(weights), np.ones(weights, np.float32)
    for _ in range(rounds):
        kernel.learn(numbers, ones, 1.0)
    exact = weights / (kernel.penalty + rounds * weights)
    assert exact / 1.5 <= kernel.variance(numbers, ones) <= exact * 1.5


@pytest.mark.parametrize("rounds", [1, 10, 200])
def test_what_forgets_is_at_least_as_uncertain_as_what_remembers_all(rounds):
    rng, kernel = np.random.default_rng(32), _kernel.LeastSquares(32)
    numbers, ones = numbers_to(5), np.ones(5, np.float32)
    for t in range(3000):  # what the regression says changes all the time, which candidates with blocks follow less
        kernel.learn(
            numbers + np.uint64(100),
            np.roll(ones * 0.9, t) * rng.choice([0, 1], size=5).astype(np.float32),
            float(t // 40 % 2 * 10),
            1.0,
            kernel.mean,
        )
        if not kernel.in_blocks and t > 100:
            break
    assert not kernel.in_blocks
    for _ in range(rounds):
        kernel.learn(numbers, ones, 5.0, 1.0, kernel.mean)
    assert not kernel.in_blocks
    exact = 5 / (kernel.penalty + rounds * 5)
    assert exact / 1.5 <= kernel.variance(numbers, ones) <= 5 / kernel.penalty


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


# -- the base learner -------------------------------------------------------------------------------------------------


def predictions(vw, tmp_path, lines, flags, name="data"):
    """One pass of vw: the predictions before each label."""
    data, out = tmp_path / name, tmp_path / f"{name}.out"
    data.write_text("".join(line + "\n" for line in lines))
    vw(f"--quiet -d {data} -p {out} {flags}")
    return np.array([float(line.split()[0]) for line in out.read_text().splitlines() if line])


def progressive_ridge(rows, y, h, penalty):
    """Of each example: ridge regression's prediction from those before it."""
    expected = np.zeros(len(y))
    for t in range(1, len(y)):
        expected[t] = rows[t] @ ridge(rows[:t], y[:t], penalty, h[:t])
    return expected


def random_lines(rng, n=80):
    """Regression lines with numbers, names, repeated and missing features, importance weights; the same by name."""
    lines, rows = [], []
    for _ in range(n):
        row = [("a", f"f{i}", round(float(rng.normal()), 3)) for i in rng.choice(5, size=rng.integers(1, 6))]
        row += [("b", f"g{i}", 1.0) for i in rng.choice(3, size=rng.integers(0, 3))]
        y = round(2 + sum(x * (int(name[1]) - 1) for _, name, x in row) + rng.normal() / 5, 3)
        weight = float(rng.choice([1, 1, 0.25, 3]))
        parts = {ns: " ".join(f"{name}:{x}" for of, name, x in row if of == ns) for ns in ("a", "b")}
        lines.append(f"{y} {weight} |a {parts['a']} |b {parts['b']}")
        rows.append((y, weight, row))
    return lines, rows


def named_matrix(rows, also=lambda row: []):
    """The same as a matrix, a column for each name."""
    features = [[*row, ("", "constant", 1.0), *also(row)] for _, _, row in rows]
    names = sorted({f[:2] for row in features for f in row})
    matrix = np.zeros((len(rows), len(names)))
    for t, row in enumerate(features):
        for ns, name, x in row:
            matrix[t, names.index((ns, name))] += x
    return matrix


def crossed(row):
    """VW's -q ab."""
    return [("ab", f"{n}^{m}", x * y) for of, n, x in row for to, m, y in row if (of, to) == ("a", "b")]


@pytest.mark.parametrize(
    ("flags", "matrix"),
    [
        ("", named_matrix),
        ("-q ab", lambda rows: named_matrix(rows, crossed)),
        ("--noconstant", lambda rows: named_matrix(rows)[:, 1:]),
        ("--ignore b", lambda rows: named_matrix([(y, h, [f for f in row if f[0] == "a"]) for y, h, row in rows])),
        ("--keep b", lambda rows: named_matrix([(y, h, [f for f in row if f[0] == "b"]) for y, h, row in rows])),
    ],
)
def test_one_block_with_a_penalty_is_ridge_regression_in_vw_too(vw, tmp_path, flags, matrix):
    lines, rows = random_lines(np.random.default_rng(7))
    y, h = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    got = predictions(vw, tmp_path, lines, f"--least_squares --ls_penalty 1 {flags}")
    assert_allclose(got, progressive_ridge(matrix(rows), y, h, 1.0), atol=1e-4 * y.std())


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_features_that_collide_are_one_feature_their_sum(vw, tmp_path, bits):
    lines, rows = random_lines(np.random.default_rng(8))
    y, h = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    data = tmp_path / "names"
    data.write_text("".join(line + "\n" for line in lines))
    audited = vw(f"-d {data} -t --least_squares -b {bits} --audit --quiet").stdout.splitlines()[1::2]
    matrix = np.zeros((len(rows), 2**bits))
    for t, line in enumerate(audited):
        for feature in line.split():
            _, number, x, _ = feature.split(":")
            matrix[t, int(number)] += float(x)
    got = predictions(vw, tmp_path, lines, f"--least_squares --ls_penalty 1 -b {bits}")
    assert_allclose(got, progressive_ridge(matrix, y, h, 1.0), atol=1e-4 * y.std())


def dense_lines(z, y):
    rows = [" ".join(f"f{i}:{x:.9g}" for i, x in enumerate(row)) for row in z]
    return [f"{label:.9g} |a {row}" for label, row in zip(y, rows, strict=True)]


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_units_of_features_do_not_matter(vw, tmp_path, unit):
    rng = np.random.default_rng(9)
    z = rng.normal(size=(400, 10))
    y = z @ rng.normal(size=10) + rng.normal(size=400)
    scales = np.where(np.arange(10) % 2, unit, 1)
    first = predictions(vw, tmp_path, dense_lines(z, y), "--least_squares")
    second = predictions(vw, tmp_path, dense_lines(z * scales, y), "--least_squares")
    assert_allclose(first[20:], second[20:], atol=1e-3 * y.std())


@pytest.mark.parametrize(("origin", "unit"), [(0, 0.01), (1000, 1), (-30, 1000)])
def test_the_unit_of_labels_does_not_matter(vw, tmp_path, origin, unit):
    rng = np.random.default_rng(10)
    z = rng.normal(size=(400, 10))
    y = z @ rng.normal(size=10) + rng.normal(size=400)
    first = predictions(vw, tmp_path, dense_lines(z, y), "--least_squares")
    second = predictions(vw, tmp_path, dense_lines(z, origin + unit * y), "--least_squares")
    assert_allclose((second[20:] - origin) / unit, first[20:], atol=1e-3 * y.std())


def test_the_order_of_features_and_namespaces_does_not_matter_where_one_block_holds_them(vw, tmp_path):
    rng = np.random.default_rng(11)
    lines, rows = random_lines(rng, 150)
    other = []
    for line in lines:
        label, *spaces = line.split("|")
        shuffled = []
        for space in rng.permutation(spaces):
            name, *features = space.split()
            shuffled.append(" ".join([name, *rng.permutation(features)]))
        other.append("|".join([label, *shuffled]))
    first, second = (predictions(vw, tmp_path, some, "--least_squares -q ab") for some in (lines, other))
    assert_allclose(first, second, atol=1e-3 * np.std([row[0] for row in rows]))


def test_the_order_of_features_changes_little_where_blocks_divide_them(vw, tmp_path):
    rng = np.random.default_rng(12)
    z = rng.normal(size=(1500, 100))
    y = z @ rng.normal(size=100) + 5 * rng.normal(size=1500)
    errors = []
    for _ in range(2):
        order = rng.permutation(100)
        lines = [
            f"{label:.6g} |a " + " ".join(f"f{i}:{row[i]:.6g}" for i in order) for label, row in zip(y, z, strict=True)
        ]
        errors.append(np.mean((predictions(vw, tmp_path, lines, "--least_squares") - y) ** 2))
    assert errors[0] == pytest.approx(errors[1], rel=0.02)


def relabelled(line, action):
    label, bar, features = line.partition("|")
    return f"{action}:{label.partition(':')[2]}{bar}{features}" if label else line


def test_the_order_of_actions_does_not_matter_where_one_block_holds_them(ours):
    rng = np.random.default_rng(13)
    rounds = random_rounds(13, n=60, actions=(3, 3))
    orders = [rng.permutation(3) for _ in rounds]
    shuffled = [
        [lines[0], *(relabelled(lines[1 + a], i) for i, a in enumerate(order))]
        for lines, order in zip(rounds, orders, strict=True)
    ]
    first, second = (ours("--cb_adf --least_squares --ls_block 64 -q sa", some) for some in (rounds, shuffled))
    for scores, others, order in zip(first, second, orders, strict=True):
        assert_allclose([scores[a] for a in order], others, atol=1e-3 * 0.3)


# -- below reductions -------------------------------------------------------------------------------------------------


def reward_of(ours, flags, rounds):
    """The mean cost of the last half of the rounds, as the policy would have had it, less that of playing at random."""
    answers, gain = ours(flags, rounds), []
    for answer, lines in zip(answers[len(rounds) // 2 :], rounds[len(rounds) // 2 :], strict=True):
        played = next(a for a, line in enumerate(lines[1:]) if line[0].isdigit())
        cost = float(lines[1 + played].split(":")[1])
        gain.append((cost - 0.5) * (answer[played] * len(answer) - 1))
    return np.mean(gain)


EXPLORERS = [
    "--epsilon 0.1",
    "--squarecb",
    "--squarecb --elim",
    "--squarecb --cb_cost_unit range",
    "--regcb --mellowness 0.001",
    "--regcb --regcbopt --mellowness 0.001",
    "--bag 3",
    "--cover 3",
    "--softmax --lambda 10",
    "--first 20",
    "--rnd 2",
    "--synthcover",
    "--opo_cmab",
    "--fastcb",
    "--adacb",
    "--adacb --cb_cost_unit raw",
    "--graph_feedback",
    "--large_action_space --squarecb",
]


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_every_explorer_learns(ours, explorer):
    rounds = random_rounds(14, n=300)
    assert reward_of(ours, f"--cb_explore_adf {explorer} --least_squares -q sa --random_seed 3", rounds) < -0.03


def classes(rng, n=400):
    """Three classes, each with its own feature most of the time."""
    found = rng.integers(3, size=n)
    return found, [f"|a f{c if rng.random() < 0.9 else rng.integers(3)} x:{rng.normal():.3f}" for c in found]


def test_below_oaa_and_csoaa_ldf_it_learns_classes(vw, tmp_path):
    found, features = classes(np.random.default_rng(15))
    lines = [f"{c + 1} {line}" for c, line in zip(found, features, strict=True)]
    guessed = predictions(vw, tmp_path, lines, "--oaa 3 --least_squares", "oaa")
    assert np.mean(guessed[200:] == found[200:] + 1) > 0.85

    rounds = [
        "\n".join(f"{k + 1}:{float(k != c)} {line} |k c{k}" for k in range(3)) + "\n"
        for c, line in zip(found, features, strict=True)
    ]
    scores = predictions(vw, tmp_path, rounds, "--csoaa_ldf mc --least_squares -q ak", "ldf").reshape(-1, 3)
    assert np.mean(scores[200:, :].argmax(axis=1) == found[200:]) > 0.85


def test_classes_of_oaa_have_weights_of_their_own(vw, tmp_path):
    found, features = classes(np.random.default_rng(16), 60)
    lines = [f"{c + 1} {line}" for c, line in zip(found, features, strict=True)]
    predictions(vw, tmp_path, lines, f"--oaa 3 --least_squares -f {tmp_path / 'model'}")
    metrics = tmp_path / "metrics"
    vw(f"--quiet -i {tmp_path / 'model'} --no_stdin --extra_metrics {metrics}")
    assert json.loads(metrics.read_text())["least_squares"]["ls_weights"] == 3 * 5  # f0, f1, f2, x, the constant


@pytest.mark.parametrize("slates", [False, True])
@pytest.mark.parametrize("explorer", ["--squarecb", "--fastcb", "--epsilon 0.1"])
def test_below_ccb_and_slates_it_learns(explorer, slates):
    from vowpalwabbit import Workspace

    kind = "--slates" if slates else "--ccb_explore_adf"
    workspace = Workspace(f"{kind} {explorer} --least_squares -q sa --quiet --random_seed 1")
    gain = []
    for event in random_events(17, n=400, slates=slates):
        decisions = event.of_actions(decide(workspace, event)[0])
        for slot, p in zip(event.slots, decisions, strict=True):
            if slot.label is not None and slot.label[0] in p:
                gain.append(
                    (slot.label[1] - 0.5 * (len(event.slots) if slates else 1)) * (p[slot.label[0]] * len(p) - 1)
                )
            assert not p or sum(p.values()) == pytest.approx(1, abs=1e-4)
    workspace.finish()
    assert np.mean(gain[len(gain) // 2 :]) < -0.02


def test_mtr_s_weights_count_as_importance(ours):
    """cb_adf's mtr gives an example the weight 1 / |A| / p: that much the regression counts it."""
    rounds = [["0:1:0.5 | a", "| b"], ["| a", "1:0:0.25 | b"], ["0:0.5:1 | a", "| b"]]
    last = ours("--cb_adf --least_squares --ls_penalty 1 --noconstant", [*rounds, ["| a", "| b"]])[-1]
    # mtr: rounds so far / actions so far / p
    weights = [1 / 2 / 0.5, 2 / 4 / 0.25, 3 / 6 / 1]
    z = np.array([[1.0, 0], [0, 1], [1, 0]])
    assert_allclose(last, ridge(z, np.array([1, 0, 0.5]), 1.0, weights), atol=1e-5)


# -- the life of a model ----------------------------------------------------------------------------------------------


SAVED = [
    "",
    "--ls_penalty 2",
    "--ls_block 1",
    "--ls_block 4 -q ab",
    "--noconstant --ignore b",
    "--sparse_weights",
    "-b 4",
    "--oaa 3",
]


@pytest.mark.parametrize("flags", SAVED)
@pytest.mark.parametrize("split", [0, 1, 2, 17, 59])
def test_a_run_saved_and_resumed_anywhere_is_one_run(vw, tmp_path, flags, split):
    lines, _ = random_lines(np.random.default_rng(18), 60)
    if "oaa" in flags:
        lines = [f"{1 + t % 3} {line[line.index('|') :]}" for t, line in enumerate(lines)]
    whole, half = tmp_path / "whole", tmp_path / "half"
    expected = predictions(vw, tmp_path, lines, f"--least_squares {flags} -f {whole}", "all")
    predictions(vw, tmp_path, lines[:split], f"--least_squares {flags} -f {half}", "first")
    resumed = predictions(vw, tmp_path, lines[split:], f"-i {half} -f {half}", "second")
    assert (resumed == expected[split:]).all()
    unlabelled = [line[line.index("|") :] for line in lines]
    test_only = [predictions(vw, tmp_path, unlabelled, f"-i {model} -t") for model in (whole, half)]
    assert (test_only[0] == test_only[1]).all()
    assert half.read_bytes()[-2000:] == whole.read_bytes()[-2000:]


def test_a_bandit_saved_and_resumed_in_python_goes_on_to_the_bit(ours, tmp_path):
    rounds, model = random_rounds(19, n=60), str(tmp_path / "model")
    for explorer in ("--squarecb", "--bag 3", "--adacb", "--fastcb"):
        flags = f"--cb_explore_adf {explorer} --least_squares -q sa --random_seed 5"
        ours(flags, rounds[:30], save=model)
        loaded = ours(f"-i {model}", rounds[30:])
        if "bag" not in explorer:  # whose draws start again
            assert loaded == ours(flags, rounds)[30:]
        assert ours(f"-i {model} -t", rounds[30:], learn=False) == ours(f"-i {model}", rounds[30:], learn=False)


@pytest.mark.parametrize("more", ["--predict_only_model", "--save_resume", "--preserve_performance_counters"])
def test_models_saved_in_vw_s_other_ways_predict_the_same(vw, tmp_path, more):
    lines, _ = random_lines(np.random.default_rng(20))
    model, other = tmp_path / "model", tmp_path / "other"
    predictions(vw, tmp_path, lines, f"--least_squares -f {model}")
    predictions(vw, tmp_path, lines, f"--least_squares {more} -f {other}")
    got = [predictions(vw, tmp_path, lines, f"-i {name} -t") for name in (model, other)]
    assert (got[0] == got[1]).all()


def test_several_passes_with_a_cache_learn_again_and_each_can_be_saved(vw, tmp_path):
    lines, _ = random_lines(np.random.default_rng(21))
    common = f"--least_squares --ls_penalty 1 --cache_file {tmp_path / 'cache'} -k --passes 3 --holdout_off"
    model = tmp_path / "model"
    predictions(vw, tmp_path, lines, f"{common} -f {model} --save_per_pass")
    thrice = tmp_path / "thrice"
    predictions(vw, tmp_path, 3 * lines, f"--least_squares --ls_penalty 1 -f {thrice}", "thrice")
    last, first, all_at_once = (
        predictions(vw, tmp_path, lines, f"-i {name} -t") for name in (model, f"{model}.1", thrice)
    )
    assert (last == all_at_once).all()
    assert not np.allclose(first, last)


def test_passes_stop_when_a_held_out_part_gets_no_better(vw, tmp_path):
    rng = np.random.default_rng(22)
    data = tmp_path / "data"
    data.write_text("\n".join(dense_lines(rng.normal(size=(60, 30)), rng.normal(size=60))))
    found = vw(f"-d {data} --least_squares --cache_file {tmp_path / 'cache'} -k --passes 50 --early_terminate 2")
    [passes] = [line for line in found.stderr.splitlines() if line.startswith("passes used")]
    assert 3 <= int(passes.partition("=")[2]) < 50


def weights_in(text):
    """Of a readable or inverted model: number to weight, after its header."""
    rows = [line.split(":") for line in text.splitlines() if line.count(":") and not line.startswith("options")]
    return {int(row[-2]): float(row[-1]) for row in rows if row[-2].isdigit()}


@pytest.mark.parametrize("flags", ["--ls_penalty 1", "", "--ls_penalty 1 -q ab --sparse_weights"])
def test_readable_and_inverted_models_and_audits_show_weights_that_predict(vw, tmp_path, flags):
    lines, _ = random_lines(np.random.default_rng(23))
    model, readable, inverted = (tmp_path / name for name in ("model", "readable", "inverted"))
    text = f"--least_squares {flags} -f {model} --readable_model {readable} --invert_hash {inverted}"
    predictions(vw, tmp_path, lines, text)
    shown = vw(f"-d {tmp_path / 'data'} -i {model} -t --audit --quiet").stdout.splitlines()
    predicted = np.array([float(line.split()[0]) for line in shown[::2]])
    features = [[feature.split(":") for feature in line.split("\t")[1:]] for line in shown[1::2]]
    sums = np.array([sum(float(f[2]) * float(f[3]) for f in some) for some in features])
    labels = np.array([float(line.split()[0]) for line in lines])
    inside = (predicted > labels.min()) & (predicted < labels.max())  # others are clipped
    assert inside.sum() > 40
    constant = (predicted - sums)[inside]
    assert_allclose(constant, constant[0], atol=1e-4)
    if "penalty" in flags:
        assert_allclose(constant, 0, atol=1e-4)
    by_number = weights_in(readable.read_text())
    assert by_number == weights_in(inverted.read_text())
    assert_allclose(
        [by_number[int(f[1])] for some in features for f in some],
        [float(f[3]) for some in features for f in some],
        rtol=1e-4,
        atol=1e-6,
    )
    assert "a^f0:" in inverted.read_text()


def test_an_audit_while_learning_shows_the_weights_before_the_example(vw, tmp_path):
    (tmp_path / "data").write_text("1 |a x\n2 |a x\n")
    shown = vw(f"-d {tmp_path / 'data'} --least_squares --ls_penalty 1 --noconstant --audit --quiet").stdout.split()
    assert [shown[0], float(shown[1].split(":")[-1])] == ["0", 0]
    assert [float(shown[2]), float(shown[3].split(":")[-1])] == [0.5, 0.5]


def test_json_is_learnt_as_text_is(vw, tmp_path):
    rng = np.random.default_rng(24)
    z, y = rng.normal(size=(50, 3)).round(3), rng.normal(size=50).round(3)
    text = [f"{label} |a x:{r[0]} y:{r[1]} z:{r[2]}" for label, r in zip(y, z, strict=True)]
    rows = [
        {"_label": label, "a": dict(zip("xyz", r, strict=True))}
        for label, r in zip(y.tolist(), z.tolist(), strict=True)
    ]
    first = predictions(vw, tmp_path, text, "--least_squares")
    second = predictions(vw, tmp_path, [json.dumps(row) for row in rows], "--least_squares --json --chain_hash", "json")
    third = predictions(vw, tmp_path, text, "--least_squares --chain_hash")
    assert_allclose(second, third)
    assert_allclose(first, third, atol=1e-4)


def test_extra_metrics_say_what_is_in_use(vw, tmp_path):
    lines, _ = random_lines(np.random.default_rng(25))
    metrics = tmp_path / "metrics"
    predictions(vw, tmp_path, lines, f"--least_squares --ls_penalty 2.5 --ls_block 4 --extra_metrics {metrics}")
    found = json.loads(metrics.read_text())["least_squares"]
    assert {**found, "ls_bytes": 0, "ls_learn_microseconds": 0} == {
        "ls_penalty": 2.5,
        "ls_in_blocks": True,
        "ls_blocks": 3,
        "ls_weights": 9,  # five numbers, three names, the constant
        "ls_bytes": 0,
        "ls_learn_microseconds": 0,
    }
    assert found["ls_bytes"] > 0


# -- what is refused --------------------------------------------------------------------------------------------------


GD_S = [
    *("adaptive", "adax", "invariant", "normalized", "sgd"),
    *("decay_learning_rate 0.9", "feature_mask mask", "initial_t 1", "initial_weight 0.1", "l 0.1", "l1 0.1", "l2 0.1"),
    *("learning_rate 0.1", "power_t 0.3", "random_weights", "normal_weights", "random_positive_weights"),
    *("truncated_normal_weights", "sparse_l2 0.1"),
]
LEARNERS = [
    *("bfgs --passes 2 --cache", "coin", "freegrad", "ftrl", "ksvm", "noop", "OjaNewton", "pistol", "print", "svrg"),
    *("cbzo", "rank 2", "conjugate_gradient --bfgs --passes 2 --cache"),
]
COPIERS = ["lrq ab2", "lrqfa ab2", "nn 2", "stage_poly"]


@pytest.mark.parametrize("flag", [*GD_S, *LEARNERS, *COPIERS])
def test_a_flag_that_cannot_work_is_refused_by_name(vw, flag):
    refused = vw(f"--least_squares --{flag} --no_stdin --quiet", check=False)
    assert refused.returncode == 1
    message = refused.stderr + refused.stdout
    assert any(f"--{name}" in message for name in (flag.split()[0], "bfgs", "learning_rate"))
    assert "--least_squares" in message


@pytest.mark.parametrize("flag", ["automl 2", "epsilon_decay"])
def test_reductions_that_copy_weights_between_models_are_refused(vw, flag):
    refused = vw(f"--cb_explore_adf --least_squares --{flag} --no_stdin --quiet", check=False)
    assert refused.returncode == 1
    assert f"--{flag.split()[0]} does not work with --least_squares" in refused.stderr + refused.stdout


@pytest.mark.parametrize("loss", ["logistic", "hinge", "quantile", "poisson", "expectile --expectile_q 0.3"])
def test_other_losses_are_refused(vw, loss):
    refused = vw(f"--least_squares --loss_function {loss} --no_stdin --quiet", check=False)
    assert refused.returncode == 1
    assert f"leave out --loss_function {loss.split()[0]}" in refused.stderr + refused.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--least_squares --ls_block 0", "--ls_block must be from 1 to 1024: 0"),
        ("--least_squares --ls_block 1025", "--ls_block must be from 1 to 1024: 1025"),
        ("--least_squares --ls_penalty 0", "--ls_penalty must be above 0 and finite: 0"),
        ("--least_squares --ls_penalty -1", "--ls_penalty must be above 0 and finite: -1"),
        ("--least_squares --ls_penalty nan", "Failed to convert nan"),
        ("--least_squares --ls_penalty 1e39", "Failed to convert 1e39"),
        ("--ls_block 8", "--ls_block needs --least_squares"),
        ("--ls_penalty 8", "--ls_penalty needs --least_squares"),
        ("--cb_explore_adf --opo_cmab --least_squares --opo_eta 10", "--opo_eta asks for --opo_cmab's replay"),
        ("--cb_explore_adf --opo_cmab --least_squares --opo_paper", "--opo_paper asks for --opo_cmab's replay"),
        ("--cb_explore_adf --opo_cmab --least_squares --cb_cost_unit raw", "--cb_cost_unit raw asks for"),
        ("--least_squares --span_server localhost --total 2 --node 0 --unique_id 1", "--span_server"),
    ],
)
def test_settings_that_cannot_work_are_refused(vw, flags, words):
    refused = vw(f"{flags} --no_stdin --quiet", check=False)
    assert refused.returncode == 1
    assert words in refused.stderr + refused.stdout


@pytest.mark.parametrize("flag", ["--ls_block 8", "--ls_penalty 3"])
def test_a_model_keeps_its_settings(vw, tmp_path, flag):
    model = tmp_path / "model"
    vw(f"--least_squares --ls_penalty 2 --no_stdin --quiet -f {model}")
    refused = vw(f"-i {model} {flag} --no_stdin --quiet", check=False)
    assert refused.returncode == 1
    assert "leave out the flag, or train a new model" in refused.stderr + refused.stdout


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("", "train a new model"),
        ("--cb_explore_adf --squarecb", "train a new model"),
        ("--ftrl", "--ftrl does not work with --least_squares"),
    ],
)
def test_a_model_of_another_learner_is_refused_and_told_what_to_do(vw, tmp_path, other, words):
    model = tmp_path / "model"
    vw(f"--no_stdin --quiet -f {model} {other}")
    refused = vw(f"-i {model} --least_squares --no_stdin --quiet", check=False)
    assert refused.returncode == 1
    assert words in refused.stderr + refused.stdout


def test_stock_vw_refuses_a_model_of_it(stock, ours, tmp_path):
    model = tmp_path / "model"
    ours("--least_squares", [], save=str(model))
    with pytest.raises(AssertionError, match="model load failed"):
        stock(f"-i {model}", [])


def test_a_daemon_that_learns_needs_one_child(vw):
    refused = vw("--least_squares --daemon --port 0 --num_children 3 --quiet", check=False)
    assert refused.returncode == 1
    assert "--least_squares learns in one process: a daemon needs --num_children 1" in refused.stderr + refused.stdout


def test_merging_is_refused():
    from vowpalwabbit import Workspace, merge_models

    models = [Workspace("--least_squares --quiet --preserve_performance_counters") for _ in range(2)]
    with pytest.raises(RuntimeError, match="merging models that use --least_squares is not supported"):
        merge_models(None, models)


# -- damaged files, bad input -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(vw, tmp_path_factory):
    """A model with some blocks."""
    folder = tmp_path_factory.mktemp("saved")
    lines, _ = random_lines(np.random.default_rng(26), 30)
    (folder / "data").write_text("\n".join(lines))
    vw(f"--quiet -d {folder / 'data'} --least_squares --ls_block 4 -q ab -f {folder / 'model'}")
    return (folder / "model").read_bytes()


def section_of(data):
    return data.index(b"least_sq\x08")  # not the flag, which is in the header


@pytest.mark.parametrize("kept", [0, 1, 8, 40, 55, 56, 60, 300, -8, -1])
def test_a_cut_section_is_refused(vw, tmp_path, saved, kept):
    cut = tmp_path / "cut"
    cut.write_bytes(saved[: section_of(saved) + kept] if kept >= 0 else saved[:kept])
    refused = vw(f"-i {cut} -t --no_stdin --quiet", check=False)
    assert refused.returncode == 1
    assert "damaged or cut short, in or after its section least_sq" in refused.stderr + refused.stdout


def test_a_flipped_bit_anywhere_in_the_section_is_refused(tmp_path, saved):
    from vowpalwabbit import Workspace

    start = section_of(saved)
    for at in [*range(start, start + 56), *range(start + 56, len(saved), len(saved) // 60)]:
        flipped = tmp_path / "flipped"
        flipped.write_bytes(saved[:at] + bytes([saved[at] ^ 1 << at % 8]) + saved[at + 1 :])
        with pytest.raises(RuntimeError, match="section"):
            Workspace(f"-i {flipped} -t --quiet")


def test_a_longer_file_is_refused(vw, tmp_path, saved):
    longer = tmp_path / "longer"
    longer.write_bytes(saved + b"x")
    assert vw(f"-i {longer} -t --no_stdin --quiet", check=False).returncode == 1


def test_bytes_that_are_not_of_the_kernel_are_refused_and_leave_it_as_it_was():
    kernel, rng = _kernel.LeastSquares(4), np.random.default_rng(27)
    for _ in range(40):
        numbers, values = example_of(rng, 30, 6, "sparse")
        kernel.learn(numbers, values, rng.normal())
    data, probes = kernel.serialize(), [example_of(rng, 30, 6, "sparse") for _ in range(5)]
    for size in range(len(data)):
        assert not kernel.deserialize(data[:size])
    assert not kernel.deserialize(data + b"x")
    assert not _kernel.LeastSquares(8).deserialize(data)
    assert not _kernel.LeastSquares(4, 1.0).deserialize(data)
    assert kernel.serialize() == data
    again = _kernel.LeastSquares(4)
    assert again.deserialize(data)
    assert again.serialize() == data
    assert [again.predict(n, x, 0.5) for n, x in probes] == [kernel.predict(n, x, 0.5) for n, x in probes]


@pytest.mark.parametrize("seed", range(200))
def test_forged_bytes_are_refused_or_harmless(seed):
    settings = [1, 4, 32][seed % 3], [0.0, 1.0][seed % 2]
    rng, kernel, copy = np.random.default_rng(seed), _kernel.LeastSquares(*settings), _kernel.LeastSquares(*settings)
    for _ in range(20):
        numbers, values = example_of(rng, 30, 6, "sparse")
        kernel.learn(numbers, values, rng.normal())
    before = kernel.serialize()
    if not kernel.deserialize(damage_field(random.Random(seed), before)):
        assert kernel.serialize() == before  # a refusal changes nothing
        return
    for _ in range(20):
        numbers, values = example_of(rng, 40, 6, "sparse")
        kernel.predict(numbers, values, 0.0)
        kernel.variance(numbers, values)
        kernel.learn(numbers, values, rng.normal())
    assert copy.deserialize(kernel.serialize())  # what it learns from there is a regression that loads


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e39", "-1e39"])
def test_features_that_are_no_finite_numbers_count_as_0_and_are_reported(vw, tmp_path, value):
    lines, _ = random_lines(np.random.default_rng(28), 40)
    good, bad = list(lines), list(lines)
    good[10], bad[10] = (f"{lines[10]} new:{x}" for x in ("0", value))
    bad[20] += f" other:{value}"
    good[20] += " other:0"
    model = tmp_path / "model"
    expected = predictions(vw, tmp_path, good, "--least_squares")
    got = predictions(vw, tmp_path, bad, f"--least_squares -f {model}")
    assert np.isfinite(got).all()
    if value != "nan":  # which VW reads as 0 itself
        told = vw(f"-d {tmp_path / 'data'} --least_squares")
        assert (told.stdout + told.stderr).count("not a finite number") == 1
    assert_allclose(got, expected, atol=1e-6)
    assert np.isfinite(predictions(vw, tmp_path, good, f"-i {model} -t")).all()


@pytest.mark.parametrize("label", ["inf", "-inf", "1e39", "nan"])
def test_a_label_that_is_no_finite_number_is_refused_or_unlabelled(vw, tmp_path, label):
    (tmp_path / "data").write_text(f"1 |a x\n{label} |a x\n2 |a x\n")
    model = tmp_path / "model"
    found = vw(f"-d {tmp_path / 'data'} --least_squares --quiet -f {model}", check=False)
    if found.returncode:
        assert "labels must be finite numbers" in found.stderr + found.stdout
    else:
        assert np.isfinite(predictions(vw, tmp_path, ["|a x", "|a y"], f"-i {model} -t")).all()


def test_a_weight_of_0_learns_nothing_in_vw_either(vw, tmp_path):
    lines, _ = random_lines(np.random.default_rng(29), 30)
    more = [x for line in lines for x in (f"77 0 {line[line.index('|') :]}", line)]
    first, second = (predictions(vw, tmp_path, some, "--least_squares -q ab") for some in (lines, more))
    assert_allclose(first, second[1::2], atol=1e-6)


def test_workspaces_in_threads_learn_as_alone():
    from vowpalwabbit import Workspace

    streams = [random_lines(np.random.default_rng(seed), 200)[0] for seed in (30, 31)]
    answers = {}

    def work(name, lines):
        with Workspace("--least_squares -q ab --quiet") as workspace:
            answers[name] = [workspace.predict(line) for line in lines for _ in [workspace.learn(line)]]

    for name, lines in enumerate(streams):
        work(f"alone {name}", lines)
    threads = [threading.Thread(target=work, args=(name, lines)) for name, lines in enumerate(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[name] for name in (0, 1)] == [answers[f"alone {name}"] for name in (0, 1)]
