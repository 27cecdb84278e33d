package chat

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestFollow checks that the packets of a turn reach the loop once and in order, also when the
// connection is lost or the daemon is restarted, and that services of this chat are not waited
// for.
func TestFollow(t *testing.T) {
	const (
		delta    = `{"type":"assistant_delta","turn":"t-a","text":"so"}`
		stored   = `{"type":"tool_requested","turn":"t-a","id":"1","name":"read","next":20}`
		replayed = `{"type":"tool_finished","turn":"t-a","id":"1","next":30,"replay":true}`
		live     = `{"type":"live","turn":"t-a","state":"running","next":30}`
		ended    = `{"type":"turn_ended","turn":"t-a","state":"done","next":40}`
		followed = `{"type":"followed","session_id":"s","turn":"t-a","state":"done","next":40}`
		restart  = `{"type":"followed","session_id":"s","turn":"t-a","state":"running","next":20,"reason":"restart"}`
	)
	failure := func(code string) string { return `{"type":"error","code":"` + code + `","message":"no"}` }
	for _, test := range []struct {
		name        string
		lifetime    string
		connections [][]string // what each sends before it is closed
		packets     string
		from        string // of the requests
	}{
		{"a whole turn", "", [][]string{{delta, stored, live, ended, followed}}, "assistant_delta tool_requested live turn_ended end", "-"},
		{"a lost connection", "", [][]string{{delta, stored}, {replayed, live, ended, followed}}, "assistant_delta tool_requested lost tool_finished live turn_ended end", "- 20"},
		{"lost before the first packet", "", [][]string{{}, {stored, ended, followed}}, "lost tool_requested turn_ended end", "- -"},
		{"lost again and again", "", [][]string{{stored}, {}, {failure("unavailable")}, {replayed}, {ended, followed}}, "tool_requested lost tool_finished lost turn_ended end", "- 20 20 20 30"},
		{"a restart", proto.LifetimePersistent, [][]string{{stored, restart}, {replayed, ended, followed}}, "tool_requested lost tool_finished turn_ended end", "- 20"},
		{"a daemon that cancels", proto.LifetimePersistent, [][]string{{stored, failure("canceled")}, {ended, followed}}, "tool_requested lost turn_ended end", "- 20"},
		{"an unknown turn", "", [][]string{{failure("not_found")}}, "error", "-"},
		{"unavailable at once", "", [][]string{{failure("unavailable")}}, "error", "-"},
		{"services of this chat", proto.LifetimePrivate, [][]string{{stored}}, "tool_requested error", "-"},
		{"stopped services of this chat", proto.LifetimePrivate, [][]string{{stored, restart}}, "tool_requested error", "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			requests := make(chan string, len(test.connections))
			socket := rpctest.Play(t, "", func(n int, conn *rpctest.Conn) {
				var req proto.TurnFollow
				if err := wire.DecodeReply([]byte(conn.Receive()), &req); err != nil {
					t.Error(err)
				}
				from := "-"
				if req.From != nil {
					from = strconv.FormatInt(*req.From, 10)
				}
				requests <- from
				conn.Send(test.connections[n]...)
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := &chat{daemonState: daemonState{client: &rpc.Client{Service: "daemon", Path: socket}, lifetime: test.lifetime}, packets: make(chan packet)}
			defer c.client.Close()
			open := &turn{session: "s", id: "t-a"}
			go c.follow(ctx, open, nil)
			var got []string
			for last := false; !last; {
				p := zinotest.Receive(t, "a packet", c.packets)
				switch {
				case p.turn != open:
					t.Errorf("a packet of turn %v", p.turn)
				case p.end != nil:
					got, last = append(got, "end"), true
				case p.err != nil:
					got, last = append(got, "error"), true
				default:
					got = append(got, p.typ)
				}
			}
			zinotest.Equal(t, "packets", strings.Join(got, " "), test.packets)
			var from []string
			for range test.connections {
				from = append(from, zinotest.Receive(t, "a request", requests))
			}
			zinotest.Equal(t, "places", strings.Join(from, " "), test.from)
		})
	}
}

// TestParent checks the lines between zino and zino-chat: a session is sent when it changes,
// and unknown lines and keys are skipped.
func TestParent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "line")
	zinotest.Write(t, file, `{"type":"start","version":"1","later":{"a":[1]},"request":{"model":"m"}}`+"\n"+`{"type":"later"}`+"\nnone\n")
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	zinotest.Must(t, err)
	defer f.Close()
	p := newParent(f)
	start, err := p.start()
	if err != nil || start.Version != "1" || start.Request.Model != "m" {
		t.Errorf("%+v, %v", start, err)
	}
	c := &chat{parent: p}
	for line := range p.lines {
		c.line(line)
	}
	if c.client != nil || c.exit != nil {
		t.Error("a line of an unknown type had an effect")
	}
	before := len(zinotest.Read(t, file))
	for _, s := range []struct{ session, made string }{{"", ""}, {"a", ""}, {"a", ""}, {"b", "b"}, {"", "b"}} {
		p.opened(s.session, s.made)
	}
	zinotest.Equal(t, "what zino gets", zinotest.Read(t, file)[before:],
		`{"type":"session","session_id":"a"}`+"\n"+`{"type":"session","session_id":"b","new":true}`+"\n"+`{"type":"session","session_id":""}`+"\n")
	for _, line := range []string{"", "{}\n", `{"type":"ready"}` + "\n", "zino\n"} {
		zinotest.Write(t, file, line)
		f, err := os.Open(file)
		zinotest.Must(t, err)
		if _, err := newParent(f).start(); err == nil {
			t.Errorf("%q is a start line", line)
		}
		f.Close()
	}
}
