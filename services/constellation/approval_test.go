package constellation_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// answering follows the turn until its end and answers each request with answer. It returns
// the requests.
func (e *agentsEnv) answering(answer func(proto.Approval) proto.Approve) (asked []proto.Approval, end proto.Followed) {
	e.t.Helper()
	end, err := rpc.CallEvents(e.t.Context(), e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "parent"}, func(typ string, payload []byte) error {
		if typ != proto.TypeApprovalRequested {
			return nil
		}
		var a proto.Approval
		if err := json.Unmarshal(payload, &a); err != nil {
			return err
		}
		asked = append(asked, a)
		req := answer(a)
		req.ID, req.Digest = a.ID, a.Digest
		_, err := rpc.Call(e.t.Context(), e.daemon, proto.DaemonApprove, req)
		return err
	})
	zinotest.Must(e.t, err)
	return asked, end
}

func llmCall(t *testing.T, name string, input any) fakellm.Call {
	t.Helper()
	args, err := json.Marshal(input)
	zinotest.Must(t, err)
	return fakellm.Call{Name: name, Args: string(args)}
}

// TestApprovals has a person answer what a turn in mode ask asks: each call that is approved
// is carried out once, and the others are not.
func TestApprovals(t *testing.T) {
	outside := filepath.Join(zinotest.Dir(t), "out")
	zinotest.Write(t, outside, "one\n")
	e := newAgents(t, func(*config.Config) {},
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{
			llmCall(t, "read", map[string]any{"path": "a"}),
			llmCall(t, "read", map[string]any{"path": outside}),
			llmCall(t, "write", map[string]any{"path": "b", "content": "new\n"}),
			llmCall(t, "edit", map[string]any{"path": "a", "old": "first", "new": "second"}),
			llmCall(t, "bash", map[string]any{"command": "echo x >>log"}),
			llmCall(t, "bash", map[string]any{"command": "echo y >>log"}),
			llmCall(t, "execute_bash", map[string]any{"code": "echo z >>log"}),
			llmCall(t, "task", map[string]any{"skill": "agent", "request": "look around"}),
		}},
		fakellm.Turn{Match: "look around", Text: "Found."},
		fakellm.Turn{Text: "Done."})
	zinotest.Write(t, filepath.Join(e.root, "a"), "first\n")
	e.begin(proto.TurnStart{Mode: "ask", Reachable: true})
	asked, end := e.answering(func(a proto.Approval) proto.Approve {
		if strings.Contains(string(a.Call.Input), "echo y") {
			return proto.Approve{Answer: proto.AnswerDeny, Note: "not y"}
		}
		return proto.Approve{Answer: proto.AnswerOnce}
	})
	zinotest.Equal(t, "state", end.State, proto.TurnDone)
	var tools []string
	for _, a := range asked {
		tools = append(tools, a.Call.Tool)
		if a.Call.Tool == "edit" {
			zinotest.Contains(t, "what a person is shown", a.Preview.Diff, "-first\n+second\n")
		}
	}
	zinotest.Equal(t, "asked about", strings.Join(tools, " "), "read write edit bash bash execute_bash task")
	zinotest.Equal(t, "the log", zinotest.Read(t, filepath.Join(e.root, "log")), "x\nz\n")
	zinotest.Equal(t, "the file", zinotest.Read(t, filepath.Join(e.root, "a")), "second\n")
	var failed []string
	results := e.log("parent", proto.TypeToolResult)
	for _, r := range results {
		if !strings.HasPrefix(string(r.Output), `{"ok":true`) {
			failed = append(failed, string(r.Output))
		}
	}
	zinotest.Equal(t, "results", len(results), 8)
	if len(failed) != 1 || !strings.Contains(failed[0], "denied this call: not y") {
		t.Errorf("failed: %s", failed)
	}
}

// TestEscalation: a commit fails in the sandbox, the model asks to leave it, a person allows
// that, and the commit is made.
func TestEscalation(t *testing.T) {
	const commit = "git -c user.email=a@b -c user.name=a commit -q --allow-empty -m x"
	e := newAgents(t, func(*config.Config) {},
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{llmCall(t, "bash", map[string]any{"command": commit})}},
		fakellm.Turn{Match: "because of the sandbox (workspace-write, no network)", Calls: []fakellm.Call{llmCall(t, "bash", map[string]any{"command": commit, "escalate": "git commit writes to .git"})}},
		fakellm.Turn{Text: "Done."})
	caps, err := rpc.Call(t.Context(), rpctest.Client(t, "exc", e.cfg.Exc.Socket), proto.ExcCapabilities, proto.CapabilitiesRequest{})
	zinotest.Must(t, err)
	zinotest.Must(t, exec.Command("git", "init", "-q", e.root).Run())
	e.begin(proto.TurnStart{Mode: "auto", Reachable: true, Sandbox: proto.LevelWorkspaceWrite})
	asked, end := e.answering(func(proto.Approval) proto.Approve { return proto.Approve{Answer: proto.AnswerOnce} })
	zinotest.Equal(t, "state", end.State, proto.TurnDone)
	if !slices.Contains(caps.Sandboxes, proto.LevelWorkspaceWrite) {
		zinotest.Equal(t, "questions where no sandbox is available", len(asked), 0)
		return
	}
	if len(asked) != 1 || asked[0].Kind != proto.ApprovalEscalation || asked[0].From != proto.LevelWorkspaceWrite || asked[0].Call.Sandbox != proto.LevelOff || asked[0].Grantable != proto.AnswerOnce {
		t.Fatalf("asked %+v", asked)
	}
	out, err := exec.Command("git", "-C", e.root, "rev-list", "--count", "--all").Output()
	zinotest.Must(t, err)
	zinotest.Equal(t, "commits", strings.TrimSpace(string(out)), "1")
}
