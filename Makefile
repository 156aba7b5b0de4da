# colibri-tui: `make chat` and `make test` do everything on a machine with Python 3.11+, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.dev

.PHONY: chat demo test lint types imports unit bench bench-peers bench-memory screenshots clean

chat: $(READY)  ## open the application on the demo model (built on first use)
	@$(BIN)/colibri-tui demo --chat

test: lint types imports unit  ## run every check

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

imports: $(DEV)
	$(BIN)/lint-imports

unit: $(DEV)
	$(BIN)/python -m engine.kernels.warm
	$(BIN)/pytest -n 2 --dist loadfile

bench: $(READY)  ## the demo model's speed beside the machine's limits
	@$(BIN)/colibri-tui demo
	@$(BIN)/colibri-tui bench demo

PEER_MODELS ?= build/peers
bench-peers: $(DEV)  ## compare with llama.cpp: llama-bench on PATH, root for memory limits, 64 GB of disk
	@$(BIN)/python -m tests.benchmarks.bench_peers --models $(PEER_MODELS) --remove

MEMORY_MODEL ?= build/olmoe-int4
bench-memory: $(DEV)  ## hold the engine to its memory plan for half an hour: root for memory limits, 4 GB of disk
	@test -d $(MEMORY_MODEL) || $(BIN)/python -m tests.benchmarks.random_model olmoe int4 $(MEMORY_MODEL)
	@$(BIN)/python -m tests.benchmarks.bench_memory $(MEMORY_MODEL) --ram 1.5 --context 2048 --pin auto

screenshots: $(DEV)  ## take the README's pictures with the real application
	$(BIN)/python -m tests.screenshots --png
	$(BIN)/python -m tests.recording

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Debian's python3 comes without ensurepip unless python3-venv is installed; pip can fill the environment itself.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "colibri-tui needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
		rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install -q pip; }

$(READY): pyproject.toml | $(VENV)/bin/python
	@echo "installing colibri-tui into $(VENV) (once, about 300 MB)"
	@$(BIN)/python -m pip install -q --upgrade pip
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install -q -e .
	@touch $@

$(DEV): $(READY) pyproject.toml
	@$(BIN)/python -m pip install -q --group dev
	@touch $@
