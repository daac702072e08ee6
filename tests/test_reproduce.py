"""The paper's comparison: its grids, its runs, what survives a kill, its tables and its report."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from benchmarks import reproduce
from benchmarks.comparison import plots, report, runner, tables
from benchmarks.comparison.algorithms import ALGORITHMS, AS_IN_THE_PAPER, GRIDS, papers_choice
from benchmarks.shared import datasets, ranking
from benchmarks.shared.runner import Workers
from benchmarks.shared.vw import round_losses
from tests.helpers.browser import look

ROOT = Path(__file__).parent.parent
SMALL = ["--datasets", "iris", "wine", "--algorithms", "Supervised", "RegCB", "RegCB-opt", "--permutations", "2"]
NAMES = "pv_loss", "best_params", "summary", "pairs", "differences"


@pytest.fixture
def compare(tmp_path):
    """Runs a small comparison on scikit-learn's sets; where its results are."""

    def run(*arguments: str, out: str = "out") -> Path:
        reproduce.main([*arguments, "--out", str(tmp_path / out)])
        return tmp_path / out

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small comparison, run without interruption and on one core."""
    out = tmp_path_factory.mktemp("whole")
    reproduce.main([*SMALL, "--jobs", "1", "--out", str(out)])
    return out


def rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]


def contents(out: Path) -> dict[str, bytes]:
    return {f"{name}.{kind}": (out / f"{name}.{kind}").read_bytes() for name in NAMES for kind in ("csv", "tex")}


def order(algorithm: str, params: dict, did: str = "iris") -> runner.Order:
    dataset = next(d for d in datasets.builtin() if d.did == did)
    return runner.Order(dataset, algorithm, params, 0, 0, "distinct")


def test_the_grids_are_those_of_the_paper_s_table():
    sizes = {name: len(ALGORITHMS[AS_IN_THE_PAPER[name]].grid()) for name in GRIDS}
    assert sizes == {"Supervised": 5, "SquareCB": 120, "FastCB": 60, "AdaCB": 360, "RegCB": 30, "OPO-CMAB": 180}
    assert sum(sizes.values()) == 755


def test_every_choice_of_the_paper_is_in_its_grid():
    choices = [(did, name, papers_choice(did, name)) for did in datasets.PAPER for name in AS_IN_THE_PAPER.values()]
    assert len(choices) == 18 * 6
    assert [(did, name) for did, name, choice in choices if choice not in ALGORITHMS[name].grid()] == []
    assert papers_choice(61, "RegCB") is None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_losses_are_those_of_the_vw_program(vw, tmp_path, algorithm):
    dataset = datasets.builtin()[0]
    text = "\n".join(datasets.to_vw(dataset, 0)) + "\n"
    (tmp_path / "data").write_text(text)
    grid = ALGORITHMS[algorithm].grid()
    for params in [{}, *grid[:1], *grid[-1:]]:  # the defaults, squared loss and logistic loss
        command = ALGORITHMS[algorithm].command(dataset.actions, params)
        losses = round_losses(command, text)
        assert len(losses) == dataset.rows
        average = f"average loss = {losses.count('1') / len(losses):.6f}\n"
        assert average in vw(f"{command} -d {tmp_path / 'data'}").stderr


def test_names_of_features_decide_whether_cbify_can_tell_two_apart():
    command = ALGORITHMS["SquareCB"].command(2, {})
    merged, distinct = (round_losses(command, text * 500) for text in ("1 | 0:1\n2 | 1:1\n", "1 | f0:1\n2 | f1:1\n"))
    assert merged.count("1") / 1000 > 0.4
    assert distinct.count("1") / 1000 < 0.05


def test_the_same_tables_for_any_number_of_jobs(compare, whole):
    assert contents(compare(*SMALL, "--jobs", "2")) == contents(whole)


def test_rows_describe_themselves(whole):
    for row in rows(whole):
        assert row["command"] == ALGORITHMS[row["algorithm"]].command(row["actions"], row["params"])
        assert row["pv_loss"] == pytest.approx(row["losses"].count("1") / row["rows"])
        assert row["error"] is None
        assert re.search(r"vw-opo-cmab \S+, VW [0-9.]+, build [0-9a-f]{12}$", row["versions"])
    phases = [row["phase"] for row in rows(whole)]
    assert (phases.count("tuning"), phases.count("test")) == (2 * (5 + 30 + 30), 2 * 3 * 2)


def test_killed_and_started_again_it_repeats_nothing_and_ends_with_the_same_tables(compare, whole, tmp_path):
    results = tmp_path / "out" / "runs.jsonl"
    command = [sys.executable, "-m", "benchmarks.reproduce", *SMALL, "--jobs", "2", "--out", str(results.parent)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not results.exists() or results.read_bytes().count(b"\n") < 20:
            assert process.poll() is None, "ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert psutil.wait_procs(workers, timeout=30)[1] == [], "workers end with the process that started them"
    finished = results.read_bytes()
    whole_lines = finished[: finished.rindex(b"\n") + 1]
    total = len(rows(whole))
    assert 20 <= whole_lines.count(b"\n") < total
    results.write_bytes(whole_lines + whole_lines[: whole_lines.index(b"\n") // 2])  # cut in the middle of a line
    out = compare(*SMALL, "--jobs", "1")
    assert contents(out) == contents(whole)
    assert results.read_bytes().startswith(whole_lines)
    assert len(rows(out)) == len({runner.key(row) for row in rows(out)}) == total
    compare(*SMALL, "--jobs", "1")
    assert len(rows(out)) == total, "nothing was left to run"


def test_runs_of_another_build_do_not_count(monkeypatch, tmp_path):
    builds = []
    for build in ("first", "second", "second"):
        monkeypatch.setattr(runner, "vw_build", lambda build=build: build)
        runner.run_missing([order("FastCB", {})], tmp_path / "runs.jsonl", Workers(1), "test")
        builds = [row["build"] for row in rows(tmp_path)]
    assert builds == ["first", "second"]


def test_a_failure_is_recorded_tried_again_and_does_not_stop_the_others(tmp_path):
    orders = [order("OPO-CMAB (paper)", {"eta": -1}), order("FastCB", {})]
    failed, fine = runner.run_missing(orders, tmp_path / "runs", Workers(1), "test")
    assert "opo_eta" in failed["error"]
    assert failed["pv_loss"] is None
    assert 0 < fine["pv_loss"] < 1
    runner.run_missing(orders, tmp_path / "runs", Workers(1), "test")
    assert (tmp_path / "runs").read_text().count("\n") == 3


def test_a_worker_that_dies_takes_no_other_run_with_it(tmp_path, monkeypatch):
    def dies(identity: dict, text: str) -> dict:
        if identity["algorithm"] == "RegCB":
            os.kill(os.getpid(), signal.SIGKILL)
        return run(identity, text)

    run = runner.run
    monkeypatch.setattr(runner, "run", dies)
    orders = [order("FastCB", {}), order("RegCB", {}), order("SquareCB", {})]
    fast, dead, square = runner.run_missing(orders, tmp_path / "runs", Workers(2), "test")
    assert "terminated" in dead["error"]
    assert fast["error"] is square["error"] is None


def test_a_set_on_which_an_algorithm_fails_is_left_out_for_all():
    found = [("a", "x", 0.1), ("a", "y", 0.3), ("b", "x", 0.2), ("b", "y", None), ("a", "z", None), ("b", "z", None)]
    test = [
        {"dataset": d, "algorithm": a, "pv_loss": loss, "error": None if loss else "no memory"} for d, a, loss in found
    ]
    runs, left_out = tables.complete(test)
    assert runs[["dataset", "algorithm"]].to_numpy().tolist() == [["a", "x"], ["a", "y"]]
    assert left_out == {"no memory": ["data set b (y)", "z (everywhere)"]}


@pytest.mark.parametrize(
    ("losses", "best"), [([0.4, 0.2, 0.2], 1), ([None, 0.4, 0.2], 2), ([0.0, 0.0, 0.0], 0), ([None, None, None], 0)]
)
def test_the_best_setting_is_the_lowest_loss_and_of_equals_the_first(losses, best):
    tuning = [
        {"dataset": 1, "algorithm": "RegCB", "params": i, "pv_loss": loss, "error": "no" if loss is None else None}
        for i, loss in enumerate(losses)
    ]
    assert tables.best_settings(tuning)[1, "RegCB"]["params"] == best


def test_tables_hold_the_mean_over_permutations_and_its_difference_from_supervised(whole):
    table = pd.read_csv(whole / "pv_loss.csv")
    assert list(table) == ["dataset", "algorithm", "mean", "std", "n", "difference_from_supervised"]
    test = pd.DataFrame([row for row in rows(whole) if row["phase"] == "test"])
    for _, line in table.iterrows():
        on = test[test["dataset"] == line["dataset"]].set_index("algorithm")["pv_loss"]
        assert line["mean"] == pytest.approx(on[line["algorithm"]].mean())
        assert line["difference_from_supervised"] == pytest.approx(line["mean"] - on["Supervised"].mean())
        assert line["n"] == 2
    best = pd.read_csv(whole / "best_params.csv")
    assert best["settings"].tolist() == [5, 30, 30] * 2
    assert (best["equally_good"] >= 1).all()


def test_wins_go_to_the_first_by_name_as_in_the_published_code():
    losses = pd.DataFrame({"SquareCB": [0.1, 0.2], "AdaCB (paper)": [0.1, 0.3], "OPO-CMAB": [0.0, 0.0]})
    wins = tables.wins_as_the_paper_counts(losses).set_index("algorithm")
    assert wins["ties_to_the_first_by_name"].to_dict() == {"AdaCB": 1, "SquareCB": 1}
    assert wins["alone_or_tied"].to_dict() == {"AdaCB": 1, "SquareCB": 2}


def test_a_bar_of_the_rank_diagram_joins_exactly_those_that_the_test_of_pairs_calls_level():
    """FastCB is always a little worse than SquareCB. AdaCB is as often better as worse than both: two bars, not one."""
    rng = np.random.default_rng(0)
    a, noise = rng.uniform(size=60), rng.normal(size=30)
    up_and_down = np.concatenate([noise, -noise])
    losses = pd.DataFrame({"SquareCB": a, "FastCB": a + 0.01, "AdaCB": a + up_and_down, "bag": a + 5})
    level = ranking.p_values(losses) >= ranking.LEVEL
    pairs = {frozenset((i, j)) for i in losses for j in losses if i != j and level.loc[i, j]}
    assert pairs == {frozenset(pair) for pair in (("SquareCB", "AdaCB"), ("FastCB", "AdaCB"))}
    picture = plots.rank_diagram(losses)
    bars = re.findall(r'<path d="([^"]*)"[^>]*style="[^"]*stroke: #555555; stroke-width: 2', picture)
    dots = [len(re.findall(r"[ML] ", bar)) for bar in bars]
    assert dots == [2, 2]
    assert plots.rank_diagram(losses) == picture


def test_without_data_the_builtin_suite_runs_and_says_so(monkeypatch, tmp_path, capsys):
    """The server is asked once, for a few seconds at most, whatever the number of sets."""
    import openml

    monkeypatch.setenv(datasets.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(openml.config, "server", "http://127.0.0.1:9/api")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "builtin", lambda: datasets.builtin()[:1])
    start = time.monotonic()
    reproduce.main(
        ["--algorithms", "Supervised", "SquareCB", "--params", "default", "--permutations", "1", "--jobs", "1"]
    )
    assert time.monotonic() - start < 30
    said = capsys.readouterr()
    assert "NO DATA SET OF THE SUITE 'paper' CAN BE HAD" in said.err
    assert "RUNNING THE SUITE 'builtin' INSTEAD" in said.err
    assert "1084, 1062, 1015" in said.err
    assert f"The report: {tmp_path / 'results' / 'builtin-default-params' / 'report.html'}" in said.out
    with pytest.raises(SystemExit, match="No data set to run on"):
        reproduce.main(["--datasets", "61"])


def test_the_bakeoff_is_halved_by_the_place_of_a_set_in_the_list():
    choose, report = (reproduce.Options(suite="bakeoff", sets=half).ids() for half in ("choose", "report"))
    assert (choose[:3], report[:3]) == ((2, 10, 26), (6, 11, 28))
    assert sorted([*choose, *report]) == sorted(datasets.BAKEOFF)


def test_help_and_list_read_well(capsys):
    with pytest.raises(SystemExit, match="0"):
        reproduce.main(["--help"])
    text = capsys.readouterr().out
    assert all(
        words in text for words in ["progressive validation", "--feature-names", "OPENML_CACHE_DIR", "report.html"]
    )
    reproduce.main(["--list"])
    text = capsys.readouterr().out
    assert re.search(r"^paper: 18 data sets, \d+ of them here; --params tuned, --permutations 10$", text, re.MULTILINE)
    assert all(name in text for name in ALGORITHMS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "dask"], "--backend dask and --scheduler go together"),
        (["--sets", "choose"], "--sets is for --suite bakeoff"),
        (["--suite", "bakeoff", "--sets", "report", "--datasets", "iris"], "and not with --datasets"),
        (["--datasets", "iris", "--algorithms", "bag"], "no settings for bag"),
        (["--datasets", "iris", "--algorithms", "Supervised", "--params", "default", "--jobs", "1"], "No explorer"),
    ],
)
def test_what_makes_no_comparison_is_refused(monkeypatch, tmp_path, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as refused:
        reproduce.main(arguments)
    assert message in capsys.readouterr().err + str(refused.value)


@pytest.mark.filterwarnings("ignore")  # of Dask's own, about its ports and its sockets
def test_a_dask_cluster_gives_the_same_tables(compare, whole):
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        out = compare(*SMALL, "--backend", "dask", "--scheduler", cluster.scheduler_address)
    assert contents(out) == contents(whole)


# What a reader sees and does, as the page's own script: written into the page's end, where --dump-dom shows it.
LOOK = """
<script>
addEventListener("error", event => document.body.dataset.error = event.message);
addEventListener("load", async () => {
  const images = [...document.querySelectorAll("img.plot")];
  await Promise.all(images.map(image => image.decode()));
  const plots = images.map(image => [image.naturalWidth, image.getBoundingClientRect().width, image.checkVisibility()]);
  const all = selector => [...document.querySelectorAll(selector)];
  const visible = part => part.checkVisibility({visibilityProperty: true});
  const seen = kind => all(`.curves svg svg .${kind}`).filter(visible).length;
  const press = name => all(".legend button").find(button => button.textContent === name).click();
  const counts = [[seen("line"), seen("band")]];
  for (const name of ["RegCB", "bands", "none", "RegCB", "all", "bands"]) {
    press(name);
    counts.push([seen("line"), seen("band")]);
  }
  const svg = document.querySelector(".curves svg"), box = svg.getBoundingClientRect();
  const move = {clientX: box.right - 10, clientY: box.bottom - 20};
  svg.dispatchEvent(new PointerEvent("pointermove", move));
  const tip = document.getElementById("tip");
  const hover = [tip.hidden, tip.firstChild.textContent, all("#tip tr").map(row => row.textContent), seen("band")];
  svg.dispatchEvent(new PointerEvent("pointerleave"));
  hover.push(tip.hidden, seen("band"));
  const heat = all("#differences tbody td.better, #differences tbody td.worse").map(cell =>
    [cell.className, cell.textContent, getComputedStyle(cell).backgroundColor]);
  const wide = document.documentElement.scrollWidth - innerWidth;
  const tables = [...document.querySelectorAll("table.sortable")];
  const sorted = tables.map(table => [...table.rows[0].cells].map((head, i) => {
    const column = () => [...table.tBodies[0].rows].map(row => row.cells[i].textContent.trim());
    head.click(); const up = column();
    head.click(); return [up, column()];
  }));
  const found = document.createElement("pre");
  found.id = "found";
  const error = document.body.dataset.error ?? null;
  found.textContent = JSON.stringify({plots, counts, hover, heat, wide, sorted, error});
  document.body.append(found);
});
</script>
"""


@pytest.fixture(scope="module")
def opened(whole, tmp_path_factory):
    """The report in a real browser, on a narrow screen."""
    found = look((whole / "report.html").read_text(), LOOK, tmp_path_factory.mktemp("browser"), "--window-size=500,900")
    assert found["error"] is None
    return found


def test_the_report_shows_its_pictures_and_fits_a_narrow_screen(opened):
    assert len(opened["plots"]) == 2  # ranks and differences
    assert all(natural > 0 and width > 100 and visible for natural, width, visible in opened["plots"])
    assert opened["wide"] <= 0


def test_curves_of_the_report_can_be_switched_on_and_off_and_have_bands_on_demand(opened):
    # Two sets, three algorithms: first; RegCB off; bands on; none; RegCB alone; all; bands off.
    assert opened["counts"] == [[6, 0], [4, 0], [4, 4], [0, 0], [2, 2], [6, 6], [6, 0]]


def test_pointing_at_a_curve_of_the_report_shows_the_values_there(opened, whole):
    hidden, examples, lines, bands, hidden_after, bands_after = opened["hover"]
    assert (hidden, hidden_after, bands, bands_after) == (False, True, 1, 0)
    table = pd.read_csv(whole / "pv_loss.csv")
    at_the_end = table[table["dataset"] == table["dataset"].iloc[0]].sort_values("mean", kind="stable")
    assert examples == "150 examples"
    shown = {re.split(r"(?=\d\.)", line)[0]: float(re.split(r"(?=\d\.)", line)[1].split()[0]) for line in lines}
    assert shown == pytest.approx(dict(zip(at_the_end["algorithm"], at_the_end["mean"], strict=True)), abs=6e-4)


def test_the_differences_of_the_report_are_a_heat_map(opened, whole):
    table = pd.read_csv(whole / "differences.csv").drop(columns="dataset")
    cells = [(name.split()[0], float(text), colour) for name, text, colour in opened["heat"]]
    assert sorted(value for _, value, _ in cells) == sorted(table.to_numpy().ravel().round(3))
    assert all((name == "better") == (value < 0) for name, value, _ in cells)
    strength = {abs(value): float(re.findall(r"[0-9.]+", colour)[-1]) for _, value, colour in cells}
    assert [strength[value] for value in sorted(strength)] == sorted(strength.values())
    assert len(set(strength.values())) > 1


def test_the_tables_of_the_report_are_sorted_by_a_click(opened):
    found = opened
    assert len(found["sorted"]) == 3
    for table in found["sorted"]:
        for up, down in table:
            numbers = pd.to_numeric(pd.Series(up), errors="coerce")
            in_order = numbers.is_monotonic_increasing if numbers.notna().all() else up == sorted(up, key=str.casefold)
            assert in_order
            assert sorted(down) == sorted(up)
            assert len(set(up)) == 1 or down != up


def test_the_report_loads_nothing_from_elsewhere(whole):
    page = (whole / "report.html").read_text()
    assert set(re.findall(r'(?:src|href)="([a-z]+:[a-z/+]*)', page)) == {"data:image/svg+xml"}
    assert "@import" not in page
    assert "https:" not in page


def test_the_page_for_a_repository_has_the_main_figures(whole):
    page = (whole / "report.md").read_text()
    summary = pd.read_csv(whole / "summary.csv")
    for row in summary.itertuples():
        assert f"| {row.algorithm} | {row.average_rank:.4g} | {row.mean_pv_loss:.4g} |" in page
    assert "python -m benchmarks.reproduce --datasets iris wine" in page


def test_the_verdict_names_tests_and_figures():
    rng = np.random.default_rng(0)
    losses = pd.DataFrame({"a": rng.uniform(size=40), "b": 0.0, "c": 0.0})
    losses["b"], losses["c"] = losses["a"] + 0.1, losses["a"] + rng.normal(size=40)
    text = " ".join(report.verdict(losses, ranking.pairs(losses)))
    assert "a has the best average rank" in text
    assert "Friedman's test that all 3 explorers are alike: p = " in text
    assert re.search(r"Of 3 pairs [12] differs? at 0.05 \(Wilcoxon", text)
