# The way in: `make` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help setup servers demo playground check quick test proof bench lock site clean
MAKEFLAGS += --no-print-directory
# Python keeps what it compiles, whatever the shell says: else each of some thousand processes compiles our tree anew.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
SITE := .venv-site
API := .venv-api
# Named by content, so that a checkout which only touches the files installs nothing.
SETUP := $(VENV)/.setup-$(shell cat requirements.lock pyproject.toml bench/pyproject.toml | sha256sum | cut -c1-16)
SITE_SETUP := $(SITE)/.setup-$(shell sha256sum < docs/requirements.lock | cut -c1-16)
API_SETUP := $(API)/.setup-$(shell sha256sum < .ci/api.lock | cut -c1-16)
COMPILED := $(VENV)/.compiled-$(shell cat $$(find adapters -name "*.pyx" -o -name "*.pxi" -o -name "*.h" | sort) adapters/compiled/build.py | sha256sum | cut -c1-16)
PYTHONS := $(PYTHON) python3.11 python3 python3.12 python3.13
# More than twice the cores of the smallest machine: tests on real servers wait as long as they work, by chance together.
WORKERS ?= 5
TESTS ?= tests

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

setup: $(SETUP) $(COMPILED) ## Python environment in .venv, from the hash-locked requirements

$(SETUP): 
	@python=
	for candidate in $(PYTHONS); do
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi
	done
	if [ -z "$$python" ]; then
	  echo 'setup: needs Python 3.11 or newer (Debian: apt-get install python3 python3-venv), or make PYTHON=/path/to/python3.11' >&2
	  exit 1
	fi
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then
	  echo "setup: $$python lacks its venv module (Debian: apt-get install python3-venv)" >&2
	  exit 1
	fi
	if ! $(BIN)/python -c 'import pip' 2>/dev/null; then
	  echo "setup: $(VENV) with $$($$python --version)"
	  $$python -m venv --clear $(VENV)
	fi
	echo "setup: installing $$(grep -c '^[a-z].*==' requirements.lock) locked packages, about 900 MB with Spark …"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps -r requirements.lock
	echo 'setup: installing tidelock itself'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation --editable . --editable ./bench
	$(BIN)/python -m compileall -q adapters engine simulations bench
	rm -f $(VENV)/.setup-* $(VENV)/.compiled-*
	touch $@
	echo "setup: ready, $(BIN)/tidelock"

$(COMPILED): $(SETUP)
	@$(BIN)/python -m tidelock.adapters.compiled.build
	$(BIN)/pytest --collect-only -q tests >/dev/null || true  # pytest keeps tests as it compiles them: else each worker does that
	rm -f $(VENV)/.compiled-*
	touch $@

servers: setup ## MariaDB, PostgreSQL, MySQL 9 and Kafka for the tests, Spark's drivers, a compiler for the compiled forms
	@$(BIN)/python -m bench.harness.servers.install mariadb postgres mysql kafka spark classes compiler

demo: setup ## copy and replicate between two real databases, under load, and look at it
	@$(BIN)/python -m bench.harness.servers.install mariadb postgres spark
	$(BIN)/tidelock demo

playground: setup ## a private MariaDB and a private PostgreSQL to try things at, until Ctrl-C (docs/tutorial)
	@$(BIN)/python -m bench.harness.servers.install mariadb postgres
	$(BIN)/python -m bench.playground

check: setup ## ruff, mypy, import-linter
	@echo 'check: ruff'
	$(BIN)/ruff check --quiet .
	echo 'check: mypy'
	$(BIN)/mypy
	echo 'check: import-linter'
	$(BIN)/lint-imports

quick: setup ## a minute's look: ruff, the engine, the scenarios, some hundred simulated worlds
	@echo 'quick: ruff'
	$(BIN)/ruff check --quiet .
	$(BIN)/pytest -q -n auto tests/engine tests/test_scenarios.py  # they only compute: a worker a core
	$(BIN)/tidelock simulate --seeds 300 --from 2000000 --json >/dev/null
	echo 'quick: 300 worlds are clean'

test: servers ## all checks and tests; TESTS=tests/engine for a part, WORKERS=0 for one process
	@$(BIN)/pytest -n $(WORKERS) $(TESTS)

proof: servers $(API_SETUP) ## the long evidence: scale, endurance, exhaustive exploration
	@$(BIN)/python -m bench.harness.servers.install debootstrap promtool gh-ost chromium groff systemd
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps -r .ci/browser.lock
	$(BIN)/pytest -m proof --timeout 0 --durations 0 $(TESTS)

# In an environment of its own: what it brings for pytest would be loaded by every run of our tests.
$(API_SETUP): $(SETUP)
	@echo "proof: installing schemathesis and what it needs, $$(grep -c '^[a-z].*==' .ci/api.lock) locked packages, about 50 MB …"
	$(BIN)/python -m venv --clear $(API)
	$(API)/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps -r .ci/api.lock
	touch $@

bench: servers ## measurements against their recorded budgets
	@$(BIN)/tidelock bench

lock: setup ## resolve requirements.lock anew from pyproject.toml, its parts for images, and docs/requirements.lock
	@command -v uv >/dev/null || { echo 'lock: needs uv (python3 -m pip install uv)' >&2; exit 1; }
	uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
	  --python-version 3.11 --extra dev --extra stream --extra bulk --extra traces pyproject.toml --output-file requirements.lock
	part() { uv pip compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
	  --python-version 3.11 --constraint requirements.lock --output-file .ci/image/$$1.lock "$${@:2}"; }
	part slim --extra stream --extra traces pyproject.toml
	part bulk --extra stream --extra bulk --extra traces pyproject.toml
	part build - <<<$$'cython >=3\nhatchling >=1.27'
	for part in docs/requirements .ci/browser .ci/api; do
	  uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
	    --python-version 3.11 $$part.in --output-file $$part.lock
	done
	if grep -nE '://|^--' requirements.lock docs/requirements.lock .ci/browser.lock .ci/api.lock .ci/image/*.lock; then echo 'lock: holds an address, see above' >&2; exit 1; fi

site: $(SITE_SETUP) ## the pages of docs/ as a site in site/, strictly; it has an environment of its own
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict
	echo 'site: ready, site/index.html'

$(SITE_SETUP): $(SETUP)
	@echo "site: installing $$(grep -c '^[a-z].*==' docs/requirements.lock) locked packages, about 40 MB …"
	$(BIN)/python -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps -r docs/requirements.lock
	touch $@

clean: ## remove the environment, the server cache and all that tools leave
	rm -rf $(VENV) $(SITE) $(API) site .tidelock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
