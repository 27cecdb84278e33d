package assemble

import (
	"context"
	"errors"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

const calls = `{"role":"user","content":"read it"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}}],"reasoning_state":{"x":[1]}},{"role":"tool","tool_call_id":"c1","content":"{\"ok\":true}"}`

// sessionBench has everything that a channel's context would have, and budgets
// that hold nothing.
func sessionBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.skill("s", pair("s", 50))
	b.mem.memories, b.mem.history = memories(pair("m", 50)), history(pair("h", 50))
	b.cfg.Ctx.HistoryLimit, b.cfg.Ctx.HistoryTokens, b.cfg.Ctx.ExamplesTokens, b.cfg.Ctx.MemoriesTokens = 1, 1, 1000, 1000
	return b
}

func (b *bench) buildSession(contextTokens int, message string) (string, error) {
	req := proto.Build{SessionID: "s-1", ChannelID: "c", UserMessage: message, ContextTokens: contextTokens}
	reply, err := rpc.Call(b.t.Context(), b.client, proto.CtxBuild, req)
	return string(reply.Messages), err
}

// TestSession: the messages come as they are, whole, and nothing beside them.
func TestSession(t *testing.T) {
	long := strings.TrimSuffix(dialogue(strings.Repeat("uA", 300)), "]") + "," + calls + "]"
	for name, messages := range map[string]string{"calls": "[" + calls + "]", "long": long, "new": `[]`} {
		t.Run(name, func(t *testing.T) {
			b := sessionBench(t)
			b.mem.session = session(messages)
			b.startMem()
			b.start()
			if got, err := b.buildSession(0, "hi"); err != nil || got != messages {
				t.Errorf("got %.300s, error %v", got, err)
			}
			if asked := b.mem.questions(); asked != `session "s-1" 0` {
				t.Errorf("asked %s", asked)
			}
		})
	}
}

// TestSessionThatDoesNotFit: at the limit it fits, one byte over it does not.
func TestSessionThatDoesNotFit(t *testing.T) {
	b := sessionBench(t)
	b.mem.session = session("[" + say("user", "q", 300) + "," + say("assistant", "a", 92) + "]")
	b.startMem()
	b.start()
	for _, c := range []struct {
		tokens  int
		message string
		fits    bool
	}{
		{0, strings.Repeat("x", 5000), true}, {-5, "", true}, {100, "1234567", true}, {100, "12345678", false}, {99, "123", true}, {98, "", false}, {1, "", false},
	} {
		got, err := b.buildSession(c.tokens, c.message)
		if (err == nil) != c.fits || (got != "") != c.fits {
			t.Errorf("%d tokens, %q: %v", c.tokens, c.message, err)
		}
		if !c.fits && (!errors.Is(err, proto.ErrTooLarge) || !strings.Contains(err.Error(), "zino handoff --from-session s-1") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("error %v", err)
		}
	}
}

// TestSessionThatMemCannotGive: a new session is no error; whatever else keeps
// mem from giving its messages reaches the caller, who would go on without them.
func TestSessionThatMemCannotGive(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"new", &proto.Error{Code: proto.CodeNotFound, Message: "There is no session."}, nil},
		{"disk", &proto.Error{Code: proto.CodeInternal, Message: "disk on fire"}, proto.ErrInternal},
		{"too large", &proto.Error{Code: proto.CodeTooLarge, Message: "Go on in a new one: zino handoff."}, proto.ErrTooLarge},
		{"no name", &proto.Error{Code: proto.CodeInvalid, Message: "No name of a session."}, proto.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sessionBench(t)
			b.mem.session = func(context.Context) (proto.SessionMessages, error) { return proto.SessionMessages{}, c.err }
			b.startMem()
			b.start()
			got, err := b.buildSession(0, "hi")
			if c.want == nil && (err != nil || got != `[]`) {
				t.Errorf("got %s, error %v", got, err)
			}
			if c.want != nil && (!errors.Is(err, c.want) || err.Error() != c.err.Error()) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestFirstMessageOfASession: there is nothing yet to hand off.
func TestFirstMessageOfASession(t *testing.T) {
	b := sessionBench(t)
	b.mem.session = session(`[]`)
	b.startMem()
	b.start()
	if got, err := b.buildSession(1, "a long message"); err != nil || got != `[]` {
		t.Errorf("got %s, error %v", got, err)
	}
}

func TestSessionWithoutMem(t *testing.T) {
	b := sessionBench(t)
	b.start()
	if got, err := b.buildSession(0, "hi"); err == nil {
		t.Errorf("got %s without mem", got)
	}
	b.mem.session = session(`{"role":"user"}`)
	b.startMem()
	if got, err := b.buildSession(0, "hi"); err == nil || !strings.Contains(err.Error(), "messages") {
		t.Errorf("no list: got %s, error %v", got, err)
	}
}
