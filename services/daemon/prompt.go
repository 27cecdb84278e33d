package daemon

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// partLimit is how long the turn waits for a part of the prompt before it goes
// on without it.
const partLimit = 10 * time.Second

// prompt assembles the list [system?, …context, user]. sys and ctx are asked
// side by side; a part that cannot be had is left out, and the log says so.
func (s *Service) prompt(ctx context.Context, channel, message string) proto.Raw {
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	system := make(chan string, 1)
	go func() { system <- s.systemPrompt(ctx) }()
	middle := s.context(ctx, channel, message)

	var list proto.Raw
	if text := <-system; text != "" {
		list = appendMessage(list, "system", text)
	}
	list = appendElements(list, middle)
	return closeList(appendMessage(list, "user", message))
}

func (s *Service) systemPrompt(ctx context.Context) string {
	reply, err := rpc.Call(ctx, s.sys, proto.SysGet, proto.GetPrompt{})
	if err != nil {
		s.log.Warn("no system prompt in this turn", "error", err, "trace", rpc.Trace(ctx))
		return ""
	}
	return reply.Content
}

func (s *Service) context(ctx context.Context, channel, message string) proto.Raw {
	reply, err := rpc.Call(ctx, s.ctx, proto.CtxBuild, proto.Build{ChannelID: channel, UserMessage: message})
	if err == nil {
		err = checkMessages(reply.Messages)
	}
	if err != nil {
		s.log.Warn("no context in this turn", "error", err, "trace", rpc.Trace(ctx))
		return nil
	}
	return reply.Messages
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
