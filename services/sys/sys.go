// Package sys builds the system prompt from a template, one for plain messages
// and one for turns of a session. Placeholders stand for the personality, the
// tools and skills, the soft memory, which mem stores, and, in a session, for
// directory, system, date, git state and confinement (surroundings.go). A
// configured prompt takes the template's place, and the AGENTS.md files of a
// directory follow it (prompt.go).
package sys

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
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
	exc           config.Exc // the confinement where a turn names none
	configured    configured
	soft          *softMemory

	mu      sync.Mutex
	plain   template
	session template
	source  source
	prompt  string // built from source
}

// source is all that the prompt of plain messages is built from and that can
// change.
type source struct {
	template string
	snapshot *catalog.Snapshot
	soft     string
}

// New reads the templates. A missing one is an empty one; one that cannot be
// read is the error of each request for it until it can.
func New(cfg *config.Config, cat *catalog.Catalog, mem *rpc.Client, log *slog.Logger) *Service {
	s := &Service{
		cat: cat, personality: cfg.Sys.Personality, maxIterations: cfg.Agent.MaxIterations, exc: cfg.Exc,
		configured: newConfigured(cfg), soft: newSoftMemory(mem, cfg.Sys.SoftMemory, log),
		plain:   template{path: cfg.Sys.Template, key: "[sys] template", log: log},
		session: template{path: cfg.Sys.SessionTemplate, key: "[sys] session_template", log: log},
	}
	s.plain.read()
	s.session.read()
	return s
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

func (s *Service) reload(ctx context.Context, _ proto.ReloadPrompt) (proto.SystemPrompt, error) {
	s.soft.refresh(ctx)
	if err := s.readTemplates(); err != nil {
		return proto.SystemPrompt{}, fmt.Errorf("%w: the old prompt stays; fix the file and reload", err)
	}
	s.cat.Reload()
	return s.current()
}

func (s *Service) setSoftMemory(ctx context.Context, req proto.SetSoftMemory) (proto.SystemPrompt, error) {
	if err := s.readTemplates(); err != nil {
		return proto.SystemPrompt{}, fmt.Errorf("%w: the old soft memory stays; fix the file and set it again", err)
	}
	if _, err := s.current(); err != nil {
		return proto.SystemPrompt{}, err // before anything is changed
	}
	if err := s.soft.set(ctx, req.Content); err != nil {
		return proto.SystemPrompt{}, fmt.Errorf("mem did not take it, the old one stays: %w", err)
	}
	return s.current()
}

func (s *Service) readTemplates() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain.read()
	s.session.read()
	return cmp.Or(s.plain.failed, s.session.failed)
}

// current is the prompt of a plain message, with the template as it was last
// read.
func (s *Service) current() (proto.SystemPrompt, error) {
	text, ok, err := s.configured.prompt()
	if !ok && err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		text = s.build()
	}
	return proto.SystemPrompt{Content: text}, err
}

// values are what the placeholders of both templates stand for.
func (s *Service) values(snapshot *catalog.Snapshot, soft string) map[string]string {
	return map[string]string{
		"PERSONALITY":    s.personality,
		"TOOL_LIST":      toolLines(snapshot),
		"SKILL_LINES":    skillLines(snapshot),
		"MAX_ITERATIONS": strconv.Itoa(s.maxIterations),
		"SOFT_MEMORIES":  soft,
	}
}

// build returns the prompt of what is in memory. The caller holds s.mu.
func (s *Service) build() string {
	now := source{s.plain.text, s.cat.Snapshot(), s.soft.text()}
	if now != s.source {
		s.source = now
		s.prompt = render(now.template, s.values(now.snapshot, now.soft))
	}
	return s.prompt
}

// buildSession returns the prompt of a turn of a session. White space around it
// is dropped: a template may end with placeholders that are empty. The caller
// holds s.mu.
func (s *Service) buildSession(surroundings map[string]string) string {
	values := s.values(s.cat.Snapshot(), s.soft.text())
	maps.Copy(values, surroundings)
	return strings.TrimSpace(render(s.session.text, values))
}

// stats adds the templates in use, and what a person has to fix: skipped
// definitions, and prompts that cannot be read.
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
	stats.Info["template"], stats.Info["session_template"] = s.plain.describe(), s.session.describe()
	for _, t := range []*template{&s.plain, &s.session} {
		switch {
		case t.failed == nil:
		case t.readable:
			stats.Problems = append(stats.Problems, t.failed.Error()+" (the old one stays; fix it)")
		default:
			stats.Problems = append(stats.Problems, t.failed.Error()+": fix it, or set "+t.key)
		}
	}
}
