package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"zino-repl": func([]string) error { main(); return nil }})
	os.Exit(m.Run())
}

// program is a running zino-repl in a temporary directory.
type program struct {
	*zinotest.Process
	t      *testing.T
	dir    string // contains work, the directory of the REPL
	client *rpc.Client
	http   string // address for pages
}

// start starts zino-repl. settings are lines of [repl].
func start(t *testing.T, settings string) *program {
	t.Helper()
	p := &program{t: t, dir: zinotest.Dir(t)}
	zinotest.WriteFiles(t, p.dir, map[string]string{"ZINO.toml": "[repl]\nsocket = \"s\"\ndir = \"work\"\n" + settings, "work/x": ""})
	p.client = rpctest.Client(t, "repl", filepath.Join(p.dir, "s"))
	p.run(nil)
	return p
}

// startInherited starts zino-repl with both of its sockets inherited.
func startInherited(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, dir: zinotest.Dir(t)}
	zinotest.WriteFiles(t, p.dir, map[string]string{"ZINO.toml": "[repl]\nsocket = \"none/s\"\nhttp = \"127.0.0.1:1\"\ndir = \"work\"\n", "work/x": ""})
	listen := func(network, address string) (net.Addr, *os.File) {
		l, err := net.Listen(network, address)
		zinotest.Must(t, err)
		t.Cleanup(func() { l.Close() })
		f, err := l.(interface{ File() (*os.File, error) }).File()
		zinotest.Must(t, err)
		t.Cleanup(func() { f.Close() })
		return l.Addr(), f
	}
	own, ownFile := listen("unix", filepath.Join(p.dir, "own"))
	pages, pagesFile := listen("tcp", "127.0.0.1:0")
	p.client, p.http = rpctest.Client(t, "repl", own.String()), pages.String()
	p.run([]*os.File{pagesFile, ownFile}, args...)
	return p
}

func (p *program) run(inherited []*os.File, args ...string) {
	p.t.Helper()
	cmd := zinotest.Command(p.t, "zino-repl", args...)
	cmd.Dir, cmd.ExtraFiles = p.dir, inherited
	cmd.Env = append(cmd.Env, "HOME="+p.dir, "ZINO_HOME="+p.dir)
	if inherited != nil {
		cmd.Env = append(cmd.Env, "LISTEN_FDS=2", "LISTEN_FDNAMES=http:repl")
	}
	p.Process = zinotest.Start(p.t, cmd)
}

// ready waits until a ping is answered and the address for pages is logged.
func (p *program) ready() {
	p.t.Helper()
	p.Eventually("it answers", func() bool {
		_, err := rpc.Call(p.t.Context(), p.client, proto.Ping, proto.PingRequest{})
		return err == nil
	})
	if p.http == "" {
		_, address, _ := strings.Cut(p.Err.String(), "http=http://")
		p.http, _, _ = strings.Cut(address, "/")
	}
}

// script loads the page script and returns its token.
func (p *program) script() string {
	p.t.Helper()
	res, err := http.Get("http://" + p.http + "/zino.js")
	zinotest.Must(p.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	token := regexp.MustCompile(`"token":"(\w+)"`).FindSubmatch(text)
	if err != nil || res.StatusCode != http.StatusOK || token == nil {
		p.t.Fatalf("the script: %s, %v", res.Status, err)
	}
	return string(token[1])
}

// attach connects a page over the socket until the service ends the connection.
func (p *program) attach() (attached proto.Attached, jobs chan proto.Job, ended chan error) {
	p.t.Helper()
	client := rpctest.Client(p.t, "repl", p.client.Path)
	first, jobs, ended := make(chan proto.Attached, 1), make(chan proto.Job, 1), make(chan error, 1)
	go func() {
		_, err := rpc.CallEvents(p.t.Context(), client, proto.ReplAttach, proto.Attach{Name: "probe"}, func(typ string, payload []byte) error {
			if typ == "job" {
				var job proto.Job
				defer func() { jobs <- job }()
				return wire.DecodeReply(payload, &job)
			}
			var a proto.Attached
			defer func() { first <- a }()
			return wire.DecodeReply(payload, &a)
		})
		ended <- err
	}()
	return zinotest.Receive(p.t, "attached", first), jobs, ended
}

// request appends code to a log.
func (p *program) request(log string) (file string) {
	p.t.Helper()
	file = filepath.Join(p.dir, "work", log)
	zinotest.Append(p.t, file, "```js\n7\n```\n")
	return file
}

// terminate sends SIGTERM and waits until the program refuses new code.
func (p *program) terminate(id string) {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	p.Eventually("it accepts no new code", func() bool {
		_, err := rpc.Call(p.t.Context(), p.client, proto.ReplEval, proto.Eval{Page: id, Code: "1", TimeoutMS: 1})
		return errors.Is(err, proto.ErrUnavailable)
	})
}

// replied waits until the program exits and checks the reply in the log.
func (p *program) replied(file string) {
	p.t.Helper()
	zinotest.Equal(p.t, "exit status", p.Exit(), 0)
	text := zinotest.Read(p.t, file)
	if zinotest.Contains(p.t, "the log", text, "```Text\ndone\n```\n"); strings.Contains(text, "ERROR") {
		p.t.Errorf("the log:\n%s\n%s", text, p.Err)
	}
}

// TestProgram starts the service, uses both of its addresses, and stops it while a
// page is connected.
func TestProgram(t *testing.T) {
	p := start(t, "http = \"127.0.0.1:0\"\nserve = \"work\"\n")
	p.ready()
	p.script()
	a, _, ended := p.attach()
	if !strings.HasPrefix(a.File, "debug/probe-") {
		t.Errorf("attached as %q", a.File)
	}
	p.Signal(syscall.SIGTERM)
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	zinotest.Must(t, <-ended)
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	zinotest.Must(t, err)
	defer l.Close()
	p := start(t, "http = \""+l.Addr().String()+"\"\n")
	zinotest.Equal(t, "exit status", p.Exit(), 1)
	if line, rest, _ := strings.Cut(p.Err.String(), "\n"); !strings.HasPrefix(line, "zino-repl: ") || !strings.HasSuffix(line, "; set another port in ZINO.toml under [repl] http") ||
		strings.Contains(rest, "zino-repl") {
		t.Errorf("stderr is %q", p.Err)
	}
}

// TestDrainPage checks that the reply of code that runs during SIGTERM is written.
func TestDrainPage(t *testing.T) {
	p := start(t, "http = \"127.0.0.1:0\"\n")
	p.ready()
	c, _, err := websocket.Dial(t.Context(), "ws://"+p.http+"/zino/ws", &websocket.DialOptions{
		Subprotocols: []string{"zino", p.script()}, HTTPHeader: http.Header{"Origin": {"http://" + p.http}},
	})
	zinotest.Must(t, err)
	defer c.CloseNow()
	send := func(text string) {
		zinotest.Must(t, c.Write(t.Context(), websocket.MessageText, []byte(text)))
	}
	receive := func() (packet map[string]any) {
		_, text, err := c.Read(t.Context())
		zinotest.Must(t, errors.Join(err, json.Unmarshal(text, &packet)))
		return packet
	}
	send(`{"type":"hello","name":"probe"}`)
	a := receive()
	file := p.request(a["file"].(string))
	job := receive()
	p.terminate(a["id"].(string))
	send(fmt.Sprintf(`{"type":"result","id":%q,"nonce":%q,"job":%q,"ok":true,"kind":"text","value":"done"}`, a["id"], a["nonce"], job["job"]))
	p.replied(file)
}

// TestDrainAttached is TestDrainPage for an attached program that sends its result
// over a new connection, and for one with an open connection to an inherited socket.
func TestDrainAttached(t *testing.T) {
	for name, run := range map[string]func(*testing.T) *program{
		"own socket": func(t *testing.T) *program { return start(t, "http = \"127.0.0.1:0\"\n") },
		"inherited":  func(t *testing.T) *program { return startInherited(t) },
	} {
		t.Run(name, func(t *testing.T) {
			p := run(t)
			p.ready()
			a, jobs, ended := p.attach()
			file := p.request(a.File)
			job := zinotest.Receive(t, "a job", jobs)
			p.terminate(a.ID)
			if name == "own socket" {
				p.client.Close() // the next call is on a new connection
			}
			result := proto.JobResult{ID: a.ID, Nonce: a.Nonce, Job: job.Job, OK: true, Kind: "text", Value: "done"}
			_, err := rpc.Call(context.Background(), p.client, proto.ReplResult, result)
			zinotest.Must(t, err)
			p.replied(file)
			zinotest.Must(t, <-ended)
		})
	}
}

func TestInheritedSockets(t *testing.T) {
	p := startInherited(t)
	p.ready()
	p.script()
	if _, err := os.Stat(filepath.Join(p.dir, "none")); !os.IsNotExist(err) {
		t.Errorf("the service also created its own socket: %v", err)
	}
}

// TestIdleExit checks that an idle service exits, and that both inherited sockets
// still accept connections for the next process.
func TestIdleExit(t *testing.T) {
	p := startInherited(t, "--idle-exit", "50ms")
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	for network, address := range map[string]string{"tcp": p.http, "unix": p.client.Path} {
		c, err := net.Dial(network, address)
		zinotest.Must(t, err)
		c.Close()
	}
}

// TestStopNow checks that a second signal marks the requests that have not ended before
// the program exits.
func TestStopNow(t *testing.T) {
	p := start(t, "http = \"127.0.0.1:0\"\n")
	p.ready()
	a, jobs, ended := p.attach()
	file := p.request(a.File)
	zinotest.Receive(t, "a job", jobs)
	stats, err := rpc.Call(t.Context(), p.client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "runs", stats.Info["runs"], "1")
	p.terminate(a.ID)
	p.Signal(syscall.SIGTERM)
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	zinotest.Must(t, <-ended)
	text := zinotest.Read(t, file)
	zinotest.Contains(t, "the log", text, "(**ERROR** after ", "```Error\ninterrupted")
	if strings.Contains(text, "executing") || !strings.HasSuffix(text, "against this page.\n") {
		t.Errorf("the log:\n%s", text)
	}
}
