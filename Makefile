# One word per habit. Needs Python 3.10+ with venv and pip, a C++20 compiler and make; everything else goes into .venv.

PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin/python
BUILD  := build/dev

.PHONY: build test test-long lint format bench faults clean
.DEFAULT_GOAL := build

# The package in editable form, compiled into build/dev, with what tests and lint need. Run again after changing csrc/.
build: $(VENV)/ready
	CMAKE_ARGS="$(CMAKE_ARGS) -DPYSPEC_BUILD_TESTS=ON" $(VENV)/bin/pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --config-settings=build-dir=$(BUILD) --editable .

$(VENV)/ready: pyproject.toml tools/requirements.py
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --upgrade pip
	$(RUN) tools/requirements.py > $(VENV)/requirements.txt
	@echo "Installing what the build and the tests need; llama-cpp-python is compiled, which takes minutes."
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.txt
	touch $@

# Everything that takes seconds: what continuous integration runs.
test: build
	$(VENV)/bin/pyspec-cli fetch smollm2
	$(RUN) -m pytest -m "not long" $(ARGS)

# Everything. Tests of models that are not in the cache say so: fetch them first with `pyspec-cli fetch`.
test-long: build
	$(VENV)/bin/pyspec-cli fetch smollm2
	$(RUN) -m pytest $(ARGS)

lint: $(VENV)/ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/clang-format --dry-run -Werror $$(find csrc tests tools -name '*.h' -o -name '*.c' -o -name '*.cpp')

format: $(VENV)/ready
	$(VENV)/bin/ruff check --fix --exit-zero .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $$(find csrc tests tools -name '*.h' -o -name '*.c' -o -name '*.cpp')

# For example: make bench ARGS="tn --model smollm2"
bench: build
	$(RUN) -m tools.bench $(ARGS)

# Break the code in known ways and see that a test notices each (part of test-long).
faults: build
	$(RUN) -m tools.faults $(ARGS)

clean:
	rm -rf build dist .venv third_party .mypy_cache .pytest_cache .ruff_cache
