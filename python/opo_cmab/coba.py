"""OPOLearner for coba's experiments. VW's explorers need no adapter there: coba's VowpalLearner takes their flags."""

from collections.abc import Mapping, Sequence
from typing import Any

from coba.encodings import InteractionsEncoder
from coba.learners.utilities import PMFPredictor
from coba.primitives import Learner

from .learner import OPOLearner

__all__ = ["CobaLearner"]


class CobaLearner(Learner):  # type: ignore[misc]  # coba has no types
    """``opo_cmab.OPOLearner`` with coba's learner interface: one oracle sees context and action together.

    The cost is minus coba's reward.

    Args:
        features: what the oracle sees, as for coba's LinUCBLearner: x is the context, a the action, xa their products.
        seed: of the random choice of actions.
        settings: of OPOLearner.
    """

    def __init__(self, features: Sequence[str] = ("a", "xa"), seed: int = 1, **settings: Any) -> None:
        self._names, self._settings = list(features), settings
        self._encoder = InteractionsEncoder(features)
        self._learner = OPOLearner(**settings)
        self._predictor = PMFPredictor(self._probabilities, seed)

    @property
    def params(self) -> Mapping[str, Any]:
        settings = {k: str(v) if k == "oracle" else v for k, v in self._settings.items()}  # coba writes them as JSON
        return {"family": "OPOLearner", "features": self._names, **settings, "seed": self._predictor.seed}

    def _features(self, context: Any, actions: Sequence[Any]) -> list[Any]:
        return [self._encoder.encode(x=context or [], a=action) for action in actions]

    def _probabilities(self, context: Any, actions: Sequence[Any]) -> Any:
        return self._learner.predict_proba([self._features(context, actions)])[0].tolist()

    def score(self, context: Any, actions: Sequence[Any], action: Any) -> Any:
        return self._predictor.score(context, actions, action)

    def predict(self, context: Any, actions: Sequence[Any]) -> Any:
        return self._predictor.predict(context, actions)

    def learn(self, context: Any, action: Any, reward: float, probability: float) -> None:
        self._learner.update(self._features(context, [action]), 0, -reward)
