# make report   set up .venv if it is not there, then profile and report the main case
# make test     set up, then run all tests
# make bench    measure every promise about speed and write docs/performance.md; takes about twenty minutes
# make soak     fifty kills, a thousand cases, a full disk, no memory, a gigabyte printed: half an hour or so, partly as root
# make nightly-demo   ten nights of small CPU goldens, one of which becomes slower, and their page

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
REPORT := reports/attention_golden/perf_p0_small.md

.PHONY: report test lint bench soak nightly-demo clean-venv

report: $(READY)
	$(BIN)/snakemake -j1 $(REPORT)
	@echo && cat $(REPORT)

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

soak: $(READY)
	$(BIN)/python benchmarks/soak.py

lint: $(READY)
	$(BIN)/python -m pytest tests/test_style.py

bench: $(READY)
	$(BIN)/python -m benchmarks --write docs/performance.md

nightly-demo: $(READY)
	$(BIN)/python benchmarks/nightly_demo.py

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "goldenprof needs Python 3.11 or newer; give its path: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[dev]'
	@touch $@

clean-venv:
	rm -rf $(VENV)
