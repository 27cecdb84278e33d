# Zino. `make` alone lists what there is.

COMMIT  := $(shell git describe --always --dirty --exclude='*' 2>/dev/null)
DATE    := $(shell git log -1 --format=%cs 2>/dev/null)
LDFLAGS := -s -w -X zino/pkg/rpc.Commit=$(COMMIT) -X zino/pkg/rpc.Date=$(DATE)
LINT    := go tool -modfile=lint.mod
FUZZTIME ?= 30s
ONLY    ?=

.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

build: ## build all programs into bin/
	@CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./services/...

run: build ## build, and open a chat with this tree's ZINO.toml
	@bin/zino --config ZINO.toml

need: # what the tests use besides Go
	@.ci/need git:git socat:socat jq:jq node:nodejs npm:npm python3:python3 shellcheck:shellcheck tmux:tmux strace:strace cc:gcc unshare:util-linux chromium:chromium zsh:zsh fish:fish vim:vim
	@.ci/node

test: need ## get what is needed and run all tests
	go vet ./...
	go test -race -shuffle=on -timeout 45m ./...

cover: need ## run all tests with coverage, the binaries' included: one line per package
	@.ci/cover

oracle: ## compare the memory index with the TF-IDF of nlp, where its modules can be downloaded
	@cd services/mem/index/oracle && { go mod download || \
		{ echo 'oracle: these modules cannot be downloaded here; nothing was compared' >&2; exit 1; }; } && \
		go test -count=1 -v ./...

lint: ## staticcheck, gofumpt, dead code, go fix
	$(LINT) staticcheck ./...
	$(LINT) deadcode -test ./...
	@.ci/clean gofumpt $(LINT) gofumpt -l .
	@.ci/clean 'go fix' go fix -diff ./...
	shellcheck .ci/run .ci/need .ci/node .ci/clean .ci/cover .ci/fuzz .ci/modules proto/clients/*.sh
	shellcheck -x deploy/install deploy/uninstall deploy/deb deploy/hostconfig deploy/*.sh deploy/box/root deploy/box/boot deploy/box/disk deploy/box/init deploy/box/inside deploy/box/prepare deploy/box/uml deploy/box/uml-init deploy/box/test deploy/box/checks/*

fmt: ## format all Go files
	$(LINT) gofumpt -w .

generate: ## write PROTOCOL.md, schema.json and the man pages anew
	go test ./proto -update
	go test ./services/cli -run '^TestMan$$' -update

demo: ## record docs/demo.cast and docs/demo.svg anew
	go test . -run '^TestDemo$$' -count=1 -update

faults: ## see that the tests notice each fault of testdata/faults.txt
	go test . -run '^TestFaults$$' -count=1 -timeout 2h -v -args -faults

fuzz: ## run every fuzz test for FUZZTIME (30s)
	@.ci/fuzz $(FUZZTIME)

bench: build ## measure against the goals and write docs/performance.md; ONLY=ping for a part, not written
	@cd services/constellation/bench && go test -count=1 -timeout 20m -run '^TestBenchTable$$' -args -bench.table -bench.only='$(ONLY)'

bench-peers: build ## compare the protocol with HTTP, gRPC and ttrpc, the search with SQLite FTS5
	@cd services/constellation/peers && go test -count=1 -timeout 10m -run '^TestPeers$$' -args -peers

load: build ## 200 streaming clients, 1,000 connections, 10,000 requests, 100 followers
	@cd services/constellation/bench && go test -count=1 -timeout 10m -run '^TestLoadAndGrowth$$' -args -load.table

growth: build ## the cost as histories, memories, sessions, pages and followers grow
	@cd services/constellation/bench && go test -count=1 -timeout 10m -run '^TestLoadAndGrowth$$' -args -growth.table

soak: ## MINUTES=20 of mixed traffic with random kills: a verdict and plots
	@cd services/constellation/soak && go test -count=1 -timeout 0 -run '^TestSoak$$' -args -soak.minutes=$(or $(MINUTES),20) -soak.pace=$(or $(PACE),100ms) -soak.page='$(CURDIR)/docs/performance.md'

compare-pages: build ## compare what a model reads of a page with two MCP servers for browsers (npm)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$$dir" @playwright/mcp chrome-devtools-mcp && \
		node services/repl/compare/compare.mjs bin "$$dir/node_modules"

install: build ## install for the host (as root) or for you; PREFIX, DESTDIR
	@deploy/install

uninstall: ## remove that again; PURGE=yes: what it kept, too
	@deploy/uninstall

deb: build ## build the Debian package
	@deploy/deb

test-systemd: build ## try the host's installation on a systemd of its own (root)
	@[ "$$(id -u)" != 0 ] || .ci/need mmdebstrap:mmdebstrap unshare:util-linux ip:iproute2
	@deploy/box/test

test-uml: build ## the part of it that needs all controllers, under User-Mode Linux (root)
	@[ "$$(id -u)" != 0 ] || .ci/need mmdebstrap:mmdebstrap mke2fs:e2fsprogs linux.uml:user-mode-linux
	@deploy/box/test uml

clean: ## remove what was built
	rm -rf bin

.PHONY: help build run need test cover oracle lint fmt generate demo faults fuzz bench bench-peers load growth soak compare-pages install uninstall deb test-systemd test-uml clean
