"""Several Workspaces, in one process, in threads and in worker processes: each as if it were alone."""

import multiprocessing
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from tests.helpers.streams import random_rounds

ARGUMENTS = [
    "--cb_explore_adf --opo_cmab -q sa",
    "--cb_explore_adf --opo_cmab --opo_budget 16 --loss_function logistic",
    "--cb_explore_adf --fastcb --ftrl",
    "--cb_explore_adf --adacb -q ::",
] * 2
STREAMS = [random_rounds(seed, n=80) for seed in range(len(ARGUMENTS))]


def run(arguments, rounds):
    import opo_cmab  # noqa: F401  a worker that was spawned has nothing imported yet

    from tests.helpers import streams

    return streams.run(arguments, rounds)


@pytest.fixture(scope="module")
def alone():
    return [run(arguments, rounds) for arguments, rounds in zip(ARGUMENTS, STREAMS, strict=True)]


def pool(kind: str) -> Executor:
    if kind == "threads":
        return ThreadPoolExecutor(4)
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(kind))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["threads", "fork", "spawn"])
def test_workspaces_in_workers_do_what_they_do_alone(alone, kind):
    with pool(kind) as workers:
        assert list(workers.map(run, ARGUMENTS, STREAMS)) == alone


def test_workspaces_that_take_turns_do_not_see_each_other(alone):
    from vowpalwabbit import Workspace

    workspaces = [Workspace(arguments + " --quiet") for arguments in ARGUMENTS]
    got: list[list[list[float]]] = [[] for _ in workspaces]
    for rounds in zip(*STREAMS, strict=True):
        for workspace, predictions, lines in zip(workspaces, got, rounds, strict=True):
            predictions.append(list(workspace.predict(lines)))
            workspace.learn(lines)
    assert got == alone


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_parent_and_child_go_on_from_the_fork_by_themselves(alone):
    from vowpalwabbit import Workspace

    rounds = STREAMS[0]
    workspace = Workspace(ARGUMENTS[0] + " --quiet")
    for lines in rounds[:40]:
        workspace.learn(lines)

    def go_on(send=None):
        predictions = []
        for lines in rounds[40:]:
            predictions.append(list(workspace.predict(lines)))
            workspace.learn(lines)
        return send(predictions) if send else predictions

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=go_on, args=(sender.send,))
    child.start()
    assert go_on() == alone[0][40:]
    assert receiver.recv() == alone[0][40:]
    child.join(30)
    assert child.exitcode == 0
