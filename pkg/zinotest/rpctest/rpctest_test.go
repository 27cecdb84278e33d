package rpctest_test

import (
	"context"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestConformance checks a service that waits for a neighbour.
func TestConformance(t *testing.T) {
	block := rpctest.NewBlock()
	far, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			if err := out.Text([]byte("text")); err != nil {
				return proto.Text{}, err
			}
			return proto.Text{Content: "text"}, block.Wait(ctx)
		})
	})
	client := rpctest.Client(t, "rtr", far)
	near, server := rpctest.New(t, "agr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.AgrRun, func(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
			if req.MaxIterations != nil {
				return proto.Text{}, &proto.Error{Code: proto.CodeInvalid, Message: "max_iterations: not now"}
			}
			return rpc.CallText(ctx, client, proto.RtrInfer, proto.Infer{Messages: req.Messages, Stream: true}, out)
		})
	})
	const run = `{"type":"run","messages":[],"temperature":1,"top_p":1,"stream":true`
	rpctest.Conformance(t, near, []rpctest.Case{
		{Name: "refused", Request: run + `,"max_iterations":3}`, Code: "invalid", Message: "max_iterations: not now"},
		{Name: "refused early", Request: `{"type":"run","messages":{}}`, Code: "invalid", Message: "Invalid request: …"},
		{Name: "no stream", Request: `{"type":"ping"}`},
		{Name: "slow neighbour", Request: run + `}`, Block: block},
	})
	block = rpctest.NewBlock()
	c := rpctest.Dial(t, near)
	c.Send(run + `}`)
	block.Begun(t)
	block.Release()
	streamed, last := c.Finish()
	zinotest.Equal(t, "streamed", streamed, "text")
	zinotest.Equal(t, "answer", last.Raw, `{"type":"done","full_text":"text"}`)
	c.Send(run + `}`)
	block.Begun(t)
	block.Release()
	zinotest.Equal(t, "streamed", c.Streamed("xt"), "text")
	rpctest.Shutdown(t, server, near, rpctest.Case{Request: run + `}`, Block: rpctest.Blocked(block)})
}

// TestRaw answers with bytes that are not a reply.
func TestRaw(t *testing.T) {
	for _, answer := range []string{"", "\x00\x00\x00\x02[]", "\x00\x00\x00\x20{"} {
		client := rpctest.Client(t, "mem", rpctest.Raw(t, "", answer))
		if _, err := rpc.Call(t.Context(), client, proto.MemGetSoft, proto.GetSoft{}); err == nil {
			t.Errorf("%q was accepted", answer)
		}
	}
}
