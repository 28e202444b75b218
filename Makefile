# Everything runs from a fresh clone with git, make and Python 3.10 or newer:
#   make demo     a small fork with planted defects, audited; installs what the command needs
#   make test     lint, types, import contracts, all tests; installs the developers' tools too
#   make bench    the measuring programs' own tests, then the scores on real releases (minutes)
#   make clean    takes all of that away
#   make PYTHON=python3.12 test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
SCORED := 0.5.9 0.5.12 0.5.18

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test bench clean

demo: $(INSTALLED)
	@rm -rf .demo
	@$(BIN)/audit demo .demo || test $$? -eq 1
	@echo "Here audit is $(CURDIR)/$(BIN)/audit; to have it on the PATH: $(PYTHON) -m pip install ." >&2

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto

bench: $(READY)
	$(BIN)/python -m pytest tests/benchmarks
	$(BIN)/python -m tests.benchmarks.score $(SCORED)

clean:
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# pip is brought up to date first: old ones cannot install a checkout in place.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("audit needs Python 3.10 or newer: make PYTHON=python3.12" if sys.version_info < (3, 10) else 0)'
	@$(PYTHON) -m venv $(VENV) || { echo "where venv is a package of its own: apt install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# The developers' tools are ten times as large as the command: only who tests waits for them.
$(READY): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
