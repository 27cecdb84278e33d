package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

const colourForm = `{"type":"object","properties":{"colour":{"type":"string","enum":["red","green"]}},"required":["colour"]}`

// asking is a service whose daemon has a person to ask.
type asking struct {
	*env
	signer *gate.Signer
	asked  rpctest.Record[proto.InputRequest]
	answer func(context.Context, proto.InputRequest) (proto.InputAnswer, error)
}

func newAsking(t *testing.T, text string) *asking {
	a := &asking{env: prepare(t, text)}
	a.startExc()
	a.answer = func(context.Context, proto.InputRequest) (proto.InputAnswer, error) {
		return proto.InputAnswer{Action: proto.InputAccept, Content: proto.Raw(`{"colour":"red"}`), Answered: true}, nil
	}
	var err error
	a.signer, err = gate.OpenSigner(a.cfg.Daemon.DataDir, "")
	zinotest.Must(t, err)
	rpctest.New(t, "daemon", a.cfg.Daemon.Socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.DaemonInputRequest, func(ctx context.Context, req proto.InputRequest) (proto.InputAnswer, error) {
			req.Schema = append(proto.Raw(nil), req.Schema...)
			a.asked.Add(req)
			return a.answer(ctx, req)
		})
	})
	a.env = a.open()
	return a
}

// in calls a tool in a session.
func (a *asking) in(ctx context.Context, session, tool, arguments string) (answer, error) {
	token, err := a.signer.Sign(gate.Turn{Session: session, Turn: "t-" + session, Mode: gate.Yolo}, time.Now())
	zinotest.Must(a, err)
	return a.request(ctx, proto.CallTool{Server: "test", Tool: tool, Arguments: proto.Raw(arguments), Token: token, SessionID: session, Turn: "t-" + session})
}

// result is in with a result that is not an error, as text and the input that was wanted.
func (a *asking) result(session, arguments string) string {
	a.Helper()
	got, err := a.in(a.Context(), session, "elicit", arguments)
	zinotest.Must(a, err)
	if !got.OK {
		return got.Error.Code + ": " + got.Error.Message
	}
	return strings.TrimSpace(got.Data.Text + " " + strings.Join(got.Data.Wanted, "|"))
}

// TestElicit checks which questions reach a person, and what the server and the model get, in
// the newest revision and in an older one.
func TestElicit(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			a := newAsking(t, server("test", fmt.Sprintf("protocol = %q", version)))
			form := func(message string) string { return `{"message":"` + message + `","form":` + colourForm + `}` }
			zinotest.Equal(t, "accepted", a.result("s1", form("Which\\u001b[31m colour?\\nNow.")), `accept {"colour":"red"}`)
			req := a.asked.All()[0]
			zinotest.Equal(t, "asked", fmt.Sprintf("%s %q %s %s %v", req.Server, req.Message, req.SessionID, req.Schema, req.Token != ""),
				`test "Which\x1b[31m colour?\nNow." s1 {"properties":{"colour":{"enum":["red","green"],"type":"string"}},"required":["colour"],"type":"object"} true`)
			zinotest.Equal(t, "page", a.result("s1", `{"message":"Sign in.","url":"https://example.com/login?a=b"}`), "accept null")
			zinotest.Equal(t, "url", a.asked.All()[1].URL, "https://example.com/login?a=b")

			const declined = "decline null "
			zinotest.Equal(t, "secret", a.result("s1", `{"message":"Log in.","form":{"type":"object","properties":{"x":{"type":"string","title":"Your password"}}}}`),
				declined+`Log in. (declined: "Your password" looks like a secret, which a form must not ask for)`)
			zinotest.Equal(t, "http", a.result("s1", `{"message":"Log in.","url":"http://example.com/"}`), declined+"Log in. (declined: the URL is not https, or too long)")
			zinotest.Equal(t, "questions", len(a.asked.All()), 2)

			a.answer = func(context.Context, proto.InputRequest) (proto.InputAnswer, error) {
				return proto.InputAnswer{Action: proto.InputDecline, Answered: true}, nil
			}
			zinotest.Equal(t, "declined by a person", a.result("s1", form("Which?")), "decline null")
			a.answer = func(context.Context, proto.InputRequest) (proto.InputAnswer, error) {
				return proto.InputAnswer{Action: proto.InputCancel}, nil
			}
			zinotest.Equal(t, "no person", a.result("s1", form("Which?")), "cancel null Which?")
			zinotest.Equal(t, "no person, and the tool fails", a.result("s1", `{"message":"Which?","fail":true,"form":`+colourForm+`}`), "tool_error: no input\nInput was wanted: Which?")
			a.answer = func(context.Context, proto.InputRequest) (proto.InputAnswer, error) {
				return proto.InputAnswer{}, errors.New("the daemon has no room")
			}
			zinotest.Equal(t, "an error of the daemon", a.result("s1", form("Which?")), "cancel null Which?")
			zinotest.Equal(t, "a call of a person", a.text("test", "elicit", form("Which?")), "cancel null")
		})
	}
}

// TestVisitRequired checks a call that fails until a page was visited.
func TestVisitRequired(t *testing.T) {
	a := newAsking(t, server("test", `protocol = "2025-11-25"`))
	got := a.result("s1", `{"message":"Sign in.","url":"https://example.com/","required":true}`)
	zinotest.Contains(t, "accepted", got, "(the user was shown the page: call the tool again when it was visited)")
	a.answer = func(context.Context, proto.InputRequest) (proto.InputAnswer, error) {
		return proto.InputAnswer{Action: proto.InputCancel}, nil
	}
	zinotest.Contains(t, "no person", a.result("s1", `{"message":"Sign in.","url":"https://example.com/","required":true}`), "Input was wanted: Sign in.")
}

// TestClockStops checks that a call has no less time because a person takes longer than all
// its limits, and that they hold afterwards.
func TestClockStops(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			a := newAsking(t, server("test", fmt.Sprintf("timeout_secs = 0.5\nmax_secs = 1\nprotocol = %q", version)))
			a.answer = func(ctx context.Context, _ proto.InputRequest) (proto.InputAnswer, error) {
				select {
				case <-time.After(2 * time.Second): // more than the limits
				case <-ctx.Done():
				}
				return proto.InputAnswer{Action: proto.InputAccept, Content: proto.Raw(`{"colour":"green"}`), Answered: true}, nil
			}
			zinotest.Equal(t, "slow answer", a.result("s1", `{"message":"Which?","form":`+colourForm+`}`), `accept {"colour":"green"}`)
			got, err := a.in(t.Context(), "s1", "hold", fmt.Sprintf(`{"name":%q}`, filepath.Join(t.TempDir(), "never")))
			zinotest.Must(t, err)
			zinotest.Equal(t, "limit", got.Error.Code, proto.ToolTimeout)
		})
	}
}

// TestCountdown checks that a countdown has the time left that had not passed when it paused,
// also if questions overlap.
func TestCountdown(t *testing.T) {
	over := make(chan struct{}, 8)
	c := &call{}
	c.whole = newCountdown(time.Hour, func() { over <- struct{}{} })
	first := c.pause()
	second := c.pause()
	first()
	left := c.whole.left
	if c.whole.Stop() {
		t.Error("it goes on while a question is open")
	}
	second()
	if !c.whole.Stop() || left > time.Hour {
		t.Errorf("it does not go on; %v left", left)
	}
	c.whole.left = time.Nanosecond
	c.pause()()
	zinotest.Receive(t, "its end", over)
}

// TestQuestionOfSession checks that a question of an older revision is shown only if all
// calls that the server may work on are of one session.
func TestQuestionOfSession(t *testing.T) {
	a := newAsking(t, server("test", `protocol = "2025-11-25"`))
	const question = `{"message":"Which?","form":` + colourForm + `}`
	hold := func(ctx context.Context, session, file string) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := a.in(ctx, session, "hold", fmt.Sprintf(`{"name":%q}`, file))
			ended <- err
		}()
		zinotest.Eventually(t, "the call runs", func() bool {
			_, err := os.Stat(file + ".held")
			return err == nil
		})
		return ended
	}
	file := filepath.Join(a.dir, "one")
	first := hold(t.Context(), "s1", file)
	zinotest.Equal(t, "of the same session", a.result("s1", question), `accept {"colour":"red"}`)
	zinotest.Equal(t, "of another session", a.result("s2", question), "cancel null")
	zinotest.Write(t, file, "")
	zinotest.Must(t, zinotest.Receive(t, "the first call", first))
	zinotest.Equal(t, "alone", a.result("s2", question), `accept {"colour":"red"}`)

	// From now on one call runs at a time.
	file = filepath.Join(a.dir, "two")
	first = hold(t.Context(), "s1", file)
	second := make(chan string, 1)
	go func() { second <- a.result("s2", question) }()
	zinotest.Equal(t, "questions", len(a.asked.All()), 2)
	zinotest.Write(t, file, "")
	zinotest.Must(t, zinotest.Receive(t, "the first call", first))
	zinotest.Equal(t, "after it", zinotest.Receive(t, "the second call", second), `accept {"colour":"red"}`)

	// A call that was given up may still ask.
	ctx, cancel := context.WithCancel(t.Context())
	first = hold(ctx, "s1", filepath.Join(a.dir, "three"))
	cancel()
	zinotest.Receive(t, "the first call", first)
	before := a.text("test", "pid", `{}`)
	zinotest.Equal(t, "behind a call that was given up", a.result("s2", question), "cancel null")
	zinotest.Equal(t, "of a new instance", a.result("s2", question), `accept {"colour":"red"}`)
	if after := a.text("test", "pid", `{}`); after == before {
		t.Error("the server was not started again")
	}
	for _, req := range a.asked.All() {
		if req.SessionID != "s1" && req.SessionID != "s2" {
			t.Errorf("asked in session %q", req.SessionID)
		}
	}
}

// TestQuestionEndsWithCall checks that a question ends when the caller of the tool hangs up.
func TestQuestionEndsWithCall(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			a := newAsking(t, server("test", fmt.Sprintf("protocol = %q", version)))
			asked, ended := make(chan struct{}), make(chan struct{})
			a.answer = func(ctx context.Context, _ proto.InputRequest) (proto.InputAnswer, error) {
				close(asked)
				<-ctx.Done()
				close(ended)
				return proto.InputAnswer{}, ctx.Err()
			}
			ctx, cancel := context.WithCancel(t.Context())
			go a.in(ctx, "s1", "elicit", `{"message":"Which?","form":`+colourForm+`}`)
			zinotest.Receive(t, "the question", asked)
			cancel()
			zinotest.Receive(t, "its end", ended)
		})
	}
}

// TestQuestionOverHTTP checks that a server with a URL asks on the stream of the call, which
// needs no permanent connection, in the newest revision and in an older one.
func TestQuestionOverHTTP(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return testServer() }, &mcp.StreamableHTTPOptions{Stateless: version == "2026-07-28"})
			far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodGet {
					t.Error("a permanent connection was asked for")
				}
				tools.ServeHTTP(w, req)
			}))
			t.Cleanup(far.Close)
			a := newAsking(t, fmt.Sprintf("[mcp.servers.test]\nurl = %q\nprotocol = %q\n", far.URL+"/mcp", version))
			zinotest.Equal(t, "form", a.result("s1", `{"message":"Which?","form":`+colourForm+`}`), `accept {"colour":"red"}`)
			zinotest.Equal(t, "page", a.result("s1", `{"message":"Sign in.","url":"https://example.com/"}`), "accept null")
			zinotest.Equal(t, "protocol", a.state("test").Protocol, version)
		})
	}
}
