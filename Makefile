# Commands named after intentions. `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup fix check quick house test demo bench bench-setup soak services pictures vendors search peers frameworks pythons wheel nightly latest constraints docs coverage build clean ways

help: ## List these commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(BIN)/pytest ## Make .venv with everything for development

$(BIN)/pytest: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e '.[test]'
	@touch $@

fix: setup ## Format and apply the linter's safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: setup ## Lint, types, import arrows, spelling
	bash .ci/check $(BIN)

quick: setup ## The tests that what you changed is likely to break: a minute
	.ci/quick

test: setup ## Run the tests, one process on each core
	$(BIN)/pytest -n auto --dist loadfile

house: setup ## Figures of the house: lines, words, rooms, arrows, names
	$(BIN)/python .ci/house

coverage: setup ## Branch coverage of the whole product; twice as slow as the tests
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report --skip-covered

demo: setup ## The main job: a real RAG chain, scored live
	$(BIN)/ragmeter demo

bench-setup: setup ## The benchmark peers' environments, from benchmarks/peers.toml
	$(BIN)/python benchmarks/setup_peers.py

bench: setup ## Benchmarks beside the peers; writes benchmarks/RESULTS.md
	$(BIN)/python benchmarks/run.py

soak: setup ## The long fault and load suites
	RAGMETER_SOAK=$${RAGMETER_SOAK:-200000} $(BIN)/pytest -s -m "slow or not slow" tests/soak tests/faults

services: ## Tests against real backends: Phoenix, Prometheus, Zipkin, a Collector, traced applications, a real language model
	RAGMETER_REAL_MODEL=full bash .ci/services

pictures: ## Take the pictures of README and docs anew, with the words of their pages
	RAGMETER_TEST_PICTURES=docs/images bash .ci/services -k "page or phoenix or report or prometheus or zipkin"

vendors: setup ## Tests beside each vendor's tracing, set up as its own page says
	bash .ci/vendors

search: setup ## Property tests on random examples; what fails is kept as an @example
	bash .ci/search $(BIN)

peers: ## Tests beside other instrumentations and recognisers of names
	bash .ci/peers

frameworks: ## The frameworks' own test suites, with ragmeter attached and without
	bash .ci/frameworks --full

pythons: ## The tests without a framework on the other Pythons, all of them
	bash .ci/pythons --full

wheel: ## Build what a release is made of, check it, and use it on every Python
	bash .ci/wheel

nightly: ## CI with the long form of each step; once a night
	CI_LONG=1 bash .ci/run

latest: ## What CI runs first, with the newest release of everything; once a week
	CI_LATEST=1 CI_SKIP="docs wheel oldest services peers frameworks pythons" bash .ci/run

constraints: ## Write down what is installed here, for CI, after `make latest` has passed
	$(BIN)/pip freeze --exclude-editable | grep -v ' @ ' > .ci/constraints.txt
	CI_LATEST=1 $(PYTHON) tests/frameworks/run.py --freeze

ways: setup ## docs/reference/ways.md: what differs between handlers and spans, as `make peers` holds it
	$(BIN)/python tests/peers/differences.py

docs: ## The documentation site, in build/site
	bash .ci/docs

build: ## Build sdist and wheel from a clean tree
	$(PYTHON) -m pip wheel --no-deps -w dist .

clean: ## Remove what was built
	rm -rf build dist .venv .venv-* *.egg-info
