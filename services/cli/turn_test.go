package cli

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
)

// scripted is a daemon that answers requests with packets from a script, frame by frame
// on a real socket.
type scripted struct {
	t      *testing.T
	socket string
	answer func(c *call)

	describe string // the answer to describe; "": without methods

	mu       sync.Mutex
	requests []string
}

// call is one request to a scripted daemon.
type call struct {
	typ     string
	nth     int // of this type, from 1
	request string
	conn    net.Conn
}

// send sends packets, a line each.
func (c *call) send(packets string) {
	for line := range strings.SplitSeq(strings.TrimSpace(packets), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if frame, err := wire.AppendFrame(nil, []byte(strings.TrimSpace(line))); err == nil {
			c.conn.Write(frame) // the client may have gone
		}
	}
}

// gone waits until the client hangs up.
func (c *call) gone() { io.Copy(io.Discard, c.conn) }

const (
	startedLine = `{"type":"turn","session_id":"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a","turn":"t-k3v9q2m7xd4a","state":"running","next":412}`
	doneResult  = `{"type":"done","full_text":"Hello there.","iterations":1,"stop_reason":"stop","usage":{"input_tokens":7,"output_tokens":3}}`
	endedLine   = `{"type":"turn_ended","turn":"t-k3v9q2m7xd4a","state":"done","next":900,"result":` + doneResult + `}`
	followLine  = `{"type":"followed","session_id":"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a","turn":"t-k3v9q2m7xd4a","state":"done","next":900}`
	liveLine    = `{"type":"live","turn":"t-k3v9q2m7xd4a","state":"running","next":412}`
)

// newScripted starts a daemon. It answers what comes before and after a turn; answer
// gets the other requests.
func newScripted(t *testing.T, answer func(c *call)) *scripted {
	t.Helper()
	s := &scripted{t: t, socket: filepath.Join(zinotest.Dir(t), "d"), answer: answer}
	l, err := net.Listen("unix", s.socket)
	zinotest.Must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return s
}

func (s *scripted) serve(conn net.Conn) {
	defer conn.Close()
	for in := wire.NewReader(conn); ; {
		payload, err := in.Next()
		if err != nil {
			return
		}
		typ, err := wire.ReplyType(payload)
		if err != nil {
			typ = "chat"
		}
		c := &call{typ: typ, request: string(payload), conn: conn}
		s.mu.Lock()
		if typ != "ping" && typ != "forward" && typ != "describe" && typ != "trust" {
			s.requests = append(s.requests, c.request)
		}
		for _, request := range s.requests {
			if strings.HasPrefix(request, `{"type":"`+typ+`"`) {
				c.nth++
			}
		}
		describe := cmp.Or(s.describe, `{"type":"description","service":"daemon","proto":30,"methods":[]}`)
		s.mu.Unlock()
		switch typ {
		case "ping":
			c.send(`{"type":"pong","service":"daemon","proto":30,"uptime_s":1}`)
		case "describe":
			c.send(describe)
		case "trust": // of a project without files
			c.send(`{"type":"trust_report","files":[]}`)
		case "forward":
			if strings.Contains(c.request, `"find_session"`) && strings.Contains(c.request, "5b0c") {
				c.send(`{"type":"session_summary","session_id":"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a","messages":0,"updated":"2026-11-22T10:00:00Z","text":""}`)
			} else {
				c.send(`{"type":"error","code":"not_found","message":"no such session"}`)
			}
		default:
			s.answer(c)
		}
	}
}

// hangUp closes the connection instead of an answer.
func (c *call) hangUp() { c.conn.Close() }

// sent returns the requests of a type.
func (s *scripted) sent(typ string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.requests {
		if strings.HasPrefix(request, `{"type":"`+typ+`"`) {
			list = append(list, request)
		}
	}
	return list
}

// field returns a field of a request as JSON.
func field(request, name string) string {
	for key, value := range wire.Members([]byte(request)) {
		if string(key) == name {
			return string(value)
		}
	}
	return ""
}

func (s *scripted) command(t *testing.T, args ...string) *exec.Cmd {
	return newWorld(t).command(append([]string{"--socket", s.socket}, args...)...)
}

// TestExecFollows checks what exec prints of the packets of a turn, as text and as JSON
// without the fields that a chat does not have.
func TestExecFollows(t *testing.T) {
	const header = `{"type":"header","schema":"zino.events","version":1,"session_id":"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a"}`
	done := `{"type":"done","full_text":"Hello there.","iterations":1,"stop_reason":"stop","usage":{"input_tokens":7,"output_tokens":3}}`
	for _, test := range []struct {
		name, packets string // after live
		status        int
		out, err      string
		json          string // lines between header and end
		end           string // the last line
	}{
		{
			"streamed", `
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"Hello "}
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"there."}
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","next":800}
			{"type":"usage","turn":"t-k3v9q2m7xd4a","input_tokens":7,"output_tokens":3,"next":850}` + "\n" + endedLine + "\n" + followLine,
			0, "Hello there.\n", "", `{"type":"assistant_delta","text":"Hello "}
{"type":"assistant_delta","text":"there."}
{"type":"assistant_final","text":"Hello there."}
{"type":"usage","input_tokens":7,"output_tokens":3}
`, done,
		},
		{
			"stored before it was followed", `
			{"type":"user_message","turn":"t-k3v9q2m7xd4a","text":"hi","via":"start","by":{"uid":0},"replay":true,"next":500}
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","replay":true,"next":800}` + "\n" + endedLine + "\n" + followLine,
			0, "Hello there.\n", "", `{"type":"assistant_final","text":"Hello there."}` + "\n", done,
		},
		{
			"a tool and a message on the way", `
			{"type":"tool_requested","turn":"t-k3v9q2m7xd4a","id":"c1","name":"bash","input":{"command":"make"},"next":600}
			{"type":"tool_finished","turn":"t-k3v9q2m7xd4a","id":"c1","name":"bash","ok":true,"result":{"ok":true,"data":{"exit_code":0}},"duration_ms":120,"next":700}
			{"type":"user_message","turn":"t-k3v9q2m7xd4a","text":"use \u001b[31mred\nor not","via":"steer","by":{"uid":0},"next":750}
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","next":800}` + "\n" + endedLine + "\n" + followLine,
			0, "Hello there.\n", "Tool requested: bash command=\"make\"\nDone. (0.12s)\nTool finished: bash exit=0\n> use ^[[31mred\n  or not\n",
			`{"type":"tool_requested","id":"c1","name":"bash","input":{"command":"make"}}
{"type":"tool_finished","id":"c1","name":"bash","ok":true,"result":{"ok":true,"data":{"exit_code":0}},"duration_ms":120}
{"type":"user_message","turn":"t-k3v9q2m7xd4a","text":"use \u001b[31mred\nor not","via":"steer","by":{"uid":0},"next":750}
{"type":"assistant_final","text":"Hello there."}
`, done,
		},
		{
			"an inference that began again", `
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"Hello wor"}
			{"type":"retracted","turn":"t-k3v9q2m7xd4a"}
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"Hello there."}
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","next":800}` + "\n" + endedLine + "\n" + followLine,
			0, "Hello wor\nHello there.\n", "", `{"type":"assistant_delta","text":"Hello wor"}
{"type":"retracted","turn":"t-k3v9q2m7xd4a"}
{"type":"assistant_delta","text":"Hello there."}
{"type":"assistant_final","text":"Hello there."}
`, done,
		},
		{
			"failed", `
			{"type":"turn_ended","turn":"t-k3v9q2m7xd4a","state":"error","next":900,"result":{"type":"error","message":"HTTP 401: bad key","code":"unavailable","kind":"http_status","status":401}}` + "\n" + followLine,
			1, "", "Error [http_status]: HTTP 401: bad key\n", "", `{"type":"error","message":"HTTP 401: bad key","code":"unavailable","kind":"http_status","status":401}`,
		},
		{
			"stopped by another", `
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"Hello"}
			{"type":"interrupted","turn":"t-k3v9q2m7xd4a","next":850}
			{"type":"turn_ended","turn":"t-k3v9q2m7xd4a","state":"interrupted","reason":"canceled","next":900,"result":{"type":"error","message":"Interrupted.","code":"canceled"},"returned":[{"say":"s-1","text":"and then?"}]}` + "\n" + followLine,
			130, "Hello\n", "Not delivered: and then?\n^C Interrupted.\n", `{"type":"assistant_delta","text":"Hello"}
{"type":"turn_ended","turn":"t-k3v9q2m7xd4a","state":"interrupted","reason":"canceled","next":900,"result":{"type":"error","message":"Interrupted.","code":"canceled"},"returned":[{"say":"s-1","text":"and then?"}]}
{"type":"interrupted"}
`, `{"type":"error","message":"Interrupted.","code":"canceled","kind":"internal"}`,
		},
		{
			"given up", `
			{"type":"turn_ended","turn":"t-k3v9q2m7xd4a","state":"interrupted","reason":"gave up after 3 attempts: no route","next":900,"result":{"type":"error","message":"gave up after 3 attempts: no route","code":"internal"}}` + "\n" + followLine,
			1, "", "Error [internal]: gave up after 3 attempts: no route\n", "", `{"type":"error","message":"gave up after 3 attempts: no route","code":"internal","kind":"internal"}`,
		},
		{
			"a list of what is to be done", `
			{"type":"todo","turn":"t-k3v9q2m7xd4a","items":[{"text":"look","status":"done"},{"text":"repair","status":"active"},{"text":"test","status":"open"}],"next":700}
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","next":800}` + "\n" + endedLine + "\n" + followLine,
			0, "Hello there.\n", "[x] look\n[>] repair\n[ ] test\n", `{"type":"todo","items":[{"text":"look","status":"done"},{"text":"repair","status":"active"},{"text":"test","status":"open"}]}
{"type":"assistant_final","text":"Hello there."}
`, done,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, func(c *call) {
				switch c.typ {
				case "turn_start":
					c.send(startedLine)
				case "turn_follow":
					c.send(liveLine + "\n" + test.packets)
				}
			})
			expect(t, s.command(t, "--session", "5b0c", "exec", "-p", "hi"), "", test.status, test.out, test.err)
			if got := s.sent("turn_follow")[0]; field(got, "from") != "412" || field(got, "turn") != `"t-k3v9q2m7xd4a"` {
				t.Errorf("followed with %s", got)
			}
			status, out, _ := run(t, s.command(t, "--session", "5b0c", "--json", "exec", "-p", "hi"), "")
			if want := header + "\n" + test.json + test.end + "\n"; status != test.status || out != want {
				t.Errorf("status %d, JSON\n%s\nwant\n%s", status, out, want)
			}
		})
	}
}

// TestExecStarts checks the request, and that a start whose answer was lost is repeated
// under the same request_id.
func TestExecStarts(t *testing.T) {
	s := newScripted(t, func(c *call) {
		switch {
		case c.typ == "turn_start" && c.nth == 1:
			c.hangUp()
		case c.typ == "turn_start":
			c.send(startedLine)
		case c.typ == "turn_follow":
			c.send(liveLine + "\n" + endedLine + "\n" + followLine)
		}
	})
	w := newWorld(t)
	run(t, w.command("--socket", s.socket, "--session", "5b0c", "--sandbox", "read-only", "exec", "-p", "hi"), "")
	sent := s.sent("turn_start")
	if len(sent) != 2 || field(sent[0], "request_id") == "" || field(sent[0], "request_id") != field(sent[1], "request_id") {
		t.Fatalf("sent %q", sent)
	}
	for name, want := range map[string]string{
		"message": `"hi"`, "session_id": `"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a"`, "root": strconv.Quote(w.cwd), "sandbox": `"read-only"`, "need_model": "true",
		"stream": "", "events": "", "no_save": "", "cwd": strconv.Quote(w.cwd),
	} {
		zinotest.Equal(t, name, field(sent[0], name), want)
	}
	if !strings.Contains(field(sent[0], "env"), `"HOME"`) {
		t.Errorf("sent %s", sent[0])
	}
}

// TestExecNotStored checks that --no-save sends a chat request.
func TestExecNotStored(t *testing.T) {
	s := newScripted(t, func(c *call) {
		c.send(doneResult)
	})
	expect(t, s.command(t, "exec", "--no-save", "-p", "hi"), "", 0, "Hello there.\n", "")
	if len(s.requests) != 1 || field(s.requests[0], "no_save") != "true" || field(s.requests[0], "type") != "" {
		t.Errorf("sent %q", s.requests)
	}
}

// TestExecReconnects checks that a lost connection is made again from the last stored
// event, and that no text is printed twice.
func TestExecReconnects(t *testing.T) {
	const first = liveLine + `
		{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"I look.","next":500}
		{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"Hello th"}`
	for _, test := range []struct {
		name, end string // of the first connection; empty: it is cut
		then      string
		out       string
	}{
		{"the rest of the text", "", `
			{"type":"live","turn":"t-k3v9q2m7xd4a","state":"running","next":500}
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"Hello"}
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":" there."}
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","next":800}`, "I look.\nHello there.\n"},
		{"the final text", "", `{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","replay":true,"next":800}`, "I look.\nHello there.\n"},
		{"another text", "", `
			{"type":"live","turn":"t-k3v9q2m7xd4a","state":"running","next":500}
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"Hi "}
			{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"there."}
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hi there.","next":800}`, "I look.\nHello th\nHi there.\n"},
		{"another final text", "", `{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hi there.","replay":true,"next":800}`, "I look.\nHello th\nHi there.\n"},
		{"a planned restart", `{"type":"followed","session_id":"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a","turn":"t-k3v9q2m7xd4a","state":"parked","reason":"restart","next":500}`, `
			{"type":"retracted","turn":"t-k3v9q2m7xd4a"}
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Again.","next":800}`, "I look.\nHello th\nAgain.\n"},
		{"a stop that does not wait", `{"type":"error","code":"canceled","message":"context canceled"}`, `
			{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","replay":true,"next":800}`, "I look.\nHello there.\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, func(c *call) {
				switch {
				case c.typ == "turn_start":
					c.send(startedLine)
				case c.typ == "turn_follow" && c.nth == 1 && test.end == "":
					c.send(first)
					c.hangUp()
				case c.typ == "turn_follow" && c.nth == 1:
					c.send(first + "\n" + test.end)
				case c.typ == "turn_follow" && c.nth == 2: // the service is being started again
					c.send(`{"type":"error","code":"unavailable","message":"the service daemon does not start: soon"}`)
				case c.typ == "turn_follow":
					c.send(test.then + "\n" + endedLine + "\n" + followLine)
				}
			})
			expect(t, s.command(t, "--session", "5b0c", "exec", "-p", "hi"), "", 0, test.out, "")
			for i, want := range []string{"412", "500", "500"} {
				zinotest.Equal(t, "from", field(s.sent("turn_follow")[i], "from"), want)
			}
		})
	}
}

// TestExecLost checks the text and the status when the daemon does not come back.
func TestExecLost(t *testing.T) {
	s := newScripted(t, func(c *call) {
		if c.typ == "turn_start" {
			c.send(startedLine)
			return
		}
		c.hangUp()
	})
	for args, want := range map[string]string{"exec -p hi": "", "exec --json -p hi": `{"type":"error","message":"Connection lost. The turn may go on: zino attach 5b0c1e52","code":"unavailable","kind":"internal"}` + "\n"} {
		cmd := s.command(t, strings.Fields("--session 5b0c "+args)...)
		cmd.Env = append(cmd.Env, "CLI_TEST_RECONNECT=0s")
		status, out, stderr := run(t, cmd, "")
		if status != 1 || stderr != "Connection lost. The turn may go on: zino attach 5b0c1e52\n" || !strings.HasSuffix(out, want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, out, stderr)
		}
	}
}

// TestExecContinued checks that a turn is followed into the session that it goes on in.
func TestExecContinued(t *testing.T) {
	s := newScripted(t, func(c *call) {
		switch {
		case c.typ == "turn_start":
			c.send(startedLine)
		case c.typ == "turn_follow" && c.nth == 1:
			c.send(liveLine + `
				{"type":"turn_ended","turn":"t-k3v9q2m7xd4a","state":"continued","next":700}
				{"type":"continued","session_id":"77aa0000-9f1c-4f0e-8f5b-1f6e1d2c3b4a","turn":"t-b","from_session_id":"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a"}
				{"type":"followed","session_id":"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a","turn":"t-k3v9q2m7xd4a","state":"continued","next":700}`)
		case c.typ == "turn_follow":
			c.send(strings.ReplaceAll(`{"type":"assistant_final","turn":"t-b","text":"Done.","next":80}`+"\n"+endedLine+"\n"+followLine, "t-k3v9q2m7xd4a", "t-b"))
		}
	})
	expect(t, s.command(t, "--session", "5b0c", "exec", "-p", "hi"), "", 0, "Done.\n", "The session goes on in 77aa0000-9f1c-4f0e-8f5b-1f6e1d2c3b4a\n")
	if got := s.sent("turn_follow")[1]; field(got, "session_id") != `"77aa0000-9f1c-4f0e-8f5b-1f6e1d2c3b4a"` || field(got, "turn") != `"t-b"` || field(got, "from") != "" {
		t.Errorf("followed with %s", got)
	}
}

// running starts a command on a daemon whose turn does not end, and returns when its
// first text has come.
func running(t *testing.T, s *scripted, cmd *exec.Cmd) *zinotest.Process {
	t.Helper()
	p := zinotest.Start(t, cmd)
	zinotest.Eventually(t, "the turn has begun to answer", func() bool { return strings.Contains(p.Out.String(), "so far") })
	return p
}

// newEndless starts a daemon whose turn ends when it is canceled. hangup is the value of
// [cli] on_hangup.
func newEndless(t *testing.T) *scripted {
	return newScripted(t, func(c *call) {
		switch c.typ {
		case "turn_start":
			c.send(startedLine)
		case "turn_follow":
			c.send(liveLine + "\n" + `{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"so far"}`)
			c.gone()
		case "turn_cancel":
			c.send(strings.Replace(startedLine, "running", "interrupted", 1))
		}
	})
}

// TestLeave checks which signals leave the turn running and which cancel it.
func TestLeave(t *testing.T) {
	const detached = "Detached. The turn goes on: zino attach 5b0c1e52\n"
	for _, test := range []struct {
		args, config string
		signal       syscall.Signal
		status       int
		stderr       string
		cancels      int
	}{
		{"exec -p hi", "", syscall.SIGHUP, 0, detached, 0},
		{"exec -p hi", "stop", syscall.SIGHUP, 129, "^C Interrupted.\n", 1},
		{"exec -p hi", "", syscall.SIGTERM, 130, "^C Interrupted.\n", 1},
		{"exec -p hi", "", syscall.SIGINT, 130, "^C Interrupted.\n", 1},
		{"exec --json -p hi", "", syscall.SIGHUP, 0, detached, 0},
		{"chat", "", syscall.SIGHUP, 0, detached, 0},
		{"chat", "stop", syscall.SIGHUP, 129, "^C Interrupted.\n", 1},
		{"chat", "", syscall.SIGTERM, 130, "^C Interrupted.\n", 1},
	} {
		t.Run(fmt.Sprint(test.args, " ", test.signal, " ", test.config), func(t *testing.T) {
			t.Parallel()
			s := newEndless(t)
			w := newWorld(t)
			if test.config != "" {
				file := filepath.Join(w.home, ".config/zino/config.toml")
				zinotest.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
				zinotest.Write(t, file, fmt.Sprintf("[cli]\non_hangup = %q\n", test.config))
			}
			cmd := w.command(append([]string{"--socket", s.socket, "--session", "5b0c"}, strings.Fields(test.args)...)...)
			if test.args == "chat" {
				in, err := cmd.StdinPipe()
				zinotest.Must(t, err)
				io.WriteString(in, "hi\n")
			}
			p := running(t, s, cmd)
			p.Signal(test.signal)
			zinotest.Equal(t, "status", p.Exit(), test.status)
			zinotest.Equal(t, "stderr", p.Err.String(), test.stderr)
			cancels := s.sent("turn_cancel")
			if len(cancels) != test.cancels {
				t.Fatalf("sent %q", cancels)
			}
			for _, request := range cancels {
				zinotest.Equal(t, "turn", field(request, "turn"), `"t-k3v9q2m7xd4a"`)
				zinotest.Equal(t, "session", field(request, "session_id"), `"5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a"`)
			}
		})
	}
}

// TestLeaveOutput checks that a closed pipe cancels the turn.
func TestLeaveOutput(t *testing.T) {
	s := newScripted(t, func(c *call) {
		switch c.typ {
		case "turn_start":
			c.send(startedLine)
		case "turn_follow":
			c.send(liveLine + "\n" + strings.Repeat(`{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"so far\n"}`+"\n", 10))
			c.gone()
		case "turn_cancel":
			c.send(strings.Replace(startedLine, "running", "interrupted", 1))
		}
	})
	cmd := s.command(t, "--session", "5b0c", "exec", "-p", "hi")
	r, w, err := os.Pipe()
	zinotest.Must(t, err)
	cmd.Stdout = w
	r.Close()
	status, _, stderr := runTo(t, cmd)
	w.Close()
	if status != 1 || stderr != "" || len(s.sent("turn_cancel")) != 1 {
		t.Errorf("status %d, stderr %q, sent %q", status, stderr, s.sent("turn_cancel"))
	}
}

// runTo runs a command whose standard output is set.
func runTo(t *testing.T, cmd *exec.Cmd) (status int, out, stderr string) {
	t.Helper()
	var errors strings.Builder
	cmd.Stderr = &errors
	if err := cmd.Run(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), "", errors.String()
}

// TestLeaveTerminal checks that a chat on a terminal interrupts its turn at Ctrl-C and
// goes on, and that it leaves the turn running when the terminal is closed.
func TestLeaveTerminal(t *testing.T) {
	s := newEndless(t)
	x := onTerminal(t, s.command(t, "--plain", "--session", "new"))
	x.prompts(1)
	x.Type("hi\r")
	x.Shows("so far")
	x.Type("\x03")
	x.Shows("^C Interrupted.")
	x.prompts(2)
	zinotest.Equal(t, "cancels", len(s.sent("turn_cancel")), 1)
	x.Type("hi\r")
	zinotest.Eventually(t, "the second turn", func() bool { return x.Written.Count("so far") == 2 })
	x.Signal(syscall.SIGHUP)
	x.Shows("Detached. The turn goes on: zino attach 5b0c1e52")
	x.ends(0)
	zinotest.Equal(t, "cancels", len(s.sent("turn_cancel")), 1)
	if states := s.sent("turn_start"); !slices.ContainsFunc(states, func(r string) bool { return field(r, "message") == `"hi"` }) {
		t.Errorf("sent %q", states)
	}
}
