package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestPlainRequest checks that agr, sys and rtr get the parameters of the request and
// of the configuration.
func TestPlainRequest(t *testing.T) {
	n := all()
	n.config = func(cfg *config.Config) {
		cfg.Agent.Temperature, cfg.Agent.TopP, cfg.Agr.MaxIterations, cfg.Agent.MaxIterations = 0.25, 0.5, 9, 4
	}
	for _, direct := range []bool{false, true} {
		rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
			n := n
			if direct {
				n.agr = nil
			}
			b := newEnv(t, n)
			b.ask(`{"message":"hi","root":"/r","system_prompt":"","provider":"q","model":"m","max_tokens":5,"effort":"high","need_model":true` + more + `}`)
			if get := b.gets.All()[0]; get.Root != "/r" || get.SystemPrompt == nil || *get.SystemPrompt != "" {
				t.Errorf("sys was asked %+v", get)
			}
			if direct {
				infer := b.infers.All()[0]
				if string(infer.Messages) != "["+system+","+old+","+hi+"]" || infer.Temperature != 0.25 || infer.TopP != 0.5 || infer.Stream != stream || !infer.NeedModel || infer.Effort != "high" {
					t.Errorf("rtr was asked %+v", infer)
				}
				return
			}
			run := b.runs.All()[0]
			if run.Events || run.Stream == nil || *run.Stream != stream || run.Root != "/r" || run.Provider != "q" || run.Model != "m" || run.MaxTokens != 5 ||
				run.Effort != "high" || run.Temperature != 0.25 || run.TopP != 0.5 || run.MaxIterations == nil || *run.MaxIterations != 9 || !run.NeedModel {
				t.Errorf("agr was asked %+v", run)
			}
		})
	}
}

// TestPlainForms checks the exact packets of each form of an answer, from agr and from
// rtr, in one piece and in several, without the fields that rtr adds.
func TestPlainForms(t *testing.T) {
	three := 3
	for _, c := range []struct {
		name, more string
		pieces     []string
		direct     bool // rtr answers
		want       []string
	}{
		{"collected", "", []string{"The ", "<b>."}, false, []string{`{"type":"response","content":"The <b>."}`}},
		{"streamed", `,"stream":true`, []string{"The ", "<b>."}, false, []string{`{"type":"chunk","delta":"The "}`, `{"type":"chunk","delta":"<b>."}`, `{"type":"done","full_text":"The <b>.","iterations":3}`}},
		{"whole", `,"stream":true`, nil, false, []string{`{"type":"chunk","delta":"The <b>."}`, `{"type":"done","full_text":"The <b>.","iterations":3}`}},
		{"collected by rtr", "", []string{"The ", "<b>."}, true, []string{`{"type":"response","content":"The <b>."}`}},
		{"streamed by rtr", `,"stream":true`, []string{"The ", "<b>."}, true, []string{`{"type":"chunk","delta":"The "}`, `{"type":"chunk","delta":"<b>."}`, `{"type":"done","full_text":"The <b>."}`}},
		{"whole by rtr", `,"stream":true`, nil, true, []string{`{"type":"chunk","delta":"The <b>."}`, `{"type":"done","full_text":"The <b>."}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			n.rtr = func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
				if c.pieces == nil {
					out.Collect()
				}
				_, err := say(out, c.pieces)
				return proto.Text{
					Content: "The <b>.", Usage: &proto.Usage{InputTokens: 5, OutputTokens: 7}, Provider: "openai", Model: "m",
					ToolCalls: proto.Raw(`[]`), State: proto.Raw(`{}`), StopReason: "stop",
				}, err
			}
			n.agr = func(ctx context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
				text, err := n.rtr(ctx, proto.Infer{}, out)
				text.Iterations = &three
				return text, err
			}
			if c.direct {
				n.agr = nil
			}
			b := newEnv(t, n)
			packets, _ := b.turn(`{"message":"hi","channel_id":"c"` + c.more + `}`)
			equalLists(t, "packets", packets, c.want)
			if stored := b.stored.All(); len(stored) != 1 || string(stored[0].Messages) != `[`+hi+`,{"role":"assistant","content":"The <b>."}]` {
				t.Errorf("stored %s", stored)
			}
		})
	}
}

// TestNoService checks that without agr and rtr there is one error, which names rtr.
func TestNoService(t *testing.T) {
	rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
		n := all()
		n.agr, n.rtr = nil, nil
		b := newEnv(t, n)
		streamed, last := b.ask(`{"message":"hi","channel_id":"a"` + more + `}`)
		if last.Type != "error" || !strings.HasPrefix(last.Message, "Could not connect to rtr: ") || last.Code != "unavailable" || streamed != "" {
			t.Errorf("streamed %q, then %s", streamed, last.Raw)
		}
		b.checkIdle()
	})
}

// TestErrorOfAgent checks that an error of agr, even one about a connection, reaches
// the caller unchanged, and is not stored.
func TestErrorOfAgent(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{
			"with text", &proto.Error{Code: proto.CodeBudget, Message: "Agentic runtime error: rtr error: <M>", Service: "rtr", Status: 429, Details: "d"},
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
				rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
					n := all()
					n.agr = func(_ context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
						return proto.Text{}, cmp.Or(out.Text([]byte(partial)), c.err)
					}
					b := newEnv(t, n)
					streamed, last := b.ask(`{"message":"hi","channel_id":"a"` + more + `}`)
					if last.Raw != c.want || stream && streamed != partial {
						t.Errorf("streamed %q, then %s", streamed, last.Raw)
					}
					if len(b.infers.All())+len(b.stored.All()) > 0 {
						t.Error("rtr was asked, or the error was stored")
					}
				})
			})
		}
	}
}

// TestAgentHangsUp checks that the turn fails without a request to rtr if agr accepts
// the request and closes the connection.
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
		b.checkIdle()
	}
}

// TestStaleSocket checks that a socket file without a listener is treated like an agr
// that is not running.
func TestStaleSocket(t *testing.T) {
	n := all()
	n.agr = nil
	b := newEnv(t, n)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.cfg.Agr.Socket, Net: "unix"})
	zinotest.Must(t, err)
	l.SetUnlinkOnClose(false)
	zinotest.Must(t, l.Close())
	_, err = os.Stat(b.cfg.Agr.Socket)
	zinotest.Must(t, err)
	_, last := b.ask(`{"message":"hi"}`)
	zinotest.Equal(t, "the answer", last.Text(), "The model.")
}

// TestStoredBeforeTheEnd checks that the exchange is stored after the text and before
// the terminal packet is sent.
func TestStoredBeforeTheEnd(t *testing.T) {
	var stored atomic.Bool
	n, block := all(), rpctest.NewBlock()
	n.mem = func(ctx context.Context, _ proto.AppendHistory) (proto.Empty, error) {
		err := block.Wait(ctx)
		stored.Store(true)
		return proto.Empty{}, err
	}
	b := newEnv(t, n)
	c := b.dial()
	c.Send(`{"message":" hi ","channel_id":"kitchen/é","stream":true}`)
	block.Begun(t)
	c.Streamed("The answer.")
	ended := make(chan rpctest.Packet, 1)
	go func() { ended <- c.Next() }()
	b.ask(`{"type":"ping"}`) // the daemon works meanwhile
	select {
	case p := <-ended:
		t.Fatalf("before the exchange was stored: %s", p.Raw)
	default:
	}
	block.Release()
	if p := <-ended; p.Type != "done" || !stored.Load() {
		t.Errorf("the end is %s, stored: %v", p.Raw, stored.Load())
	}
	if all := b.stored.All(); len(all) != 1 || all[0].ChannelID != "kitchen/é" || string(all[0].Messages) != `[`+hi+`,{"role":"assistant","content":"The answer."}]` {
		t.Errorf("stored %s", all)
	}
}

// TestNotStored checks that errors, empty answers, and turns without a channel or with
// no_save are not stored.
func TestNotStored(t *testing.T) {
	fails := func(_ context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
		_, err := say(out, []string{"half"})
		return proto.Text{Content: "half"}, errors.Join(err, errors.New("cut"))
	}
	for _, c := range []struct {
		name, request, last string
		agr                 func(context.Context, proto.Run, *rpc.Out) (proto.Text, error)
	}{
		{"no channel", `{"message":"hi"`, "response", agent("x")},
		{"null channel", `{"message":"hi","channel_id":null`, "response", agent("x")},
		{"empty channel", `{"message":"hi","channel_id":""`, "response", agent("x")},
		{"empty answer", `{"message":"hi","channel_id":"a"`, "response", agent("")},
		{"no_save", `{"message":"hi","channel_id":"a","no_save":true`, "response", agent("x")},
		{"error", `{"message":"hi","channel_id":"a"`, "error", fails},
	} {
		t.Run(c.name, func(t *testing.T) {
			rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
				n := all()
				n.agr = c.agr
				b := newEnv(t, n)
				_, last := b.ask(c.request + more + `}`)
				if want := map[bool]string{true: "done"}[stream && c.last == "response"]; last.Type != c.last && last.Type != want {
					t.Errorf("last packet %s", last.Raw)
				}
				if stored := b.stored.All(); len(stored) > 0 {
					t.Errorf("stored %s", stored)
				}
			})
		})
	}
}

// TestHistoryFails checks that the answer has not_stored if mem is not running or
// cannot store the exchange, and that the log does not contain the text.
func TestHistoryFails(t *testing.T) {
	for name, mem := range map[string]func(context.Context, proto.AppendHistory) (proto.Empty, error){
		"not running": nil,
		"disk full": func(context.Context, proto.AppendHistory) (proto.Empty, error) {
			return proto.Empty{}, errors.New("disk full")
		},
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
				n := all()
				n.mem = mem
				n.agr = agent("secret words")
				b := newEnv(t, n)
				_, last := b.ask(`{"message":"hi","channel_id":"a"` + more + `}`)
				if last.Text() != "secret words" || last.Type == "error" || !strings.Contains(last.Raw, `"not_stored":"`) {
					t.Errorf("last packet %s", last.Raw)
				}
				if !b.log.Contains("could not be stored") || b.log.Contains("secret words") {
					t.Errorf("the log is %s", b.log.String())
				}
			})
		})
	}
}

// TestConcurrentChannel checks that concurrent turns on one channel are stored
// completely, in the order in which they ended.
func TestConcurrentChannel(t *testing.T) {
	const turns = 6
	begun := make(chan struct{})
	var goOn [turns]chan struct{}
	n := all()
	n.agr = func(ctx context.Context, req proto.Run, _ *rpc.Out) (proto.Text, error) {
		var i int
		text := string(req.Messages[strings.LastIndex(string(req.Messages), `"turn `):])
		if _, err := fmt.Sscanf(text, `"turn %d"`, &i); err != nil {
			return proto.Text{}, err
		}
		begun <- struct{}{}
		return proto.Text{Content: fmt.Sprintf("answer %d", i)}, rpctest.Until(ctx, goOn[i])
	}
	b := newEnv(t, n)
	callers := make([]*rpctest.Conn, turns)
	for i := range callers {
		goOn[i] = make(chan struct{})
		callers[i] = b.dial()
		callers[i].Send(fmt.Sprintf(`{"message":"turn %d","channel_id":"a"}`, i))
	}
	for range turns {
		zinotest.Receive(t, "all turns to start", begun)
	}
	for i := range turns {
		last := turns - 1 - i
		close(goOn[last])
		if _, p := callers[last].Finish(); p.Text() != fmt.Sprintf("answer %d", last) {
			t.Errorf("turn %d: %s", last, p.Raw)
		}
	}
	for i, stored := range b.stored.All() {
		want := fmt.Sprintf(`[{"role":"user","content":"turn %d"},{"role":"assistant","content":"answer %[1]d"}]`, turns-1-i)
		zinotest.Equal(t, "the exchange", string(stored.Messages), want)
	}
}

// TestBig checks that a message and an answer of 5 MB are passed on and stored. For a
// collected answer 1 MB is enough, because the code is the same.
func TestBig(t *testing.T) {
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		size := map[bool]int{true: 5 << 20, false: 1 << 20}[stream]
		big := strings.Repeat("0123456789abcdef", size/16)
		n := all()
		n.agr = agent(big, "!")
		b := newEnv(t, n)
		streamed, last := b.ask(`{"message":"` + big + `","channel_id":"a"` + more + `}`)
		if last.Text() != big+"!" || stream && streamed != big+"!" {
			t.Errorf("streamed %d bytes, then %d", len(streamed), len(last.Text()))
		}
		if got := string(b.runs.All()[0].Messages); got != "["+system+","+old+`,{"role":"user","content":"`+big+`"}]` {
			t.Errorf("agr got %d bytes", len(got))
		}
		if got := string(b.stored.All()[0].Messages); got != `[{"role":"user","content":"`+big+`"},{"role":"assistant","content":"`+big+`!"}]` {
			t.Errorf("mem got %d bytes", len(got))
		}
	})
}

// TestPlainEvents checks that events without a session are passed on unchanged, that
// the exchange is stored in the channel, and that agr gets no session.
func TestPlainEvents(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	got, _ := b.turn(`{"message":"hi","channel_id":"c","root":"/r","system_prompt":"p","provider":"q","model":"m","max_tokens":5,"events":true}`)
	equalLists(t, "packets", got, append(slices.DeleteFunc(slices.Clone(wholeTurn), isCheckpoint), wholeDone))
	run := b.runs.All()[0]
	if !run.Events || run.SessionID != "" || *run.MaxIterations != 5 || run.Root != "/r" || run.Provider != "q" || run.Model != "m" || run.MaxTokens != 5 {
		t.Errorf("agr was asked %+v", run)
	}
	if get := b.gets.All()[0]; get.Root != "/r" || *get.SystemPrompt != "p" {
		t.Errorf("sys was asked %+v", get)
	}
	if stored := b.stored.All(); len(stored) != 1 || string(stored[0].Messages) != `[`+hi+`,{"role":"assistant","content":"Done."}]` {
		t.Errorf("stored %s", stored)
	}
	if b.trail.has("hold") || len(b.trail.stored()) > 0 {
		t.Errorf("steps %s", b.trail.All())
	}
}

// TestFallbackEvents checks that without agr the chunks of rtr become events, and that
// the packets between them are passed on.
func TestFallbackEvents(t *testing.T) {
	for _, collected := range []bool{false, true} {
		n := all()
		n.agr = nil
		n.rtr = func(_ context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
			text := proto.Text{Content: "The <m>.", StopReason: "stop", Provider: "p", Usage: &proto.Usage{InputTokens: 1, OutputTokens: 2}, ToolCalls: proto.Raw(`[]`)}
			if !req.Events || req.Provider != "q" || req.Model != "m" || req.MaxTokens != 5 {
				return text, fmt.Errorf("rtr was asked %+v", req)
			}
			if collected {
				out.Collect()
				return text, nil
			}
			for _, p := range []string{reasoning, `{"type":"chunk","delta":"The "}`, retry, `{"type":"chunk","delta":"<m>."}`} {
				if err := out.Frame([]byte(p)); err != nil {
					return text, err
				}
			}
			return text, out.Flush()
		}
		b := newEnv(t, n)
		got, _ := b.turn(`{"message":"hi","channel_id":"c","provider":"q","model":"m","max_tokens":5,"events":true}`)
		want := []string{reasoning, `{"type":"assistant_delta","text":"The "}`, retry, `{"type":"assistant_delta","text":"<m>."}`}
		if collected {
			want = []string{`{"type":"assistant_delta","text":"The <m>."}`}
		}
		equalLists(t, "packets", got, append(
			want, `{"type":"assistant_final","text":"The <m>."}`,
			`{"type":"done","full_text":"The <m>.","stop_reason":"stop","usage":{"input_tokens":1,"output_tokens":2},"provider":"p"}`,
		))
		if stored := b.stored.All(); len(stored) != 1 {
			t.Errorf("%d exchanges are stored", len(stored))
		}
	}
}

// TestPlainEventsEnd checks errors and interruptions of plain messages with events.
func TestPlainEventsEnd(t *testing.T) {
	budget := &proto.Error{Code: proto.CodeBudget, Message: "rtr error: M", Service: "rtr", Kind: "api_error"}
	for _, c := range []struct {
		err  error
		want []string
	}{
		{budget, []string{`{"type":"error","message":"rtr error: M","code":"budget","service":"rtr","kind":"api_error"}`}},
		{errors.New("broke"), []string{`{"type":"error","message":"agr run: broke","code":"internal","service":"agr"}`}},
		{context.Canceled, []string{`{"type":"interrupted"}`, interruptedLast}},
	} {
		b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
			return proto.Text{}, cmp.Or(say(deltaA), c.err)
		})
		got, _ := b.turn(`{"message":"hi","channel_id":"c","events":true}`)
		equalLists(t, "packets", got, append([]string{deltaA}, c.want...))
		if n := len(b.stored.All()) + len(b.infers.All()); n > 0 {
			t.Errorf("%v: %d requests too many", c.err, n)
		}
	}
}
