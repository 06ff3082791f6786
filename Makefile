# Everything a contributor needs. `make` prints this table.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/.bin
export PATH := $(BIN):$(PATH)
export GOBIN := $(BIN)

BUF_VERSION := v1.75.0
PROTOC_GEN_GO_VERSION := v1.36.12
PROTOC_GEN_CONNECT_VERSION := v1.21.1
GOLANGCI_VERSION := v2.15.0

MODULES := proto pkg services/fetcher services/writer services/state services/calferry

# The deployment's checks pull in Kubernetes and have a target of their own.
PACKAGES := $(MODULES:%=./%/...)
# These have one goroutine: the race detector finds nothing there, and takes ten to twenty times as long.
ALONE := ./pkg/ical ./pkg/plan ./pkg/pace/pacesim
# No vet, which make lint has, and nothing for debuggers: on a new machine much of the time goes into building.
TEST := go test -timeout 15m -vet=off -ldflags='-s -w'

.PHONY: help
help: ## Print this table
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

.PHONY: generate
generate: $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/protoc-gen-connect-go ## Regenerate code from proto
	cd proto && buf lint && buf generate

$(BIN)/buf:
	go install github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)
$(BIN)/protoc-gen-go:
	go install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO_VERSION)
$(BIN)/protoc-gen-connect-go:
	go install connectrpc.com/connect/cmd/protoc-gen-connect-go@$(PROTOC_GEN_CONNECT_VERSION)

# Tools are built for this machine into .bin, at the versions above.
$(BIN)/golangci-lint:
	go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

# The race detector needs cgo and a C compiler; a machine with only Go tests without it.
RACE := $(shell [ "$$(go env CGO_ENABLED)" = 1 ] && command -v "$$(go env CC)" >/dev/null && echo -race)

FEED ?=

.PHONY: run
run: ## Start everything with sample feeds, or with FEED=path-or-URL; console on http://127.0.0.1:8080
	go run ./services/calferry/cmd/calferry up --data-dir .data $(if $(FEED),--feed "$(FEED)")

.PHONY: build
build: ## Build all binaries into .out
	go build -trimpath -o .out/ ./services/calferry/cmd/... ./services/fetcher/cmd/... ./services/writer/cmd/... ./services/state/cmd/...

# What end-to-end tests need from JavaScript, at the versions of its lock file.
JS := services/calferry/e2e/js
$(JS)/node_modules/.package-lock.json: $(JS)/package-lock.json
	@if command -v npm >/dev/null; then cd $(JS) && npm ci --silent; else echo "npm not found: tests in a browser are not run"; fi

.PHONY: test
test: $(JS)/node_modules/.package-lock.json ## Run all tests; uses redis-server, chromium and node when they are there, and says what it missed
	$(TEST) $(ALONE)
	$(TEST) $(RACE) $$(go list $(PACKAGES) | grep -vxF "$$(go list $(ALONE))")
	@missing=0; \
	for tool in redis-server chromium node npm; do \
	  command -v $$tool >/dev/null || { echo "not run: tests that need $$tool"; missing=1; }; \
	done; \
	[ -n "$(RACE)" ] || { echo "not run: the race detector, which needs cgo and a C compiler"; missing=1; }; \
	[ -n "$${CALFERRY_TEST_FEEDS:-}" ] || echo "not run: real feeds (set CALFERRY_TEST_FEEDS to a folder of .ics files)"; \
	if [ "$$missing" = 1 ] && [ "$${CI:-}" = true ]; then echo "CI runs everything: install what is missing"; exit 1; fi

.PHONY: bench
bench: ## Benchmarks, each next to its baseline in the same run
	go test -run '^$$' -bench . -benchtime 1x -count 3 $(PACKAGES) 2>/dev/null | grep -E '^(Benchmark|goos|cpu|pkg|--- FAIL|FAIL)'

.PHONY: bench-pace
bench-pace: ## Whole writers next to other ways of pacing, then controllers in simulation (takes half an hour); needs redis-server
	@failed=0; \
	go test -tags closedloop -count 1 -v -timeout 30m ./services/writer/closedloop | grep --line-buffered -Ev '^(=== |redis: )' || failed=1; \
	go test -count 1 -v -timeout 10m ./pkg/pace/pacesim -run 'SmallCalendars|AQuota' -whole | grep --line-buffered -v '^=== ' || failed=1; \
	go run ./pkg/pace/cmd/pacebench -writes 142,1000 || failed=1; \
	go run ./pkg/pace/cmd/pacebench -controllers lane -writes 142 -seeds 100 || failed=1; \
	go run ./pkg/pace/cmd/pacebench -controllers lane -writes 10000 -seeds 2 || failed=1; \
	exit $$failed

# docs/verification.md has the figures of these runs.
.PHONY: chaos
chaos: ## Thousands of random histories, and real processes under random faults (takes more than an hour); needs redis-server
	CALFERRY_HISTORIES=2000 go test -count 1 -v -timeout 90m -run TestRandomHistories ./services/writer/internal/turn
	CALFERRY_E2E_SEEDS=1-72 go test -count 1 -v -timeout 90m -run TestProcessChaos ./services/calferry/e2e

FUZZTIME ?= 150s

.PHONY: fuzz
fuzz: ## Fuzz the feed reader and the mapper
	go test -run '^$$' -fuzz FuzzReader -fuzztime $(FUZZTIME) ./pkg/ical
	go test -run '^$$' -fuzz FuzzDesired -fuzztime $(FUZZTIME) ./pkg/plan

.PHONY: lint
lint: $(BIN)/golangci-lint ## Static checks, the layer rules among them
	@for m in $(MODULES); do (cd $$m && golangci-lint run ./...); done

.PHONY: fmt
fmt: $(BIN)/golangci-lint ## Format all code
	@for m in $(MODULES); do (cd $$m && golangci-lint fmt ./...); done

.PHONY: tidy
tidy: ## Tidy all modules
	@for m in $(MODULES) deploy/verify; do (cd $$m && go mod tidy); done
	go work sync

.PHONY: verify
verify: generate tidy lint ## Prove that generated code and go.mod files are current, and lint
	cd proto && buf breaking --against released.binpb
	git diff --exit-code -- proto '*.mod' '*.sum' go.work

# Debian's package of Prometheus has promtool; the service in it is not wanted.
$(BIN)/promtool:
	@mkdir -p $(BIN); if command -v promtool >/dev/null; then ln -s "$$(command -v promtool)" $@; exit; fi; \
	command -v apt-get >/dev/null || { echo "verify-deploy needs promtool on PATH; it comes with Prometheus"; exit 1; }; \
	tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; cd "$$tmp"; \
	apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq; apt-get download -qq prometheus; }; \
	dpkg -x prometheus_*.deb .; mv usr/bin/promtool $@

.PHONY: verify-deploy
verify-deploy: $(BIN)/promtool ## Prove that images, manifests, alerts, NATS permissions and scaling work; needs redis-server
	cd deploy/verify && go vet -tags deploy ./... && go test -tags deploy -timeout 25m ./...
