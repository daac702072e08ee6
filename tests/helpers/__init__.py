"""What several tests use: our program, streams of rounds, formulas, model files, noise."""

import os
import sys
from pathlib import Path

VW = Path(os.environ.get("OPO_CMAB_TEST_VW") or Path(sys.executable).parent / "vw")  # make sanitize sets another
