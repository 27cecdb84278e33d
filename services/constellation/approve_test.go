package constellation_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

func callOf(t *testing.T, name string, input any) fakellm.Call {
	args, err := json.Marshal(input)
	zinotest.Must(t, err)
	return fakellm.Call{Name: name, Args: string(args)}
}

func bash(t *testing.T, command string) fakellm.Call {
	return callOf(t, "bash", map[string]any{"command": command})
}

// approval waits for the request of a call.
func (e *agentsEnv) approval() (a proto.Approval) {
	e.t.Helper()
	zinotest.Eventually(e.t, "a request for an approval", func() bool {
		list, err := rpc.Call(e.t.Context(), e.daemon, proto.DaemonApprovals, proto.ListApprovals{})
		zinotest.Must(e.t, err)
		if len(list.Approvals) > 0 {
			a = list.Approvals[0]
		}
		return len(list.Approvals) > 0
	})
	return a
}

func (e *agentsEnv) answer(a proto.Approval, req proto.Approve) {
	e.t.Helper()
	req.ID, req.Digest = a.ID, a.Digest
	_, err := rpc.Call(e.t.Context(), e.daemon, proto.DaemonApprove, req)
	zinotest.Must(e.t, err)
}

// outputs returns the results of the session's calls.
func (e *agentsEnv) outputs() (all []string) {
	for _, r := range e.log("parent", proto.TypeToolResult) {
		all = append(all, string(r.Output))
	}
	return all
}

func (e *agentsEnv) has(name string) bool {
	_, err := os.Stat(filepath.Join(e.root, name))
	return err == nil
}

// TestApprovedCalls has the real agr and exc carry out calls that a person allows once, that a
// grant allows, and that a person denies.
func TestApprovedCalls(t *testing.T) {
	e := newAgents(t, func(*config.Config) {},
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{
			callOf(t, "write", map[string]any{"path": "a.txt", "content": "hello\n"}),
			bash(t, "touch made"), bash(t, "touch other"), bash(t, "rm made"), callOf(t, "read", map[string]any{"path": "a.txt"}),
		}},
		fakellm.Turn{Text: "Done."})
	e.begin(proto.TurnStart{Mode: "ask", Reachable: true})
	a := e.approval()
	zinotest.Equal(t, "the first request", fmt.Sprint(a.Call.Tool, " ", a.Call.Sandbox, " ", a.Grantable, e.has("a.txt")), "write off alwaysfalse")
	zinotest.Contains(t, "diff", a.Preview.Diff, "+hello")
	e.answer(a, proto.Approve{Answer: "once"})
	a = e.approval()
	zinotest.Equal(t, "the second request", strings.Join(a.Preview.Commands, ";"), "touch made")
	e.answer(a, proto.Approve{Answer: "always", Pattern: "touch *"})
	a = e.approval()
	zinotest.Equal(t, "the third request", strings.Join(a.Preview.Commands, ";"), "rm made")
	e.answer(a, proto.Approve{Answer: "deny", Note: "keep it"})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	results := e.outputs()
	zinotest.Equal(t, "results", len(results), 5)
	for i, ok := range []bool{true, true, true, false, true} {
		if strings.HasPrefix(results[i], `{"ok":true`) != ok {
			t.Errorf("result %d: %s", i, results[i])
		}
	}
	zinotest.Contains(t, "denial", results[3], `"code":"denied"`, "denied this call: keep it")
	zinotest.Contains(t, "what the model reads", string(e.provider.Requests()[1].Body), "denied this call: keep it")
	zinotest.Equal(t, "files", fmt.Sprint(e.has("a.txt"), e.has("made"), e.has("other")), "true true true")
	list, err := rpc.Call(t.Context(), e.daemon, proto.DaemonApprovals, proto.ListApprovals{State: "all"})
	zinotest.Must(t, err)
	var states []string
	for _, a := range list.Approvals {
		states = append(states, a.State)
	}
	zinotest.Equal(t, "states", strings.Join(states, " "), "used used denied")
	grants, err := rpc.Call(t.Context(), e.daemon, proto.DaemonGrants, proto.ListGrants{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "grants", fmt.Sprint(len(grants.Grants), grants.Grants[0].Uses), "1 1")
}

// TestApprovalOfAChangedFile checks that a file that changed between approval and run is not
// overwritten, and that the request is stale.
func TestApprovalOfAChangedFile(t *testing.T) {
	e := newAgents(t, func(*config.Config) {},
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{callOf(t, "edit", map[string]any{"path": "a.txt", "old": "one", "new": "two"})}},
		fakellm.Turn{Text: "Done."})
	zinotest.Write(t, filepath.Join(e.root, "a.txt"), "one\n")
	e.begin(proto.TurnStart{Mode: "ask", Reachable: true})
	a := e.approval()
	zinotest.Contains(t, "diff", a.Preview.Diff, "-one", "+two")
	zinotest.Write(t, filepath.Join(e.root, "a.txt"), "one more\n")
	e.answer(a, proto.Approve{Answer: "once"})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Contains(t, "result", e.outputs()[0], "the approval does not fit: digest")
	zinotest.Equal(t, "file", zinotest.Read(t, filepath.Join(e.root, "a.txt")), "one more\n")
	zinotest.Eventually(t, "the request is stale", func() bool {
		list, err := rpc.Call(t.Context(), e.daemon, proto.DaemonApprovals, proto.ListApprovals{State: proto.ApprovalStale})
		return err == nil && len(list.Approvals) == 1
	})
}

// TestApprovalAfterRestart stops the services while a call waits, and answers when they run
// again, or in between.
func TestApprovalAfterRestart(t *testing.T) {
	for _, how := range []string{"once", "deny"} {
		t.Run(how, func(t *testing.T) {
			e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "echo x >>made")}}, fakellm.Turn{Text: "Done."})
			e.begin(proto.TurnStart{Mode: "ask", Reachable: true})
			a := e.approval()
			e.stop()
			e.start()
			zinotest.Eventually(t, "the turn is parked", func() bool {
				turns := e.turns(proto.ListTurns{SessionID: "parent"})
				return len(turns) == 1 && turns[0].State == proto.TurnParked && turns[0].Activity == "approval "+a.ID
			})
			e.answer(a, proto.Approve{Answer: how})
			zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
			zinotest.Equal(t, "made", e.has("made"), how == "once")
			if how == "once" {
				zinotest.Equal(t, "runs", zinotest.Read(t, filepath.Join(e.root, "made")), "x\n")
			}
			zinotest.Equal(t, "requests of the model", len(e.provider.Requests()), 2)
		})
	}
}

// TestHeadlessApprovals checks what a turn that reaches no person may do.
func TestHeadlessApprovals(t *testing.T) {
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch made")}}, fakellm.Turn{Text: "Done."})
	e.begin(proto.TurnStart{Mode: "ask"})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "result", e.outputs()[0], `{"ok":false,"error":{"code":"denied","message":"Not allowed without a person: bash at sandbox level off."}}`)
	zinotest.Equal(t, "made", e.has("made"), false)
}
