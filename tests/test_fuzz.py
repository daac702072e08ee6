"""A short fuzzing run, always the same. `make fuzz` goes on, with other seeds and under the sanitizers."""

import pytest

from tests import fuzz
from tests.helpers.fuzz_input import noisy_text
from tests.helpers.model_file import ModelFile
from tests.helpers.streams import random_rounds, write

SEED = 0
CASES = {kind.__name__: 15 for kind in fuzz.KINDS} | {"same_stream": 3}  # this one starts a Python


@pytest.mark.parametrize("kind", CASES)
def test_no_rule_is_broken(kind, tmp_path):
    first, step = list(CASES).index(kind), len(CASES)
    ends = [fuzz.run_case(SEED, first + i * step, tmp_path) for i in range(CASES[kind])]
    assert {name for name, _ in ends} == {kind}
    assert [path.read_text() for path in tmp_path.glob("*/finding.txt")] == []


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("exit 2", "exit code 2"),
        ("kill -SEGV $$", "exit code -11"),
        ("echo 'x.cc:1: runtime error: shift' >&2; exit 1", "runtime error"),
        ("exit 1", "refused, but nothing is wrong"),
        ("echo 0:0.5,1:0.4 > predictions", "do not sum to 1"),
        ("echo 0:nan > predictions", "do not sum to 1"),
        ("exec sleep 9", "no end after"),
    ],
)
def test_what_breaks_a_rule_is_found_and_kept(monkeypatch, tmp_path, program, words):
    fake = tmp_path / "vw"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(fuzz, "VW", fake)
    monkeypatch.setattr(fuzz, "TIMEOUT", 0.5)
    number = fuzz.KINDS.index(fuzz.same_stream if words.startswith("refused") else fuzz.text_lines)
    assert fuzz.run_case(SEED, number, tmp_path / "out")[1] == "finding"
    assert words in (tmp_path / "out" / f"{SEED}-{number}" / "finding.txt").read_text()
    assert (tmp_path / "out" / f"{SEED}-{number}" / "data").exists()


def test_a_case_follows_from_its_seed_and_number(tmp_path):
    def lines(seed, number):
        return noisy_text(fuzz.Case(seed, number, tmp_path).rng, random_rounds(1))

    assert lines(1, 2) == lines(1, 2)
    assert len({lines(1, 2), lines(1, 3), lines(2, 2)}) == 3


@pytest.fixture
def model(ours, tmp_path):
    """A model of ours, taken apart."""
    path = tmp_path / "model"
    ours("--cb_explore_adf --opo_cmab", random_rounds(1, n=5), save=str(path))
    return ModelFile.parse(path.read_bytes())


@pytest.mark.parametrize("size", [0, 2**20, 2**46, 2**48, 2**63, 2**64 - 200, 2**64 - 1])
@pytest.mark.parametrize("part", ["state", "below"])
def test_a_forged_size_is_refused(ours, tmp_path, model, part, size):
    forged = tmp_path / "forged"
    model.sizes = (size, len(model.below)) if part == "state" else (len(model.state), size)
    forged.write_bytes(model.assemble())
    with pytest.raises(RuntimeError, match="damaged or cut short"):
        ours(f"-i {forged}", [])


def test_a_model_s_header_is_a_command_line(vw, tmp_path, model):
    # docs/security.md warns of it: it is VW's own way, and a forger's checksum is as good as any.
    forged, written = tmp_path / "forged", tmp_path / "written"
    model.options += f" --readable_model {written}"
    forged.write_bytes(model.assemble())
    vw(f"-i {forged} -d {write(tmp_path / 'data', random_rounds(1, n=5))}")
    assert written.exists()
