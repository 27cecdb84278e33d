package assemble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

func TestOrder(t *testing.T) {
	b := newBench(t)
	b.skill("b", `[{"role":"system","content":"s"},{"role":"user","content":"bu","x":[1]},{"role":"assistant","content":"<b>"}]`)
	b.skill("a", `[{"role":"assistant","content":"a"},{"role":"tool","content":"t"}]`)
	b.skill("c", `[]`)
	b.mem.memories = memories(`[{"role":"user","content":"m1"},{"role":"assistant","content":"m2"}]`, `[]`, `[{"role":"user","content":"m3"}]`)
	b.mem.history = history("[\n{\"role\":\"user\",\"content\":\"h\\u00e9\",\"id\":7}\n]")
	b.startMem()
	b.start()
	want := `[{"role":"assistant","content":"a"},{"role":"user","content":"bu","x":[1]},{"role":"assistant","content":"<b>"},` +
		`{"role":"user","content":"m1"},{"role":"assistant","content":"m2"},{"role":"user","content":"m3"},` +
		`{"role":"user","content":"h\u00e9","id":7}]`
	if got := b.build("kitchen", "hello"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := b.mem.questions(), `search "hello" 3; history "kitchen" 50`; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// TestWhatIsAsked: what is not wanted is not asked for.
func TestWhatIsAsked(t *testing.T) {
	for _, c := range []struct {
		name             string
		channel, message string
		topK, limit      int
		want             string
	}{
		{"no channel", "", "hi", 2, 10, `search "hi" 2`},
		{"blank message", "c", " \n\u00a0", 2, 10, `history "c" 10`},
		{"no memories", "c", "hi", 0, 10, `history "c" 10`},
		{"less than none", "c", "hi", -1, 10, `history "c" 10`},
		{"whole history", "c", "hi", 1, 0, `search "hi" 1; history "c" 0`},
		{"nothing", "", "", 3, 50, ``},
		{"message as it is", "", " hi ", 1, 0, `search " hi " 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.cfg.Ctx.HardMemoryTopK, b.cfg.Ctx.HistoryLimit = c.topK, c.limit
			b.startMem()
			b.start()
			if got := b.build(c.channel, c.message); got != `[]` {
				t.Errorf("got %s", got)
			}
			if got := b.mem.questions(); got != c.want {
				t.Errorf("asked %s, want %s", got, c.want)
			}
		})
	}
}

// TestPartsThatFail: each part fails alone, and the log says so.
func TestPartsThatFail(t *testing.T) {
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
			m.history = func(context.Context) (proto.History, error) { return proto.History{}, broken }
		}, `[{"role":"user","content":"e"},{"role":"user","content":"m"}]`, "the history"},
		{
			"history is no list", func(m *fakeMem) { m.history = history(`{"role":"user"}`) },
			`[{"role":"user","content":"e"},{"role":"user","content":"m"}]`, "not a list",
		},
		{
			"one memory is no list", func(m *fakeMem) { m.memories = memories(`"x"`, `[{"role":"user","content":"m"}]`) },
			`[{"role":"user","content":"e"},{"role":"user","content":"m"},{"role":"user","content":"h"}]`, "a hard memory",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.skill("s", `[{"role":"user","content":"e"}]`)
			b.mem.memories = memories(`[{"role":"user","content":"m"}]`)
			b.mem.history = history(`[{"role":"user","content":"h"}]`)
			c.set(b.mem)
			b.startMem()
			b.start()
			if got := b.build("c", "hi"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if !strings.Contains(b.log.String(), c.log) {
				t.Errorf("log: %s", &b.log)
			}
		})
	}
}

func TestWithoutMem(t *testing.T) {
	b := newBench(t)
	b.skill("s", `[{"role":"user","content":"e"}]`)
	b.start()
	if got, want := b.build("c", "hi"), `[{"role":"user","content":"e"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.mem.history = history(`[{"role":"user","content":"h"}]`)
	b.startMem()
	if got, want := b.build("c", "hi"), `[{"role":"user","content":"e"},{"role":"user","content":"h"}]`; got != want {
		t.Errorf("mem is there now: got %s, want %s", got, want)
	}
}

func TestExamplesFollowTheFiles(t *testing.T) {
	b := newBench(t)
	b.start()
	if got := b.build("", "hi"); got != `[]` {
		t.Fatalf("at first %s", got)
	}
	b.skill("s", `[{"role":"user","content":"new"}]`)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); b.build("", "hi") != `[{"role":"user","content":"new"}]`; <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the new skill was not seen")
		}
	}
	stats, err := rpc.Call(t.Context(), b.client, proto.GetStats, proto.StatsRequest{})
	must(t, err)
	if stats.Info["example_messages"] != "1" {
		t.Errorf("info: %v", stats.Info)
	}
}

// TestHangUp: a caller that goes cancels the work in mem.
func TestHangUp(t *testing.T) {
	b := newBench(t)
	asked, cancelled := make(chan struct{}), make(chan struct{})
	b.mem.memories = func(ctx context.Context) (proto.HardMemories, error) {
		close(asked)
		<-ctx.Done()
		close(cancelled)
		return proto.HardMemories{}, ctx.Err()
	}
	b.startMem()
	b.start()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := rpc.Call(ctx, b.client, proto.CtxBuild, proto.Build{ChannelID: "c", UserMessage: "hi"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-cancelled:
	case <-time.After(30 * time.Second):
		t.Error("mem was not told")
	}
}

// TestConcurrentBuilds: what one caller gets is never another's.
func TestConcurrentBuilds(t *testing.T) {
	b := newBench(t)
	s := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
	rpc.Handle(s, proto.MemSearchHard, func(_ context.Context, req proto.SearchHard) (proto.HardMemories, error) {
		return memories(messageOf(t, req.Query))(nil)
	})
	rpc.Handle(s, proto.MemGetHistory, func(_ context.Context, req proto.GetHistory) (proto.History, error) {
		return history(messageOf(t, req.ChannelID))(nil)
	})
	serve(t, filepath.Join(b.dir, "m"), s)
	b.start()
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range 20 {
				channel, message := fmt.Sprintf("c%d-%d", i, j), strings.Repeat(fmt.Sprint("m", i), 1+500*j)
				want := strings.TrimSuffix(messageOf(t, message), "]") + "," + messageOf(t, channel)[1:]
				reply, err := rpc.Call(t.Context(), b.client, proto.CtxBuild, proto.Build{ChannelID: channel, UserMessage: message})
				if err != nil || string(reply.Messages) != want {
					t.Errorf("%s: %v, %.100s", channel, err, reply.Messages)
				}
			}
		})
	}
	callers.Wait()
}

// messageOf is a list of one message.
func messageOf(t *testing.T, text string) string {
	list, err := json.Marshal([]map[string]string{{"content": text, "role": "user"}})
	if err != nil {
		t.Error(err)
	}
	return string(list)
}
