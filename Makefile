# Everything a developer does, one line each: make help. Recipes are short; what is longer lives in hack/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-dev)
LDFLAGS  := -X github.com/espalier-dev/espalier/internal/process.Version=$(VERSION)
PACKAGES ?= ./...
KILLS    ?= 50
TOOL     := go tool -modfile=hack/tools/go.mod

##@ See it work

.PHONY: up
up: ## Start a control plane and every binary, apply an example, show drift repair
	go run ./hack/up

.PHONY: down
down: ## Stop everything that `make up` started, and remove its state
	go run ./hack/up --down

##@ Build

.PHONY: build
build: ## Build every binary into bin/
	@echo "building $(notdir $(wildcard cmd/*)) $(VERSION) into bin/"
	@mkdir -p bin
	go build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: controlplane
controlplane: ## Build etcd, API server, controller manager, scheduler, kubectl and KWOK into the cache (once per version)
	@hack/controlplane.sh

.PHONY: clean
clean: down ## Stop what runs and remove what builds left in the work tree (caches of tools stay)
	rm -rf bin .local

##@ Test

.PHONY: test
test: ## Run all tests, unit and integration, with the race detector, on real API servers (PACKAGES=./...)
	go run ./test/local/testservers run -- go test -race -timeout 30m $(PACKAGES)

.PHONY: test-unit
test-unit: ## Run the tests of all packages that need no API server
	@hack/test-unit.sh

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (20s) from its committed corpus
	@hack/fuzz.sh

.PHONY: kill
kill: ## Kill the controller 50 times (KILLS=50) at random moments and check what the next one makes of it
	CRASH_KILLS=$(KILLS) go run ./test/local/testservers run -- go test -count=1 -v -timeout 60m ./test/crash/

.PHONY: bench
bench: ## Measure against a bare client and print the table with its targets
	go run ./test/bench

.PHONY: bench-smoke
bench-smoke: ## Run the benchmark on a small workload, to see that it works
	go run ./test/bench -smoke

##@ Check

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: lint
lint: ## Run the linters of .golangci.yml, and check that the scripts parse
	@echo "checking scripts"; for script in hack/*.sh .ci/run; do bash -n "$$script"; done
	$(TOOL) golangci-lint run

.PHONY: format
format: ## Format the code as lint wants it
	$(TOOL) golangci-lint fmt

.PHONY: generate
generate: ## Write generated code, CRDs and roles
	@hack/generate.sh

.PHONY: verify-generated
verify-generated: ## Check that generated files are current (changes nothing)
	@hack/verify-generated.sh

.PHONY: tidy-check
tidy-check: ## Check that the module files are tidy (changes nothing)
	go mod tidy -diff
	cd hack/tools && go mod tidy -diff

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what the binaries link
	@hack/vulncheck.sh

.PHONY: ci
ci: ## Run everything that CI runs
	@.ci/run

##@ Help

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
