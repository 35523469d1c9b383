# make demo                        what polyfuse does, in one run
# make test                        lint, types, tests
# make test EXTRAS=cuda            the same with PTX compilation; no GPU needed
# make test COUNT=yes              the same with the coverage gate; Python 3.12 or later counts lines at next to no cost
# make fuzz                        random programs against NumPy, from seed 0 on, SECONDS on each back end of a CPU
# make install | make lint | make pytest | make clean
#
# Variables: PYTHON (any interpreter from 3.11 on), EXTRAS (comma list), VENV, COVERAGE (percent that COUNT asks for),
# PYTEST (arguments), WORKERS (processes that share the tests; 0 for none, as a debugger wants it), SECONDS.

PYTHON   ?= python3
VENV     ?= .venv
EXTRAS   ?=
COVERAGE ?= 90
WORKERS  ?= auto
PYTEST   ?=
SECONDS  ?= 60

comma := ,
BIN   := $(VENV)/bin
# CPU users download no CUDA wheels: the demo asks for them only where a driver is installed.
DRIVER := $(shell command -v nvidia-smi 2>/dev/null || ldconfig -p 2>/dev/null | grep -m1 -o 'libcuda\.so\.1')

TEST_EXTRAS := dev$(if $(EXTRAS),$(comma)$(EXTRAS))
DEMO_EXTRAS := demo$(if $(DRIVER),$(comma)cuda)$(if $(EXTRAS),$(comma)$(EXTRAS))
# With the cuda extra asked for, a PTX test that cannot run fails instead of being skipped.
REQUIRE := $(if $(findstring cuda,$(EXTRAS)),--require-ptx)
# A worker that has run out of tests takes some of another's: a few tests take a minute, most take milliseconds.
PARALLEL := -n $(WORKERS) --maxprocesses 8 --dist worksteal

COUNTING := $(if $(COUNT),--cov --cov-report=term --cov-fail-under=$(COVERAGE))
# Before Python 3.12, lines are counted by a tracer, which doubles the time of the tests.
MONITORED = $(shell $(BIN)/python -c 'import sys; print("COVERAGE_CORE=sysmon" * hasattr(sys, "monitoring"))')

.PHONY: demo test install lint pytest fuzz clean
.SUFFIXES:

demo: $(VENV)/installed-$(DEMO_EXTRAS)
	$(BIN)/python examples/demo.py

test: lint pytest

install: $(VENV)/installed-$(TEST_EXTRAS)

lint: $(VENV)/installed-$(TEST_EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/mypy

pytest: $(VENV)/installed-$(TEST_EXTRAS)
	$(MONITORED) $(BIN)/python -m pytest $(PARALLEL) $(REQUIRE) $(COUNTING) $(PYTEST)

fuzz: $(VENV)/installed-$(TEST_EXTRAS)
	for backend in interpreter numba_cpu; do \
	  $(BIN)/python -m polyfuse.fuzz --seconds $(SECONDS) --seed 0 --processes 2 --backend $$backend >/dev/null || exit 1; \
	done

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'polyfuse needs Python 3.11 or later: make PYTHON=python3.11 $(MAKECMDGOALS)' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras; pip adds what is missing to the same environment.
$(VENV)/installed-%: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch '$@'

clean:
	rm -rf $(VENV) .venv-* dist build .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
