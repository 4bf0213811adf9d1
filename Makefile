# Every target sets up what it needs. ARGS= passes options on, as in: make run ARGS="--port 8080"
SHELL := /bin/sh
ARGS ?=
# The system's own Python; the set-up says which versions fit when this one does not.
PYTHON ?= $(firstword $(shell command -v python3 || command -v python3.13 || command -v python3.12 || command -v python3.11) python3)
VENV := .venv/bin
SOURCES := piherder stacks hosts jobs bench tests manage.py

.DEFAULT_GOAL := help
.PHONY: help demo run install upgrade uninstall test lab-test lab-up lab-down lint format bench clean require-python

help: ## Show this list
	@echo 'PiHerder: looks after a small fleet of Debian-family machines over plain SSH.'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  make \1|\2/p' Makefile | sort | while IFS='|' read -r name text; do printf '%-15s %s\n' "$$name" "$$text"; done

require-python:
	@command -v $(PYTHON) >/dev/null || { echo 'Python 3 is missing; install it with: sudo apt-get install python3' >&2; exit 1; }

demo: require-python ## Watch three hosts being backed up, a worker killed and nothing lost (ARGS=--exit to end by itself)
	@$(PYTHON) piherder/house/prepare.py --for demo $(ARGS)
	@$(VENV)/python -m piherder.demo $(ARGS)

run: require-python ## Start PiHerder on this machine (ARGS="--bind ADDRESS --port PORT")
	@$(PYTHON) piherder/house/prepare.py --for run $(ARGS)
	@$(VENV)/python -m piherder.house run $(ARGS)

install: require-python ## Install PiHerder as services of this machine (sudo; ARGS="--bind ADDRESS --port PORT --database postgresql")
	@$(PYTHON) piherder/house/begin.py install $(ARGS)

upgrade: require-python ## Put this clone in the place of the installed one (sudo; ARGS=--back goes back)
	@$(PYTHON) piherder/house/begin.py upgrade $(ARGS)

uninstall: require-python ## Remove services and program; data and backups stay (sudo; ARGS=--purge)
	@$(PYTHON) piherder/house/begin.py uninstall $(ARGS)

test: require-python ## Run every test on PostgreSQL, then on SQLite (ARGS passes options to pytest)
	@$(PYTHON) piherder/house/prepare.py --for test $(ARGS)
	@$(VENV)/python -m tests.suite $(ARGS)

lab-test: require-python ## Run the tests on real Debian hosts and a real Docker engine (as root; ARGS passes options to pytest)
	@$(PYTHON) piherder/house/prepare.py --for lab $(ARGS)
	@$(VENV)/python -m tests.suite --lab $(ARGS)

lab-up: require-python ## Start lab hosts for your own hands (ARGS="pi1 pi2 --docker")
	@$(PYTHON) piherder/house/prepare.py --for lab $(ARGS)
	@$(VENV)/python -m tests.lab up $(ARGS)

lab-down: require-python ## Remove the hosts of lab-up with all they hold
	@$(VENV)/python -m tests.lab down

lint: require-python ## Style, types, layers, migrations, deployment checks and sizes
	@$(PYTHON) piherder/house/prepare.py --for test
	$(VENV)/ruff check $(SOURCES)
	$(VENV)/ruff format --check $(SOURCES)
	$(VENV)/mypy $(SOURCES)
	$(VENV)/lint-imports
	$(VENV)/python -m tests.suite --manage makemigrations --check --dry-run
	$(VENV)/python -W error -m tests.suite --manage check --deploy --fail-level WARNING
	$(VENV)/python -m tests.shape

format: ## Put the sources into the house style
	$(VENV)/ruff check --fix $(SOURCES)
	$(VENV)/ruff format $(SOURCES)

bench: require-python ## Measure against raw Celery, plain rsync and ansible (minutes; not part of the tests)
	@$(PYTHON) piherder/house/prepare.py --for test
	@$(VENV)/python -m bench $(ARGS)

clean: ## Remove what the tools made here (never data or backups; they live outside the clone)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
