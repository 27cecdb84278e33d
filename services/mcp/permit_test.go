package mcp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestApproval: the mode of the turn decides about a call, and an approval holds for one call.
func TestApproval(t *testing.T) {
	e := prepare(t, server("test", ""))
	e.startExc()
	signer, err := gate.OpenSigner(e.cfg.Daemon.DataDir, "")
	zinotest.Must(t, err)
	e = e.open()
	turn := func(change func(*gate.Turn)) string {
		turn := gate.Turn{Session: "s1", Turn: "t-1", Mode: gate.Asks, By: 1}
		change(&turn)
		token, err := signer.Sign(turn, time.Now())
		zinotest.Must(t, err)
		return token
	}
	mode := func(m gate.Mode) string { return turn(func(t *gate.Turn) { t.Mode = m }) }
	call := func(change func(*proto.CallTool)) (answer, error) {
		req := proto.CallTool{Server: "test", Tool: "echo", Arguments: proto.Raw(`{"name":"a"}`), Token: mode(gate.Asks), SessionID: "s1", Turn: "t-1", Key: "s1/t-1/1/c1"}
		change(&req)
		return e.request(t.Context(), req)
	}
	same := func(*proto.CallTool) {}
	_, err = call(same)
	n := gate.Needed(err)
	if n == nil || n.Call.Tool != "mcp:test/echo" || string(n.Call.Input) != `{"server":"test","tool":"echo","arguments":{"name":"a"}}` || n.Reasons[0] != "mode ask: mcp:test/echo" {
		t.Fatalf("asked: %+v, %v", n, err)
	}
	zinotest.Equal(t, "state", e.state("test").State, proto.MCPNew)
	for _, m := range []gate.Mode{gate.Auto, gate.Yolo} {
		a, err := call(func(req *proto.CallTool) { req.Token = mode(m) })
		zinotest.Must(t, err)
		zinotest.Equal(t, string(m), a.Data.Text, "hello a")
	}
	for _, token := range []string{mode(gate.Yolo), ""} {
		_, err = call(func(req *proto.CallTool) { req.Token, req.Ask = token, "sure?" })
		if asked := gate.Needed(err); asked == nil || !strings.Contains(strings.Join(asked.Reasons, "; "), "sure?") {
			t.Errorf("a hook asks: %+v, %v", asked, err)
		}
	}
	a, err := call(func(req *proto.CallTool) { req.Token = mode(gate.Plan) })
	zinotest.Must(t, err)
	zinotest.Equal(t, "plan", a.Error.Code+": "+a.Error.Message, "denied: denied: plan mode changes nothing; describe the change instead")
	a, err = call(func(req *proto.CallTool) { req.Arguments = proto.Raw(`{}`) })
	zinotest.Must(t, err)
	zinotest.Equal(t, "no person is asked about a call that cannot be made", a.Error.Code, proto.ToolInvalidInput)
	grant, err := signer.SignGrant(gate.GrantToken{Approval: "ap-1", Key: "s1/t-1/1/c1", Digest: n.Digest, Sandbox: n.Call.Sandbox, Network: n.Call.Network}, time.Now())
	zinotest.Must(t, err)
	for name, change := range map[string]func(*proto.CallTool){
		"arguments":     func(req *proto.CallTool) { req.Arguments = proto.Raw(`{"name":"b"}`) },
		"tool":          func(req *proto.CallTool) { req.Tool, req.Arguments = "environment", proto.Raw(`{"name":"a"}`) },
		"key":           func(req *proto.CallTool) { req.Key = "s1/t-1/1/c2" },
		"user":          func(req *proto.CallTool) { req.Token = turn(func(t *gate.Turn) { t.By = 2 }) },
		"turn":          func(req *proto.CallTool) { req.Turn = "t-2" },
		"session":       func(req *proto.CallTool) { req.SessionID = "s2" },
		"root":          func(req *proto.CallTool) { req.Root = "/tmp" },
		"token of turn": func(req *proto.CallTool) { req.Token = turn(func(t *gate.Turn) { t.Turn = "t-2" }) },
		"no token":      func(req *proto.CallTool) { req.Token = "v1.x.y" },
	} {
		a, err := call(func(req *proto.CallTool) { req.Grant = grant; change(req) })
		if err != nil || a.Error.Code != proto.ToolDenied {
			t.Errorf("another %s: %+v, %v", name, a, err)
		}
	}
	a, err = call(func(req *proto.CallTool) { req.Grant = grant })
	zinotest.Must(t, err)
	zinotest.Equal(t, "granted", a.Data.Text, "hello a")
	a, err = call(func(req *proto.CallTool) { req.Grant = grant })
	if err != nil || !strings.Contains(a.Error.Message, "the approval does not fit: key") {
		t.Errorf("used twice: %+v, %v", a, err)
	}
	if errors.Is(err, proto.ErrApproval) {
		t.Error("asked again")
	}
}

// TestHostIgnoresProjects: the host's constellation has no servers of requests.
func TestHostIgnoresProjects(t *testing.T) {
	e := newEnv(t, server("test", "")+"[gate]\nrequire_token = true\n")
	list := e.servers(proto.ListServers{Root: "/", Project: proto.Raw(`{"mcpServers":{"p":{"command":"x"}}}`), Client: proto.Raw(`{"mcpServers":{"c":{"command":"x"}}}`)})
	zinotest.Equal(t, "servers", len(list.Servers), 1)
}

// TestHostServers: a host's constellation starts a server only with the daemon's token for it.
func TestHostServers(t *testing.T) {
	e := prepare(t, server("test", "")+server("other", "", "other")+"[gate]\nrequire_token = true\n[exc]\n")
	signer, err := gate.OpenSigner(e.cfg.Daemon.DataDir, gate.PublicPath(e.cfg.Daemon.Socket))
	zinotest.Must(t, err)
	e.startExc()
	e = e.open()
	search := func(tokens ...string) proto.FoundTools {
		found, err := rpc.Call(t.Context(), e.client, proto.MCPSearch, proto.SearchTools{Server: "test", Query: "echo", ServerTokens: tokens})
		zinotest.Must(t, err)
		return found
	}
	found := search()
	if len(found.Needed) != 1 || found.Needed[0].Kind != proto.ApprovalServer || len(found.Tools) != 0 || len(found.Problems) != 1 {
		t.Fatalf("%+v", found)
	}
	call := found.Needed[0].Call
	want := gate.Server{Definition: found.Needed[0].Digest, Sandbox: call.Sandbox, Network: call.Network}
	sign := func(s gate.Server, at time.Time) string {
		token, err := signer.SignServer(s, at)
		zinotest.Must(t, err)
		return token
	}
	expired := sign(want, time.Now().Add(-gate.Life))
	forged := sign(want, time.Now())
	forged = forged[:len(forged)-8] + "AAAAAAAA"
	for _, token := range []string{expired, forged} {
		found := search(token)
		if len(found.Tools) != 0 || len(found.Needed) != 0 || !strings.Contains(strings.Join(found.Problems, ""), "refused") {
			t.Errorf("with a wrong token: %+v", found)
		}
		report, err := rpc.Call(t.Context(), e.client, proto.MCPTest, proto.TestServer{Server: "test", ServerToken: token})
		zinotest.Must(t, err)
		zinotest.Contains(t, "test with a wrong token", report.Server.Problem, "refused")
	}
	token := sign(want, time.Now())
	found = search("another", token)
	if len(found.Tools) == 0 || found.Tools[0].Name != "echo" || len(found.Problems)+len(found.Needed) > 0 {
		t.Errorf("with its token: %+v", found)
	}
	report, err := rpc.Call(t.Context(), e.client, proto.MCPTest, proto.TestServer{Server: "test", ServerToken: token})
	zinotest.Must(t, err)
	zinotest.Equal(t, "test", report.Server.State, proto.MCPRunning)
	zinotest.Equal(t, "the other one", e.state("other").State, proto.MCPNew)
}
