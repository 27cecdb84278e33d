package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// neededFor returns what exc says about a command of a turn that must be asked.
func neededFor(r *run, command string) *proto.ApprovalNeeded {
	n := &proto.ApprovalNeeded{
		Kind: proto.ApprovalCallKind, Reasons: []string{"mode ask"}, Grantable: proto.AnswerAlways,
		Call: proto.AskedCall{
			Tool: "bash", Input: fmt.Appendf(nil, `{"command":%q}`, command), Root: r.Root, Cwd: r.Root, Sandbox: proto.LevelOff, Network: true, Files: []string{},
		},
		Preview: proto.ApprovalPreview{Commands: []string{"forged"}},
	}
	exact := gate.Exact{Tool: "bash", Input: n.Call.Input, Root: r.Root, Dir: r.Root, Sandbox: proto.LevelOff, Network: true, Session: r.SessionID, Turn: r.Turn, UID: os.Geteuid()}
	digest, err := exact.Digest()
	zinotest.Must(r.t, err)
	n.Digest = digest
	return n
}

// approval waits at the checkpoint for an approval of a call.
func (r *run) approval(step int, id string, n *proto.ApprovalNeeded) (proto.Proceed, error) {
	if err := r.out.Event(proto.TypeCheckpoint, proto.Checkpoint{Turn: r.Turn, Step: step, Point: proto.PointApproval, Batch: []string{id}, Needed: n}); err != nil {
		return proto.Proceed{}, err
	}
	select {
	case p := <-r.proceed:
		return p, nil
	case <-r.ctx.Done():
		return proto.Proceed{}, r.ctx.Err()
	}
}

// askEnv is a daemon whose turns have one command that must be asked.
type askEnv struct {
	*resumeEnv
	change func(*proto.ApprovalNeeded) // what a forged agr alters

	mu       sync.Mutex
	proceeds []proto.Proceed // at the checkpoint
}

func newAskEnv(t *testing.T) *askEnv {
	e := &askEnv{resumeEnv: newResumeEnv(t), change: func(*proto.ApprovalNeeded) {}}
	e.each = e.play
	return e
}

// play asks about a command, with the tool_started of agr, and carries it out.
func (e *askEnv) play(r *run) (proto.Text, error) {
	command := "make install TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ456789"
	step := 1
	if len(r.Calls) == 0 {
		err := r.send(`{"type":"assistant_final","text":"I install."}`, fmt.Sprintf(`{"type":"tool_requested","id":"c1","name":"bash","input":{"command":%q}}`, command), `{"type":"usage","input_tokens":1,"output_tokens":1}`)
		if err == nil {
			_, err = r.at(1, proto.PointCalls, "c1")
		}
		if err != nil {
			return proto.Text{}, err
		}
	} else {
		step = r.Calls[0].Step
		if r.Calls[0].Action == proto.ActionRun {
			if _, err := r.at(step, proto.PointCalls, "c1"); err != nil {
				return proto.Text{}, err
			}
		}
	}
	if err := r.send(`{"type":"tool_started","id":"c1","name":"bash"}`); err != nil {
		return proto.Text{}, err
	}
	n := neededFor(r, command)
	e.change(n)
	p, err := r.approval(step, "c1", n)
	if err != nil {
		return proto.Text{}, err
	}
	e.mu.Lock()
	e.proceeds = append(e.proceeds, p)
	e.mu.Unlock()
	if p.Stop != "" {
		return proto.Text{StopReason: p.Stop}, nil
	}
	result := `{"ok":true}`
	if p.Results != nil {
		result = string(p.Results["c1"])
	} else if _, err := e.verifier().VerifyGrant(p.Grants["c1"], time.Now()); err != nil {
		result = string(denied(err.Error()))
	}
	if err := r.send(`{"type":"tool_finished","id":"c1","name":"bash","ok":true,"result":` + result + `,"duration_ms":1}`); err != nil {
		return proto.Text{}, err
	}
	if _, err := r.at(step, proto.PointInfer); err != nil {
		return proto.Text{}, err
	}
	r.FirstStep = step + 1
	return answer(r)
}

func (e *askEnv) verifier() *gate.Verifier {
	return gate.NewVerifier(e.cfg.Daemon.Socket, e.cfg.Daemon.DataDir)
}

// last returns the proceed of the last checkpoint of an approval.
func (e *askEnv) last() proto.Proceed {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.proceeds) == 0 {
		return proto.Proceed{}
	}
	return e.proceeds[len(e.proceeds)-1]
}

// begin starts a turn in mode ask.
func (e *askEnv) begin(id string, reachable bool) proto.TurnStarted {
	e.t.Helper()
	started, err := rpc.Call(e.t.Context(), e.client(), proto.DaemonTurnStart, proto.TurnStart{
		Message: "install", SessionID: id, Root: "/r", Mode: proto.ModeDerived, Reachable: reachable,
	})
	zinotest.Must(e.t, err)
	return started
}

func (e *askEnv) client() *rpc.Client { return rpctest.Client(e.t, "daemon", e.cfg.Daemon.Socket) }

// pending waits for a request of a session.
func (e *askEnv) pending(id string) (a proto.Approval) {
	e.t.Helper()
	zinotest.Eventually(e.t, "a request of "+id, func() bool {
		list, err := e.service.asked.store.List(proto.ApprovalPending, id)
		zinotest.Must(e.t, err)
		if len(list) > 0 {
			a = list[0]
		}
		return len(list) > 0
	})
	return a
}

func (e *askEnv) answer(a proto.Approval, how string, change func(*proto.Approve)) (proto.Approval, error) {
	e.t.Helper()
	req := proto.Approve{ID: a.ID, Digest: a.Digest, Answer: how}
	if change != nil {
		change(&req)
	}
	return rpc.Call(e.t.Context(), e.client(), proto.DaemonApprove, req)
}

// stateOf waits until a request has a state.
func (e *askEnv) hasState(id, want string) {
	e.t.Helper()
	zinotest.Eventually(e.t, id+" is "+want, func() bool {
		a, err := e.service.asked.store.Get(id)
		return err == nil && a.State == want
	})
}

// me is the user that answers, as texts name it.
func me(e *askEnv) string {
	by := e.pendingBy()
	if by.User == "" {
		return fmt.Sprintf("uid %d", by.UID)
	}
	return by.User
}

func (e *askEnv) pendingBy() proto.Requester {
	list, err := e.service.asked.store.List("all", "")
	zinotest.Must(e.t, err)
	return list[0].By
}

func TestApproveOnce(t *testing.T) {
	e := newAskEnv(t)
	started := e.begin("s-1", true)
	follower := e.dial()
	follower.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	a := e.pending("s-1")
	zinotest.Eventually(t, "the activity is the request", func() bool {
		list, err := e.service.turns(t.Context(), proto.ListTurns{})
		return err == nil && list.Turns[0].Activity == "approval "+a.ID
	})
	shown, err := rpc.Call(t.Context(), e.client(), proto.DaemonApprovals, proto.ListApprovals{SessionID: "s-1"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "shown", values(shown.Approvals[0].ID, shown.Approvals[0].Step, shown.Approvals[0].CallID, shown.Approvals[0].Grantable, shown.Approvals[0].By.UID), fmt.Sprint(a.ID, " 1 c1 always ", os.Geteuid()))
	for what, text := range map[string]string{"input": string(shown.Approvals[0].Call.Input), "preview": strings.Join(shown.Approvals[0].Preview.Commands, ";")} {
		if strings.Contains(text, "ghp_") || !strings.Contains(text, "make install TOKEN=[masked:") {
			t.Errorf("%s: %s", what, text)
		}
	}
	if !strings.Contains(string(a.Call.Input), "ghp_0123456789abcdefghijABCDEFGHIJ456789") {
		t.Errorf("stored: %s", a.Call.Input)
	}
	if _, err := e.answer(a, "once", func(req *proto.Approve) { req.Digest = "sha256:0" }); codeOf(err) != proto.CodeInvalid || !strings.Contains(err.Error(), "request "+a.ID+" has digest "+a.Digest+"; show it again") {
		t.Errorf("another digest: %v", err)
	}
	reply, err := e.answer(a, "once", nil)
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", values(reply.State, reply.Answer, reply.Answered.UID), fmt.Sprint("approved once ", os.Geteuid()))
	zinotest.Equal(t, "end", e.ended("s-1", started.Turn).State, proto.TurnDone)
	token, err := e.verifier().VerifyGrant(e.last().Grants["c1"], time.Now())
	zinotest.Must(t, err)
	zinotest.Equal(t, "token", values(token.Approval, token.Grant, token.Key, token.Digest, token.Sandbox, token.Network, token.By),
		fmt.Sprint(a.ID, "  s-1/", started.Turn, "/1/c1 ", a.Digest, " off true ", os.Geteuid()))
	e.hasState(a.ID, proto.ApprovalUsed)
	var types []string
	for _, p := range e.followed(follower) {
		if p.Type == proto.TypeApprovalRequested {
			if strings.Contains(p.Raw, "ghp_") || strings.Contains(p.Raw, "forged") || !strings.Contains(p.Raw, a.Digest) {
				t.Errorf("packet %s", p.Raw)
			}
			types = append(types, p.Type)
		}
		if p.Type == proto.TypeApprovalClosed {
			types = append(types, p.Raw)
		}
	}
	if len(types) != 2 || types[0] != proto.TypeApprovalRequested || !strings.HasPrefix(types[1], `{"type":"approval_closed","approval":"`+a.ID+`","state":"approved","by":{"uid":`) {
		t.Errorf("packets %s", types)
	}
	_, err = e.answer(a, "deny", nil)
	if err == nil || !strings.HasPrefix(err.Error(), a.ID+" was approved by ") {
		t.Errorf("the second answer: %v", err)
	}
	if text := zinotest.Read(t, filepath.Join(e.sessions, "s-1.jsonl")); strings.Contains(text, e.last().Grants["c1"]) {
		t.Error("the token is in the session")
	}
}

func TestDenialIsReadByTheModel(t *testing.T) {
	e := newAskEnv(t)
	started := e.begin("s-1", true)
	a := e.pending("s-1")
	_, err := e.answer(a, "deny", func(req *proto.Approve) { req.Note = "not on Mondays" })
	zinotest.Must(t, err)
	e.ended("s-1", started.Turn)
	zinotest.Equal(t, "result", string(e.last().Results["c1"]), `{"ok":false,"error":{"code":"denied","message":"`+me(e)+` denied this call: not on Mondays"}}`)
}

func TestHeadlessIsDenied(t *testing.T) {
	e := newAskEnv(t)
	e.ended("s-1", e.begin("s-1", false).Turn)
	zinotest.Equal(t, "result", string(e.last().Results["c1"]), `{"ok":false,"error":{"code":"denied","message":"Not allowed without a person: bash at sandbox level off."}}`)
	list, err := e.service.asked.store.List("all", "")
	zinotest.Must(t, err)
	zinotest.Equal(t, "requests", len(list), 0)
}

// TestGrantsHoldHeadless checks that the answers session and always allow the next call, and
// that a grant that was revoked does not.
func TestGrantsHoldHeadless(t *testing.T) {
	e := newAskEnv(t)
	started := e.begin("s-1", true)
	_, err := e.answer(e.pending("s-1"), "always", func(req *proto.Approve) { req.Pattern = "make *" })
	zinotest.Must(t, err)
	e.ended("s-1", started.Turn)
	grants, err := rpc.Call(t.Context(), e.client(), proto.DaemonGrants, proto.ListGrants{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "grants", values(len(grants.Grants), grants.Grants[0].Command, grants.Grants[0].Root, grants.Grants[0].Uses), "1 make * /r 0")
	e.ended("s-2", e.begin("s-2", false).Turn)
	token, err := e.verifier().VerifyGrant(e.last().Grants["c1"], time.Now())
	zinotest.Must(t, err)
	zinotest.Equal(t, "token", values(token.Approval, token.Grant), " "+grants.Grants[0].ID)
	removed, err := rpc.Call(t.Context(), e.client(), proto.DaemonRevokeGrant, proto.RevokeGrant{ID: grants.Grants[0].ID[:4]})
	zinotest.Must(t, err)
	zinotest.Equal(t, "removed", values(len(removed.Grants), removed.Grants[0].Uses), "1 1")
	e.ended("s-3", e.begin("s-3", false).Turn)
	zinotest.Equal(t, "token", len(e.last().Grants), 0)
	_, err = rpc.Call(t.Context(), e.client(), proto.DaemonRevokeGrant, proto.RevokeGrant{ID: "g-"})
	zinotest.Equal(t, "code", codeOf(err), proto.CodeNotFound)
}

// TestForgedRequests checks that what agr alters is denied without a question.
func TestForgedRequests(t *testing.T) {
	for name, change := range map[string]func(*proto.ApprovalNeeded){
		"input":   func(n *proto.ApprovalNeeded) { n.Call.Input = []byte(`{"command":"ls"}`) },
		"tool":    func(n *proto.ApprovalNeeded) { n.Call.Tool = "read" },
		"root":    func(n *proto.ApprovalNeeded) { n.Call.Root = "/" },
		"cwd":     func(n *proto.ApprovalNeeded) { n.Call.Cwd = "/" },
		"sandbox": func(n *proto.ApprovalNeeded) { n.Call.Sandbox = proto.LevelWorkspaceWrite },
		"network": func(n *proto.ApprovalNeeded) { n.Call.Network = false },
		"files":   func(n *proto.ApprovalNeeded) { n.Call.Files = []string{"absent"} },
		"digest":  func(n *proto.ApprovalNeeded) { n.Digest = "sha256:0" },
		"kind":    func(n *proto.ApprovalNeeded) { n.Kind = "server" },
		"from":    func(n *proto.ApprovalNeeded) { n.Kind, n.From = proto.ApprovalEscalation, proto.LevelReadOnly },
	} {
		t.Run(name, func(t *testing.T) {
			e := newAskEnv(t)
			e.change = change
			e.ended("s-1", e.begin("s-1", true).Turn)
			p := e.last()
			if len(p.Grants) > 0 || !strings.Contains(string(p.Results["c1"]), `"code":"denied"`) {
				t.Errorf("proceed %+v", p)
			}
			list, err := e.service.asked.store.List("all", "")
			zinotest.Must(t, err)
			zinotest.Equal(t, "requests", len(list), 0)
		})
	}
}

// TestParkedForApproval checks that a turn is parked when no person answers, that a follower
// who comes later gets the request, and that the answer has the turn go on.
func TestParkedForApproval(t *testing.T) {
	for _, how := range []string{"once", "deny"} {
		t.Run(how, func(t *testing.T) {
			e := newAskEnv(t)
			e.service.asked.wait = time.Millisecond
			started := e.begin("s-1", true)
			a := e.pending("s-1")
			zinotest.Eventually(t, "the turn is parked", func() bool { return e.service.lot.size() == 1 && e.idle() })
			turn := e.read("s-1").Turn(started.Turn)
			zinotest.Equal(t, "parked", values(turn.State, turn.Reason, turn.Approval, turn.Until, turn.Pending), fmt.Sprint("parked approval ", a.ID, " ", a.Expires, " [c1]"))
			list, err := rpc.Call(t.Context(), e.client(), proto.DaemonTurns, proto.ListTurns{})
			zinotest.Must(t, err)
			zinotest.Equal(t, "activity", values(list.Turns[0].Activity, list.Turns[0].Until), "approval "+a.ID+" "+a.Expires)
			follower := e.dial()
			follower.Send(`{"type":"turn_follow","session_id":"s-1"}`)
			var seen []string
			for p := follower.Next(); p.Type != proto.TypeApprovalRequested && p.Type != "error"; p = follower.Next() {
				seen = append(seen, p.Type)
			}
			zinotest.Equal(t, "the packet before the request", seen[len(seen)-1], proto.TypeLive)
			_, err = e.answer(a, how, nil)
			zinotest.Must(t, err)
			zinotest.Equal(t, "end", e.ended("s-1", started.Turn).State, proto.TurnDone)
			zinotest.Equal(t, "action", e.requests.All()[1].Calls[0].Action, proto.ActionRun)
			if how == "once" {
				zinotest.Equal(t, "tokens", len(e.last().Grants), 1)
				e.hasState(a.ID, proto.ApprovalUsed)
			} else {
				zinotest.Equal(t, "results", len(e.last().Results), 1)
			}
			e.followed(follower)
		})
	}
}

func TestApprovalExpires(t *testing.T) {
	e := newAskEnv(t)
	e.cfg.Gate.Expires = "2s"
	e.service.asked.wait = time.Millisecond
	started := e.begin("s-1", true)
	a := e.pending("s-1")
	turn := e.ended("s-1", started.Turn)
	zinotest.Equal(t, "end", values(turn.State, turn.Reason), "interrupted approval expired")
	e.hasState(a.ID, proto.ApprovalExpired)
	_, err := e.answer(a, "once", nil)
	if err == nil || !strings.HasPrefix(err.Error(), a.ID+" expired at ") {
		t.Errorf("an answer behind it: %v", err)
	}
	zinotest.Equal(t, "runs", len(e.requests.All()), 1)
}

func TestEndOfTurnCancelsRequests(t *testing.T) {
	for _, parked := range []bool{false, true} {
		e := newAskEnv(t)
		if parked {
			e.service.asked.wait = time.Millisecond
		}
		started := e.begin("s-1", true)
		a := e.pending("s-1")
		if parked {
			zinotest.Eventually(t, "the turn is parked", func() bool { return e.service.lot.size() == 1 && e.idle() })
		}
		_, err := rpc.Call(t.Context(), e.client(), proto.DaemonTurnCancel, proto.TurnCancel{SessionID: "s-1", Turn: started.Turn})
		zinotest.Must(t, err)
		e.hasState(a.ID, proto.ApprovalCanceled)
		_, err = e.answer(a, "once", nil)
		zinotest.Equal(t, "an answer behind it", fmt.Sprint(err), a.ID+" was canceled: its turn has ended")
	}
}

// TestAnswerOfAnotherDaemon checks that an answer that another daemon of the user has got
// counts for a turn that waits, and for one that is parked.
func TestAnswerOfAnotherDaemon(t *testing.T) {
	for _, parked := range []bool{false, true} {
		e := newAskEnv(t)
		e.service.asked.poll = time.Millisecond
		if parked {
			e.service.asked.wait = time.Millisecond
		}
		cfg := *e.cfg
		cfg.Gate.Approvers = []string{"-1"} // a call without a peer
		other := New(&cfg, e.log.Logger())
		defer other.Close()
		started := e.begin("s-1", true)
		a := e.pending("s-1")
		if parked {
			zinotest.Eventually(t, "the turn is parked", func() bool { return e.service.lot.size() == 1 && e.idle() })
		}
		_, err := other.approve(t.Context(), proto.Approve{ID: a.ID, Digest: a.Digest, Answer: "deny"})
		zinotest.Must(t, err)
		zinotest.Equal(t, "end", e.ended("s-1", started.Turn).State, proto.TurnDone)
	}
}

// TestStopParksForApproval checks that a turn that waits for an answer is parked when the
// daemon stops, and goes on with the next daemon when the answer came in between.
func TestStopParksForApproval(t *testing.T) {
	e := newAskEnv(t)
	started := e.begin("s-1", true)
	a := e.pending("s-1")
	e.service.parkAll(t.Context())
	turn := e.read("s-1").Turn(started.Turn)
	zinotest.Equal(t, "parked", values(turn.State, turn.Reason, turn.Approval), "parked approval "+a.ID)
	_, err := e.answer(a, "once", nil)
	zinotest.Must(t, err)
	zinotest.Must(t, os.Remove(filepath.Join(e.cfg.Daemon.DataDir, gate.KeyName))) // and with a new key
	next := New(e.cfg, e.log.Logger())
	t.Cleanup(func() { zinotest.Must(t, next.Close()) })
	next.Resume()
	zinotest.Equal(t, "end", e.ended("s-1", started.Turn).State, proto.TurnDone)
	_, err = e.verifier().VerifyGrant(e.last().Grants["c1"], time.Now())
	zinotest.Must(t, err)
}

func TestApprovalIsNotStored(t *testing.T) {
	e := newAskEnv(t)
	zinotest.Must(t, os.Mkdir(filepath.Join(e.cfg.Daemon.DataDir, "approvals.jsonl"), 0o700))
	e.ended("s-1", e.begin("s-1", true).Turn)
	if result := string(e.last().Results["c1"]); !strings.Contains(result, `"code":"denied","message":"cannot store the approval: `) {
		t.Errorf("result %s", result)
	}
}

// TestNotify checks that the command of [gate] notify gets one line without the input, and
// that one that hangs holds up nothing.
func TestNotify(t *testing.T) {
	e := newAskEnv(t)
	out := filepath.Join(zinotest.Dir(t), "line")
	e.cfg.Gate.Notify = []any{"sh", "-c", "cat >" + out + ".new; mv " + out + ".new " + out + "; exec sleep 1000"}
	e.begin("s-1", true)
	a := e.pending("s-1")
	zinotest.Eventually(t, "the line", func() bool { _, err := os.Stat(out); return err == nil })
	zinotest.Equal(t, "line", zinotest.Read(t, out), a.ID+" bash s-1\n")
	_, err := e.answer(a, "once", nil)
	zinotest.Must(t, err)
}

// TestAgentAsks checks that the request of a sub-agent reaches the followers of its parent,
// and that the answer wakes both.
func TestAgentAsks(t *testing.T) {
	e := newAskEnv(t)
	e.service.asked.wait = time.Millisecond
	e.service.agentPause = time.Millisecond
	e.each = func(r *run) (proto.Text, error) {
		if r.SessionID != "s-1" {
			return e.play(r)
		}
		if len(r.Calls) == 0 {
			err := r.send(`{"type":"tool_requested","id":"a1","name":"task","input":{"skill":"agent","request":"install it","write":true}}`, `{"type":"usage","input_tokens":1,"output_tokens":1}`)
			if err == nil {
				_, err = r.at(1, proto.PointCalls, "a1")
			}
			if err != nil {
				return proto.Text{}, err
			}
		}
		p, err := r.at(1, proto.PointDelegate, "a1")
		if err != nil || p.Stop != "" {
			return proto.Text{StopReason: p.Stop}, err
		}
		if err := r.send(`{"type":"tool_finished","id":"a1","name":"task","ok":true,"result":` + string(p.Results["a1"]) + `,"duration_ms":1}`); err != nil {
			return proto.Text{}, err
		}
		if _, err := r.at(1, proto.PointInfer); err != nil {
			return proto.Text{}, err
		}
		r.FirstStep = 2
		return answer(r)
	}
	started := e.begin("s-1", true)
	follower := e.dial()
	follower.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	var a proto.Approval
	for p := follower.Next(); p.Type != ""; p = follower.Next() {
		if p.Type == proto.TypeApprovalRequested {
			zinotest.Must(t, json.Unmarshal([]byte(p.Raw), &a))
			break
		}
	}
	zinotest.Equal(t, "parent", values(a.Parent.SessionID, a.Parent.Turn, a.SessionID == "s-1"), "s-1 "+started.Turn+" false")
	zinotest.Eventually(t, "both are parked", func() bool { return e.service.lot.size() == 2 })
	turn := e.read("s-1").Turn(started.Turn)
	zinotest.Equal(t, "parked", values(turn.State, turn.Reason, turn.Approval), "parked approval "+a.ID)
	_, err := e.answer(a, "once", nil)
	zinotest.Must(t, err)
	zinotest.Equal(t, "end", e.ended("s-1", started.Turn).State, proto.TurnDone)
	e.hasState(a.ID, proto.ApprovalUsed)
	e.followed(follower)
}

// TestTwoAnswersAtOnce checks that one of several answers counts, and that the others are
// refused.
func TestTwoAnswersAtOnce(t *testing.T) {
	e := newAskEnv(t)
	started := e.begin("s-1", true)
	a := e.pending("s-1")
	errs := make(chan error, 4)
	ctx, cancel := context.WithTimeout(t.Context(), zinotest.Timeout)
	defer cancel()
	for i := range 4 {
		client := e.client()
		go func() {
			_, err := rpc.Call(ctx, client, proto.DaemonApprove, proto.Approve{ID: a.ID, Digest: a.Digest, Answer: []string{"once", "deny"}[i%2]})
			errs <- err
		}()
	}
	var failed []error
	for range 4 {
		if err := <-errs; err != nil {
			failed = append(failed, err)
		}
	}
	zinotest.Equal(t, "answers that came late", len(failed), 3)
	zinotest.Equal(t, "all are invalid", slices.ContainsFunc(failed, func(err error) bool { return codeOf(err) != proto.CodeInvalid }), false)
	zinotest.Equal(t, "end", e.ended("s-1", started.Turn).State, proto.TurnDone)
}

// TestServerToken checks that a server of the configuration gets its token without a
// question, and nothing else does.
func TestServerToken(t *testing.T) {
	const name = "pg"
	server := config.MCPServer{Command: []string{"pg-mcp", "--ro"}, Env: map[string]string{"LOG": "info"}, Secrets: map[string]string{"PG_PASSWORD": "pg"}, Cwd: "{root}", Sandbox: proto.LevelUnit}
	asked := func(argv []string, dir string) *proto.ApprovalNeeded {
		return &proto.ApprovalNeeded{
			Kind: proto.ApprovalServer, Digest: gate.ServerDefinition(argv, []string{"PG_PASSWORD", "LOG"}, dir), Reasons: []string{},
			Call: proto.AskedCall{Tool: "pipe", Input: proto.Raw(`{}`), Sandbox: proto.LevelUnit, Network: true, Files: []string{}},
		}
	}
	argv := server.Command
	for what, tt := range map[string]struct {
		needed *proto.ApprovalNeeded
		change func(*proto.ApprovalNeeded, *config.MCPServer)
		signed bool
	}{
		"it":              {asked(argv, "/r"), nil, true},
		"without network": {asked(argv, "/r"), func(n *proto.ApprovalNeeded, _ *config.MCPServer) { n.Call.Network = false }, true},
		"another program": {asked([]string{"sh", "-c", "id"}, "/r"), nil, false},
		"another root":    {asked(argv, "/"), nil, false},
		"a weaker level":  {asked(argv, "/r"), func(n *proto.ApprovalNeeded, _ *config.MCPServer) { n.Call.Sandbox = proto.LevelOff }, false},
		"more network":    {asked(argv, "/r"), func(_ *proto.ApprovalNeeded, s *config.MCPServer) { s.Network = new(false) }, false},
		"disabled":        {asked(argv, "/r"), func(_ *proto.ApprovalNeeded, s *config.MCPServer) { s.Enabled = new(false) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			e := newAskEnv(t)
			own := server
			if tt.change != nil {
				tt.change(tt.needed, &own)
			}
			e.cfg.MCP.Servers = map[string]config.MCPServer{name: own}
			e.change = func(n *proto.ApprovalNeeded) { *n = *tt.needed }
			e.ended("s-1", e.begin("s-1", false).Turn)
			p := e.last()
			token, err := e.verifier().VerifyServer(p.Grants["c1"], time.Now())
			if !tt.signed {
				if len(p.Grants) > 0 || !strings.Contains(string(p.Results["c1"]), `"code":"denied"`) {
					t.Errorf("proceed %+v", p)
				}
				return
			}
			zinotest.Must(t, err)
			zinotest.Equal(t, "token", values(token.Definition, token.Sandbox, token.Network), values(tt.needed.Digest, proto.LevelUnit, true))
		})
	}
}
