package assemble

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestBudgetAllowsUpToItsEdge(t *testing.T) {
	for _, c := range []struct {
		tokens budget
		bytes  int
		want   bool
	}{
		{0, 1 << 30, true}, {-1, 1 << 30, true}, {1, 0, true}, {1, 4, true}, {1, 5, false}, {100, 400, true}, {100, 401, false},
	} {
		if got := c.tokens.allows(c.bytes); got != c.want {
			t.Errorf("%d tokens allow %d bytes: %v", c.tokens, c.bytes, got)
		}
	}
}

// say returns a message of size bytes whose content is name and dots.
func say(role, name string, size int) string {
	m := fmt.Sprintf(`{"role":"%s","content":"%s"}`, role, name)
	return strings.Replace(m, name, name+strings.Repeat(".", max(0, size-len(m))), 1)
}

// dialogue returns a list of messages of 79 bytes (with the comma 20 tokens): u is
// a user's, a an assistant's, t a tool's; a capital letter has 4000 bytes.
func dialogue(roles string) string {
	var list []string
	for i, r := range roles {
		size := 79
		if r < 'a' {
			size = 4000
		}
		role := map[string]string{"u": "user", "a": "assistant", "t": "tool"}[strings.ToLower(string(r))]
		list = append(list, say(role, fmt.Sprint(i), size))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func TestNewest(t *testing.T) {
	for _, c := range []struct {
		name, roles string
		budget      budget
		cut         int // number of removed messages
	}{
		{"fits exactly", "uaua", 80, 0},
		{"no limit", "UAUAUAUAUA", 0, 0},
		{"one token short", "uaua", 79, 2},
		{"an answer without its question", "uauaua", 61, 4},
		{"a question that fits", "uauaua", 80, 2},
		{"no question at all", "aaaa", 60, 1},
		{"no question left", "uaaaaaaa", 60, 5},
		{"begins with an answer, and fits", "aua", 60, 0},
		{"calls and results go with their question", "uatatauta", 100, 6},
		{"the last exchange is too large", "uauA", 100, 2},
		{"its question is too large", "uaUa", 100, 2},
		{"both", "uaUA", 100, 2},
		{"only an exchange, too large", "UA", 1, 0},
		{"a question without answer, too large", "uaU", 10, 2},
		{"an answer without a question, too large", "uaA", 10, 2},
		{"a question after a large one", "Uau", 21, 2},
		{"one message", "A", 1, 0},
		{"nothing", "", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := dialogue(c.roles)
			kept, err := newest(proto.Raw(list), c.budget)
			zinotest.Must(t, err)
			var all []json.RawMessage
			zinotest.Must(t, json.Unmarshal([]byte(list), &all))
			want, err := json.Marshal(all[c.cut:])
			zinotest.Must(t, err)
			if got := string(kept.list); got != string(want) {
				t.Errorf("got %.300s, want %.300s", got, want)
			}
			if string(kept.elements) != string(want[1:len(want)-1]) {
				t.Errorf("elements %.300s", kept.elements)
			}
		})
	}
}

func TestNewestRefusesOtherJSON(t *testing.T) {
	for _, list := range []string{`[{},5,{"a":"bcdefgh"}]`, `[{} {"a":1},,{"b":2}]`, `{"role":"user"}`, `null`, ``, `[1]`} {
		if kept, err := newest(proto.Raw(list), 1); err == nil {
			t.Errorf("%s: got %s", list, kept.list)
		}
	}
}

func TestNewestDropsWhiteSpace(t *testing.T) {
	plain := dialogue("uauaua")
	spaced := strings.ReplaceAll(plain, "},{", "} ,\n"+strings.Repeat(" ", 500)+"{")
	for _, b := range []budget{1, 60, 80, 120} {
		want, err := newest(proto.Raw(plain), b)
		zinotest.Must(t, err)
		got, err := newest(proto.Raw(spaced), b)
		zinotest.Must(t, err)
		if string(got.list) != string(want.list) {
			t.Errorf("%d tokens: got %s, want %s", b, got.list, want.list)
		}
	}
}

// TestNewestProperty checks random histories: the result is a suffix of the history
// with at least the last message, is within the budget or only the last exchange, and
// begins with a question if it was cut and has one.
func TestNewestProperty(t *testing.T) {
	for range 3000 {
		n := rand.IntN(12)
		roles := make([]byte, n)
		for i := range roles {
			roles[i] = "uuuaaatUA"[rand.IntN(9)]
		}
		b := budget(rand.IntN(1500))
		list := dialogue(string(roles))
		kept, err := newest(proto.Raw(list), b)
		zinotest.Must(t, err)
		var all, got []json.RawMessage
		zinotest.Must(t, json.Unmarshal([]byte(list), &all))
		zinotest.Must(t, json.Unmarshal(kept.list, &got))
		left := len(all) - len(got)
		if !strings.HasSuffix(list[1:], string(kept.elements)+"]") || n > 0 && len(got) == 0 {
			t.Fatalf("%s, %d tokens: %s is not a suffix", roles, b, kept.list)
		}
		end := strings.ToLower(string(roles[left:]))
		if !b.allows(len(kept.elements)) && len(end) != 1 && (len(end) != 2 || end[0] != 'u' || end[1] == 'u') {
			t.Errorf("%s, %d tokens: %s is kept, %d tokens", roles, b, end, tokens(len(kept.elements)))
		}
		if left > 0 && end[0] != 'u' && strings.Contains(end, "u") {
			t.Errorf("%s, %d tokens: begins with an answer: %s", roles, b, end)
		}
		if left > 0 && b.allows(len(kept.elements)+len(all[left-1])+1) && roles[left-1]|0x20 == 'u' {
			t.Errorf("%s, %d tokens: only %s is kept", roles, b, end)
		}
	}
}

// FuzzNewest checks that any list of objects is cut to a suffix.
func FuzzNewest(f *testing.F) {
	f.Add(dialogue("uaua"), 45)
	f.Add("[ {\"role\":\"\\u0075ser\"} ,\n{\"content\":\"},{\"}]", 3)
	f.Add(`[{}, 5]`, 1)
	f.Fuzz(func(t *testing.T, list string, tokens int) {
		var all, got []json.RawMessage
		valid := json.Unmarshal([]byte(list), &all) == nil
		kept, err := newest(proto.Raw(list), budget(tokens))
		if err != nil || !valid {
			return // rejected, or not JSON, which rpc rejects
		}
		if err := json.Unmarshal([]byte("["+string(kept.elements)+"]"), &got); err != nil || len(got) > len(all) {
			t.Fatalf("%s: got %s (%v)", list, kept.elements, err)
		}
		for i, message := range got {
			if want := all[len(all)-len(got)+i]; string(message) != string(want) {
				t.Errorf("%s, want %s", message, want)
			}
		}
		if len(all) > 0 && len(got) == 0 {
			t.Error("nothing is kept")
		}
	})
}

// list joins lists of messages.
func list(lists ...string) string {
	var inner []string
	for _, l := range lists {
		inner = append(inner, l[1:len(l)-1])
	}
	return "[" + strings.Join(inner, ",") + "]"
}

// names returns the contents of a list's messages without their dots.
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

// pair returns a question and an answer of size bytes each.
func pair(name string, size int) string {
	return "[" + say("user", name+"?", size) + "," + say("assistant", name+"!", size) + "]"
}

func TestMemoriesStayWithinTheBudget(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens int
		sizes  []int // bytes of each message of a pair
		want   string
	}{
		{"no limit", 0, []int{9000, 9000}, "m0? m0! m1? m1!"},
		{"fits exactly", 100, []int{99, 99}, "m0? m0! m1? m1!"},
		{"one token short", 99, []int{99, 99}, "m0? m0!"},
		{"too large as a whole", 99, []int{300}, ""},
		{"smaller ones after a large one", 100, []int{300, 99, 99, 30}, "m1? m1! m2? m2!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Ctx.MemoriesTokens = c.tokens
			var found []string
			for i, size := range c.sizes {
				found = append(found, pair(fmt.Sprint("m", i), size))
			}
			e.mem.memories = memories(found...)
			e.start()
			if got := names(t, e.build("", "hi")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRepeatedMemoriesAreLeftOut(t *testing.T) {
	const u, a = `{"role":"user","content":"caf\u00e9?"}`, `{"id":7,"content":"In \"A\"","role":"assistant"}`
	const u2, a2 = `{"content":"café?","role":"user"}`, `{"role":"assistant","content":"In \u0022A\u0022"}`
	const x = `{"role":"user","content":"x"}`
	for _, c := range []struct {
		name, history string
		found         []string
		want          string
	}{
		{"in the history", u + "," + x + "," + a, []string{"[" + u2 + "," + a2 + "]"}, u + "," + x + "," + a},
		{"partly in the history", u, []string{"[" + u2 + "," + a2 + "]"}, u2 + "," + a2 + "," + u},
		{"another role", `{"role":"user","content":"y"}`, []string{`[{"role":"assistant","content":"y"}]`}, `{"role":"assistant","content":"y"},{"role":"user","content":"y"}`},
		{"twice", x, []string{"[" + u + "," + a + "]", "[" + u2 + "," + a2 + "]"}, u + "," + a + "," + x},
		{"a part of a better one", "", []string{"[" + u + "," + a + "]", "[" + a2 + "]"}, u + "," + a},
		{"more than a better one", "", []string{"[" + a + "]", "[" + u2 + "," + a2 + "]"}, a + "," + u2 + "," + a2},
		{"from two others", "", []string{"[" + a + "]", "[" + u + "]", "[" + u2 + "," + a2 + "]"}, a + "," + u + "," + u2 + "," + a2},
		{"content is not a string", `{"role":"user","content":null}`, []string{`[{"role":"user","content":null}]`}, `{"role":"user","content":null},{"role":"user","content":null}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			e.mem.memories, e.mem.history = memories(c.found...), history("["+c.history+"]")
			e.start()
			if got, want := e.build("c", "hi"), strings.TrimSuffix("["+c.want, ",")+"]"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestCutHistoryDoesNotHideMemories(t *testing.T) {
	e := newEnv(t)
	e.cfg.Ctx.HistoryTokens = 60
	e.mem.memories = memories(pair("old", 100))
	e.mem.history = history(list(pair("old", 100), pair("new", 100)))
	e.start()
	if got := names(t, e.build("c", "hi")); got != "old? old! new? new!" {
		t.Errorf("got %q", got)
	}
	if strings.Contains(e.log.String(), "WARN") {
		t.Errorf("log: %s", &e.log)
	}
	zinotest.Equal(t, "requests", e.mem.requested(), `search "hi" 3; history "c" 50`)
}

func TestLastExchangeIsSentOverTheBudget(t *testing.T) {
	e := newEnv(t)
	e.cfg.Ctx.HistoryTokens = 10
	e.mem.history = history(list(pair("old", 100), pair("new", 100)))
	e.start()
	if got := names(t, e.build("c", "hi")); got != "new? new!" {
		t.Errorf("got %q", got)
	}
	if log := e.log.String(); !strings.Contains(log, "over [ctx] history_tokens") || !strings.Contains(log, "tokens=51") {
		t.Errorf("log: %s", log)
	}
}

func TestExamplesStayWithinTheBudget(t *testing.T) {
	e := newEnv(t)
	e.cfg.Ctx.ExamplesTokens = 124
	e.skill("a", pair("a", 99))
	e.skill("b", pair("b", 199))
	e.skill("c", `[{"role":"system","content":"`+strings.Repeat("s", 999)+`"},`+say("user", "c?", 99)+`]`)
	e.skill("d", pair("d", 99))
	e.startCtx()
	for range 3 {
		if got := names(t, e.build("", "")); got != "a? a! c?" {
			t.Errorf("got %q", got)
		}
	}
	const text = "these skills: b, d"
	if n := strings.Count(e.log.String(), text); n != 1 {
		t.Errorf("logged %d times: %s", n, &e.log)
	}
	stats := e.stats()
	if len(stats.Problems) != 1 || !strings.Contains(stats.Problems[0], text) || stats.Info["example_messages"] != "3" {
		t.Errorf("problems %q, info %v", stats.Problems, stats.Info)
	}
}

func TestHistoryLargerThanAPacketIsHalved(t *testing.T) {
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
			e := newEnv(t)
			e.cfg.Ctx.HistoryLimit = c.limit
			e.mem.history = func(_ context.Context, limit int) (proto.History, error) {
				if limit == 0 || limit > c.fits {
					return proto.History{}, tooLarge
				}
				return proto.History{Messages: proto.Raw(dialogue("ua"))}, nil
			}
			e.start()
			if got := names(t, e.build("c", "")); (got == "0 1") != (c.fits > 0) {
				t.Errorf("got %q", got)
			}
			zinotest.Equal(t, "requests", e.mem.requested(), c.want)
			if warned := strings.Contains(e.log.String(), "without the history"); warned != (c.fits == 0) {
				t.Errorf("log: %s", &e.log)
			}
		})
	}
}

// TestBuildProperty checks random parts and budgets: a context is a list of whole
// skills, whole memories and a suffix of the history, in that order, each within its
// budget, without repeated messages.
func TestBuildProperty(t *testing.T) {
	e := newEnv(t)
	eachPair("s", 4, func(name, pair string) { e.skill(name, pair) })
	e.start()
	for range 300 {
		s := e.service
		s.exampleBudget, s.memoryBudget, s.historyBudget = budget(rand.IntN(300)), budget(rand.IntN(300)), budget(rand.IntN(300))
		s.examples.Store(nil)
		var found, former []string
		eachPair("m", rand.IntN(5), func(_, pair string) { found = append(found, memorized(pair)) })
		eachPair("h", rand.IntN(8), func(_, pair string) { former = append(former, pair) })
		if len(former) > 0 {
			found = append(found, memorized(former[rand.IntN(len(former))]), memorized(former[len(former)-1]))
		}
		e.mem.memories, e.mem.history = memories(found...), history(list(former...))
		e.checkParts(e.build("c", "hi"), list(former...))
	}
}

// eachPair calls use with n questions and answers of random sizes.
func eachPair(letter string, n int, use func(name, pair string)) {
	for i := range n {
		name := fmt.Sprint(letter, i)
		use(name, pair(name, 50+rand.IntN(400)))
	}
}

// memorized marks the messages of a list with an additional key.
func memorized(list string) string {
	return strings.ReplaceAll(list, `{"role"`, `{"memory":1,"role"`)
}

// whole matches the names of a context: pairs of skills, memories, the history.
var whole = regexp.MustCompile(`^(s\d\? s\d! )*(M\w\d\? M\w\d! )*(h\d\? h\d! )*$`)

// checkParts checks the order of a context and the sizes of its parts.
func (e *env) checkParts(got, past string) {
	e.t.Helper()
	var messages []json.RawMessage
	zinotest.Must(e.t, json.Unmarshal([]byte(got), &messages))
	parts := map[string][]string{}
	var all strings.Builder
	for _, m := range messages {
		name, part := names(e.t, "["+string(m)+"]"), ""
		if part = name[:1]; strings.HasPrefix(string(m), `{"memory"`) {
			part, name = "M", "M"+name
		}
		parts[part] = append(parts[part], string(m))
		all.WriteString(name + " ")
	}
	if !whole.MatchString(all.String()) {
		e.t.Errorf("out of order: %s", &all)
	}
	e.checkEnd(parts["h"], past)
	e.checkRepeats(all.String())
	s := e.service
	for part, budget := range map[string]budget{"s": s.exampleBudget, "M": s.memoryBudget, "h": s.historyBudget} {
		size := len(strings.Join(parts[part], ","))
		if !budget.allows(size) && (part != "h" || len(parts["h"]) != 2) {
			e.t.Errorf("%s has %d bytes, want at most %d tokens: %s", part, size, budget, &all)
		}
	}
}

// checkEnd checks that at least the last exchange of a history is sent.
func (e *env) checkEnd(sent []string, past string) {
	e.t.Helper()
	if !strings.HasSuffix(past, strings.Join(sent, ",")+"]") || past != "[]" && len(sent) < 2 {
		e.t.Errorf("sent %s of %s", sent, past)
	}
}

// checkRepeats checks that no message is repeated.
func (e *env) checkRepeats(all string) {
	e.t.Helper()
	seen := map[string]bool{}
	for name := range strings.FieldsSeq(strings.ReplaceAll(all, "M", "")) {
		if seen[name] {
			e.t.Errorf("%s is repeated: %s", name, all)
		}
		seen[name] = true
	}
}
