# Two commands for a newcomer: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test check docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { \
	  echo "Python's venv module is missing: on Debian, apt install python3-venv"; exit 1; }

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[experiments]"
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

demo: $(VENV)/.demo  ## install, run the quick synthetic experiment, say where the picture is
	$(BIN)/paroli reproduce synthetic --quick

test: $(VENV)/.dev  ## install, then lint, type-check and run every test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto -q

docs: $(VENV)/.dev  ## write the generated pages
	$(BIN)/python docs/paper_to_code.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
