"""Our engine is VW, with more: everything stock VW does, it does the same."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

from tests.helpers import vw_source
from tests.helpers.streams import random_rounds

NEW_FLAGS = ["--cb_explore_adf --fastcb", "--cb_explore_adf --adacb", "--cb_adf --cb_cost_unit raw"]
STOCK_STACKS = [
    "--cb_explore_adf",
    "--cb_explore_adf --epsilon 0.3 -q sa",
    "--cb_explore_adf --squarecb -q ::",
    "--cb_explore_adf --squarecb --elim",
    "--cb_explore_adf --regcb --loss_function logistic",
    "--cb_explore_adf --bag 3 --random_seed 7",
    "--cb_explore_adf --cover 3",
    "--cb_explore_adf --softmax --ftrl",
    "--cb_adf --cb_type dr",
]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)


def test_the_program_says_vw_s_version(vw):
    assert vw("--version").stdout.startswith(version("vowpalwabbit"))


@pytest.mark.parametrize("flags", NEW_FLAGS)
def test_the_new_flags_fail_on_stock_vw_and_work_on_ours(flags, vw):
    workspace = "import sys; from vowpalwabbit import Workspace; Workspace(sys.argv[1] + ' --quiet').finish()"
    stock = python(workspace, flags)
    assert stock.returncode != 0
    assert "unrecognised option" in stock.stderr
    ours = python("import opo_cmab; " + workspace, flags)
    assert ours.returncode == 0, ours.stderr
    vw(f"{flags} --no_stdin")


def test_help_explains_the_new_flags(vw):
    everything = vw("--help").stdout
    assert all(words in everything for words in ["FastCB exploration", "AdaCB exploration", "--cb_cost_unit"])
    fastcb = vw("--help --cb_explore_adf --fastcb").stdout
    assert all(words in fastcb for words in ["--gamma_scale", "--gamma_exponent", "Upper limit"])


def test_importing_after_the_stock_engine_fails_and_says_what_to_do():
    late = python("import vowpalwabbit; import opo_cmab")
    assert late.returncode != 0
    assert "ImportError" in late.stderr
    assert "Put `import opo_cmab` before" in late.stderr


def test_importing_again_is_harmless():
    again = python("import opo_cmab, vowpalwabbit, importlib; importlib.reload(opo_cmab)")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("arguments", STOCK_STACKS)
def test_stock_flags_predict_as_on_stock_vw(ours, stock, arguments):
    rounds = random_rounds(1, n=40)
    assert_allclose(flat(ours(arguments, rounds)), flat(stock(arguments, rounds)), atol=1e-6)


@pytest.mark.parametrize("arguments", STOCK_STACKS)
def test_models_go_from_stock_to_ours_and_back(ours, stock, tmp_path, arguments):
    rounds = random_rounds(2, n=40)
    stock_model, our_model = str(tmp_path / "stock"), str(tmp_path / "ours")
    stock(arguments, rounds, save=stock_model)
    ours(arguments, rounds, save=our_model)
    test_only = {"rounds": random_rounds(3), "learn": False}
    from_stock = [ours(f"-i {stock_model} -t", **test_only), stock(f"-i {stock_model} -t", **test_only)]
    from_ours = [ours(f"-i {our_model} -t", **test_only), stock(f"-i {our_model} -t", **test_only)]
    assert_allclose(flat(from_stock[0]), flat(from_stock[1]), atol=1e-6)
    assert_allclose(flat(from_ours[0]), flat(from_ours[1]), atol=1e-6)
    assert_allclose(flat(from_ours[0]), flat(from_stock[0]), atol=1e-6)


def flat(predictions):
    return [p for prediction in predictions for p in prediction]


@pytest.mark.parametrize("flags", ["--fastcb", "--adacb", "--squarecb --loss_function logistic --cb_cost_unit raw"])
def test_merging_models_that_use_our_flags_is_refused(flags):
    from vowpalwabbit import Workspace, merge_models

    models = [Workspace(f"--cb_explore_adf {flags} --quiet") for _ in range(2)]
    with pytest.raises(RuntimeError, match=r"merging models that use --\w+ is not supported"):
        merge_models(None, models)


def test_merging_stock_models_works_as_on_stock_vw():
    merge = """
from vowpalwabbit import Workspace, merge_models
models = [Workspace("--cb_explore_adf --quiet --preserve_performance_counters") for _ in range(2)]
for i in range(20):
    models[i % 2].learn([f"0:{i % 3}:1 | a x:{i}", "| b"])
print(merge_models(None, models).predict(["| a x:3", "| b"]), end="")
"""
    stock, ours = python(merge), python("import opo_cmab" + merge)
    assert ours.returncode == stock.returncode == 0, ours.stderr + stock.stderr
    assert ours.stdout == stock.stdout != ""


CPU = Path("/proc/cpuinfo")


@pytest.mark.skipif(not CPU.exists() or "xgetbv1" not in CPU.read_text(), reason="needs Linux and a CPU with xgetbv 1")
def test_the_engine_leaves_vector_registers_as_clean_as_stock_vw():
    # Asked of the CPU: are upper halves of AVX registers in use? If so, SSE code such as libm's is slow on some CPUs.
    count = """
import ctypes, mmap
from vowpalwabbit import Workspace
code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b901000000 0f01d0 c3"))  # mov $1, %ecx; xgetbv; ret
states_in_use = ctypes.CFUNCTYPE(ctypes.c_uint32)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
for flags in ["-q ::", "--cubic :::", "--squarecb -q ::", "--automl 3 --oracle_type rand", "--ftrl -q ::"]:
    workspace, dirty = Workspace(f"--cb_explore_adf {flags} --quiet"), 0
    for cost in range(100):
        workspace.learn(["shared |a x y |b u v", f"0:{cost % 3}:0.5 |c q w |d m n", "|c e r |d k"])
        dirty += states_in_use() >> 2 & 1
        workspace.predict(["shared |a x y |b u v", "|c q w |d m n", "|c e r |d k"])
        dirty += states_in_use() >> 2 & 1
    print(flags, "dirty" if dirty > 20 else "clean")
"""
    stock, ours = python(count), python("import opo_cmab" + count)
    assert ours.returncode == stock.returncode == 0, ours.stderr + stock.stderr
    assert ours.stdout == stock.stdout


@pytest.mark.slow
def test_vw_s_own_python_tests_end_on_our_engine_as_on_stock(tmp_path):
    # Some need data that the source distribution lacks and fail on stock too: what counts is that the two agree.
    stock, ours = vw_test_outcomes(tmp_path / "stock"), vw_test_outcomes(tmp_path / "ours", "-p", "opo_cmab")
    assert list(stock.values()).count("passed") > 140
    assert ours == stock


def vw_test_outcomes(directory: Path, *options: str) -> dict[str, str]:
    directory.mkdir()
    report = directory / "report.xml"
    tests = vw_source() / "python" / "tests"
    subprocess.run(
        [sys.executable, "-m", "pytest", tests, f"--ignore={tests / 'e2e_v2'}", f"--junitxml={report}", *options],
        env={**os.environ, "PYTEST_ADDOPTS": f"-c {os.devnull} --rootdir {tests} -p no:cacheprovider"},
        cwd=directory,
        capture_output=True,
        timeout=300,
    )
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        bad = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = bad[0] if bad else "passed"
    return outcomes


def test_the_package_can_be_imported_again_in_one_process():
    code = """
import sys, opo_cmab
for name in [name for name in sys.modules if name.split(".")[0] == "opo_cmab"]:
    del sys.modules[name]
import opo_cmab
from vowpalwabbit import Workspace
print(opo_cmab.explain(Workspace("--cb_explore_adf --opo_cmab --quiet"), ["| a", "| b"]).decision)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout == "[0.5 0.5]\n", result.stderr
