# Two commands do everything on a machine that has Python 3.11 or newer:
#   make demo    installs, evaluates synthetic speakers, prints where the report is
#   make test    installs, then lint, types and the fast and end-to-end tests

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HYDRA_FULL_ERROR = 1

.PHONY: install demo test fast test-all lint types format benchmark clean

install: $(VENV)/.installed

# Anew whenever the requirements changed; the weights are fetched by checksum and kept in the user's cache.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	$(BIN)/python -m pipeline fetch-models 'extractor=[ge2e,campplus]'
	touch $@

demo: install
	$(BIN)/python -m pipeline recipe=demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: install
	$(BIN)/mypy

# Types are checked beside the tests, so that no core waits.
test: install
	@$(MAKE) --no-print-directory --jobs 3 lint types fast

# Two workers: whole evaluations use all cores by themselves. No test looks at the clock; how fast things are, benchmarks say.
fast: install
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

test-all: lint types
	$(BIN)/python -m pytest -m ''

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: install
	$(BIN)/python -m tests.benchmark

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
