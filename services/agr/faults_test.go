package agr

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// TestProviderErrors: text first, then one error with the provider's words,
// code, status and details.
func TestProviderErrors(t *testing.T) {
	refused := &proto.Error{Code: proto.CodeBudget, Message: "Rate limit <reached>", Service: "rtr", Status: 429, Details: `{"a":1}`}
	for _, c := range []struct {
		name   string
		pieces []string
		text   string
	}{
		{"at once", nil, ""},
		{"after text", []string{"par", "tial"}, "partial"},
		{"after half a tag", []string{"par<tool", "_ca"}, "par<tool_ca"},
		{"inside a block", []string{"par<task>", "{", "</tas"}, "par<task>{</tas"},
		{"after a block", []string{"a" + bash("x"), "b"}, "a" + response("(no output)") + "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, stream bool, more string) {
				b := newBench(t, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
					if _, err := says(c.pieces...)(ctx, req, out); err != nil {
						return proto.Text{}, err
					}
					return proto.Text{}, refused
				})
				streamed, last := b.ask(request(question, more))
				if want := `{"type":"error","message":"Agentic runtime error: rtr error: Rate limit <reached>","code":"budget","service":"rtr","status":429,"details":"{\"a\":1}"}`; last.raw != want {
					t.Errorf("got  %s\nwant %s", last.raw, want)
				}
				if stream && streamed != c.text || !stream && streamed != "" {
					t.Errorf("streamed %q, want %q", streamed, c.text)
				}
			})
		})
	}
}

// TestLaterErrors: an error of a later inference ends the turn as well.
func TestLaterErrors(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t, says("a"+bash("x")), func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error) {
			return proto.Text{}, errors.New("cut off")
		})
		streamed, last := b.ask(request(question, more))
		if last.Type != "error" || last.Message != "Agentic runtime error: rtr error: rtr infer: cut off" || last.Code != "internal" {
			t.Errorf("last packet %s", last.raw)
		}
		if want := "a" + response("(no output)"); stream && streamed != want {
			t.Errorf("streamed %q, want %q", streamed, want)
		}
	})
}

// TestNoRouter: a router that is not there is said so, as is what to look at.
func TestNoRouter(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		b := newBench(t)
		unlink(t, b.cfg.Rtr.Socket)
		streamed, last := b.ask(request(question, more))
		if last.Type != "error" || !strings.HasPrefix(last.Message, "Agentic runtime error: Could not connect to rtr: ") || last.Code != "unavailable" || streamed != "" {
			t.Errorf("streamed %q, then %s", streamed, last.raw)
		}
	})
}

// unlink takes a service out of reach for those who connect from now on.
func unlink(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestRudeRouter: a router that hangs up in the middle, or answers with what is
// no packet, gives one error after the text.
func TestRudeRouter(t *testing.T) {
	const chunk = "\x00\x00\x00\x20" + `{"type":"chunk","delta":"a<tas"}`
	for _, c := range []struct{ name, answer, code string }{
		{"says nothing", "", "unavailable"},
		{"hangs up", chunk, "unavailable"},
		{"hangs up inside a packet", chunk + "\x00\x00\x00\x20{", "unavailable"},
		{"no packet", chunk + "\x00\x00\x00\x02[]", "internal"},
		{"no JSON", chunk + "\x00\x00\x00\x01x", "internal"},
		{"too large", chunk + "\xff\xff\xff\xff", "too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			unlink(t, b.cfg.Rtr.Socket)
			rude(t, b.cfg.Rtr.Socket, c.answer)
			streamed, last := b.ask(request(question, `,"stream":true`))
			if last.Type != "error" || last.Code != c.code || last.Message == "" {
				t.Errorf("last packet %s, want code %s", last.raw, c.code)
			}
			if want := "a<tas"; streamed != want && c.answer != "" {
				t.Errorf("streamed %q, want %q", streamed, want)
			}
		})
	}
}

// TestRudeExecutor: what exc may not answer is no result, and the loop goes on.
func TestRudeExecutor(t *testing.T) {
	const weird = "\x00\x00\x00\x10" + `{"type":"weird"}`
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t, says(bash("x")), says("done"))
		unlink(t, b.cfg.Exc.Socket)
		rude(t, b.cfg.Exc.Socket, weird)
		_, last := b.ask(request(question, more))
		want := response(`Error: exc answered with a packet of type "weird": "result" was expected`)
		if asked := b.rtr.asked(); last.Type == "error" || len(asked) != 2 || !strings.Contains(decoded(t, asked[1].Messages), want) {
			t.Errorf("last packet %s, after %d inferences", last.raw, len(asked))
		}
	})
}

// decoded is the content of the last message.
func decoded(t *testing.T, messages proto.Raw) string {
	t.Helper()
	var list []struct{ Content string }
	if err := json.Unmarshal(messages, &list); err != nil || len(list) == 0 {
		t.Fatalf("%s: %v", messages, err)
	}
	return list[len(list)-1].Content
}

// rude answers the first request on path with bytes and hangs up.
func rude(t *testing.T, path, answer string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		if n, err := nc.Read(make([]byte, 4096)); n == 0 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		if _, err := nc.Write([]byte(answer)); err != nil {
			t.Error(err)
		}
	}()
}

// TestNoExecutor: exc being down is a result, and the turn goes on.
func TestNoExecutor(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		b := newBench(t, says(bash("x")), says(delegate("disk", "x")), says("i"), says("code"), says("sorry"))
		unlink(t, b.cfg.Exc.Socket)
		_, last := b.ask(request(question, more))
		if last.text() != "sorry" || last.iterations() != 3 {
			t.Errorf("last packet %s", last.raw)
		}
		for i, want := range map[int]string{1: "<tool_response>\nError: Could not connect to exc: ", 4: "<task_response>\nSkill pipeline error: Could not connect to exc: "} {
			if got, err := lastMessage(b.rtr.asked()[i]); err != nil || !strings.Contains(got, want) {
				t.Errorf("the model sees %q, %v", got, err)
			}
		}
	})
}

// TestBadRequests: exactly one error, and nobody is asked for anything.
func TestBadRequests(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ payload, message string }{
		{`{"type":"run"}`, `Invalid request: missing field "messages"`},
		{`{"type":"run","messages":[],"top_p":1}`, `Invalid request: missing field "temperature"`},
		{`{"type":"run","messages":[],"temperature":1}`, `Invalid request: missing field "top_p"`},
		{`{"type":"run","messages":null,"temperature":1,"top_p":1}`, `Invalid request: missing field "messages"`},
		{request(`{}`, ""), `Invalid request: field "messages": expected a list, found an object`},
		{request(`"x"`, ""), `Invalid request: field "messages": expected a list, found a string`},
		{request(`7`, `,"stream":true`), `Invalid request: field "messages": expected a list, found a number`},
		{request(question, `,"stream":1`), `Invalid request: field "stream": expected true or false, found a number`},
		{request(question, `,"max_iterations":"many"`), `Invalid request: field "max_iterations": expected a number, found a string`},
		{request(question, `,"max_iterations":[]`), `Invalid request: field "max_iterations": expected a number, found a list`},
		{request(question, `,"max_iterations":1.5`), `Invalid request: field "max_iterations": expected a whole number, found a number`},
		{`{"type":"run","messages":[],"temperature":"hot","top_p":1}`, `Invalid request: field "temperature": expected a number, found a string`},
		{request(`[x]`, `,"max_iterations":0`), `Invalid request: field "messages": malformed JSON`},
		{request("[\"\xff\"]", `,"max_iterations":0`), `Invalid request: field "messages": not valid UTF-8`},
	} {
		streamed, last := b.ask(c.payload)
		if last.Type != "error" || last.Message != c.message || last.Code != "invalid" || streamed != "" {
			t.Errorf("%s\n got %s\nwant %s", c.payload, last.raw, c.message)
		}
	}
	for _, payload := range []string{``, `x`, `[]`, `{`, `{"type":"run",}`} {
		if _, last := b.ask(payload); last.Type != "error" || last.Code != "invalid" {
			t.Errorf("%q: %s", payload, last.raw)
		}
	}
	if _, last := b.ask(`{"type":"walk"}`); last.Message != "Unknown message type: walk" || last.Code != "unknown" {
		t.Errorf("an unknown type: %s", last.raw)
	}
	if n := len(b.rtr.asked()); n > 0 {
		t.Errorf("%d inferences", n)
	}
}

// TestRefusedMessages: what rtr finds in the list is the caller's fault, under
// the same code.
func TestRefusedMessages(t *testing.T) {
	b := newBench(t, func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error) {
		return proto.Text{}, &proto.Error{Code: proto.CodeInvalid, Message: "no role"}
	})
	_, last := b.ask(request(`[{}]`, ""))
	if last.Message != "Agentic runtime error: rtr error: no role" || last.Code != "invalid" {
		t.Errorf("last packet %s", last.raw)
	}
}

// TestProblems: files that were skipped are in the answer to stats.
func TestProblems(t *testing.T) {
	b := newBench(t)
	_, last := b.ask(`{"type":"stats"}`)
	if !strings.Contains(last.raw, `broken.json:1:`) {
		t.Errorf("the broken skill is missing: %s", last.raw)
	}
}

// TestNewToolsAreFound: a file that is added is used without a restart.
func TestNewToolsAreFound(t *testing.T) {
	b := newBench(t, echo)
	path := filepath.Join(filepath.Dir(b.path), "tools", "perl.json")
	if err := os.WriteFile(path, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.cat.Reload()
	_, last := b.ask(request(`[`+assistant(block("execute_perl", "1"))+`]`, `,"max_iterations":1`))
	if last.text() != block("execute_perl", "1")+response("(no output)") || !slices.Equal(b.exc.code(), []string{"perl:1"}) {
		t.Errorf("executed %q, last packet %s", b.exc.code(), last.raw)
	}
}

func FuzzAppendMessage(f *testing.F) {
	for _, seed := range []string{`[]`, "[ \n]", `[{"role":"user","content":"]"} ]`, `[1,[2]]`, `{}`, `[`, ``, `[1}`} {
		f.Add([]byte(seed), "a\"\n<\xff")
	}
	f.Fuzz(func(t *testing.T, messages []byte, content string) {
		before := string(messages)
		list, err := appendMessage(messages, "assistant", []byte(content))
		if string(messages) != before {
			t.Fatalf("%q has become %q", before, messages)
		}
		old, oldErr := elements(messages)
		if oldErr != nil || !isList(messages) {
			return // refused; and wire cuts off the white space around it
		}
		all, allErr := elements(list)
		if errors.Join(err, allErr) != nil || len(all) != len(old)+1 {
			t.Fatalf("%q becomes %q: %v", before, list, errors.Join(err, allErr))
		}
		for i := range old {
			if string(old[i]) != string(all[i]) {
				t.Errorf("element %d of %q is %q", i, before, all[i])
			}
		}
	})
}
