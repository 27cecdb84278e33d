package exc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

const aKey = "s1/t-1/1/c1"

// needed makes a call that must be asked, and returns what a person is asked.
func (g *guarded) needed(t *testing.T, req proto.Call) *proto.ApprovalNeeded {
	t.Helper()
	req.SessionID, req.Turn, req.Root = "s1", "t-1", g.root
	_, err := rpc.CallEvents(t.Context(), g.Client, proto.ExcCall, req, func(string, []byte) error { return nil })
	n := gate.Needed(err)
	if n == nil {
		t.Fatalf("%s is not asked: %v", req.Tool, err)
	}
	return n
}

// grant signs a token for what was asked.
func (g *guarded) grant(t *testing.T, n *proto.ApprovalNeeded, key string) string {
	t.Helper()
	token, err := g.signer.SignGrant(gate.GrantToken{Approval: "ap-1", Key: key, Digest: n.Digest, Sandbox: n.Call.Sandbox, Network: n.Call.Network, By: os.Geteuid()}, time.Now())
	zinotest.Must(t, err)
	return token
}

// granted returns a call with a grant for what was asked about it.
func (g *guarded) granted(t *testing.T, req proto.Call) proto.Call {
	t.Helper()
	req.Grant, req.Key = g.grant(t, g.needed(t, req), aKey), aKey
	return req
}

func toolCall(tool, input, token string) proto.Call {
	return proto.Call{Tool: tool, Input: proto.Raw(input), Token: token}
}

// TestNeeded checks what a person is asked about each kind of call, and that the daemon can
// compute its digest.
func TestNeeded(t *testing.T) {
	g := newGuarded(t, nil)
	ask := g.sign(t, gate.Asks, nil)
	outside := filepath.Join(zinotest.Dir(t), "out")
	zinotest.Write(t, outside, "one\n")
	zinotest.Write(t, filepath.Join(g.root, "a"), "one\ntoken = ghp_0123456789abcdefghijABCDEFGHIJ456789\n")
	zinotest.Write(t, filepath.Join(g.root, "x.sh"), "true\n")
	zinotest.Must(t, os.Chmod(filepath.Join(g.root, "x.sh"), 0o755))
	zinotest.Write(t, filepath.Join(os.Getenv("ZINO_HOME"), "policy.toml"), "version = 1\n[[rule]]\naction = \"ask\"\ncommand = [\"git *\"]\nreason = \"shared\"\ngrantable = \"session\"\n")
	sum := func(path string) string {
		files, err := gate.Files(&gate.Call{Tool: "write", Path: path})
		zinotest.Must(t, err)
		return files[0]
	}
	for _, tt := range []struct {
		call      proto.Call
		reasons   []string
		files     []string
		commands  []string
		diff      []string
		grantable string
	}{
		{
			toolCall("bash", `{"command":"git push && ./x.sh"}`, ask),
			[]string{"rule 1 of " + os.Getenv("ZINO_HOME") + "/policy.toml: shared", "mode ask: commands at level off"},
			[]string{"./x.sh", sum(g.root + "/x.sh")},
			[]string{"git push", "./x.sh"},
			nil, "session",
		},
		{toolCall("write", `{"path":"new","content":"x"}`, ask), []string{"mode ask: write below the root"}, []string{"absent"}, nil, []string{"+x"}, "always"},
		{
			toolCall("edit", `{"path":"a","old":"one","new":"two"}`, ask),
			[]string{"mode ask: edit below the root"},
			[]string{sum(g.root + "/a")},
			nil,
			[]string{"-one", "+two", "[masked:github:"},
			"always",
		},
		// what is in a file that the turn may not read is not shown: agr gets it
		{toolCall("write", `{"path":"`+outside+`","content":"x"}`, ask), []string{"mode ask: write outside of the root"}, []string{sum(outside)}, nil, nil, "always"},
		{toolCall("edit", `{"path":"`+outside+`","old":"two","new":"x"}`, ask), []string{"mode ask: edit outside of the root"}, []string{sum(outside)}, nil, nil, "always"},
		{toolCall("read", `{"path":"`+outside+`"}`, ask), []string{"mode ask: read outside of the root"}, []string{}, nil, nil, "always"},
	} {
		n := g.needed(t, tt.call)
		name := string(tt.call.Input)
		zinotest.Equal(t, "reasons of "+name, strings.Join(n.Reasons, "; "), strings.Join(tt.reasons, "; "))
		zinotest.Equal(t, "files of "+name, strings.Join(n.Call.Files, " "), strings.Join(tt.files, " "))
		zinotest.Equal(t, "commands of "+name, strings.Join(n.Preview.Commands, " "), strings.Join(tt.commands, " "))
		zinotest.Equal(t, "grantable of "+name, n.Grantable, tt.grantable)
		zinotest.Equal(t, "kind of "+name, n.Kind, proto.ApprovalCallKind)
		if (n.Preview.Diff == "") != (tt.diff == nil) || slices.ContainsFunc(tt.diff, func(part string) bool { return !strings.Contains(n.Preview.Diff, part) }) || strings.Contains(n.Preview.Diff, "ghp_") {
			t.Errorf("diff of %s: %s", name, n.Preview.Diff)
		}
		digest, err := (&gate.Exact{
			Tool: n.Call.Tool, Input: n.Call.Input, Root: g.root, Dir: g.root, Sandbox: proto.LevelOff, Network: true,
			Session: "s1", Turn: "t-1", UID: os.Geteuid(), Files: n.Call.Files,
		}).Digest()
		zinotest.Must(t, err)
		zinotest.Equal(t, "digest of "+name, n.Digest, digest)
	}
	// no person is asked about what cannot be done
	if got := g.try(t, toolCall("edit", `{"path":"a","old":"four","new":"x"}`, ask)); !strings.HasPrefix(got, "old_not_found: ") {
		t.Errorf("a change that cannot be made: %s", got)
	}
	if got := g.try(t, toolCall("write", `{"path":"b","content":"`+strings.Repeat("x", 1<<20)+`"}`, ask)); !strings.HasPrefix(got, "denied: the call cannot be approved: ") {
		t.Errorf("a call that is too large: %.100s", got)
	}
	if got := g.try(t, toolCall("write", `{"path":".","content":"x"}`, ask)); !strings.HasPrefix(got, "denied: the call cannot be approved: ") {
		t.Errorf("a directory: %.100s", got)
	}
}

// TestApprovedOnce: an approved call is carried out, and once only.
func TestApprovedOnce(t *testing.T) {
	g := newGuarded(t, nil)
	ask := g.sign(t, gate.Asks, nil)
	outside := filepath.Join(zinotest.Dir(t), "out")
	zinotest.Write(t, outside, "one\n")
	run := g.granted(t, toolCall("bash", `{"command":"echo x >>log"}`, ask))
	zinotest.Equal(t, "an approved command", g.try(t, run), "ran")
	zinotest.Equal(t, "the same again", g.try(t, run), "ran") // the recorded result
	zinotest.Equal(t, "the file", zinotest.Read(t, g.root+"/log"), "x\n")
	again := run
	again.Key = "s1/t-1/2/c1"
	zinotest.Equal(t, "the same as another call", g.try(t, again), "denied: the approval does not fit: key")

	read := toolCall("read", `{"path":"`+outside+`"}`, ask)
	read.Key, read.Grant = "s1/t-1/1/c2", g.grant(t, g.needed(t, read), "s1/t-1/1/c2")
	first := g.result(t, read)
	zinotest.Write(t, outside, "two\n")
	if again := g.result(t, read); !strings.Contains(first, "one") || again != first {
		t.Errorf("a read that is repeated: %s, before %s", again, first)
	}
	zinotest.Write(t, outside, "GIF89a\x1e\x00\x14\x00"+strings.Repeat("\x00", 1<<20))
	read.Grant = ""
	read.Key, read.Grant = "s1/t-1/1/c6", g.grant(t, g.needed(t, read), "s1/t-1/1/c6")
	zinotest.Contains(t, "an image", g.result(t, read), `{"ok":true,"data":{"path":`, `"media_type":"image/gif"`)
	zinotest.Contains(t, "an image that is read with the same key", g.result(t, read), `{"ok":false,"error":{"code":"interrupted"`, "read it again")
	journal, err := filepath.Glob(filepath.Join(g.service.cfg.DataDir, "calls", "*"))
	zinotest.Must(t, err)
	size := 0
	for _, path := range journal {
		size += len(zinotest.Read(t, path))
	}
	if size == 0 || size > 64<<10 {
		t.Errorf("the journal has %d bytes", size)
	}
	read.Key = ""
	zinotest.Equal(t, "a read with a grant and no key", g.try(t, read), "denied: the approval does not fit: key")

	write := toolCall("write", `{"path":"a","content":"x"}`, ask)
	write.Key, write.Grant = "s1/t-1/1/c3", g.grant(t, g.needed(t, write), "s1/t-1/1/c3")
	zinotest.Equal(t, "an approved write", g.try(t, write), "ran")
	zinotest.Write(t, g.root+"/a", "y")
	zinotest.Equal(t, "the same again", g.try(t, write), "ran")
	zinotest.Equal(t, "the file", zinotest.Read(t, g.root+"/a"), "y")

	code := proto.Execute{Executor: "bash", Code: "echo z >>log", Root: g.root, SessionID: "s1", Turn: "t-1", Token: ask, Key: "s1/t-1/1/c4"}
	_, err = rpc.Call(t.Context(), g.Client, proto.ExcExecute, code)
	n := gate.Needed(err)
	if n == nil || n.Call.Tool != "execute_bash" || string(n.Call.Input) != `{"code":"echo z \u003e\u003elog"}` || len(n.Preview.Commands) == 0 {
		t.Fatalf("execute: %+v, %v", n, err)
	}
	code.Grant = g.grant(t, n, code.Key)
	for range 2 {
		_, err = rpc.Call(t.Context(), g.Client, proto.ExcExecute, code)
		zinotest.Must(t, err)
	}
	zinotest.Equal(t, "the file", zinotest.Read(t, g.root+"/log"), "x\nz\n")
	code.Code += "z"
	code.Key = "s1/t-1/1/c5"
	if _, err = rpc.Call(t.Context(), g.Client, proto.ExcExecute, code); !errors.Is(err, proto.ErrDenied) || !strings.Contains(err.Error(), "the approval does not fit: key") {
		t.Errorf("execute with the grant of another: %v", err)
	}
	job := proto.JobID{Job: "j-none", SessionID: "s1", Token: ask}
	_, err = rpc.Call(t.Context(), g.Client, proto.ExcJobStop, job)
	if n = gate.Needed(err); n == nil || n.Call.Tool != "job" {
		t.Fatalf("job_stop: %v", err)
	}
	job.Key, job.Grant = aKey, g.grant(t, n, aKey)
	if _, err = rpc.Call(t.Context(), g.Client, proto.ExcJobStop, job); !errors.Is(err, proto.ErrNotFound) {
		t.Errorf("job_stop with a grant: %v", err)
	}
	if _, err = rpc.Call(t.Context(), g.Client, proto.ExcJobStop, job); !errors.Is(err, proto.ErrDenied) {
		t.Errorf("job_stop with a used grant: %v", err)
	}
}

// result makes a call and returns its result.
func (g *guarded) result(t *testing.T, req proto.Call) string {
	t.Helper()
	req.SessionID, req.Turn, req.Root = "s1", "t-1", g.root
	got, err := rpc.CallEvents(t.Context(), g.Client, proto.ExcCall, req, func(string, []byte) error { return nil })
	zinotest.Must(t, err)
	return string(got.Result)
}

// TestApprovalFitsOneCall changes each field of an approved call between approval and run.
func TestApprovalFitsOneCall(t *testing.T) {
	g := newGuarded(t, nil)
	ask := g.sign(t, gate.Asks, nil)
	script := func(text string) {
		zinotest.Write(t, filepath.Join(g.root, "x.sh"), "#!/bin/sh\n"+text)
		zinotest.Must(t, os.Chmod(filepath.Join(g.root, "x.sh"), 0o755))
	}
	zinotest.Must(t, os.Mkdir(filepath.Join(g.root, "sub"), 0o700))
	policy := filepath.Join(os.Getenv("ZINO_HOME"), "policy.toml")
	const refused = "denied: the approval does not fit: "
	sign := func(change func(*gate.GrantToken), signer *gate.Signer, now time.Time) func(*proto.Call) {
		return func(c *proto.Call) {
			n := g.needed(t, toolCall("bash", string(c.Input), ask))
			token := gate.GrantToken{Approval: "ap-1", Key: c.Key, Digest: n.Digest, Sandbox: n.Call.Sandbox, Network: n.Call.Network}
			change(&token)
			var err error
			c.Grant, err = signer.SignGrant(token, now)
			zinotest.Must(t, err)
		}
	}
	same := func(*gate.GrantToken) {}
	other, err := gate.OpenSigner(zinotest.Dir(t), filepath.Join(zinotest.Dir(t), "gate.pub"))
	zinotest.Must(t, err)
	for i, tt := range []struct {
		name   string
		change func(*proto.Call)
		want   string
	}{
		{"nothing", func(*proto.Call) {}, "ran"},
		{"tool", func(c *proto.Call) {
			c.Tool, c.Input = "write", proto.Raw(`{"path":"ran","content":"","command":"./x.sh"}`)
		}, refused + "digest"},
		{"input", func(c *proto.Call) { c.Input = proto.Raw(`{"command":"./x.sh "}`) }, refused + "digest"},
		{"another key in the input", func(c *proto.Call) { c.Input = proto.Raw(`{"command":"./x.sh","wake":true}`) }, refused + "digest"},
		{"the root in the call", func(c *proto.Call) { c.Root = "/sub" }, "error denied: the token of the turn does not fit: root"},
		{"the root in the turn", func(c *proto.Call) {
			c.Root, c.Token = "/sub", g.sign(t, gate.Asks, func(turn *gate.Turn) { turn.Root += "/sub" })
			zinotest.Write(t, filepath.Join(g.root, "sub/x.sh"), "#!/bin/sh\ntrue\n")
			zinotest.Must(t, os.Chmod(filepath.Join(g.root, "sub/x.sh"), 0o755))
		}, refused + "digest"},
		{"the level", func(c *proto.Call) {
			c.Token = g.sign(t, gate.Asks, func(turn *gate.Turn) { turn.Sandbox = proto.LevelReadOnly })
			c.Sandbox = proto.LevelReadOnly
		}, refused + "digest"},
		{"the session", func(c *proto.Call) {
			c.SessionID, c.Turn, c.Key = "s2", "t-1", "s2/t-1/1/c1"
			c.Token = g.sign(t, gate.Asks, func(turn *gate.Turn) { turn.Session = "s2" })
		}, refused + "key"},
		{"the turn", func(c *proto.Call) {
			c.SessionID, c.Turn, c.Key = "s1", "t-2", "s1/t-2/1/c1"
			c.Token = g.sign(t, gate.Asks, func(turn *gate.Turn) { turn.Turn = "t-2" })
		}, refused + "key"},
		{"the requester", func(c *proto.Call) { c.Token = g.sign(t, gate.Asks, func(turn *gate.Turn) { turn.By++ }) }, refused + "digest"},
		{"an unknown requester", func(c *proto.Call) { c.Token = g.sign(t, gate.Asks, func(turn *gate.Turn) { turn.By = -1 }) }, refused + "digest"},
		{"the program", func(*proto.Call) { script("touch ran2\n") }, refused + "digest"},
		{"no key", func(c *proto.Call) { c.Key = "" }, refused + "key"},
		{"the key", func(c *proto.Call) { c.Key += "0" }, refused + "key"},
		{"a byte of the token", func(c *proto.Call) { c.Grant = "A" + c.Grant[1:] }, refused + "signature"},
		{"the turn's token as a grant", func(c *proto.Call) { c.Grant = c.Token }, refused + "signature"},
		{"a key of agr's own", sign(same, other, time.Now()), refused + "signature"},
		{"expired", sign(same, g.signer, time.Now().Add(-gate.GrantLife)), refused + "expired"},
		{"the level of the token", sign(func(token *gate.GrantToken) { token.Sandbox = proto.LevelReadOnly }, g.signer, time.Now()), refused + "digest"},
		{"the network of the token", sign(func(token *gate.GrantToken) { token.Network = false }, g.signer, time.Now()), refused + "digest"},
		{"a rule that denies", func(*proto.Call) {
			zinotest.Write(t, policy, "version = 1\n[[rule]]\naction = \"deny\"\ncommand = [\"./x.sh\"]\nreason = \"no scripts\"\n")
		}, "denied: denied: no scripts"},
	} {
		script("touch ran\n")
		c := toolCall("bash", `{"command":"./x.sh"}`, ask)
		c.Key = fmt.Sprintf("s1/t-1/1/c%d-", i)
		c.Grant = g.grant(t, g.needed(t, c), c.Key)
		tt.change(&c)
		zinotest.Equal(t, tt.name, g.try(t, c), tt.want)
		if exists(filepath.Join(g.root, "ran")) != (tt.want == "ran") || exists(filepath.Join(g.root, "ran2")) {
			t.Errorf("%s: run or not", tt.name)
		}
		_, _ = os.Remove(filepath.Join(g.root, "ran")), os.Remove(policy)
	}
	zinotest.Write(t, filepath.Join(g.root, "a"), "one")
	edit := g.granted(t, toolCall("edit", `{"path":"a","old":"one","new":"two"}`, ask))
	zinotest.Write(t, filepath.Join(g.root, "a"), "one more")
	zinotest.Equal(t, "a file that was changed", g.try(t, edit), refused+"digest")
}

// TestPreview checks what the daemon gets to show to a person.
func TestPreview(t *testing.T) {
	g := newGuarded(t, func(cfg *config.Config) { cfg.Gate.RequireToken = true })
	zinotest.Write(t, filepath.Join(g.root, "a"), "token = ghp_0123456789abcdefghijABCDEFGHIJ456789\none\n")
	preview := func(tool, input string) (proto.ApprovalPreview, error) {
		return rpc.Call(t.Context(), g.Client, proto.ExcPreview, proto.Call{Tool: tool, Input: proto.Raw(input), Root: g.root})
	}
	p, err := preview("edit", `{"path":"a","old":"one","new":"two"}`)
	zinotest.Must(t, err)
	if !strings.Contains(p.Diff, "-one\n+two") || !strings.Contains(p.Diff, "[masked:github:") || strings.Contains(p.Diff, "ghp_") {
		t.Errorf("diff: %s", p.Diff)
	}
	zinotest.Equal(t, "the file", zinotest.Read(t, g.root+"/a"), "token = ghp_0123456789abcdefghijABCDEFGHIJ456789\none\n")
	p, err = preview("bash", `{"command":"a; b | c"}`)
	zinotest.Must(t, err)
	zinotest.Equal(t, "the commands", strings.Join(p.Commands, ", "), "a, b, c")
	if _, err = preview("edit", `{"path":"a","old":"four","new":"two"}`); !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("a change that cannot be made: %v", err)
	}
}

// TestEscalate: a command that the sandbox hinders runs outside of it when a person allows
// that, and not otherwise.
func TestEscalate(t *testing.T) {
	const git = "git -c user.email=a@b -c user.name=a commit -q --allow-empty -m x"
	g := newGuarded(t, nil)
	at := func(mode gate.Mode, change func(*gate.Turn)) proto.Call {
		return proto.Call{Sandbox: proto.LevelWorkspaceWrite, Tool: "bash", Token: g.sign(t, mode, func(turn *gate.Turn) {
			turn.Sandbox, turn.Network, turn.Reachable = proto.LevelWorkspaceWrite, new(false), true
			if change != nil {
				change(turn)
			}
		})}
	}
	with := func(c proto.Call, command, reason string) proto.Call {
		input, err := json.Marshal(map[string]string{"command": command, "escalate": reason})
		zinotest.Must(t, err)
		c.Input = input
		return c
	}
	for name, tt := range map[string]struct {
		call proto.Call
		want string
	}{
		"yolo":          {with(at(gate.Yolo, nil), git, "why"), "denied: denied: escalate cannot be granted in mode yolo: repeat the command without it"},
		"plan":          {with(at(gate.Plan, nil), git, "why"), "denied: denied: plan mode changes nothing; describe the change instead"},
		"no person":     {with(at(gate.Auto, func(turn *gate.Turn) { turn.Reachable = false }), git, "why"), "denied: Not allowed without a person: bash at sandbox level off."},
		"already off":   {with(proto.Call{Tool: "bash", Token: g.sign(t, gate.Yolo, nil)}, "true", "why"), "ran"},
		"at level unit": {with(proto.Call{Tool: "bash", Sandbox: proto.LevelUnit, Token: g.sign(t, gate.Auto, func(turn *gate.Turn) { turn.Sandbox, turn.Reachable = proto.LevelUnit, true })}, "true", "why"), "denied: denied: escalate is not allowed at sandbox level unit: [gate] escalate_to lists no level"},
	} {
		zinotest.Equal(t, name, g.try(t, tt.call), tt.want)
	}
	n := g.needed(t, with(at(gate.Auto, nil), "curl x", "Network to fetch x"))
	if n.Kind != proto.ApprovalEscalation || n.Call.Sandbox != proto.LevelWorkspaceWrite || !n.Call.Network || n.From != proto.LevelWorkspaceWrite || n.Reasons[0] != "network" {
		t.Errorf("for the network: %+v", n)
	}
	online := with(at(gate.Auto, func(turn *gate.Turn) { turn.Network = new(true) }), "curl x", "network")
	online.Network = new(true)
	n = g.needed(t, online)
	zinotest.Equal(t, "the level, with the network", n.Call.Sandbox, proto.LevelOff)

	if problem := g.service.levelProblem(context.Background(), proto.LevelWorkspaceWrite); problem != nil {
		if got := g.try(t, with(at(gate.Auto, nil), git, "")); !strings.HasPrefix(got, "sandbox: ") {
			t.Errorf("at a level that is not available: %s", got)
		}
		return
	}
	_, err := exec.Command("git", "init", "-q", g.root).CombinedOutput()
	zinotest.Must(t, err)
	plain := at(gate.Auto, nil)
	plain.Input, _ = json.Marshal(map[string]string{"command": git})
	if got := g.result(t, plain); !strings.Contains(got, `"note":"This may have failed because of the sandbox (workspace-write, no network)."`) {
		t.Fatalf("without escalate: %s", got)
	}
	commit := with(at(gate.Auto, nil), git, "git commit writes to .git")
	n = g.needed(t, commit)
	zinotest.Equal(t, "the level", n.Call.Sandbox, proto.LevelOff)
	zinotest.Equal(t, "the reasons", strings.Join(n.Reasons, "; "), "less confinement")
	zinotest.Equal(t, "grantable", n.Grantable, proto.AnswerOnce)
	commit.Key, commit.Grant = aKey, g.grant(t, n, aKey)
	forged := with(commit, git+" ", "git commit writes to .git")
	forged.Key = "s1/t-1/1/c2"
	zinotest.Equal(t, "another command with the grant", g.try(t, forged), "denied: the approval does not fit: key")
	without := commit
	without.Input = plain.Input
	without.Key = "s1/t-1/1/c3"
	if got := g.result(t, without); !strings.Contains(got, `"note"`) { // confined as before: the grant is not looked at
		t.Errorf("without escalate, with the grant: %s", got)
	}
	got := g.result(t, commit)
	if !strings.Contains(got, `"exit_code":0`) || strings.Contains(got, `"note"`) {
		t.Errorf("with a grant: %s", got)
	}
	out, err := exec.Command("git", "-C", g.root, "rev-list", "--count", "--all").CombinedOutput()
	zinotest.Must(t, err)
	zinotest.Equal(t, "commits", strings.TrimSpace(string(out)), "1")
}
