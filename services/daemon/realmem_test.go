package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	assemble "zino/services/ctx"
	"zino/services/mem"
)

// realEnv is a daemon with the real mem and the real ctx.
type realEnv struct {
	*env
	sessions string       // the directory
	stop     func() error // stops mem
}

func newRealEnv(t *testing.T, script agentScript) *realEnv {
	t.Helper()
	dir := zinotest.Dir(t)
	n := all()
	n.mem, n.ctx = nil, nil
	n.agr = (&sessionEnv{trail: &trail{}}).scripted(script)
	n.config = func(cfg *config.Config) { cfg.Mem.DataDir = dir }
	b := &realEnv{env: newEnv(t, n), sessions: filepath.Join(dir, "sessions")}
	quiet := slog.New(slog.DiscardHandler)
	b.startMem()
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
	cat, err := catalog.Open(filepath.Join(dir, "tools"), filepath.Join(dir, "skills"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	client := &rpc.Client{Service: "mem", Path: b.cfg.Mem.Socket}
	t.Cleanup(func() {
		client.Close()
		if err := cat.Close(); err != nil {
			t.Error(err)
		}
	})
	b.serve("ctx", assemble.New(b.cfg, cat, client, quiet).Register)
	return b
}

// startMem starts mem, which can be stopped and started again.
func (b *realEnv) startMem() {
	b.t.Helper()
	m, err := mem.Open(b.cfg.Mem, slog.New(slog.DiscardHandler))
	if err != nil {
		b.t.Fatal(err)
	}
	server := b.serve("mem", m.Register)
	served := b.served
	b.stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), zinotest.Timeout)
		defer cancel()
		err := server.Shutdown(ctx)
		<-served // a listener that Serve has not taken yet is closed there
		return errors.Join(err, m.Close())
	}
}

// file are a session's lines without their times.
func (b *realEnv) file(id string) (lines []string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.sessions, id+".jsonl"))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.t.Fatalf("%s: %v", line, err)
		}
		var ts string
		if err := json.Unmarshal(e["ts"], &ts); err != nil {
			b.t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, strings.Replace(strings.TrimSpace(line), `,"ts":"`+ts+`"`, "", 1))
	}
	return lines
}

// TestRealSession: a turn whose caller leaves while a tool runs, and the turn
// after it, which sends to the agent everything that was said and done.
func TestRealSession(t *testing.T) {
	reached := make(chan struct{}, 1)
	b := newRealEnv(t, func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		select {
		case reached <- struct{}{}: // the first turn
			err := say(append(slices.Clone(wholeTurn[:7]), `{"type":"assistant_delta","text":"and"}`)...)
			if err == nil {
				<-ctx.Done()
			}
			return proto.Text{}, err
		default:
			return ends(), say(deltaC, finalC)
		}
	})
	c := b.dial()
	c.Send(turnPayload)
	c.heard(8)
	c.Close()
	rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
	head := []string{`{"type":"meta","schema_version":1,"root":"/r"}`, storedUser, storedA, storedCall, usageA}
	cut := []string{`{"type":"message","role":"assistant","text":"and","partial":true}`, storedBreak}
	same(t, "the session", b.file("s-1"), append(slices.Clone(head), cut...))

	next := b.dial()
	next.Send(strings.Replace(turnPayload, "hi <you>", "go on", 1))
	if last := next.rest(); last[len(last)-1].Type != "done" {
		t.Fatalf("the next turn: %s", raws(last))
	}
	lost := `{"type":"tool_result","tool_use_id":"c1","output":{"ok":false,"error":{"code":"interrupted","message":"The call was interrupted and its result was lost."}},"ok":false,"synthetic":true}`
	same(t, "the session", b.file("s-1"), append(append(head, cut...), lost, `{"type":"message","role":"user","text":"go on"}`, storedC))
	same(t, "what the agent is given", roles(t, b.runs.list()[1].Messages), []string{"system", "user", "assistant c1", "tool c1", "assistant", "user"})
}

// roles are the roles of messages, with the ids of calls.
func roles(t *testing.T, messages proto.Raw) (all []string) {
	t.Helper()
	var list []struct {
		Role      string
		ID        string                `json:"tool_call_id"`
		ToolCalls []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal(messages, &list); err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		var role strings.Builder
		role.WriteString(m.Role)
		for _, call := range m.ToolCalls {
			role.WriteString(" " + call.ID)
		}
		all = append(all, strings.TrimSpace(role.String()+" "+m.ID))
	}
	return all
}

// TestRealForeign: a file that is no session stays as it is, and the caller is
// told about it.
func TestRealForeign(t *testing.T) {
	b := newRealEnv(t, whole)
	if err := os.Mkdir(b.sessions, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.sessions, "s-1.jsonl")
	if err := os.WriteFile(path, []byte("my notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := b.dial()
	c.Send(turnPayload)
	if packets := c.rest(); len(packets) != 1 || packets[0].Code != "invalid" || !strings.Contains(packets[0].Message, "s-1.jsonl is not a session") || !strings.Contains(packets[0].Raw, `"kind":"session"`) {
		t.Errorf("packets %s", raws(packets))
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "my notes\n" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// TestRealTurns: turns of many callers on one session follow each other, whole.
func TestRealTurns(t *testing.T) {
	const callers = 6
	b := newRealEnv(t, whole)
	ended := make(chan packet, callers)
	for range callers {
		c := b.dial()
		c.Send(turnPayload)
		go func() {
			for p := c.Next(); ; p = c.Next() {
				if p.Type == "done" || p.Type == "error" || p.Type == "" {
					ended <- p
					return
				}
			}
		}()
	}
	want := []string{`{"type":"meta","schema_version":1,"root":"/r"}`}
	for range callers {
		if p := <-ended; p.Type != "done" {
			t.Errorf("a turn ends with %s", p.Raw)
		}
		want = append(want, storedBy(places-1)...)
	}
	same(t, "the session", b.file("s-1"), want)
}
