# The doors of the project. `make test` is what continuous integration runs; docs/testing.md explains the stages.

MODELS ?= $(or $(FANLIGHT_MODELS),models-cache)
MODEL ?= $(MODELS)/smollm2-135m-instruct-q4_1.gguf
PORT ?= 8080
PROMPT ?= Write a short letter from a lighthouse keeper to the sea.

.PHONY: help demo test test-models lint web setup fetch

help:
	@echo 'make setup        install what is missing (tools, drivers, browser), fetch the default model'
	@echo 'make demo         build, let SmolLM2 answer PROMPT, and serve the chat page with it'
	@echo 'make test         every test; GPU and browser must be there'
	@echo 'make test-models  the tests with the larger real models (1 GB is fetched)'
	@echo 'make lint         formatting, clippy for both targets, docs, rules'
	@echo 'make web          build SDK and page into host-web/; serve it with: node host-web/serve.mjs'

setup:
	bash tests/setup.sh
	python3 tests/fetch_models.py --out '$(MODELS)' smollm2

fetch:
	python3 tests/fetch_models.py --out '$(MODELS)' smollm2

# The answer on the command line first, then the page until it is interrupted.
demo: setup
	@node host-web/serve.mjs --check --port $(PORT) --models '$(dir $(MODEL))' --default '$(notdir $(MODEL))'
	$(MAKE) web
	cargo build --release --package fanlight-native
	cargo run --quiet --release --package fanlight-native -- run '$(MODEL)' -p '$(PROMPT)' --temperature 0
	@echo 'The chat page, with this model one click away (Ctrl-C ends it):'
	node host-web/serve.mjs --port $(PORT) --models '$(dir $(MODEL))' --default '$(notdir $(MODEL))'

test: setup
	FANLIGHT_MODELS='$(abspath $(MODELS))' python3 tests/run_tests.py

test-models: setup
	python3 tests/fetch_models.py --out '$(MODELS)' smollm2 gemma3 qwen05
	FANLIGHT_MODELS_ALL=1 FANLIGHT_MODELS='$(abspath $(MODELS))' \
		python3 tests/run_tests.py --only native

lint:
	python3 tests/run_tests.py --only fmt clippy clippy-web docs rules

web: host-web/node_modules/.package-lock.json
	rm -rf host-web/dist host-web/sdk/dist
	cargo run --profile helper --package xtask -- web
	npm run build --prefix host-web

host-web/node_modules/.package-lock.json: host-web/package-lock.json
	npm ci --prefix host-web --no-audit --no-fund
