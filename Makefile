# make run: the whole method on Hunter-Z1C1, with its result.  make test: everything that checks the project.
# Both set up .venv by themselves; they need Python 3.11 or newer, make and a package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test check bench clean

run: $(READY)
	$(BIN)/protoalign run hunter-z1c1 --out runs/hunter-z1c1

test: check
	$(BIN)/pytest -n 2 --dist loadfile

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/protoalign bench

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "protoalign needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) runs .mypy_cache .pytest_cache .ruff_cache
