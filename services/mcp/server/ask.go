package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/approval"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// question holds the arguments of ask.
type question struct {
	Prompt    string `json:"prompt"`
	SessionID string `json:"session_id"`
	Root      string `json:"root"`
	Model     string `json:"model"`
}

// answer is the result of ask.
type answer struct {
	SessionID  string `json:"session_id"`
	Text       string `json:"text"`
	StopReason string `json:"stop_reason,omitzero"`
}

// ask runs a turn of a session. Hanging up cancels it.
func ask(ctx context.Context, s *Server, req *mcp.CallToolRequest, q question) (any, string, error) {
	root, err := s.rootOf(q.Root)
	if err != nil {
		return nil, "", err
	}
	if strings.TrimSpace(q.Prompt) == "" {
		return nil, "", errors.New("the prompt is empty")
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	if q.SessionID == "" {
		q.SessionID = proto.NewSessionID()
	}
	chat := proto.Chat{
		Message: q.Prompt, SessionID: q.SessionID, Root: root, Model: q.Model, NeedModel: true,
		Sandbox: s.o.Sandbox, Network: s.o.Network, Mode: proto.ModeDerived, Events: true,
	}
	c := &rpc.Client{Service: "daemon", Path: s.o.Daemon}
	defer c.Close()
	method := proto.Method[proto.Chat, done]{Service: "daemon", Type: proto.DaemonChat.Type, Reply: proto.TypeDone}
	p := progress{session: req.Session, token: req.Params.GetProgressToken()}
	end, err := rpc.CallEvents(ctx, c, method, chat, func(typ string, payload []byte) error {
		return p.event(ctx, typ, payload)
	})
	if err != nil {
		return nil, "", err
	}
	return answer{SessionID: q.SessionID, Text: end.FullText, StopReason: end.StopReason}, end.FullText, nil
}

// done is the end of a chat request with events.
type done struct {
	FullText   string `json:"full_text"`
	StopReason string `json:"stop_reason"`
}

// rootOf returns the directory of a turn, without symbolic links.
func (s *Server) rootOf(root string) (string, error) {
	switch {
	case s.o.Root == "" && root == "":
		return "", nil
	case s.o.Root == "":
		return "", errors.New("this server takes no root: it was started without --root DIR")
	}
	top, err := filepath.EvalSymlinks(s.o.Root)
	if err != nil || root == "" {
		return top, err
	}
	if !filepath.IsAbs(root) {
		return "", fmt.Errorf("root %q is not an absolute path", root)
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	if inside, err := filepath.Rel(top, real); err != nil || inside == ".." || strings.HasPrefix(inside, "../") {
		return "", fmt.Errorf("root %q is outside of %s, which this server was started with", root, s.o.Root)
	}
	return real, nil
}

// progress reports the steps of a turn to a client that asked for them.
type progress struct {
	session *mcp.ServerSession
	token   any

	mu    sync.Mutex
	steps float64
}

// event reports a packet of the turn.
func (p *progress) event(ctx context.Context, typ string, payload []byte) error {
	if p.token == nil {
		return nil
	}
	var text string
	switch typ {
	case proto.TypeToolStarted:
		var started proto.ToolStarted
		if err := wire.DecodeReply(payload, &started); err != nil {
			return err
		}
		text, _ = approval.Shown(started.Name, nil)
	case proto.TypeNotice:
		var notice proto.Notice
		if err := wire.DecodeReply(payload, &notice); err != nil {
			return err
		}
		text = notice.Text
	case proto.TypeUsage:
		text = "inference"
	default:
		return nil
	}
	p.mu.Lock()
	p.steps++
	steps := p.steps
	p.mu.Unlock()
	return p.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: steps, Message: text})
}
