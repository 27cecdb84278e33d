# Zino. `make` alone lists what there is.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X zino/pkg/rpc.Build=$(VERSION)

.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

build: ## build all programs into bin/
	@go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./services/...

run: build ## build, and open a chat with this tree's ZINO.toml
	@bin/zino --config ZINO.toml

.PHONY: help build run
