package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// TestDrainPage: code that runs in a page when the service is told to end comes
// to its end, and its reply to the file.
func TestDrainPage(t *testing.T) {
	p := start(t, "http = \"127.0.0.1:0\"\n")
	p.until("it answers", p.answers)
	_, address, _ := strings.Cut(p.said.String(), "http=http://")
	address, _, _ = strings.Cut(address, "/")
	c := p.dial(address)
	p.say(c, `{"type":"hello","name":"probe"}`)
	a := p.hear(c)
	file := p.request("work", a["file"])
	job := p.hear(c)
	p.told(a["id"])
	p.say(c, fmt.Sprintf(`{"type":"result","id":%q,"nonce":%q,"job":%q,"ok":true,"kind":"text","value":"done"}`, a["id"], a["nonce"], job["job"]))
	p.replied(file)
}

// TestDrainRealm: the same for a realm whose answer comes over a connection of its
// own, and for one that has kept a connection and whose socket outlives the
// process.
func TestDrainRealm(t *testing.T) {
	for name, run := range map[string]func(*testing.T) *program{
		"own socket":  func(t *testing.T) *program { return start(t, "http = \"127.0.0.1:0\"\n") },
		"handed over": func(t *testing.T) *program { p, _ := handover(t); return p },
	} {
		t.Run(name, func(t *testing.T) {
			p := run(t)
			p.until("it answers", p.answers)
			attached, jobs := make(chan proto.Attached, 1), make(chan proto.Job, 1)
			ended := make(chan error, 1)
			go func() { ended <- p.realm(t.Context(), attached, jobs) }()
			a := <-attached
			dir := "work"
			if name == "handed over" {
				dir = "."
			}
			file := p.request(dir, a.File)
			job := <-jobs
			p.told(a.ID)
			if name == "own socket" {
				p.client.Close() // the next call is on a new connection
			}
			result := proto.JobResult{ID: a.ID, Nonce: a.Nonce, Job: job.Job, OK: true, Kind: "text", Value: "done"}
			if _, err := rpc.Call(t.Context(), p.client, proto.ReplResult, result); err != nil {
				t.Errorf("the result: %v", err)
			}
			p.replied(file)
			if err := <-ended; err != nil {
				t.Errorf("the realm: %v", err)
			}
		})
	}
}

// answers reports whether a ping is answered.
func (p *program) answers() bool {
	_, err := rpc.Call(p.t.Context(), p.client, proto.Ping, proto.PingRequest{})
	return err == nil
}

// realm attaches, and passes on what it is told.
func (p *program) realm(ctx context.Context, attached chan<- proto.Attached, jobs chan<- proto.Job) error {
	client := &rpc.Client{Service: "repl", Path: p.client.Path}
	defer client.Close()
	_, err := rpc.CallEvents(ctx, client, proto.ReplAttach, proto.Attach{Name: "probe"}, func(typ string, payload []byte) error {
		if typ == "job" {
			var job proto.Job
			defer func() { jobs <- job }()
			return wire.DecodeReply(payload, &job)
		}
		var a proto.Attached
		defer func() { attached <- a }()
		return wire.DecodeReply(payload, &a)
	})
	return err
}

// request writes code into a log.
func (p *program) request(dir, log string) (file string) {
	p.t.Helper()
	file = filepath.Join(p.dir, dir, log)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = f.WriteString("```js\n7\n```\n")
	if err := errors.Join(err, f.Close()); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// told has the program told to end, and waits until it takes no new code.
func (p *program) told(id string) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	p.until("it takes no new code", func() bool {
		_, err := rpc.Call(p.t.Context(), p.client, proto.ReplEval, proto.Eval{Page: id, Code: "1", TimeoutMS: 1})
		return errors.Is(err, proto.ErrUnavailable)
	})
}

// replied waits for the end, and looks for the reply.
func (p *program) replied(file string) {
	p.t.Helper()
	if status := p.status(); status != 0 {
		p.t.Errorf("status %d\n%s", status, p.said.String())
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "```Text\ndone\n```\n") || strings.Contains(string(text), "ERROR") {
		p.t.Errorf("%v:\n%s\n%s", err, text, p.said.String())
	}
}

// dial opens a page's socket.
func (p *program) dial(address string) *websocket.Conn {
	p.t.Helper()
	res, err := http.Get("http://" + address + "/zino.js")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	script, err := io.ReadAll(res.Body)
	token := regexp.MustCompile(`"token":"(\w+)"`).FindSubmatch(script)
	if err != nil || token == nil {
		p.t.Fatalf("no token: %v", err)
	}
	c, _, err := websocket.Dial(p.t.Context(), "ws://"+address+"/zino/ws", &websocket.DialOptions{
		Subprotocols: []string{"zino", string(token[1])}, HTTPHeader: http.Header{"Origin": {"http://" + address}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.CloseNow() })
	return c
}

func (p *program) say(c *websocket.Conn, text string) {
	p.t.Helper()
	if err := c.Write(p.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.t.Fatalf("%v\n%s", err, p.said.String())
	}
}

// hear reads a packet of texts.
func (p *program) hear(c *websocket.Conn) (packet map[string]string) {
	p.t.Helper()
	_, text, err := c.Read(p.t.Context())
	var fields map[string]any
	if err := errors.Join(err, json.Unmarshal(text, &fields)); err != nil {
		p.t.Fatalf("%v\n%s", err, p.said.String())
	}
	packet = map[string]string{}
	for name, value := range fields {
		packet[name] = fmt.Sprint(value)
	}
	return packet
}
