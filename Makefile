# Everything is installed into .venv, and again only when pyproject.toml changes. Paths are relative and in quotes where a
# command needs them, so the checkout may lie in a folder with spaces in its name.

PYTHON ?= python3
PIP := .venv/bin/python -m pip install -qq --disable-pip-version-check
PYTEST := .venv/bin/python -m pytest
# More than there are cores, because many tests wait; each more has to collect all tests, which takes ten seconds.
WORKERS ?= $(shell echo $$(($$(nproc) * 3 / 2)))
PARALLEL := -n $(WORKERS) --dist worksteal

# Tests start hundreds of Python processes: none of them compiles everything anew.
export PYTHONDONTWRITEBYTECODE :=

# Where processes are killed. Collecting all the rest would take each process of xdist ten seconds.
PROCESS_TESTS = $(if $(filter tests/% @%,$(ARGS)),,$(sort $(shell grep -rl --include='test_*.py' 'mark\.kills' tests)))

# Marked tests that are too long for every day, each with a target of its own.
LONG_TESTS := kills or attack or soak or pairs or mutants or long or ops or browser

# Not collected by `make test`: what `make check` runs, and folders in which all tests are marked.
LEFT_OUT := $(addprefix --ignore=tests/,test_architecture.py tasks/test_typing.py processes attack browser)

# What the dashboard is made of: it is built again when one of these is newer.
DASHBOARD := $(shell find dashboard/src -type f ! -name '*.d.ts') dashboard/build.mjs dashboard/package-lock.json

# Tests of processes with more rounds, ONCUE_TEST_PROCESSES=long, have their `long` cases, too.
SHORT := $(if $(filter long,$(ONCUE_TEST_PROCESSES)),, and not long)

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: run
run: .venv/runtime.stamp .venv/dashboard.stamp ## start oncue with the example tasks and everything in .oncue; Ctrl-C ends it
	@.venv/bin/oncue up --tasks examples/tasks.py $(ARGS)

.PHONY: demo
demo: .venv/demo.stamp .venv/dashboard.stamp ## fill a private store with hours of a believable fleet, and serve its dashboard
	@.venv/bin/python -m examples.demo $(ARGS)

.PHONY: test
test: .venv/dev.stamp ## run the tests, all but the long ones, those on PostgreSQL, and what `make check` runs
	@$(PYTEST) $(PARALLEL) -m "not ($(LONG_TESTS) or postgres)" $(LEFT_OUT) $(ARGS)

.PHONY: test-all
test-all: .venv/dev.stamp ## run everything but the tests that kill real processes: all seeds, mutants, pairs and engines
	@$(PYTEST) $(PARALLEL) --hypothesis-profile=more -m "not (kills or attack or soak or ops or browser)" $(ARGS)

.PHONY: test-postgres
test-postgres: .venv/dev.stamp ## run the tests that use PostgreSQL, on a server of their own
	@$(PYTEST) $(PARALLEL) -m "postgres and not ($(LONG_TESTS))" $(ARGS)

.PHONY: test-processes
test-processes: .venv/dev.stamp ## run the tests that start and kill real processes
	@$(PYTEST) -n 5 --dist loadgroup -m "kills and not alone$(SHORT)" $(PROCESS_TESTS) $(ARGS); together=$$?; \
	  $(PYTEST) -m "kills and alone$(SHORT)" $(PROCESS_TESTS) $(ARGS); alone=$$?; \
	  for code in $$together $$alone; do [ $$code -eq 0 ] || [ $$code -eq 5 ] || exit $$code; done

.PHONY: attack
attack: .venv/dev.stamp ## run hostile tasks, members and clients beside a victim's load, on both engines
	@$(PYTEST) -n 3 --dist loadgroup -m attack $(if $(filter tests/% @%,$(ARGS)),,tests/attack) $(ARGS)

.PHONY: test-pairs
test-pairs: .venv/dev.stamp ## run every verb between any two statements of every other, and print the table
	@$(PYTEST) $(PARALLEL) -m pairs $(ARGS)

.PHONY: test-mutants
test-mutants: .venv/dev.stamp ## plant bugs, and see the conformance suite and the simulation find each of them
	@$(PYTEST) $(PARALLEL) -m mutants $(ARGS)

.PHONY: test-ops
test-ops: .venv/ops.stamp ## run the files of ops/ with Prometheus, nginx, Caddy, PostgreSQL and checkers of their formats
	@$(PYTEST) -n $$(($$(nproc) * 5 / 2)) --dist loadgroup -m ops $(if $(filter tests/% @%,$(ARGS)),,tests/ops) $(ARGS)

.PHONY: test-browser
test-browser: .venv/dev.stamp .venv/dashboard.stamp ## run the dashboard in Chromium, which apt installs if it is missing
	@.venv/bin/python dashboard/build.py packages
	@for name in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$name && exit; done >/dev/null; \
	  apt-get update -qq; for name in chromium-headless-shell chromium; do \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $$name && exit; done; exit 1
	@$(PYTEST) -n 2 --dist worksteal -m browser $(if $(filter tests/% @%,$(ARGS)),,tests/browser) $(ARGS)

.PHONY: check
check: .venv/dev.stamp .venv/dashboard.stamp ## lint, formatting, types, import rules, shape of the code
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/python -m mypy
	@.venv/bin/lint-imports
	@$(PYTEST) -q tests/test_architecture.py tests/tasks/test_typing.py
	@.venv/bin/python dashboard/build.py check

.PHONY: format
format: .venv/dev.stamp ## format the code and mend what the linter can mend
	@.venv/bin/python -m ruff check --fix-only .
	@.venv/bin/python -m ruff format .

.PHONY: bench
bench: .venv/dev.stamp ## measure everything end to end, on both engines; ARGS=--quick within two minutes
	@.venv/bin/oncue bench $(ARGS)

.PHONY: soak
soak: .venv/dev.stamp ## run 10,000 jobs a second for half an hour on PostgreSQL and see that nothing grows; ARGS="--minutes 5"
	@.venv/bin/oncue bench soak --only postgres $(ARGS)

.PHONY: bench-engines
bench-engines: .venv/dev.stamp ## measure the engines beside what raw SQL reaches
	@.venv/bin/python bench/engines.py $(ARGS)

.PHONY: bench-api
bench-api: .venv/dev.stamp ## measure how much the API takes in and how quickly it answers
	@.venv/bin/python -m bench.api $(ARGS)

.PHONY: bench-calls
bench-calls: .venv/dev.stamp ## measure every call that reads, with millions of jobs and runs in the store
	@.venv/bin/python -m bench.calls $(ARGS)

.PHONY: bench-dashboard
bench-dashboard: .venv/dev.stamp ## measure the dashboard in a browser, on a store with millions of jobs and runs
	@.venv/bin/python -m bench.dashboard $(ARGS)

.PHONY: bench-cron
bench-cron: .venv/dev.stamp ## measure the computing of occurrences
	@.venv/bin/python bench/cron.py $(ARGS)

.PHONY: bench-peers
bench-peers: .venv/dev.stamp bench/peers/.env/stamp bench/peers/node_modules/stamp ## measure oncue beside its peers
	@.venv/bin/python bench/peers/run.py $(ARGS)

.PHONY: house
house: .venv/dev.stamp ## count files, lines, verbs and statements, and the functions that a job passes through
	@.venv/bin/python -m bench.house $(ARGS)

.PHONY: docs
docs: .venv/docs.stamp ## build the site of docs/ in build/site; look at it with `python3 -m http.server -d build/site`
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --config-file website/mkdocs.yml $(ARGS)

.PHONY: grafana
grafana: ## write ops/grafana/oncue.json from its table of panels
	@"$(PYTHON)" ops/grafana/make_dashboard.py >ops/grafana/oncue.json

.PHONY: screenshots
screenshots: .venv/dev.stamp .venv/dashboard.stamp ## take pictures of every page of the dashboard, filled by the demo, in dashboard/build
	@.venv/bin/python dashboard/screenshots.py $(ARGS)

.PHONY: clean
clean: ## remove .venv and every cache
	@rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist bench/peers/.env bench/peers/node_modules \
	  dashboard/node_modules dashboard/build src/oncue/dashboard/assets
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@command -v "$(PYTHON)" >/dev/null || \
	  { echo "oncue needs Python 3.11 or newer, and there is no '$(PYTHON)'. Name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "oncue needs Python 3.11 or newer; '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Making .venv ..." >&2
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; exit 1; }

.venv/runtime.stamp: pyproject.toml | .venv/bin/python
	@echo "Installing oncue into .venv ..." >&2
	@$(PIP) --editable ".[postgres]"
	@touch $@

.venv/demo.stamp: .venv/runtime.stamp
	@$(PIP) --editable ".[conformance,postgres]"
	@touch $@

# The developer's set holds the others, so it counts for all.
.venv/dev.stamp: pyproject.toml | .venv/bin/python
	@echo "Installing oncue and its development tools into .venv ..." >&2
	@$(PIP) --editable ".[dev]"
	@touch .venv/runtime.stamp .venv/demo.stamp $@

.venv/dashboard.stamp: $(DASHBOARD) | .venv/runtime.stamp
	@.venv/bin/python dashboard/build.py
	@touch $@

# And this one the developer's: .ci/run installs all at once.
.venv/ops.stamp: pyproject.toml | .venv/bin/python
	@echo "Installing oncue, its development tools and the checkers of ops/ into .venv ..." >&2
	@$(PIP) --editable ".[ops]"
	@touch .venv/runtime.stamp .venv/demo.stamp .venv/dev.stamp $@

.venv/docs.stamp: .venv/runtime.stamp
	@echo "Installing what builds the site of docs/ into .venv ..." >&2
	@$(PIP) --editable ".[docs,postgres,testing]"
	@touch $@

# The peers' environments, apart from ours.
bench/peers/.env/stamp: bench/peers/requirements.txt | .venv/bin/python
	@echo "Installing the peers into bench/peers/.env ..." >&2
	@.venv/bin/python -m venv bench/peers/.env
	@bench/peers/.env/bin/python -m pip install -qq --disable-pip-version-check -r bench/peers/requirements.txt
	@touch $@

# Without npm the peers that need it are left out, and the table says so.
bench/peers/node_modules/stamp: bench/peers/package.json
	@if command -v npm >/dev/null; then \
	  echo "Installing the peers into bench/peers/node_modules ..." >&2 && \
	  npm install --prefix bench/peers --no-package-lock --no-audit --no-fund --loglevel=error >/dev/null && touch $@; \
	else echo "There is no npm: graphile-worker and BullMQ are left out." >&2; fi
