# Every target makes its own environment first; a fresh machine needs Python 3.11, make and, for
# Spark, a JDK 17. `make` alone prints what there is.

PYTHON ?= $(or $(shell command -v python3.11),python3)
WORKERS ?= 2
FUZZ_SECONDS ?= 600
SIM_SEEDS ?= 1000
BENCH_ARGUMENTS ?=
CRASH_STATES ?= 100000
MODEL_EXAMPLES ?= 1000
MODEL_STEPS ?= 50
MODEL_SEED ?= $(shell date +%s)
CHAOS_KILLS ?= 300
ORACLE_COURSES ?= 50
ORACLE_STEPS ?= 400
ORACLE_SEED ?= $(shell date +%s)
CHAOS_ROUNDS ?= 2000
CHAOS_FAULTS ?= 200
CHAOS_INCREMENTS ?= 12000
CHAOS_SPARK_JOBS ?= 56
CHAOS_SPARK_KILLS ?= 8
CHAOS_SEED ?= $(shell date +%s)
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help install demo test check format lint types layers spelling pins style sim crash model \
	chaos chaos-spark oracle coverage fuzz fuzz-short bench-kernels bench-storage bench-columns bench-rpc bench-attach \
	bench-spark bench-metastore docs clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2} \
		/^## / {printf "\n%s\n", substr($$0, 4)}' $(firstword $(MAKEFILE_LIST))

## Start here

install: ## make .venv with the pinned packages; quick when nothing changed
	@command -v $(PYTHON) >/dev/null || \
		{ echo "Stele is developed on Python 3.11, and $(PYTHON) is not on the path." >&2; exit 1; }
	@$(PYTHON) scripts/install.py

demo: install ## the store and its Spark pipeline at work, end to end
	@$(BIN)/python scripts/require_jdk.py
	@$(BIN)/python -m scripts.demo

test: check ## the gate: everything of `make check`, then every test that is not marked slow
	@scripts/install_etcd.sh || echo "The tests against a real etcd will be skipped."
	$(PYTEST) -m "not slow" -n $(WORKERS) --dist loadfile --durations 15 --durations-min 0.5

check: lint types layers spelling pins style ## format, lint, types, layers, spelling, style tests

## One thing at a time

format: install ## put the code into its format and mend what the linter can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lint: install ## fail if the format or a lint rule is broken
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: install ## mypy, strict
	$(BIN)/mypy

layers: install ## imports go downward, deciding code touches no world (import-linter)
	$(BIN)/lint-imports --no-logo

spelling: install ## codespell over code and documents
	$(BIN)/codespell

pins: install ## requirements*.txt say what pyproject.toml asks for
	$(BIN)/python scripts/pin_requirements.py --check

style: install ## lengths, mirror of src and tests, banned words, documents
	$(PYTEST) tests/style -q -p no:randomly

docs: install ## build the documentation into site/ and fail on a broken page
	$(BIN)/mkdocs build --strict --quiet

## Longer proofs

sim: install ## SIM_SEEDS simulated lives of a Raft group and of a metastore; a failure says how to replay
	$(BIN)/python -m stele.sim.raft_sim --seeds $(SIM_SEEDS)
	$(BIN)/python -m stele.sim.metastore_sim --seeds $(SIM_SEEDS)

crash: install ## CRASH_STATES states that a power failure may leave, for each durable writer
	STELE_CRASH_STATES=$(CRASH_STATES) $(PYTEST) tests/crash -n $(WORKERS) --timeout 86400

model: install ## MODEL_EXAMPLES random courses of MODEL_STEPS steps: the embedded store against a model
	STELE_MODEL_SEED=$(MODEL_SEED) STELE_MODEL_EXAMPLES=$(MODEL_EXAMPLES) \
		STELE_MODEL_STEPS=$(MODEL_STEPS) $(PYTEST) tests/model -q -s --timeout 86400

chaos: install ## CHAOS_KILLS kills, CHAOS_FAULTS faults of a metastore, CHAOS_INCREMENTS under a lock
	STELE_CHAOS_SEED=$(CHAOS_SEED) STELE_CHAOS_KILLS=$(CHAOS_KILLS) \
		STELE_CHAOS_ROUNDS=$(CHAOS_ROUNDS) STELE_CHAOS_FAULTS=$(CHAOS_FAULTS) \
		STELE_CHAOS_INCREMENTS=$(CHAOS_INCREMENTS) \
		$(PYTEST) tests/integration/engine tests/chaos -q -s --timeout 86400

chaos-spark: install ## CHAOS_SPARK_JOBS faulted jobs, CHAOS_SPARK_KILLS of each kind on a standalone Spark; Spark Connect
	@$(BIN)/python scripts/require_jdk.py
	STELE_CHAOS_SEED=$(CHAOS_SEED) STELE_CHAOS_SPARK_JOBS=$(CHAOS_SPARK_JOBS) \
		STELE_CHAOS_SPARK_KILLS=$(CHAOS_SPARK_KILLS) STELE_SPARK_MASTER="local[2,4]" \
		$(PYTEST) tests/chaos/spark tests/spark/test_connect.py tests/spark/test_standalone.py \
		-q -s -m "spark" --timeout 86400

oracle: install ## ORACLE_COURSES random courses on the metastore's state and on a real etcd
	scripts/install_etcd.sh
	STELE_ORACLE_SEED=$(ORACLE_SEED) STELE_ORACLE_COURSES=$(ORACLE_COURSES) \
		STELE_ORACLE_STEPS=$(ORACLE_STEPS) $(PYTEST) tests/oracle -q -s --timeout 3600

fuzz: install ## atheris on every decoder, FUZZ_SECONDS each
	$(BIN)/python -m tests.fuzz.driver --seconds $(FUZZ_SECONDS)

fuzz-short: install ## the part of fuzzing that is in the gate: seeded mutations of every seed
	$(PYTEST) tests/fuzz -q -s

coverage: install ## line and branch coverage of the gate, kernels aside
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not slow" -q
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

## Benchmarks

bench-kernels: install ## merge, resolve, fragments and log against Arrow, Polars and the bare disk
	$(BIN)/python -m bench.kernels $(BENCH_ARGUMENTS)

bench-storage: install ## the embedded store against RocksDB; BENCH_ARGUMENTS="--cells 1000000" for less
	$(BIN)/python -m bench.storage $(BENCH_ARGUMENTS)

bench-columns: install ## the columns layout against cells and plain Parquet
	$(BIN)/python -m bench.columns $(BENCH_ARGUMENTS)

bench-rpc: install ## requests and bytes a second of the framed RPC
	$(BIN)/python -m bench.rpc

bench-attach: install ## an attached process against the owner itself, on the same data
	$(BIN)/python -m bench.attach $(BENCH_ARGUMENTS)

bench-spark: install ## Spark over a table's files against plain Parquet; BENCH_ARGUMENTS="--sizes 1000000" for less
	@$(BIN)/python scripts/require_jdk.py
	$(BIN)/python -m bench.spark $(BENCH_ARGUMENTS)

bench-metastore: install ## the metastore against etcd; BENCH_ARGUMENTS="--grow" for keys, watchers, sessions
	scripts/install_etcd.sh
	$(BIN)/python -m bench.metastore $(BENCH_ARGUMENTS)

## Tidy up

clean: ## remove what the targets above have made, the environment too
	rm -rf .venv .etcd .fuzz .hypothesis .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache site
	find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
