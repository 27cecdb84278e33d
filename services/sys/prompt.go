package sys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/pkg/visible"
	"zino/proto"
	"zino/services/sys/agents"
	"zino/services/sys/textfile"
)

// configured is what the configuration puts in the template's place.
type configured struct {
	text string // system_prompt
	file string // system_prompt_file, which wins
}

func newConfigured(cfg *config.Config) configured {
	return configured{cfg.SystemPrompt, cfg.SystemPromptFile}
}

// prompt returns the configured prompt; ok is false where the template is
// meant. The file is read each time: whoever edits it sees the next prompt
// follow.
func (c configured) prompt() (text string, ok bool, err error) {
	if c.file == "" {
		return c.text, c.text != "", nil
	}
	text, size, err := textfile.Head(c.file, maxTemplate)
	if err == nil && size > maxTemplate {
		err = fmt.Errorf("is larger than %d bytes", maxTemplate)
	}
	if err != nil {
		return "", false, c.unreadable(err)
	}
	return strings.TrimPrefix(text, textfile.Mark), true, nil
}

// unreadable is the error of a file that the user has named and that cannot be
// sent: a prompt without it would be another than the user believes. The file
// that we read the name in may be one that was made for this run, which nobody
// can mend.
func (c configured) unreadable(err error) error {
	remedy := "repair it"
	if errors.Is(err, fs.ErrNotExist) {
		remedy = "create it"
	}
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf(
		"system_prompt_file %s: %v: %s, or change or remove the key system_prompt_file in your configuration", visible.Line(c.file), err, remedy)}
}

// get answers with the prompt and, for a root, what the AGENTS.md files say.
func (s *Service) get(ctx context.Context, req proto.GetPrompt) (proto.SystemPrompt, error) {
	reply, err := s.base(ctx, req)
	if err != nil || req.Root == "" {
		return reply, err
	}
	places := agents.Places{Home: os.Getenv("HOME"), Root: req.Root}
	var homeless error
	if places.Base, homeless = keys.Base(os.Getenv); homeless != nil {
		places.Base = "" // no place that could be trusted
	}
	found, err := agents.Gather(places)
	if err != nil {
		return proto.SystemPrompt{}, err
	}
	if homeless != nil {
		found.Warnings = append(found.Warnings, "no AGENTS.md of your own is read: "+homeless.Error())
	}
	reply.Content, reply.Files, reply.Warnings = joined(reply.Content, found.Text), found.Files, append(reply.Warnings, found.Warnings...)
	return reply, nil
}

// base is the prompt without the AGENTS.md files: the caller's, else the
// configured one, else that of the template.
func (s *Service) base(ctx context.Context, req proto.GetPrompt) (proto.SystemPrompt, error) {
	if req.SystemPrompt != nil {
		return proto.SystemPrompt{Content: *req.SystemPrompt}, nil
	}
	if text, ok, err := s.configured.prompt(); ok || err != nil {
		return proto.SystemPrompt{Content: text, Template: s.configured.file}, err
	}
	s.soft.refresh(ctx)
	t, values := &s.plain, map[string]string(nil)
	if req.Session {
		t, values = &s.session, s.surroundings(ctx, req)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.refresh()
	reply := proto.SystemPrompt{Template: t.path, TemplateMissing: t.missing()}
	switch {
	case t.failed != nil && !t.readable:
		return proto.SystemPrompt{}, &proto.Error{Code: proto.CodeInvalid, Message: t.failed.Error() + ": fix it, or set " + t.key}
	case req.Session:
		reply.Content = s.buildSession(values)
	case t.path != "" && t.missing():
		reply.Warnings = []string{fmt.Sprintf("no system prompt is sent: the template %s does not exist: install Zino with its files, or set %s", visible.Line(t.path), t.key)}
	default:
		reply.Content = s.build()
	}
	return reply, nil
}

// joined puts a blank line between a prompt and what follows it, if there is
// both.
func joined(prompt, context string) string {
	switch {
	case context == "":
		return prompt
	case strings.TrimSpace(prompt) == "":
		return context
	}
	return strings.TrimRight(prompt, "\r\n") + "\n\n" + context
}
