"""What the pictures have in common: colours, and SVG text with the fonts of the reader."""

import re
from io import StringIO

from matplotlib import rc_context
from matplotlib.figure import Figure

# A colour for each algorithm, shared by its variants; the line tells these apart. The first eight are Okabe and Ito's,
# which people who do not see red or green can tell apart too.
COLOURS = {
    "Supervised": "#222222",
    "OPO-CMAB": "#d55e00",
    "FastCB": "#009e73",
    "AdaCB": "#cc79a7",
    "SquareCB": "#0072b2",
    "RegCB": "#56b4e9",
    "bag": "#e69f00",
    "epsilon-greedy": "#7f7f7f",
    "cover": "#8c5a3c",
    "softmax": "#a8a200",
}
DASHES = {"Supervised": "4 2", "(paper)": "5 2", ", Algorithm 1": "1 1.5"} | dict.fromkeys(
    ("-opt", ", mapped", ", raw", ", logistic"), "3 1"
)


def colour(algorithm: str) -> str:
    """Variants have the colour of what they are variants of."""
    return COLOURS[max((name for name in COLOURS if algorithm.startswith(name)), key=len)]


def dashes(algorithm: str) -> str:
    """As the lengths of strokes and gaps; nothing for a solid line."""
    return next((pattern for ending, pattern in DASHES.items() if algorithm.endswith(ending)), "")


def svg(figure: Figure, name: str) -> str:
    """The same numbers give the same text."""
    text = StringIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return re.sub(r"(\.\d\d)\d+", r"\1", text.getvalue())  # a hundredth of a point is fine enough
