package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// TestPlainEvents: events without a session pass as they are; the exchange is
// stored in the channel as ever, and the agent is asked for a plain run.
func TestPlainEvents(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	got := raws(b.turn(`{"message":"hi","channel_id":"c","root":"/r","system_prompt":"p","provider":"q","model":"m","max_tokens":5,"events":true}`))
	done := `{"type":"done","full_text":"Done.","iterations":2,"stop_reason":"stop","usage":{"input_tokens":5,"output_tokens":7,"cost_usd":0.01},"provider":"p","model":"m"}`
	same(t, "packets", got, append(slices.Clone(wholeTurn), done))
	run := b.runs.list()[0]
	if !run.Events || run.SessionID != "" || *run.MaxIterations != 5 || run.Root != "/r" || run.Provider != "q" || run.Model != "m" || run.MaxTokens != 5 {
		t.Errorf("the agent is asked %+v", run)
	}
	if get := b.gets.list()[0]; get.Root != "/r" || *get.SystemPrompt != "p" {
		t.Errorf("sys is asked %+v", get)
	}
	if stored := b.stored.list(); len(stored) != 1 || string(stored[0].Messages) != `[`+hi+`,{"role":"assistant","content":"Done."}]` {
		t.Errorf("stored %s", stored)
	}
	if b.trail.has("hold") || len(b.trail.stored()) > 0 {
		t.Errorf("steps %s", b.trail.list())
	}
}

// TestPlainFields: a plain message has a root, a prompt and a model of its own.
func TestPlainFields(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newEnv(t, all())
		b.ask(`{"message":"hi","root":"/r","system_prompt":"","provider":"q","model":"m","max_tokens":5,"effort":"high"` + more + `}`)
		run := b.runs.list()[0]
		if run.Events || run.Stream == nil || *run.Stream != stream || run.Root != "/r" || run.Provider != "q" || run.Model != "m" || run.MaxTokens != 5 || run.Effort != "high" {
			t.Errorf("the agent is asked %+v", run)
		}
		if get := b.gets.list()[0]; get.Root != "/r" || get.SystemPrompt == nil || *get.SystemPrompt != "" {
			t.Errorf("sys is asked %+v", get)
		}
	})
}

// TestUnreadablePrompt: a prompt that somebody has named is not left out.
func TestUnreadablePrompt(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		n := all()
		n.sys = func(context.Context, proto.GetPrompt, *rpc.Out) error {
			return proto.Errorf(proto.CodeInvalid, "/p cannot be read")
		}
		b := newEnv(t, n)
		_, last := b.ask(`{"message":"hi"` + more + `}`)
		if last.Raw != `{"type":"error","message":"/p cannot be read","code":"invalid","service":"sys"}` || len(b.runs.list()) > 0 {
			t.Errorf("last packet %s", last.Raw)
		}
	})
}

// TestFallbackEvents: the model's chunks become events where no agent is there,
// and what it says between them passes.
func TestFallbackEvents(t *testing.T) {
	for _, collected := range []bool{false, true} {
		n := all()
		n.agr = nil
		n.rtr = func(_ context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
			text := proto.Text{Content: "The <m>.", StopReason: "stop", Provider: "p", Usage: &proto.Usage{InputTokens: 1, OutputTokens: 2}, ToolCalls: proto.Raw(`[]`)}
			if !req.Events || req.Provider != "q" || req.Model != "m" || req.MaxTokens != 5 {
				return text, fmt.Errorf("rtr is asked %+v", req)
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
		c := b.dial()
		c.Send(`{"message":"hi","channel_id":"c","provider":"q","model":"m","max_tokens":5,"events":true}`)
		want := []string{reasoning, `{"type":"assistant_delta","text":"The "}`, retry, `{"type":"assistant_delta","text":"<m>."}`}
		if collected {
			want = []string{`{"type":"assistant_delta","text":"The <m>."}`}
		}
		same(t, "packets", raws(c.rest()), append(
			want, `{"type":"assistant_final","text":"The <m>."}`,
			`{"type":"done","full_text":"The <m>.","stop_reason":"stop","usage":{"input_tokens":1,"output_tokens":2},"provider":"p"}`,
		))
		if stored := b.stored.list(); len(stored) != 1 {
			t.Errorf("%d turns are stored", len(stored))
		}
	}
}

// TestPlainEventsEnd: errors and interruptions of plain messages with events.
func TestPlainEventsEnd(t *testing.T) {
	worded := &proto.Error{Code: proto.CodeBudget, Message: "rtr error: M", Service: "rtr", Kind: "api_error"}
	for _, c := range []struct {
		err  error
		want []string
	}{
		{worded, []string{`{"type":"error","message":"rtr error: M","code":"budget","service":"rtr","kind":"api_error"}`}},
		{errors.New("broke"), []string{`{"type":"error","message":"agr run: broke","code":"internal","service":"agr"}`}},
		{context.Canceled, []string{`{"type":"interrupted"}`, interruptedLast}},
	} {
		b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
			if err := say(deltaA); err != nil {
				return proto.Text{}, err
			}
			return proto.Text{}, c.err
		})
		same(t, "packets", raws(b.turn(`{"message":"hi","channel_id":"c","events":true}`)), append([]string{deltaA}, c.want...))
		if n := len(b.stored.list()) + len(b.infers.list()); n > 0 {
			t.Errorf("%v: %d requests too many", c.err, n)
		}
	}
}

// TestPlainEventsLeave: a caller of events who leaves cancels the agent.
func TestPlainEventsLeave(t *testing.T) {
	n, block := all(), newBlocked()
	n.agr = func(ctx context.Context, _ proto.Run, _ *rpc.Out) (proto.Text, error) {
		return proto.Text{}, block.wait(ctx)
	}
	b := newEnv(t, n)
	b.leave(`{"message":"hi","channel_id":"c","events":true}`, block)
	if stored := b.stored.list(); len(stored) > 0 {
		t.Errorf("stored %s", stored)
	}
}

// malformed reports whether an error is about a malformed packet of agr: found by
// rpc or by the daemon.
func malformed(message string) bool {
	return strings.HasPrefix(message, "agr answered with something that is not a packet: ") || strings.HasPrefix(message, "agr sent a malformed packet: ")
}

// TestNoPacket: an agent that talks nonsense is an error of the turn.
func TestNoPacket(t *testing.T) {
	for _, packet := range []string{`{"type":"tool_requested","id":5}`, `{"type":"assistant_delta","text":x}`, `{"text":"x"}`, `[]`} {
		b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
			return ends(), say(deltaA, deltaB, packet)
		})
		packets := b.turn(turnPayload)
		last := packets[len(packets)-1]
		if last.Type != "error" || last.Code != "internal" || !malformed(last.Message) {
			t.Errorf("%s: %s", packet, last.Raw)
		}
		stored := b.trail.stored()
		if len(stored) != 3 || stored[1] != storedPart || !malformed(strings.TrimPrefix(stored[2], `{"type":"error","message":"`)) {
			t.Errorf("%s: stored %s", packet, stored)
		}
	}
	// A delta without a text is none, and passes.
	odd := []string{`{"type":"assistant_delta"}`, `{"type":"assistant_delta","text":5}`, `{"type":"something_new","x":1}`}
	b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
		return proto.Text{}, say(odd...)
	})
	same(t, "packets", raws(b.turn(turnPayload)), append(slices.Clone(odd), `{"type":"done","full_text":""}`))
	same(t, "stored", b.trail.stored(), []string{storedUser})
}

// TestManyDeltas: thousands of pieces come in their order and are one text.
func TestManyDeltas(t *testing.T) {
	const count = 5000
	var text, all5k []string
	for i := range count {
		text = append(text, fmt.Sprintf("<%d>\n", i))
		all5k = append(all5k, fmt.Sprintf(`{"type":"assistant_delta","text":"<%d>\n"}`, i))
	}
	for _, ending := range []string{"whole", "cut"} {
		b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
			if err := say(all5k...); err != nil || ending == "whole" {
				return proto.Text{Content: strings.Join(text, "")}, err
			}
			return proto.Text{}, errors.New("cut")
		})
		packets := b.turn(turnPayload)
		if got := raws(packets); len(got) < count || !slices.Equal(got[:count], all5k) {
			t.Fatalf("%d packets came", len(got))
		}
		stored := b.trail.stored()[1]
		if want := strings.ReplaceAll(strings.Join(text, ""), "\n", `\n`); !strings.Contains(stored, `"text":"`+want+`"`) || strings.Contains(stored, "partial") == (ending == "whole") {
			t.Errorf("%s: stored %.200s", ending, stored)
		}
	}
}
