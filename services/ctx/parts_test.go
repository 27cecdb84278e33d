package assemble

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// list is a list of the messages of several lists.
func list(lists ...string) string {
	var inner []string
	for _, l := range lists {
		inner = append(inner, l[1:len(l)-1])
	}
	return "[" + strings.Join(inner, ",") + "]"
}

// names are what the messages of a list say, without the dots that fill them.
func names(t *testing.T, messages string) string {
	t.Helper()
	var decoded []struct{ Content string }
	if err := json.Unmarshal([]byte(messages), &decoded); err != nil {
		t.Fatalf("%v in %s", err, messages)
	}
	var all []string
	for _, m := range decoded {
		all = append(all, strings.TrimRight(m.Content, "."))
	}
	return strings.Join(all, " ")
}

// pair is a list of two messages of a size.
func pair(name string, size int) string {
	return "[" + say("user", name+"?", size) + "," + say("assistant", name+"!", size) + "]"
}

func TestMemoriesWithinTheBudget(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens int
		sizes  []int // bytes of each message of a pair
		want   string
	}{
		{"no limit", 0, []int{9000, 9000}, "m0? m0! m1? m1!"},
		{"just so", 100, []int{99, 99}, "m0? m0! m1? m1!"},
		{"one token short", 99, []int{99, 99}, "m0? m0!"},
		{"never a part of one", 99, []int{300}, ""},
		{"a smaller one takes the place", 100, []int{300, 99, 99, 30}, "m1? m1! m2? m2!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.cfg.Ctx.MemoriesTokens = c.tokens
			var found []string
			for i, size := range c.sizes {
				found = append(found, pair(fmt.Sprint("m", i), size))
			}
			b.mem.memories = memories(found...)
			b.startMem()
			b.start()
			if got := names(t, b.build("", "hi")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestNothingTwice: what the history or a better memory says is left out, and
// nothing else.
func TestNothingTwice(t *testing.T) {
	const u, a = `{"role":"user","content":"caf\u00e9?"}`, `{"id":7,"content":"In \"A\"","role":"assistant"}`
	const u2, a2 = `{"content":"café?","role":"user"}`, `{"role":"assistant","content":"In \u0022A\u0022"}`
	const x = `{"role":"user","content":"x"}`
	for _, c := range []struct {
		name, history string
		found         []string
		want          string
	}{
		{"in the history", u + "," + x + "," + a, []string{"[" + u2 + "," + a2 + "]"}, u + "," + x + "," + a},
		{"half of it", u, []string{"[" + u2 + "," + a2 + "]"}, u2 + "," + a2 + "," + u},
		{"another role", `{"role":"user","content":"y"}`, []string{`[{"role":"assistant","content":"y"}]`}, `{"role":"assistant","content":"y"},{"role":"user","content":"y"}`},
		{"twice", x, []string{"[" + u + "," + a + "]", "[" + u2 + "," + a2 + "]"}, u + "," + a + "," + x},
		{"a part of a better one", "", []string{"[" + u + "," + a + "]", "[" + a2 + "]"}, u + "," + a},
		{"more than a better one", "", []string{"[" + a + "]", "[" + u2 + "," + a2 + "]"}, a + "," + u2 + "," + a2},
		{"from two others", "", []string{"[" + a + "]", "[" + u + "]", "[" + u2 + "," + a2 + "]"}, a + "," + u + "," + u2 + "," + a2},
		{"no text", `{"role":"user","content":null}`, []string{`[{"role":"user","content":null}]`}, `{"role":"user","content":null},{"role":"user","content":null}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.mem.memories, b.mem.history = memories(c.found...), history("["+c.history+"]")
			b.startMem()
			b.start()
			if got, want := b.build("c", "hi"), strings.TrimSuffix("["+c.want, ",")+"]"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestCutHistoryHidesNoMemory: a memory counts as sent only if it really is.
func TestCutHistoryHidesNoMemory(t *testing.T) {
	b := newBench(t)
	b.cfg.Ctx.HistoryTokens = 60
	b.mem.memories = memories(pair("old", 100))
	b.mem.history = history(list(pair("old", 100), pair("new", 100)))
	b.startMem()
	b.start()
	if got := names(t, b.build("c", "hi")); got != "old? old! new? new!" {
		t.Errorf("got %q", got)
	}
	if strings.Contains(b.log.String(), "WARN") {
		t.Errorf("log: %s", &b.log)
	}
	if asked := b.mem.questions(); asked != `search "hi" 3; history "c" 50` {
		t.Errorf("asked %s", asked)
	}
}

func TestLastExchangeOverTheBudget(t *testing.T) {
	b := newBench(t)
	b.cfg.Ctx.HistoryTokens = 10
	b.mem.history = history(list(pair("old", 100), pair("new", 100)))
	b.startMem()
	b.start()
	if got := names(t, b.build("c", "hi")); got != "new? new!" {
		t.Errorf("got %q", got)
	}
	if log := b.log.String(); !strings.Contains(log, "over [ctx] history_tokens") || !strings.Contains(log, "tokens=51") {
		t.Errorf("log: %s", log)
	}
}

func TestExamplesWithinTheBudget(t *testing.T) {
	b := newBench(t)
	b.cfg.Ctx.ExamplesTokens = 124
	b.skill("a", pair("a", 99))
	b.skill("b", pair("b", 199))
	b.skill("c", `[{"role":"system","content":"`+strings.Repeat("s", 999)+`"},`+say("user", "c?", 99)+`]`)
	b.skill("d", pair("d", 99))
	b.start()
	for range 3 {
		if got := names(t, b.build("", "")); got != "a? a! c?" {
			t.Errorf("got %q", got)
		}
	}
	const text = "these skills: b, d"
	if n := strings.Count(b.log.String(), text); n != 1 {
		t.Errorf("%d times in the log: %s", n, &b.log)
	}
	stats, err := rpc.Call(t.Context(), b.client, proto.GetStats, proto.StatsRequest{})
	must(t, err)
	if len(stats.Problems) != 1 || !strings.Contains(stats.Problems[0], text) || stats.Info["example_messages"] != "3" {
		t.Errorf("problems %q, info %v", stats.Problems, stats.Info)
	}
}

// TestHistoryLargerThanAPacket: the newest messages are asked for until they fit.
func TestHistoryLargerThanAPacket(t *testing.T) {
	tooLarge := &proto.Error{Code: proto.CodeTooLarge, Message: "too large"}
	for _, c := range []struct {
		name        string
		limit, fits int
		want        string
	}{
		{"all of it", 0, 1024, `history "c" 0; history "c" 4096; history "c" 2048; history "c" 1024`},
		{"a few", 50, 30, `history "c" 50; history "c" 25`},
		{"not one", 3, 0, `history "c" 3; history "c" 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.cfg.Ctx.HistoryLimit = c.limit
			b.mem.limited = func(_ context.Context, limit int) (proto.History, error) {
				if limit == 0 || limit > c.fits {
					return proto.History{}, tooLarge
				}
				return proto.History{Messages: proto.Raw(dialogue("ua"))}, nil
			}
			b.startMem()
			b.start()
			if got := names(t, b.build("c", "")); (got == "0 1") != (c.fits > 0) {
				t.Errorf("got %q", got)
			}
			if asked := b.mem.questions(); asked != c.want {
				t.Errorf("asked %s, want %s", asked, c.want)
			}
			if warned := strings.Contains(b.log.String(), "without the history"); warned != (c.fits == 0) {
				t.Errorf("log: %s", &b.log)
			}
		})
	}
}
