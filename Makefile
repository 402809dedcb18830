# Two commands do all the set-up on a machine that has only Python >= 3.11, make and git:
#   make demo   certifies the embedded deployment and prints where the report lies
#   make test   passes the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
PROJECT := pyproject.toml constraints.txt

ifdef UV
MAKE_VENV = uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)
INSTALL = uv pip install --quiet --python $(BIN)/python
else
MAKE_VENV = $(PYTHON) -m venv $(VENV)
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

.PHONY: demo test test-all lint check bench clean

demo: $(VENV)/.demo
	$(BIN)/certify demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal tests

# The slow tests, one after the other: two real engines at once would void each other's figures on two cores.
test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow tests

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

bench: $(VENV)/.dev
	for bench in benchmarks/*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

$(VENV)/.core: $(PROJECT)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Certify needs Python >= 3.11, this is %s; set PYTHON=..." % sys.version.split()[0])'
	$(MAKE_VENV)
	$(INSTALL) -c constraints.txt -e .
	@touch $@

$(VENV)/.demo: $(VENV)/.core requirements-demo.txt
	$(INSTALL) -c constraints.txt -e '.[embedded]'
	$(INSTALL) --no-deps --require-hashes -r requirements-demo.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(INSTALL) -c constraints.txt -e '.[embedded,dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
