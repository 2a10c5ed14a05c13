# Every target sets up what it needs in .venv, with pip and the exact versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed

.PHONY: help install demo test test-slow test-browser lint bench clean docs

help:
	@echo "make install   the package and its development tools, into $(VENV)"
	@echo "make demo      synthetic speech, three objectives, a table and a page, into ctcdro-demo; minutes"
	@echo "make test      all tests but the slow ones"
	@echo "make test-slow tests that take minutes each"
	@echo "make test-browser  the report page in Chromium, which must be there (apt-get install chromium)"
	@echo "make lint      style and types"
	@echo "make bench     benchmarks; minutes; results go to benchmarks/results"
	@echo "make docs      the documentation as a site, into site"
	@echo "make clean     remove $(VENV) and caches"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=python3.11 …')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/ctcdro demo

# A process for each core, each with one thread.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile

test: $(STAMP)
	$(PYTEST)

test-slow: $(STAMP)
	$(PYTEST) -m slow

test-browser: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt playwright
	$(BIN)/python -m pytest -m browser tests/browser

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: $(DOCS_STAMP)
	$(BIN)/mkdocs build --strict --quiet
	@echo "The site: site/index.html"

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build site src/*.egg-info
