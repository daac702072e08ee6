"""`python -m opo_cmab.serve`: Personalizer's calls, from its real SDK; what is refused; what a kill leaves."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
import requests
import schemathesis
from azure.cognitiveservices.personalizer import PersonalizerClient
from azure.cognitiveservices.personalizer.models import ErrorResponseException, RankableAction, RankRequest
from hypothesis import HealthCheck, given, settings
from msrest.authentication import CognitiveServicesCredentials
from opo_cmab import Bandit
from opo_cmab.serve import application
from starlette.testclient import TestClient

from tests.helpers.bandits import assert_decides_as_a_twin
from tests.helpers.browser import look

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
KEY = "kéy of the tests".encode().hex()
HEAD = {"Ocp-Apim-Subscription-Key": KEY}
RANK = "/personalizer/v1.0/rank"
DRINKS = ["tea", "coffee", "milk"]
ACTIONS = [{"id": name, "features": [{"hot": name != "milk"}, {"price": {"euro": 2}}]} for name in DRINKS]


def request(user="Tom", **more):
    return {"contextFeatures": [{"user": user}, {"time": {"hour": 9}}], "actions": ACTIONS, **more}


@contextmanager
def running(path, *arguments, key=KEY):
    """The service in a process of its own, and its address."""
    command = [sys.executable, "-m", "opo_cmab.serve", str(path), "--port", "0", *arguments]
    process = subprocess.Popen(command, env=os.environ | {"OPO_CMAB_KEY": key}, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def bandit(tmp_path):
    with Bandit(tmp_path / "b", seed=0, wait=600) as bandit:
        yield bandit


@pytest.fixture
def client(bandit):
    return TestClient(application(bandit, KEY), headers=HEAD, raise_server_exceptions=False)


# -- as Personalizer --------------------------------------------------------------------------------------------------


def test_the_real_sdk_ranks_rewards_and_activates(tmp_path):
    with running(tmp_path / "b", "--seed", "0") as (address, process):
        client = PersonalizerClient(address, CognitiveServicesCredentials(KEY))
        actions = [RankableAction(id=name, features=[{"hot": name != "milk"}]) for name in DRINKS]
        for n in range(60):
            user = ("Tom", "Anna")[n % 2]
            ask = RankRequest(actions=actions, context_features=[{"user": user}], defer_activation=n % 5 == 0)
            answer = client.rank(ask)
            assert {action.id for action in answer.ranking} == set(DRINKS)
            assert answer.ranking[0].id == answer.reward_action_id
            assert math.isclose(sum(action.probability for action in answer.ranking), 1, abs_tol=1e-6)
            if n % 5 == 0:
                client.events.activate(answer.event_id)
            client.events.reward(answer.event_id, float(answer.reward_action_id == {"Tom": "tea"}.get(user, "milk")))
        left_out = client.rank(RankRequest(actions=actions, excluded_actions=["tea"], event_id="mine"))
        assert left_out.event_id == "mine"
        assert (left_out.ranking[0].id, left_out.ranking[0].probability) == ("tea", 0)  # keeps its place
        assert left_out.reward_action_id != "tea"
        with pytest.raises(ErrorResponseException, match="there is no action"):
            client.rank(RankRequest(actions=[]))
        wrong = PersonalizerClient(address, CognitiveServicesCredentials("wrong"))
        with pytest.raises(ErrorResponseException, match="Ocp-Apim-Subscription-Key"):
            wrong.rank(ask)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    with Bandit(tmp_path / "b", read_only=True) as bandit:
        assert bandit._store.run("SELECT rounds FROM models") == [(60,)]  # saved by a graceful stop
        assert bandit.status()["rewarded"] == 60


@pytest.mark.parametrize("prefix", ["/personalizer/v1.0", "/personalizer/v1.1-preview.3", "/personalizer"])
def test_other_versions_have_the_same_paths(client, prefix):
    version = {"api-version": "2022-09-01-preview"}
    answer = client.post(f"{prefix}/rank", json=request(), params=version)
    assert answer.status_code == 201
    event = f"{prefix}/events/{answer.json()['eventId']}"
    assert client.post(f"{event}/activate", params=version).status_code == 204
    assert client.post(f"{event}/reward", json={"value": 1}, params=version).status_code == 204
    assert client.get(f"{prefix}/status").json()["rewarded"] == 1
    assert client.get("/status").json() == client.get(f"{prefix}/status").json()
    assert client.get(f"{prefix}/model").content.startswith(b"\x07\0\0\x009.11.9")


def test_features_are_named_as_in_an_imported_log(client, bandit, tmp_path):
    client.post(RANK, json=request())
    multi = [{"i": {"constant": 1, "id": action["id"]}, "j": action["features"]} for action in ACTIONS]
    event = {"_label_cost": 0, "_label_probability": 0.5, "_label_Action": 1, "_labelIndex": 0, "a": [1, 2, 3]}
    event |= {"p": [0.5, 0.3, 0.2], "c": {"FromUrl": request()["contextFeatures"], "_multi": multi}}
    (tmp_path / "log").write_text(json.dumps(event) + "\n")
    rows = "SELECT context, actions FROM decisions"
    with Bandit.from_log(tmp_path / "log", tmp_path / "imported") as imported:
        assert imported._store.run(rows) == bandit._store.run(rows)


def test_a_deferred_decision_waits_for_no_reward_until_it_is_activated(client, bandit, monkeypatch):
    now = time.monotonic()
    ids = [client.post(RANK, json=request(deferActivation=n > 0)).json()["eventId"] for n in range(3)]
    assert client.post(f"/personalizer/v1.0/events/{ids[1]}/reward", json={"value": "1"}).status_code == 400

    def rounds(later):
        monkeypatch.setattr(time, "monotonic", lambda: now + later)
        client.post(RANK, json=request(deferActivation=True))  # any call settles
        return bandit.status()["rounds"]

    assert rounds(601) == 1
    assert client.post(f"/personalizer/v1.0/events/{ids[1]}/activate").status_code == 204
    assert rounds(1200) == 1
    assert rounds(1202) == 2
    assert client.post(f"/personalizer/v1.0/events/{ids[2]}/reward", json={"value": 1}).status_code == 204
    assert bandit.status()["rewarded"] == 1
    monkeypatch.undo()
    assert bandit._store.run("SELECT count(*) FROM decisions WHERE round AND time > 1e11") == [(0,)]


def test_the_first_reward_counts(client, bandit):
    reward = f"/personalizer/v1.0/events/{client.post(RANK, json=request()).json()['eventId']}/reward"
    assert [client.post(reward, json={"value": value}).status_code for value in (1, 1, 0.5)] == [204] * 3
    assert bandit.status() | {"mean_reward": 1.0, "rounds": 1} == bandit.status()


def test_an_apprentice_plays_the_first_action(tmp_path):
    with running(tmp_path / "b", "--apprentice") as (address, _):
        answers = [requests.post(address + RANK, json=request(), headers=HEAD).json() for _ in range(5)]
        assert {answer["rewardActionId"] for answer in answers} == {"tea"}
        assert [action["probability"] for action in answers[0]["ranking"]] == [1, 0, 0]
        assert "agrees" in requests.get(f"{address}/status", headers=HEAD).json()


def test_it_reports_and_measures_itself(client, tmp_path):
    client.post(RANK, json=request(user="<Eve>"))
    page = client.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "&lt;Eve&gt;" in page.text
    text = client.get("/metrics").text
    assert 'opo_cmab_request_seconds_count{call="rank",status="201"} 1.0' in text
    assert 'opo_cmab_bandit{what="decisions"} 1.0' in text
    assert client.get("/health").json() == {"status": "ok"}


def test_the_report_in_a_real_browser(client, tmp_path):
    for n in range(80):
        id = client.post(RANK, json=request()).json()["eventId"]
        client.post(f"/personalizer/v1.0/events/{id}/reward", json={"value": n % 2})
    script = """<script>addEventListener("load", () => {
      const lines = [...document.querySelectorAll("polyline")].map((l) => l.getBoundingClientRect().width)
      const found = JSON.stringify([lines, document.querySelectorAll("tr").length])
      document.body.append(Object.assign(document.createElement("pre"), {id: "found", textContent: found}))
    })</script>"""
    lines, rows = look(client.get("/").text, script, tmp_path)
    assert len(lines) == 5
    assert min(lines) > 100
    assert rows == 2 + 21


# -- what is refused --------------------------------------------------------------------------------------------------

DEEP = b'{"actions": [{"id": "a"}], "contextFeatures": [' + b'{"x":' * 900 + b"1" + b"}" * 900 + b"]}"
BAD_BODIES = {
    "empty": (b"", 400, "Expecting value"),
    "cut": (json.dumps(request()).encode()[:-9], 400, "delimiter"),
    "deep": (DEEP, 400, "nested so deep"),
    "very deep": (b"[" * 200_000, 400, "nested too deep"),
    "huge": (b'{"x": "' + b"x" * (1 << 20) + b'"}', 413, "longer than 1048576 bytes"),
    "not UTF-8": (b'{"actions": [{"id": "\xff"}]}', 400, "decode"),
    "half a character": (b'{"actions": [{"id": "\\ud800"}]}', 400, "surrogates"),
    "a long message": (json.dumps(request(excludedActions=[{"x" * 9000: 1}])).encode(), 400, "ids of actions"),
    "a list": (b"[]", 400, "must be an object"),
    "a list in a list": (json.dumps(request(contextFeatures=[{"x": [[{}]]}])).encode(), 400, "must be a string"),
    "no actions": (b"{}", 400, "there is no action"),
    "actions of a wrong type": (b'{"actions": "tea"}', 400, "actions must be a list"),
    "an action of a wrong type": (b'{"actions": ["tea"]}', 400, "each action must be an object"),
    "an action without an id": (b'{"actions": [{"features": []}]}', 400, "each action must be an object"),
    "an action with an empty id": (b'{"actions": [{"id": ""}]}', 400, "not empty"),
    "an action twice": (json.dumps({"actions": ACTIONS * 2}).encode(), 400, "two actions are called tea"),
    "too many actions": (json.dumps({"actions": [{"id": str(n)} for n in range(101)]}).encode(), 400, "more than 100"),
    "features of a wrong type": (b'{"actions": [{"id": "a", "features": 3}]}', 400, "features must be a list"),
    "nan": (json.dumps(request(contextFeatures=[{"x": math.nan}])).encode(), 400, "finite number"),
    "beyond floats": (json.dumps(request(contextFeatures=[{"x": 10**400}])).encode(), 400, "finite number"),
    "a list of lists": (json.dumps(request(contextFeatures=[{"x": [[1], [2]]}])).encode(), 400, "vector"),
    "all are excluded": (json.dumps(request(excludedActions=DRINKS)).encode(), 400, "there is no action"),
    "excluded of a wrong type": (json.dumps(request(excludedActions=[{}])).encode(), 400, "ids of actions"),
    "a long event id": (json.dumps(request(eventId="x" * 257)).encode(), 400, "at most 256"),
    "an event id twice": (json.dumps(request(eventId="there")).encode(), 400, "'there' already"),
    "an event id of a wrong type": (json.dumps(request(eventId=3)).encode(), 400, "eventId must be a string"),
    "deferred of a wrong type": (json.dumps(request(deferActivation="no")).encode(), 400, "true or false"),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_bad_rank_is_named_and_nothing_is_learnt(client, bandit, case):
    body, code, message = BAD_BODIES[case]
    client.post(RANK, json=request(eventId="there"))
    answer = client.post(RANK, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == code
    assert message in answer.json()["error"]["message"]
    assert bandit.status()["decisions"] == 1
    assert client.post(RANK, json=request()).status_code == 201


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("events/there/reward", {"value": "1"}, 400),
        ("events/there/reward", {"value": True}, 400),
        ("events/there/reward", {"value": None}, 400),
        ("events/there/reward", {"reward": 1}, 400),
        ("events/there/reward", [1], 400),
        ("events/unknown/reward", {"value": 1}, 404),
        ("events/unknown/activate", {}, 404),
        ("events/a%2Fb%00/reward", {"value": 1}, 404),
        ("nowhere", {}, 404),
        ("status", {}, 405),
    ],
)
def test_a_bad_call_is_answered_in_personalizers_form(client, bandit, path, body, code):
    client.post(RANK, json=request(eventId="there"))
    answer = client.post(f"/personalizer/v1.0/{path}", json=body)
    assert answer.status_code == code
    assert set(answer.json()["error"]) == {"code", "message"}
    assert bandit.status()["rounds"] == 0


def test_a_form_of_another_page_is_refused(client):
    assert client.post(RANK, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415


@pytest.mark.parametrize("head", [{}, {"Ocp-Apim-Subscription-Key": "x"}, {"Authorization": "Basic ???"}])
def test_without_the_key_nothing_is_answered(bandit, head):
    client = TestClient(application(bandit, KEY), headers=head)
    for path in ("/", "/status", "/metrics", "/openapi.json", "/nowhere", "/personalizer/v1.0/model"):
        answer = client.get(path)
        assert answer.status_code == 401
        assert set(answer.json()) == {"error"}
    assert client.post(RANK, json=request()).status_code == 401
    assert bandit.status()["decisions"] == 0
    assert TestClient(application(bandit, KEY)).get("/status", auth=("", KEY)).status_code == 200  # a browser


def test_without_a_key_only_localhost_is_served(bandit):
    assert TestClient(application(bandit), base_url="http://localhost").get("/status").status_code == 200
    for host in ("evil.example", "evil.example:80", "[", ""):
        assert TestClient(application(bandit)).get("/status", headers={"Host": host}).status_code == 400


def test_it_does_not_listen_elsewhere_without_a_key(tmp_path):
    command = [sys.executable, "-m", "opo_cmab.serve", tmp_path / "b", "--host", "0.0.0.0"]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OPO_CMAB_KEY": ""})
    assert result.returncode == 2
    assert "set a key" in result.stderr
    assert not (tmp_path / "b").exists()


def test_too_many_requests_are_told_to_wait(bandit):
    client = TestClient(application(bandit, KEY, rate=5), headers=HEAD)
    answers = [client.post(RANK, json=request()) for _ in range(30)]
    assert {answer.status_code for answer in answers} == {201, 429}
    assert next(answer for answer in answers if answer.status_code == 429).headers["retry-after"] == "1"
    assert bandit.status()["decisions"] == sum(answer.status_code == 201 for answer in answers)


def test_a_full_disk_is_not_the_callers_fault(client, bandit, capsys):
    [(pages,)] = bandit._store.run("PRAGMA page_count")
    bandit._store.run(f"PRAGMA max_page_count = {pages}")
    codes = {client.post(RANK, json=request(user="x" * 5000)).status_code for _ in range(20)}
    assert 503 in codes
    assert "the disk is full" in capsys.readouterr().err
    assert client.get("/health").status_code == 200


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", ["rank", "reward", "activate", "status", "model", "report", "health"])
def test_what_schemathesis_sends_never_crashes_it(bandit, call):
    schema = schemathesis.openapi.from_asgi("/openapi.json", application(bandit, KEY), headers=HEAD)
    [operation] = [
        found.ok() for found in schema.get_all_operations() if found.ok().definition.raw["operationId"] == call
    ]
    kinds = operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

    @settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(kinds)
    def check(case):
        answer = case.call(headers=HEAD)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.json()["error"]["message"]

    check()


def test_the_description_names_every_path(client):
    described = {path.replace("{eventId}", "x") for path in client.get("/openapi.json").json()["paths"]}
    called = {"rank", "status", "model", "events/x/reward", "events/x/activate"}
    assert described == {f"/personalizer/v1.0/{path}" for path in called} | {"/", "/health"}


# -- kills ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_under_load_no_answer_is_lost(tmp_path, kills):
    draw, ranked, rewarded = random.Random(0), [], []

    def work(address, seed):
        with requests.Session() as session:
            session.headers.update(HEAD)
            try:
                for n in range(10_000):
                    answer = session.post(address + RANK, json=request(("Tom", "Anna")[(n + seed) % 2]), timeout=10)
                    id = answer.json()["eventId"]
                    ranked.append(id)
                    reward = f"{address}/personalizer/v1.0/events/{id}/reward"
                    assert session.post(reward, json={"value": n % 3 / 2}, timeout=10).status_code == 204
                    rewarded.append(id)
            except requests.RequestException:
                pass  # killed

    for _ in range(kills):
        with running(tmp_path / "b", "--seed", "0") as (address, process):
            threads = [threading.Thread(target=work, args=(address, seed)) for seed in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(draw.uniform(0.05, 0.4))
            process.kill()
            for thread in threads:
                thread.join()
    with Bandit(tmp_path / "b") as bandit:
        assert set(ranked) <= {id for (id,) in bandit._store.run("SELECT id FROM decisions")}
        assert set(rewarded) <= {id for (id,) in bandit._store.run("SELECT id FROM decisions WHERE round")}
        assert len(rewarded) > 5 * kills
        assert_decides_as_a_twin(bandit, [{"FromUrl.user": user} for user in ("Tom", "Anna")], DRINKS)
