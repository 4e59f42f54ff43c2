# What a person runs here. `make` alone lists it; ARGS="..." is handed on to the command.

PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/.installed-run
DEV := .venv/.installed-dev
TIERS := $(wildcard $(addprefix tests/,unit store engine model backends simulation schedules acceptance agents chaos faults kubernetes browser))
# The tiers that also run on the oldest PostgreSQL that Debian has; --database-only leaves out their tests without a database.
OLD_POSTGRES_TIERS := $(wildcard $(addprefix tests/,store engine backends simulation acceptance/test_coolify_installation.py))
BENCH := .venv/.installed-bench

# A virtual environment works only where it was made; a copied or moved checkout needs its own.
MOVED := $(shell test ! -e .venv/.home || test "$$(cat .venv/.home)" = "$$PWD" || echo moved)

export PYTHON
# Processes start faster with compiled modules, and the tests start hundreds of them.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help up demo agent test test-long soak simulate check bench docs reference pictures sbom release clean moved

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(RUN) ## Start Botpool here: database, API, dashboard and pools of local processes
	@$(BIN)/botpool up $(ARGS)

demo: $(RUN) ## Watch a busy morning: a queue, a crash that is recovered; ARGS=--coolify on Coolify
	@$(BIN)/botpool demo $(ARGS)

agent: ## Build the wrapper botpool-agent, a static binary (needs Go)
	@scripts/build-agent
	@ls -l packages/agent-go/botpool-agent

test: $(DEV) ## Install what the tests need and run all of them
	@scripts/install-test-packages
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest -m "not long and not alone" --durations=10 -n 4 --dist worksteal $(ARGS) $(TIERS)
	@$(BIN)/python -m pytest -m "alone and not long" --durations=10 $(ARGS) $(TIERS)
	@BOTPOOL_TEST_POSTGRES=15 $(BIN)/python -m pytest -m "not long and not alone" --database-only --simulations=10 \
		--durations=10 -n 4 --dist worksteal $(ARGS) $(OLD_POSTGRES_TIERS)
	@$(BIN)/python -m bench --small

test-long: $(DEV) ## Run the tests that take minutes each: chaos, more seeds, faults on PostgreSQL 15
	@scripts/install-test-packages
	-@scripts/build-kubernetes --kwok > /dev/null
	@# A failed stage does not keep the others from running.
	@failed=0; \
	$(BIN)/python -m pytest -m "long and not alone" --durations=15 -n 3 --dist worksteal $(ARGS) $(TIERS) || failed=1; \
	BOTPOOL_TEST_POSTGRES=15 $(BIN)/python -m pytest -m "not long and not alone" --fault-seed=2 --durations=5 -n 3 --dist worksteal \
		$(ARGS) tests/faults || failed=1; \
	$(BIN)/python -m pytest -m "long and alone" --durations=15 $(ARGS) $(TIERS) || failed=1; \
	exit $$failed

soak: $(DEV) ## Run for hours: an hour of random requests, a million cycles, ten thousand schedules
	@scripts/install-test-packages
	@BOTPOOL_TEST_SOAK=1 $(BIN)/python -m pytest -m soak --durations=15 $(ARGS) $(TIERS)

simulate: $(DEV) ## Run schedules by seed: make simulate SEEDS=0-999; one seed is printed step by step
	@$(BIN)/python -m tests.schedules.simulate $(or $(SEEDS),0-199)

check: $(DEV) ## Format, lint, types and import rules
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }

bench: $(BENCH) ## Measure against PostgreSQL and peers, some eleven minutes; ARGS=--small a minute
	@scripts/install-test-packages
	@$(BIN)/python -m bench $(ARGS)

docs: $(DEV) ## Build the documentation into site/; a broken link fails
	@$(BIN)/sphinx-build -q -n -W --keep-going -b html -d .venv/doctrees docs site
	@echo "Open site/index.html"

reference: $(DEV) ## Rewrite the pages in docs/ that are generated from the code
	@for script in scripts/*-reference scripts/*-table; do $(BIN)/python $$script || exit 1; done

pictures: $(DEV) ## Renew the pictures in docs/ from the tests that take them
	@scripts/install-test-packages
	@BOTPOOL_KEEP_PICTURES=1 $(BIN)/python -m pytest -q tests/browser/test_dashboard_screenshots.py -k fits_the_width
	@BOTPOOL_KEEP_PICTURES=1 $(BIN)/python -m pytest -q tests/acceptance/test_traces.py

sbom: .venv/.installed-sbom ## List the packages that Botpool installs, as a CycloneDX file in dist/
	@mkdir -p dist
	@PYTHONWARNINGS=ignore .venv/sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-file dist/botpool.cdx.json requirements/run.txt
	@echo "Wrote dist/botpool.cdx.json"

release: $(DEV) .venv/.installed-sbom ## Build the files of a release from HEAD into dist/, reproducibly (needs Go and npm)
	@$(BIN)/python scripts/release

.venv/.installed-sbom: $(RUN) requirements/sbom.txt
	@$(BIN)/python -m venv .venv/sbom
	@.venv/sbom/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/sbom.txt
	@touch $@

clean: ## Remove the virtual environment and caches; your data in .botpool stays
	@rm -rf .venv build dist site artefacts .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests bench scripts -name __pycache__ -prune -exec rm -rf {} +

$(RUN): requirements/run.txt scripts/install $(if $(MOVED),moved)
	@scripts/install run

$(BENCH): requirements/run.txt requirements/dev.txt requirements/bench.txt scripts/install $(if $(MOVED),moved)
	@scripts/install bench

$(DEV): requirements/run.txt requirements/dev.txt scripts/install $(if $(MOVED),moved)
	@scripts/install dev
