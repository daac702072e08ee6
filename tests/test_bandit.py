"""`Bandit`: decides as a Workspace that is given the same rounds as text, and loses nothing."""

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import psutil
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opo_cmab import Bandit, BanditError
from vowpalwabbit import Workspace

from tests.helpers import VW
from tests.helpers.bandits import assert_decides_as_a_twin

ARTICLES = ["politics", "sports", "music"]
LIKES = {"Tom": "politics", "Anna": "music"}


def play(bandit, rounds, first=0):
    """Rounds of two readers; returns the probabilities."""
    found = []
    for n in range(first, first + rounds):
        user = ("Tom", "Anna", "Eve")[n * 7 % 3]
        decision = bandit.choose({"user": user, "hour": n % 24}, ARTICLES)
        bandit.reward(decision.id, float(decision.action == LIKES.get(user)))
        found.append([p for _, p in sorted(decision.ranking)])
    return found


# -- the same as text -------------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("ab|: %=.\t\n\xa0é17"), min_size=1, max_size=4)
NUMBERS = st.integers(-5, 5) | st.floats(-100, 100, allow_nan=False, width=32)
FLAT = NUMBERS | TEXTS | st.booleans() | st.lists(TEXTS, max_size=3, unique=True)
CONTEXTS = st.dictionaries(TEXTS, FLAT | st.dictionaries(TEXTS, FLAT, max_size=2), max_size=4)
OWN = st.none() | st.dictionaries(TEXTS, FLAT, max_size=2)
ACTIONS = st.dictionaries(TEXTS, OWN, min_size=1, max_size=5)


def escaped(text, more=""):
    special = "%|:" + more
    return "".join("".join(f"%{b:02X}" for b in c.encode()) if c in special or c.isspace() else c for c in text)


def as_text(features, prefix=""):
    found = []
    for key, value in features.items():
        name = prefix + escaped(key, "=.")
        match value:
            case bool():
                found += [name] * value
            case str():
                found.append(f"{name}={escaped(value)}")
            case list():
                found += [f"{name}={escaped(item)}" for item in value]
            case dict():
                found += as_text(value, name + ".").split()
            case _:
                found.append(f"{name}:{value}")
    return " ".join(found)


@pytest.mark.parametrize("vw", ["", "--fastcb", "--squarecb -b 20", "--ftrl --opo_budget 16"])
def test_decisions_are_those_of_a_workspace_that_learns_the_same_rounds_as_text(tmp_path_factory, vw):
    @settings(max_examples=25, phases=[Phase.generate])  # 1,500 rounds; shrinking them takes hours
    @given(st.lists(st.tuples(CONTEXTS, ACTIONS, st.floats(-2, 2, width=32), st.booleans()), min_size=40, max_size=80))
    def check(rounds):
        file = tmp_path_factory.mktemp("b") / "b"
        with Bandit(file, vw=vw, seed=1) as bandit, Workspace(f"{bandit.flags} --quiet") as twin:
            for context, actions, reward, is_rewarded in rounds:
                text = [f"shared |c {as_text(context)}"]
                text += [f"|a {escaped(a)}" + (f" |f {as_text(own)}" if own else "") for a, own in actions.items()]
                p = np.array(twin.predict(text))
                decision = bandit.choose(context, actions)
                np.testing.assert_allclose([dict(decision.ranking)[a] for a in actions], p / p.sum(), atol=1e-6)
                if is_rewarded:
                    bandit.reward(decision.id, reward)
                    place = 1 + list(actions).index(decision.action)
                    text[place] = f"0:{-reward}:{decision.probability} {text[place]}"
                    twin.learn(text)

    check()


@given(st.lists(CONTEXTS, min_size=2, max_size=2), st.lists(ACTIONS, min_size=2, max_size=2))
def test_different_contexts_and_names_have_different_features(contexts, actions):
    from opo_cmab.bandit.features import lines, plain_actions, plain_context

    def meaning(features, prefix=()):
        """What is to be told apart: false is no feature, and a list is its items."""
        found = set()
        for key, value in features.items():
            match value:
                case dict():
                    found |= meaning(value, (*prefix, key))
                case bool():
                    found |= {(*prefix, key, 1.0)} if value else set()
                case list():
                    found |= {(*prefix, key, item) for item in value}
                case str():
                    found.add((*prefix, key, value))
                case _:
                    found.add((*prefix, key, float(value)))
        return found

    texts = [lines(plain_context(c), plain_actions(a)) for c, a in zip(contexts, actions, strict=True)]
    read = [[feature.partition(":") for feature in text[0].split()[2:]] for text in texts]
    first, second = ({(name, float(value or "1")) for name, _, value in features} for features in read)
    assert (meaning(contexts[0]) == meaning(contexts[1])) == (first == second)
    names = [[line.split()[1] for line in text[1:]] for text in texts]
    assert all(len(set(n)) == len(a) for n, a in zip(names, actions, strict=True))
    assert (list(actions[0]) == list(actions[1])) == (names[0] == names[1])


def test_names_that_look_like_numbers_are_different_actions(tmp_path):
    with Bandit(tmp_path / "b", seed=0) as bandit:
        for _ in range(100):
            decision = bandit.choose({}, ["17", "017", 262161])
            bandit.reward(decision.id, float(decision.action == "017"))
        assert bandit.predict({}, ["17", "017", 262161])["017"] > 0.9


def test_frames_and_vectors_are_contexts(tmp_path):
    frame = pd.DataFrame({"age": [31, None], "city": ["Bonn", "Köln"], "is_new": [True, False]})
    items = pd.DataFrame({"price": [1.5, None]}, index=["tea", "cake"])
    with Bandit(tmp_path / "b", seed=0) as bandit:
        for decision in bandit.choose_many(frame, items):
            bandit.reward(decision.id, 1)
        bandit.reward(bandit.choose(frame.iloc[0], ["tea", "cake"]).id, 0)
        bandit.reward(bandit.choose(np.array([0.5, 2]), [np.str_("tea"), np.int64(3)]).id, 0)
        contexts, actions = zip(*bandit._store.run("SELECT context, actions FROM decisions"), strict=True)
    assert [json.loads(c) for c in contexts] == [
        {"age": 31, "city": "Bonn", "is_new": True},
        {"city": "Köln", "is_new": False},
        {"age": 31, "city": "Bonn", "is_new": True},
        {"x0": 0.5, "x1": 2.0},
    ]
    assert [json.loads(a) for a in actions] == [[["tea", {"price": 1.5}], ["cake", {}]]] * 2 + [
        [["tea", {}], ["cake", {}]],
        [["tea", {}], [3, {}]],
    ]


def test_it_learns_who_likes_what(tmp_path):
    with Bandit(tmp_path / "b", seed=0) as bandit:
        play(bandit, 500)
        for user, article in LIKES.items():
            assert bandit.predict({"user": user, "hour": 3}, ARTICLES)[article] > 0.9
        assert bandit.status()["mean_reward"] > 0.5


def test_excluded_actions_are_not_chosen_and_ids_may_be_yours(tmp_path):
    with Bandit(tmp_path / "b") as bandit:
        assert {bandit.choose({}, ARTICLES, exclude=["sports", "music"]).action for _ in range(20)} == {"politics"}
        assert bandit.choose({}, ARTICLES, ids="my-1").id == "my-1"
        assert [d.id for d in bandit.choose_many([{}, {}], ARTICLES, ids=["x", "y"])] == ["x", "y"]
        assert bandit.reward("my-1", 1)


def test_actions_are_drawn_with_their_probabilities(tmp_path):
    with Bandit(tmp_path / "b", seed=3, epsilon=0.6) as bandit:
        play(bandit, 50)
        decisions = bandit.choose_many([{"user": "Tom"}] * 3000, ARTICLES)
        p = dict(decisions[0].ranking)
        assert min(p.values()) >= 0.2 - 1e-6
        for action in ARTICLES:
            share = np.mean([d.action == action for d in decisions])
            assert abs(share - p[action]) < 4 * math.sqrt(p[action] / 3000)


# -- continued --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "vw", ["", "--fastcb", "--ftrl", "--squarecb -l 0.3 --power_t 0.4", "--loss_function logistic"]
)
def test_opened_again_it_decides_as_if_never_stopped(tmp_path, vw, monkeypatch):
    monkeypatch.setattr("opo_cmab.bandit.model.EVERY", 40)
    with Bandit(tmp_path / "whole", vw=vw, seed=5) as bandit:
        whole = play(bandit, 200)
    parts = []
    for first, rounds in ((0, 1), (1, 69), (70, 130)):
        with Bandit(tmp_path / "parts", vw=vw, seed=5) as bandit:
            parts += play(bandit, rounds, first)
    np.testing.assert_allclose(parts, whole, atol=1e-6)


def test_an_interrupt_while_learning_counts_the_lesson_once(tmp_path, monkeypatch):
    with Bandit(tmp_path / "b", seed=0) as bandit, Bandit(tmp_path / "twin", seed=0) as twin:
        play(bandit, 30)
        play(twin, 30)
        ids = bandit.choose({}, ARTICLES).id, twin.choose({}, ARTICLES).id
        learn = Workspace.learn

        def interrupted(*arguments):
            monkeypatch.undo()
            learn(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(Workspace, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bandit.reward(ids[0], 1)
        assert bandit.reward(ids[0], 1) is False  # it was recorded
        assert twin.reward(ids[1], 1) is True
        assert bandit.predict({}, ARTICLES) == pytest.approx(twin.predict({}, ARTICLES), abs=1e-6)


def test_a_restart_continues_the_draws(tmp_path):
    with Bandit(tmp_path / "whole", seed=5) as bandit:
        whole = [bandit.choose({}, ARTICLES) for _ in range(40)]
    parts = []
    for _ in range(4):
        with Bandit(tmp_path / "parts", seed=5) as bandit:
            parts += [bandit.choose({}, ARTICLES) for _ in range(10)]
    assert [d.action for d in parts] == [d.action for d in whole]


def test_without_a_usable_model_everything_is_learnt_again(tmp_path):
    file = tmp_path / "b"
    with Bandit(file, seed=5) as bandit:
        play(bandit, 100)
        before = bandit.predict({"user": "Tom"}, ARTICLES)
    with sqlite3.connect(file) as database:
        database.execute("UPDATE models SET bytes = substr(bytes, 1, 1000)")
    with pytest.warns(UserWarning, match="does not load, and is learnt again"), Bandit(file) as bandit:
        assert bandit.predict({"user": "Tom"}, ARTICLES) == pytest.approx(before, abs=1e-6)


def test_the_file_holds_two_models(tmp_path, monkeypatch):
    monkeypatch.setattr("opo_cmab.bandit.model.EVERY", 10)
    with Bandit(tmp_path / "b", seed=5) as bandit:
        play(bandit, 100)
        assert bandit._store.run("SELECT rounds FROM models") == [(90,), (100,)]


# -- delays -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that only goes when it is told to: wall and monotonic."""
    now = {"wall": 1e9, "monotonic": 50.0}
    monkeypatch.setattr(time, "time", lambda: now["wall"])
    monkeypatch.setattr(time, "monotonic", lambda: now["monotonic"])
    return now


@pytest.mark.parametrize("wait", ["1h", "60 min", 3600, "3600s"])
def test_a_decision_without_a_reward_counts_as_told_after_the_wait(tmp_path, clock, wait):
    with Bandit(tmp_path / "b", wait=wait, otherwise=-0.5, seed=0) as bandit:
        first, second, third = (bandit.choose({}, ARTICLES).id for _ in range(3))
        clock["monotonic"] += 3599
        assert bandit.reward(first, 1)
        assert bandit.status()["rounds"] == 1
        clock["monotonic"] += 2
        assert bandit.reward(first, 1) is False  # any call
        assert bandit.status() | {"mean_reward": 0} == {
            **{"decisions": 3, "rewarded": 1, "waiting": 0, "rounds": 3, "late": 0, "mean_reward": 0}
        }
        assert bandit.reward(second, 1) is False
        assert bandit.reward(second, 1) is False
        with pytest.raises(ValueError, match="already has the reward 1: it stays, not 2"):
            bandit.reward(second, 2)
        assert bandit.status()["late"] == 1
        assert bandit._store.run("SELECT cost FROM decisions ORDER BY round") == [(-1,), (0.5,), (0.5,)]
        assert third


def test_every_call_settles_a_few_and_a_reward_for_an_overdue_decision_is_late(tmp_path, clock):
    with Bandit(tmp_path / "b", wait=10, seed=0) as bandit:
        ids = [bandit.choose({}, ARTICLES).id for _ in range(6)]
        clock["monotonic"] += 11
        assert bandit.reward(ids[-1], 1) is False
        assert bandit.status() | {"mean_reward": 0} == {
            **{"decisions": 6, "rewarded": 0, "waiting": 3, "rounds": 3, "late": 1, "mean_reward": 0}
        }
        bandit.choose({}, ARTICLES)
        assert bandit.status()["waiting"] == 2


def test_a_reward_counts_once(tmp_path):
    with Bandit(tmp_path / "b", seed=0) as bandit:
        decision = bandit.choose({}, ARTICLES)
        assert bandit.cost(decision.id, 0.25)
        before = bandit.predict({}, ARTICLES)
        assert bandit.reward(decision.id, -0.25) is False
        with pytest.raises(ValueError, match=r"already has the reward -0.25"):
            bandit.reward(decision.id, 1)
        assert bandit.predict({}, ARTICLES) == before
        assert bandit.status()["rounds"] == 1


def test_a_clock_that_jumps_settles_nothing_and_time_never_goes_back(tmp_path, clock):
    with Bandit(tmp_path / "b", wait="1h", seed=0) as bandit:
        times = [bandit.choose({}, ARTICLES).time]
        clock["wall"] += 1e8  # years ahead, while open
        times.append(bandit.choose({}, ARTICLES).time)
        clock["wall"] -= 3e8
        times.append(bandit.choose({}, ARTICLES).time)
        assert bandit.status()["waiting"] == 3
    with Bandit(tmp_path / "b", wait="1h") as bandit:
        times.append(bandit.choose({}, ARTICLES).time)
        assert bandit.status()["waiting"] == 4
    assert times == sorted(times)


# -- the apprentice ---------------------------------------------------------------------------------------------------


def test_an_apprentice_plays_the_baseline_until_it_is_switched_on(tmp_path):
    seen = []

    def first_action(context, names):
        seen.append((context, names))
        return names[0]

    with Bandit(tmp_path / "b", baseline=first_action, seed=0) as bandit:
        for n in range(200):
            user = ("Tom", "Anna")[n % 2]
            decision = bandit.choose({"user": user}, ARTICLES)
            assert (decision.action, decision.probability) == ("politics", 1)
            bandit.reward(decision.id, float(LIKES[user] == "politics"))
        status = bandit.status()
        assert 0 <= status["agrees"] <= 1
        assert status["expected_gain"] > 0  # it expects more of what it does not know
        assert seen[0] == ({"user": "Tom"}, ARTICLES)
        bandit.switch_on()
        assert {bandit.choose({"user": "Anna"}, ARTICLES).action for _ in range(50)} - {"politics"}
    with Bandit(tmp_path / "b", baseline=first_action) as bandit:
        assert "agrees" not in bandit.status()


# -- one writer, many readers -----------------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_has_it(tmp_path):
    with Bandit(tmp_path / "b") as bandit:
        bandit.choose({}, ARTICLES)
        with pytest.raises(BanditError, match=rf"open for writing in process {os.getpid()} on .*read_only=True"):
            Bandit(tmp_path / "b")
        with Bandit(tmp_path / "b", read_only=True) as reader:
            assert reader.status()["decisions"] == 1
            with pytest.raises(BanditError, match="read_only=True"):
                reader.choose({}, ARTICLES)
    with Bandit(tmp_path / "b") as again:
        again.choose({}, ARTICLES)


def test_a_reader_follows(tmp_path):
    with Bandit(tmp_path / "b", seed=0) as bandit, Bandit(tmp_path / "b", read_only=True) as reader:
        for first in range(0, 90, 30):
            play(bandit, 30, first)
            assert reader.predict({"user": "Tom"}, ARTICLES) == bandit.predict({"user": "Tom"}, ARTICLES)


def test_threads_choose_and_reward_at_once(tmp_path):
    errors = []

    def work(bandit):
        try:
            play(bandit, 60)
        except Exception as error:
            errors.append(error)

    with Bandit(tmp_path / "b", seed=0) as bandit:
        threads = [threading.Thread(target=work, args=[bandit]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert bandit.status()["rounds"] == bandit.status()["decisions"] == 480
        before = bandit.predict({"user": "Tom"}, ARTICLES)
    with sqlite3.connect(tmp_path / "b") as database:
        database.execute("DELETE FROM models")
    with Bandit(tmp_path / "b") as bandit:
        assert bandit.predict({"user": "Tom"}, ARTICLES) == pytest.approx(before, abs=1e-6)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_is_refused(tmp_path):
    with Bandit(tmp_path / "b") as bandit:
        child = os.fork()
        if child == 0:
            try:
                bandit.choose({}, ARTICLES)
            except BanditError as error:
                os._exit(7 if "forked" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_pool_follows_the_writer(tmp_path):
    with Bandit(tmp_path / "b", seed=0) as bandit:
        play(bandit, 50)
        with bandit.serve(2) as pool:
            for first in (50, 80):
                for _ in range(4):
                    assert pool.predict({"user": "Tom"}, ARTICLES) == bandit.predict({"user": "Tom"}, ARTICLES)
                play(bandit, 30, first)
            assert list(pool.predict({}, ARTICLES, exclude=["music"])) == ["politics", "sports"]
            with pytest.raises(ValueError, match="there is no action"):
                pool.predict({}, [])


# -- logs and reasons -------------------------------------------------------------------------------------------------

OWN_FEATURES = {"politics": {"is_long": True}, "sports": {"words": 3}, "music": None}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A bandit with 1,000 rounds, some features of each kind, and probabilities above 0.03."""
    with Bandit(tmp_path_factory.mktemp("played") / "b", seed=0, epsilon=0.1) as bandit:
        for n in range(1000):
            user = ("Tom", "Anna", "<Eve>")[n % 3]
            context = {"user": user, "hour": n % 24, "tags": ["x", "y"][: n % 3], "geo": {"land": "de", "_km": 2.5}}
            decision = bandit.choose(context, OWN_FEATURES)
            bandit.reward(decision.id, float(decision.action == LIKES.get(user)))
        bandit.choose({}, ARTICLES, ids="waiting")
        yield bandit


def test_a_log_is_read_by_the_bandit_by_vw_and_by_compare(played, tmp_path):
    log = tmp_path / "log.json"
    played.log(log)
    assert len(log.read_text().splitlines()) == 1000
    with Bandit.from_log(log, tmp_path / "again", seed=0, epsilon=0.1) as again:
        for context in ({"user": "Tom"}, {"user": "Anna", "hour": 3}):
            assert again.predict(context, OWN_FEATURES) == played.predict(context, OWN_FEATURES)
        assert again.status()["mean_reward"] == played.status()["mean_reward"]
        assert again.choose({}, ARTICLES).id
    with pytest.raises(BanditError, match="has decisions already"):
        Bandit.from_log(log, tmp_path / "again")
    model = tmp_path / "model"
    subprocess.run([VW, "--dsjson", "-d", log, *played.flags.split(), "-f", model, "--quiet"], check=True)
    with Workspace(f"-i {model} -t --quiet") as workspace:
        p = workspace.predict(["shared |c user=Tom", "|a politics |f is_long", "|a sports |f words:3", "|a music"])
    assert p == pytest.approx(list(played.predict({"user": "Tom"}, OWN_FEATURES).values()), abs=1e-3)
    assert played.compare(rounds=10, passes=5).reference == "OPO-CMAB"


PERSONALIZER = """
{"_label_cost":-1,"_label_probability":0.8,"_label_Action":2,"_labelIndex":1,"Version":"1","EventId":"e1",
"Timestamp":"2020-10-01T12:00:00.1234567Z","a":[2,1],"c":{"FromUrl":[{"timeofday":"noon","n":{"x":3}}],"_multi":
[{"_tag":"t","i":{"constant":1,"id":"Cortado"},"j":[{"hot":true}]},{"i":{"constant":1,"id":"Latte"}}]},
"p":[0.8,0.2],"VWState":{"m":"x"},"_original_label_cost":-1}
""".replace("\n", "")


def test_a_log_of_personalizer_is_read(tmp_path):
    log = tmp_path / "log.json"
    log.write_text(PERSONALIZER + "\n" + PERSONALIZER.replace("e1", "e2").replace("_label_cost", "skipped") + "\n")
    with Bandit.from_log(log, tmp_path / "b") as bandit:
        [row] = bandit._store.run(
            "SELECT id, time, context, actions, chosen, probabilities, probability FROM decisions"
        )
        assert row[:2] == ("e1", pytest.approx(1601553600))
        assert json.loads(row[2]) == {"FromUrl.timeofday": "noon", "FromUrl.n.x": 3}
        own = [["Cortado", {"i.constant": 1, "j.hot": True}], ["Latte", {"i.constant": 1}]]
        assert json.loads(row[3]) == own
        assert (row[4], json.loads(row[5]), row[6]) == (1, [0.2, 0.8], 0.8)
        assert bandit.status()["mean_reward"] == 1


@pytest.mark.parametrize(
    "bad",
    ["no JSON", "[]", "{}[", PERSONALIZER.replace("_multi", "multi"), PERSONALIZER.replace(":1,", ":7,"), PERSONALIZER],
)
def test_a_bad_line_of_a_log_is_named_and_nothing_is_kept(tmp_path, bad):
    log = tmp_path / "log.json"
    log.write_text(PERSONALIZER + "\n" + bad + "\n")  # the last is bad because its id is there twice
    with pytest.raises(ValueError, match=r"log.json, line 2: "):
        Bandit.from_log(log, tmp_path / "b")
    with Bandit(tmp_path / "b") as bandit:
        assert bandit.status()["decisions"] == 0


def test_shares_add_up_to_the_cost_that_was_predicted_at_that_time(played):
    for n in (100, 1000):
        [(id, p)] = played._store.run("SELECT id, probabilities FROM decisions WHERE n = ?", n)
        reasons = played.explain(id)
        costs, base, *shares = (list(row.values()) for row in reasons.values())
        assert set(reasons) >= {"hour=" + str((n - 1) % 24), "geo.land=de", "geo._km=2.5"}
        assert list(reasons["predicted cost"]) == list(OWN_FEATURES)
        # The lowest may be clipped: no prediction is below the costs so far.
        clipped = np.maximum(base + np.sum(shares, axis=0), np.min(costs))
        np.testing.assert_allclose(clipped, costs, atol=1e-3)
        assert n < 1000 or np.argmin(costs) == np.argmax(json.loads(p))
    with pytest.raises(KeyError, match="no decision with the id"):
        played.explain("unknown")


def test_what_cannot_be_explained_says_why(tmp_path):
    with Bandit(tmp_path / "b") as bandit:
        id = bandit.choose({}, ARTICLES).id
        with pytest.raises(BanditError, match="that has learnt two costs"):
            bandit.explain(id)
    with Bandit(tmp_path / "fastcb", vw="--fastcb") as bandit:
        play(bandit, 3)
        with pytest.raises(BanditError, match="only those of --opo_cmab"):
            bandit.explain(bandit.choose({}, ARTICLES).id)


def test_the_report_shows_rewards_shares_and_the_latest_decisions(played, tmp_path):
    page = played.report(tmp_path / "report.html").read_text()
    assert page.count("<polyline") == 5
    assert "{{" not in page
    assert "&lt;Eve&gt;" in page
    assert "<Eve>" not in page
    assert "waiting" in page
    with Bandit(tmp_path / "empty") as bandit:
        assert "<svg" in bandit.report(tmp_path / "empty.html").read_text()


# -- bad input --------------------------------------------------------------------------------------------------------

BAD_CALLS = {
    "a context that is a string": (lambda b: b.choose("Tom", ARTICLES), ValueError, "the context must be a dict"),
    "a context that is nothing": (lambda b: b.choose(None, ARTICLES), ValueError, "the context must be a dict"),
    "nan": (lambda b: b.choose({"x": math.nan}, ARTICLES), ValueError, "x must be a finite number: nan"),
    "infinity": (lambda b: b.choose({"x": {"y": -math.inf}}, ARTICLES), ValueError, "x: y must be a finite number"),
    "beyond floats": (lambda b: b.choose({"x": 10**400}, ARTICLES), ValueError, "x must be a finite number"),
    "nested twice": (lambda b: b.choose({"x": {"y": {"z": 1}}}, ARTICLES), ValueError, "x: y: is nested too deep"),
    "an object": (lambda b: b.choose({"x": object()}, ARTICLES), ValueError, "x must be a number, string"),
    "a time": (lambda b: b.choose({"x": pd.Timestamp(0)}, ARTICLES), ValueError, "x must be .*not Timestamp"),
    "a list of floats": (lambda b: b.choose({"x": [0.5]}, ARTICLES), ValueError, "x: an item .a vector is a NumPy"),
    "an empty feature": (lambda b: b.choose({"": 1}, ARTICLES), ValueError, "name must be a string"),
    "a feature twice": (lambda b: b.choose({"1": 1, 1: 2}, ARTICLES), ValueError, "two features are called '1'"),
    "a matrix": (lambda b: b.choose(np.ones((2, 2)), ARTICLES), ValueError, "or vector, not ndarray"),
    "half a character": (lambda b: b.choose({"x": "\ud800"}, ARTICLES), ValueError, "surrogates not allowed"),
    "two rows": (
        lambda b: b.choose(pd.DataFrame({"x": [1, 2]}), ARTICLES),
        ValueError,
        "not DataFrame",
    ),
    "one context for many": (lambda b: b.choose_many({"x": 1}, ARTICLES), ValueError, "the context must be a dict"),
    "one of many is bad": (lambda b: b.choose_many([{}, {"x": math.nan}], ARTICLES), ValueError, "finite"),
    "no actions": (lambda b: b.choose({}, []), ValueError, "there is no action"),
    "a string of actions": (lambda b: b.choose({}, "music"), ValueError, "actions must be names"),
    "no list of actions": (lambda b: b.choose({}, 3), ValueError, "actions must be names"),
    "an action twice": (lambda b: b.choose({}, ["1", 1]), ValueError, "two actions are called 1"),
    "an action without a name": (lambda b: b.choose({}, [""]), ValueError, "an action's name must be"),
    "an action that is a number": (lambda b: b.choose({}, [0.5]), ValueError, "an action's name must be"),
    "an action that is true": (lambda b: b.choose({}, [True]), ValueError, "an action's name must be"),
    "features that are none": (lambda b: b.choose({}, {"a": 3}), ValueError, "action a must be a dict"),
    "excluded but not there": (lambda b: b.choose({}, ARTICLES, exclude=["x"]), ValueError, "'x' is excluded but"),
    "all excluded": (lambda b: b.choose({}, ["x"], exclude="x"), ValueError, "there is no action"),
    "an id that is there": (lambda b: b.choose({}, ARTICLES, ids="there"), ValueError, "'there' already"),
    "an id that is no string": (lambda b: b.choose({}, ARTICLES, ids=3), ValueError, "1 different strings"),
    "too few ids": (lambda b: b.choose_many([{}, {}], ARTICLES, ids=["a"]), ValueError, "2 different strings"),
    "an unknown id": (lambda b: b.reward("unknown", 1), KeyError, "no decision with the id 'unknown'"),
    "no id": (lambda b: b.cost(None, 1), KeyError, "no decision with the id None"),
    "a reward of nan": (lambda b: b.reward("there", math.nan), ValueError, "the reward must be a finite number"),
    "a reward of none": (lambda b: b.reward("there", None), ValueError, "the reward must be a finite number"),
    "a reward that is a string": (lambda b: b.reward("there", "1"), ValueError, "the reward must be a finite"),
    "an infinite cost": (lambda b: b.cost("there", math.inf), ValueError, "the cost must be a finite number"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_is_named_and_changes_nothing(tmp_path, case):
    call, kind, message = BAD_CALLS[case]
    with Bandit(tmp_path / "b", seed=0) as bandit:
        play(bandit, 5)
        bandit.choose({}, ARTICLES, ids="there")
        before = bandit.status(), bandit.predict({}, ARTICLES)
        with pytest.raises(kind, match=message):
            call(bandit)
        assert (bandit.status(), bandit.predict({}, ARTICLES)) == before
        bandit.reward("there", 1)


BAD_SETTINGS = {
    "a flag of ours": ({"epsilon": 1.5}, ValueError, r"must be in \[0, 1\]: 1.5"),
    "unit of wait": ({"wait": "1 week"}, ValueError, "wait must be like"),
    "wait": ({"wait": -1}, ValueError, "wait must be like"),
    "otherwise": ({"wait": 1, "otherwise": math.nan}, ValueError, "otherwise must be a finite number"),
    "a flag of VW": ({"vw": "--no_such_flag"}, ValueError, "VW cannot use .*no_such_flag"),
    "a model": ({"vw": "-i old.vw"}, ValueError, "vw: leave out -i"),
    "another seed": ({"seed": 1}, ValueError, "was made with seed=0, not 1: leave seed out"),
    "another vw": ({"vw": "--fastcb"}, ValueError, "was made with vw=None, not '--fastcb'"),
    "another epsilon": ({"epsilon": 0.5}, ValueError, "was made with epsilon=None, not 0.5"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_settings_are_named_and_change_nothing(tmp_path, case):
    given, kind, message = BAD_SETTINGS[case]
    with Bandit(tmp_path / "b", seed=0) as bandit:
        play(bandit, 5)
        before = bandit.status(), bandit.predict({}, ARTICLES)
    with pytest.raises(kind, match=message):
        Bandit(tmp_path / ("new" if "a flag" in case else "b"), **given)
    with Bandit(tmp_path / "b") as bandit:
        assert (bandit.status(), bandit.predict({}, ARTICLES)) == before


def other_database(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (x)")


def cut_bandit(path):
    with Bandit(path) as bandit:
        play(bandit, 50)
    path.write_bytes(path.read_bytes()[:9000])


BAD_FILES = {
    "cut off": (cut_bandit, "the file is damaged: restore a copy"),
    "no database": (lambda path: path.write_bytes(b"hello" * 1000), "the file is not a bandit's"),
    "another database": (other_database, "the file is not a bandit's"),
    "a folder": (lambda path: path.mkdir(), "cannot be opened|a folder"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_files_of_others_are_refused_and_left_alone(tmp_path, case):
    make, message = BAD_FILES[case]
    path = tmp_path / "b"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    for read_only in (False, True):
        with pytest.raises(BanditError, match=message):
            Bandit(path, read_only=read_only)
    assert before is None or path.read_bytes() == before


def test_a_file_in_no_folder_and_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BanditError, match="check that its folder exists"):
        Bandit(tmp_path / "no" / "b")
    with pytest.raises(BanditError, match="no such file"):
        Bandit(tmp_path / "b", read_only=True)


def test_a_closed_bandit_says_so(tmp_path):
    bandit = Bandit(tmp_path / "b")
    bandit.close()
    bandit.close()
    for call in (lambda: bandit.choose({}, ARTICLES), bandit.status, lambda: bandit.predict({}, ARTICLES)):
        with pytest.raises(BanditError, match="is closed: open it again"):
            call()


# -- disks and kills --------------------------------------------------------------------------------------------------


def test_a_full_disk_changes_nothing(tmp_path):
    with Bandit(tmp_path / "b", seed=0) as bandit, Bandit(tmp_path / "twin", seed=0) as twin:
        assert play(bandit, 20) == play(twin, 20)
        waiting = bandit.choose({}, ARTICLES), twin.choose({}, ARTICLES)
        [(pages,)] = bandit._store.run("PRAGMA page_count")
        bandit._store.run(f"PRAGMA max_page_count = {pages}")
        recorded = 0
        with pytest.raises(BanditError, match="the disk is full: nothing was recorded"):  # noqa: PT012  at some time
            while True:
                bandit.choose({"filler": "x" * 100}, ARTICLES)
                recorded += 1
        assert bandit.status()["decisions"] == 21 + recorded
        bandit._store.run("PRAGMA max_page_count = 1000000000")
        assert bandit.reward(waiting[0].id, 1) is twin.reward(waiting[1].id, 1) is True
        assert bandit.predict({}, ARTICLES) == twin.predict({}, ARTICLES)


def test_a_model_that_cannot_be_saved_is_learnt_again(tmp_path):
    with Bandit(tmp_path / "b", seed=0) as bandit:
        bandit.reward(bandit.choose({f"x{i}": "y" for i in range(1000)}, ARTICLES).id, 1)
        before = bandit.predict({}, ARTICLES)
        [(pages,)] = bandit._store.run("PRAGMA page_count")
        bandit._store.run(f"PRAGMA max_page_count = {pages}")
        with pytest.warns(UserWarning, match="the model is not saved"):
            bandit.close()
    with Bandit(tmp_path / "b") as bandit:
        assert bandit.predict({}, ARTICLES) == pytest.approx(before, abs=1e-6)


LIMITED = """
import resource, sys
import opo_cmab
bandit = opo_cmab.Bandit(sys.argv[1], seed=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for n in range(100_000):
    try:
        bandit.choose({"filler": "x" * 200}, ["a", "b"], ids=str(n))
    except opo_cmab.BanditError as error:
        print(n, error)
        break
    print(n, flush=True)
"""


def test_a_file_that_may_not_grow_loses_nothing(tmp_path):
    result = subprocess.run([sys.executable, "-c", LIMITED, tmp_path / "b"], capture_output=True, text=True, timeout=60)
    *_, last, failed = result.stdout.splitlines()
    assert "nothing was recorded" in failed, result.stdout + result.stderr
    with Bandit(tmp_path / "b") as bandit:
        assert bandit.status()["decisions"] == int(last) + 1 == int(failed.split()[0])


def test_a_read_only_file_is_refused_for_writing(tmp_path):
    with Bandit(tmp_path / "b") as bandit:
        bandit.choose({}, ARTICLES)
    (tmp_path / "b").chmod(0o444)
    (tmp_path / "b-lock").chmod(0o444)
    for path in ("b", "b-lock"):
        command = [sys.executable, "-c", f"import opo_cmab; opo_cmab.Bandit({str(tmp_path / 'b')!r})"]
        if os.geteuid() == 0:  # root may write everything, unless it lacks this right
            if shutil.which("setpriv") is None:
                pytest.skip("setpriv is not installed (apt-get install util-linux)")
            command = ["setpriv", "--bounding-set", "-dac_override", *command]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert "may write" in refused.stderr or "the right to write" in refused.stderr, refused.stderr
        (tmp_path / "b-lock").chmod(0o644)
        assert path


KILLED = r"""
import os, random, signal, sys, time
import opo_cmab
import opo_cmab.bandit.model as model
model.EVERY = 5  # the model is saved all the time

def work():
    with opo_cmab.Bandit(sys.argv[1], seed=5) as bandit:
        for n in range(bandit.status()["decisions"], 100_000):
            decision = bandit.choose({"user": ("Tom", "Anna")[n % 2], "hour": n % 24}, ["politics", "sports", "music"])
            os.write(1, f"d {decision.id}\n".encode())
            bandit.reward(decision.id, float(n % 3 == 0))
            os.write(1, f"r {decision.id}\n".encode())

draw = random.Random(0)
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        work()
    time.sleep(draw.uniform(0.02, 0.15))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("kills", [8, pytest.param(192, marks=pytest.mark.slow)])
def test_killed_at_any_moment_nothing_acknowledged_is_lost_and_it_decides_as_a_twin(tmp_path, kills):
    command = [sys.executable, "-c", KILLED, tmp_path / "b", str(kills)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    said = [line.split() for line in result.stdout.splitlines()]
    with Bandit(tmp_path / "b") as bandit:
        decided = {id for (id,) in bandit._store.run("SELECT id FROM decisions")}
        rewarded = {id for (id,) in bandit._store.run("SELECT id FROM decisions WHERE round")}
        assert {id for kind, id in said if kind == "d"} <= decided
        assert {id for kind, id in said if kind == "r"} <= rewarded
        assert len(rewarded) > 5 * kills
        assert_decides_as_a_twin(bandit, [{"user": user, "hour": 3} for user in ("Tom", "Anna")], ARTICLES)


def test_opening_deciding_and_closing_a_thousand_times_leaks_nothing(tmp_path):
    def work(times):
        for _ in range(times):
            with Bandit(tmp_path / "b", seed=0, vw="-b 12") as bandit:
                bandit.reward(bandit.choose({}, ARTICLES).id, 1)

    process = psutil.Process()
    work(50)
    before, files = process.memory_info().rss, process.num_fds()
    work(1000)
    assert process.memory_info().rss < 1.05 * before
    assert process.num_fds() == files
