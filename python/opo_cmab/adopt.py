"""Converts a model of one of VW's explorers into one of ours.

python -m opo_cmab.adopt squarecb.model ours.model
vw -i ours.model ...
"""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from vowpalwabbit import Workspace

from . import _explain

__all__ = ["adopt"]

# Options that are dropped, and the number of words after each.
_LEFT_BEHIND = {
    **dict.fromkeys(["squarecb", "elim", "regcb", "regcbopt", "softmax", "cb_explore_adf", "cb_adf", "no_predict"], 0),
    **dict.fromkeys(["quiet", "no_stdin", "driver_output_off", "rank_all"], 0),
    **dict.fromkeys(["gamma_scale", "gamma_exponent", "mellowness", "first", "epsilon", "lambda"], 1),
    **dict.fromkeys(["cb_min_cost", "cb_max_cost", "initial_regressor"], 1),
}
_SEVERAL_MODELS = ("bag", "cover", "synthcover", "rnd")
_OURS = ("opo_cmab", "fastcb", "adacb")


def _is_option(word: str) -> bool:
    return word.startswith("--")


def _refuse_ours(model: str | Path, words: Sequence[str]) -> None:
    """Models that need not move in, or whose weights mean something only together with our cost range."""
    for name in _OURS:
        if f"--{name}" in words:
            raise ValueError(
                f"{model} is a model of --{name}, one of our explorers already: there is nothing to adopt. Load it as "
                f"it is: vw -i {model}. For another explorer, train a new model"
            )
    if "--cb_cost_unit range" in " ".join(words).replace("=", " "):
        raise ValueError(
            f"{model} was trained with --cb_cost_unit range, and adopt takes models that learnt raw costs: load it as "
            f"it is (vw -i {model}), or train a new model with one of our explorers"
        )


def _kept(words: Sequence[str]) -> list[str]:
    """The arguments of a workspace without those of its explorer."""
    kept: list[str] = []
    i = 0
    while i < len(words):
        name = words[i].removeprefix("--").partition("=")[0]
        if _is_option(words[i]) and name in _SEVERAL_MODELS:
            raise ValueError(f"a model of --{name} keeps several regressions, ours only one: train a new model")
        skip = _LEFT_BEHIND.get(name) if _is_option(words[i]) else None
        if skip is None:
            kept.append(words[i])
            i += 1
        else:
            i += 1 + (skip if "=" not in words[i] else 0)
    return kept


def adopt(model: str | Path, arguments: str = "--opo_cmab") -> Workspace:
    """Loads the weights of a stock model into a workspace with one of our explorers; ``save`` it as usual.

    The model must be one of ``--cb_explore_adf`` with one regression (mtr, VW's default) and a linear learner. It has
    learnt raw costs, and continues to (``--cb_cost_unit raw``). The cost range is learnt, or given in the arguments.
    Exploration starts from scratch: the old model is the first predictor of the new history.

    Args:
        model: the model file.
        arguments: one of our explorers and its settings.
    """
    old = Workspace(f"--initial_regressor {shlex.quote(str(model))} --quiet")
    try:
        given = shlex.split(old.get_arguments())
        _refuse_ours(model, given)
        words = _kept(given)
        new = Workspace(
            f"--cb_explore_adf --cb_cost_unit raw {arguments} {shlex.join(words)} --quiet", enable_logging=False
        )
        _explain.copy_regression(old, new)
    finally:
        old.finish()
    return new


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m opo_cmab.adopt",
        description="Convert a model of one of VW's explorers into one of ours; the weights are kept "
        "(--squarecb, --regcb, --first, --softmax or epsilon-greedy, on cb_adf with mtr).",
    )
    parser.add_argument("old", type=Path, help="the model to read")
    parser.add_argument("new", type=Path, help="the model to write")
    parser.add_argument(
        "--arguments",
        default="--opo_cmab",
        metavar="FLAGS",
        help="the new explorer and its settings, as in --arguments='--fastcb --epsilon 0.05' (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    if not options.old.is_file():
        parser.error(f"there is no file {options.old}: name the model to convert")
    try:
        workspace = adopt(options.old, options.arguments)
    except (RuntimeError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    workspace.save(str(options.new))
    workspace.finish()
    print(f"{options.new} is ready: vw -i {options.new}")
    print("Its decisions are random until it has learnt from two rounds with different costs.")


if __name__ == "__main__":
    main()
