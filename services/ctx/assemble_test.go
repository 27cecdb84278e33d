package assemble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

func TestOrder(t *testing.T) {
	e := newEnv(t)
	e.skill("b", `[{"role":"system","content":"s"},{"role":"user","content":"bu","x":[1]},{"role":"assistant","content":"<b>"}]`)
	e.skill("a", `[{"role":"assistant","content":"a"},{"role":"tool","content":"t"}]`)
	e.skill("c", `[]`)
	e.mem.memories = memories(`[{"role":"user","content":"m1"},{"role":"assistant","content":"m2"}]`, `[]`, `[{"role":"user","content":"m3"}]`)
	e.mem.history = history("[\n{\"role\":\"user\",\"content\":\"h\\u00e9\",\"id\":7}\n]")
	e.start()
	want := `[{"role":"assistant","content":"a"},{"role":"user","content":"bu","x":[1]},{"role":"assistant","content":"<b>"},` +
		`{"role":"user","content":"m1"},{"role":"assistant","content":"m2"},{"role":"user","content":"m3"},` +
		`{"role":"user","content":"h\u00e9","id":7}]`
	if got := e.build("kitchen", "hello"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := e.mem.requested(), `search "hello" 3; history "kitchen" 50`; got != want {
		t.Errorf("requested %s, want %s", got, want)
	}
}

func TestOnlyNeededPartsAreRequested(t *testing.T) {
	for _, c := range []struct {
		name             string
		channel, message string
		topK, limit      int
		want             string
	}{
		{"no channel", "", "hi", 2, 10, `search "hi" 2`},
		{"blank message", "c", " \n\u00a0", 2, 10, `history "c" 10`},
		{"no memories", "c", "hi", 0, 10, `history "c" 10`},
		{"a negative number", "c", "hi", -1, 10, `history "c" 10`},
		{"whole history", "c", "hi", 1, 0, `search "hi" 1; history "c" 0`},
		{"nothing", "", "", 3, 50, ``},
		{"message unchanged", "", " hi ", 1, 0, `search " hi " 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Ctx.HardMemoryTopK, e.cfg.Ctx.HistoryLimit = c.topK, c.limit
			e.start()
			if got := e.build(c.channel, c.message); got != `[]` {
				t.Errorf("got %s", got)
			}
			zinotest.Equal(t, "requests", e.mem.requested(), c.want)
		})
	}
}

func TestFailedPartIsLeftOutAndLogged(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, c := range []struct {
		name string
		set  func(m *fakeMem)
		want string
		log  string
	}{
		{"memories", func(m *fakeMem) {
			m.memories = func(context.Context) (proto.HardMemories, error) { return proto.HardMemories{}, broken }
		}, `[{"role":"user","content":"e"},{"role":"user","content":"h"}]`, "hard memories"},
		{"history", func(m *fakeMem) {
			m.history = func(context.Context, int) (proto.History, error) { return proto.History{}, broken }
		}, `[{"role":"user","content":"e"},{"role":"user","content":"m"}]`, "the history"},
		{
			"history is not a list", func(m *fakeMem) { m.history = history(`{"role":"user"}`) },
			`[{"role":"user","content":"e"},{"role":"user","content":"m"}]`, "expected a list of messages",
		},
		{
			"one memory is not a list", func(m *fakeMem) { m.memories = memories(`"x"`, `[{"role":"user","content":"m"}]`) },
			`[{"role":"user","content":"e"},{"role":"user","content":"m"},{"role":"user","content":"h"}]`, "a hard memory",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			e.skill("s", `[{"role":"user","content":"e"}]`)
			e.mem.memories = memories(`[{"role":"user","content":"m"}]`)
			e.mem.history = history(`[{"role":"user","content":"h"}]`)
			c.set(e.mem)
			e.start()
			if got := e.build("c", "hi"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if !strings.Contains(e.log.String(), c.log) {
				t.Errorf("log: %s", &e.log)
			}
		})
	}
}

func TestMemMayBeDown(t *testing.T) {
	e := newEnv(t)
	e.skill("s", `[{"role":"user","content":"e"}]`)
	e.startCtx()
	if got, want := e.build("c", "hi"), `[{"role":"user","content":"e"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	e.mem.history = history(`[{"role":"user","content":"h"}]`)
	e.startMem()
	if got, want := e.build("c", "hi"), `[{"role":"user","content":"e"},{"role":"user","content":"h"}]`; got != want {
		t.Errorf("after mem started: got %s, want %s", got, want)
	}
}

func TestExamplesFollowChangedSkills(t *testing.T) {
	e := newEnv(t)
	e.start()
	if got := e.build("", "hi"); got != `[]` {
		t.Fatalf("at first %s", got)
	}
	e.skill("s", `[{"role":"user","content":"new"}]`)
	zinotest.Eventually(t, "the new skill is used", func() bool { return e.build("", "hi") == `[{"role":"user","content":"new"}]` })
	stats := e.stats()
	if stats.Info["example_messages"] != "1" {
		t.Errorf("info: %v", stats.Info)
	}
}

func TestConformance(t *testing.T) {
	e := newEnv(t)
	block := rpctest.NewBlock()
	e.mem.session = func(ctx context.Context) (proto.SessionMessages, error) {
		return proto.SessionMessages{Messages: proto.Raw(`[]`)}, block.Wait(ctx)
	}
	e.start()
	rpctest.Conformance(t, filepath.Join(e.dir, "c"), []rpctest.Case{
		{Name: "empty", Request: `{"type":"build","user_message":""}`, Reply: `{"type":"context","messages":[]}`},
		{Name: "no message", Request: `{"type":"build"}`, Code: "invalid", Message: `Invalid request: missing field "user_message"`},
		{Name: "wrong type", Request: `{"type":"build","user_message":5}`, Code: "invalid", Message: "Invalid request: …"},
		{Name: "blocked", Request: `{"type":"build","session_id":"s-1","user_message":""}`, Block: block},
	})
}

func TestConcurrentBuilds(t *testing.T) {
	e := newEnv(t)
	rpctest.New(t, "mem", filepath.Join(e.dir, "m"), func(s *rpc.Server) {
		rpc.Handle(s, proto.MemSearchHard, func(_ context.Context, req proto.SearchHard) (proto.HardMemories, error) {
			return memories(messageOf(t, req.Query))(nil)
		})
		rpc.Handle(s, proto.MemGetHistory, func(_ context.Context, req proto.GetHistory) (proto.History, error) {
			return history(messageOf(t, req.ChannelID))(nil, 0)
		})
	})
	e.startCtx()
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range 20 {
				channel, message := fmt.Sprintf("c%d-%d", i, j), strings.Repeat(fmt.Sprint("m", i), 1+500*j)
				want := strings.TrimSuffix(messageOf(t, message), "]") + "," + messageOf(t, channel)[1:]
				reply, err := rpc.Call(t.Context(), e.client, proto.CtxBuild, proto.Build{ChannelID: channel, UserMessage: message})
				if err != nil || string(reply.Messages) != want {
					t.Errorf("%s: %v, %.100s", channel, err, reply.Messages)
				}
			}
		})
	}
	callers.Wait()
}

func messageOf(t *testing.T, text string) string {
	list, err := json.Marshal([]map[string]string{{"content": text, "role": "user"}})
	if err != nil {
		t.Error(err)
	}
	return string(list)
}

const calls = `{"role":"user","content":"read it"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}}],"reasoning_state":{"x":[1]}},{"role":"tool","tool_call_id":"c1","content":"{\"ok\":true}"}`

// sessionEnv has skills, memories and a history, which a session must not use, and
// small budgets, which must not shorten it.
func sessionEnv(t *testing.T) *env {
	t.Helper()
	e := newEnv(t)
	e.skill("s", pair("s", 50))
	e.mem.memories, e.mem.history = memories(pair("m", 50)), history(pair("h", 50))
	e.cfg.Ctx.HistoryLimit, e.cfg.Ctx.HistoryTokens, e.cfg.Ctx.ExamplesTokens, e.cfg.Ctx.MemoriesTokens = 1, 1, 1000, 1000
	return e
}

func (e *env) buildSession(contextTokens int, message string) (string, error) {
	req := proto.Build{SessionID: "s-1", ChannelID: "c", UserMessage: message, ContextTokens: contextTokens}
	reply, err := rpc.Call(e.t.Context(), e.client, proto.CtxBuild, req)
	return string(reply.Messages), err
}

func TestSessionIsPassedOnWhole(t *testing.T) {
	long := strings.TrimSuffix(dialogue(strings.Repeat("uA", 300)), "]") + "," + calls + "]"
	for name, messages := range map[string]string{"calls": "[" + calls + "]", "long": long, "new": `[]`} {
		t.Run(name, func(t *testing.T) {
			e := sessionEnv(t)
			e.mem.session = session(messages)
			e.start()
			if got, err := e.buildSession(0, "hi"); err != nil || got != messages {
				t.Errorf("got %.300s, error %v", got, err)
			}
			zinotest.Equal(t, "requests", e.mem.requested(), `session "s-1" 0`)
		})
	}
}

func TestSessionOverTheContextSize(t *testing.T) {
	e := sessionEnv(t)
	e.mem.session = session("[" + say("user", "q", 300) + "," + say("assistant", "a", 92) + "]")
	e.start()
	for _, c := range []struct {
		tokens  int
		message string
		fits    bool
	}{
		{0, strings.Repeat("x", 5000), true}, {-5, "", true}, {100, "1234567", true}, {100, "12345678", false}, {99, "123", true}, {98, "", false}, {1, "", false},
	} {
		got, err := e.buildSession(c.tokens, c.message)
		if (err == nil) != c.fits || (got != "") != c.fits {
			t.Errorf("%d tokens, %q: %v", c.tokens, c.message, err)
		}
		if !c.fits && (!errors.Is(err, proto.ErrTooLarge) || !strings.Contains(err.Error(), "zino handoff --from-session s-1") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("error %v", err)
		}
	}
}

// TestSessionErrorsOfMem checks that a missing session counts as a new one, and that
// every other error of mem is returned.
func TestSessionErrorsOfMem(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"new", &proto.Error{Code: proto.CodeNotFound, Message: "There is no session."}, nil},
		{"disk", &proto.Error{Code: proto.CodeInternal, Message: "disk on fire"}, proto.ErrInternal},
		{"too large", &proto.Error{Code: proto.CodeTooLarge, Message: "Go on in a new one: zino handoff."}, proto.ErrTooLarge},
		{"invalid", &proto.Error{Code: proto.CodeInvalid, Message: "No name of a session."}, proto.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := sessionEnv(t)
			e.mem.session = func(context.Context) (proto.SessionMessages, error) { return proto.SessionMessages{}, c.err }
			e.start()
			got, err := e.buildSession(0, "hi")
			if c.want == nil && (err != nil || got != `[]`) {
				t.Errorf("got %s, error %v", got, err)
			}
			if c.want != nil && (!errors.Is(err, c.want) || err.Error() != c.err.Error()) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestEmptySessionIsNeverTooLarge(t *testing.T) {
	e := sessionEnv(t)
	e.mem.session = session(`[]`)
	e.start()
	if got, err := e.buildSession(1, "a long message"); err != nil || got != `[]` {
		t.Errorf("got %s, error %v", got, err)
	}
}

func TestSessionWithoutMem(t *testing.T) {
	e := sessionEnv(t)
	e.startCtx()
	if got, err := e.buildSession(0, "hi"); err == nil {
		t.Errorf("got %s without mem", got)
	}
	e.mem.session = session(`{"role":"user"}`)
	e.startMem()
	if got, err := e.buildSession(0, "hi"); err == nil || !strings.Contains(err.Error(), "messages") {
		t.Errorf("not a list: got %s, error %v", got, err)
	}
}

// hanging returns a handler that ignores its deadline and blocks until the test ends.
func hanging[Rep any](t *testing.T) func(context.Context) (Rep, error) {
	t.Helper()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	return func(context.Context) (rep Rep, err error) {
		<-ended
		return rep, err
	}
}

func TestHangingMemCostsItsPartsOnly(t *testing.T) {
	var hang func(context.Context) (proto.HardMemories, error)
	e := newEnv(t)
	e.skill("a", pair("a", 99))
	e.mem.memories = func(ctx context.Context) (proto.HardMemories, error) { return hang(ctx) }
	e.start()
	hang = hanging[proto.HardMemories](t) // released before the service stops
	e.service.timeout = time.Millisecond
	if got := names(t, e.build("c", "hi")); got != "a? a!" {
		t.Errorf("got %q", got)
	}
	if asked := e.mem.requested(); strings.Contains(asked, "history") {
		t.Errorf("asked %s", asked)
	}
	for _, part := range []string{"context without hard memories", "context without the history"} {
		if !strings.Contains(e.log.String(), part) {
			t.Errorf("%q is not in the log: %s", part, &e.log)
		}
	}
}

func TestMemoriesAreUsedIfHistoryHangs(t *testing.T) {
	e := newEnv(t)
	var hang func(context.Context) (proto.History, error)
	e.mem.memories = memories(pair("m", 99))
	e.mem.history = func(ctx context.Context, _ int) (proto.History, error) { return hang(ctx) }
	e.start()
	hang = hanging[proto.History](t)
	e.service.timeout = 300 * time.Millisecond
	if got := names(t, e.build("c", "hi")); got != "m? m!" {
		t.Errorf("got %q", got)
	}
}

func TestMemShareLeavesTimeToReply(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		time.Hour:              4 * time.Second,
		5 * time.Second:        4 * time.Second,
		3 * time.Second:        2 * time.Second,
		2 * time.Second:        time.Second,
		time.Second:            500 * time.Millisecond,
		100 * time.Millisecond: 50 * time.Millisecond,
	} {
		if got := memShare(memTimeout, left); got != want {
			t.Errorf("%v left: %v, want %v", left, got, want)
		}
	}
}
