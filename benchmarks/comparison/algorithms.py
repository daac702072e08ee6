"""The algorithms of the comparison: how VW runs them, the paper's grids and the paper's choices.

A plain name means the explorer's flag at its defaults, as in the other tables: OPO-CMAB is --opo_cmab. "(paper)"
is the algorithm as the paper's published code ran it, faults included; SquareCB and RegCB are the same in both.

- OPO-CMAB (paper) is Algorithm 1 (--opo_paper) with VW's importance weights left on; "OPO-CMAB, Algorithm 1" is to the
  letter: its regression is not weighted.
- AdaCB (paper) is VW's --squarecb --elim, which counts each new minimum instead of each survivor.
- FastCB (paper) and "AdaCB, raw" learn raw costs, as in the paper. By default --fastcb and --adacb map costs to [0, 1]
  (--cb_cost_unit range), and so does "SquareCB, mapped".
- RegCB is VW's elimination variant, RegCB-opt its optimistic one.
- Under logistic loss AdaCB (paper) and RegCB read margins as if they were costs. The others map them by the sigmoid.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType

import pandas as pd

Value = str | float
Params = dict[str, Value]  # by the names of the paper's table: loss, rho, gamma0, c0, eta, gamma, learning_rate

LEARNING_RATES = (10, 1, 0.1, 0.01, 0.001)
GAMMA0 = (1000, 700, 400, 100, 50, 10)
RHO = (0.5, 0.25)
C0 = (0.1, 0.01, 0.001)
LOSSES = ("squared", "logistic")

# The table of all tested values (fig:all_params in the paper): 755 settings.
GRIDS: Mapping[str, Mapping[str, tuple[Value, ...]]] = MappingProxyType(
    {
        "Supervised": {"loss": ("logistic",), "learning_rate": LEARNING_RATES},
        "SquareCB": {"loss": LOSSES, "rho": RHO, "gamma0": GAMMA0, "learning_rate": LEARNING_RATES},
        "FastCB": {"loss": ("logistic",), "rho": RHO, "gamma0": GAMMA0, "learning_rate": LEARNING_RATES},
        "AdaCB": {"loss": LOSSES, "rho": RHO, "gamma0": GAMMA0, "c0": C0, "learning_rate": LEARNING_RATES},
        "RegCB": {"loss": LOSSES, "c0": C0, "learning_rate": LEARNING_RATES},
        "OPO-CMAB": {
            "loss": LOSSES,
            "eta": (100, 10, 1, 0.2, 0.1, 0.01),
            "gamma": (1, 0.1, 0.01),
            "learning_rate": LEARNING_RATES,
        },
    }
)
FLAGS = {
    "rho": "--gamma_exponent",
    "gamma0": "--gamma_scale",
    "c0": "--mellowness",
    "eta": "--opo_eta",
    "gamma": "--opo_gamma",
    "learning_rate": "--learning_rate",
}
PARAMS = ("loss", *FLAGS)
RAW = "--cb_cost_unit raw"
RAW_FROM_0_TO_1 = f"{RAW} --cb_min_cost 0 --cb_max_cost 1"
MARGINS = "--logistic_min 0 --logistic_max 1"  # no link, but the label range that costs need: VW's is -1 to 1


@dataclass(frozen=True)
class Algorithm:
    flags: str
    paper: str | None = None  # the paper's algorithm that has its grid and choices; None: it runs only at its defaults
    logistic: str = RAW  # added with --loss_function logistic
    task: str = "--cbify {actions} --cb_explore_adf"

    def grid(self) -> list[Params]:
        """Every setting of the paper's table, in its order."""
        if self.paper is None:
            return []
        grid = GRIDS[self.paper]
        return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]

    def command(self, actions: int, params: Params) -> str:
        """The arguments of vw."""
        words = [self.task.format(actions=actions), self.flags]
        if params.get("loss") == "logistic":
            words += ["--loss_function logistic", self.logistic]
        words += [f"{flag} {params[name]:g}" for name, flag in FLAGS.items() if name in params]
        return " ".join(word for word in words if word)


SUPERVISED = "Supervised"
ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        SUPERVISED: Algorithm("", SUPERVISED, logistic="", task="--oaa {actions}"),
        "SquareCB": Algorithm("--squarecb", "SquareCB"),
        "FastCB (paper)": Algorithm(f"--fastcb {RAW_FROM_0_TO_1}", "FastCB", logistic=""),
        "AdaCB (paper)": Algorithm("--squarecb --elim", "AdaCB", logistic=MARGINS),
        "AdaCB, raw": Algorithm(f"--adacb {RAW_FROM_0_TO_1}", "AdaCB", logistic=""),
        "RegCB": Algorithm("--regcb", "RegCB", logistic=MARGINS),
        "RegCB-opt": Algorithm("--regcb --regcbopt", "RegCB"),
        "OPO-CMAB (paper)": Algorithm("--opo_cmab --opo_paper --opo_importance_weighted", "OPO-CMAB", logistic=""),
        "OPO-CMAB, Algorithm 1": Algorithm("--opo_cmab --opo_paper", "OPO-CMAB", logistic=""),
        "OPO-CMAB": Algorithm("--opo_cmab"),
        "FastCB": Algorithm("--fastcb"),
        "FastCB (paper), logistic": Algorithm(f"--fastcb {RAW_FROM_0_TO_1} --loss_function logistic"),
        "AdaCB": Algorithm("--adacb"),
        "SquareCB, mapped": Algorithm("--squarecb --cb_cost_unit range"),
        "epsilon-greedy": Algorithm(""),
        "bag": Algorithm("--bag 5"),
        "cover": Algorithm("--cover 5"),
        "softmax": Algorithm("--softmax"),
        "OPO-CMAB on gd": Algorithm("--opo_cmab --opo_eta 20"),
        "FastCB on gd": Algorithm("--fastcb --power_t 0.5"),
        **{
            f"{name} on least squares": Algorithm(f"{flags} --least_squares")
            for name, flags in {
                "epsilon-greedy": "",
                "SquareCB": "--squarecb",
                "bag": "--bag 5",
                "RegCB-opt": "--regcb --regcbopt",
            }.items()
        },
    }
)
AS_IN_THE_PAPER = {  # by the paper's names, ours
    name: f"{name} (paper)" if f"{name} (paper)" in ALGORITHMS else name for name in GRIDS
}
TUNED = tuple(name for name, a in ALGORITHMS.items() if a.paper)


@cache
def _papers_table() -> pd.DataFrame:
    return pd.read_csv(Path(__file__).parent / "paper_params.csv", index_col=["dataset", "algorithm"])


def papers_choice(dataset: int | str, algorithm: str) -> Params | None:
    """The setting that the paper chose (its table fig:best-params), or None for a set that is not in it."""
    key = (dataset, ALGORITHMS[algorithm].paper)
    if key not in _papers_table().index:
        return None
    row = _papers_table().loc[key].dropna()
    return {name: value if name == "loss" else float(value) for name, value in row.items()}
