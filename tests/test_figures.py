"""The figures of README and docs: what the data in docs/results say."""

import pandas as pd
import pytest

from benchmarks import figures
from benchmarks.online.problems import FAMILIES


@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_are_what_the_data_say(page):
    text = page.read_text()
    assert figures.rewrite(text, page.name) == text, "run: make figures"


def test_the_readme_has_the_table_of_gain():
    names = [name for _, name, _, _ in figures.MARKED.findall((figures.ROOT / "README.md").read_text())]
    assert names == ["default"]


@pytest.fixture
def data(monkeypatch, tmp_path):
    """Data of our own in the place of docs/results."""

    def put(name: str, rows: list[dict]) -> None:
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)

    monkeypatch.setattr(figures, "DATA", tmp_path)
    return put


def row(explorer: str, mean: float, **families: float) -> dict:
    return {
        "explorer": explorer,
        "mean": mean,
        "difference": mean - 0.2,
        "half_width": 0.01,
        **families,
    }


def test_every_family_of_problems_has_a_name_in_the_table():
    assert set(figures.PROBLEMS) == set(FAMILIES)


def test_new_data_give_new_tables_with_the_lowest_of_vw_in_bold(data):
    shares = [("LinUCB of coba", 0.1), ("OPO-CMAB", 0.2), ("SquareCB", 0.4), ("epsilon-greedy", 0.5), ("other", 0.6)]
    data("online", [row(name, mean, heavy=1 - mean) for name, mean in shares])
    losses = {"OPO-CMAB": 0.34, "SquareCB": 0.33}
    data("bakeoff", [{"dataset": 2, "algorithm": name, "mean": loss} for name, loss in losses.items()])
    page = "a\n<!-- figures:online -->\nold\n<!-- /figures -->\nb <!-- figures:families -->\n<!-- /figures -->\nc"
    assert figures.rewrite(page, "page").splitlines() == [
        "a",
        "<!-- figures:online -->",
        "| explorer | flags | online: regret share | minus OPO-CMAB | data sets: mean loss |",
        "| :-- | :-- | --: | --: | --: |",
        "| LinUCB of coba | not VW | 0.100 | -0.100 ± 0.010 | - |",
        "| OPO-CMAB | `--opo_cmab` | **0.200** |  | 0.340 |",
        "| SquareCB | `--squarecb` | 0.400 | +0.200 ± 0.010 | **0.330** |",
        "| epsilon-greedy | none | 0.500 | +0.300 ± 0.010 | - |",
        "<!-- /figures -->",
        "b <!-- figures:families -->",
        "| your problem | OPO-CMAB | best of the others in VW | LinUCB of coba |",
        "| :-- | --: | --: | --: |",
        "| heavy-tailed costs | 0.800 | **0.500** epsilon-greedy | 0.900 |",
        "<!-- /figures -->",
        "c",
    ]


def test_the_readme_s_table_has_the_default_beside_gd(data):
    rows = [("OPO-CMAB", "--opo_cmab", 0.2, 0.3, 0.4, 0.28), ("SquareCB", "--squarecb", 0.4, 0.2, 0.5, 0.37)]
    data(
        "default",
        [dict(zip(["explorer", "flags", "sixteen", "wide", "real", "bakeoff"], r, strict=True)) for r in rows],
    )
    assert figures.default_table()[2:] == [
        "| OPO-CMAB | `--opo_cmab` | **0.200** | 0.300 | **0.400** | **0.280** |",
        "| SquareCB | `--squarecb` | 0.400 | **0.200** | 0.500 | 0.370 |",
    ]


def test_the_cost_is_that_of_the_default_beside_squarecb(data):
    work = {"part": "case", "rounds": 1000, "actions": 4, "features": 55, "words": 200_000.0}
    found = {"SquareCB": (0.1, 1.0, 20), "OPO-CMAB": (0.3, 3.0, 40), "OPO-CMAB, exact": (9.0, 90.0, 50)}
    data(
        "speed",
        [
            {
                **work,
                "algorithm": name,
                "seconds": seconds,
                "times_baseline": times,
                "times_on_all_cores": times,
                "peak_mb": mb,
            }
            for name, (seconds, times, mb) in found.items()
        ],
    )
    assert figures.cost_table()[2:] == [
        "| 1,000 rounds, 4 actions, 200,000 words, about 55 a text | 300 µs | 3.0 (3.0) | 40 MB (20 MB) |"
    ]
    [sentence] = figures.cost_in_short()
    assert sentence.startswith("A round takes 3.0 to 3.0 times as long as with SquareCB, 300 µs with 4 actions")
    assert "up to 2.0 times as much memory" in sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- figures:nothing -->\n<!-- /figures -->", "page.md: no table is called 'nothing'. Known: online"),
        ("<!-- figures:online -->\n", "page.md: a marker has no partner"),
        ("<!-- /figures -->\n", "page.md: a marker has no partner"),
    ],
)
def test_wrong_markers_are_named(text, message):
    with pytest.raises(SystemExit, match=message):
        figures.rewrite(text, "page.md")


def test_results_are_published_under_the_names_of_the_docs(tmp_path):
    online, suite, data = tmp_path / "report", tmp_path / "bakeoff", tmp_path / "data"
    for directory in (online, suite, data):
        directory.mkdir()
    for name in ("online.md", "online.csv", "online-curves.csv", "online.svg", "online.tex", "runs.jsonl"):
        (online / name).write_text(name)
    for name in ("report.md", "pv_loss.csv", "pairs.csv", "runs.jsonl"):
        (suite / name).write_text(name)
    figures.publish(online, data)
    figures.publish(suite, data)
    assert {path.name: path.read_text() for path in data.iterdir()} == {
        **{name: name for name in ("online.md", "online.csv", "online-curves.csv", "online.svg")},
        "bakeoff.md": "report.md",
        "bakeoff.csv": "pv_loss.csv",
    }
    with pytest.raises(SystemExit, match="is not the directory of a benchmark's results"):
        figures.publish(tmp_path, data)
