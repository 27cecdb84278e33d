package repl

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestEvalApproval: in mode ask a person is asked about code, which then runs once.
func TestEvalApproval(t *testing.T) {
	t.Setenv("ZINO_HOME", zinotest.Dir(t))
	b := newEnv(t, "")
	cfg := config.Default()
	cfg.Daemon.Socket, cfg.Daemon.DataDir = filepath.Join(zinotest.Dir(t), "daemon.sock"), zinotest.Dir(t)
	signer, err := gate.OpenSigner(cfg.Daemon.DataDir, "")
	zinotest.Must(t, err)
	b.guard = gate.NewGuard(cfg)
	f := b.page(proto.Attach{Name: "shop"})
	id := f.Attached().ID
	turn := func(change func(*gate.Turn)) string {
		turn := gate.Turn{Session: "s1", Turn: "t-1", Mode: gate.Asks, By: 1}
		change(&turn)
		token, err := signer.Sign(turn, time.Now())
		zinotest.Must(t, err)
		return token
	}
	same := func(*gate.Turn) {}
	client := rpctest.Client(t, "repl", b.listen())
	eval := func(change func(*proto.Eval)) error {
		req := proto.Eval{Page: "shop", Code: "1", Token: turn(same), Key: "s1/t-1/1/c1"}
		change(&req)
		_, err := rpc.Call(t.Context(), client, proto.ReplEval, req)
		return err
	}
	n := gate.Needed(eval(func(*proto.Eval) {}))
	if n == nil || n.Call.Tool != "page_eval" || string(n.Call.Input) != `{"page":"shop","code":"1"}` || n.Reasons[0] != "mode ask: page_eval" {
		t.Fatalf("asked: %+v", n)
	}
	if err := eval(func(req *proto.Eval) { req.Page = "none" }); !errors.Is(err, proto.ErrNotFound) {
		t.Errorf("of a page that is not there: %v", err)
	}
	grant, err := signer.SignGrant(gate.GrantToken{Approval: "ap-1", Key: "s1/t-1/1/c1", Digest: n.Digest, Sandbox: n.Call.Sandbox, Network: n.Call.Network}, time.Now())
	zinotest.Must(t, err)
	for name, change := range map[string]func(*proto.Eval){
		"code":    func(req *proto.Eval) { req.Code = "2" },
		"page":    func(req *proto.Eval) { req.Page = id },
		"timeout": func(req *proto.Eval) { req.TimeoutMS = 7 },
		"turn":    func(req *proto.Eval) { req.Token = turn(func(t *gate.Turn) { t.Turn = "t-2" }) },
		"user":    func(req *proto.Eval) { req.Token = turn(func(t *gate.Turn) { t.By = 2 }) },
		"key":     func(req *proto.Eval) { req.Key = "s1/t-1/1/c2" },
		"plan":    func(req *proto.Eval) { req.Token = turn(func(t *gate.Turn) { t.Mode = gate.Plan }) },
	} {
		err := eval(func(req *proto.Eval) { req.Grant = grant; change(req) })
		if !errors.Is(err, proto.ErrDenied) || name != "plan" && !strings.Contains(err.Error(), "the approval does not fit: ") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	zinotest.Equal(t, "code that ran", len(f.code()), 0)
	zinotest.Must(t, eval(func(req *proto.Eval) { req.Grant = grant }))
	if err := eval(func(req *proto.Eval) { req.Grant = grant }); !errors.Is(err, proto.ErrDenied) || !strings.Contains(err.Error(), "the approval does not fit: key") {
		t.Errorf("used twice: %v", err)
	}
	zinotest.Equal(t, "code that ran", len(f.code()), 1)
}
