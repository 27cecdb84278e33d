package constellation_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// forwarded calls a method of another service through the daemon.
func forwarded[Req, Rep any](e *agentsEnv, m proto.Method[Req, Rep], req Req) (reply Rep, err error) {
	e.t.Helper()
	inner, err := wire.AppendObject(nil, m.Type, req)
	zinotest.Must(e.t, err)
	method := proto.Method[proto.Forward, Rep]{Service: "daemon", Type: proto.DaemonForward.Type, Reply: m.Reply}
	return rpc.Call(e.t.Context(), e.daemon, method, proto.Forward{Service: m.Service, Request: inner})
}

// TestFactsOfChat checks that a client of the daemon learns what an interactive chat
// shows: before the first turn the model, its context and the confinement, afterwards the
// usage, the list of tasks and the list of sessions.
func TestFactsOfChat(t *testing.T) {
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Exc.Sandbox = proto.LevelWorkspaceWrite
		cfg.Rtr.Model = []config.Model{{Name: "mine", Provider: "anthropic", Context: 70_000}}
	},
		fakellm.Turn{Calls: []fakellm.Call{{Name: "todo", Args: `{"items":[{"text":"write the test","status":"active"}]}`}}},
		fakellm.Turn{Text: "done", Times: fakellm.Forever},
	)
	for model, want := range map[string]proto.RouterCapabilities{
		"": {Model: "claude-sonnet-5-5", ContextWindow: 200_000}, "mine": {Model: "mine", ContextWindow: 70_000}, "other": {Model: "other"},
	} {
		got, err := forwarded(e, proto.RtrCapabilities, proto.ModelSelector{Model: model})
		if err != nil || got.Provider != "anthropic" || got.Model != want.Model || got.ContextWindow != want.ContextWindow {
			t.Errorf("model %q: got %+v, %v", model, got, err)
		}
	}
	executor, err := forwarded(e, proto.ExcCapabilities, proto.CapabilitiesRequest{})
	if err != nil || executor.Sandbox != proto.LevelWorkspaceWrite || executor.Network {
		t.Errorf("got %+v, %v", executor, err)
	}
	models, err := forwarded(e, proto.RtrModels, proto.ModelsRequest{})
	zinotest.Must(t, err)
	for name, window := range map[string]int{"claude-sonnet-5-5": 200_000, "mine": 70_000} {
		i := slices.IndexFunc(models.Models, func(m proto.Model) bool { return m.Name == name })
		if i < 0 || models.Models[i].Provider != "anthropic" || models.Models[i].Context != window || !slices.Contains(models.Models[i].Efforts, "high") {
			t.Errorf("%s: got %+v", name, models)
		}
	}

	started, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{Message: "fix the mean", Root: e.root})
	zinotest.Must(t, err)
	follow := func(from int64) string {
		var kinds []string
		ctx, cancel := context.WithTimeout(t.Context(), zinotest.Timeout)
		defer cancel()
		_, err := rpc.CallEvents(ctx, e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: started.SessionID, From: &from}, func(typ string, payload []byte) error {
			switch typ {
			case proto.TypeTodo:
				var list proto.Todo
				zinotest.Must(t, wire.DecodeReply(payload, &list))
				if want := (proto.TodoItem{Text: "write the test", Status: proto.TodoActive}); len(list.Items) != 1 || list.Items[0] != want {
					t.Errorf("got %s", payload)
				}
			case proto.TypeUsage:
				var usage proto.InferenceUsage
				zinotest.Must(t, wire.DecodeReply(payload, &usage))
				if usage.ContextWindow != 200_000 || usage.Model != "claude-sonnet-5-5" || usage.CostUSD == nil {
					t.Errorf("got %s", payload)
				}
			default:
				return nil
			}
			kinds = append(kinds, typ)
			return nil
		})
		zinotest.Must(t, err)
		return strings.Join(kinds, " ")
	}
	zinotest.Equal(t, "live", follow(started.Next), "usage todo usage")
	zinotest.Equal(t, "replayed", follow(0), "usage todo usage")

	other := proto.TurnStart{Message: "elsewhere", SessionID: started.SessionID[:6] + "other", Root: filepath.Dir(e.root)}
	_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, other)
	zinotest.Must(t, err)
	e.end(other.SessionID)
	list, err := forwarded(e, proto.MemListSessions, proto.ListSessions{Root: e.root})
	if err != nil || len(list.Sessions) != 1 || list.Elsewhere != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	if s := list.Sessions[0]; s.SessionID != started.SessionID || s.Root != e.root || s.Title != "fix the mean" || s.CostUSD == nil || *s.CostUSD == 0 {
		t.Errorf("got %+v", s)
	}
	for _, test := range []struct {
		req     proto.FindSession
		id, why string
	}{
		{proto.FindSession{}, other.SessionID, ""},
		{proto.FindSession{Root: e.root}, started.SessionID, ""},
		{proto.FindSession{SessionID: started.SessionID[:8]}, started.SessionID, ""},
		{proto.FindSession{SessionID: started.SessionID[:6]}, "", "Several sessions begin with"},
		{proto.FindSession{SessionID: "none"}, "", "none"},
		{proto.FindSession{Root: "/nowhere"}, "", "No sessions found."},
	} {
		got, err := forwarded(e, proto.MemFindSession, test.req)
		if test.why == "" && (err != nil || got.SessionID != test.id) || test.why != "" && (err == nil || !strings.Contains(err.Error(), test.why)) {
			t.Errorf("%+v: got %+v, %v", test.req, got, err)
		}
	}
}
