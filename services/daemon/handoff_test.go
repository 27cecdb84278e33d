package daemon

import (
	"context"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// handoffEnv is a daemon whose mem has one session, in which build was run.
func handoffEnv(t *testing.T, answer string) *env {
	n := all()
	n.rtr = model(answer, "\n")
	n.config = func(cfg *config.Config) { cfg.Agent.Temperature, cfg.Agent.TopP, cfg.Agent.Effort = 0.5, 0.25, "low" }
	n.more = func(service string, s *rpc.Server) {
		if service != "mem" {
			return
		}
		rpc.Handle(s, proto.MemFindSession, func(_ context.Context, req proto.FindSession) (proto.SessionSummary, error) {
			if req.SessionID != "" {
				return proto.SessionSummary{}, &proto.Error{Code: proto.CodeNotFound, Message: "There is no session."}
			}
			return proto.SessionSummary{SessionID: "s-1"}, nil
		})
		rpc.Handle(s, proto.MemReadSession, func(_ context.Context, req proto.ReadSession) (proto.SessionEvents, error) {
			return proto.SessionEvents{SessionID: req.SessionID, Events: proto.Raw(`[
				{"type":"message","role":"user","text":"build it"},
				{"type":"tool_use","id":"1","name":"bash","input":{"command":"make build"}},
				{"type":"tool_result","tool_use_id":"1","output":{"ok":true,"data":{"exit_code":0}},"ok":true},
				{"type":"message","role":"assistant","text":"built"}]`)}, nil
		})
	}
	return newEnv(t, n)
}

// TestHandoff: a bundle has what the model wrote, and the rest from the session.
func TestHandoff(t *testing.T) {
	b := handoffEnv(t, `{"goal":"ship","open_tasks":["tag it"]}`)
	_, last := b.ask(`{"type":"handoff","goal":"ship","root":"/p","model":"m"}`)
	if last.Type != "handoff_bundle" || !strings.Contains(last.Raw, `"session_id":"s-1"`) ||
		!strings.Contains(last.Raw, `"filled":["Starter prompt","Relevant files","Repro commands"]`) ||
		!strings.Contains(last.Content, "## Open tasks\n\n- [ ] tag it\n") || !strings.Contains(last.Content, "```sh\nmake build\n```") {
		t.Errorf("got %s", last.Raw)
	}
	asked := b.infers.list()
	if len(asked) != 1 || asked[0].Model != "m" || asked[0].Temperature != 0.5 || asked[0].TopP != 0.25 || asked[0].Effort != "low" || !asked[0].NeedModel {
		t.Errorf("asked %+v", asked)
	}
}

func TestHandoffOffline(t *testing.T) {
	b := handoffEnv(t, "unasked")
	_, last := b.ask(`{"type":"handoff","goal":"ship","offline":true}`)
	if last.Type != "handoff_bundle" || strings.Contains(last.Raw, `"filled"`) || !strings.Contains(last.Content, "- build it\n") {
		t.Errorf("got %s", last.Raw)
	}
	if asked := b.infers.list(); len(asked) != 0 {
		t.Errorf("asked %+v", asked)
	}
}

// TestHandoffOfNothing: the error is mem's, with its kind.
func TestHandoffOfNothing(t *testing.T) {
	b := handoffEnv(t, "unasked")
	_, last := b.ask(`{"type":"handoff","goal":"ship","session_id":"nope"}`)
	const want = `{"type":"error","message":"There is no session.","code":"not_found","service":"mem","kind":"session"}`
	if last.Raw != want {
		t.Errorf("got %s", last.Raw)
	}
}
