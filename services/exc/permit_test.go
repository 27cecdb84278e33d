package exc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// guarded is exc with a guard, and the key of its daemon.
type guarded struct {
	*rpc.Client
	signer  *gate.Signer
	service *service
	root    string
}

func newGuarded(t *testing.T, set func(*config.Config)) *guarded {
	t.Helper()
	t.Setenv("ZINO_HOME", zinotest.Dir(t))
	cfg := config.Default()
	cfg.Daemon.Socket, cfg.Daemon.DataDir = filepath.Join(zinotest.Dir(t), "daemon.sock"), zinotest.Dir(t)
	if set != nil {
		set(cfg)
	}
	signer, err := gate.OpenSigner(cfg.Daemon.DataDir, gate.PublicPath(cfg.Daemon.Socket))
	zinotest.Must(t, err)
	s := newService(t, func(exc *config.Exc) { exc.Sandbox = cfg.Exc.Sandbox }, nil)
	s.guard = gate.NewGuard(cfg)
	return &guarded{s.dial(t), signer, s, zinotest.Dir(t)}
}

// sign returns a token for the turn t-1 of the session s1.
func (g *guarded) sign(t *testing.T, mode gate.Mode, change func(*gate.Turn)) string {
	t.Helper()
	turn := gate.Turn{Session: "s1", Turn: "t-1", Mode: mode, By: os.Geteuid(), Root: g.root}
	if change != nil {
		change(&turn)
	}
	token, err := g.signer.Sign(turn, time.Now())
	zinotest.Must(t, err)
	return token
}

// try makes a call and returns "ran", or the code and the message of its denial.
func (g *guarded) try(t *testing.T, req proto.Call) string {
	t.Helper()
	if req.SessionID == "" {
		req.SessionID, req.Turn = "s1", "t-1"
	}
	req.Root = g.root + req.Root
	got, err := rpc.CallEvents(context.Background(), g.Client, proto.ExcCall, req, func(string, []byte) error { return nil })
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return fmt.Sprintf("error %s: %s", e.Code, e.Message)
	}
	zinotest.Must(t, err)
	var r result
	zinotest.Must(t, json.Unmarshal(got.Result, &r))
	if !r.OK {
		return r.Error.Code + ": " + r.Error.Message
	}
	return "ran"
}

func bash(command, token string) proto.Call {
	return proto.Call{Tool: toolBash, Input: proto.Raw(fmt.Sprintf(`{"command":%q}`, command)), Token: token}
}

// TestForgedAgr: an agr that alters what the daemon has signed gets nothing carried out.
func TestForgedAgr(t *testing.T) {
	g := newGuarded(t, func(cfg *config.Config) { cfg.Gate.RequireToken = true })
	plan := g.sign(t, gate.Plan, nil)
	yolo := g.sign(t, gate.Yolo, nil)
	confined := g.sign(t, gate.Yolo, func(turn *gate.Turn) { turn.Sandbox, turn.Network = proto.LevelWorkspaceWrite, new(false) })
	zinotest.Equal(t, "a call with its token", g.try(t, bash("true", yolo)), "ran")
	with := func(token string, change func(*proto.Call)) proto.Call {
		c := bash("touch forged", token)
		change(&c)
		return c
	}
	other, err := gate.OpenSigner(zinotest.Dir(t), filepath.Join(zinotest.Dir(t), "gate.pub"))
	zinotest.Must(t, err)
	foreign, err := other.Sign(gate.Turn{Session: "s1", Turn: "t-1", Mode: gate.Yolo, Root: g.root}, time.Now())
	zinotest.Must(t, err)
	expired, err := g.signer.Sign(gate.Turn{Session: "s1", Turn: "t-1", Mode: gate.Yolo, Root: g.root}, time.Now().Add(-gate.Life))
	zinotest.Must(t, err)
	payload, signature, _ := strings.Cut(plan, ".")
	yoloPayload, _, _ := strings.Cut(yolo, ".")
	for _, tt := range []struct {
		name string
		call proto.Call
		want string
	}{
		{"no token", bash("touch forged", ""), "error denied: the call has no token of a turn"},
		{"another mode", bash("touch forged", yoloPayload+"."+signature), "error denied: the token of the turn is refused: the signature"},
		{"a changed byte", bash("touch forged", payload[:20]+"x"+payload[21:]+"."+signature), "error denied: the token of the turn is refused:"},
		{"a key of its own", bash("touch forged", foreign), "error denied: the token of the turn is refused: the signature"},
		{"expired", bash("touch forged", expired), "error denied: the token of the turn is refused: it expired at "},
		{"another turn's", with(yolo, func(c *proto.Call) { c.SessionID, c.Turn = "s1", "t-2" }), "error denied: the token of the turn does not fit: turn"},
		{"another session's", with(yolo, func(c *proto.Call) { c.SessionID, c.Turn = "s2", "t-1" }), "error denied: the token of the turn does not fit: session"},
		{"by its key another turn's", with(yolo, func(c *proto.Call) { c.SessionID, c.Turn, c.Key = "s1", "t-2", "s1/t-2/1/c1" }), "error denied: the token of the turn does not fit: turn"},
		{"another root", with(yolo, func(c *proto.Call) { c.Root = "/.." }), "error denied: the token of the turn does not fit: root"},
		{"the level off", with(confined, func(c *proto.Call) { c.Sandbox = proto.LevelOff }), "error denied: the token of the turn does not fit: sandbox"},
		{"no level", with(confined, func(*proto.Call) {}), "error denied: the token of the turn does not fit: sandbox"},
		{"another level", with(confined, func(c *proto.Call) { c.Sandbox = proto.LevelUnit }), "error denied: the token of the turn does not fit: sandbox"},
		{"network", with(confined, func(c *proto.Call) { c.Sandbox, c.Network = proto.LevelWorkspaceWrite, new(true) }), "error denied: the token of the turn does not fit: network"},
		{"a command in mode plan", bash("touch forged", plan), "denied: denied: plan mode changes nothing; describe the change instead"},
	} {
		if got := g.try(t, tt.call); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	ask := g.sign(t, gate.Asks, func(turn *gate.Turn) { turn.Reachable = true })
	granted := func(signer *gate.Signer, n *proto.ApprovalNeeded, change func(*gate.GrantToken)) func(*proto.Call) {
		return func(c *proto.Call) {
			token := gate.GrantToken{Approval: "ap-1", Key: "s1/t-1/1/c1", Digest: n.Digest, Sandbox: n.Call.Sandbox, Network: n.Call.Network}
			change(&token)
			c.Key = "s1/t-1/1/c1"
			var err error
			c.Grant, err = signer.SignGrant(token, time.Now())
			zinotest.Must(t, err)
		}
	}
	same := func(*gate.GrantToken) {}
	harmless, wanted := g.needed(t, bash("true", ask)), g.needed(t, bash("touch forged", ask))
	for _, tt := range []struct {
		name string
		call proto.Call
		want string
	}{
		{"no approval", bash("touch forged", ask), "error approval: bash needs an approval"},
		{"the approval of a harmless call", with(ask, granted(g.signer, harmless, same)), "denied: the approval does not fit: digest"},
		{"an approval of its own", with(ask, granted(other, wanted, same)), "denied: the approval does not fit: signature"},
		{"an approval with another digest in it", with(ask, granted(other, harmless, func(token *gate.GrantToken) { token.Digest = wanted.Digest })), "denied: the approval does not fit: signature"},
		{"the turn's token as an approval", with(ask, func(c *proto.Call) { c.Key, c.Grant = "s1/t-1/1/c1", yolo }), "denied: the approval does not fit: signature"},
		{"an approval in mode plan", with(plan, granted(g.signer, wanted, same)), "denied: denied: plan mode changes nothing; describe the change instead"},
		{"an approval and no token", with("", granted(g.signer, wanted, same)), "error denied: the call has no token of a turn"},
		{"another level with an approval", with(confined, func(c *proto.Call) { granted(g.signer, wanted, same)(c); c.Sandbox = proto.LevelOff }), "error denied: the token of the turn does not fit: sandbox"},
	} {
		if got := g.try(t, tt.call); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	code := proto.Execute{Executor: "bash", Code: "touch forged", Root: g.root, SessionID: "s1", Turn: "t-1"}
	for name, token := range map[string]string{"no token": "", "mode plan": plan, "another's": g.sign(t, gate.Yolo, func(turn *gate.Turn) { turn.Turn = "t-9" })} {
		code.Token = token
		if _, err := rpc.Call(context.Background(), g.Client, proto.ExcExecute, code); !errors.Is(err, proto.ErrDenied) {
			t.Errorf("execute with %s: %v", name, err)
		}
	}
	if exists(filepath.Join(g.root, "forged")) {
		t.Error("a command was run")
	}
}

// TestModesOfCalls checks the table of modes at the level off.
func TestModesOfCalls(t *testing.T) {
	g := newGuarded(t, nil)
	outside := zinotest.Dir(t)
	zinotest.Write(t, filepath.Join(g.root, "a"), "text")
	zinotest.Write(t, filepath.Join(outside, "b"), "text")
	zinotest.Must(t, os.Symlink(outside, filepath.Join(g.root, "link")))
	file := func(tool, path string) proto.Call {
		more := map[string]string{"write": `,"content":"x"`, "edit": `,"old":"text","new":"text2"`}[tool]
		return proto.Call{Tool: tool, Input: proto.Raw(fmt.Sprintf(`{"path":%q%s}`, path, more))}
	}
	const plan = "denied: denied: plan mode changes nothing; describe the change instead"
	ask := func(tool string) string { return "error approval: " + tool + " needs an approval" }
	for _, tt := range []struct {
		name                   string
		call                   proto.Call
		plan, asks, auto, none string
	}{
		{"read", file("read", "a"), "ran", "ran", "ran", "ran"},
		{"read outside", file("read", outside+"/b"), "ran", ask("read"), "ran", "ran"},
		{"read through a link", file("read", "link/b"), "ran", ask("read"), "ran", "ran"},
		{"write", file("write", "new"), plan, ask("write"), "ran", "ran"},
		{"edit", file("edit", "a"), plan, ask("edit"), "ran", "ran"},
		{"write outside", file("write", outside+"/c"), plan, ask("write"), ask("write"), "ran"},
		{"write through a link", file("write", "link/c"), plan, ask("write"), ask("write"), "ran"},
		{"bash", bash("true", ""), plan, ask("bash"), ask("bash"), "ran"},
	} {
		for mode, want := range map[gate.Mode]string{gate.Plan: tt.plan, gate.Asks: tt.asks, gate.Auto: tt.auto, gate.Yolo: tt.none} {
			zinotest.Write(t, filepath.Join(g.root, "a"), "text")
			call := tt.call
			call.Token = g.sign(t, mode, nil)
			got := g.try(t, call)
			if mode == gate.Plan { // with why read-only is not available here
				got, _, _ = strings.Cut(got, " (")
			}
			zinotest.Equal(t, fmt.Sprintf("%s in mode %s", tt.name, mode), got, want)
		}
	}
	zinotest.Equal(t, "without a token", g.try(t, bash("true", "")), "ran")
}

// TestPolicyOfCalls: rules hold in mode yolo, and for code of a shell as for commands.
func TestPolicyOfCalls(t *testing.T) {
	g := newGuarded(t, nil)
	zinotest.Write(t, filepath.Join(os.Getenv("ZINO_HOME"), "policy.toml"), `version = 1
[[rule]]
action = "deny"
tool = ["bash"]
command = ["rm *"]
reason = "nothing is removed"
`)
	const want = "nothing is removed"
	zinotest.Equal(t, "rm", g.try(t, bash("true; rm -f a", g.sign(t, gate.Yolo, nil))), "denied: denied: "+want)
	zinotest.Equal(t, "rm without a token", g.try(t, bash("rm -f a", "")), "denied: denied: "+want)
	zinotest.Equal(t, "another command", g.try(t, bash("true", "")), "ran")
	_, err := rpc.Call(context.Background(), g.Client, proto.ExcExecute, proto.Execute{Executor: "bash", Code: "rm -f a", Root: g.root})
	if !errors.Is(err, proto.ErrDenied) || !strings.Contains(err.Error(), want) {
		t.Errorf("rm in code: %v", err)
	}
	zinotest.Write(t, filepath.Join(os.Getenv("ZINO_HOME"), "policy.toml"), "version = 1\n[[rule]\n")
	if got := g.try(t, bash("true", "")); !strings.HasPrefix(got, "denied: denied: ") {
		t.Errorf("with a policy that does not parse: %s", got)
	}
	zinotest.Write(t, filepath.Join(g.root, "a"), "text")
	zinotest.Equal(t, "read with such a policy", g.try(t, proto.Call{Tool: "read", Input: proto.Raw(`{"path":"a"}`)}), "ran")
	job := proto.JobID{Job: "j-none", SessionID: "s1", Token: g.sign(t, gate.Plan, nil)}
	if _, err := rpc.Call(context.Background(), g.Client, proto.ExcJobStop, job); !errors.Is(err, proto.ErrDenied) {
		t.Errorf("job_stop in mode plan: %v", err)
	}
}
