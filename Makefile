# One command for each thing one does here; `make help` lists them.

PYTHON ?= python3
ARGS ?=
# What Snakemake leaves unsaid; after ARGS, whose last option may take any number of names.
QUIET ?= --quiet host reason
BIN := .venv/bin
READY := .venv/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup run resume first-model rehearsal calibration null-controls null-models \
	calibration-experiments retrain retrain-seeds ship test test-all test-slurm bench bench-full audit check format docs site pictures lock clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 18

setup: $(READY) ## set up .venv from requirements.lock, unless it is up to date
	@echo 'Ready. Next: `make run`, which measures and draws the demo in a few minutes.'

run: $(READY) ## set up if needed, then build the targets of config.yaml (ARGS="llama-3.2 -n" adds arguments)
	$(BIN)/snakemake --cores all $(ARGS) $(QUIET)

resume: $(READY) ## after a crash: clear a lock that no live process owns, then go on (PROFILE=slurm on a cluster)
	$(BIN)/python -m anchorscope.workflow.interrupted.resume $(if $(PROFILE),--profile $(PROFILE),--cores all) $(ARGS) $(QUIET)

# ROWS: a folder of rows in place of the hub's, see resources/local-rows.yaml; N: answers measured
# of a dataset; POOL: questions asked;
# FIGURE: first-model-chat for the same model under its chat template.
# GEMMA=1: Gemma 3 270M as well, which says that you accept its terms of use.
ROWS ?=
N ?=
POOL ?=
GEMMA ?=
TERMS := https://ai.google.dev/gemma/terms
FIGURE ?= first-model
FIRST_MODELS := $(addprefix results/first-model/,SmolLM2-135M-Instruct.Q4_1 $(if $(filter 1,$(GEMMA)),gemma-3-270m-q4_k_m))
FIRST_FILES = resources/first-model.yaml $(if $(ROWS),resources/local-rows.yaml) $(if $(filter 1,$(GEMMA)),resources/first-model-gemma.yaml)
FIRST_KEYS = $(if $(ROWS),data_folder=$(ROWS)) $(if $(N),sample_size=$(N)) $(if $(POOL),pool_size=$(POOL))

first-model: $(FIRST_MODELS) ## measure SmolLM2-135M-Instruct on real questions, 20 minutes on two idle cores (ROWS=<folder> instead of the hub, N=300 of each dataset, GEMMA=1 beside Gemma 3 270M)
	@$(if $(filter 1,$(GEMMA)),,echo 'GEMMA=1 adds Gemma 3 270M, if you accept its terms of use: $(TERMS)')
	$(BIN)/snakemake --cores all $(FIGURE) $(ARGS) --configfile $(FIRST_FILES) $(if $(ROWS)$(N)$(POOL),--config $(FIRST_KEYS)) $(QUIET)

$(FIRST_MODELS): %: %.gguf
	$(BIN)/anchorscope convert $< $@
	@touch $@

$(addsuffix .gguf,$(FIRST_MODELS)): $(READY)
	$(BIN)/python -m tools.first_model $@ $(if $(filter 1,$(GEMMA)),--accept-terms)
	@touch $@

# N: rows of each dataset; LAYERS: of each model (0: all, which is the default on a GPU);
# FULL=1: all cells of the three figures.
LAYERS ?=
FULL ?=
REHEARSED = $(if $(N),--samples $(N)) $(if $(LAYERS),--layers $(LAYERS)) $(if $(filter 1,$(FULL)),--full)
GENERATED := results/rehearsal/answers/llama-3.2-1b/generated.parquet

rehearsal: $(READY) ## run the published figures with everything real but the weights, on the rows of ROWS=<folder> (N=40, LAYERS=2, FULL=1)
	@test -n '$(ROWS)' || { echo 'make rehearsal needs rows: ROWS=<folder>, see resources/local-rows.yaml'; exit 1; }
	$(BIN)/python -m tools.rehearsal --rows '$(ROWS)' $(REHEARSED)
	$(BIN)/snakemake --cores all all $(GENERATED) $(ARGS) --configfile resources/rehearsal.yaml results/rehearsal/cells.yaml $(QUIET)

# The run that compares the instrument with known truth: the same rules under its own config.
TRUTH = $(BIN)/snakemake --cores all $@ $(ARGS) --configfile validation/calibration.yaml $(QUIET)
TABLE = @echo results/calibration/tables/$@.csv

null-models: $(READY) ## make the models and rows of null controls that are not shipped
	$(TRUTH)

calibration: null-models ## compare the instrument with known truth, and look for false claims
	$(TRUTH)
	$(TABLE)

null-controls: null-models ## look for false claims where most or all claims are false
	$(TRUTH)
	$(TABLE)

calibration-experiments: null-models ## compare every experiment with known truth
	$(TRUTH)
	$(TABLE)

retrain: $(READY) ## make the calibration models and their rows anew
	$(TRUTH)

retrain-seeds: $(READY) ## train the calibration models that differ in the seed alone
	$(TRUTH)

ship: $(READY) ## put the trained calibration models and their rows into resources/
	$(BIN)/python -m tools.ship

# Files, not single tests, go to the processes: what needs a finished run shares it within its file.
# They go in the order of tests/conftest.py, the longest first, not those with most tests first.
PARALLEL := -n logical --dist loadfile --no-loadscope-reorder

test: $(READY) ## set up if needed, then run the tests, in parallel (ARGS="-k seal" chooses some)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-all: $(READY) ## all that `test` leaves out, too: long tests, 500 property cases, a SLURM cluster
	PROPERTY_CASES=500 LONG_TESTS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) $(ARGS)
	$(MAKE) test-slurm

audit: ## hold requirements.lock against the known weaknesses, with pip-audit in build/audit
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit
	build/audit/bin/pip-audit --no-deps --disable-pip --requirement requirements.lock

test-slurm: $(READY) ## start a SLURM cluster of one node on this machine, and test on it
	SLURM_TESTS=1 $(BIN)/python -m pytest tests/workflow/test_slurm.py $(ARGS)

bench: $(READY) ## time every stage beside other ways to the same numbers, at most 15 minutes
	$(BIN)/python benchmarks/bench.py $(ARGS)

bench-full: $(READY) ## the same beside other projects, set up under build/peers
	$(BIN)/python benchmarks/bench.py --peers $(ARGS)

check: $(READY) ## formatters, linters, type checker, generated files; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check Snakefile workflow rules validation/*.smk
	$(BIN)/snakemake --lint
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.envs --check

format: $(READY) ## format all code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow rules validation/*.smk

docs: $(READY) ## write the schema and the reference page of config.yaml, and the columns of the experiments
	$(BIN)/python -m tools.write_docs

site: $(READY) ## build docs/ as a site in build/site; warnings are errors
	$(BIN)/python -m mkdocs build --strict

pictures: $(READY) ## build the figures that README and docs show, and draw docs/images from them
	$(BIN)/python docs/pictures.py $(ARGS)

# Numbers depend on torch, so its version changes only on purpose.
TORCH ?= $(shell grep '^torch==' requirements.lock)

lock: ## pin the newest versions, torch kept (TORCH=torch==2.14.0 changes it); write envs/
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet 'setuptools>=77' '$(TORCH)'
	build/lock/bin/python -m pip install --quiet --no-build-isolation '.[dev,gguf,slurm]' '$(TORCH)'
	build/lock/bin/python -m pip freeze --all > build/lock/frozen.txt
	build/lock/bin/python -m tools.envs --lock < build/lock/frozen.txt
	build/lock/bin/python -m tools.envs
	rm -rf build/lock

clean: ## say what can be made again and how much room it takes, then remove it (YES=1: unasked)
	@$(PYTHON) -m tools.clean $(if $(filter 1,$(YES)),--yes)

# torch first: it is by far the largest, and an interrupted set-up need not fetch it again.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; name one: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12")'
	@echo "Setting up .venv: $$(grep -c == requirements.lock) packages, 7 GB with CUDA, 2 GB without."
	@echo "1 of 4: the environment (10 seconds)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "2 of 4: torch (1 to 10 minutes, mostly its download)"
	@$(BIN)/python -m pip install --quiet "$$(grep '^torch==' requirements.lock)"
	@echo "3 of 4: the other packages (1 to 3 minutes)"
	@$(BIN)/python -m pip install --quiet -r requirements.lock
	@echo "4 of 4: anchorscope (10 seconds)"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q anchorscope
	@touch $@
