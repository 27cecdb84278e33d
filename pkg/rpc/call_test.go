package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestRelay passes a stream through a daemon: the packets arrive as they were
// sent, blanks and escapes included, and end with one terminal packet.
func TestRelay(t *testing.T) {
	packets := []string{
		`{"type":"chunk","delta":"a\u0062"}`, `{"type":"chunk","delta":""}`, `{"type": "chunk", "delta": "c<d"}`,
		`{"type":"done","full_text":"abc<d","iterations":2,"more":1}`,
	}
	far := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
		if nc.Receive() != "" {
			for _, p := range packets {
				nc.Send(p)
			}
		}
	})
	c := rpctest.Client(t, "agr", far)
	near, _ := rpctest.New(t, "daemon", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.DaemonChat, func(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
			return rpc.CallText(ctx, c, proto.AgrRun, proto.Run{Messages: proto.Raw("[]"), Stream: &req.Stream}, out)
		})
	})
	nc := rpctest.Dial(t, near)
	nc.Send(`{"message":"x","stream":true}`)
	for _, want := range []string{packets[0], packets[1], `{"type":"chunk","delta":"c<d"}`, `{"type":"done","full_text":"abc<d","iterations":2}`} {
		if got := nc.Receive(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestWholeAnswerToAStream: a caller that asked for a stream gets chunk and
// done even if the service behind answers in one piece.
func TestWholeAnswerToAStream(t *testing.T) {
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			out.Collect()
			return proto.Text{Content: "all at once"}, out.Text([]byte("not seen"))
		})
	})
	nc := rpctest.Dial(t, path)
	nc.Send(`{"type":"infer","messages":[],"temperature":"0.5","top_p":1,"stream":true}`)
	if got := nc.Receive(); got != `{"type":"response","content":"all at once"}` {
		t.Errorf("got %s", got)
	}
	c := rpctest.Client(t, "rtr", path)
	var got sink
	text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, &got)
	if err != nil || text.Content != "all at once" || got.String() != text.Content {
		t.Errorf("%q, streamed %q, %v", text.Content, got.String(), err)
	}
}

// TestDoneWithoutChunks: text that comes with done only reaches the sink.
func TestDoneWithoutChunks(t *testing.T) {
	path := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
		if nc.Receive() != "" {
			nc.Send(`{"type":"done","full_text":"late"}`)
		}
	})
	c := rpctest.Client(t, "rtr", path)
	var got sink
	text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, &got)
	if err != nil || text.Content != "late" || got.String() != "late" {
		t.Errorf("%q, streamed %q, %v", text.Content, got.String(), err)
	}
}

func TestErrorAfterChunks(t *testing.T) {
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			return proto.Text{}, errors.Join(out.Text([]byte("half")), &proto.Error{Code: proto.CodeBusy, Message: "slow down", Status: 429})
		})
	})
	c := rpctest.Client(t, "rtr", path)
	var got sink
	_, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, &got)
	e, ok := errors.AsType[*proto.Error](err)
	if got.String() != "half" || !ok || e.Code != proto.CodeBusy || e.Status != 429 {
		t.Errorf("streamed %q, error %#v", got.String(), err)
	}
	if c.Idle() != 1 {
		t.Error("a connection was not kept after an error")
	}
}

// TestSinkStops: a sink that fails hangs up, which cancels the work.
func TestSinkStops(t *testing.T) {
	ended := make(chan struct{}, 1)
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			out.Text([]byte("one"))
			out.Flush()
			<-ctx.Done()
			ended <- struct{}{}
			return proto.Text{}, ctx.Err()
		})
	})
	c := rpctest.Client(t, "rtr", path)
	_, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, broken{})
	if !errors.Is(err, errBroken) {
		t.Errorf("error = %v", err)
	}
	zinotest.Receive(t, "cancellation", ended)
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Text([]byte) error { return errBroken }
func (broken) Flush() error      { return nil }

// TestBackPressure: a slow reader gets every packet.
func TestBackPressure(t *testing.T) {
	const n = 20000
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			for range n {
				if err := out.Text([]byte("0123456789012345678901234567890")); err != nil {
					return proto.Text{}, err
				}
			}
			return proto.Text{Content: "end"}, nil
		})
	})
	nc := rpctest.Dial(t, path)
	nc.Send(`{"type":"infer","messages":[],"temperature":1,"top_p":1,"stream":true}`)
	for i := range n {
		if got := nc.Receive(); !strings.HasPrefix(got, `{"type":"chunk"`) {
			t.Fatalf("packet %d: %s", i, got)
		}
	}
	if got := nc.Receive(); got != `{"type":"done","full_text":"end"}` {
		t.Errorf("got %s", got)
	}
}

// TestEvents: typed packets until the caller hangs up.
func TestEvents(t *testing.T) {
	type tick struct {
		N int `json:"n"`
	}
	watch := proto.Method[proto.Empty, proto.Empty]{Service: "mem", Type: "watch", Reply: "end"}
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		rpc.HandleEvents(s, watch, func(_ context.Context, _ proto.Empty, out *rpc.Out) (proto.Empty, error) {
			for n := range 3 {
				if err := out.Event("tick", tick{n}); err != nil {
					return proto.Empty{}, err
				}
			}
			return proto.Empty{}, nil
		})
	})
	c := rpctest.Client(t, "mem", path)
	var got []string
	_, err := rpc.CallEvents(t.Context(), c, watch, proto.Empty{}, func(_ string, payload []byte) error {
		got = append(got, string(payload))
		return nil
	})
	if want := `{"type":"tick","n":0} {"type":"tick","n":1} {"type":"tick","n":2}`; strings.Join(got, " ") != want || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

// events is a sink that records everything.
type events struct {
	all []string
	err error // returned by Event
}

func (e *events) Text(delta []byte) error { e.all = append(e.all, string(delta)); return nil }
func (e *events) Flush() error            { return nil }

func (e *events) Event(typ string, payload []byte) error {
	e.all = append(e.all, typ+" "+string(payload))
	return e.err
}

// talkative streams text with other packets between the chunks, some in the format of
// other implementations.
func talkative(_ context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
	err := errors.Join(
		out.Event("notice", proto.Notice{Kind: "retry", Text: "again", WaitMS: 5}), out.Text([]byte("a")), out.Text([]byte("b")),
		out.Event("reasoning", proto.Reasoning{Text: "<why>"}), out.Text([]byte("c")), out.Frame([]byte(`{"type":"keepalive"}`)),
		out.Frame([]byte(`{"x":[1, 2], "type":"result","content":"of another method"}`)), out.Text([]byte("d")))
	if req.MaxTokens > 0 {
		out.Collect()
	}
	return proto.Text{Content: "abcd"}, err
}

// TestPacketsBetween: packets between the chunks keep their places and go to an
// EventSink; other sinks get the text.
func TestPacketsBetween(t *testing.T) {
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) { rpc.HandleText(s, proto.RtrInfer, talkative) })
	c := rpctest.Client(t, "rtr", path)
	between := []string{
		`notice {"type":"notice","kind":"retry","text":"again","wait_ms":5}`, "a", "b",
		`reasoning {"type":"reasoning","text":"<why>"}`, "c", `result {"x":[1, 2], "type":"result","content":"of another method"}`, "d",
	}
	silent := slices.DeleteFunc(slices.Clone(between), func(s string) bool { return len(s) == 1 })
	for _, form := range []struct {
		req  proto.Infer
		want []string
	}{{proto.Infer{Events: true}, between}, {proto.Infer{Stream: true}, between}, {proto.Infer{}, silent}} {
		var got events
		text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, form.req, &got)
		if err != nil || text.Content != "abcd" || !slices.Equal(got.all, form.want) {
			t.Errorf("%+v: %q, %v, the sink has\n%q, want\n%q", form.req, text.Content, err, got.all, form.want)
		}
		var plain sink
		text, err = rpc.CallText(t.Context(), c, proto.RtrInfer, form.req, &plain)
		if want := map[bool]string{true: "abcd"}[form.req.Streaming()]; err != nil || text.Content != "abcd" || plain.String() != want {
			t.Errorf("%+v: %q, %v, a plain sink has %q", form.req, text.Content, err, plain.String())
		}
	}
}

// TestEventsThenWhole: a collected answer may follow packets of other types.
func TestEventsThenWhole(t *testing.T) {
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			out.Collect()
			return proto.Text{Content: "all"}, out.Event("notice", proto.Notice{Kind: "wait", Text: "w"})
		})
	})
	c := rpctest.Client(t, "rtr", path)
	var got events
	text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Events: true}, &got)
	if err != nil || text.Content != "all" || !slices.Equal(got.all, []string{`notice {"type":"notice","kind":"wait","text":"w"}`, "all"}) {
		t.Errorf("%q, %v, the sink has %q", text.Content, err, got.all)
	}
}

// TestRelayDropsPackets: a caller behind an Out gets chunks and the end only,
// since it may not know other packets.
func TestRelayDropsPackets(t *testing.T) {
	far, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) { rpc.HandleText(s, proto.RtrInfer, talkative) })
	c := rpctest.Client(t, "rtr", far)
	near, _ := rpctest.New(t, "daemon", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.DaemonChat, func(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
			return rpc.CallText(ctx, c, proto.RtrInfer, proto.Infer{Stream: req.Stream}, out)
		})
	})
	nc := rpctest.Dial(t, near)
	nc.Send(`{"message":"x","stream":true}`)
	var got []string
	for range 5 {
		got = append(got, nc.Receive())
	}
	want := []string{
		`{"type":"chunk","delta":"a"}`, `{"type":"chunk","delta":"b"}`, `{"type":"chunk","delta":"c"}`, `{"type":"chunk","delta":"d"}`,
		`{"type":"done","full_text":"abcd"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// answering returns a client of a peer that answers every request with packets.
func answering(t *testing.T, packets ...string) *rpc.Client {
	t.Helper()
	c := &rpc.Client{Service: "rtr", Path: rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
		for nc.Receive() != "" {
			for _, p := range packets {
				nc.Send(p)
			}
		}
	})}
	t.Cleanup(c.Close)
	return c
}

// TestOnlyTheReplyEnds: a packet of an unknown type does not end the answer.
func TestOnlyTheReplyEnds(t *testing.T) {
	other := []string{`{"type":"result","content":"no"}`, `{"type":"pong"}`, `{"type":"future","content":{"deep":[]}}`}
	for _, end := range []string{`{"type":"response","content":"yes"}`, `{"type":"done","full_text":"yes"}`} {
		c := answering(t, append(slices.Clone(other), end)...)
		for _, stream := range []bool{false, true} {
			text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: stream}, &sink{})
			if err != nil || text.Content != "yes" {
				t.Errorf("%s, stream %v: %q, %v", end, stream, text.Content, err)
			}
		}
	}
	c := answering(t, other[0], `{"type":"error","message":"M","code":"busy"}`)
	if _, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{}, nil); !errors.Is(err, proto.ErrBusy) {
		t.Errorf("error = %v", err)
	}
}

// TestBrokenPackets: a packet without a type ends the call with an error at
// once, and so does a broken one that the sink would have passed on.
func TestBrokenPackets(t *testing.T) {
	for _, packet := range []string{`{}`, `{"content":"x"}`, `{"type":null}`, `{"type":"","content":"x"}`, `{"type":"notice","text":x}`, `{"type":"notice","text":"` + "\xff" + `"}`, `{"type":"notice"`} {
		c := answering(t, packet, `{"type":"done","full_text":"late"}`)
		for _, stream := range []bool{false, true} {
			var got events
			_, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: stream}, &got)
			if err == nil || !strings.HasPrefix(err.Error(), "rtr answered with something that is not a packet: ") || len(got.all) > 0 {
				t.Errorf("%q: error %v, the sink has %q", packet, err, got.all)
			}
		}
	}
}

// TestEventStops: a sink that fails at a packet hangs up.
func TestEventStops(t *testing.T) {
	c := answering(t, `{"type":"notice","kind":"k","text":"t"}`)
	_, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Events: true}, &events{err: errBroken})
	if !errors.Is(err, errBroken) || c.Idle() != 0 {
		t.Errorf("error %v, %d connections kept", err, c.Idle())
	}
}

// flushes is a sink that reports a flush after the text.
type flushes struct {
	events
	flushed chan struct{}
}

func (f *flushes) Flush() error {
	if slices.Contains(f.all, "a") {
		f.flushed <- struct{}{}
	}
	return nil
}

// TestFlushBehindOtherPackets: text does not wait for the next delta because
// another packet came with it.
func TestFlushBehindOtherPackets(t *testing.T) {
	for _, packet := range []string{`{"type":"keepalive"}`, `{"type":"notice","text":"t"}`, `{"type": "chunk", "delta": ""}`} {
		f := &flushes{flushed: make(chan struct{}, 9)}
		path := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
			if nc.Receive() == "" {
				return
			}
			nc.Write(rpctest.Frame(`{"type":"chunk","delta":"a"}`) + rpctest.Frame(packet))
			select {
			case <-f.flushed:
				nc.Send(`{"type":"done","full_text":"a"}`)
			case <-t.Context().Done(): // the client has timed out
			}
		})
		c := &rpc.Client{Service: "rtr", Path: path, Silence: 10 * time.Second}
		if _, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, f); err != nil {
			t.Errorf("%s: %v", packet, err)
		}
		c.Close()
	}
}

// everything returns a text with every field, and the end of its packet.
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
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			return want, out.Text([]byte(want.Content))
		})
	})
	c := rpctest.Client(t, "rtr", path)
	for _, form := range []struct {
		req     proto.Infer
		packets []string
	}{
		{proto.Infer{}, []string{`{"type":"response","content":"one <two>"` + rest}},
		{proto.Infer{Stream: true}, []string{`{"type":"chunk","delta":"one <two>"}`, `{"type":"done","full_text":"one <two>"` + rest}},
		{proto.Infer{Events: true}, []string{`{"type":"chunk","delta":"one <two>"}`, `{"type":"done","full_text":"one <two>"` + rest}},
	} {
		nc := rpctest.Dial(t, path)
		nc.Send(fmt.Sprintf(`{"type":"infer","messages":[],"temperature":1,"top_p":1,"stream":%v,"events":%v}`, form.req.Stream, form.req.Events))
		for _, packet := range form.packets {
			if got := nc.Receive(); got != packet {
				t.Errorf("got  %s\nwant %s", got, packet)
			}
		}
		got, err := rpc.CallText(t.Context(), c, proto.RtrInfer, form.req, &sink{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestFieldsAreCopied: the returned text does not change while its connection is
// used for other answers.
func TestFieldsAreCopied(t *testing.T) {
	n := 0
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, req proto.Infer, _ *rpc.Out) (proto.Text, error) {
			n++
			return proto.Text{Content: strings.Repeat("x", req.MaxTokens), ToolCalls: proto.Raw(fmt.Sprintf(`[{"id":"%d"}]`, n))}, nil
		})
	})
	c := rpctest.Client(t, "rtr", path)
	var all []proto.Text
	for i := range 12 {
		text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: i%2 > 0, MaxTokens: i % 3 * 5000}, &sink{})
		zinotest.Must(t, err)
		all = append(all, text)
	}
	for i, text := range all {
		if want := fmt.Sprintf(`[{"id":"%d"}]`, i+1); string(text.ToolCalls) != want {
			t.Errorf("tool_calls = %s, want %s", text.ToolCalls, want)
		}
	}
}

// TestRecycle: lists of concurrent requests do not mix though their memory is used
// again, also that of an answer that is passed on.
func TestRecycle(t *testing.T) {
	list := func(channel string) proto.Raw {
		b := append(wire.Buffer(100<<10), '[')
		b = wire.AppendString(b, strings.Repeat(channel, 100<<10/len(channel)))
		return append(b, ']')
	}
	far, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetHistory, func(ctx context.Context, req proto.GetHistory) (proto.History, error) {
			messages := list(req.ChannelID)
			rpc.Recycle(ctx, messages)
			return proto.History{Messages: messages}, nil
		})
	})
	mem := rpctest.Client(t, "mem", far)
	near, _ := rpctest.New(t, "ctx", "", func(s *rpc.Server) {
		rpc.Handle(s, proto.CtxBuild, func(ctx context.Context, req proto.Build) (proto.Context, error) {
			history, err := rpc.Call(ctx, mem, proto.MemGetHistory, proto.GetHistory{ChannelID: req.ChannelID})
			rpc.Recycle(ctx, history.Messages)
			return proto.Context{Messages: history.Messages}, err
		})
	})
	c := rpctest.Client(t, "ctx", near)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			channel := fmt.Sprint("channel", i)
			want := string(list(channel))
			for range 20 {
				got, err := rpc.Call(t.Context(), c, proto.CtxBuild, proto.Build{ChannelID: channel})
				if err != nil || string(got.Messages) != want {
					t.Errorf("%s: another list of %d bytes, want %d: %v", channel, len(got.Messages), len(want), err)
				}
			}
		})
	}
	wg.Wait()
}
