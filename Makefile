# Targets: env jars kernels classes demo up test test-browser test-long test-live screenshots bench docs lint clean. `make demo` is all a bare machine needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Compiled modules are kept, whatever the caller's environment says: a run starts hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
PY := $(VENV)/bin/python
HISTORIES ?= 200
SOURCE ?= mariadb
VERSION ?=
SEED ?=
FUZZ_EXAMPLES ?= 2000
# Three a core, for they wait for servers, and one for 5.5 GiB: each has servers and a JVM of its own.  Six in 24 GiB
# leave nothing for cached files, and are slower than four.
WORKERS ?= $(shell python3 -c "import os; print(max(2, min(3 * os.cpu_count(), os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') // (11 << 29))))")
ENV_STAMP := $(VENV)/.stamp
JARS_STAMP := $(VENV)/.jars
CLASSES_STAMP := $(VENV)/.classes
KERNELS_STAMP := $(VENV)/.kernels
KERNELS := $(shell find replicator -name '*_kernel.py') replicator/kernels.py replicator/kernel_bytes.py
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

.PHONY: help env jars kernels classes chromium demo up test test-browser test-long test-live screenshots bench docs lint format clean

help:
	@sed -n 's/^# Targets: /make: /p' Makefile

env: $(ENV_STAMP)

$(ENV_STAMP): requirements.txt requirements-dev.txt
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] || \
	  { echo "Java 17+ is missing: install it (Debian/Ubuntu: apt-get install openjdk-17-jre-headless, Fedora: dnf install java-17-openjdk-headless, macOS: brew install openjdk@17)"; exit 1; }
	@set -e; found=""; \
	for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$candidate; break; fi; \
	done; \
	[ -n "$$found" ] || { echo "Python 3.11+ is missing: install it (Debian/Ubuntu: apt-get install python3 python3-venv, Fedora: dnf install python3.12, macOS: brew install python@3.12) or run make PYTHON=..."; exit 1; }; \
	[ -x $(PY) ] && $(PY) -m pip --version >/dev/null 2>&1 || $$found -m venv --clear $(VENV) || \
	  { echo "python3 -m venv does not work: install it (Debian/Ubuntu: apt-get install python3-venv)"; exit 1; }
	@echo "installing the Python packages of requirements.txt and requirements-dev.txt into $(VENV) (about a minute)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --requirement requirements.txt --requirement requirements-dev.txt
	@touch $@

# All jars, once, by digest (webapp/embedded/java_artifacts.py), so that no later step waits for a download.
jars: $(JARS_STAMP)

$(JARS_STAMP): $(ENV_STAMP) webapp/embedded/java_artifacts.py
	@$(PY) -m webapp.embedded.java_artifacts
	@touch $@

# The kernels, compiled once into numba's cache (replicator/kernels.py), so that no process does it when it starts.
kernels: $(KERNELS_STAMP)

$(KERNELS_STAMP): $(ENV_STAMP) $(KERNELS)
	@if [ $@ -ot replicator/kernel_bytes.py ]; then find replicator -name '*_kernel.*.nb[ic]' -delete; fi
	@$(PY) -m replicator.kernels
	@touch $@

# The classes that each JVM loads, in an archive that it maps (webapp/embedded/java_classes.py): half of its start.  Without it everything works.
classes: $(CLASSES_STAMP)

$(CLASSES_STAMP): $(JARS_STAMP) webapp/worker/java_classes.py webapp/embedded/java_classes.py
	@echo "keeping Java's classes (half a minute)"
	@$(PY) -m webapp.worker.java_classes || true
	@touch $@

chromium:
ifeq ($(CHROMIUM),)
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing chromium for the browser tests"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	else echo "Chromium is missing: install it for the browser tests (Debian/Ubuntu: apt-get install chromium)"; exit 1; fi
endif

demo: env jars kernels classes
	@exec $(PY) manage.py demo $(ARGS)

up: env jars kernels classes
	@exec $(PY) manage.py up $(ARGS)

# WORKERS pytest processes side by side, each with servers of its own.
test: env jars kernels classes chromium
	$(PY) -m pytest -ra --durations 60 -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# The pages only, in a browser: widths, colours, keyboard, axe-core.  make test-browser ARGS="-k fleet"
test-browser: env jars kernels classes chromium
	$(PY) -m pytest -ra tests/browser $(ARGS)

# The pictures in docs/screenshots, of pages filled by the browser tests' factories.
screenshots: env kernels chromium
	TIDEMARK_SCREENSHOTS=docs/screenshots $(PY) -m pytest -q tests/browser/screenshots.py

# Random histories times the whole fault list: make test-long HISTORIES=n SEED=s SOURCE=mariadb|mysql|postgres|sqlserver|oracle
# VERSION=13..18 (of postgres), tracking or secondary (of sqlserver)
# or 10.11 (of mariadb) (docs/reliability.md).
test-long: env jars kernels classes chromium
	TIDEMARK_FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(PY) -m pytest -ra -m long $(ARGS)
	TIDEMARK_FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(PY) -m pytest -ra --timeout 7200 tests/property
	$(PY) -m tests.crash --histories $(HISTORIES) --source $(SOURCE) $(if $(VERSION),--version $(VERSION)) $(if $(SEED),--seed $(SEED))

# The contract of targets or sources at a real account, which TIDEMARK_LIVE_… variables name: make test-live
# DESTINATION=snowflake or SOURCE=sqlserver (docs/live-runs.md).  What it makes it drops.
test-live: env
	@$(PY) -m $(if $(DESTINATION),tests.contract.targets.live $(DESTINATION),tests.contract.live $(SOURCE)) $(ARGS)

bench: env jars kernels classes
	$(PY) -m benchmarks $(ONLY) --source $(SOURCE)

# docs/ as a site in var/site; a warning is an error.
docs: env
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

lint: env docs
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/djangofmt --check --quiet templates
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m webapp.embedded exec -- $(PY) manage.py makemigrations --check --dry-run

format: env
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/djangofmt templates

clean:
	rm -rf $(VENV) var staticfiles .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
