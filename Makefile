# Two commands do everything: make reproduce, make test. Each makes .venv and builds what is not built.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# What the installed package is made from: a change of these installs it anew.
SOURCES := $(shell find cpp cmake python CMakeLists.txt pyproject.toml README.md -type f -not -path '*/__pycache__/*')

.PHONY: install test lint format clean

install: $(VENV)/installed

$(BIN)/python:
	@echo "== Making $(VENV)"
	$(PYTHON) -m venv $(VENV)

# --verbose shows the progress of the build: VW is compiled once a machine, about 7 minutes on 2 cores.
$(VENV)/installed: $(BIN)/python $(SOURCES)
	@echo "== Building and installing (the first time on a machine compiles VW, about 7 minutes on 2 cores)"
	$(PIP) install --verbose .
	@touch $@

$(VENV)/test-tools: $(BIN)/python pyproject.toml
	@echo "== Installing what the tests need"
	$(PIP) install --quiet --upgrade "pip>=25.1"
	$(PIP) install --quiet --group test
	@touch $@

$(VENV)/lint-tools: $(VENV)/test-tools
	@echo "== Installing the linters"
	$(PIP) install --quiet --group lint
	@touch $@

test: $(VENV)/installed $(VENV)/test-tools
	@echo "== Testing"
	$(BIN)/python -m pytest

lint: $(VENV)/installed $(VENV)/lint-tools
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(find cpp -name '*.cc' -o -name '*.h')

format: $(VENV)/lint-tools
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $$(find cpp -name '*.cc' -o -name '*.h')

clean:
	rm -rf $(VENV) build dist
