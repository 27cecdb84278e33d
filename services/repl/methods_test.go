package repl

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// listen serves a env's service on its socket.
func (b *env) listen() {
	b.t.Helper()
	srv := rpc.NewServer("repl", b.log)
	b.Register(srv)
	l, err := net.Listen("unix", b.path("s"))
	must(b.t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	b.t.Cleanup(func() {
		b.stop() // lets go of realms and of those who watch
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		must(b.t, srv.Shutdown(ctx))
		must(b.t, <-served)
	})
}

func into[T any](payload []byte, out chan<- T) error {
	var v T
	err := json.Unmarshal(payload, &v)
	out <- v
	return err
}

// conn is a client that speaks bytes.
type conn struct {
	t testing.TB
	net.Conn
}

func (b *env) dial() *conn {
	b.t.Helper()
	nc, err := net.Dial("unix", b.path("s"))
	must(b.t, err)
	b.t.Cleanup(func() { nc.Close() })
	return &conn{b.t, nc}
}

func (c *conn) send(request string) {
	c.t.Helper()
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...))
	must(c.t, err)
}

func (c *conn) next() string {
	c.t.Helper()
	head := make([]byte, 4)
	_, err := io.ReadFull(c, head)
	must(c.t, err)
	body := make([]byte, binary.BigEndian.Uint32(head))
	_, err = io.ReadFull(c, body)
	must(c.t, err)
	return string(body)
}

func (c *conn) ask(request string) string {
	c.t.Helper()
	c.send(request)
	return c.next()
}

// example is one of PROTOCOL.md's.
type example struct {
	Service, Type string
	Request       json.RawMessage
	Replies       []json.RawMessage
}

// examples are those of repl, by their type.
func examples(t *testing.T) map[string]example {
	t.Helper()
	f, err := os.Open("../../proto/testdata/examples.jsonl")
	must(t, err)
	defer f.Close()
	all := map[string]example{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e example
		must(t, json.Unmarshal(lines.Bytes(), &e))
		if e.Service == "repl" {
			all[e.Type] = e
		}
	}
	must(t, lines.Err())
	return all
}

// alike holds a packet against one that is printed: the same keys, with values of
// the same kinds; what is printed and is not named here has the same value too.
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

// TestExamples plays what PROTOCOL.md prints for repl against the service: a page
// and a program in Python, and one who watches.
func TestExamples(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	b.listen()
	all := examples(t)
	if len(all) != 7 {
		t.Fatalf("there are %d examples", len(all))
	}
	f := b.page(proto.Attach{Name: "index-7-zen", ID: "1a2b", URL: "http://127.0.0.1:8302/"})
	c := b.dial()
	alike(t, all["pages"].Replies[0], c.ask(string(all["pages"].Request)))

	watcher := b.dial()
	watcher.send(string(all["watch"].Request))
	eventually(func() bool {
		b.Service.mu.Lock()
		defer b.Service.mu.Unlock()
		return len(b.subscribers) == 1
	})
	alike(t, all["eval"].Replies[0], c.ask(string(all["eval"].Request)))
	for i, printed := range all["watch"].Replies {
		packet := watcher.next()
		if i == 1 {
			packet = watcher.next() // one page packet more: what the exchange led to
		}
		alike(t, printed, packet)
	}
	f.leave()

	realm := b.dial()
	self := alike(t, all["attach"].Replies[0], realm.ask(string(all["attach"].Request)))
	if got := c.ask(`{"type":"pages"}`); !strings.Contains(got, `"url":""`) {
		t.Errorf("a page without an address: %s", got)
	}
	fill := strings.NewReplacer("3f4e", self["id"].(string), "c0ffee00c0ffee00", self["nonce"].(string))
	b.add(self["file"].(string), fence+"python\n1+1\n"+fence+"\n")
	job := alike(t, all["attach"].Replies[1], realm.next())
	if job["lang"] != "python" || strings.TrimSpace(job["code"].(string)) != "1+1" {
		t.Errorf("the job is %v", job)
	}
	for _, typ := range []string{"started", "events", "result"} {
		request := strings.Replace(fill.Replace(string(all[typ].Request)), `"job":"7"`, `"job":"`+job["job"].(string)+`"`, 1)
		alike(t, all[typ].Replies[0], c.ask(request))
	}
	b.has(self["file"].(string), fence+"JSON\n2\n", "ready")
	must(t, realm.Close())
	eventually(func() bool { return strings.Contains(c.ask(`{"type":"pages"}`), `"pages":[]`) })
}

// TestEvalFromSandbox: pages are not confined, so turns that are get no code run
// in them unless that is configured.
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

// TestMalformed: what is not a request is refused, and the service goes on.
func TestMalformed(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	b.listen()
	for request, code := range map[string]string{
		`{"type":"attach"}`:            "invalid",
		`{"type":"attach","name":7}`:   "invalid",
		`{"type":"eval","page":"a"}`:   "invalid",
		`{"type":"result","id":"1a2b"`: "invalid",
		`{"type":"nothing"}`:           "unknown",
		`{"type":"result","id":"1a2b","nonce":"x","job":"1","ok":true}`:          "unknown",
		`{"type":"events","id":"","nonce":"","events":[]}`:                       "unknown",
		`{"type":"started","id":"1a2b","nonce":"x","job":"1"}`:                   "unknown",
		`{"type":"watch","page":"nobody"}`:                                       "not_found",
		`{"type":"eval","page":"../../etc/passwd","code":"1"}`:                   "not_found",
		`{"type":"eval","page":"a","code":"1","timeout_ms":-5}`:                  "invalid",
		`{"type":"eval","page":"a","code":"1","timeout_ms":9e99}`:                "invalid",
		`{"type":"events","id":"1a2b","nonce":"x","events":[{"type":"window"}]}`: "invalid",
	} {
		var e struct{ Type, Code string }
		must(t, json.Unmarshal([]byte(b.dial().ask(request)), &e))
		if e.Type != "error" || e.Code != code {
			t.Errorf("%s: %+v, want %s", request, e, code)
		}
	}
}
