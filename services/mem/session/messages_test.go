package session

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/message"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// short formats messages as "u text", "a text [call name args] {state}" and
// "t call content", separated by " | ".
func short(t testing.TB, messages []byte) string {
	t.Helper()
	var list []struct {
		Role      string  `json:"role"`
		Content   *string `json:"content"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
		ToolCallID string          `json:"tool_call_id"`
		State      json.RawMessage `json:"reasoning_state"`
	}
	if err := json.Unmarshal(messages, &list); err != nil {
		t.Fatalf("%v: %s", err, messages)
	}
	var all []string
	for _, m := range list {
		words := []string{m.Role[:1]}
		if m.ToolCallID != "" {
			words = append(words, m.ToolCallID)
		}
		if m.Content != nil {
			words = append(words, strings.ReplaceAll(*m.Content, "\n\n", " / "))
		}
		for _, c := range m.ToolCalls {
			words = append(words, fmt.Sprintf("[%s %s %s]", c.ID, c.Function.Name, c.Function.Arguments))
		}
		all = append(all, strings.Join(append(words, string(m.State)), " "))
	}
	return strings.ReplaceAll(strings.ReplaceAll(strings.Join(all, "| "), " |", " |"), proto.InterruptedResult, "INT")
}

// legal validates messages as a provider does, after adding a first user message as
// rtr does.
func legal(messages []byte) error {
	messages = message.Close(message.Join(message.Append(nil, "user", "Continue."), messages))
	r := fakellm.Request{Path: "/v1/chat/completions", Body: []byte(`{"model":"m","messages":` + string(messages) + `}`)}
	return r.Legal()
}

func converse(events ...string) []byte { return conversationOf(events...).list() }

func conversationOf(events ...string) *conversation {
	c := new(conversation)
	for _, line := range events {
		e := parse([]byte(line))
		c.add(&e)
	}
	return c
}

// openIn returns the ids of the calls in messages that have no result.
func openIn(t testing.TB, messages []byte) (open []string) {
	t.Helper()
	var list []struct {
		ToolCalls  []struct{ ID string } `json:"tool_calls"`
		ToolCallID string                `json:"tool_call_id"`
	}
	zinotest.Must(t, json.Unmarshal(messages, &list))
	for _, m := range list {
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
		}
		if i := slices.Index(open, m.ToolCallID); i >= 0 {
			open = slices.Delete(open, i, i+1)
		}
	}
	return open
}

// answered appends results for calls to messages.
func answered(messages []byte, open []string) []byte {
	messages = message.Join(nil, messages)
	for _, id := range open {
		messages = message.Join(messages, []byte(`[{"role":"tool","tool_call_id":`+quoted(id)+`,"content":"x"}]`))
	}
	return message.Close(messages)
}

// with adds a key to an event.
func with(event, key, value string) string {
	return strings.TrimSuffix(event, "}") + `,"` + key + `":` + value + "}"
}

func TestConversation(t *testing.T) {
	const call = `read {"path":"a"}]`
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"nothing":       {nil, ""},
		"only a head":   {[]string{head, `{"type":"notice","text":"x"}`, `{"type":"usage"}`, `{}`, interrupt}, ""},
		"a question":    {[]string{head, user("hi")}, "u hi "},
		"two turns":     {[]string{user("a"), says("b"), user("c"), says("d")}, "u a | a b | u c | a d "},
		"a call":        {[]string{user("q"), says("so"), use("1"), result("1"), says("done")}, `u q | a so [1 ` + call + ` | t 1 {"ok":true} | a done `},
		"a bare call":   {[]string{user("q"), use("1"), result("1")}, `u q | a [1 ` + call + ` | t 1 {"ok":true} `},
		"two at once":   {[]string{user("q"), use("1"), use("2"), result("2"), result("1")}, `u q | a [1 ` + call + ` [2 ` + call + ` | t 1 {"ok":true} | t 2 {"ok":true} `},
		"two in turn":   {[]string{user("q"), use("1"), result("1"), use("2"), result("2")}, `u q | a [1 ` + call + ` | t 1 {"ok":true} | a [2 ` + call + ` | t 2 {"ok":true} `},
		"late result":   {[]string{user("q"), use("1"), use("2"), result("1"), use("3"), result("2"), result("3")}, `u q | a [1 ` + call + ` [2 ` + call + ` | t 1 {"ok":true} | t 2 {"ok":true} | a [3 ` + call + ` | t 3 {"ok":true} `},
		"text behind":   {[]string{user("q"), use("1"), says("wait"), result("1")}, `u q | a wait [1 ` + call + ` | t 1 {"ok":true} `},
		"ids used anew": {[]string{user("q"), use("1"), result("1"), use("1"), result("1")}, `u q | a [1 ` + call + ` | t 1 {"ok":true} | a [1 ` + call + ` | t 1 {"ok":true} `},

		"open at the end":     {[]string{user("q"), use("1")}, `u q | a [1 ` + call + ` | t 1 INT `},
		"open, then the user": {[]string{user("q"), use("1"), user("on")}, `u q | a [1 ` + call + ` | t 1 INT | u on `},
		"open, then text":     {[]string{user("q"), use("1"), says("x"), user("on")}, `u q | a x [1 ` + call + ` | t 1 INT | u on `},
		"one of two open":     {[]string{user("q"), use("1"), use("2"), result("2"), says("x")}, `u q | a [1 ` + call + ` [2 ` + call + ` | t 1 INT | t 2 {"ok":true} | a x `},
		"open at the start":   {[]string{use("1"), user("q")}, `a [1 ` + call + ` | t 1 INT | u q `},
		"closed at the end":   {[]string{user("q"), use("1"), user("on"), result("1")}, `u q | a [1 ` + call + ` | t 1 {"ok":true} | u on `},
		"an id twice, open":   {[]string{user("q"), use("1"), use("1")}, `u q | a [1 ` + call + ` | t 1 INT | a [1 ` + call + ` | t 1 INT `},
		"an id twice":         {[]string{user("q"), use("1"), use("1"), `{"type":"tool_result","tool_use_id":"1","output":"b"}`, `{"type":"tool_result","tool_use_id":"1","output":"a"}`}, `u q | a [1 ` + call + ` | t 1 a | a [1 ` + call + ` | t 1 b `},

		"result without a call": {[]string{user("q"), result("9"), says("x")}, "u q | a x "},
		"result first":          {[]string{result("9"), user("q")}, "u q "},
		"result before a call":  {[]string{user("q"), result("1"), use("1")}, `u q | a [1 ` + call + ` | t 1 INT `},
		"result twice":          {[]string{user("q"), use("1"), result("1"), result("1"), says("x")}, `u q | a [1 ` + call + ` | t 1 {"ok":true} | a x `},
		"calls without names":   {[]string{user("q"), `{"type":"tool_use","id":"1"}`, `{"type":"tool_use","name":"x"}`, `{"type":"tool_use","id":7,"name":"x"}`, result("1")}, "u q "},

		"in a row":          {[]string{user("a"), user("b"), says("c"), says("d")}, "u a | u b | a c | a d "},
		"blank":             {[]string{user(""), user(" \n"), says("\t"), user("q"), says("")}, "u q "},
		"assistant first":   {[]string{says("hello"), user("q")}, "a hello | u q "},
		"other roles":       {[]string{`{"type":"message","role":"system","text":"x"}`, user("q"), `{"type":"message","text":"y"}`}, "u q "},
		"text of any kind":  {[]string{`{"type":"message","role":"user","text":["x"]}`, user("\"\\\u2028\ud7ff<&>")}, "u \"\\\u2028\ud7ff<&> "},
		"lone surrogate":    {[]string{`{"type":"message","role":"user","text":"a\ud800b"}`}, "u a\ufffdb "},
		"escaped type":      {[]string{`{"type":"mess\u0061ge","role":"us\u0065r","text":"q"}`}, "u q "},
		"a key given twice": {[]string{`{"type":"x","type":"message","role":"user","text":"a","text":"b"}`}, "u b "},

		"cut":                  {[]string{user("q"), with(says("half"), "partial", "true")}, "u q | a half / " + cutMark + " "},
		"cut, and said so":     {[]string{user("q"), with(says("half"), "partial", "true"), interrupt, user("on")}, "u q | a half / " + cutMark + " | u on "},
		"only said so":         {[]string{user("q"), says("half"), interrupt, user("on")}, "u q | a half / " + cutMark + " | u on "},
		"cut before a word":    {[]string{user("q"), interrupt, user("on")}, "u q | u on "},
		"cut during a call":    {[]string{user("q"), says("so"), use("1"), interrupt}, `u q | a so [1 ` + call + ` | t 1 INT `},
		"cut, then another":    {[]string{user("q"), with(says("half"), "partial", "true"), says("again")}, "u q | a half / " + cutMark + " | a again "},
		"the user is not cut":  {[]string{with(user("q"), "partial", "true"), interrupt}, "u q "},
		"partial is a boolean": {[]string{user("q"), with(says("x"), "partial", `"true"`)}, "u q | a x "},

		"state":                  {[]string{user("q"), says("so"), with(use("1"), "reasoning_state", `{"k":1}`), result("1")}, `u q | a so [1 ` + call + ` {"k":1}| t 1 {"ok":true} `},
		"state on the text":      {[]string{user("q"), with(says("so"), "reasoning_state", `{"k":1}`), use("1"), result("1")}, `u q | a so [1 ` + call + ` {"k":1}| t 1 {"ok":true} `},
		"the same state twice":   {[]string{user("q"), with(use("1"), "reasoning_state", `{"k":1}`), with(use("2"), "reasoning_state", `{"k":1}`)}, `u q | a [1 ` + call + ` [2 ` + call + ` {"k":1}| t 1 INT | t 2 INT `},
		"two states in one":      {[]string{user("q"), with(use("1"), "reasoning_state", `{"k":1}`), with(use("2"), "reasoning_state", `{"k":2}`)}, `u q | a [1 ` + call + ` [2 ` + call + ` | t 1 INT | t 2 INT `},
		"states of two answers":  {[]string{user("q"), with(use("1"), "reasoning_state", `{"k":1}`), result("1"), with(use("2"), "reasoning_state", `{"k":2}`)}, `u q | a [1 ` + call + ` {"k":1}| t 1 {"ok":true} | a [2 ` + call + ` {"k":2}| t 2 INT `},
		"state of a part":        {[]string{user("q"), with(says("a"), "reasoning_state", `{"k":1}`), says("b")}, "u q | a a {\"k\":1}| a b "},
		"state of what was cut":  {[]string{user("q"), with(with(says("a"), "reasoning_state", `{"k":1}`), "partial", "true")}, "u q | a a / " + cutMark + " "},
		"state of no kind":       {[]string{user("q"), with(says("a"), "reasoning_state", `"x"`), user("r"), with(says("b"), "reasoning_state", "null")}, "u q | a a | u r | a b "},
		"the user has no state":  {[]string{with(user("q"), "reasoning_state", `{"k":1}`)}, "u q "},
		"state without anything": {[]string{user("q"), with(says(""), "reasoning_state", `{"k":1}`)}, "u q "},

		"input of no kind": {[]string{user("q"), `{"type":"tool_use","id":"1","name":"x"}`, `{"type":"tool_use","id":"2","name":"x","input":null}`, `{"type":"tool_use","id":"3","name":"x","input":"{"}`, `{"type":"tool_use","id":"4","name":"x","input":[1]}`}, `u q | a [1 x {}] [2 x {}] [3 x {"_malformed":"{"}] [4 x {"_malformed":[1]}] | t 1 INT | t 2 INT | t 3 INT | t 4 INT `},
		"outputs":          {[]string{user("q"), use("1"), use("2"), use("3"), use("4"), use("5"), `{"type":"tool_result","tool_use_id":"1","output":"a\nb"}`, `{"type":"tool_result","tool_use_id":"2","output":[1, 2]}`, `{"type":"tool_result","tool_use_id":"3","ok":true}`, `{"type":"tool_result","tool_use_id":"4","output":null}`, `{"type":"tool_result","tool_use_id":"5","output":""}`}, `u q | a [1 ` + call + ` [2 ` + call + ` [3 ` + call + ` [4 ` + call + ` [5 ` + call + " | t 1 a\nb | t 2 [1, 2] | t 3 {\"ok\":true} | t 4 {\"ok\":false} | t 5  "},
	} {
		t.Run(name, func(t *testing.T) {
			messages := converse(c.events...)
			zinotest.Equal(t, "the messages", short(t, messages), c.want)
			if err := legal(messages); err != nil {
				t.Errorf("%v in %s", err, messages)
			}
		})
	}
}

// TestOpenCalls checks that the last calls stay open if that is asked for, that the
// messages are legal when their results follow, and that all others get one.
func TestOpenCalls(t *testing.T) {
	const call = `read {"path":"a"}]`
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"nothing":               {nil, ""},
		"none":                  {[]string{user("q"), use("1"), result("1")}, `u q | a [1 ` + call + ` | t 1 {"ok":true} `},
		"one":                   {[]string{user("q"), says("so"), use("1")}, `u q | a so [1 ` + call + ` `},
		"two":                   {[]string{user("q"), use("1"), use("2")}, `u q | a [1 ` + call + ` [2 ` + call + ` `},
		"the second of two":     {[]string{user("q"), use("1"), use("2"), result("1")}, `u q | a [1 ` + call + ` [2 ` + call + ` | t 1 {"ok":true} `},
		"the first of two":      {[]string{user("q"), use("1"), use("2"), result("2")}, `u q | a [1 ` + call + ` [2 ` + call + ` | t 2 {"ok":true} `},
		"events of turns after": {[]string{user("q"), use("1"), turn("t-1", "parked"), `{"type":"say","say":"s-1","turn":"t-1","text":"x"}`, `{"type":"usage"}`}, `u q | a [1 ` + call + ` `},
		"earlier ones":          {[]string{user("q"), use("1"), user("on"), use("2")}, `u q | a [1 ` + call + ` | t 1 INT | u on | a [2 ` + call + ` `},
		"only earlier ones":     {[]string{user("q"), use("1"), user("on")}, `u q | a [1 ` + call + ` | t 1 INT | u on `},
		"an id twice":           {[]string{user("q"), use("1"), use("1")}, `u q | a [1 ` + call + ` | t 1 INT | a [1 ` + call + ` `},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, "")
			b.write("s", append([]string{head}, c.events...)...)
			reply, err := b.Messages(t.Context(), proto.GetMessages{SessionID: "s", OpenCalls: true})
			zinotest.Must(t, err)
			zinotest.Equal(t, "the messages", short(t, reply.Messages), c.want)
			if whole := answered(reply.Messages, openIn(t, reply.Messages)); legal(whole) != nil {
				t.Errorf("%v in %s", legal(whole), whole)
			}
			zinotest.Equal(t, "without open_calls", len(openIn(t, []byte(b.messages("s")))), 0)
		})
	}
}

// TestEventsOfTurns reads a session with the events of a turn. Their keys, and events
// of other types, change nothing of what a model is sent, and are not shown. An undo is
// a message of the user.
func TestEventsOfTurns(t *testing.T) {
	of := func(event string) string { return with(with(event, "turn", `"t-1"`), "step", "1") }
	bare := []string{head, user("q"), says("so"), use("1"), result("1"), user("also"), says("done")}
	full := []string{
		head, turn("t-1", "running"), with(user("q"), "turn", `"t-1"`), of(says("so")), of(use("1")),
		`{"type":"say","say":"s-1","turn":"t-1","mode":"steer","text":"also secret"}`,
		with(with(with(of(result("1")), "name", `"read"`), "diff", `"--- secret"`), "confinement", `{"level":"secret"}`),
		`{"type":"todo","items":[{"text":"secret","status":"open"}]}`, turn("t-1", "parked"), with(turn("t-1", "resumed"), "discarded", `"secret"`),
		with(with(of(user("also")), "say", `"s-1"`), "via", `"steer"`), of(says("done")), turn("t-1", "done"),
		`{"type":"undo","turn":"t-1","restored":["a.go","d/b.go"]}`, `{"type":"say","say":"s-2","withdrawn":true}`,
	}
	b := newEnv(t, "")
	b.write("bare", bare...)
	b.write("full", full...)
	undone := strings.TrimSuffix(b.messages("bare"), "]") + `,{"role":"user","content":"[The user took back the file changes of turn t-1: a.go, d/b.go]"}]`
	zinotest.Equal(t, "the messages", b.messages("full"), undone)
	b.write("redone", append(full, `{"type":"undo","turn":"t-1","restored":["a.go"],"redo":true}`, `{"type":"undo","turn":"t-1","restored":[]}`, `{"type":"undo"}`)...)
	undone = strings.TrimSuffix(undone, "]") + `,{"role":"user","content":"[The user restored the file changes of turn t-1: a.go]"}]`
	zinotest.Equal(t, "the messages after a redo", b.messages("redone"), undone)
	zinotest.Equal(t, "damaged", b.damaged["full.jsonl"], 0)
	text := func(id string) string {
		reply, err := b.Export(t.Context(), proto.ExportSession{SessionID: id, Format: "md"})
		zinotest.Must(t, err)
		return strings.ReplaceAll(reply.Content, id, "ID")
	}
	zinotest.Equal(t, "the export", text("full"), text("bare"))
	summary := func(id string) string {
		sum, err := b.Find(t.Context(), proto.FindSession{SessionID: id})
		zinotest.Must(t, err)
		sum.SessionID, sum.Updated, sum.Bytes = "", "", 0
		return jsonOf(t, sum)
	}
	zinotest.Equal(t, "the summary", summary("full"), summary("bare"))
	hits, err := b.Search(t.Context(), proto.SearchSessions{Query: "secret"})
	if err != nil || len(hits.Results) > 0 {
		t.Errorf("found %+v, %v", hits, err)
	}
}

// TestConversationForm checks the exact form of messages.
func TestConversationForm(t *testing.T) {
	got := string(converse(user("<q>"), with(says("so"), "reasoning_state", `{"provider":"p"}`), use("1"), use("2"), result("1"), result("2")))
	call := func(id string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}`
	}
	want := `[{"role":"user","content":"<q>"},{"role":"assistant","content":"so","tool_calls":[` + call("1") + `,` + call("2") + `],"reasoning_state":{"provider":"p"}},` +
		`{"role":"tool","tool_call_id":"1","content":"{\"ok\":true}","ok":true},{"role":"tool","tool_call_id":"2","content":"{\"ok\":true}","ok":true}]`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestLostResults removes every subset of the results of a session. The messages
// must stay the same when the open calls are closed in the log.
func TestLostResults(t *testing.T) {
	whole := []string{user("q"), says("so"), use("1"), use("2"), result("2"), result("1"), use("3"), result("3"), says("x"), user("r"), use("4"), use("1"), result("4"), result("1"), says("y")}
	var results []int
	for i, e := range whole {
		if strings.Contains(e, "tool_result") {
			results = append(results, i)
		}
	}
	for lost := range 1 << len(results) {
		gone := map[int]bool{}
		for bit, i := range results {
			gone[i] = lost>>bit&1 == 1
		}
		for end := range len(whole) + 1 {
			checkLostResults(t, whole[:end], gone)
		}
	}
}

func checkLostResults(t *testing.T, whole []string, gone map[int]bool) {
	t.Helper()
	var left []string
	var d digest
	for i, e := range whole {
		if !gone[i] {
			left = append(left, e)
			d.add("s", []byte(e))
		}
	}
	before := converse(left...)
	if err := legal(before); err != nil {
		t.Fatalf("%v in %s", err, before)
	}
	if n := strings.Count(string(before), "The call was interrupted"); n != len(d.Open) {
		t.Fatalf("%d synthetic results, want %d: %v", n, len(d.Open), left)
	}
	for _, o := range d.Open {
		left = append(left, `{"type":"tool_result","tool_use_id":"`+o.ID+`","output":`+proto.InterruptedResult+`,"ok":false}`)
	}
	if after := converse(left...); string(after) != string(before) {
		t.Fatalf("before\n%s\nclosed\n%s", before, after)
	}
}

// TestConversationLong checks that the memory is proportional to the session.
func TestConversationLong(t *testing.T) {
	var c conversation
	for i := range 2_000 {
		for _, line := range []string{user("question"), use(fmt.Sprint(i)), result(fmt.Sprint(i)), says("answer")} {
			e := parse([]byte(line))
			c.add(&e)
		}
	}
	for range 2_000 {
		e := parse([]byte(user("and more of it, in one piece")))
		c.add(&e)
	}
	list := c.list()
	if c.count != 6_000 || len(c.open) != 0 || legal(list) != nil || cap(list) > 2*len(list)+1024 {
		t.Errorf("%d messages, %d open, %d bytes in %d", c.count, len(c.open), len(list), cap(list))
	}
}

func TestMessages(t *testing.T) {
	b := newEnv(t, "")
	one := b.put("s", user("q"))
	two := b.put("s", use("1"), result("1"))
	end := b.put("s", says("x"))
	before := b.file("s")
	for until, want := range map[int64]string{
		0: `u q | a [1 read {"path":"a"}] | t 1 {"ok":true} | a x `, end: `u q | a [1 read {"path":"a"}] | t 1 {"ok":true} | a x `,
		one: "u q ", two: `u q | a [1 read {"path":"a"}] | t 1 {"ok":true} `,
	} {
		reply, err := b.Messages(t.Context(), proto.GetMessages{SessionID: "s", Until: until})
		if err != nil || short(t, reply.Messages) != want || until > 0 && reply.Next != until || until == 0 && reply.Next != end || reply.Count != strings.Count(want, "u ")+strings.Count(want, "x") {
			t.Errorf("until %d: %s, %d messages to %d, %v", until, reply.Messages, reply.Count, reply.Next, err)
		}
	}
	b.writeText("rough", "x\n"+user("q")+"\n{\"type\":\"message\"\n"+use("1")+"\n"+says("a")[:20])
	reply, err := b.Messages(t.Context(), proto.GetMessages{SessionID: "rough"})
	if err != nil || short(t, reply.Messages) != `u q | a [1 read {"path":"a"}] | t 1 INT ` || b.skipped["rough.jsonl"] != 2 {
		t.Errorf("%s, %v, skipped %v", reply.Messages, err, b.skipped)
	}
	b.writeText("empty", "")
	if reply, err := b.Messages(t.Context(), proto.GetMessages{SessionID: "empty"}); err != nil || string(reply.Messages) != "[]" {
		t.Errorf("an empty one: %s, %v", reply.Messages, err)
	}
	if b.file("s") != before {
		t.Errorf("the file became %s", b.file("s"))
	}
	for _, until := range []int64{1, one - 1, end + 1} {
		_, err := b.Messages(t.Context(), proto.GetMessages{SessionID: "s", Until: until})
		zinotest.Error(t, err, proto.ErrInvalid, fmt.Sprintf("until %d is not the start of an event", until))
	}
	b.write("newer", strings.Replace(head, ":1,", ":2,", 1))
	_, err = b.Messages(t.Context(), proto.GetMessages{SessionID: "newer"})
	zinotest.Error(t, err, proto.ErrInvalid, "schema 2", "newer")
}

func TestMessagesRoom(t *testing.T) {
	b := newEnv(t, "")
	b.room = 1000
	for _, text := range []string{strings.Repeat("x", 1001), strings.Repeat("\x01", 500)} {
		b.write("s", head, user(text))
		_, err := b.Messages(t.Context(), proto.GetMessages{SessionID: "s"})
		zinotest.Error(t, err, proto.ErrTooLarge, `"s"`, "zino handoff --from-session s")
	}
}

// FuzzConversation converts any lines into messages: they must be legal, and stay
// the same when open calls are closed.
func FuzzConversation(f *testing.F) {
	f.Add(strings.Join([]string{head, user("q"), says("so"), use("1"), use("2"), result("2"), interrupt, user("r")}, "\n"))
	f.Add(strings.Join([]string{use("1"), use("1"), result("1"), result("1"), says("x"), use("1")}, "\n"))
	f.Add(strings.Join([]string{with(says("half"), "partial", "true"), interrupt, with(use("1"), "reasoning_state", `{"a":[]}`), with(use("1"), "input", `"{"`)}, "\n"))
	f.Add(`{"type":"tool_use","id":"a","name":"b","input":{"a":1}` + "\n" + `{"type":"tool_result","tool_use_id":"a","output":{"x":}`)
	f.Add(`{"type":"message","role":"user","text":"\ud800\u2028"}`)
	f.Add(strings.Join([]string{turn("t-1", "running"), user("q"), use("1"), use("2"), result("2"), turn("t-1", "parked"), turn("t-1", "resumed")}, "\n"))
	f.Fuzz(func(t *testing.T, text string) {
		var c conversation
		var d digest
		var lines []string
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(strings.ToValidUTF8(line, "\ufffd"))
			if !wire.Valid([]byte(line)) || line[0] != '{' {
				continue
			}
			lines = append(lines, line)
			e := parse([]byte(line))
			c.add(&e)
			d.add("s", []byte(line))
		}
		list := c.list()
		if err := legal(list); err != nil || !wire.Valid(list) {
			t.Fatalf("%v in %s", err, list)
		}
		if len(d.Open) != len(c.open) {
			t.Fatalf("%d calls are open, %d in the digest", len(c.open), len(d.Open))
		}
		for _, o := range d.Open {
			lines = append(lines, `{"type":"tool_result","output":`+proto.InterruptedResult+`,"ok":false,"tool_use_id":`+quoted(o.ID)+`}`)
		}
		if closed := converse(lines...); string(closed) != string(list) {
			t.Fatalf("closed\n%s\nbefore\n%s", closed, list)
		}
		checkDigest(t, &d)
		c.leaveOpen()
		open := c.list()
		ids := openIn(t, open)
		if whole := answered(open, ids); len(ids) > len(d.Open) || legal(whole) != nil {
			t.Fatalf("%d of %d calls are left open, %v in %s", len(ids), len(d.Open), legal(whole), whole)
		}
	})
}

// checkDigest checks the open turns of any session.
func checkDigest(t *testing.T, d *digest) {
	seen := map[string]bool{}
	for _, o := range d.OpenTurns {
		if o.Turn == "" || seen[o.Turn] || !isOpen(o.State) || o.Updated != "" && timeOf([]byte(quoted(o.Updated))) != o.Updated {
			t.Fatalf("open turns %+v", d.OpenTurns)
		}
		seen[o.Turn] = true
	}
}

// TestRandomConversations converts random valid events, which a fuzzer hardly finds.
func TestRandomConversations(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var lines []string
		for range rnd.IntN(30) {
			id := fmt.Sprint(rnd.IntN(4))
			lines = append(lines, []string{user("u"), says("a"), use(id), use(id), result(id), result(id), interrupt, user(" "), with(says("p"), "partial", "true"), with(use(id), "reasoning_state", `{"s":`+id+`}`)}[rnd.IntN(10)])
		}
		c := conversationOf(lines...)
		if list := c.list(); legal(list) != nil {
			t.Fatalf("seed %d: %v\n%s\n%s", seed, legal(list), list, strings.Join(lines, "\n"))
		}
		c.leaveOpen()
		list := c.list()
		if whole := answered(list, openIn(t, list)); legal(whole) != nil {
			t.Fatalf("seed %d: %v\n%s\n%s", seed, legal(whole), whole, strings.Join(lines, "\n"))
		}
	}
}

// TestDamagedEvents checks the number of events that are left out of the messages.
func TestDamagedEvents(t *testing.T) {
	b := newEnv(t, "")
	b.write("s", user("q"), `{"type":"message","role":"usr","text":"lost"}`, `{"type":"mesage","role":"user","text":"lost"}`,
		`{"type":7,"role":"user","text":"lost"}`, `{"type":"tool_use","name":"bash"}`, `{"type":"note","text":"mood"}`, says("a"))
	for _, want := range []int{4, 0} {
		if _, err := b.Messages(t.Context(), proto.GetMessages{SessionID: "s"}); err != nil || b.damaged["s.jsonl"] != want {
			t.Errorf("%d damaged, want %d, %v", b.damaged["s.jsonl"], want, err)
		}
		b.write("s", user("q"), says("a"))
	}
}
