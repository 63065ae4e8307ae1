# Two commands: `make run` shows it, `make test` proves it. Each does its own set-up; `make help` lists the rest.

VENV   ?= .venv
BIN    := $(VENV)/bin
EDITOR := tests/editor
# The first interpreter that starts and fits; a pyenv shim may be on the path and still not start.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && echo $$python && break; done)

# One lock for every Python and machine; hashes, but no addresses: where packages come from is the reader's business.
COMPILE = .cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes $(UPGRADE) \
	--custom-compile-command "make lock"

# More processes than cores: tests of brokers and servers mostly wait.
TESTERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

export VENV PYTHON
# The tests start hundreds of processes; without bytecode on the disk each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-tests run test pytest coverage test-slow test-landing test-wheel test-dist compiled-wheel dist workflows lint format docs compiled bench bench-instructions bench-kafka bench-detection scorecard broker broker-stop lock clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.installed ## create the virtual environment with what a run needs; quick the second time

$(VENV)/.installed: deploy/setup.sh deploy/progress.sh deploy/installer.lock deploy/run.lock pyproject.toml $(wildcard stream_guard/_native/*.c)
	@bash deploy/setup.sh run
	@touch $@

setup-dev: $(VENV)/.installed-dev ## add every extra, the frameworks and the tools that the tests need

$(VENV)/.installed-dev: $(VENV)/.installed requirements.lock
	@bash deploy/setup.sh dev
	@touch $@

# What the tests need beside packages; a part that this machine cannot have is named, and its tests skip.
PARTS := tests debian promtool alertmanager editor kafka
setup-tests: setup-dev $(PARTS:%=.cache/%/.ready)

.cache/%/.ready: deploy/setup.sh
	@mkdir -p $(@D)
	@bash deploy/setup.sh $* && touch $@ || true

.cache/promtool/.ready .cache/alertmanager/.ready: | .cache/debian/.ready
.cache/editor/.ready: $(wildcard $(EDITOR)/package-lock.json)
.cache/kafka/.ready: $(wildcard tests/kafka/pom.xml) | setup-dev
.cache/tests/.ready: | setup-dev

run: setup ## show sample sessions of a refund agent and what is wrong with them; `make run STAY=1` keeps the page open
	$(BIN)/stream-guard demo $(if $(STAY),--stay)

# Beyond the limit the run is interrupted and says which tests were running (tests/crashes.py).
LIMIT := timeout --signal=INT --kill-after=120 3600

# Side by side: what is fetched comes from several places, checking types keeps one core busy, and many tests wait.
test: ## check the code and run every test that is not marked slow or long
	@$(MAKE) --no-print-directory -j2 setup-tests
	@$(LIMIT) $(MAKE) --no-print-directory -j2 lint pytest

# What failed among others runs once more, one test at a time and with the same seed; both outcomes stay in the output.
# One that finds a fault by chance finds it again; one that a busy broker did not answer in time may pass.
ONCE_MORE = || { test $$? -eq 1 && echo "once more, one at a time, what failed:" && \
	$(BIN)/pytest -n1 --dist loadgroup --randomly-seed=last --last-failed --last-failed-no-failures none -m $(1); }

FAST := "not slow and not long"
pytest: setup-dev
	$(BIN)/pytest -m $(FAST) -n $(TESTERS) --dist loadgroup --no-loadscope-reorder --durations=10 --durations-min=1 $(call ONCE_MORE,$(FAST))

# Apart: a process that counts takes two to three times as long for whatever it does.
CORE := rules unit/judge unit/policy unit/rules
coverage: setup-dev ## fail where the tests of the pure core reach less than nine tenths of it
	$(BIN)/pytest -m $(FAST) -n $(TESTERS) $(CORE:%=tests/%) --cov

test-slow: setup-tests ## run the tests that take minutes, and search with a hundred times as many examples
	$(BIN)/pytest -m slow --timeout=7200
	@$(MAKE) --no-print-directory test-landing EXAMPLES=nightly

EXAMPLES := landing
LANDING := "(hypothesis or long) and not slow"
test-landing: setup-tests ## run the long tests, and those that search by chance with five times as many examples
	export HYPOTHESIS_PROFILE=$(EXAMPLES); $(BIN)/pytest -m $(LANDING) -n $(TESTERS) --dist loadgroup $(call ONCE_MORE,$(LANDING))

test-wheel: setup-dev compiled ## hold the compiled wheel to the verdicts of the plain build, and search its native part with sanitizers
	$(BIN)/pytest -m slow tests/laws/test_compiled.py --timeout=3600
	$(BIN)/python -m tests.native.fuzz 60

test-dist: setup-dev ## build what is published for two Pythons, and install it as users do, from a local index
	$(BIN)/pytest -m slow tests/install tests/docs/test_built_site.py -n0 --timeout=3600

lint: setup-dev ## check style, types, import layers, spelling and declared dependencies
	@date +"lint begins at %T"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell
	$(BIN)/deptry .
	@date +"lint ends at %T"

format: setup-dev ## rewrite the code in the house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: setup-dev .cache/docs/.installed ## write the parts of the pages that are made from the code, and build the site into .cache/site
	$(BIN)/python -m tests.docs.generate
	@bash deploy/progress.sh "building the site" env NO_MKDOCS_2_WARNING=1 .cache/docs/bin/mkdocs build --quiet --strict
	@echo "the site begins at .cache/site/index.html"

# Beside the environment of the code: what builds pages is nothing that tests or users need.
.cache/docs/.installed: deploy/docs.lock
	"$(PYTHON)" -m venv --clear $(@D)
	@bash deploy/progress.sh "installing what deploy/docs.lock names" \
		$(@D)/bin/python -m pip install --quiet --only-binary :all: --require-hashes -r deploy/docs.lock
	@touch $@

# Beside the sources and never among them, where a compiled module would hide every later edit of its source. Each
# Python has a wheel of its own.
COMPILED := .cache/compiled/$(shell $(BIN)/python -c 'import sys; print(sys.implementation.cache_tag)' 2>/dev/null || echo none)
COMPILER := $(BIN)/python
compiled: setup ## build the compiled wheel and unpack it into .cache/compiled, in some three minutes; needs a C compiler
	@$(MAKE) --no-print-directory compiled-wheel

compiled-wheel: $(COMPILED)/.built # by a make that begins when there is a Python to ask

$(COMPILED)/.built: pyproject.toml README.md deploy/dist.sh deploy/build.lock deploy/compiled_build.py $(shell find stream_guard plugins -name '*.py' -o -name '*.c' 2>/dev/null)
	@bash deploy/dist.sh compiled $(COMPILER) $(@D)

dist: ## build and check what is published, into dist: sdist, plain wheel, a compiled wheel for each Python found; PYTHONS="3.11 3.13" chooses
	@bash deploy/dist.sh all dist

workflows: ## lint the workflows and the action
	@bash deploy/dist.sh workflows

bench: setup-dev ## measure decoding, rules, session lengths and memory; prints a table, writes JSON to .cache/bench.json
	@$(MAKE) --no-print-directory compiled || echo "there is no compiled build: only the plain one is measured"
	$(BIN)/python -m tests.bench

bench-instructions: setup-dev ## count the instructions of each part for an event; CHANGE="what moved them" keeps them; needs valgrind
	@$(MAKE) --no-print-directory compiled || echo "there is no compiled build: only the plain one is counted"
	CHANGE="$(CHANGE)" $(BIN)/python -m tests.bench instructions

bench-kafka: setup-dev ## measure the worker on a real broker against clients that do nothing; JSON to .cache/bench-kafka.json
	@$(MAKE) --no-print-directory compiled || echo "there is no compiled build: only the plain one is measured"
	$(BIN)/python -m tests.bench.kafka

bench-detection: setup-dev ## measure how well rules find what is wrong in recordings with labels; needs STREAM_GUARD_DATA
	$(BIN)/python -m tests.bench.detection

scorecard: setup-dev ## score all packs on all recordings with labels that STREAM_GUARD_DATA has; writes a page to .cache
	$(BIN)/python -m tests.bench.scorecard

broker: setup-dev ## start an Apache Kafka broker on loopback, for development; prints its address
	@$(BIN)/python -m tests.kafka.broker start

broker-stop: setup-dev ## stop that broker and remove its data
	@$(BIN)/python -m tests.kafka.broker stop

lock: ## resolve the dependencies and write the locks; `make lock UPGRADE=--upgrade` takes newer versions
	@test -x .cache/lock/bin/uv || { "$(PYTHON)" -m venv .cache/lock && .cache/lock/bin/pip install --quiet uv; }
	$(COMPILE) --extra dev --extra kafka --extra analysis --extra serve --extra postgres \
		--extra openai-agents --extra langchain --extra claude-agent --extra mcp --extra mcp-proxy --extra grpc --extra otlp --extra archives --extra sinks --extra apprise --output-file requirements.lock pyproject.toml
	echo hatchling | $(COMPILE) --extra serve --constraints requirements.lock --output-file deploy/run.lock pyproject.toml -
	$(COMPILE) --extra kafka --extra analysis --extra serve --extra postgres --extra sinks --extra apprise --constraints requirements.lock --output-file deploy/requirements.lock pyproject.toml
	echo hatchling | $(COMPILE) --extra analysis --constraints requirements.lock --output-file deploy/action.lock pyproject.toml -
	printf 'hatchling\nmypy\nsetuptools\n' | $(COMPILE) --constraints requirements.lock --output-file deploy/build.lock pyproject.toml -
	$(COMPILE) --constraints requirements.lock --output-file deploy/dist.lock deploy/dist.in
	printf 'pip\nuv\n' | $(COMPILE) --output-file deploy/installer.lock -
	echo "mkdocs-material>=9.6,<10" | $(COMPILE) --output-file deploy/docs.lock -

clean: ## remove everything that was made
	rm -rf $(VENV) .cache dist stream_guard/_native/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage $(EDITOR)/node_modules
