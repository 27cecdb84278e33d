package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

const orgForm = `{"type":"object","properties":{"org":{"type":"string","minLength":2}},"required":["org"]}`

// inputEnv is a daemon with a turn that waits until its run may end.
type inputEnv struct {
	*resumeEnv
	token   string // of the turn
	release chan struct{}
}

func newInputEnv(t *testing.T) *inputEnv {
	e := &inputEnv{resumeEnv: newResumeEnv(t), release: make(chan struct{})}
	tokens := make(chan string, 1)
	e.each = func(r *run) (proto.Text, error) {
		tokens <- r.Token
		select {
		case <-e.release:
		case <-r.ctx.Done():
		}
		return answer(r)
	}
	e.startTurn("ask", "")
	e.token = zinotest.Receive(t, "the run", tokens)
	return e
}

// followLive returns a connection that follows the turn.
func (e *inputEnv) followLive(more string) *rpctest.Conn {
	c := e.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"` + more + `}`)
	zinotest.Eventually(e.t, "live", func() bool { return c.Next().Type == proto.TypeLive })
	return c
}

// request asks for input in the background.
func (e *inputEnv) request(ctx context.Context, change func(*proto.InputRequest)) <-chan string {
	req := proto.InputRequest{Server: "github", Message: "Which organisation?", Schema: proto.Raw(orgForm), SessionID: "s-1", Token: e.token}
	if change != nil {
		change(&req)
	}
	client, out := rpctest.Client(e.t, "daemon", e.cfg.Daemon.Socket), make(chan string, 1)
	go func() {
		answer, err := rpc.Call(ctx, client, proto.DaemonInputRequest, req)
		if err != nil {
			out <- err.Error()
			return
		}
		out <- strings.TrimSpace(fmt.Sprintf("%s %s %v", answer.Action, answer.Content, answer.Answered))
	}()
	return out
}

// asked reads the next packet, an input_requested.
func (e *inputEnv) asked(c *rpctest.Conn) (in proto.InputRequested) {
	e.t.Helper()
	p := c.Next()
	zinotest.Equal(e.t, "packet", p.Type, proto.TypeInputRequested)
	zinotest.Must(e.t, json.Unmarshal([]byte(p.Raw), &in))
	return in
}

func (e *inputEnv) answer(id, action, content string) error {
	req := proto.AnswerInput{ID: id, Action: action}
	if content != "" {
		req.Content = proto.Raw(content)
	}
	_, err := rpc.Call(e.t.Context(), rpctest.Client(e.t, "daemon", e.cfg.Daemon.Socket), proto.DaemonAnswerInput, req)
	return err
}

// TestInput checks that a request is shown to all who can answer, also to one that joins
// later, that a value that does not fit leaves it open, and that the first answer closes it
// for all.
func TestInput(t *testing.T) {
	e := newInputEnv(t)
	first := e.followLive(`,"inputs":true`)
	other := e.followLive("")
	got := e.request(t.Context(), nil)
	in := e.asked(first)
	zinotest.Equal(t, "request", values(in.Server, in.Message, string(in.Schema), in.SessionID), values("github", "Which organisation?", orgForm, "s-1"))
	second := e.followLive(`,"inputs":true`)
	zinotest.Equal(t, "joined later", e.asked(second).ID, in.ID)
	for _, test := range []struct{ action, content, want string }{
		{"accept", `{"org":"a"}`, "content: org: want at least 2 characters"},
		{"accept", `{}`, "content: org: a value is required"},
		{"accept", "", "content: the values are not an object"},
		{"decline", `{"org":"acme"}`, "content belongs to the form that is accepted"},
		{"yes", "", `invalid action "yes"`},
	} {
		zinotest.Contains(t, test.action+test.content, fmt.Sprint(e.answer(in.ID, test.action, test.content)), test.want)
	}
	zinotest.Must(t, e.answer(in.ID, "accept", `{"org":"acme"}`))
	zinotest.Equal(t, "answer", zinotest.Receive(t, "answer", got), `accept {"org":"acme"} true`)
	for _, c := range []*rpctest.Conn{first, second} {
		p := c.Next()
		zinotest.Contains(t, "closed", p.Raw, `{"type":"input_closed","id":"`+in.ID+`","action":"accept","by":{"uid":`+fmt.Sprint(os.Geteuid()))
		if strings.Contains(p.Raw, "acme") {
			t.Errorf("the value is in %s", p.Raw)
		}
	}
	zinotest.Contains(t, "second answer", fmt.Sprint(e.answer(in.ID, "decline", "")), "no open request for input")
	close(e.release)
	e.ended("s-1", e.read("s-1").Turns[0].ID)
	for p := other.Next(); p.Type != "followed"; p = other.Next() {
		if strings.HasPrefix(p.Type, "input_") {
			t.Errorf("a follower without inputs has got %s", p.Raw)
		}
	}
	for _, line := range e.file("s-1") {
		if strings.Contains(line, "acme") || strings.Contains(line, "organisation") {
			t.Errorf("the session has %s", line)
		}
	}
}

// TestInputUnanswered checks that a request without a person is canceled at once, and one
// without an answer when its time is over, or when the caller hangs up.
func TestInputUnanswered(t *testing.T) {
	e := newInputEnv(t)
	e.followLive("")
	zinotest.Equal(t, "no person", zinotest.Receive(t, "answer", e.request(t.Context(), nil)), "cancel  false")

	c := e.followLive(`,"inputs":true`)
	e.service.inputs.wait = time.Millisecond
	got := e.request(t.Context(), nil)
	in := e.asked(c)
	zinotest.Equal(t, "time over", zinotest.Receive(t, "answer", got), "cancel  false")
	zinotest.Contains(t, "closed", c.Next().Raw, `{"type":"input_closed","id":"`+in.ID+`","action":"cancel","session_id":"s-1"`)

	e.service.inputs.wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	e.request(ctx, nil)
	in = e.asked(c)
	cancel()
	zinotest.Contains(t, "closed", c.Next().Raw, `{"type":"input_closed","id":"`+in.ID+`","action":"cancel","session_id":"s-1"`)

	got = e.request(t.Context(), nil)
	e.asked(c)
	e.service.halt() // the daemon stops
	zinotest.Equal(t, "stopping", zinotest.Receive(t, "answer", got), "cancel  false")
	close(e.release)
}

// TestInputRefused checks what a request needs: the token of an open turn of the session, a
// form that can be shown, or a URL with https.
func TestInputRefused(t *testing.T) {
	e := newInputEnv(t)
	e.followLive(`,"inputs":true`)
	other, err := e.service.signer.Sign(gate.Turn{Session: "s-2", Turn: "t-9", Mode: gate.Yolo}, time.Now())
	zinotest.Must(t, err)
	for name, test := range map[string]struct {
		change func(*proto.InputRequest)
		want   string
	}{
		"no token":        {func(r *proto.InputRequest) { r.Token = "" }, "needs the token of a turn"},
		"forged":          {func(r *proto.InputRequest) { r.Token = "x" + r.Token[1:] }, "needs the token of a turn"},
		"another session": {func(r *proto.InputRequest) { r.SessionID = "s-2" }, "needs the token of a turn"},
		"another's token": {func(r *proto.InputRequest) { r.Token = other }, "needs the token of a turn"},
		"an unknown turn": {func(r *proto.InputRequest) { r.Token, r.SessionID = other, "s-2" }, "cancel  false"},
		"no server":       {func(r *proto.InputRequest) { r.Server = "" }, "want server"},
		"a long message":  {func(r *proto.InputRequest) { r.Message = strings.Repeat("x", 4001) }, "want server"},
		"both":            {func(r *proto.InputRequest) { r.URL = "https://a.example/" }, "want server"},
		"http":            {func(r *proto.InputRequest) { r.Schema, r.URL = nil, "http://a.example/" }, "want https"},
		"no host":         {func(r *proto.InputRequest) { r.Schema, r.URL = nil, "https:a" }, "want https"},
		"not a form":      {func(r *proto.InputRequest) { r.Schema = proto.Raw(`{"type":"array"}`) }, "schema: the form is of type"},
	} {
		zinotest.Contains(t, name, zinotest.Receive(t, name, e.request(t.Context(), test.change)), test.want)
	}
	close(e.release)
}

// TestInputApprovers checks that the people who may answer are those who may approve calls.
func TestInputApprovers(t *testing.T) {
	e := newInputEnv(t)
	e.cfg.Gate.Approvers = []string{"requester"}
	c := e.followLive(`,"inputs":true`)
	e.request(t.Context(), nil)
	in := e.asked(c)
	_, err := e.service.answerInput(t.Context(), proto.AnswerInput{ID: in.ID, Action: "decline"})
	zinotest.Contains(t, "a caller that the kernel does not name", fmt.Sprint(err), "uid -1 may not answer "+in.ID+"; approvers: requester")
	zinotest.Must(t, e.answer(in.ID, "decline", ""))
	close(e.release)
}
