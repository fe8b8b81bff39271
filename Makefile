# `make` lists the targets. Dependencies are installed into .venv and frontend/node_modules automatically,
# and again when the lock files change.

PYTHONS := $(shell sed -n 's/.*Python :: \(3\.[0-9]*\)",/\1/p' pyproject.toml)
# Looking for interpreters takes a second, so a `make` that this one starts gets what was found.
ifndef PYTHON
export PYTHON := $(shell .ci/python $(PYTHONS))
endif
BIN := .venv/bin
INSTALLED := .venv/installed
TESTING := .venv/testing
# What only the build needs, Node above all, is as large as all that a broker needs.
BUILD := .venv-build
BUILDING := $(BUILD)/installed
# The other interpreters that are here have an environment each.
ITS_VERSION := $(if $(PYTHON),$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
OTHER_PYTHONS := $(filter-out $(ITS_VERSION),$(PYTHONS))
ifndef OTHERS
export OTHERS := $(foreach version,$(OTHER_PYTHONS),$(if $(shell .ci/python $(version)),.venv-$(version)))
endif
CONSOLE := static/console/dist/manifest.json
FRONTEND := frontend/node_modules/.installed
# What checks the console, a linter above all, is larger than all that builds it.
FRONTEND_TESTING := frontend/node_modules/.testing
NODE_CLIENTS := tests/interop/clients/node_modules/.package-lock.json
LANGUAGES := $(patsubst %.po,%.mo,$(wildcard locale/*/LC_MESSAGES/*.po))
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INTO = $(BIN)/python -m pip --python $(1)/bin/python install --quiet --disable-pip-version-check --no-compile
NPM := PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" $(BUILD)/bin/npm

# Containers often tell Python to keep no compiled modules, and then each broker and each `mom` that a test starts
# compiles its own again. For Python an empty variable is none.
export PYTHONDONTWRITEBYTECODE :=
# Types that were checked once are remembered for other checkouts as well: mypy compares the contents of files.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mom-broker/mypy

define PYTHON_MISSING
MOM needs one of Python $(PYTHONS), with venv, which is not here.
  Debian, Ubuntu: apt-get install python3-venv
  where Python is older than that: pipx install uv; uv python install 3.13
                                   make run PYTHON="$$(uv python find 3.13)"
endef
export PYTHON_MISSING

# Options for what is run: make run ARGS="--port 9000", make test ARGS="tests/core -x"
ARGS ?=
# Tests run in so many processes: half of the time of a test it waits.
TEST_PROCESSES ?= 6
PYTEST := $(BIN)/python -m pytest -p tests.support.collected -n $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder
# Where a run keeps its figures, for `make test-times`.
OUTPUT ?= .ci/output
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 7200
STORMS ?= 1000000
QUICK_STORMS ?= 200
KILLS ?= 500
FOREIGN ?= 100000
TAKEOVERS ?= 100
FAULTS ?= 180
SINK_KILLS ?= 100
RUN_KILLS ?= 100
MOMBENCH ?= ../shared/bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run wheel test test-ready test-all test-anywhere test-times quick check check-types check-rest build messages bench bench-peers fuzz soak lock clean \
  test-tools bench-tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(INSTALLED) $(CONSOLE) $(LANGUAGES) ## start a broker with its console, data in ./data
	@$(BIN)/mom up $(ARGS)

# The checks, and what they alone need to be installed, run beside the tests, on what these leave of the
# processors. With ARGS only what they name is run.
test: ## run the checks, and all tests except the long ones
	@$(MAKE) --no-print-directory --jobs 3 test-ready
ifeq ($(strip $(ARGS)),)
	@$(MAKE) --no-print-directory --keep-going --jobs 4 CHECK="nice -n 5" test-all check-types check-rest test-anywhere
else
	$(PYTEST) --durations 10 $(ARGS)
endif

test-ready: $(TESTING) $(CONSOLE) $(LANGUAGES) test-tools

test-all:
	$(PYTEST) -p tests.support.retries -p tests.support.run_times --times $(OUTPUT) --junitxml $(OUTPUT)/junit.xml --durations 10

# The main job, the clients and the console with each other interpreter that is here.
ANYWHERE := tests/installation tests/client/test_against_broker.py
test-anywhere: $(addprefix test-with-,$(OTHERS))
	@$(foreach version,$(filter-out $(OTHERS:.venv-%=%),$(OTHER_PYTHONS)),echo "Python $(version) is not here: not tested with it";)

test-with-%: %/installed $(CONSOLE) $(LANGUAGES)
	@$(call SHOW_FAILURE,$*/bin/python -m pytest -q -p no:cacheprovider $(ANYWHERE))

test-times: $(TESTING) ## print the time and the processor time of the last `make test` by directory; SINCE=COMMIT also its growth
	@$(BIN)/python -m tests.support.run_times $(OUTPUT) $(if $(SINCE),--since $(SINCE))

quick: $(TESTING) $(CONSOLE) $(LANGUAGES) ## run the tests without processes and browsers, in less than a minute
	STORMS=$(QUICK_STORMS) $(PYTEST) -m "not process and not slow and not fuzz" $(ARGS)

check: $(TESTING) $(CONSOLE) $(LANGUAGES) ## lint, types, import rules, unit tests of the console, migrations, names in ARCHITECTURE.md
	$(MAKE) --no-print-directory --jobs 2 check-types check-rest

# Of each check only the failure is shown.
CHECK ?=
SHOW_FAILURE = { out=$$($(CHECK) $(1) 2>&1) || { echo "$$out"; echo "failed: $(1)"; exit 1; }; }

check-types:
	@$(call SHOW_FAILURE,$(BIN)/mypy)

check-rest: $(FRONTEND_TESTING)
	@$(call SHOW_FAILURE,$(BIN)/ruff check .)
	@$(call SHOW_FAILURE,$(BIN)/lint-imports)
	@$(call SHOW_FAILURE,$(BIN)/python manage.py check --fail-level WARNING --settings tests.settings)
	@$(call SHOW_FAILURE,$(BIN)/python manage.py makemigrations --check --dry-run --settings tests.settings)
	@$(call SHOW_FAILURE,env $(NPM) --prefix frontend run check)
	@$(call SHOW_FAILURE,env $(NPM) --prefix frontend test)
	@$(call SHOW_FAILURE,$(BIN)/pytest -q tests/docs/test_map.py)

build: $(CONSOLE) $(LANGUAGES) ## build the console's frontend and translations

wheel: $(BUILDING) $(CONSOLE) $(LANGUAGES) ## build the wheel, with the console and its languages, into dist/
	@$(BUILD)/bin/python -m hatchling build --target wheel

messages: $(TESTING) ## add new texts to locale/ for translation
	$(BIN)/python -m tests.languages.catalogues

fuzz: $(TESTING) test-tools ## random input on all planes at once, and for the STOMP parser, FUZZ_SECONDS long
	SOAK=1 FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_EXAMPLES=$(FUZZ_SECONDS) $(BIN)/pytest -m fuzz --timeout 0 $(ARGS)

# TAKEOVERS with each store: Postgres, Redis, files.
soak: $(TESTING) $(CONSOLE) test-tools ## many more STORMS of commands, KILLS, TAKEOVERS and FAULTS of brokers, SINK_KILLS and RUN_KILLS of Spark, messages to FOREIGN ones; SOAK_SECONDS of fuzz
	STORM_SEED=$${STORM_SEED:-random} STORMS=$(STORMS) KILLS=$(KILLS) FOREIGN=$(FOREIGN) TAKEOVERS=$(TAKEOVERS) FAULTS=$(FAULTS) FUZZ_SECONDS=$(SOAK_SECONDS) \
	  SINK_KILLS=$(SINK_KILLS) RUN_KILLS=$(RUN_KILLS) BULK_KILLS=$(KILLS) SOAK=1 EVERY_LOOK=1 \
	  $(BIN)/pytest --timeout 0 -rP \
	  tests/core/test_storms.py tests/core/test_floods.py tests/core/test_records.py tests/core/test_recovery.py tests/core/test_turns.py tests/journal/test_copy.py tests/journal/test_damage.py tests/journal/test_reads_beside_upkeep.py tests/journal/test_repair.py tests/crash tests/forwarding tests/mirror tests/enhanced_cluster/test_failure_detection.py tests/enhanced_cluster/test_orders.py tests/enhanced_cluster/test_storm.py tests/enhanced_cluster/test_store_failover.py tests/enhanced_cluster/test_takeover.py tests/fuzz \
	  tests/channels/test_mastership.py tests/channels/test_elected_master.py tests/cluster tests/laws/test_longest_turns.py tests/rest/test_large_messages.py \
	  tests/browser/test_connection.py tests/browser/test_docs.py tests/browser/test_every_page.py tests/browser/test_failover.py tests/browser/test_services.py tests/web/test_read_your_writes.py tests/web/test_secrets.py tests/web/test_data_path.py tests/web/test_change_under_load.py tests/interop/test_stomp_py.py tests/interop/test_stompjs.py tests/pipeline/test_cluster.py tests/pipeline/test_columns.py tests/pipeline/test_killed_runs.py tests/pipeline/test_session.py tests/pipeline/test_sink.py \
	  tests/cli tests/laws/test_linear_parsers.py tests/pipeline/test_stores.py tests/rest/test_schemathesis.py \
	  tests/browser/test_production.py tests/web/console/test_rights.py tests/web/test_every_endpoint.py tests/web/test_explanations.py tests/web/test_foreign_files.py tests/web/test_resources.py tests/web/test_schemathesis.py \
	  tests/client/test_failover_storm.py tests/journal/test_private_journal.py tests/journal/test_shared.py tests/journal/test_storm.py \
	  tests/reflex/test_filtering_storms.py $(ARGS)
	STORM_SEED=$${STORM_SEED:-random} SOAK=1 $(BIN)/pytest --timeout 0 -m hypothesis

bench: $(TESTING) $(CONSOLE) bench-tools ## measure against RabbitMQ and ActiveMQ, into benchmarks/RESULTS.md
	MOMBENCH=$(MOMBENCH) $(BIN)/python -m benchmarks.run --append $(ARGS)

bench-peers: $(TESTING) bench-tools ## install and configure RabbitMQ and ActiveMQ from Debian, to measure against
	MOMBENCH=$(MOMBENCH) $(BIN)/python -m benchmarks.peers $(ARGS)

# The smaller sets are parts of the largest one: the same releases. For which systems they are is said once, in
# pyproject.toml, and not again in each of their lines.
LOCKED_FOR = platform_python_implementation == 'CPython' and sys_platform == 'linux'
RESOLVE = $(BUILD)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --quiet $(1) >/dev/null
lock: ## resolve pyproject.toml into the lock files; ARGS=--upgrade takes the newest releases
	$(PYTHON) -m venv $(BUILD) && $(BUILD)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(call RESOLVE,pyproject.toml --extra pipeline --extra postgres --extra workers --group dev -o requirements-dev.lock $(ARGS))
	$(call RESOLVE,pyproject.toml --constraint requirements-dev.lock -o requirements.lock)
	$(call RESOLVE,pyproject.toml --group anywhere --constraint requirements-dev.lock -o requirements-anywhere.lock)
	$(call RESOLVE,--group build --constraint requirements-dev.lock -o requirements-build.lock $(ARGS))
	sed -i "s/ ; $(LOCKED_FOR) \\\\$$/ \\\\/; s/ and $(LOCKED_FOR)//" requirements*.lock

clean: ## remove what was installed and built; ./data stays
	rm -rf .venv .venv-* frontend/node_modules static/console/dist $(LANGUAGES) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(INSTALLED): requirements.lock pyproject.toml
	@test -n "$(filter $(ITS_VERSION),$(PYTHONS))" || { echo "$$PYTHON_MISSING" >&2; exit 1; }
	@echo "Installing what a broker needs into .venv, which takes a minute or two the first time"
	@$(PYTHON) -m venv .venv
	@$(PIP) --require-hashes --requirement requirements.lock
	@$(PIP) --no-deps --editable .
	@touch $@

$(TESTING): $(INSTALLED) requirements-dev.lock
	@echo "Installing what the tests need, too"
	@$(PIP) --require-hashes --requirement requirements-dev.lock
	@touch $@

$(BUILDING): requirements-build.lock | $(INSTALLED)
	@echo "Installing what builds the console into $(BUILD)"
	@$(BIN)/python -m venv --without-pip $(BUILD)
	@$(call INTO,$(BUILD)) --require-hashes --requirement requirements-build.lock
	@touch $@

# Not an intermediate file, which make would delete.
.SECONDARY: $(addsuffix /installed,$(OTHERS))

# Without compiling, and with what pip has in its cache, this takes seconds.
.venv-3.%/installed: requirements-anywhere.lock | $(INSTALLED)
	@echo "Installing what some tests need for Python 3.$*, too"
	@$$(.ci/python 3.$*) -m venv --without-pip $(@D)
	@$(CHECK) $(call INTO,$(@D)) --require-hashes --no-deps --requirement requirements-anywhere.lock
	@touch $@

$(FRONTEND): frontend/package-lock.json frontend/.npmrc | $(BUILDING)
	@echo "Installing what the console is made of into frontend/node_modules"
	@$(NPM) --prefix frontend ci --omit=dev --no-progress --no-audit --no-fund --loglevel error >/dev/null
	@touch $@

# It adds to what is there, which may be building the console at the same time.
$(FRONTEND_TESTING): $(FRONTEND)
	@$(CHECK) env $(NPM) --prefix frontend install --include=dev --no-save --no-progress --no-audit --no-fund --loglevel error >/dev/null
	@touch $@

$(CONSOLE): $(FRONTEND) $(wildcard static/console/*.svg) $(shell find frontend/src frontend/vite.config.js -type f) $(wildcard static/console/*.svg)
	@echo "Building the console"
	@$(NPM) --prefix frontend run --silent build -- --logLevel warn
	@touch $@

%.mo: %.po | $(BUILDING)
	@$(BUILD)/bin/pybabel --quiet compile --input-file $< --output-file $@

# Debian's Chromium for the browser tests, nginx and HAProxy before a broker, curl for the README's examples, PostgreSQL and
# Redis of the oldest versions that a journal may be in, Java for Spark (17 in Debian 12), and STOMP clients of other
# languages; where a missing service is a failure, the brokers that bridges forward to as well.
test-tools: $(NODE_CLIENTS)
	@$(if $(CI),$(BIN)/python -m benchmarks.peers --install-only)
	@.ci/debian-packages chromium-headless-shell:chromium-headless-shell curl:curl nginx:nginx-light haproxy:haproxy \
	  redis-server:redis-server postgresql java:default-jre-headless \
	  ruby:ruby php:php-cli ruby-stomp libnet-stomp-perl php-stomp

$(NODE_CLIENTS): $(BUILDING) tests/interop/clients/package-lock.json
	@$(NPM) --prefix tests/interop/clients ci --ignore-scripts --no-progress --no-audit --no-fund --loglevel error >/dev/null
	@touch $@

bench-tools:
	@.ci/debian-packages cc:gcc
