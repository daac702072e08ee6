"""The Open Bandit Dataset, small version (Saito, Aihara, Matsutani and Narita, arXiv 2008.07146), as a log for VW.

Data from st-tech/zr-obp, CC BY 4.0. It is not part of this project: OBD_DIR names the directory of a copy.
`python -m benchmarks.obd --campaign men log.txt`, then `python -m opo_cmab.compare log.txt --vw "-q ui"`.
"""

import csv
import os
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from benchmarks.shared.program import option, parse

CAMPAIGNS = ("men", "women")


def write_log(directory: Path, campaign: str, log: Path) -> int:
    """Writes the impressions of a campaign, a click as a cost of -1. Returns their number."""
    folder = directory / "random" / campaign
    with (folder / "item_context.csv").open() as file:
        items = {
            int(row["item_id"]): f"item{row['item_id']} price:{float(row['item_feature_0']):.4f} "
            + " ".join(f"f{i}_{row[f'item_feature_{i}'][:6]}" for i in (1, 2, 3))
            for row in csv.DictReader(file)
        }
    count = 0
    with (folder / f"{campaign}.csv").open() as file, log.open("w") as output:
        for row in csv.DictReader(file):
            user = " ".join(f"u{i}_{row[f'user_feature_{i}'][:6]}" for i in range(4))
            lines = [f"shared |u position{row['position']} {user}"]
            for item, features in items.items():
                shown = item == int(row["item_id"])
                label = f"{item}:{-int(row['click'])}:{float(row['propensity_score']):g} " if shown else ""
                lines.append(f"{label}|i {features}")
            output.write("\n".join(lines) + "\n\n")
            count += 1
    return count


@dataclass(frozen=True)
class Options:
    log: Path = option(MISSING, "to write", type=Path)
    campaign: str = option("men", choices=CAMPAIGNS)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "obd", __doc__, arguments)
    if "OBD_DIR" not in os.environ:
        raise SystemExit("OBD_DIR does not name a copy of the data set")
    print(write_log(Path(os.environ["OBD_DIR"]), options.campaign, options.log), "rounds")


if __name__ == "__main__":
    main()
