# Every target sets up what it needs in .venv, with pip and the exact versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed

.PHONY: help install demo test test-slow test-browser test-faults test-fuzz test-package test-slurm test-integrations test-with-accelerate test-with-torchdata test-durations lint bench bench-samplers clean docs reference architecture results

help:
	@echo "make install             create $(VENV) with the package and its development tools"
	@echo "make demo                run the demonstration, into ctcdro-demo; minutes"
	@echo "make lint                ruff and mypy"
	@echo "make test                unit tests and docstring examples"
	@echo "make test-durations      the same, then the 40 slowest tests"
	@echo "make test-slow           tests that take minutes each"
	@echo "make test-faults         kills, full disks, damaged files; up to an hour"
	@echo "make test-faults-with-hf_trainer  kill and resume a training script (also lightning, speechbrain); minutes"
	@echo "make test-fuzz           untrusted input; minutes"
	@echo "make test-integrations   toolkits and S3, each in its own environment (one: make test-with-lightning)"
	@echo "make test-slurm          sweeps on a Slurm cluster of this machine (apt-get install slurm-wlm munge; as root); minutes"
	@echo "make test-package        wheel, extras and notebook, in fresh environments; minutes"
	@echo "make test-browser        report, site search and page of models, in Chromium (apt-get install chromium)"
	@echo "make docs                build the documentation, into site"
	@echo "make reference           render the command-line and configuration reference from the code"
	@echo "make architecture        draw the picture in docs/project/architecture.md from the imports"
	@echo "make results             fill measured tables and draw figures, from docs/results.json"
	@echo "make bench               benchmarks, into docs/results.json; minutes"
	@echo "make bench-samplers      the batch sampler compared with those of lhotse and SpeechBrain; minutes"
	@echo "make clean               remove $(VENV) and caches"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=python3.11 …')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing PyTorch and the other packages into $(VENV); this takes a few minutes."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/ctcdro demo

# One process per core, each with one thread. The suite fails as soon as a process crashes or a test exceeds its time
# limit: 30 minutes, or 2 hours in suites whose tests take minutes.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile --max-worker-restart 0 -o faulthandler_exit_on_timeout=true -o faulthandler_timeout=1800
LONG_TESTS := -o faulthandler_timeout=7200

test: $(STAMP)
	$(PYTEST)

test-durations: $(STAMP)
	$(PYTEST) --durations 40

test-slow: $(STAMP)
	$(PYTEST) $(LONG_TESTS) -m slow

test-browser: $(DOCS_STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[serve]' playwright
	$(BIN)/python -m pytest -m browser tests/browser

test-faults: $(STAMP)
	$(BIN)/python -m pytest -m faults tests/faults
	cd tests/integrations && OMP_NUM_THREADS=1 ../../$(BIN)/python -m pytest -m faults test_accelerate.py

# Where atheris has no wheel, hypothesis alone tests the parsers.
test-fuzz: $(STAMP)
	mkdir -p build
	CTCDRO_FUZZ_EXAMPLES=300 $(PYTEST) $(LONG_TESTS) tests/fuzz
	if $(BIN)/python -m pip install --quiet --constraint constraints.txt atheris; \
		then $(BIN)/python tests/fuzz/atheris_parsers.py -runs=50000 -artifact_prefix=build/; \
		else echo "atheris has no wheel for this Python; skipped"; fi

test-package: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --constraint tests/package/requirements.txt build
	$(BIN)/python -m pytest -m package tests/package

test-slurm: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(LONG_TESTS) -m slurm tests/slurm

# Each toolkit has its own environment, .venv/with-<toolkit>, with the versions of requirements/<toolkit>.txt. Packages that
# pin old versions of others are installed without dependencies (<toolkit>-alone.txt). The extension of torchaudio does not
# load with a CPU build of torch; its Python part, which is all that the toolkits use, loads without it.
TOOLKITS := hf_trainer lightning lhotse espnet speechbrain s3
REQUIREMENTS := tests/integrations/requirements

test-integrations: $(TOOLKITS:%=test-with-%) test-with-accelerate test-with-torchdata

test-with-accelerate test-with-torchdata: test-with-%: $(STAMP)
	cd tests/integrations && OMP_NUM_THREADS=1 ../../$(BIN)/python -m pytest test_$*.py

$(TOOLKITS:%=test-with-%): test-with-%: $(VENV)/with-%/.installed
	cd tests/integrations && OMP_NUM_THREADS=1 ../../$(VENV)/with-$*/bin/python -m pytest test_$*.py

$(TOOLKITS:%=test-faults-with-%): test-faults-with-%: $(VENV)/with-%/.installed
	cd tests/integrations && OMP_NUM_THREADS=1 ../../$(VENV)/with-$*/bin/python -m pytest -m faults test_$*.py

$(VENV)/with-%/.installed: $(REQUIREMENTS)/%.txt pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --constraint constraints.txt --requirement $< --editable . pytest
	test ! -e $(REQUIREMENTS)/$*-alone.txt || \
		$(@D)/bin/python -m pip install --quiet --no-deps --requirement $(REQUIREMENTS)/$*-alone.txt
	rm -f $(@D)/lib/python*/site-packages/torchaudio/lib/_torchaudio.abi3.so
	touch $@

.SECONDARY: $(TOOLKITS:%=$(VENV)/with-%/.installed)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

bench-samplers: $(VENV)/with-samplers/.installed
	$(VENV)/with-samplers/bin/python benchmarks/run.py sampler_peers

$(VENV)/with-samplers/.installed: $(REQUIREMENTS)/lhotse.txt $(REQUIREMENTS)/speechbrain.txt

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: $(DOCS_STAMP)
	$(BIN)/mkdocs build --strict --quiet
	@echo "The site: site/index.html"

reference: $(STAMP)
	$(BIN)/python docs/render_reference.py

architecture:
	$(PYTHON) docs/draw_architecture.py

results: $(STAMP)
	$(BIN)/python docs/render_results.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site src/*.egg-info
