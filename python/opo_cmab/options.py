"""The arguments of the explorers, typed and checked.

>>> str(Options(eta=30, gamma=0.5))
'--cb_explore_adf --opo_cmab --opo_eta 30 --opo_gamma 0.5'
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np

__all__ = ["AdaCBOptions", "FastCBOptions", "Options"]

LARGEST = float(np.finfo(np.float32).max)  # VW's numbers are floats

# Each returns what a value must be, or None if it is valid.


def _nonnegative(value: float) -> str | None:
    return None if 0 <= value <= LARGEST else "at least 0 and finite"


def _fraction(value: float) -> str | None:
    return None if 0 <= value <= 1 else "in [0, 1]"


def _finite(value: float) -> str | None:
    return None if abs(value) <= LARGEST else "finite"


def _budget(value: object) -> str | None:
    fits = isinstance(value, Integral) and (int(value) == 0 or 2 <= int(value) < 2**31)
    return None if fits else "0 (exact) or a whole number from 2 up, below 2^31"


def _one_of(*choices: str) -> Callable[[object], str | None]:
    must_be = " or ".join(map(repr, choices))
    return lambda value: None if value in choices else must_be


def _flag(name: str, check: Callable[[Any], str | None] | None = None) -> Any:
    """A field that becomes --name. None, or False, leaves it out."""
    return field(default=None if check else False, metadata={"flag": name, "check": check})


@dataclass(frozen=True, kw_only=True)
class _Explorer:
    min_cost: float | None = _flag("cb_min_cost", _finite)
    max_cost: float | None = _flag("cb_max_cost", _finite)
    epsilon: float | None = _flag("epsilon", _fraction)
    loss: Literal["squared", "logistic"] | None = _flag("loss_function", _one_of("squared", "logistic"))
    cost_unit: Literal["range", "raw"] | None = _flag("cb_cost_unit", _one_of("range", "raw"))
    shared_features: Literal["auto", "learn"] | None = _flag("cb_shared_features", _one_of("auto", "learn"))

    explorer: ClassVar[str]

    def __post_init__(self) -> None:
        for f in fields(self):
            value, check = getattr(self, f.name), f.metadata["check"]
            if value is None or check is None:
                continue
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            is_choice = f.name in ("loss", "cost_unit", "shared_features")
            must_be = check(value) if is_number or is_choice else "a number"
            if must_be:
                raise ValueError(f"{f.name} must be {must_be}: {value!r}")
        low, high = self.min_cost, self.max_cost
        if low is not None and high is not None and not float(np.float32(low)) < float(np.float32(high)):
            raise ValueError(f"min_cost must be below max_cost, as 32-bit floats: {low} and {high}")

    def __str__(self) -> str:
        words = ["--cb_explore_adf", f"--{self.explorer}"]
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and value is not False:
                words.append(f"--{f.metadata['flag']}" + ("" if value is True else f" {value}"))
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class Options(_Explorer):
    r"""The arguments of ``--opo_cmab``, for ``Workspace`` or the command line: ``str(Options(eta=30))``.

    ``Options()`` decides by exponential weights on the optimistic losses of least squares. With any of eta, scale,
    gamma, beta, decay, budget, importance_weighted or paper, it is Algorithm 1 of Levy and Mansour (2026) on gradient
    descent, with a decay:

    $$
    \pi_{k+1}(a) \propto \pi_k(a)^{\text{decay}} \exp(-\eta\, \mathrm{clip}(\hat f_k(c, a) - b_k(a), 0, 1))
    $$

    For a setting that you leave out, VW uses its default (in brackets below) or the value saved in the model that it
    loads. Add VW's other arguments (interactions, learner, files): ``f"{Options()} -q ua --quiet"``.
    docs/options.md explains each.

    Attributes:
        eta: learning rate of the policy (20).
        scale: size of the bonus, $\beta_k = \gamma \sqrt{k / |A|}$, where gamma is this times the lowest loss
            predicted for the context (0.25).
        gamma: a gamma that does not depend on the predictions.
        beta: a constant beta.
        decay: forgetting, the factor on the log-weights in each round (0.8; 1 is Algorithm 1).
        budget: the largest number of segments of the past (32); 0 is exact.
        importance_weighted: learn with the inverse of the logged probability as weight.
        paper: Algorithm 1 with the settings of the paper's experiments.
        cost_unit: 'range' (the default) or 'raw'.
        shared_features: 'auto' (the default) or 'learn'.
        min_cost: a lower limit; lower costs are clipped to it (no limit).
        max_cost: an upper limit; higher costs are clipped to it (no limit).
        epsilon: the minimum probability of an action is this divided by their number (0).
        loss: squared (the default) or logistic.
    """

    eta: float | None = _flag("opo_eta", _nonnegative)
    gamma: float | None = _flag("opo_gamma", _nonnegative)
    beta: float | None = _flag("opo_beta", _nonnegative)
    scale: float | None = _flag("opo_scale", _nonnegative)
    decay: float | None = _flag("opo_decay", _fraction)
    budget: int | None = _flag("opo_budget", _budget)
    importance_weighted: bool = _flag("opo_importance_weighted")
    paper: bool = _flag("opo_paper")

    explorer: ClassVar[str] = "opo_cmab"

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("gamma", "beta", "scale") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]} and {given[1]}: give only one of them")
        if self.paper:
            implies = {"scale": None, "decay": 1, "budget": 0, "cost_unit": "raw", "shared_features": "learn"}
            for name, implied in implies.items():
                if getattr(self, name) not in (None, implied):
                    raise ValueError(f"paper implies {name} {implied}, not {getattr(self, name)!r}: leave out {name}")


@dataclass(frozen=True, kw_only=True)
class FastCBOptions(_Explorer):
    r"""The arguments of ``--fastcb``, as ``Options``. FastCB (Foster and Krishnamurthy 2021):

    $$
    p(a) = \frac{f^*}{|A| f^* + \gamma_t (f(a) - f^*)}, \quad \gamma_t = \text{scale}\, t^{\text{exponent}}
    $$

    Attributes:
        gamma_scale: greediness (10).
        gamma_exponent: how greediness grows with the rounds (0.5).
    """

    gamma_scale: float | None = _flag("gamma_scale", _nonnegative)
    gamma_exponent: float | None = _flag("gamma_exponent", _nonnegative)

    explorer: ClassVar[str] = "fastcb"


@dataclass(frozen=True, kw_only=True)
class AdaCBOptions(FastCBOptions):
    """The arguments of ``--adacb``, as ``Options``. AdaCB (Foster, Rakhlin, Simchi-Levi and Xu 2020): inverse gap
    weighting over the actions that RegCB finds plausible.

    Attributes:
        mellowness: a larger value keeps more actions plausible (0.001).
    """

    mellowness: float | None = _flag("mellowness", _nonnegative)

    explorer: ClassVar[str] = "adacb"
