# Everything is installed into .venv beside this file; `make help` lists what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq --no-input

.DEFAULT_GOAL := help
.PHONY: help install demo test lint bench tables torture fuzz clean

help:
	@echo "make install   make $(VENV) and put LRGI and its pinned dependencies into it (once)"
	@echo "make demo      fit a 3-layer encoder on a generated graph and print one table"
	@echo "make test      ruff, mypy and the whole test suite"
	@echo "make lint      ruff and mypy alone"
	@echo "make bench     every benchmark in its short form, and what got slower since the last record"
	@echo "make tables    write the tables of docs/results.md again, from the records in results/"
	@echo "make torture   kill runs, break disks, damage files (long), with records; make fuzz the readers"
	@echo "make clean     remove $(VENV), caches and build outputs (runs are kept)"

install: $(STAMP)

# torch goes first and alone: asking for exactly this version lets pip take whichever build of it is at
# hand (CPU or CUDA), and nothing later can ask for another.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "LRGI needs Python 3.11 or newer, got '$$($(PYTHON) --version 2>&1)'; name another one with 'make install PYTHON=/path/to/python3'." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "This Python cannot make virtual environments; on Debian and Ubuntu run 'sudo apt install python3-venv', then make again." >&2; exit 1; }
	@echo "Installing LRGI and its pinned dependencies into $(VENV): one to ten minutes the first time, silent until done."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install -c constraints.txt torch==2.13.0 setuptools
	@$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@
	@echo "Installed: the command is $(BIN)/lrgi"

demo: install
	@$(BIN)/lrgi demo

test: lint
	@$(BIN)/python -m pytest

lint: install
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy

bench: install
	@$(BIN)/python benchmarks/short.py

tables: install
	@$(BIN)/lrgi reproduce --pages docs/results.md
	@$(BIN)/lrgi reproduce --pages docs/scale.md
	@$(BIN)/lrgi reproduce --pages docs/reliability.md
	@$(BIN)/python benchmarks/page.py docs/benchmarks.md
	@$(BIN)/python benchmarks/many_machines.py --page docs/many-machines.md >/dev/null

torture: install
	@$(BIN)/python benchmarks/torture.py --each 10 --positions 40 --record results

fuzz: install
	@$(BIN)/python benchmarks/fuzz.py --record results

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/lrgi.egg-info
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
