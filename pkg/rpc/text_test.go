package rpc_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// everything is a text with every field, and its packet behind type and text.
func everything() (text proto.Text, rest string) {
	n, cost := 2, 0.25
	text = proto.Text{
		Content: "one <two>", Iterations: &n,
		ToolCalls:  proto.Raw(`[ {"id":"a","x":1.0} ]`),
		State:      proto.Raw(`{"s": "\u003c"}`),
		StopReason: "tool_calls",
		Usage:      &proto.Usage{InputTokens: 5, OutputTokens: 7, CacheReadTokens: 3, CostUSD: &cost},
		Provider:   "anthropic", Model: "m",
	}
	rest = `,"iterations":2,"tool_calls":[ {"id":"a","x":1.0} ],"reasoning_state":{"s": "\u003c"},"stop_reason":"tool_calls",` +
		`"usage":{"input_tokens":5,"output_tokens":7,"cache_read_tokens":3,"cost_usd":0.25},"provider":"anthropic","model":"m"}`
	return text, rest
}

// TestWholeText: the terminal packet carries every field in both forms, raw
// ones byte for byte, and CallText returns them all.
func TestWholeText(t *testing.T) {
	want, rest := everything()
	path, _ := start(t, "rtr", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			return want, out.Text([]byte(want.Content))
		})
	})
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
	for _, form := range []struct {
		req     proto.Infer
		packets []string
	}{
		{proto.Infer{}, []string{`{"type":"response","content":"one <two>"` + rest}},
		{proto.Infer{Stream: true}, []string{`{"type":"chunk","delta":"one <two>"}`, `{"type":"done","full_text":"one <two>"` + rest}},
		{proto.Infer{Events: true}, []string{`{"type":"chunk","delta":"one <two>"}`, `{"type":"done","full_text":"one <two>"` + rest}},
	} {
		nc := dial(t, path)
		send(t, nc, fmt.Sprintf(`{"type":"infer","messages":[],"temperature":1,"top_p":1,"stream":%v,"events":%v}`, form.req.Stream, form.req.Events))
		for _, packet := range form.packets {
			if got := receive(t, nc); got != packet {
				t.Errorf("got  %s\nwant %s", got, packet)
			}
		}
		got, err := rpc.CallText(t.Context(), c, proto.RtrInfer, form.req, &sink{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestFieldsLast: the returned text stays as it is while its connection is
// used for other answers.
func TestFieldsLast(t *testing.T) {
	n := 0
	path, _ := start(t, "rtr", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, req proto.Infer, _ *rpc.Out) (proto.Text, error) {
			n++
			return proto.Text{Content: strings.Repeat("x", req.MaxTokens), ToolCalls: proto.Raw(fmt.Sprintf(`[{"id":"%d"}]`, n))}, nil
		})
	})
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
	var all []proto.Text
	for i := range 12 {
		text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: i%2 > 0, MaxTokens: i % 3 * 5000}, &sink{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	for i, text := range all {
		if want := fmt.Sprintf(`[{"id":"%d"}]`, i+1); string(text.ToolCalls) != want {
			t.Errorf("tool_calls = %s, want %s", text.ToolCalls, want)
		}
	}
}
