package agr

import (
	"context"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// TestConfinement: what the caller asks for reaches exc, and how a call was run
// reaches the caller, but not the model.
func TestConfinement(t *testing.T) {
	t.Parallel()
	b := newBench(t, asks("", native("a", "bash", `{"command":"x"}`), nativeBash("e", "y")), says("Done."))
	how := &proto.Confinement{Sandbox: "read-only", Means: []string{"landlock"}}
	b.exc.carries(func(_ context.Context, req proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		return proto.CallResult{Result: toolbox.Said(req.Tool), Confinement: how}, nil
	})
	b.exc.returns(proto.Result{Stdout: "y", Confinement: how})
	packets := b.watch(request(question, `,"sandbox":"read-only","network":true,"env":{"A":"b"},"cwd":"/c","umask":7`+told+inSession))
	call, run := b.exc.calls()[0], b.exc.runs()[0]
	if call.Sandbox != "read-only" || call.Network == nil || !*call.Network || run.Sandbox != "read-only" || run.Network == nil || !*run.Network {
		t.Errorf("exc was asked for %+v and %+v", call, run)
	}
	for _, got := range []proto.Execute{run, {Env: call.Env, Cwd: call.Cwd, Umask: call.Umask}} {
		if got.Env["A"] != "b" || got.Cwd != "/c" || got.Umask == nil || *got.Umask != 7 {
			t.Errorf("exc gets the environment %+v", got)
		}
	}
	seen := 0
	for _, packet := range packets {
		if strings.Contains(packet, `"tool_finished"`) && strings.Contains(packet, `"confinement":{"sandbox":"read-only","network":false,"means":["landlock"]}`) {
			seen++
		}
	}
	if seen != 2 {
		t.Errorf("%d results tell how they were run: %q", seen, packets)
	}
}
