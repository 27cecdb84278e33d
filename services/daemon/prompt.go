package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// partLimit is how long the turn waits for a part of the prompt before it goes
// on without it.
const partLimit = 10 * time.Second

// parts are what stands in front of the user's message, or why it is not there.
type parts struct {
	system proto.SystemPrompt
	sysErr error
	middle proto.Raw // a list of messages, or nil
	ctxErr error
}

// parts asks sys and ctx side by side. Without a build ctx is not asked.
func (s *Service) parts(ctx context.Context, get proto.GetPrompt, build *proto.Build) parts {
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	var p parts
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		p.system, p.sysErr = rpc.Call(ctx, s.sys, proto.SysGet, get)
	}()
	if build != nil {
		p.middle, p.ctxErr = s.context(ctx, *build)
	}
	<-asked
	if p.sysErr != nil {
		p.system = proto.SystemPrompt{} // half an answer is none
	}
	return p
}

func (s *Service) context(ctx context.Context, build proto.Build) (proto.Raw, error) {
	reply, err := rpc.Call(ctx, s.ctx, proto.CtxBuild, build)
	if err == nil {
		err = checkMessages(reply.Messages)
	}
	if err != nil {
		return nil, err
	}
	return reply.Messages, nil
}

// promptOf is the part of a request that sys answers.
func promptOf(req proto.Chat) proto.GetPrompt {
	return proto.GetPrompt{
		Root: req.Root, SystemPrompt: req.SystemPrompt, Session: req.SessionID != "", Sandbox: req.Sandbox, Network: req.Network,
	}
}

// list is the prompt [system?, …context, user].
func (p parts) list(message string) proto.Raw {
	var list proto.Raw
	if p.system.Content != "" {
		list = appendMessage(list, "system", p.system.Content)
	}
	list = appendElements(list, p.middle)
	return closeList(appendMessage(list, "user", message))
}

// prompt assembles the prompt of a plain message, and returns what sys remarks on
// it. A part that is not available is left out and logged; a template or
// system_prompt_file that cannot be read is an error.
func (s *Service) prompt(ctx context.Context, req proto.Chat, out *rpc.Out) (list proto.Raw, warnings []string, err error) {
	p := s.parts(ctx, promptOf(req), &proto.Build{ChannelID: req.ChannelID, UserMessage: req.Message})
	if errors.Is(p.sysErr, proto.ErrInvalid) {
		return nil, nil, p.sysErr
	}
	if p.sysErr != nil {
		s.log.Warn("no system prompt in this turn", "error", p.sysErr, "trace", rpc.Trace(ctx))
	}
	if p.ctxErr != nil {
		s.log.Warn("no context in this turn", "error", p.ctxErr, "trace", rpc.Trace(ctx))
	}
	if req.Events {
		if err := announce(out, p.system); err != nil {
			return nil, nil, err
		}
	}
	return p.list(req.Message), p.system.Warnings, nil
}

// announce tells the caller what sys remarks, and which files it has read.
func announce(out *rpc.Out, p proto.SystemPrompt) error {
	for _, warning := range p.Warnings {
		if err := out.Packet("notice", proto.Notice{Kind: "warning", Text: warning}); err != nil {
			return sent(err)
		}
	}
	if len(p.Files) > 0 {
		var paths []string
		for _, file := range p.Files {
			paths = append(paths, file.Path)
		}
		text := "Loaded AGENTS.md from: " + strings.Join(paths, ", ")
		if err := out.Packet("notice", proto.Notice{Kind: "agents", Text: text}); err != nil {
			return sent(err)
		}
	}
	return sent(out.Flush())
}

// checkMessages says why a list is none of messages. One that is broken would
// take the whole prompt with it, so it is looked at before it is joined.
func checkMessages(list proto.Raw) error {
	if list == nil {
		return nil // the answer had none
	}
	elements, err := wire.Elements(list)
	if err != nil {
		return fmt.Errorf("field %q: %w", "messages", err)
	}
	for i, element := range elements {
		if element[0] != '{' {
			return fmt.Errorf("field %q: element %d is not an object", "messages", i)
		}
	}
	return nil
}

// appendMessage adds one message to an unfinished list, which may be nil.
func appendMessage(list proto.Raw, role, content string) proto.Raw {
	list = wire.AppendString(append(open(list), `{"role":`...), role)
	list = wire.AppendString(append(list, `,"content":`...), content)
	return append(list, '}')
}

// appendElements adds the elements of a whole list as they stand: a list that
// checkMessages has passed, or none.
func appendElements(list, elements proto.Raw) proto.Raw {
	elements = bytes.TrimSpace(elements)
	if len(elements) == 0 {
		return list
	}
	if elements = bytes.TrimSpace(elements[1 : len(elements)-1]); len(elements) == 0 {
		return list
	}
	return append(open(list), elements...)
}

// open readies an unfinished list for its next element.
func open(list proto.Raw) proto.Raw {
	if len(list) == 0 {
		return proto.Raw("[")
	}
	return append(list, ',')
}

func closeList(list proto.Raw) proto.Raw { return append(list, ']') }
