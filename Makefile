# make demo      compile and run a variant
# make test      lint, then the tests (a few minutes on two cores)
# make test-all  the slow tests too
# make test-seeds  every variant with twenty timings in the emulator, one CTA and pairs (half an hour)
# make test-peers  other people's kernels in the emulator (flash-attn-4; half an hour)
# make lint      ruff and pyright
# make clean     remove what these made
#
# All of them make .venv where it is missing, with Python 3.11 or newer, and touch nothing else of the machine.

VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
DEMO := attnspec/variants/gemma2_local.attn
OUT := out/gemma2_local
SMALL := b=1,h=2,hkv=1,q=200,kv=300

NO_GPU := $(shell [ "$$(uname -s)" = Linux ] && [ ! -e /dev/nvidia0 ] && ! command -v nvidia-smi >/dev/null 2>&1 && echo yes)
CONSTRAINTS := -c constraints.txt $(if $(NO_GPU),-c constraints-cpu.txt)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS)
INPUTS := pyproject.toml constraints.txt constraints-cpu.txt

.PHONY: demo test test-all test-seeds test-peers lint clean

demo: $(VENV)/installed
	@echo "== The variant: $(DEMO)"
	@cat $(DEMO)
	@echo
	@echo "== To CuTe-DSL source, PTX and cubin for sm_100a, without a GPU: attnc compile $(DEMO) -o $(OUT)"
	@$(BIN)/attnc compile $(DEMO) -o $(OUT)
	@echo
	@echo "== Forward and backward on the CPU, against a float64 oracle: attnc run $(DEMO)"
	@$(BIN)/attnc run $(DEMO)
	@echo
	@echo "== The same with a window short enough to hide keys at this length: attnc run $(DEMO) -D window=64"
	@$(BIN)/attnc run $(DEMO) -D window=64
	@echo
	@echo "== The kernel's own PTX on the CPU, in the emulator: attnc run $(DEMO) --on emulator -D window=64 --shape $(SMALL)"
	@$(BIN)/attnc run $(DEMO) --on emulator -D window=64 --shape $(SMALL)
	@echo
	@echo "Read $(OUT)/forward.py; next: $(BIN)/attnc explain gemma2_local"

test: lint
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-all: lint
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not peers and not seeds"

test-seeds: $(VENV)/installed-for-tests
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m seeds tests/backends

# flash-attn-4 comes by the extra `peers` into the same environment: under the constraints the torch that is there stays.
test-peers: $(VENV)/installed-for-peers
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m peers tests/peers

lint: $(VENV)/installed-for-tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

clean:
	rm -rf $(VENV) out build *.egg-info .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@echo "making $(VENV)"
	@for python in "$(PYTHON)" python3 python3.13 python3.12 python3.11; do \
		if [ -n "$$python" ] && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			exec "$$python" -m venv $(VENV); \
		fi; \
	done; \
	echo "no Python 3.11 or newer was found; name one: make PYTHON=/path/to/python3" >&2; exit 1

$(VENV)/installed: $(BIN)/python $(INPUTS)
	@echo "installing attnspec in $(VENV) (a minute or two the first time)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/installed-for-tests: $(BIN)/python $(INPUTS)
	@echo "installing attnspec and its tests' tools in $(VENV) (a minute or two the first time)"
	@$(INSTALL) -e '.[test]'
	@touch $(VENV)/installed $@

$(VENV)/installed-for-peers: $(VENV)/installed-for-tests
	@echo "installing the peers in $(VENV)"
	@$(INSTALL) -e '.[test,peers]'
	@touch $(VENV)/installed $(VENV)/installed-for-tests $@
