package agr

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// approvalOf is the error of a service for a call that must be asked.
func approvalOf(tool string, input proto.Raw) error {
	details, err := json.Marshal(proto.ApprovalNeeded{
		Kind: "call", Call: proto.AskedCall{Tool: tool, Input: input, Sandbox: "off", Network: true, Files: []string{}}, Digest: "sha256:" + tool,
		Reasons: []string{"mode ask"}, Grantable: "always",
	})
	if err != nil {
		return err
	}
	return &proto.Error{Code: proto.CodeApproval, Message: tool + " needs an approval", Details: string(details)}
}

// asksAPerson has exc ask about all calls without a grant, and refuse those with a grant
// other than "yes".
func (x *executor) asksAPerson() {
	x.onCall(func(_ context.Context, req proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		switch req.Grant {
		case "":
			return proto.CallResult{}, approvalOf(req.Tool, req.Input)
		case "yes":
			return proto.CallResult{Result: said("ran " + req.Key + " " + req.Token)}, nil
		case "again":
			return proto.CallResult{}, approvalOf(req.Tool, req.Input)
		}
		return proto.CallResult{Result: proto.Raw(failedWith("denied", "the approval does not fit: digest"))}, nil
	})
	x.onRun(func(_ context.Context, req proto.Execute) (proto.Result, error) {
		if req.Grant != "yes" {
			return proto.Result{}, approvalOf("execute_bash", proto.Raw(`{"code":"x"}`))
		}
		return proto.Result{Stdout: req.Key}, nil
	})
}

// delegated is a call of a skill, whose code is asked about.
func delegated(id string) string { return native(id, "task", `{"skill":"snake","request":"look"}`) }

// TestApproval checks what the answers to the checkpoint approval do.
func TestApproval(t *testing.T) {
	t.Parallel()
	const noPerson = `{"ok":false,"error":{"code":"denied","message":"Not allowed without a person: bash at sandbox level off."}}`
	for name, tt := range map[string]struct {
		call, answer, want string
	}{
		"granted":            {native("a", "bash", `{"command":"x"}`), `,"grants":{"a":"yes"},"token":"new"`, string(said("ran s-1/t-1/1/a new"))},
		"a read":             {native("a", "read", `{"path":"x"}`), `,"grants":{"a":"yes"}`, string(said("ran s-1/t-1/1/a "))},
		"code":               {nativeBash("a", "x"), `,"grants":{"a":"yes"}`, ran("s-1/t-1/1/a")},
		"code of a skill":    {delegated("a"), `,"grants":{"a":"yes"}`, ran("s-1/t-1/1/a")},
		"a skill denied":     {delegated("a"), `,"results":{"a":` + failedWith("denied", "no") + `}`, failedWith("denied", "no")},
		"denied":             {native("a", "bash", `{"command":"x"}`), `,"results":{"a":` + failedWith("denied", "ann denied this call: later") + `}`, failedWith("denied", "ann denied this call: later")},
		"a grant of another": {native("a", "bash", `{"command":"x"}`), `,"grants":{"b":"yes"}`, noPerson},
		"not an envelope":    {native("a", "bash", `{"command":"x"}`), `,"results":{"a":7}`, noPerson},
		"no answer":          {native("a", "bash", `{"command":"x"}`), "", noPerson},
		"a stale grant":      {native("a", "bash", `{"command":"x"}`), `,"grants":{"a":"old"}`, failedWith("denied", "the approval does not fit: digest")},
		"asked twice":        {native("a", "bash", `{"command":"x"}`), `,"grants":{"a":"again"}`, failedWith("denied", "the approval does not fit: digest")},
	} {
		t.Run(name, func(t *testing.T) {
			script := []reply{asks("", tt.call), says("Done.")}
			if strings.Contains(tt.call, "task") {
				script = slices.Insert(script, 1, says("restated"), says("code"))
			}
			e := newEnv(t, script...)
			e.exc.asksAPerson()
			f := e.follow(question, "")
			_, at := f.until()
			f.ok(at, "")
			packets, at := f.until()
			if at.Point != proto.PointApproval || !slices.Equal(at.Batch, []string{"a"}) || at.Step != 1 || at.Needed == nil || at.Needed.Reasons[0] != "mode ask" {
				t.Fatalf("checkpoint %s", packets[len(packets)-1])
			}
			f.ok(at, tt.answer)
			zinotest.Contains(t, "terminal packet", f.finish(), `"full_text":"Done."`)
			if got := toolResults(t, e.rtr.asked()[len(script)-1]); len(got) != 1 || got[0] != tt.want {
				t.Errorf("the model sees %q, want %s", got, tt.want)
			}
		})
	}
}

// TestApprovalsSideBySide: of calls that run side by side one asks after the other, each
// once.
func TestApprovalsSideBySide(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "read", `{"path":"1"}`), native("b", "read", `{"path":"2"}`), native("c", "read", `{"path":"3"}`)), says("Done."))
	e.exc.asksAPerson()
	f := e.follow(question, "")
	_, at := f.until()
	f.ok(at, "")
	var asked []string
	for {
		_, at := f.until()
		if at.Point != proto.PointApproval {
			f.ok(at, "")
			break
		}
		asked = append(asked, at.Batch...)
		f.ok(at, `,"grants":{"`+at.Batch[0]+`":"yes"}`)
	}
	slices.Sort(asked)
	zinotest.Equal(t, "asked", strings.Join(asked, " "), "a b c")
	f.finish()
	for i, got := range toolResults(t, e.rtr.asked()[1]) {
		zinotest.Equal(t, "result", got, string(said("ran s-1/t-1/1/"+string(rune('a'+i))+" ")))
	}
}

// TestApprovalParks: without an answer in time the run ends. The call, and those that wait
// with it or behind it, have no result.
func TestApprovalParks(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "read", `{"path":"1"}`), native("b", "read", `{"path":"2"}`), native("c", "bash", `{"command":"x"}`)))
	e.exc.asksAPerson()
	f := e.follow(question, "")
	_, at := f.until()
	f.ok(at, "")
	_, at = f.until()
	zinotest.Equal(t, "point", at.Point, proto.PointApproval)
	f.ok(at, `,"stop":"parked"`)
	packets, at := f.until()
	zinotest.Equal(t, "the next checkpoint", at.Point, "")
	zinotest.Equal(t, "terminal packet", packets[len(packets)-1], `{"type":"done","full_text":"","iterations":1,"stop_reason":"parked"}`)
	for _, p := range packets {
		if strings.Contains(p, proto.TypeToolFinished) {
			t.Errorf("a result: %s", p)
		}
	}
	zinotest.Equal(t, "calls of exc", len(e.exc.called()), 2)
}

// TestApprovalResumed: a call that was parked at its question is carried out after the
// turn is resumed, with the grant that the caller has meanwhile.
func TestApprovalResumed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, says("Done."))
	e.exc.asksAPerson()
	for _, action := range []string{proto.ActionRun, proto.ActionRecover} {
		f := e.follow(`[{"role":"user","content":"hi"},`+calling("", "", native("a", "bash", `{"command":"x"}`))+"]",
			`,"first_step":5,"calls":[{"id":"a","name":"bash","input":{"command":"x"},"step":4,"action":"`+action+`"}]`)
		e.rtr.script = []reply{says("Done.")}
		for {
			_, at := f.until()
			if at.Point == "" {
				break
			}
			more := ""
			if at.Point == proto.PointApproval {
				more = `,"grants":{"a":"yes"}`
			}
			f.ok(at, more)
		}
		last := e.exc.called()[len(e.exc.called())-1]
		if last.Grant != "yes" || last.Key != "s-1/t-1/4/a" {
			t.Errorf("%s: the last call is %+v", action, last)
		}
	}
}

// signedEnv returns an agent whose turns have a token for a mode, and the fields of it.
func signedEnv(t *testing.T, mode gate.Mode, script ...reply) (e *env, signer *gate.Signer, more string) {
	t.Helper()
	data := zinotest.Dir(t)
	e = startEnv(t, func(cfg *config.Config) {
		cfg.Daemon.DataDir, cfg.Daemon.Socket = data, filepath.Join(data, "daemon.sock")
	}, script...)
	signer, err := gate.OpenSigner(data, "")
	zinotest.Must(t, err)
	token, err := signer.Sign(gate.Turn{Session: "s-1", Turn: "t-1", Mode: mode, By: 1, Reachable: true}, time.Now())
	zinotest.Must(t, err)
	return e, signer, `,"agents":true,"token":"` + token + `"`
}

// sign signs the token of an approval.
func signNeeded(t *testing.T, signer *gate.Signer, at proto.Checkpoint, key string) string {
	t.Helper()
	token, err := signer.SignGrant(gate.GrantToken{Approval: "ap-1", Key: key, Digest: at.Needed.Digest, Sandbox: at.Needed.Call.Sandbox, Network: at.Needed.Call.Network}, time.Now())
	zinotest.Must(t, err)
	return token
}

// TestOwnToolsAsk: agr asks about its own tools as exc does about its own, before they
// count as started.
func TestOwnToolsAsk(t *testing.T) {
	t.Parallel()
	e, signer, more := signedEnv(t, gate.Asks,
		asks("", native("a", "remember", `{"text":"x"}`), agentCall("b", "one"), agentCall("c", "two"), native("d", "recall", `{"query":"x"}`)), says("Done."))
	e.withMemory()
	f := e.follow(question, more)
	var points []string
	for {
		packets, at := f.until()
		if at.Point == "" {
			break
		}
		points = append(points, at.Point+" "+strings.Join(at.Batch, " "))
		switch {
		case at.Point == proto.PointApproval && at.Batch[0] == "c":
			f.ok(at, `,"results":{"c":`+failedWith("denied", "no")+`}`)
		case at.Point == proto.PointApproval:
			for _, p := range packets {
				if strings.Contains(p, `"tool_started","id":"`+at.Batch[0]) {
					t.Errorf("started before it is allowed: %s", p)
				}
			}
			f.ok(at, `,"grants":{"`+at.Batch[0]+`":"`+signNeeded(t, signer, at, "s-1/t-1/1/"+at.Batch[0])+`"}`)
		case at.Point == proto.PointDelegate:
			f.ok(at, `,"results":{"b":{"ok":true,"data":{"text":"found"}}}`)
		default:
			f.ok(at, "")
		}
	}
	zinotest.Equal(t, "checkpoints", strings.Join(points, "; "), "calls a; approval a; calls b c; approval b; approval c; delegate b; calls d; infer ; end ")
	got := toolResults(t, e.rtr.asked()[1])
	if len(got) != 4 || !succeeded(proto.Raw(got[0])) || got[1] != `{"ok":true,"data":{"text":"found"}}` || got[2] != failedWith("denied", "no") || !succeeded(proto.Raw(got[3])) {
		t.Errorf("the model sees %q", got)
	}
	zinotest.Equal(t, "memories", len(e.mem.kept()), 1)
}

// TestOwnToolsDenied: a grant for another call, and the mode plan, allow nothing.
func TestOwnToolsDenied(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mode gate.Mode
		key  string
		want string
	}{
		"another call's grant": {gate.Asks, "s-1/t-1/1/b", failedWith("denied", "the approval does not fit: key")},
		"mode plan":            {gate.Plan, "", failedWith("denied", "denied: plan mode changes nothing; describe the change instead")},
	} {
		t.Run(name, func(t *testing.T) {
			e, signer, more := signedEnv(t, tt.mode, asks("", native("a", "remember", `{"text":"x"}`)), says("Done."))
			e.withMemory()
			f := e.follow(question, more)
			for {
				_, at := f.until()
				if at.Point == "" {
					break
				}
				grant := ""
				if at.Point == proto.PointApproval {
					grant = `,"grants":{"a":"` + signNeeded(t, signer, at, tt.key) + `"}`
				}
				f.ok(at, grant)
			}
			if got := toolResults(t, e.rtr.asked()[1]); got[0] != tt.want {
				t.Errorf("the model sees %q, want %s", got, tt.want)
			}
			zinotest.Equal(t, "memories", len(e.mem.kept()), 0)
		})
	}
}

// TestPageEvalAsks: code for a page is sent with the key and the grant.
func TestPageEvalAsks(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "page_eval", `{"page":"shop","code":"1"}`)), says("Done."))
	p, _ := e.withPages()
	p.onEval(func(_ context.Context, req proto.Eval) (proto.Evaluated, error) {
		if req.Grant == "" {
			return proto.Evaluated{}, approvalOf("page_eval", proto.Raw(`{}`))
		}
		return proto.Evaluated{OK: true, Kind: "json", Value: new("25"), Background: []proto.PageEvent{}}, nil
	})
	f := e.follow(question, "")
	_, at := f.until()
	f.ok(at, "")
	_, at = f.until()
	zinotest.Equal(t, "point", at.Point, proto.PointApproval)
	f.ok(at, `,"grants":{"a":"yes"}`)
	f.finish()
	last := p.asked()[len(p.asked())-1]
	if last.Grant != "yes" || last.Key != "s-1/t-1/1/a" {
		t.Errorf("asked for %+v", last)
	}
}
