"""Our vw: where its program is, which build it is, and one run of it in this process."""

import hashlib
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

VW = Path(sys.executable).parent / "vw"


def vw_build() -> str:
    """Tells one build of the program from another: its version does not change while it is worked on."""
    return hashlib.sha256(VW.read_bytes()).hexdigest()[:12]


def versions() -> str:
    return f"vw-opo-cmab {version('vw-opo-cmab')}, VW {version('vowpalwabbit')}, build {vw_build()}"


def round_losses(command: str, text: str) -> str:
    """A character for each line of multiclass data: 1 where VW predicted another class, else 0.

    VW's own driver runs over the data. Not in a process of its own: for the paper's small sets, starting one takes as
    long as the run (13 against 7 ms of CPU time).
    """
    import opo_cmab  # noqa: F401  here, before vowpalwabbit: worker processes run this without the head of their caller
    from vowpalwabbit import Workspace

    with TemporaryDirectory() as directory:
        data, predictions = Path(directory) / "data", Path(directory) / "predictions"
        data.write_text(text)
        # A short queue: making VW's 256 examples takes as long as all the rest of its start.
        Workspace(f"{command} --quiet --example_queue_limit 16 -d {data} -p {predictions}").finish()
        predicted = predictions.read_text().split()
    labels = [line.split(maxsplit=1)[0] for line in text.splitlines()]
    return "".join("01"[p != label] for p, label in zip(predicted, labels, strict=True))
