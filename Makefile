# make demo   install into .venv and run the main job on the embedded digits
# make test   install into .venv and run the checks and tests (minutes)
# make test-all  the same, and the slow statistical tests
# make docs   install into .venv and build the site into site/, every tutorial executed and every link checked
# make figures  draw the pictures of the documentation anew
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-all check docs figures clean

demo: $(INSTALLED)
	$(BIN)/smoothcert demo

test: check
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

test-all: test
	$(BIN)/python -m pytest -n auto --dist loadfile -m slow

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

figures: $(INSTALLED)
	$(BIN)/python tools/figures.py docs

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "smoothcert needs Python 3.11 or newer; got " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist demo site .pytest_cache .mypy_cache .ruff_cache
