# All tasks of a developer; `make help` lists them with one line each. Recipes are short; longer scripts are in hack/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

ifndef VERSION
# It is expanded once, and exported, so that all commands and sub-makes of a target use the same version, whatever is changed meanwhile.
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-dev)
endif
export VERSION
LDFLAGS  := -X github.com/espalier-dev/espalier/internal/process.Version=$(VERSION)
PACKAGES ?= ./...
KILLS    ?= 50
SOAK     ?= 1h
PARALLEL ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
BINARIES ?=
BASE     ?= HEAD
GENERATE ?= 2m
BENCH    ?= binaries
GARDEN   ?= garden
TOOL     := go tool -modfile=hack/tools/go.mod

# The flags of hack/goflags.sh, which scripts source.
export CGO_ENABLED := 0
export GOFLAGS     := $(shell . hack/goflags.sh && echo $$GOFLAGS)

##@ See it work

.PHONY: up
up: ## Start a control plane and every binary, apply examples, show what each does
	go run ./hack/up

.PHONY: up-node
up-node: ## Start a cluster with one real node (Linux, root), with an image of every binary imported
	go run ./hack/upnode check
	$(MAKE) --no-print-directory images
	go run ./hack/upnode

.PHONY: up-garden
up-garden: up-node ## Make that node a runtime cluster, with programs of others built from their modules, and create a Garden, with SEED=true also a Seed, with HA=true highly available, with OBSERVABILITY=true with monitoring and logs (Linux, root)
	go run ./hack/upgarden -version $(VERSION) $(if $(KUBERNETES),-kubernetes $(KUBERNETES)) $(if $(SEED),-seed) $(if $(HA),-ha) \
	  $(if $(OBSERVABILITY),-observability) \
	  $(if $(RESOURCE_MANAGER),-resource-manager $(RESOURCE_MANAGER))

.PHONY: down
down: ## Stop everything that `make up`, `make up-node` and `make up-garden` started, and remove its state
	@status=0; go run ./hack/upnode down || status=1; go run ./hack/up --down || status=1; exit $$status

##@ Build

.PHONY: build
build: ## Build every binary into bin/
	@echo "building $(notdir $(wildcard cmd/*)) $(VERSION) into bin/"
	@mkdir -p bin
	go build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: images
images: ## Build an image of every binary into .local/images (no container engine needed)
	go run -C hack/images . -root $(CURDIR) -out $(CURDIR)/.local/images -version $(VERSION) $(BINARIES)

.PHONY: krew
krew: ## Build kubectl-espalier for PLATFORMS, and its manifest for Krew, into .local/krew (KREW_URL: address of the archives)
	@hack/krew.sh

.PHONY: controlplane
controlplane: ## Build etcd, API server, controller manager, scheduler, kubectl and KWOK into the cache (once per version)
	@hack/controlplane.sh

.PHONY: clean
clean: down ## Stop what is running and remove build output from the work tree (caches of tools stay)
	rm -rf bin .local

##@ Test

# The race detector does not watch what these packages read and write themselves, unless UNWATCHED is empty. They encode and decode JSON and
# YAML, and to watch them takes a fifth of the processor time of all tests. It does watch what they read and write through package reflect,
# and all maps. -l: they must not inline functions such as those of sync.Map, which the race detector has to see. So list no package that
# calls sync/atomic itself. With the experiment sizespecializedmalloc, code that is not watched would hide allocations from the detector.
UNWATCHED ?= $(if $(findstring sizespecializedmalloc,$(shell go list -f '{{context.ToolTags}}' runtime)),,$(CODECS))
CODECS    := encoding/json sigs.k8s.io/json/... go.yaml.in/...

# RACE: the packages that the race detector watches; none, some (whose code or tests start goroutines, and every sixth of the others) or
# all. Crash points are what `make crash` is for.
RACE ?= none
TEST  = UNWATCHED="$(UNWATCHED)" PARALLEL=$(PARALLEL) go run ./test/local/testservers run -- hack/test.sh
.PHONY: test
test: ## Run all tests but crash points, on real API servers, and list the slowest packages (PACKAGES=./..., RACE=some|all)
	SKIP='^TestCrash' RACE=$(RACE) $(TEST) $(PACKAGES)

.PHONY: test-changed
test-changed: ## Run the tests of the packages that depend on what has changed since a commit (BASE=HEAD: what is not committed)
	@packages=$$(hack/changed.sh $(BASE)); [ -z "$$packages" ] || { set -x; SKIP='^TestCrash' RACE=$(RACE) $(TEST) $$packages; }

.PHONY: test-cost
test-cost: ## Run all tests, and report the processor time by kind of process and by package
	go run ./test/cost -- $(MAKE) --no-print-directory test

.PHONY: steady
steady: ## Run all tests of the commit RUNS (10) times in a clean clone, and append each result to a table (BUSY=2: beside two busy loops)
	@hack/steady.sh $${RUNS:-10}

.PHONY: e2e
e2e: ## Deploy the shipped manifests into a cluster with a real node, and test them there (E2E_CLUSTER=node or kind; docs/e2e.md)
	@hack/e2e.sh -labels '!faults && !upgrade && !garden'

.PHONY: e2e-smoke
e2e-smoke: ## Run the fast ones of these tests
	@hack/e2e.sh -labels smoke

.PHONY: e2e-matrix
e2e-matrix: ## Run the fast tests once without each binary
	@hack/e2e.sh -matrix -labels smoke

.PHONY: e2e-faults
e2e-faults: ## Stop parts of the cluster, upgrade and go back, all under load; print a table of the effects
	@hack/e2e.sh -labels 'faults || upgrade' faults upgrade

.PHONY: fights
fights: ## Let the controllers of Kubernetes and a kubelet complete objects of all kinds for FIGHTS (10m); no write and no request may follow
	@hack/e2e.sh -labels fights managedresource-controller

.PHONY: e2e-garden
e2e-garden: up-garden ## Test the Garden of `make up-garden`: data, faults with the time to recover, kills of the operator (GARDEN=garden: label filter)
	KUBECONFIG=$(CURDIR)/.local/node/kubeconfig E2E_VERSION=$(VERSION) \
	  go test -tags e2e -count=1 -vet=off -v -timeout 4h ./test/e2e/garden-operator \
	  -ginkgo.v -ginkgo.no-color -ginkgo.timeout 4h -ginkgo.label-filter='$(GARDEN)'

.PHONY: test-unit
test-unit: ## Run the tests that need no API server
	@hack/test-unit.sh

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (20000x: that many inputs, or a time) from its committed corpus
	@hack/fuzz.sh

.PHONY: crash-sample
crash-sample: ## Disconnect and kill controllers at a sample of their requests, with a sample of the faults (CRASH_SEED=1 chooses it)
	CRASH_SEED=$${CRASH_SEED:-1} RUN='^TestCrash' RACE=$(RACE) $(TEST) $$(hack/packages.sh TestCrash)

.PHONY: generators
generators: ## Run tests with cases that they generate, for GENERATE (2m) each (GENERATE_SEED=1 chooses the cases)
	GENERATE=$(GENERATE) GENERATE_SEED=$${GENERATE_SEED:-1} RUN='^TestGenerated' $(TEST) $$(hack/packages.sh TestGenerated)

# The corpus of manifests is in internal/managedresource/managedresourcetest/corpus.
.PHONY: mistakes
mistakes: ## Make MISTAKES (200) generated mistakes in every manifest of the corpus, and 300 in Secrets of sets; none may delete too much
	MISTAKES=$${MISTAKES:-200} GENERATE_SEED=$${GENERATE_SEED:-1} RUN='^TestGeneratedMistakes' $(TEST) ./internal/managedresource/applier

.PHONY: drift
drift: ## Make every edit of the corpus as another client; each must be repaired and planned, or be on the list of those that stay (GENERATE_SEED=1)
	DRIFT=all GENERATE_SEED=$${GENERATE_SEED:-1} go run ./test/local/testservers run -- \
	  go test -count=1 -vet=off -v -timeout 120m -run '^TestGeneratedDrift' ./internal/managedresource/applier

.PHONY: yaml
yaml: ## Read documents with each break and encoding that YAML knows, for GENERATE (2m); none may be dropped (GENERATE_SEED=1 chooses them)
	GENERATE=$(GENERATE) GENERATE_SEED=$${GENERATE_SEED:-1} go test -count=1 -vet=off -v -timeout 60m \
	  -run '^TestGenerated.*YAML|^TestDocumentsAreRead' ./internal/apply/manifest | grep -vE '^ *(=== |--- PASS.*/)'

.PHONY: rotations
rotations: ## Run INTERLEAVINGS (10000) random orders of rotations, crashes, losses and restores of keys (GENERATE_SEED=1 chooses them)
	INTERLEAVINGS=$${INTERLEAVINGS:-10000} GENERATE_SEED=$${GENERATE_SEED:-1} \
	  go test -count=1 -vet=off -v -timeout 60m -run '^TestGeneratedInterleavings' ./internal/garden/rotation | grep -vE '^ *(=== |--- PASS.*/case)'

.PHONY: orders
orders: ## Run ORDERS (200) random orders of the same events on API servers (GENERATE_SEED=1 chooses them)
	ORDERS=$${ORDERS:-200} GENERATE_SEED=$${GENERATE_SEED:-1} go run ./test/local/testservers run -- \
	  go test -count=1 -vet=off -v -timeout 240m -run '^TestGeneratedOrders' ./internal/garden/lifecycle | grep -vE '^ *(=== |--- PASS.*/case)'

# All crash points of a whole Garden take hours, so `make crash` tries those of its parts.
CRASHED ?= $$(hack/packages.sh TestCrashPoints ./internal/... | grep -vx ./internal/garden/lifecycle)
.PHONY: crash
crash: ## Disconnect the controller at every request of every scenario, and inject every fault (CRASH_SAMPLE=100 runs a sample)
	CRASH_SAMPLE=$${CRASH_SAMPLE:-0} CRASH_RANDOM=$${CRASH_RANDOM:-100} CRASH_FAULTS=$${CRASH_FAULTS:-all} go run ./test/local/testservers run -- \
	  bash -c 'go test -count=1 -vet=off -v -timeout 120m ./test/crash/points && go test -count=1 -vet=off -v -timeout 120m ./test/crash/faults && go test -count=1 -vet=off -v -timeout 120m -run ^TestCrashPoints $(CRASHED)'

.PHONY: kill
kill: ## Kill managedresource-controller and garden-operator 50 times each (KILLS=50) at random moments and check the result of the next process
	CRASH_KILLS=$(KILLS) go run ./test/local/testservers run -- go test -count=1 -vet=off -v -timeout 60m -run '^TestCrashKills' ./test/crash/kill ./internal/garden

.PHONY: bench
bench: ## Measure against a bare client, and sets with a ServiceAccount against sets without; print the tables with their targets
	go run ./test/bench workloads
	go run ./test/bench identity

.PHONY: bench-smoke
bench-smoke: ## Run every benchmark on a small workload, to check that it works
	go run ./test/bench all -smoke

.PHONY: bench-binaries
bench-binaries: ## Measure the other binaries, each against a bare client (BENCH=token for one of them; go run ./test/bench lists them)
	for each in $(BENCH); do go run ./test/bench $$each || exit 1; done

.PHONY: bench-latency
bench-latency: ## Measure the delay between a Deployment's status and the conditions
	go run ./test/bench latency

.PHONY: bench-scale
bench-scale: ## Measure 10,000 and 50,000 objects, two clusters, and 80,000 foreign Secrets (takes most of an hour)
	go run ./test/bench scale

.PHONY: soak
soak: ## Change everything for SOAK (1h) and fail if the controller grows
	go run ./test/bench soak -length $(SOAK) -enforce

##@ Check

.PHONY: vet
vet: ## Run go vet
	go vet -tags e2e ./...

.PHONY: lint
lint: ## Run the linters of .golangci.yml, and check that scripts parse and comments use nouns
	@echo "checking scripts"; for script in hack/*.sh hack/*/*.sh .ci/run; do bash -n "$$script"; done
	@echo "checking comments"; go run ./hack/prose
	$(TOOL) golangci-lint run

.PHONY: format
format: ## Format the code as the linters require
	$(TOOL) golangci-lint fmt

.PHONY: generate
generate: ## Write generated code, CRDs and roles
	@hack/generate.sh

.PHONY: screens
screens: ## Write the screens in docs/kubectl-espalier.md from a real run, and the list of attacks in docs/reference/attacks.md
	go run ./test/local/testservers run -- \
	  go test -count=1 -run '^(TestReaders|TestThePageListsTheAttacks)$$' ./test/kubectl ./internal/managedresource/applier -update

.PHONY: rights
rights: ## Record which rights the tests of a family use, and write the table of rights (FAMILY=csr: internal/csr)
	@[ -d "internal/$(FAMILY)" ] && [ -n "$(FAMILY)" ] || { echo 'error: name a folder of internal/: make rights FAMILY=csr' >&2; exit 2; }
	go run ./test/rights -record internal/$(FAMILY) -apiserver --feature-gates=WatchList=false -- \
	  go run ./test/local/testservers run -- go test -ldflags=-w -vet=off -count=1 -timeout 30m ./internal/$(FAMILY)/...

.PHONY: restarts
restarts: ## List the workloads of a Garden that restart compared with the last release (BASE=v1.0.0: another one; BASE=HEAD: what is not committed)
	@go run ./hack/restarts -base "$(BASE)"

.PHONY: release-notes
release-notes: ## Print the notes of the next release: its section of the change log, and the workloads of a Garden that restart
	@go run ./hack/restarts -notes -base "$(BASE)"

.PHONY: garden-crds
garden-crds: ## Copy the CRDs of other projects that garden-operator deploys from their Go modules
	@hack/garden-crds.sh

.PHONY: verify-generated
verify-generated: ## Check that generated files are current (changes nothing)
	@hack/verify-generated.sh

.PHONY: tidy-check
tidy-check: ## Check that the module files are tidy (changes nothing)
	go mod tidy -diff
	cd hack/tools && go mod tidy -diff
	cd test/deploy && go mod tidy -diff

.PHONY: deploy-check
deploy-check: ## Compare kustomizations and Helm chart object by object, and install, upgrade and remove the chart
	go run ./test/local/testservers run -- go test -C test/deploy -count=1 .

.PHONY: images-check
images-check: ## Check that repeated builds give the same images, and that images contain only a binary
	go test -C hack/images -count=1 .

.PHONY: alerts-check
alerts-check: ## Check alerts and dashboard: promtool with unit tests, structure, documentation
	@hack/alerts-check.sh

.PHONY: alerts-update
alerts-update: ## Write the PrometheusRule from the rule file of the alerts
	go test -C hack/prometheus -tags remove_all_sd -run TestPrometheusRule -update .

.PHONY: dashboard-check
dashboard-check: ## Check that every query of the dashboard has data from `make up` (which is started and stopped if it is not running)
	@hack/dashboard-check.sh

.PHONY: vulncheck
vulncheck: ## Check the modules that the binaries link for known vulnerabilities
	@hack/vulncheck.sh

.PHONY: ci
ci: ## Run everything that CI runs
	@.ci/run

##@ Help

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
