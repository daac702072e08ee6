# A target makes .venv and builds what is not built. `make` lists those that have a comment with ##.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check

# What the installed package is made from: a change in any of these reinstalls it.
SOURCES := $(shell find cpp cmake python CMakeLists.txt pyproject.toml README.md -type f -not -path '*/__pycache__/*')

.PHONY: help install reproduce test docs figures lint tidy format sanitize fuzz wheel wheels clean
.DEFAULT_GOAL := help

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/installed  ## the package and vw, into .venv

$(BIN)/python:
	@echo "== Making $(VENV)"
	$(PYTHON) -m venv $(VENV)

# --verbose shows the progress of the build: VW is compiled once per machine, about 7 minutes on 2 cores.
$(VENV)/installed: $(BIN)/python $(SOURCES)
	@echo "== Building and installing (the first time on a machine compiles VW, about 7 minutes on 2 cores)"
	$(PIP) install --verbose .
	@touch $@

$(VENV)/pip: $(BIN)/python pyproject.toml
	@$(PIP) install --quiet --upgrade "pip>=25.1"  # for --group
	@touch $@

$(VENV)/test-tools: $(VENV)/pip
	@echo "== Installing what the tests need"
	$(PIP) install --quiet --group test
	@touch $@

$(VENV)/lint-tools: $(VENV)/pip
	@echo "== Installing the linters"
	$(PIP) install --quiet --group lint
	@touch $@

$(VENV)/benchmark-tools: $(VENV)/pip
	@echo "== Installing what the benchmarks need"
	$(PIP) install --quiet --group benchmark
	@touch $@

$(VENV)/peer-tools: $(VENV)/pip
	@echo "== Installing the peers of the online problems"
	$(PIP) install --quiet --group peers
	@touch $@

reproduce: $(VENV)/installed $(VENV)/benchmark-tools  ## the paper's comparison of explorers: tables, plots, a report
	@echo "== The paper's comparison (results/paper; interrupted, it goes on where it stopped)"
	$(BIN)/python -m benchmarks.reproduce --suite paper --jobs $(JOBS)

test: $(VENV)/installed $(VENV)/test-tools  ## the tests
	@echo "== Testing"
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal

$(VENV)/docs-tools: $(VENV)/pip
	@echo "== Installing what the documentation needs"
	$(PIP) install --quiet --group docs
	@touch $@

# Warnings are errors. Needs no network, nor what it builds. The variable silences an announcement of the theme.
docs: $(VENV)/docs-tools  ## the documentation site, into build/site
	@echo "== Building the documentation site"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "== To look at it: $(BIN)/python -m http.server --directory build/site"

# Tables and pictures of README.md and docs from docs/results/*.csv, and the output of the examples.
# RESULTS="results/online/report results/bakeoff" copies these to docs/results first.
figures: $(VENV)/installed $(VENV)/test-tools  ## writes the figures and outputs on the pages (RESULTS=...)
	$(BIN)/python -m benchmarks.figures $(RESULTS)
	$(BIN)/python docs/examples/run.py

lint: $(VENV)/installed $(VENV)/lint-tools  ## style, types, stubs against their modules, workflows
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/stubtest opo_cmab._kernel opo_cmab._explain --allowlist python/stubtest.txt
	$(BIN)/clang-format --dry-run --Werror $$(find cpp -name '*.cc' -o -name '*.h')
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format --default-filetype yaml CITATION.cff

# A build of its own, for the commands of the compiler. About a minute.
tidy: $(VENV)/installed $(VENV)/lint-tools  ## clang-tidy over cpp/
	$(BIN)/cmake -S . -B build/tidy -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DSKBUILD_SCRIPTS_DIR=bin \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -Dpybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir)
	find cpp -name '*.cc' | xargs -P $(JOBS) -n 2 $(BIN)/clang-tidy -p build/tidy --quiet

format: $(VENV)/lint-tools  ## the code, in our style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $$(find cpp -name '*.cc' -o -name '*.h')

# Our own C++ under AddressSanitizer and UndefinedBehaviorSanitizer. VW's libraries are not instrumented, so container
# overflows cannot be checked in vectors that both sides fill.
SANITIZED := PYTHONPATH=build/sanitized OPO_CMAB_TEST_VW=$(CURDIR)/build/sanitized/bin/vw \
  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0:detect_container_overflow=0 $(BIN)/python

build/sanitized/built: $(VENV)/installed $(VENV)/test-tools
	@echo "== Building under the sanitizers"
	$(PIP) install --verbose --no-deps --upgrade --target build/sanitized \
	  -C build-dir=build/sanitize -C cmake.define.OPO_CMAB_SANITIZE=ON -C install.strip=false .
	@touch $@

sanitize: build/sanitized/built  ## the tests of the C++, under AddressSanitizer and UndefinedBehaviorSanitizer
	@echo "== Testing under the sanitizers"
	$(SANITIZED) -m pytest -m "not slow" \
	  tests/test_adopt.py tests/test_costs.py tests/test_explain.py tests/test_explorers.py tests/test_kernel.py \
	  tests/test_learner.py tests/test_least_squares.py tests/test_opo_cmab.py tests/test_shared_features.py \
	  tests/test_slots.py \
	  tests/test_engine.py::test_merging_models_that_use_our_flags_is_refused \
	  tests/test_daemon.py::test_a_daemon_learns_saves_on_command_and_goes_on_from_the_file

# docs/fuzzing.md
MINUTES ?= 5
SEED ?= 0
fuzz: build/sanitized/built  ## random lines, flags and model files, under the sanitizers (MINUTES=5 SEED=0)
	@echo "== Fuzzing for $(MINUTES) minutes"
	$(SANITIZED) -m tests.fuzz --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS)

$(VENV)/package-tools: $(VENV)/pip
	@echo "== Installing what packaging needs"
	$(PIP) install --quiet --group package
	@touch $@

# The wheel is built from the source distribution, which shows that nothing is missing there, and tried in a clean
# environment.
wheel: $(VENV)/package-tools  ## a source distribution and a wheel, tried in a clean environment
	@echo "== Building the source distribution, and from it the wheel"
	rm -rf dist build/clean
	$(BIN)/python -m build
	PATH="$(BIN):$$PATH" auditwheel repair --wheel-dir dist dist/*.whl && rm dist/*-linux_*.whl
	$(BIN)/auditwheel show dist/*.whl
	@echo "== Trying it in a clean environment"
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip --disable-pip-version-check install --quiet --only-binary :all: dist/*.whl
	env -i PATH=build/clean/bin VW_OPO_CMAB_CACHE=build/clean/no-cache build/clean/bin/python tests/smoke.py --alone
	ls -l dist

# Wheels for other machines than this one: needs Docker, or a Mac (docs/packaging.md).
wheels: $(VENV)/package-tools  ## wheels for other machines
	@echo "== Building wheels for the Pythons that vowpalwabbit has wheels for"
	$(BIN)/cibuildwheel --output-dir dist

clean:  ## removes what was made here: .venv, build, dist
	rm -rf $(VENV) build dist
