"""The architecture page: every file that it names exists, and every name beside a file is in that file."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FOLDERS = ("cpp", "python", "cmake", "tests", "benchmarks", "docs")


def spans(line: str) -> list[str]:
    return re.findall(r"`([^`]+)`", line)


def is_path(span: str) -> bool:
    return span.startswith(tuple(f"{folder}/" for folder in FOLDERS))


def names_beside_files() -> list[tuple[str, tuple[str, ...]]]:
    """Names (of functions, classes, constants), each with the files of its sentence or cell."""
    found = []
    for line in PAGE.splitlines():
        parts = line.split("|") if line.startswith("|") else re.split(r"(?<=[.)]) (?=[A-Z])", line)
        for part in parts:
            files = tuple(span for span in spans(part) if is_path(span) and not span.endswith("/"))
            names = [span for span in spans(part) if re.fullmatch(r"[A-Za-z_][\w:]*", span)]
            found += [(name, files) for name in names if files]
    return found


@pytest.mark.parametrize("path", sorted({span for span in spans(PAGE) if is_path(span)}))
def test_the_page_names_files_that_exist(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("name", "files"), names_beside_files())
def test_the_page_names_what_is_in_these_files(name, files):
    last = name.rpartition("::")[2]
    assert any(re.search(rf"\b{last}\b", (ROOT / file).read_text()) for file in files)


def test_every_file_of_code_is_on_the_page():
    files = {path.relative_to(ROOT / "cpp").with_suffix("").as_posix() for path in (ROOT / "cpp").rglob("*.*")}
    tables = re.findall(r"^\| file in `cpp/(\w+)/` .*\n\| ---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    named = {
        f"{folder}/{name}" for folder, rows in tables for row in rows.splitlines() for name in spans(row.split("|")[1])
    }
    assert named == files


def test_the_rule_for_finding_names_still_finds_them():
    assert len(names_beside_files()) > 40
