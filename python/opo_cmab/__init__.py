"""OPO-CMAB, FastCB and AdaCB for Vowpal Wabbit.

Importing this package puts our engine, VW with our reductions, under the ``vowpalwabbit`` package:

>>> import opo_cmab
>>> from vowpalwabbit import Workspace
>>> vw = Workspace("--cb_explore_adf --opo_cmab --quiet")

The rest of ``vowpalwabbit`` is unchanged.

``Bandit`` decides, learns and keeps both in one file. ``Options`` writes checked arguments. ``explain`` shows why a
decision was made. ``compare_explorers`` estimates from your logs which explorer to use. ``OPOLearner`` is the algorithm
with any regression in place of VW's.

``policy`` and ``policies`` are the engine's recursion on a matrix of past predictions, for use with other models;
``opo_cmab.reference`` has the same in plain NumPy.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from ._kernel import WeightHistory, bounded_policy, policies, policy, segment_starts
from .learner import Choice, OPOLearner
from .options import AdaCBOptions, FastCBOptions, Options
from .oracles import Ridge

__all__ = [
    "AdaCBOptions",
    "Bandit",
    "BanditError",
    "Choice",
    "Comparison",
    "Decision",
    "Explanation",
    "FastCBOptions",
    "OPOLearner",
    "Options",
    "Ridge",
    "WeightHistory",
    "__version__",
    "bounded_policy",
    "compare_explorers",
    "explain",
    "policies",
    "policy",
    "segment_starts",
]
__version__ = "0.1.0"

_HERE = Path(__file__).parent


def _install_engine() -> None:
    """Make our ``pylibvw`` the one that ``vowpalwabbit`` imports: it does ``import pylibvw``, a top-level module."""
    loaded = sys.modules.get("pylibvw")
    if loaded is not None and Path(loaded.__file__ or "").parent != _HERE:
        raise ImportError(
            "vowpalwabbit is already imported with the stock engine, which cannot be replaced in this process. "
            "Put `import opo_cmab` before the first import of vowpalwabbit (and of what imports it), and restart."
        )
    spec = PathFinder.find_spec("pylibvw", [str(_HERE)])
    if spec is None or spec.origin is None:
        raise ImportError(f"the engine is missing from {_HERE}: install the package with `pip install .`")
    for name in ("pylibvw", f"{__name__}._explain"):  # two modules in one file: they share one VW
        if name not in sys.modules:
            _load(name, spec.origin)


def _load(name: str, file: str) -> None:
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


_install_engine()

from .bandit import Bandit, BanditError, Decision  # noqa: E402  need the engine
from .compare import Comparison, compare_explorers  # noqa: E402
from .explanation import Explanation, explain  # noqa: E402
