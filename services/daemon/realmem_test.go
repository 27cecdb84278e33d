package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	sessions string // the directory
	stop     func() // stops mem
}

func newRealEnv(t *testing.T, script agentScript) *realEnv {
	t.Helper()
	return newRealEnvIn(t, zinotest.Dir(t), script)
}

// newRealEnvIn is newRealEnv with the data directory of mem.
func newRealEnvIn(t *testing.T, dir string, script agentScript) *realEnv {
	t.Helper()
	n := all()
	n.mem, n.ctx, n.storeTimeout = nil, nil, zinotest.Timeout
	agr := &sessionEnv{trail: &trail{}, barrier: newBarrier()}
	n.agr = agr.scripted(script)
	n.more = func(service string, s *rpc.Server) {
		if service == "agr" {
			agr.register(s)
		}
	}
	n.config = func(cfg *config.Config) { cfg.Mem.DataDir = dir }
	b := &realEnv{env: newEnv(t, n), sessions: filepath.Join(dir, "sessions")}
	b.startMem()
	cat, err := catalog.Open(filepath.Join(dir, "tools"), filepath.Join(dir, "skills"), b.log.Logger())
	zinotest.Must(t, err)
	t.Cleanup(func() { zinotest.Must(t, cat.Close()) })
	ctx := assemble.New(b.cfg, cat, rpctest.Client(t, "mem", b.cfg.Mem.Socket), b.log.Logger())
	rpctest.New(t, "ctx", b.cfg.Ctx.Socket, ctx.Register)
	return b
}

// startMem starts mem, which can be stopped and started again.
func (b *realEnv) startMem() {
	b.t.Helper()
	m, err := mem.Open(b.cfg.Mem, b.log.Logger())
	zinotest.Must(b.t, err)
	s := rpc.NewServer("mem", b.log.Logger())
	m.Register(s)
	_, stop := rpctest.Serve(b.t, s, b.cfg.Mem.Socket)
	b.stop = sync.OnceFunc(func() {
		stop()
		if err := m.Close(); err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(b.stop)
}

// file returns the lines of a session's file without their times.
func (b *realEnv) file(id string) (lines []string) {
	b.t.Helper()
	for line := range strings.Lines(zinotest.Read(b.t, filepath.Join(b.sessions, id+".jsonl"))) {
		var e struct{ TS string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.t.Fatalf("%s: %v", line, err)
		}
		line = strings.Replace(strings.TrimSpace(line), `,"ts":"`+e.TS+`"`, "", 1)
		if len(lines) == 0 {
			line = startedBy.ReplaceAllString(line, "}")
		}
		lines = append(lines, turnID.ReplaceAllString(request.ReplaceAllString(line, ""), `"t"`))
	}
	return lines
}

// wholeFile returns the lines of a session with one whole turn.
func wholeFile() []string {
	return append([]string{`{"type":"meta","schema_version":1,"root":"/r"}`}, wholeStored()...)
}

// checkDone checks that a turn ends with done.
func checkDone(t *testing.T, c *rpctest.Conn) {
	t.Helper()
	if packets, last := rest(c); last.Type != "done" {
		t.Errorf("packets %s", packets)
	}
}

// TestRealSession checks a turn whose caller disconnects while a tool runs, and the
// next turn, which sends agr all events of the first one.
func TestRealSession(t *testing.T) {
	reached := make(chan struct{}, 1)
	b := newRealEnv(t, func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		select {
		case reached <- struct{}{}: // the first turn
			err := say(append(slices.Clone(wholeTurn[:8]), `{"type":"assistant_delta","text":"and"}`)...)
			if err == nil {
				<-ctx.Done()
			}
			return proto.Text{}, err
		default:
			return ends(), say(deltaC, finalC, strings.Replace(checkEnd, "2", "1", 1))
		}
	})
	c := b.dial()
	c.Send(turnPayload)
	c.Packets(8)
	c.Close()
	rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
	first := append(wholeFile()[:6], storedLost, `{"type":"message","role":"assistant","text":"and","partial":true,"turn":"t","step":1}`, storedBreak, storedStop)
	equalLists(t, "the session", b.file("s-1"), first)

	next := b.dial()
	next.Send(strings.Replace(turnPayload, "hi <you>", "go on", 1))
	checkDone(t, next)
	second := []string{storedBegin, strings.Replace(storedUser, "hi <you>", "go on", 1), strings.Replace(storedC, `"step":2`, `"step":1`, 1), storedEnd}
	equalLists(t, "the session", b.file("s-1"), append(first, second...))
	equalLists(t, "the messages that agr gets", roles(t, b.runs.All()[1].Messages), []string{"system", "user", "assistant c1", "tool c1", "assistant", "user"})
}

// roles returns the roles of messages, with the ids of calls.
func roles(t *testing.T, messages proto.Raw) (all []string) {
	t.Helper()
	var list []struct {
		Role      string
		ID        string                `json:"tool_call_id"`
		ToolCalls []struct{ ID string } `json:"tool_calls"`
	}
	zinotest.Must(t, json.Unmarshal(messages, &list))
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

// TestForeignFile checks that a turn fails on a file that is not a session, and leaves
// it unchanged.
func TestForeignFile(t *testing.T) {
	b := newRealEnv(t, whole)
	path := filepath.Join(b.sessions, "s-1.jsonl")
	zinotest.Write(t, path, "my notes\n")
	if packets, last := b.turn(turnPayload); len(packets) != 1 || last.Code != "invalid" || !strings.Contains(last.Message, "s-1.jsonl is not a session") || !strings.Contains(last.Raw, `"kind":"session"`) {
		t.Errorf("packets %s", packets)
	}
	zinotest.Equal(t, "the file", zinotest.Read(t, path), "my notes\n")
}

// lockSession locks a session as another constellation would.
func (b *realEnv) lockSession(id string) (release func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	client := rpctest.Client(b.t, "mem", b.cfg.Mem.Socket)
	held, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		rpc.CallEvents(ctx, client, proto.MemHoldSession, proto.HoldSession{SessionID: id, Mend: new(false)}, func(typ string, _ []byte) error {
			if typ == proto.TypeHeld {
				close(held)
			}
			return nil
		})
	}()
	zinotest.Receive(b.t, "the lock", held)
	return func() { cancel(); <-ended }
}

// TestRealTurns checks that concurrent turns on one session are stored one after the
// other.
func TestRealTurns(t *testing.T) {
	const callers = 6
	b := newRealEnv(t, whole)
	ended := make(chan rpctest.Packet, callers)
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
	want := wholeFile()[:1]
	for range callers {
		if p := <-ended; p.Type != "done" {
			t.Errorf("a turn ends with %s", p.Raw)
		}
		want = append(want, wholeStored()...)
	}
	equalLists(t, "the session", b.file("s-1"), want)
}

// during returns an env whose turns call happen after place packets of agr.
func during(t *testing.T, place int, happen func(context.Context, *realEnv)) *realEnv {
	t.Helper()
	var b *realEnv
	b = newRealEnv(t, stops(place, func(ctx context.Context) { happen(ctx, b) }))
	return b
}

// TestMemRestarts restarts mem once or three times after every packet of a turn. The
// turn must continue and be stored completely.
func TestMemRestarts(t *testing.T) {
	for place := range places {
		b := during(t, place, func(_ context.Context, b *realEnv) {
			for range 1 + place%2*2 {
				b.stop()
				b.startMem()
			}
		})
		packets, _ := b.turn(turnPayload)
		equalLists(t, fmt.Sprintf("packets, mem restarted after %d of them", place), packets, append(slices.Clone(wholeAnswer), wholeDone))
		equalLists(t, "the session", b.file("s-1"), wholeFile())
		rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
	}
}

// TestSessionChanged checks that a turn fails, without storing more events, if another
// process has changed the session during a restart of mem.
func TestSessionChanged(t *testing.T) {
	const theirs = `{"type":"message","role":"user","text":"mine","ts":"2026-11-21T10:00:00Z"}` + "\n"
	for name, change := range map[string]func(file, text string) error{
		"written": func(file, text string) error { return os.WriteFile(file, []byte(text+theirs), 0o600) },
		"removed": func(file, _ string) error { return os.Remove(file) },
	} {
		t.Run(name, func(t *testing.T) {
			var left string
			b := during(t, 4, func(_ context.Context, b *realEnv) {
				file := filepath.Join(b.sessions, "s-1.jsonl")
				b.stop()
				text, err := os.ReadFile(file)
				if err := errors.Join(err, change(file, string(text))); err != nil {
					t.Error(err)
				}
				text, _ = os.ReadFile(file) // nil if it was removed
				left = string(text)
				b.startMem()
			})
			_, last := b.turn(turnPayload)
			if want := `session "s-1" was changed by another process during the turn`; last.Message != want || last.Code != "busy" || !strings.Contains(last.Raw, `"kind":"session"`) {
				t.Errorf("the end is %s", last.Raw)
			}
			rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
			if text, _ := os.ReadFile(filepath.Join(b.sessions, "s-1.jsonl")); string(text) != left {
				t.Errorf("the file is\n%swant\n%s", text, left)
			}
		})
	}
}

// TestHangUpWithoutMem checks that the text so far and the interruption are stored when
// mem is running again after the caller has disconnected.
func TestHangUpWithoutMem(t *testing.T) {
	left := make(chan struct{})
	b := during(t, 3, func(ctx context.Context, b *realEnv) {
		b.stop()
		close(left)
		<-ctx.Done()
	})
	c := b.dial()
	c.Send(turnPayload)
	zinotest.Receive(t, "mem to stop", left)
	c.Packets(3)
	c.Close()
	b.startMem()
	want := append(wholeFile()[:3], storedPart, storedBreak, storedStop)
	zinotest.Eventually(t, "all of it to be stored", func() bool { return len(b.file("s-1")) == len(want) })
	equalLists(t, "the session", b.file("s-1"), want)
	rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
}

// TestAnswerLost drops the first reply of every append. The append must be repeated,
// and its events stored once.
func TestAnswerLost(t *testing.T) {
	b := newRealEnv(t, whole)
	var mu sync.Mutex
	lost := map[string]bool{}
	newProxy(t, b.cfg.Mem.Socket, func(answer []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(string(answer), `"type":"session"`) || lost[string(answer)] {
			return false
		}
		lost[string(answer)] = true
		return true
	})
	b.turn(turnPayload)
	mu.Lock()
	defer mu.Unlock()
	if len(lost) != len(appends) {
		t.Errorf("%d answers were lost, want %d", len(lost), len(appends))
	}
	equalLists(t, "the session", b.file("s-1"), wholeFile())
}

// TestLockedAgain checks that the turn locks its session again after a restart of mem.
func TestLockedAgain(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, stops(3, func(context.Context) { close(reached); <-goOn }))
	unblock := sync.OnceFunc(func() { close(goOn) })
	defer unblock()
	c := b.dial()
	c.Send(turnPayload)
	zinotest.Receive(t, "the step", reached)
	b.stop()
	b.startMem()
	client := rpctest.Client(t, "mem", b.cfg.Mem.Socket)
	zinotest.Eventually(t, "the session to be locked again", func() (locked bool) {
		rpc.CallEvents(t.Context(), client, proto.MemHoldSession, proto.HoldSession{SessionID: "s-1"}, func(typ string, _ []byte) error {
			locked = typ == proto.TypeWaiting
			return context.Canceled // hang up
		})
		return locked
	})
	unblock()
	checkDone(t, c)
}
