# Fairway. "make help" lists the targets.
GO ?= go
FUZZTIME ?= 10s
DATA ?= pollux-artifact/simulator

# All targets compile with the same flags, so that they share what is compiled, with other
# checkouts too: everything is static, as it is released, apart from what runs with the race
# detector, which needs cgo.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
export CGO_ENABLED := 0

VERSION := $(shell sed -n 's/^const Release = "\(.*\)"$$/\1/p' daemon/version.go)

# The same draws in every run, so that a red test speaks of the change before it.
# "make properties" looks further, with other draws each time.
export RAPID_SEED ?= 1
CHECKS ?= 1000

# The packages with tests on a Kubernetes control plane, those that take longest first.
CLUSTER = ./e2e/cluster ./e2e/clusters ./e2e/realnodes ./kube/... ./cmd/fairway-operator ./tools/cluster

.PHONY: help build wheel packages release architecture reproducible operator demo test unit python e2e chaos slowest needs lint load bench fuzz properties repro controlplane cluster docs manifests chart image clean

help: ## list the targets
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 13

build: ## build bin/fairway and bin/fairway-cuda
	$(GO) build -trimpath -o bin/ ./cmd/fairway ./cmd/fairway-cuda

# What is given to others is static, and the same bytes whenever it is built from a commit.
ARCH ?= $(shell $(GO) env GOARCH)
OUT ?= out/release
STATIC ?= bin/linux-$(ARCH)
STATICBUILD = GOOS=linux GOARCH=$(ARCH) $(GO) build -trimpath -ldflags='-s -w' -o $(STATIC)/
DATED = SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}
RELEASE = $(DATED) $(GO) run ./tools/release \
  -version $(VERSION) -arch $(ARCH) -revision $$(git rev-parse HEAD) -programs $(STATIC) -out $(OUT)

wheel: ## build a Python wheel with the programs and the agent into out/release (ARCH=arm64: for that)
	$(STATICBUILD) ./cmd/fairway ./cmd/fairway-cuda
	$(RELEASE) wheel

NFPM = $(DATED) ARCH=$(ARCH) VERSION=$(VERSION) STATIC=$(STATIC) \
  $(GO) tool -modfile=tools/nfpm/go.mod nfpm package -f deploy/packages/nfpm.yaml -t $(OUT)
# The configuration and the completion are the same on every architecture.
HOST = $(GO) run ./cmd/fairway

packages: ## build the deb and rpm packages into out/release
	$(STATICBUILD) ./cmd/fairway ./cmd/fairway-cuda
	$(HOST) config default > $(STATIC)/fairway.yaml
	$(HOST) completion bash > $(STATIC)/completion.bash
	mkdir -p $(OUT)
	$(NFPM) -p deb
	$(NFPM) -p rpm

ARCHES ?= amd64 arm64
release: ## build everything that is given to others into out/release: programs, wheels, packages, images and bills of materials for ARCHES, chart, checksums
	for arch in $(ARCHES); do $(MAKE) --no-print-directory ARCH=$$arch architecture || exit 1; done
	$(RELEASE) chart sums

architecture: wheel packages
	$(STATICBUILD) ./cmd/fairway-operator
	$(RELEASE) programs image sbom

# With an empty build cache and from another folder the second is compiled from nothing.
reproducible: ## build the release twice, from two clones with nothing compiled before, and compare (half an hour on two cores)
	tools/release/twice.sh

operator: ## build bin/fairway-operator
	$(GO) build -trimpath -o bin/fairway-operator ./cmd/fairway-operator

demo: build ## a small mix of real training jobs, with a report
	bin/fairway demo

# Most tests on a cluster wait for it: the others run meanwhile. What both are made of is
# compiled before, or each would compile it. PyTorch is installed by "python", and used by
# pods in "e2e".
test: needs lint ## lint, then every test: Go with the race detector where there is concurrency, Python with PyTorch, Kubernetes
	$(CONTROLPLANE)
	CGO_ENABLED=1 $(GO) build -race ./...
	$(MAKE) python
	$(MAKE) -j2 unit e2e

GOTEST = GO=$(GO) tools/gotest/run.sh -timeout 40m $(if $(JSON),-json)

# These compute in one goroutine (house_test.go forbids them another), so the race
# detector would find nothing and take ten times as long. The one exception runs with it too.
SEQUENTIAL = . ./sched/... ./policy/... ./sim/... ./predict/... ./lab/repro

unit: ## the Go tests that need no cluster
	FAIRWAY_E2E=0 CGO_ENABLED=1 $(GOTEST) -race -- $$($(GO) list ./... | grep -vxF "$$($(GO) list $(CLUSTER) $(SEQUENTIAL))")
	FAIRWAY_E2E=0 $(GOTEST) -- $(SEQUENTIAL)
	FAIRWAY_E2E=0 CGO_ENABLED=1 $(GOTEST) -race -run ThemisMix -- ./lab/repro

python: ## the tests of the Python agent
	python/test.sh

# Where Debian's packages for real nodes cannot be had, the tests on them are skipped.
CONTROLPLANE = tools/controlplane/build.sh --real || tools/controlplane/build.sh

# Each package has a cluster of its own and waits for it more than it computes. With more
# memory between collections all these processes need a sixth less CPU time.
e2e: ## the tests on a real Kubernetes control plane, which is built on the first time (a quarter of an hour on two cores)
	$(CONTROLPLANE)
	FAIRWAY_E2E=1 CGO_ENABLED=1 $(GOTEST) -race -count=1 -p 3 -exec 'env GOGC=400' -- $(CLUSTER)
	$(MAKE) chart

chaos: ## kill -9, power cuts, full and failing disks, damaged journals, reboots and clock jumps under load, in full doses, with a ledger of what was lost
	FAIRWAY_CHAOS_KILLS=1000 FAIRWAY_CHAOS_POWER=25 FAIRWAY_CHAOS_FULL=10 FAIRWAY_CHAOS_JUMPS=50 FAIRWAY_CHAOS_DAMAGES=20 \
	  $(GO) test -count=1 -timeout 120m -v -run 'TestCrash|TestPowerCuts|TestFullDisk|TestDamagedJournals|TestClockJumps' ./e2e
	$(CONTROLPLANE)
	FAIRWAY_CHAOS_KILLS=225 FAIRWAY_CHAOS_DISASTERS=1 FAIRWAY_E2E=1 $(GO) test -count=1 -timeout 120m -v -run TestKilledAgainAndAgain ./e2e/cluster

slowest: ## the ten slowest tests of "make unit" and "make e2e"
	@for tests in unit e2e; do $(MAKE) -s $$tests JSON=1; done | \
	  sed -n 's/.*"Action":"pass","Package":"[^"]*fairway\/\([^"]*\)","Test":"\([^"\/]*\)","Elapsed":\([0-9.]*\).*/\3 s\t\1 \2/p' | sort -rn | head

# Without these the tests would fail late.
needs:
	@for program in git python3 $$($(GO) env CC) $$([ $$(id -u) != 0 ] || echo ip); do command -v $$program >/dev/null || \
	  { echo "the tests need $$program; on Debian and Ubuntu: apt-get install git gcc libc6-dev python3 iproute2 ca-certificates"; exit 1; }; done

load: ## the daemon under a full queue, and as many jobs as a busy day has
	FAIRWAY_LOAD_QUEUED=10000 FAIRWAY_LOAD_RUNNING=200 FAIRWAY_SOAK_JOBS=3000 $(GO) test -count=1 -run 'TestLoad|TestSoak' -v ./e2e

# Both look at what the tests are compiled from, so that it is compiled once.
lint: ## gofmt, go vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt these files:"; echo "$$out"; exit 1; fi
	CGO_ENABLED=1 $(GO) vet -race ./...
	staticcheck=$$($(GO) tool -modfile=go.tools.mod -n staticcheck) && CGO_ENABLED=1 GOFLAGS="$(GOFLAGS) -race" $$staticcheck ./...

bench: ## decision time of every policy as jobs and GPUs grow, and whole simulations
	$(GO) test -run '^$$' -bench Decide -benchtime 20x ./policy
	$(GO) test -run '^$$' -bench . -benchtime 5x ./policy/division ./sched/goodput ./sim/trace
	$(GO) test -run '^$$' -bench . -benchtime 1x ./sim

# By default Go spends up to a minute on making one interesting input smaller: the whole time
# of some targets.
fuzz: ## every fuzz target for FUZZTIME
	@for f in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
	  for t in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$f); do \
	    $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x ./$$(dirname $$f) || exit 1; \
	  done; done

properties: ## the property tests with other draws each time, CHECKS of each
	RAPID_SEED=0 RAPID_CHECKS=$(CHECKS) FAIRWAY_E2E=0 $(GO) test -count=1 -timeout 60m \
	  $$(grep -rl --include='*_test.go' 'rapid\.\(Make\)\?Check' . | xargs -n 1 dirname | sort -u)

repro: build ## re-make docs/reproduction (DATA: folder of the Pollux artifact, SIA, SHOCKWAVE, RUBICK, GAVEL: of theirs; ARGS=--check: compare only)
	bin/fairway repro all --out docs/reproduction $(ARGS) $(if $(DATA),--pollux $(DATA)) $(if $(SIA),--sia $(SIA)) $(if $(SHOCKWAVE),--shockwave $(SHOCKWAVE)) $(if $(RUBICK),--rubick $(RUBICK)) $(if $(GAVEL),--gavel $(GAVEL))

controlplane: ## build the Kubernetes control plane of the tests, once (REAL=1: and real nodes)
	tools/controlplane/build.sh $(if $(REAL),--real)

cluster: build operator ## a Kubernetes cluster with Fairway on this machine (REAL=1: two real nodes; ARGS=-exit: ends at once)
	tools/controlplane/build.sh $(if $(REAL),--real)
	$(GO) build -trimpath -o bin/cluster ./tools/cluster
	bin/cluster $(if $(REAL),-real) $(ARGS)

# The site needs packages of Python, which are installed once; building it needs no network.
DOCS = bin/docs/bin/mkdocs
$(DOCS): tools/docs/requirements.txt
	python3 -m venv bin/docs
	bin/docs/bin/pip install --quiet --disable-pip-version-check -r tools/docs/requirements.txt

docs: $(DOCS) ## build the site of the documentation into out/site; a link that leads nowhere is an error
	$(DOCS) build --quiet --strict

manifests: ## re-make deploy/manifests from deploy/chart, with Helm's own engine
	cp deploy/grafana/fairway.json deploy/chart/files/dashboard.json
	cd tools/chart && $(GO) run . -chart ../../deploy/chart -out ../../deploy/manifests/fairway.yaml

chart: ## test the chart
	cd tools/chart && $(GO) test ./...

IMAGE ?= fairway:$(VERSION)
image: ## build the container image IMAGE (needs docker, or another engine: ENGINE=podman)
	$(or $(ENGINE),docker) build -f deploy/Dockerfile -t $(IMAGE) .

clean: ## remove what was built
	rm -rf bin out
