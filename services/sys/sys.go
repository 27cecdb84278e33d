// Package sys builds the system prompt from a template: one for plain messages,
// one for turns of a session. Placeholders are replaced by the personality, the
// tools and skills, the soft memory that mem stores and, in a session, by the
// directory, system, date, git state and confinement (session.go). A configured
// prompt replaces the template. In a session the list of skills is appended, then the
// AGENTS.md files of a directory.
package sys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"

	"zino/pkg/catalog"
	"zino/pkg/catalog/skill"
	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/sys/agents"
	"zino/services/sys/textfile"
)

// Service builds and caches the system prompt.
type Service struct {
	cat           *catalog.Catalog
	personality   string
	maxIterations int
	exc           config.Exc // default level and network
	skillConfig   config.Skills
	skills        skill.Loader
	configured    string // system_prompt
	file          string // system_prompt_file, which overrides configured
	soft          *softMemory

	mu      sync.Mutex
	plain   template
	session template
	source  source
	built   string // the prompt of plain messages, built from source
}

// source is the changeable input of the prompt of plain messages.
type source struct {
	template string
	snapshot *catalog.Snapshot
	soft     string
}

// New reads the templates. A missing template counts as empty. A template that
// cannot be read is an error of each request that needs it.
func New(cfg *config.Config, cat *catalog.Catalog, mem *rpc.Client, log *slog.Logger) *Service {
	s := &Service{
		cat: cat, personality: cfg.Sys.Personality, maxIterations: cfg.Agent.MaxIterations, exc: cfg.Exc, skillConfig: cfg.Skills,
		configured: cfg.SystemPrompt, file: cfg.SystemPromptFile, soft: newSoftMemory(mem, cfg.Sys.SoftMemory, log),
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
	rpc.Handle(server, proto.SysSkill, s.skill)
	rpc.Handle(server, proto.SysSetSoftMemory, s.setSoftMemory)
	server.OnStats(s.stats)
	server.KeepWhile(s.soft.unsaved)
}

// Close makes a last attempt to store a new soft memory in mem.
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
		return proto.SystemPrompt{}, err // nothing is changed yet
	}
	if err := s.soft.set(ctx, req.Content); err != nil {
		return proto.SystemPrompt{}, fmt.Errorf("mem did not store the soft memory, the old one stays: %w", err)
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

// current returns the prompt of a plain message, with the template as last read.
func (s *Service) current() (proto.SystemPrompt, error) {
	content, ok, err := s.override()
	if ok || err != nil {
		return proto.SystemPrompt{Content: content}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return proto.SystemPrompt{Content: s.build()}, nil
}

// values returns the values of the placeholders of both templates.
func (s *Service) values(snapshot *catalog.Snapshot, soft string) map[string]string {
	return map[string]string{
		"PERSONALITY":    s.personality,
		"TOOL_LIST":      toolLines(snapshot),
		"SKILL_LINES":    skillLines(snapshot),
		"MAX_ITERATIONS": strconv.Itoa(s.maxIterations),
		"SOFT_MEMORIES":  soft,
	}
}

// build returns the prompt of plain messages, rendered again only if its source
// changed. s.mu must be locked.
func (s *Service) build() string {
	now := source{s.plain.text, s.cat.Snapshot(), s.soft.text()}
	if now != s.source {
		s.source = now
		s.built = render(now.template, s.values(now.snapshot, now.soft))
	}
	return s.built
}

// stats adds the templates in use, and the problems that the user has to fix:
// skipped definitions and prompts that cannot be read.
func (s *Service) stats(stats *proto.Stats) {
	snapshot := s.cat.Snapshot()
	stats.Problems = append(stats.Problems, snapshot.Problems...)
	folders := s.skills.List(nil, s.skillPlaces())
	for _, k := range folders {
		if k.Problem != "" {
			stats.Problems = append(stats.Problems, k.Problem+" (skipped; repair or remove it)")
		}
	}
	if stats.Info == nil {
		stats.Info = map[string]string{}
	}
	stats.Info["tools"] = strconv.Itoa(len(snapshot.Executors()) + len(snapshot.Builtins()))
	stats.Info["skills"] = strconv.Itoa(len(snapshot.Skills) + len(offeredSkills(folders)))
	stats.Info["soft_memory"] = s.soft.state()
	if _, _, err := s.override(); err != nil {
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

// override returns the configured prompt; ok is false if the template is used.
// The file is read on each request, so that edits take effect at once. A file that
// cannot be read is an error: the user expects the model to get this prompt.
func (s *Service) override() (content string, ok bool, err error) {
	if s.file == "" {
		return s.configured, s.configured != "", nil
	}
	content, size, err := textfile.Head(s.file, maxTemplate)
	if err == nil && size > maxTemplate {
		err = fmt.Errorf("is larger than %d bytes", maxTemplate)
	}
	if err == nil {
		return strings.TrimPrefix(content, textfile.Mark), true, nil
	}
	remedy := "repair it"
	if errors.Is(err, fs.ErrNotExist) {
		remedy = "create it"
	}
	// The configuration file is not named: it may have been generated for this run.
	return "", false, proto.Errorf(proto.CodeInvalid, "system_prompt_file %s: %v: %s, or change or remove the key system_prompt_file in your configuration",
		text.VisibleLine(s.file), err, remedy)
}

// get returns the prompt, followed by the skills in a session, and by the AGENTS.md
// files if there is a root.
func (s *Service) get(ctx context.Context, req proto.GetPrompt) (proto.SystemPrompt, error) {
	reply, err := s.prompt(ctx, req)
	if err != nil {
		return reply, err
	}
	if req.Session {
		s.addSkills(&reply, req)
	}
	if req.Root == "" {
		return reply, nil
	}
	places := agents.Places{Home: os.Getenv("HOME"), Root: req.Root}
	base, baseErr := keys.Base(os.Getenv)
	if baseErr == nil {
		places.Base = base
	}
	found, err := agents.Gather(places)
	if err != nil {
		return proto.SystemPrompt{}, err
	}
	if baseErr != nil {
		found.Warnings = append(found.Warnings, "no AGENTS.md of your own is read: "+baseErr.Error())
	}
	if found.Text != "" {
		reply.Content = joined(reply.Content, found.Text)
	}
	reply.Files, reply.Warnings = found.Files, append(reply.Warnings, found.Warnings...)
	return reply, nil
}

// prompt returns the prompt without the AGENTS.md files: that of the request, else
// the configured one, else the rendered template.
func (s *Service) prompt(ctx context.Context, req proto.GetPrompt) (proto.SystemPrompt, error) {
	if req.SystemPrompt != nil {
		return proto.SystemPrompt{Content: *req.SystemPrompt}, nil
	}
	if content, ok, err := s.override(); ok || err != nil {
		return proto.SystemPrompt{Content: content, Template: s.file}, err
	}
	s.soft.refresh(ctx)
	t, surroundings := &s.plain, map[string]string(nil)
	if req.Session {
		t, surroundings = &s.session, s.surroundings(ctx, req)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.refresh()
	if t.failed != nil && !t.readable {
		return proto.SystemPrompt{}, proto.Errorf(proto.CodeInvalid, "%v: fix it, or set %s", t.failed, t.key)
	}
	reply := proto.SystemPrompt{Template: t.path, TemplateMissing: t.missing()}
	switch {
	case req.Session:
		// White space around the prompt is dropped: a template may end with
		// placeholders that are empty.
		values := s.values(s.cat.Snapshot(), s.soft.text())
		maps.Copy(values, surroundings)
		reply.Content = strings.TrimSpace(render(t.text, values))
	case t.path != "" && t.missing():
		reply.Warnings = []string{fmt.Sprintf("no system prompt is sent: the template %s does not exist: install Zino with its files, or set %s", text.VisibleLine(t.path), t.key)}
	default:
		reply.Content = s.build()
	}
	return reply, nil
}
