"""Events with several slots, for VW's CCB and slates, and the bandit rounds that they come down to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Decisions = list[list[tuple[int, float]]]  # of each slot: actions with their probabilities, the sampled one first


@dataclass
class Slot:
    features: str
    included: list[int] | None = None  # the actions that may be chosen, unless all
    label: tuple[int, float, float] | None = None  # action, cost, probability


@dataclass
class Event:
    shared: str
    actions: list[str]
    slots: list[Slot]
    cost: float | None = None  # of a slate: all its slots have it

    def lines(self, labelled: bool = True) -> list[str]:
        """In VW's text format."""
        return self._slate(labelled) if self.is_slate else self._ccb(labelled)

    @property
    def is_slate(self) -> bool:
        return self.cost is not None

    def _ccb(self, labelled: bool) -> list[str]:
        lines = [f"ccb shared {self.shared}", *(f"ccb action {action}" for action in self.actions)]
        for slot in self.slots:
            label = f" {slot.label[0]}:{slot.label[1]}:{slot.label[2]}" if slot.label and labelled else ""
            included = " " + ",".join(map(str, slot.included)) if slot.included is not None else ""
            lines.append(f"ccb slot{label}{included} {slot.features}")
        return lines

    def _slate(self, labelled: bool) -> list[str]:
        lines = [f"slates shared {self.cost if labelled else ''} {self.shared}"]
        for j, slot in enumerate(self.slots):
            lines += [f"slates action {j} {self.actions[a]}" for a in slot.included]
        for slot in self.slots:
            label = f" {slot.included.index(slot.label[0])}:{slot.label[2]}" if labelled else ""
            lines.append(f"slates slot{label} {slot.features}")
        return lines

    def available(self, j: int, chosen: Sequence[int]) -> list[int]:
        """The actions of slot j, when the slots before it have chosen."""
        included = self.slots[j].included if self.slots[j].included is not None else range(len(self.actions))
        return [a for a in included if a not in chosen[:j]]

    def rounds(self, chosen: Sequence[int], labelled: bool = True) -> list[list[str]]:
        """A round of --cb_adf for each slot. Namespace i says which slot it is, y has the slot's own features."""
        rounds = []
        for j, slot in enumerate(self.slots):
            own = slot.features.replace("| ", "|y ")
            lines = [f"shared {self.shared} {own} |i index{j}"]
            for a in self.available(j, chosen):
                is_observed = labelled and slot.label is not None and slot.label[0] == a
                label = f"0:{slot.label[1]}:{slot.label[2]} " if is_observed and slot.label else ""
                lines.append(f"{label}{self.actions[a]}")
            rounds.append(lines)
        return rounds

    def of_actions(self, decisions: Decisions) -> list[dict[int, float]]:
        """The probabilities by action. Slates count the actions of each slot from 0."""
        pools = [slot.included if self.is_slate else range(len(self.actions)) for slot in self.slots]
        return [{pool[a]: p for a, p in decision} for pool, decision in zip(pools, decisions, strict=True)]


def random_events(seed: int, n: int = 20, slates: bool = False, probability: float | None = None) -> list[Event]:
    """Events of one to three slots, with action sets that change; some slots of CCB events have no label.

    The slot has features of its own, in a namespace or in none. Costs are linear in hidden weights, with noise.
    """
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(3, 10, 3))
    events = []
    for t in range(n):
        slots = int(rng.integers(1, 4)) if t else 2
        context = rng.normal(size=3)
        shared = "|s " + " ".join(f"x{i}:{v:.4f}" for i, v in enumerate(context))
        ids = rng.choice(10, size=int(rng.integers(2 * slots, 8)), replace=False)
        actions = [f"|a id{i} v:{rng.uniform():.4f}" for i in ids]
        pools = np.array_split(np.arange(len(ids)), slots) if slates else [None] * slots
        event = Event(shared, actions, [], cost=0.0 if slates else None)
        taken: list[int] = []
        costs = []
        for j, pool in enumerate(pools):
            features = f"|z f{rng.integers(3)}" if rng.uniform() < 0.7 else f"| g{rng.integers(3)}"
            included = [int(a) for a in pool] if pool is not None else None
            if included is None and rng.uniform() < 0.3:
                included = sorted({int(a) for a in rng.choice(len(ids), size=4)} - set(taken))
            event.slots.append(Slot(features, included if included != [] else None))
            action = int(rng.choice(event.available(j, taken)))
            taken.append(action)
            costs.append(1 / (1 + np.exp(-hidden[j, ids[action]] @ context - rng.normal() / 2)))
            p = probability if probability is not None else round(rng.uniform(0.1, 1), 4)
            if slates or rng.uniform() < 0.8:
                event.slots[-1].label = (action, round(costs[-1], 4), p)
        if slates:
            event.cost = round(sum(costs), 4)
            for slot in event.slots:
                if slot.label is not None:
                    slot.label = (slot.label[0], event.cost, slot.label[2])
        events.append(event)
    return events


def decide(workspace, event: Event, learn: bool = True) -> tuple[Decisions, Decisions]:
    """What is predicted without the labels, and what is predicted on the way of learning."""
    predicted = workspace.predict(event.lines(labelled=False))
    if not learn:
        return predicted, []
    examples = workspace.parse(event.lines())
    workspace.learn(examples)
    learnt = examples[0].get_decision_scores()
    workspace.finish_example(examples)
    return predicted, learnt
