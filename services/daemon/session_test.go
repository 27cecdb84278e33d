package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// Packets of a turn with one call. Blanks and escapes are to pass as they are.
const (
	deltaA    = `{"type":"assistant_delta","text":"Let <me> "}`
	deltaB    = `{"type":"assistant_delta","text":"look\u0021"}`
	finalA    = `{"type":"assistant_final","text":"Let <me> look!","reasoning_state":{"b":[1, 2]}}`
	requested = `{"type":"tool_requested","id":"c1","name":"read","input":{ "path": "a\u003cb" }}`
	usageA    = `{"type":"usage","input_tokens":5,"output_tokens":7,"cost_usd":0.01}`
	started   = `{"type":"tool_started","id":"c1","name":"read"}`
	output    = `{"type":"tool_output","id":"c1","text":"…"}`
	finished  = `{"type":"tool_finished","id":"c1","name":"read","ok":true,"result":{"ok":true,"data":{ "n":1e3 }},"duration_ms":12,"diff":"-a"}`
	deltaC    = `{"type":"assistant_delta","text":"Done."}`
	finalC    = `{"type":"assistant_final","text":"Done."}`
	reasoning = `{"type":"reasoning","text":"hm"}`
	retry     = `{"type":"notice","kind":"retry","text":"again","wait_ms":5}`
)

// The same as they are stored.
const (
	storedUser  = `{"type":"message","role":"user","text":"hi <you>"}`
	storedA     = `{"type":"message","role":"assistant","text":"Let <me> look!","reasoning_state":{"b":[1, 2]}}`
	storedCall  = `{"type":"tool_use","id":"c1","name":"read","input":{ "path": "a\u003cb" }}`
	storedDone  = `{"type":"tool_result","tool_use_id":"c1","output":{"ok":true,"data":{ "n":1e3 }},"ok":true,"duration_ms":12}`
	storedRun   = `{"type":"tool_result","tool_use_id":"c1","output":{"ok":true,"data":{"stdout":"…","stderr":"","exit_code":-1,"timed_out":false,"interrupted":true}},"ok":true,"duration_ms":0}`
	storedC     = `{"type":"message","role":"assistant","text":"Done."}`
	storedPart  = `{"type":"message","role":"assistant","text":"Let <me> look!","partial":true}`
	storedBreak = `{"type":"interrupted","role":"system","text":"Interrupted"}`
)

const (
	turnPayload     = `{"message":" hi <you> ","session_id":"s-1","root":"/r","events":true}`
	interruptedLast = `{"type":"error","message":"The turn was interrupted.","code":"canceled","service":"daemon"}`
)

var wholeTurn = []string{reasoning, deltaA, deltaB, finalA, requested, usageA, started, output, finished, retry, deltaC, finalC}

// ends is the agent's last word of a whole turn.
func ends() proto.Text {
	two, cost := 2, 0.01
	return proto.Text{
		Content: "Done.", Iterations: &two, StopReason: "stop", Provider: "p", Model: "m",
		Usage: &proto.Usage{InputTokens: 5, OutputTokens: 7, CostUSD: &cost}, ToolCalls: proto.Raw(`[{}]`), State: proto.Raw(`{}`),
	}
}

// whole is the agent of a whole turn.
func whole(_ context.Context, say func(...string) error) (proto.Text, error) {
	return ends(), say(wholeTurn...)
}

// TestSession: who is asked in which order, what is stored, and what the caller
// is told, to the letter.
func TestSession(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	got := raws(b.turn(turnPayload))
	done := `{"type":"done","full_text":"Done.","iterations":2,"stop_reason":"stop","usage":{"input_tokens":5,"output_tokens":7,"cost_usd":0.01},"provider":"p","model":"m"}`
	same(t, "packets", got, append(slices.Clone(wholeTurn), done))
	zinotest.Eventually(t, "the lock to be released", func() bool { return b.trail.has("released") })
	steps := b.trail.list()
	slices.Sort(steps[2:4])
	same(t, "steps", steps, []string{
		"hold", "held", "ctx", "sys", "store " + storedUser, "agr", "store " + storedA, "store " + storedCall,
		"store " + usageA, "store " + storedDone, "store " + storedC, "released",
	})
	same(t, "requests to mem", b.mem.heads[:2], []string{`s-1 create {"root":"/r"}`, "s-1"})
	run := b.runs.list()[0]
	if want := "[" + system + "," + old + `,{"role":"user","content":"hi <you>"}]`; string(run.Messages) != want {
		t.Errorf("the agent is given %s, want %s", run.Messages, want)
	}
	if build := b.builds.list()[0]; build != (proto.Build{SessionID: "s-1", UserMessage: "hi <you>"}) {
		t.Errorf("ctx is asked %+v", build)
	}
	if n := len(b.stored.list()); n > 0 {
		t.Errorf("%d histories are stored", n)
	}
}

// TestSessionRequest: what the caller sets reaches whom it concerns.
func TestSessionRequest(t *testing.T) {
	n := all()
	n.config = func(cfg *config.Config) {
		cfg.Agent.Temperature, cfg.Agent.TopP, cfg.Agr.MaxIterations, cfg.Agr.SessionIterations = 0.25, 0.5, 9, 77
		cfg.Agent.Effort = "low"
	}
	for _, c := range []struct {
		more   string
		prompt *string
	}{{"", nil}, {`,"system_prompt":"Be brief."`, new("Be brief.")}, {`,"system_prompt":""`, new("")}} {
		b := newSessionEnv(t, n, whole)
		b.turn(`{"message":"hi","session_id":"s-1","root":"/r","events":true,"need_model":true,"provider":"p","model":"m","max_tokens":5,"channel_id":"c"` + c.more + `}`)
		run := b.runs.list()[0]
		if run.MaxIterations == nil || *run.MaxIterations != 77 || run.Effort != "low" {
			t.Errorf("max_iterations: %v, effort: %q", run.MaxIterations, run.Effort)
		}
		run.Messages, run.MaxIterations = nil, nil
		want := proto.Run{
			Temperature: 0.25, TopP: 0.5, Stream: new(true), Events: true, NeedModel: true,
			SessionID: "s-1", Root: "/r", Provider: "p", Model: "m", MaxTokens: 5,
		}
		if got := run; got.Temperature != want.Temperature || got.TopP != want.TopP || !got.Streaming() || got.Stream == nil || !*got.Stream || !got.Events || !got.NeedModel ||
			got.SessionID != want.SessionID || got.Root != want.Root || got.Provider != want.Provider || got.Model != want.Model || got.MaxTokens != want.MaxTokens {
			t.Errorf("the agent is asked %+v", got)
		}
		get := b.gets.list()[0]
		if get.Root != "/r" || (get.SystemPrompt == nil) != (c.prompt == nil) || c.prompt != nil && *get.SystemPrompt != *c.prompt {
			t.Errorf("sys is asked %+v", get)
		}
	}
}

// TestSessionNotices: what sys remarks and which files it read comes first.
func TestSessionNotices(t *testing.T) {
	n := all()
	n.sys = answers[proto.GetPrompt](`{"type":"system_prompt","content":"x","files":[{"path":"/a/AGENTS.md","bytes":1},{"path":"/b/AGENTS.md","bytes":0}],"warnings":["/c is no file","d"]}`)
	notices := []string{
		`{"type":"notice","kind":"warning","text":"/c is no file"}`, `{"type":"notice","kind":"warning","text":"d"}`,
		`{"type":"notice","kind":"agents","text":"Loaded AGENTS.md from: /a/AGENTS.md, /b/AGENTS.md"}`,
	}
	b := newSessionEnv(t, n, whole)
	for _, payload := range []string{turnPayload, `{"message":"hi","root":"/r","events":true}`} {
		same(t, "notices", raws(b.turn(payload))[:3], notices)
	}
	for _, payload := range []string{`{"message":"hi","session_id":"s","stream":true}`, `{"message":"hi","stream":true}`} {
		for _, p := range b.turn(payload) {
			if p.Type == "notice" {
				t.Errorf("a caller without events has %s", p.Raw)
			}
		}
	}
}

// TestSessionWithoutEvents: the same turn for a caller who reads text.
func TestSessionWithoutEvents(t *testing.T) {
	stored := []string{`{"type":"message","role":"user","text":"hi"}`, storedA, storedCall, usageA, storedDone, storedC}
	for _, c := range []struct {
		more string
		want []string
	}{
		{"", []string{`{"type":"response","content":"Done."}`}},
		{`,"stream":true`, []string{
			`{"type":"chunk","delta":"Let <me> "}`, `{"type":"chunk","delta":"look!"}`, `{"type":"chunk","delta":"Done."}`,
			`{"type":"done","full_text":"Done.","iterations":2}`,
		}},
	} {
		b := newSessionEnv(t, all(), whole)
		same(t, "packets", raws(b.turn(`{"message":"hi","session_id":"s-1"`+c.more+`}`)), c.want)
		same(t, "stored", b.trail.stored(), stored)
		if head := b.mem.heads[0]; head != "s-1 create {}" {
			t.Errorf("without a root the session is made with %s", head)
		}
	}
}

// TestSessionChunks: text of an agent that knows no events is stored and passed
// on as if it did.
func TestSessionChunks(t *testing.T) {
	n := all()
	b := newSessionEnv(t, n, func(_ context.Context, say func(...string) error) (proto.Text, error) {
		return proto.Text{Content: "one two"}, say(`{"type":"chunk","delta":"one "}`, `{ "type":"chunk", "delta":"two"}`)
	})
	same(t, "packets", raws(b.turn(turnPayload)), []string{
		`{"type":"assistant_delta","text":"one "}`, `{"type":"assistant_delta","text":"two"}`,
		`{"type":"assistant_final","text":"one two"}`, `{"type":"done","full_text":"one two"}`,
	})
	same(t, "stored", b.trail.stored(), []string{storedUser, `{"type":"message","role":"assistant","text":"one two"}`})
}

// TestNoSave: nothing is locked and nothing stored; the earlier turns are sent.
func TestNoSave(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	packets := b.turn(strings.TrimSuffix(turnPayload, "}") + `,"no_save":true}`)
	if len(packets) != len(wholeTurn)+1 || packets[len(wholeTurn)].Type != "done" {
		t.Errorf("packets %s", raws(packets))
	}
	steps := b.trail.list()
	slices.Sort(steps)
	same(t, "steps", steps, []string{"agr", "ctx", "sys"})
	if id := b.builds.list()[0].SessionID + b.runs.list()[0].SessionID; id != "s-1s-1" {
		t.Errorf("ctx and agr are told %s", id)
	}
	b.ask(`{"message":"hi","channel_id":"c","no_save":true}`)
	if n := len(b.stored.list()); n > 0 {
		t.Errorf("%d turns of a channel are stored", n)
	}
}

// TestSessionRefused: nobody hears of a message that is not valid.
func TestSessionRefused(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	for _, id := range []string{".x", "..", "../x", "a/b", "/a", "-x", "a b", "a\\u0000b", "a\\nb", "\\ufffd!", strings.Repeat("a", 201), strings.Repeat("é", 101), "~", "a\\\\b"} {
		for _, request := range []string{`{"message":"hi","events":true,`, `{"message":"hi",`, `{"message":"hi","no_save":true,`, `{"type":"context",`} {
			_, last := b.ask(request + `"session_id":"` + id + `"}`)
			if last.Type != "error" || last.Code != "invalid" || !strings.Contains(last.Message, "invalid session name") {
				t.Errorf("session %s: %s", id, last.Raw)
			}
		}
	}
	for _, c := range []struct{ more, message string }{
		{`"message":" \n","session_id":"s"`, "Empty message."},
		{`"session_id":"s"`, "Empty message."},
		{`"message":"hi","root":"a/b"`, `invalid root "a/b": use an absolute path`},
		{`"message":"hi","session_id":"s","root":"."`, `invalid root ".": use an absolute path`},
	} {
		if _, last := b.ask(`{` + c.more + `}`); last.Message != c.message || last.Code != "invalid" {
			t.Errorf("%s: %s", c.more, last.Raw)
		}
	}
	if steps := b.trail.list(); len(steps) > 0 {
		t.Errorf("steps %s", steps)
	}
	for _, id := range []string{"a", "A.b_c-d", "_", "0", "séance", "会議", strings.Repeat("a", 200)} {
		if packets := b.turn(`{"message":"hi","session_id":"` + id + `"}`); packets[0].Type != "response" {
			t.Errorf("session %s: %s", id, raws(packets))
		}
	}
}

// TestSessionParts: a turn does not go on without a part of its prompt, in the
// words of whom it was asked of; and nothing of it is stored.
func TestSessionParts(t *testing.T) {
	handoff := &proto.Error{Code: proto.CodeTooLarge, Message: "Go on in a new one: zino handoff", Service: "mem"}
	fails := func(err error) func(*neighbours) {
		return func(n *neighbours) {
			n.ctx = func(context.Context, proto.Build, *rpc.Out) error { return err }
		}
	}
	for _, c := range []struct {
		name string
		with func(*neighbours)
		want string
	}{
		{"sys away", func(n *neighbours) { n.sys = nil }, "Could not connect to sys: "},
		{"sys invalid", func(n *neighbours) {
			n.sys = func(context.Context, proto.GetPrompt, *rpc.Out) error {
				return proto.Errorf(proto.CodeInvalid, "/p cannot be read")
			}
		}, `{"type":"error","message":"/p cannot be read","code":"invalid","service":"sys"}`},
		{"sys nonsense", func(n *neighbours) { n.sys = answers[proto.GetPrompt](`{"type":"system_prompt","content":5}`) }, "sys answered with something that is not a packet"},
		{"ctx away", func(n *neighbours) { n.ctx = nil }, "Could not connect to ctx: "},
		{"too large", fails(handoff), `{"type":"error","message":"Go on in a new one: zino handoff","code":"too_large","service":"mem","kind":"session"}`},
		{"ctx nonsense", func(n *neighbours) { n.ctx = answers[proto.Build](`{"type":"context","messages":[5]}`) }, "element 0 is not an object"},
		{"both", func(n *neighbours) { n.sys, n.ctx = nil, nil }, "Could not connect to sys: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			c.with(&n)
			b := newSessionEnv(t, n, whole)
			packets := b.turn(turnPayload)
			if len(packets) != 1 || packets[0].Type != "error" || !strings.Contains(packets[0].Raw, c.want) {
				t.Errorf("packets %s", raws(packets))
			}
			if c.name != "both" && strings.Contains(c.name, "sys") == strings.Contains(packets[0].Raw, `"kind":"session"`) {
				t.Errorf("the kind of %s", packets[0].Raw)
			}
			if b.trail.has("agr") || len(b.trail.stored()) > 0 {
				t.Errorf("steps %s", b.trail.list())
			}
		})
	}
}

// TestNoAgent: a turn of a session needs the agent; the model alone has no tools.
func TestNoAgent(t *testing.T) {
	b := newSessionEnv(t, all(), nil)
	packets := b.turn(turnPayload)
	last := packets[len(packets)-1]
	if len(packets) != 1 || !strings.HasPrefix(last.Message, "Could not connect to agr: ") || last.Code != "unavailable" || len(b.infers.list()) > 0 {
		t.Errorf("packets %s, %d inferences", raws(packets), len(b.infers.list()))
	}
	stored := b.trail.stored()
	if len(stored) != 2 || stored[0] != storedUser || !strings.HasPrefix(stored[1], `{"type":"error","message":"Could not connect to agr: `) || !strings.HasSuffix(stored[1], `,"code":"unavailable"}`) {
		t.Errorf("stored %s", stored)
	}
}

// TestAgentFails: the agent's error reaches the caller as it is, and the session
// with it, behind the text up to there.
func TestAgentFails(t *testing.T) {
	failed := &proto.Error{Code: proto.CodeInternal, Message: "rtr error: <M>", Service: "rtr", Kind: "http_status", Status: 500, Details: "d"}
	for _, c := range []struct {
		name   string
		said   []string
		err    error
		stored []string
		last   string
	}{
		{
			"in the text",
			[]string{deltaA, deltaB},
			failed,
			[]string{storedPart, `{"type":"error","message":"rtr error: <M>","kind":"http_status","code":"internal"}`},
			`{"type":"error","message":"rtr error: <M>","code":"internal","service":"rtr","kind":"http_status","status":500,"details":"d"}`,
		},
		{
			"blank text",
			[]string{`{"type":"assistant_delta","text":" \n"}`},
			failed,
			[]string{`{"type":"error","message":"rtr error: <M>","kind":"http_status","code":"internal"}`},
			`{"type":"error","message":"rtr error: <M>","code":"internal","service":"rtr","kind":"http_status","status":500,"details":"d"}`,
		},
		{
			"after a text",
			[]string{deltaA, deltaB, finalA},
			errors.New("it broke"),
			[]string{storedA, `{"type":"error","message":"agr run: it broke","code":"internal"}`},
			`{"type":"error","message":"agr run: it broke","code":"internal","service":"agr"}`,
		},
		{
			"it stops",
			[]string{deltaA, deltaB, `{"type":"interrupted"}`},
			context.Canceled,
			[]string{storedPart, storedBreak},
			interruptedLast,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
				if err := say(c.said...); err != nil {
					return proto.Text{}, err
				}
				return proto.Text{}, c.err
			})
			got := raws(b.turn(turnPayload))
			want := slices.DeleteFunc(slices.Clone(c.said), func(p string) bool { return strings.Contains(p, "interrupted") })
			if c.last == interruptedLast {
				want = append(want, `{"type":"interrupted"}`)
			}
			same(t, "packets", got, append(want, c.last))
			same(t, "stored", b.trail.stored(), append([]string{storedUser}, c.stored...))
		})
	}
}
