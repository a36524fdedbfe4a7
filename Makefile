# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TORCH := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)

# Tests that want real data look here; they skip when it is unset.
ifneq ($(wildcard ../shared),)
export REPRI_TEST_DATA ?= $(abspath ../shared)
endif

.PHONY: demo test lint bench fuzz chaos setup clean
demo: setup
	@$(BIN)/repri demo

# One process for each core, each with one thread. The threads that share a core wait for each other too long.
test: lint
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/ty check --quiet

bench: setup
	@for name in inference extractors presets data; do $(BIN)/python benchmarks/$$name.py || exit 1; done

# Ten minutes of damaged files for every parser, and sixty kills at random moments (docs: SECURITY.md).
fuzz: setup
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.hostile.fuzz 10

chaos: setup
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.hostile.chaos 60

setup: $(VENV)/.installed

# torch first and alone: a CPU build from local wheels if pip is configured with some, else from
# PyTorch's CPU index, else whatever pip finds. The rest then takes it as it is.
$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-deps --no-index $(TORCH) 2>/dev/null \
	 || $(BIN)/python -m pip install --quiet --no-deps --index-url https://download.pytorch.org/whl/cpu $(TORCH) 2>/dev/null \
	 || $(BIN)/python -m pip install --quiet --no-deps $(TORCH)
	@PIP_CONSTRAINT=$(abspath constraints.txt) $(BIN)/python -m pip install --quiet --no-compile -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis demo
