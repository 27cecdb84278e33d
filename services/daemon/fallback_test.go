package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestFallback: without an agent the model answers, in the form asked for, and
// the turn is stored.
func TestFallback(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		n := all()
		n.agr = nil
		b := newEnv(t, n)
		streamed, last := b.ask(`{"message":"hi","channel_id":"a","need_model":true` + more + `}`)
		want := `{"type":"response","content":"The model."}`
		if stream {
			want = `{"type":"done","full_text":"The model."}`
		}
		if last.Raw != want || stream != (streamed == "The model.") {
			t.Errorf("streamed %q, then %s", streamed, last.Raw)
		}
		infer := b.infers.list()[0]
		if string(infer.Messages) != "["+system+","+old+","+hi+"]" || infer.Temperature != 0.7 || infer.TopP != 1 || infer.Stream != stream || !infer.NeedModel {
			t.Errorf("rtr is asked %+v", infer)
		}
		if len(b.stored.list()) != 1 {
			t.Error("the turn is not stored")
		}
	})
}

// TestPlainShape: clients see text and nothing of what rtr says about it.
func TestPlainShape(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		n := all()
		n.agr = nil
		n.rtr = func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			text, err := say(out, []string{"The model."})
			text.Usage, text.Provider, text.Model = &proto.Usage{InputTokens: 5, OutputTokens: 7}, "openai", "m"
			text.ToolCalls, text.State, text.StopReason = proto.Raw(`[]`), proto.Raw(`{}`), "stop"
			return text, err
		}
		b := newEnv(t, n)
		want := `{"type":"response","content":"The model."}`
		if stream {
			want = `{"type":"done","full_text":"The model."}`
		}
		if _, last := b.ask(`{"message":"hi"` + more + `}`); last.Raw != want {
			t.Errorf("got %s, want %s", last.Raw, want)
		}
	})
}

// TestNobody: nothing reachable is one error that names rtr.
func TestNobody(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		n := all()
		n.agr, n.rtr = nil, nil
		b := newEnv(t, n)
		streamed, last := b.ask(`{"message":"hi","channel_id":"a"` + more + `}`)
		if last.Type != "error" || !strings.HasPrefix(last.Message, "Could not connect to rtr: ") || last.Code != "unavailable" || streamed != "" {
			t.Errorf("streamed %q, then %s", streamed, last.Raw)
		}
		if len(b.stored.list()) > 0 {
			t.Error("the error is stored")
		}
	})
}

// TestNoSecondAnswer: once the agent was reached its error is the answer, word
// for word, even one about a connection.
func TestNoSecondAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{
			"worded", &proto.Error{Code: proto.CodeBudget, Message: "Agentic runtime error: rtr error: <M>", Service: "rtr", Status: 429, Details: "d"},
			`{"type":"error","message":"Agentic runtime error: rtr error: <M>","code":"budget","service":"rtr","status":429,"details":"d"}`,
		},
		{
			"about a connection", &proto.Error{Code: proto.CodeUnavailable, Message: "Could not connect to rtr: gone", Service: "agr"},
			`{"type":"error","message":"Could not connect to rtr: gone","code":"unavailable","service":"agr"}`,
		},
		{"any other", errors.New("it broke"), `{"type":"error","message":"agr run: it broke","code":"internal","service":"agr"}`},
	} {
		for _, partial := range []string{"", "half an"} {
			t.Run(c.name+" after "+partial, func(t *testing.T) {
				modes(t, func(t *testing.T, stream bool, more string) {
					n := all()
					n.agr = func(_ context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
						if err := out.Text([]byte(partial)); err != nil {
							return proto.Text{}, err
						}
						return proto.Text{}, c.err
					}
					b := newEnv(t, n)
					streamed, last := b.ask(`{"message":"hi","channel_id":"a"` + more + `}`)
					if last.Raw != c.want || stream && streamed != partial {
						t.Errorf("streamed %q, then %s", streamed, last.Raw)
					}
					if len(b.infers.list())+len(b.stored.list()) > 0 {
						t.Error("rtr was asked, or the error was stored")
					}
				})
			})
		}
	}
}

// TestAgentHangsUp: an agent that took the request and went away is an error,
// and no reason to ask anybody else.
func TestAgentHangsUp(t *testing.T) {
	const chunk = "\x00\x00\x00\x1e" + `{"type":"chunk","delta":"ha<"}`
	for _, answer := range []string{"", chunk, chunk + "\x00\x00\x00\x02[]", chunk + "\xff\xff\xff\xff"} {
		n := all()
		n.agr = nil
		b := newEnv(t, n)
		rpctest.Raw(t, b.cfg.Agr.Socket, answer)
		streamed, last := b.ask(`{"message":"hi","channel_id":"a","stream":true}`)
		if last.Type != "error" || last.Message == "" || answer != "" && streamed != "ha<" {
			t.Errorf("%q: streamed %q, then %s", answer, streamed, last.Raw)
		}
		if len(b.infers.list())+len(b.stored.list()) > 0 {
			t.Errorf("%q: rtr was asked, or the error was stored", answer)
		}
	}
}

// TestStaleSocket: a socket file that nobody listens on counts as no agent.
func TestStaleSocket(t *testing.T) {
	n := all()
	n.agr = nil
	b := newEnv(t, n)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.cfg.Agr.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.cfg.Agr.Socket); err != nil {
		t.Fatal(err)
	}
	if _, last := b.ask(`{"message":"hi"}`); last.Text() != "The model." {
		t.Errorf("last packet %s", last.Raw)
	}
}

// TestAgentAnswersWhole: a caller that asked for a stream gets chunk and done
// whoever answers in one piece, the agent or the model.
func TestAgentAnswersWhole(t *testing.T) {
	for _, c := range []struct{ name, done string }{
		{"agr", `{"type":"done","full_text":"whole <b>","iterations":2}`}, {"rtr", `{"type":"done","full_text":"whole <b>"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			n.rtr = func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
				out.Collect()
				return proto.Text{Content: "whole <b>"}, nil
			}
			n.agr = func(ctx context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
				text, err := n.rtr(ctx, proto.Infer{}, out)
				two := 2
				text.Iterations = &two
				return text, err
			}
			if c.name == "rtr" {
				n.agr = nil
			}
			b := newEnv(t, n)
			if streamed, last := b.ask(`{"message":"hi","stream":true}`); streamed != "whole <b>" || last.Raw != c.done {
				t.Errorf("streamed %q, then %s", streamed, last.Raw)
			}
		})
	}
}
