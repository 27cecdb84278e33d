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
	remedy := "mend it"
	if errors.Is(err, fs.ErrNotExist) {
		remedy = "create it"
	}
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf(
		"system_prompt_file %s: %v: %s, or change or remove the key system_prompt_file in your configuration", visible.Line(c.file), err, remedy)}
}

// get answers with the prompt and, for a root, what the AGENTS.md files say.
func (s *Service) get(ctx context.Context, req proto.GetPrompt) (proto.SystemPrompt, error) {
	text, err := s.base(ctx, req.SystemPrompt)
	if err != nil || req.Root == "" {
		return proto.SystemPrompt{Content: text}, err
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
	return proto.SystemPrompt{Content: joined(text, found.Text), Files: found.Files, Warnings: found.Warnings}, nil
}

// base is the prompt without files: the caller's, else the configured one, else
// the template. A caller's empty one means the template, too.
func (s *Service) base(ctx context.Context, given *string) (string, error) {
	if given != nil && *given != "" {
		return *given, nil
	}
	if given == nil {
		if text, ok, err := s.configured.prompt(); ok || err != nil {
			return text, err
		}
	}
	return s.fromTemplate(ctx), nil
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
