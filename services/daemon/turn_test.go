package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestAnswers: the packets of both forms, to the letter.
func TestAnswers(t *testing.T) {
	b := newEnv(t, all())
	if _, last := b.ask(`{"message":"hi"}`); last.Raw != `{"type":"response","content":"The answer."}` {
		t.Errorf("collected: %s", last.Raw)
	}
	c := b.dial()
	c.Send(`{"message":"hi","stream":true}`)
	for _, want := range []string{`{"type":"chunk","delta":"The "}`, `{"type":"chunk","delta":"answer."}`, `{"type":"done","full_text":"The answer.","iterations":3}`} {
		if p := c.Next(); p.Raw != want {
			t.Errorf("got %s, want %s", p.Raw, want)
		}
	}
}

// TestStoredBeforeTheEnd: whoever has read the last packet finds the turn. The
// fake mem keeps it only when it is about to answer.
func TestStoredBeforeTheEnd(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		n := all()
		n.agr = agent("<b>\"é\"\n")
		b := newEnv(t, n)
		b.ask(`{"message":" hi ","channel_id":"kitchen/é"` + more + `}`)
		stored := b.stored.list()
		want := `[` + hi + `,{"role":"assistant","content":"<b>\"é\"\n"}]`
		if len(stored) != 1 || stored[0].ChannelID != "kitchen/é" || string(stored[0].Messages) != want {
			t.Errorf("stored %s", stored)
		}
	})
}

// TestNoEndBeforeStored: while mem works on the turn, the text is there and the
// last packet is not.
func TestNoEndBeforeStored(t *testing.T) {
	storing, finish := make(chan struct{}), make(chan struct{})
	var storedFirst atomic.Bool
	n := all()
	n.mem = func(ctx context.Context, _ proto.AppendHistory) (proto.Empty, error) {
		close(storing)
		err := until(ctx, finish)
		storedFirst.Store(true)
		return proto.Empty{}, err
	}
	b := newEnv(t, n)
	c := b.dial()
	c.Send(`{"message":"hi","channel_id":"a","stream":true}`)
	zinotest.Receive(t, "the turn to be stored", storing)
	for text := ""; text != "The answer."; {
		text += c.Next().Delta
	}
	ended := make(chan packet, 1)
	go func() { ended <- c.Next() }()
	b.ask(`{"type":"ping"}`) // the daemon goes on meanwhile
	select {
	case p := <-ended:
		t.Fatalf("before the turn was stored: %s", p.Raw)
	default:
	}
	close(finish)
	if p := <-ended; p.Type != "done" || !storedFirst.Load() {
		t.Errorf("the end is %s, stored: %v", p.Raw, storedFirst.Load())
	}
}

// TestNotStored: errors, empty answers and turns without a channel leave no
// trace in a history.
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
		{"error", `{"message":"hi","channel_id":"a"`, "error", fails},
		{"empty message", `{"message":" ","channel_id":"a"`, "error", agent("x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, stream bool, more string) {
				n := all()
				n.agr = c.agr
				b := newEnv(t, n)
				_, last := b.ask(c.request + more + `}`)
				if want := map[bool]string{true: "done"}[stream && c.last == "response"]; last.Type != c.last && last.Type != want {
					t.Errorf("last packet %s", last.Raw)
				}
				if stored := b.stored.list(); len(stored) > 0 {
					t.Errorf("stored %s", stored)
				}
			})
		})
	}
}

// TestNotStorable: a mem that fails or is away costs the history, not the
// answer.
func TestNotStorable(t *testing.T) {
	for name, mem := range map[string]func(context.Context, proto.AppendHistory) (proto.Empty, error){
		"away": nil,
		"fails": func(context.Context, proto.AppendHistory) (proto.Empty, error) {
			return proto.Empty{}, errors.New("disk full")
		},
	} {
		t.Run(name, func(t *testing.T) {
			modes(t, func(t *testing.T, _ bool, more string) {
				n := all()
				n.mem = mem
				n.agr = agent("secret words")
				b := newEnv(t, n)
				_, last := b.ask(`{"message":"hi","channel_id":"a"` + more + `}`)
				if last.Text() != "secret words" || last.Type == "error" || !strings.Contains(last.Raw, `"not_stored":"`) {
					t.Errorf("last packet %s", last.Raw)
				}
				if log := b.log.String(); !strings.Contains(log, "could not be stored") || strings.Contains(log, "secret words") {
					t.Errorf("the log says %s", log)
				}
			})
		})
	}
}

// TestChannelsAtOnce: turns on one channel are stored whole, in the order in
// which they ended.
func TestChannelsAtOnce(t *testing.T) {
	const turns = 6
	begun := make(chan struct{})
	goOn := [turns]chan struct{}{}
	n := all()
	n.agr = func(ctx context.Context, req proto.Run, _ *rpc.Out) (proto.Text, error) {
		var i int
		text := string(req.Messages[strings.LastIndex(string(req.Messages), `"turn `):])
		if _, err := fmt.Sscanf(text, `"turn %d"`, &i); err != nil {
			return proto.Text{}, err
		}
		begun <- struct{}{}
		return proto.Text{Content: fmt.Sprintf("answer %d", i)}, until(ctx, goOn[i])
	}
	b := newEnv(t, n)
	callers := make([]*caller, turns)
	for i := range callers {
		goOn[i] = make(chan struct{})
		callers[i] = b.dial()
		callers[i].Send(fmt.Sprintf(`{"message":"turn %d","channel_id":"a"}`, i))
	}
	for range turns {
		zinotest.Receive(t, "all turns to be under way", begun)
	}
	for i := range turns {
		last := turns - 1 - i
		close(goOn[last])
		if _, p := callers[last].Finish(); p.Text() != fmt.Sprintf("answer %d", last) {
			t.Errorf("turn %d: %s", last, p.Raw)
		}
	}
	for i, stored := range b.stored.list() {
		want := fmt.Sprintf(`[{"role":"user","content":"turn %d"},{"role":"assistant","content":"answer %[1]d"}]`, turns-1-i)
		if string(stored.Messages) != want {
			t.Errorf("stored %s, want %s", stored.Messages, want)
		}
	}
}

// TestBig: a message of 5 MB and an answer of 5 MB pass through and are stored.
// Collected, 1 MB is enough: the way is the same.
func TestBig(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		size := map[bool]int{true: 5 << 20, false: 1 << 20}[stream]
		big := strings.Repeat("0123456789abcdef", size/16)
		n := all()
		n.agr = agent(big, "!")
		b := newEnv(t, n)
		streamed, last := b.ask(`{"message":"` + big + `","channel_id":"a"` + more + `}`)
		if last.Text() != big+"!" || stream && streamed != big+"!" {
			t.Errorf("streamed %d bytes, then %d", len(streamed), len(last.Text()))
		}
		if got := string(b.runs.list()[0].Messages); got != "["+system+","+old+`,{"role":"user","content":"`+big+`"}]` {
			t.Errorf("the agent has %d bytes", len(got))
		}
		if got := string(b.stored.list()[0].Messages); got != `[{"role":"user","content":"`+big+`"},{"role":"assistant","content":"`+big+`!"}]` {
			t.Errorf("mem has %d bytes", len(got))
		}
	})
}
