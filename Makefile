# make test | test-all | test-gpu | gpu-code | conformance | docs | demo | bench | lint   each sets up .venv first, once.
# PyPI's torch for Linux brings CUDA; for the small CPU build:
#   make test TORCH_INDEX=https://download.pytorch.org/whl/cpu
PYTHON ?= python3
TORCH_INDEX ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install -q --no-compile -c requirements/constraints.txt
# Python compiles modules when they are first imported. pip would compile all, of which the tests import a third.
unexport PYTHONDONTWRITEBYTECODE
INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

SANITIZER := $(firstword $(shell command -v compute-sanitizer) $(wildcard /usr/local/cuda/bin/compute-sanitizer))
SANITIZED := $(addprefix tests/targets/gpu/test_,alike.py contractions.py gates.py chained.py lined_up.py libraries.py pointwise.py reduce.py scatter.py executable.py)

.PHONY: demo docs test test-all test-gpu gpu-code conformance bench lint

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2

# The tests that are marked slow, too: more types, models, instruction sets, and all blocks of the documents.
test-all: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 -m "not every_chip"

# What `make test` runs in Triton's interpreter, on this machine's GPU; skipped, with the reason, where it has none.
# The kernels' accesses to memory are checked by CUDA's own tool where that is installed.
test-gpu: $(STAMP)
	$(BIN)/python -m pytest -q tests/targets/gpu -m "device or every_chip"
	$(if $(SANITIZER),$(SANITIZER) --report-api-errors no --error-exitcode 1 $(BIN)/python -m pytest -q $(SANITIZED) -m device)

# Every kernel and configuration of target gpu for every chip; it needs no GPU.
gpu-code: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 tests/targets/gpu -m every_chip

# The whole suite of package onnx on ref and cpu; every new program is a C++ compilation, so the first run takes long.
conformance: $(STAMP)
	$(BIN)/python -m tools.conformance --write

# The site, in docs/_build/html; a warning, such as a link that leads nowhere, is an error.
docs: $(STAMP)
	$(BIN)/python -m sphinx -E -q -n -W --keep-going -b html docs docs/_build/html

demo: $(STAMP)
	$(BIN)/python -m examples.demo

bench: $(STAMP)
	$(BIN)/python -m benchmarks

lint: $(STAMP)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m pyright

# torch goes first and by itself, so that nothing else chooses its build; torchvision's build is of the same index.
$(STAMP): pyproject.toml requirements/constraints.txt requirements/no-deps.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch $(INDEX)
	$(PIP) --no-deps -r requirements/no-deps.txt $(INDEX)
	$(PIP) setuptools
	$(PIP) --no-build-isolation -e ".[torch,dev,bench]"
	@$(BIN)/python -c "import torchvision" 2>/dev/null || echo "torchvision is of another build than torch: see README.md"
	touch $@
