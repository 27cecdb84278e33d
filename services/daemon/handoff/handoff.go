// Package handoff makes of a session what somebody needs to go on with a goal
// in a new one: a bundle in Markdown.
//
// The session is read once, a page at a time. The facts gathered from its events
// (facts.go) make a bundle without a model (offline.go). A model that is given
// the session (prompt.go) drafts a better one. Its answer is foreign text: it is
// read with tolerance (parse.go) and taken over section by section as far as it
// makes sense (draft.go); the facts fill the rest. The session stays as it is,
// and nothing is stored.
package handoff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// goalBytes is how long a goal may be.
const goalBytes = 64 << 10

// Maker makes bundles. Its fields are set before use and not changed thereafter;
// it is safe for concurrent use.
type Maker struct {
	Mem, Rtr          *rpc.Client // where sessions are, and the models
	Temperature, TopP float64     // as in infer of rtr
	Effort            string      // where the request has none
}

// Make makes a bundle. Errors of mem have the kind "session": not_found for a
// session that is not there, or if there is none at all. Errors of rtr keep their
// code and kind, and name --offline.
func (m *Maker) Make(ctx context.Context, req proto.Handoff) (reply proto.HandoffBundle, err error) {
	if err := check(req); err != nil {
		return reply, err
	}
	f, t := newFacts(req.Root), &transcript{}
	id, err := m.gather(ctx, req.SessionID, func(e object) {
		if f.take(e); !req.Offline {
			t.take(e)
		}
	})
	if err != nil {
		return reply, ofSession(ctx, err)
	}
	f.done()
	b, filled := f.bundle(req.Goal), []string(nil)
	if !req.Offline {
		if b, filled, err = m.draft(ctx, req, f, t); err != nil {
			return reply, ofModel(ctx, err)
		}
	}
	return proto.HandoffBundle{SessionID: id, Content: b.markdown(), Filled: filled}, nil
}

// check holds that a request can be carried out.
func check(req proto.Handoff) error {
	switch {
	case strings.TrimSpace(req.Goal) == "":
		return &proto.Error{Code: proto.CodeInvalid, Message: "The goal is empty: say what is to be done next with --goal."}
	case len(req.Goal) > goalBytes:
		return &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("The goal is longer than %d KiB: put the details into a file and name it in the goal.", goalBytes>>10)}
	case req.Root != "" && !filepath.IsAbs(req.Root):
		return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("root: expected an absolute path, got %q", clip(req.Root, labelBytes))}
	}
	return nil
}

// gather finds a session and has take look at its events, one after the other.
func (m *Maker) gather(ctx context.Context, id string, take func(object)) (whole string, err error) {
	found, err := rpc.Call(ctx, m.Mem, proto.MemFindSession, proto.FindSession{SessionID: id})
	if err != nil {
		return "", err
	}
	for from, more := int64(0), true; more; {
		page, err := rpc.Call(ctx, m.Mem, proto.MemReadSession, proto.ReadSession{SessionID: found.SessionID, From: from})
		if err != nil {
			return "", err
		}
		events, err := wire.Elements(page.Events)
		if err != nil {
			return "", fmt.Errorf("mem answered with events that are no list: %w", err)
		}
		for _, event := range events {
			take(read(event))
		}
		if page.More && page.Next <= from {
			return "", errors.New("mem answered with a part of a session that leads nowhere")
		}
		from, more = page.Next, page.More
	}
	return found.SessionID, nil
}

// draft has the model write a bundle. It is asked for a stream, although only
// the whole counts: so one that takes long is told from one that has stalled.
func (m *Maker) draft(ctx context.Context, req proto.Handoff, f *facts, t *transcript) (bundle, []string, error) {
	request, seen := messages(req.Goal, f, t)
	answer, err := rpc.CallText(ctx, m.Rtr, proto.RtrInfer, proto.Infer{
		Messages: request, Temperature: m.Temperature, TopP: m.TopP, Stream: true, NeedModel: true,
		Provider: req.Provider, Model: req.Model, MaxTokens: req.MaxTokens, Effort: cmp.Or(req.Effort, m.Effort),
	}, nowhere{})
	if err != nil {
		return bundle{}, nil, err
	}
	b, filled := draft{f, req.Goal, seen, sections(answer.Content)}.bundle()
	return b, filled, nil
}

// nowhere is a sink for text that is read when it is whole.
type nowhere struct{}

// Text leaves a piece alone.
func (nowhere) Text([]byte) error { return nil }

// Flush has nothing to do.
func (nowhere) Flush() error { return nil }

// ofSession words an error of mem.
func ofSession(ctx context.Context, err error) error {
	return worded(ctx, err, func(e *proto.Error) { e.Kind = "session" })
}

// ofModel words an error of rtr.
func ofModel(ctx context.Context, err error) error {
	return worded(ctx, err, func(e *proto.Error) {
		e.Message = strings.TrimRight(e.Message, ".") + "; with --offline the bundle is made of the session's events, without a model"
	})
}

// worded is an error with what there is to add, but for that of a caller who has
// left.
func worded(ctx context.Context, err error, add func(*proto.Error)) error {
	if ctx.Err() != nil {
		return err
	}
	told := proto.Error{Code: proto.CodeInternal, Message: err.Error()}
	if e, ok := errors.AsType[*proto.Error](err); ok {
		told = *e
	}
	add(&told)
	return &told
}
