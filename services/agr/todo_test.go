package agr

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// todoCall is a call of todo with n items.
func todoCall(id string, n int, text string) string {
	item := `{"text":` + quote(text) + `,"status":"open"}`
	return native(id, "todo", `{"items":[`+strings.Join(slices.Repeat([]string{item}, n), ",")+`]}`)
}

// TestTodo checks that each valid list is an event, and what a malformed one is
// answered with.
func TestTodo(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 200)
	cases := []struct{ call, event, result string }{
		{native("a", "todo", `{"items":[{"text":"look\n at it","status":"done"},{"text":"repair <it>","status":"active"}]}`), `{"type":"todo","items":[{"text":"look at it","status":"done"},{"text":"repair <it>","status":"active"}]}`, "1 of 2 done."},
		{native("b", "todo", `{"items":"[{\"text\":\"x\",\"status\":\"open\"}]"}`), `{"type":"todo","items":[{"text":"x","status":"open"}]}`, "0 of 1 done."},
		{native("c", "todo", `{"items":[]}`), `{"type":"todo","items":[]}`, "0 of 0 done."},
		{todoCall("d", 1, long), `{"type":"todo","items":[{"text":"` + long + `","status":"open"}]}`, "0 of 1 done."},
		{todoCall("e", 51, "x"), "", "invalid_input: 51 items: a list has at most 50"},
		{todoCall("f", 1, long+"é"), "", "invalid_input: item 1 has 201 characters: at most 200"},
		{todoCall("g", 2, " \n"), "", "invalid_input: item 1 has no text"},
		{native("h", "todo", `{"items":[{"text":"x"}]}`), "", "invalid_input: item 1: status must be open, active or done"},
		{native("i", "todo", `{"items":{"text":"x"}}`), "", `invalid_input: items must be a list of {"text", "status"}: …`},
		{native("j", "todo", `{}`), "", `invalid_input: The field "items" is missing.`},
	}
	var calls, events, results []string
	for _, c := range cases {
		calls, results = append(calls, c.call), append(results, c.result)
		if c.event != "" {
			events = append(events, c.event)
		}
	}
	e := newEnv(t, asks("", calls...), says("Done."))
	var got []string
	for _, p := range e.watch(request(question, inSession+withEvents)) {
		if strings.HasPrefix(p, `{"type":"todo"`) {
			got = append(got, p)
		}
	}
	compare(t, got, events...)
	e.checkResults(2, results...)
	zinotest.Equal(t, "offered", strings.Contains(string(e.rtr.asked()[0].Tools), `"todo"`), true)
}

// TestNoTodo checks that the tool does not exist if it is switched off.
func TestNoTodo(t *testing.T) {
	t.Parallel()
	e := startEnv(t, func(cfg *config.Config) { cfg.Agr.Todo = false }, asks("", todoCall("a", 1, "x")), says("Done."))
	e.ask(request(question, inSession))
	zinotest.Equal(t, "offered", strings.Contains(string(e.rtr.asked()[0].Tools), `"todo"`), false)
	e.checkResults(2, "unknown_tool: There is no tool 'todo'. There are: …")
}

// FuzzTodo checks that an accepted list is within the limits, on one line each.
func FuzzTodo(f *testing.F) {
	for _, seed := range []string{`[]`, `[{"text":"a","status":"open"}]`, `"[{\"text\":\"a\\nb\",\"status\":\"done\"}]"`, `[{"text":"\ud800","status":"active"}]`, `[null]`, `{}`, ``, `[{"text":1}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		items, err := todoItems(raw)
		if err != nil {
			return
		}
		if len(items) > 50 || !json.Valid(encode(proto.Todo{Items: items})) {
			t.Fatalf("%q becomes %d items", raw, len(items))
		}
		for _, item := range items {
			if item.Text == "" || strings.ContainsAny(item.Text, "\n\r") || utf8.RuneCountInString(item.Text) > 200 || !slices.Contains([]string{"open", "active", "done"}, item.Status) {
				t.Errorf("%q: %s", raw, fmt.Sprint(item))
			}
		}
	})
}
