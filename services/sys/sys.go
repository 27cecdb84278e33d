// Package sys keeps the system prompt: a template in which placeholders stand
// for the personality, the tools and skills that are there, and the soft
// memory. The soft memory itself lies in mem. A prompt of the user's can stand
// in the template's place, and the AGENTS.md files of a directory follow it
// (prompt.go).
package sys

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// Service answers for the system prompt.
type Service struct {
	cat           *catalog.Catalog
	personality   string
	maxIterations int
	configured    configured
	soft          *softMemory

	mu       sync.Mutex
	template template
	source   source
	prompt   string // built from source
}

// source is all that a prompt is built from and that can change.
type source struct {
	template string
	snapshot *catalog.Snapshot
	soft     string
}

// New reads the template. A missing one is an empty one; one that is there but
// cannot be read is an error now, and later the reason to keep the last one.
func New(cfg *config.Config, cat *catalog.Catalog, mem *rpc.Client, log *slog.Logger) (*Service, error) {
	s := &Service{
		cat: cat, personality: cfg.Sys.Personality, maxIterations: cfg.Agent.MaxIterations,
		configured: newConfigured(cfg), template: template{path: cfg.Sys.Template, log: log},
	}
	if err := s.readTemplate(); err != nil {
		return nil, fmt.Errorf("%w: mend it or set [sys] template", err)
	}
	s.soft = newSoftMemory(mem, cfg.Sys.SoftMemory, log)
	return s, nil
}

// Register adds the methods of sys to server.
func (s *Service) Register(server *rpc.Server) {
	rpc.Handle(server, proto.SysGet, s.get)
	rpc.Handle(server, proto.SysReload, s.reload)
	rpc.Handle(server, proto.SysSetSoftMemory, s.setSoftMemory)
	server.OnStats(s.stats)
	server.KeepWhile(s.soft.unsaved)
}

// Close makes a last attempt to hand a new soft memory over to mem.
func (s *Service) Close() error { return s.soft.close() }

// fromTemplate returns the prompt that the template gives now.
func (s *Service) fromTemplate(ctx context.Context) string {
	s.soft.refresh(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.template.refresh()
	return s.build()
}

func (s *Service) reload(ctx context.Context, _ proto.ReloadPrompt) (proto.SystemPrompt, error) {
	s.soft.refresh(ctx)
	if err := s.readTemplate(); err != nil {
		return proto.SystemPrompt{}, fmt.Errorf("%w: the old prompt stays; mend the file and reload", err)
	}
	s.cat.Reload()
	return s.current()
}

func (s *Service) setSoftMemory(ctx context.Context, req proto.SetSoftMemory) (proto.SystemPrompt, error) {
	if err := s.readTemplate(); err != nil {
		return proto.SystemPrompt{}, fmt.Errorf("%w: the old soft memory stays; mend the file and set it again", err)
	}
	if _, err := s.current(); err != nil {
		return proto.SystemPrompt{}, err // before anything is changed
	}
	if err := s.soft.set(ctx, req.Content); err != nil {
		return proto.SystemPrompt{}, fmt.Errorf("mem did not take it, the old one stays: %w", err)
	}
	return s.current()
}

func (s *Service) readTemplate() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.template.read()
	return s.template.failed
}

// current is the prompt that get gives to whoever asks for nothing in
// particular, with the template as it was last read.
func (s *Service) current() (proto.SystemPrompt, error) {
	text, ok, err := s.configured.prompt()
	if !ok && err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		text = s.build()
	}
	return proto.SystemPrompt{Content: text}, err
}

// build returns the prompt of what is in memory. The caller holds s.mu.
func (s *Service) build() string {
	now := source{s.template.text, s.cat.Snapshot(), s.soft.text()}
	if now != s.source {
		s.source = now
		s.prompt = render(now.template, map[string]string{
			"PERSONALITY":    s.personality,
			"TOOL_LIST":      toolLines(now.snapshot),
			"SKILL_LINES":    skillLines(now.snapshot),
			"MAX_ITERATIONS": strconv.Itoa(s.maxIterations),
			"SOFT_MEMORIES":  now.soft,
		})
	}
	return s.prompt
}

// stats adds what a person should mend: skipped definitions and a template
// that cannot be read.
func (s *Service) stats(stats *proto.Stats) {
	snapshot := s.cat.Snapshot()
	stats.Problems = append(stats.Problems, snapshot.Problems...)
	if stats.Info == nil {
		stats.Info = map[string]string{}
	}
	stats.Info["tools"] = strconv.Itoa(len(snapshot.Executors()) + len(snapshot.Builtins()))
	stats.Info["skills"] = strconv.Itoa(len(snapshot.Skills))
	stats.Info["soft_memory"] = s.soft.state()
	if _, _, err := s.configured.prompt(); err != nil {
		stats.Problems = append(stats.Problems, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed := s.template.failed; failed != nil {
		stats.Problems = append(stats.Problems, failed.Error()+" (the old one stays; mend it)")
	}
}
