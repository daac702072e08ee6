"""What an installed package must do by itself, with nothing but what it depends on: no checkout, no compiler, no source
of VW. `make wheel` runs this where there is nothing else (--alone), cibuildwheel in its own environments.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import opo_cmab
from vowpalwabbit import Workspace

ROUND = ["shared |u morning", "0:0.25:0.5 |a coffee", "|a tea"]
ARGUMENTS = "--cb_explore_adf --opo_cmab -q ua --quiet"
ROUNDS = 20

if "--alone" in sys.argv:
    tools = ["cc", "c++", "gcc", "g++", "clang", "clang++", "cmake", "ninja", "make"]
    assert not any(map(shutil.which, tools)), "a compiler is within reach: this would not show that none is needed"
assert Path(opo_cmab.__file__).is_relative_to(sys.prefix), "the checkout was imported, not the installed package"

program = shutil.which("vw", path=str(Path(sys.executable).parent))
assert program, "the vw program is not installed"
with TemporaryDirectory() as directory:
    model, out = Path(directory, "model"), Path(directory, "out")
    lines = "".join("\n".join(ROUND) + "\n\n" for _ in range(ROUNDS))
    command = [program, *ARGUMENTS.split(), "-f", str(model), "-p", str(out)]
    subprocess.run(command, input=lines, text=True, check=True, timeout=60)

    workspace = Workspace(ARGUMENTS)
    answers = []
    for _ in range(ROUNDS):
        answers.append(workspace.predict(ROUND))
        workspace.learn(ROUND)
    for answer, line in zip(answers, out.read_text().split(), strict=True):
        printed = {int(a): float(p) for a, p in (pair.split(":") for pair in line.split(","))}
        assert all(abs(printed[a] - p) < 1e-6 for a, p in enumerate(answer)), "the program and Workspace differ"
    assert Workspace(f"-i {model} --quiet").predict(ROUND) == workspace.predict(ROUND)
version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[0]
print(f"opo_cmab {opo_cmab.__version__} on VW {version} works: program, Workspace, models from one to the other")
