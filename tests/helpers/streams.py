"""Random logged bandit streams, and a loop that runs them through a Workspace.

Imports vowpalwabbit only when it runs, on whichever engine the process has.
"""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

#: Asks our explorers for gradient descent: its default, given.
GD = "--power_t 0.5"

Predictions = list[list[float]]  # of each round: of each action, in the order of the actions


def random_rounds(
    seed: int,
    n: int = 60,
    actions: tuple[int, int] = (2, 5),
    costs: tuple[float, float] = (0.0, 1.0),
    probability: float | None = None,
    shared: bool = True,
) -> list[list[str]]:
    """Rounds in VW's text format: shared features, an action set that changes, one logged cost.

    Costs are linear in hidden weights, with noise, so that there is something to learn.
    The probability is drawn unless given.
    """
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(8, 3))
    low, high = costs
    rounds = []
    for _ in range(n):
        k = int(rng.integers(actions[0], actions[1] + 1))
        context = rng.normal(size=3)
        chosen = int(rng.integers(k))
        ids = rng.choice(8, size=k, replace=False)
        lines = ["shared |s " + " ".join(f"x{i}:{v:.4f}" for i, v in enumerate(context))] if shared else []
        for a, i in enumerate(ids):
            score = 1 / (1 + np.exp(-hidden[i] @ context - rng.normal() / 2))
            cost = low + (high - low) * score
            p = probability if probability is not None else rng.uniform(0.1, 1)
            label = f"{a}:{cost:.4f}:{p:.4f} " if a == chosen else ""
            lines.append(f"{label}|a id{i} v:{rng.uniform():.4f}")
        rounds.append(lines)
    return rounds


def relabel(rounds: list[list[str]], change: Callable[[str, str], tuple[str, str]]) -> list[list[str]]:
    """The same rounds with other costs and probabilities."""

    def changed(line: str) -> str:
        label, bar, features = line.partition("|")
        if ":" not in label:
            return line
        action, cost, p = label.split(":")
        return f"{action}:{':'.join(change(cost, p.strip()))} {bar}{features}"

    return [[changed(line) for line in lines] for lines in rounds]


def with_probability_one(rounds: list[list[str]]) -> list[list[str]]:
    """The same rounds with every logged probability 1: mtr then learns with no importance weight."""
    return relabel(rounds, lambda cost, _: (cost, "1"))


def without_labels(rounds: list[list[str]]) -> list[list[str]]:
    """The same rounds, to be predicted only."""
    return [[line[line.index("|") :] if line[0].isdigit() else line for line in lines] for lines in rounds]


def to_text(rounds: list[list[str]]) -> str:
    return "".join("\n".join(lines) + "\n\n" for lines in rounds)


def dsjson(lines: list[str]) -> str:
    """A round of a stream as the logs of a decision service have it."""
    chosen = next(a for a, line in enumerate(lines[1:]) if line[0].isdigit())
    _, cost, p = lines[1 + chosen].split(" ")[0].split(":")

    def features(line: str) -> dict[str, float]:
        pairs = [f.partition(":") for f in line.partition("|")[2].split()[1:]]
        return {name: float(value) if value else 1.0 for name, _, value in pairs}

    return json.dumps(
        {
            "_label_cost": float(cost),
            "_label_probability": float(p),
            "_label_Action": chosen + 1,
            "_labelIndex": chosen,
            "a": [chosen + 1],
            "p": [float(p)],
            "c": {"s": features(lines[0]), "_multi": [{"a": features(line)} for line in lines[1:]]},
        }
    )


def write(path: Path, rounds: list[list[str]]) -> Path:
    path.write_text(to_text(rounds))
    return path


def run(
    arguments: str, rounds: list[list[str]], learn: bool = True, save: str | None = None, every_model: bool = False
) -> Predictions | list[Predictions]:
    """Predict, then learn, round by round; the predictions.

    With every_model, the predictions for each round of all models so far: of those before each labelled round, saved
    and loaded again to predict, and of the model now.
    """
    from vowpalwabbit import Workspace

    workspace = Workspace(arguments + " --quiet")
    predictions = []
    models: list[Workspace] = []
    with TemporaryDirectory() as directory:
        for t, lines in enumerate(rounds):
            predictions.append(list(workspace.predict(lines)))
            if every_model:
                predictions[-1] = [*(list(model.predict(lines)) for model in models), predictions[-1]]
                if any(line[0].isdigit() for line in lines):
                    workspace.save(f"{directory}/{t}")
                    models.append(Workspace(f"-i {directory}/{t} -t --quiet"))
            if learn:
                workspace.learn(lines)
    if save is not None:
        workspace.save(save)
    workspace.finish()
    return predictions
