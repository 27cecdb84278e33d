package rpc_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// events is a sink that writes down all that comes.
type events struct {
	all []string
	err error // of the next event
}

func (e *events) Text(delta []byte) error { e.all = append(e.all, string(delta)); return nil }
func (e *events) Flush() error            { return nil }

func (e *events) Event(typ string, payload []byte) error {
	e.all = append(e.all, typ+" "+string(payload))
	return e.err
}

// talkative streams text with other packets between the chunks: some of our
// own making, some as another program might send them.
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

// TestPacketsBetween: packets between the chunks keep their places, and go to
// sinks that take them; for the others there is the text.
func TestPacketsBetween(t *testing.T) {
	path, _ := start(t, "rtr", func(s *rpc.Server) { rpc.HandleText(s, proto.RtrInfer, talkative) })
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
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
	path, _ := start(t, "rtr", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			out.Collect()
			return proto.Text{Content: "all"}, out.Event("notice", proto.Notice{Kind: "wait", Text: "w"})
		})
	})
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
	var got events
	text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Events: true}, &got)
	if err != nil || text.Content != "all" || !slices.Equal(got.all, []string{`notice {"type":"notice","kind":"wait","text":"w"}`, "all"}) {
		t.Errorf("%q, %v, the sink has %q", text.Content, err, got.all)
	}
}

// TestRelayKeepsPacketsBack: a caller behind an Out sees chunks and the end
// only: what it did not ask for it may not know.
func TestRelayKeepsPacketsBack(t *testing.T) {
	far, _ := start(t, "rtr", func(s *rpc.Server) { rpc.HandleText(s, proto.RtrInfer, talkative) })
	c := &rpc.Client{Service: "rtr", Path: far}
	defer c.Close()
	near, _ := start(t, "daemon", func(s *rpc.Server) {
		rpc.HandleText(s, proto.DaemonChat, func(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
			return rpc.CallText(ctx, c, proto.RtrInfer, proto.Infer{Stream: req.Stream}, out)
		})
	})
	nc := dial(t, near)
	send(t, nc, `{"message":"x","stream":true}`)
	var got []string
	for range 5 {
		got = append(got, receive(t, nc))
	}
	want := []string{
		`{"type":"chunk","delta":"a"}`, `{"type":"chunk","delta":"b"}`, `{"type":"chunk","delta":"c"}`, `{"type":"chunk","delta":"d"}`,
		`{"type":"done","full_text":"abcd"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// answering is a peer that answers every request with these packets.
func answering(t *testing.T, packets ...string) *rpc.Client {
	t.Helper()
	c := &rpc.Client{Service: "rtr", Path: raw(t, func(_ int, nc *net.UnixConn) {
		for take(nc) == nil {
			for _, p := range packets {
				nc.Write(frame(p))
			}
		}
	})}
	t.Cleanup(c.Close)
	return c
}

// TestOnlyTheReplyEnds: a packet of a type that means nothing here is not the
// answer, whatever it holds.
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

// flushes is a sink that tells when it is flushed with text in it.
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
		path := raw(t, func(_ int, nc *net.UnixConn) {
			if take(nc) != nil {
				return
			}
			nc.Write(append(frame(`{"type":"chunk","delta":"a"}`), frame(packet)...))
			select {
			case <-f.flushed:
				nc.Write(frame(`{"type":"done","full_text":"a"}`))
			case <-t.Context().Done(): // the client has given up
			}
		})
		c := &rpc.Client{Service: "rtr", Path: path, Silence: 10 * time.Second}
		if _, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, f); err != nil {
			t.Errorf("%s: %v", packet, err)
		}
		c.Close()
	}
}
