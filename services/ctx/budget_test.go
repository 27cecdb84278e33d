package assemble

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"zino/proto"
)

// TestBudget: the edge is where the estimate says it is.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		tokens budget
		bytes  int
		want   bool
	}{
		{0, 1 << 30, true}, {-1, 1 << 30, true}, {1, 0, true}, {1, 4, true}, {1, 5, false}, {100, 400, true}, {100, 401, false},
	} {
		if got := c.tokens.holds(c.bytes); got != c.want {
			t.Errorf("%d tokens hold %d bytes: %v", c.tokens, c.bytes, got)
		}
	}
}

// say is a message of just so many bytes, which names itself.
func say(role, name string, size int) string {
	m := fmt.Sprintf(`{"role":"%s","content":"%s"}`, role, name)
	return strings.Replace(m, name, name+strings.Repeat(".", max(0, size-len(m))), 1)
}

// dialogue is a list of messages of 80 bytes, 20 tokens less a comma: u is a
// user's, a an assistant's, t a tool's; a capital one has 4000 bytes.
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
		left        int // messages that are cut off
	}{
		{"fits just so", "uaua", 80, 0},
		{"no limit", "UAUAUAUAUA", 0, 0},
		{"one token short", "uaua", 79, 2},
		{"an answer without its question", "uauaua", 61, 4},
		{"a question that fits", "uauaua", 80, 2},
		{"what fits begins anywhere", "aaaa", 60, 1},
		{"no question far and wide", "uaaaaaaa", 60, 5},
		{"begins with an answer, and fits", "aua", 60, 0},
		{"calls and results go with their question", "uatatauta", 100, 6},
		{"the last exchange is too large", "uauA", 100, 2},
		{"its question is too large", "uaUa", 100, 2},
		{"both", "uaUA", 100, 2},
		{"only an exchange, too large", "UA", 1, 0},
		{"a question without answer, too large", "uaU", 10, 2},
		{"an answer to nothing, too large", "uaA", 10, 2},
		{"a question behind a large one", "Uau", 21, 2},
		{"one message", "A", 1, 0},
		{"nothing", "", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := dialogue(c.roles)
			kept, err := newest(proto.Raw(list), c.budget)
			must(t, err)
			var all []json.RawMessage
			must(t, json.Unmarshal([]byte(list), &all))
			want, err := json.Marshal(all[c.left:])
			must(t, err)
			if got := string(kept.list); got != string(want) {
				t.Errorf("got %.300s, want %.300s", got, want)
			}
			if string(kept.elements) != string(want[1:len(want)-1]) {
				t.Errorf("elements %.300s", kept.elements)
			}
		})
	}
}

// TestNewestTakesListsOnly: what is cut is looked at first.
func TestNewestTakesListsOnly(t *testing.T) {
	for _, list := range []string{`[{},5,{"a":"bcdefgh"}]`, `[{} {"a":1},,{"b":2}]`, `{"role":"user"}`, `null`, ``, `[1]`} {
		if kept, err := newest(proto.Raw(list), 1); err == nil {
			t.Errorf("%s gives %s", list, kept.list)
		}
	}
}

// TestNewestOfSpaced: white space between messages is neither counted nor sent
// where a history is cut.
func TestNewestOfSpaced(t *testing.T) {
	plain := dialogue("uauaua")
	spaced := strings.ReplaceAll(plain, "},{", "} ,\n"+strings.Repeat(" ", 500)+"{")
	for _, b := range []budget{1, 60, 80, 120} {
		want, err := newest(proto.Raw(plain), b)
		must(t, err)
		got, err := newest(proto.Raw(spaced), b)
		must(t, err)
		if string(got.list) != string(want.list) {
			t.Errorf("%d tokens: got %s, want %s", b, got.list, want.list)
		}
	}
}

// TestNewestProperty: whatever the history and the budget, what is kept is an
// end of it, holds the last message, is within the budget or no more than the
// last exchange, and begins with a question if it was cut and has one.
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
		must(t, err)
		var all, got []json.RawMessage
		must(t, json.Unmarshal([]byte(list), &all))
		must(t, json.Unmarshal(kept.list, &got))
		left := len(all) - len(got)
		if !strings.HasSuffix(list[1:], string(kept.elements)+"]") || n > 0 && len(got) == 0 {
			t.Fatalf("%s, %d tokens: %s is no end of it", roles, b, kept.list)
		}
		end := strings.ToLower(string(roles[left:]))
		if !b.holds(len(kept.elements)) && len(end) != 1 && (len(end) != 2 || end[0] != 'u' || end[1] == 'u') {
			t.Errorf("%s, %d tokens: %s is kept, %d tokens", roles, b, end, tokens(len(kept.elements)))
		}
		if left > 0 && end[0] != 'u' && strings.Contains(end, "u") {
			t.Errorf("%s, %d tokens: begins with an answer: %s", roles, b, end)
		}
		if left > 0 && b.holds(len(kept.elements)+len(all[left-1])+1) && roles[left-1]|0x20 == 'u' {
			t.Errorf("%s, %d tokens: only %s is kept", roles, b, end)
		}
	}
}

// FuzzNewest: a list of objects is cut to an end of it, whatever stands in it.
func FuzzNewest(f *testing.F) {
	f.Add(dialogue("uaua"), 45)
	f.Add("[ {\"role\":\"\\u0075ser\"} ,\n{\"content\":\"},{\"}]", 3)
	f.Add(`[{}, 5]`, 1)
	f.Fuzz(func(t *testing.T, list string, tokens int) {
		var all, got []json.RawMessage
		valid := json.Unmarshal([]byte(list), &all) == nil
		kept, err := newest(proto.Raw(list), budget(tokens))
		if err != nil || !valid {
			return // refused, or no JSON: nothing that rpc would have let through
		}
		if err := json.Unmarshal([]byte("["+string(kept.elements)+"]"), &got); err != nil || len(got) > len(all) {
			t.Fatalf("%s gives %s (%v)", list, kept.elements, err)
		}
		for i, message := range got {
			if want := all[len(all)-len(got)+i]; string(message) != string(want) {
				t.Errorf("%s stands in the place of %s", message, want)
			}
		}
		if len(all) > 0 && len(got) == 0 {
			t.Error("nothing is kept")
		}
	})
}
