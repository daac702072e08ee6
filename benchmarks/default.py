"""Our explorers at their default, least squares, beside those on gd: docs/results/default.csv, for the README.

    python -m benchmarks.online --split report --seeds 8 --explorers OPO-CMAB FastCB AdaCB SquareCB --out ONLINE \\
        --vw-explorer "OPO-CMAB on gd=--opo_cmab --opo_eta 20" --vw-explorer "FastCB on gd=--fastcb --power_t 0.5"
    python -m benchmarks.reproduce --suite bakeoff --seed 7 --permutations 1 --out BAKEOFF \\
        --algorithms OPO-CMAB FastCB AdaCB SquareCB "OPO-CMAB on gd" "FastCB on gd"
    python -m benchmarks.default ONLINE BAKEOFF
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.online.problems import FAMILY_GROUPS

EXPLORERS = {
    "OPO-CMAB": "--opo_cmab",
    "AdaCB": "--adacb",
    "FastCB": "--fastcb",
    "OPO-CMAB on gd": "--opo_cmab --opo_eta 20",
    "FastCB on gd": "--fastcb --power_t 0.5",
    "SquareCB": "--squarecb",
}
OUT = Path("docs/results/default.csv")


def table(by_family: pd.DataFrame, losses: pd.DataFrame) -> pd.DataFrame:
    """A row for each explorer: mean regret shares by group of families, mean loss on the bake-off's sets."""
    shares = by_family.pivot(index="explorer", columns="family", values="share")
    columns = {group: shares[list(families)].mean(axis=1) for group, families in FAMILY_GROUPS.items()}
    found = pd.DataFrame(columns | {"bakeoff": losses.groupby("algorithm")["mean"].mean()}).loc[list(EXPLORERS)]
    found.insert(0, "flags", list(EXPLORERS.values()))
    return found.round(4).rename_axis("explorer").reset_index()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.default", description=(__doc__ or "").split(":")[0])
    parser.add_argument("online", type=Path, help="results of benchmarks.online")
    parser.add_argument("bakeoff", type=Path, help="results of benchmarks.reproduce --suite bakeoff")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    found = table(pd.read_csv(options.online / "by_family.csv"), pd.read_csv(options.bakeoff / "pv_loss.csv"))
    found.to_csv(options.out, index=False)
    print(found.to_string(index=False))


if __name__ == "__main__":
    main()
