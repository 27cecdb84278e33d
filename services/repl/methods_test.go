package repl

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// listen serves the service on a socket.
func (b *env) listen() (socket string) {
	b.t.Helper()
	srv := rpc.NewServer("repl", b.log)
	b.Register(srv)
	socket, _ = rpctest.Serve(b.t, srv, b.path("s"))
	b.t.Cleanup(b.stop) // disconnects pages and watchers before the server shuts down
	return socket
}

// example is an example of PROTOCOL.md.
type example struct {
	Service, Type string
	Request       json.RawMessage
	Replies       []json.RawMessage
}

// examples returns those of repl by their type.
func examples(t *testing.T) map[string]example {
	t.Helper()
	f, err := os.Open("../../proto/testdata/examples.jsonl")
	must(t, err)
	defer f.Close()
	all := map[string]example{}
	for lines := json.NewDecoder(f); lines.More(); {
		var e example
		must(t, lines.Decode(&e))
		if e.Service == "repl" {
			all[e.Type] = e
		}
	}
	return all
}

// alike compares a packet with a printed one: the same type, and the same keys with
// values of the same kinds.
func alike(t *testing.T, printed json.RawMessage, got string) map[string]any {
	t.Helper()
	var want, have map[string]any
	must(t, json.Unmarshal(printed, &want))
	must(t, json.Unmarshal([]byte(got), &have))
	for key, value := range want {
		if a, b := fmt.Sprintf("%T", value), fmt.Sprintf("%T", have[key]); a != b {
			t.Errorf("%s is %s and not %s: %s, printed %s", key, b, a, got, printed)
		}
	}
	for key := range have {
		if _, ok := want[key]; !ok {
			t.Errorf("%s is not printed: %s, printed %s", key, got, printed)
		}
	}
	if want["type"] != have["type"] {
		t.Errorf("got %s, printed %s", got, printed)
	}
	return have
}

// TestExamples plays the examples of PROTOCOL.md for repl: a page, a program in Python,
// and a watcher.
func TestExamples(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	socket := b.listen()
	all := examples(t)
	if len(all) != 10 {
		t.Fatalf("there are %d examples", len(all))
	}
	f := b.page(proto.Attach{Name: "index-7-zen", ID: "1a2b", URL: "http://127.0.0.1:8302/"})
	c := rpctest.Dial(t, socket)
	alike(t, all["pages"].Replies[0], c.Ask(string(all["pages"].Request)))

	must(t, f.events(said(1, 1)...))
	for _, typ := range []string{"log", "outline"} {
		alike(t, all[typ].Replies[0], c.Ask(string(all[typ].Request)))
	}

	watcher := rpctest.Dial(t, socket)
	watcher.Send(string(all["watch"].Request))
	b.until("a watcher", func() bool {
		b.Service.mu.Lock()
		defer b.Service.mu.Unlock()
		return len(b.subscribers) == 1
	})
	alike(t, all["eval"].Replies[0], c.Ask(string(all["eval"].Request)))
	for i, printed := range all["watch"].Replies {
		packet := watcher.Receive()
		if i == 1 {
			packet = watcher.Receive() // one page packet more: what the exchange led to
		}
		alike(t, printed, packet)
	}
	f.leave()

	program := rpctest.Dial(t, socket)
	self := alike(t, all["attach"].Replies[0], program.Ask(string(all["attach"].Request)))
	if got := c.Ask(`{"type":"pages"}`); !strings.Contains(got, `"url":""`) {
		t.Errorf("a page without an address: %s", got)
	}
	fill := strings.NewReplacer("3f4e", self["id"].(string), "c0ffee00c0ffee00", self["nonce"].(string))
	b.add(self["file"].(string), fence+"python\n1+1\n"+fence+"\n")
	job := alike(t, all["attach"].Replies[1], program.Receive())
	if job["lang"] != "python" || strings.TrimSpace(job["code"].(string)) != "1+1" {
		t.Errorf("the job is %v", job)
	}
	for _, typ := range []string{"started", "events", "part", "result"} {
		request := strings.Replace(fill.Replace(string(all[typ].Request)), `"job":"7"`, `"job":"`+job["job"].(string)+`"`, 1)
		alike(t, all[typ].Replies[0], c.Ask(request))
	}
	b.has(self["file"].(string), fence+"JSON\n12\n", "ready")
	must(t, program.Close())
	b.until("the program is gone", func() bool { return strings.Contains(c.Ask(`{"type":"pages"}`), `"pages":[]`) })
}

// TestEvalFromSandbox: pages are not confined, so a confined turn may run code in them
// only if that is configured.
func TestEvalFromSandbox(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		b := newEnv(t, "", func(cfg *config.Repl) { cfg.FromSandbox = allowed })
		for level, confined := range map[string]bool{"": false, "off": false, "read-only": true, "workspace-write": true, "unit": true, "new": true} {
			_, err := b.Eval(t.Context(), proto.Eval{Page: "none", Code: "1", Sandbox: proto.Level(level)})
			if refused := errors.Is(err, proto.ErrDenied); refused != (confined && !allowed) || !refused && !errors.Is(err, proto.ErrNotFound) {
				t.Errorf("from_sandbox %v, level %q: %v", allowed, level, err)
			}
		}
	}
}

// TestConformance checks the protocol, and the errors of the methods.
func TestConformance(t *testing.T) {
	b := newEnv(t, "")
	socket := b.listen()
	const noPage = "No page with that id and nonce is connected. Attach first."
	rpctest.Conformance(t, socket, []rpctest.Case{
		{Name: "pages", Request: `{"type":"pages"}`, Reply: `{"type":"pages","pages":[]}`},
		{Name: "attach without a name", Request: `{"type":"attach"}`, Code: "invalid", Message: "…"},
		{Name: "a name of another type", Request: `{"type":"attach","name":7}`, Code: "invalid", Message: "…"},
		{Name: "eval without code", Request: `{"type":"eval","page":"a"}`, Code: "invalid", Message: "…"},
		{Name: "eval of blanks", Request: `{"type":"eval","page":"a","code":" \n"}`, Code: "invalid", Message: `Invalid request: field "code": it is empty`},
		{Name: "a negative timeout", Request: `{"type":"eval","page":"a","code":"1","timeout_ms":-5}`, Code: "invalid", Message: `Invalid request: field "timeout_ms": it is 0 to 86400000`},
		{Name: "a huge timeout", Request: `{"type":"eval","page":"a","code":"1","timeout_ms":9e99}`, Code: "invalid", Message: "…"},
		{Name: "a timeout over a day", Request: `{"type":"eval","page":"a","code":"1","timeout_ms":86400001}`, Code: "invalid", Message: `Invalid request: field "timeout_ms": it is 0 to 86400000`},
		{Name: "eval of an empty page", Request: `{"type":"eval","page":"","code":"1"}`, Code: "not_found", Message: "…"},
		{Name: "eval of a path", Request: `{"type":"eval","page":"../../etc/passwd","code":"1"}`, Code: "not_found", Message: `No page "../../etc/passwd" is connected. debug.md lists those that are.`},
		{Name: "watch of an unknown page", Request: `{"type":"watch","page":"missing"}`, Code: "not_found", Message: "…"},
		{Name: "log of an unknown page", Request: `{"type":"log","page":"missing"}`, Code: "not_found", Message: "…"},
		{Name: "log of another type", Request: `{"type":"log","page":7}`, Code: "invalid", Message: "…"},
		{Name: "log without end", Request: `{"type":"log","page":"a","limit":5000}`, Code: "invalid", Message: `Invalid request: field "limit": it is 0 to 1000`},
		{Name: "outline of an unknown page", Request: `{"type":"outline","page":"missing"}`, Code: "not_found", Message: "…"},
		{Name: "outline without end", Request: `{"type":"outline","page":"a","depth":5000}`, Code: "invalid", Message: `Invalid request: field "depth": it is 0 to 100`},
		{Name: "result", Request: `{"type":"result","id":"1a2b","nonce":"x","job":"1","ok":true}`, Code: "unknown", Message: noPage},
		{Name: "events", Request: `{"type":"events","id":"","nonce":"","events":[]}`, Code: "unknown", Message: noPage},
		{Name: "an event without a message", Request: `{"type":"events","id":"1a2b","nonce":"x","events":[{"type":"window"}]}`, Code: "invalid", Message: "…"},
		{Name: "started", Request: `{"type":"started","id":"1a2b","nonce":"x","job":"1"}`, Code: "unknown", Message: noPage},
	})
}
