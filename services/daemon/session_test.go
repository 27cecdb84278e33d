package daemon

import (
	"context"
	"errors"
	"fmt"
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

// Packets of a turn with one call. White space and escapes must be passed on unchanged.
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

// What agr waits at.
const (
	checkCalls = `{"type":"checkpoint","turn":"t","step":1,"point":"calls","batch":["c1"]}`
	checkInfer = `{"type":"checkpoint","turn":"t","step":1,"point":"infer"}`
	checkEnd   = `{"type":"checkpoint","turn":"t","step":2,"point":"end"}`
)

// Their events in the session log, as fakeMem records them.
const (
	storedBegin = `{"type":"turn","turn":"t","session_id":"s-1","state":"running","lifetime":"persistent","attached":true}`
	storedUser  = `{"type":"message","role":"user","text":"hi <you>","turn":"t"}`
	storedA     = `{"type":"message","role":"assistant","text":"Let <me> look!","reasoning_state":{"b":[1, 2]},"turn":"t","step":1}`
	storedCall  = `{"type":"tool_use","id":"c1","name":"read","input":{ "path": "a\u003cb" },"turn":"t","step":1}`
	storedUsage = `{"type":"usage","input_tokens":5,"output_tokens":7,"cost_usd":0.01,"turn":"t","step":1}`
	storedDone  = `{"type":"tool_result","tool_use_id":"c1","output":{"ok":true,"data":{ "n":1e3 }},"ok":true,"duration_ms":12,"name":"read","diff":"-a","turn":"t","step":1}`
	storedRun   = `{"type":"tool_result","tool_use_id":"c1","output":{"ok":true,"data":{"stdout":"…","stderr":"","exit_code":-1,"timed_out":false,"interrupted":true}},"ok":true,"duration_ms":0,"name":"read","turn":"t","step":1}`
	storedLost  = `{"type":"tool_result","tool_use_id":"c1","output":` + interruptedResult + `,"ok":false,"duration_ms":0,"synthetic":true,"name":"read","turn":"t","step":1}`
	storedC     = `{"type":"message","role":"assistant","text":"Done.","turn":"t","step":2}`
	storedPart  = `{"type":"message","role":"assistant","text":"Let <me> look!","partial":true,"turn":"t","step":1}`
	storedEnd   = `{"type":"turn","turn":"t","session_id":"s-1","state":"done","stop_reason":"stop","iterations":2,"usage":{"input_tokens":5,"output_tokens":7,"cost_usd":0.01}}`
	storedBreak = `{"type":"interrupted","role":"system","text":"Interrupted","turn":"t"}`
	storedStop  = `{"type":"turn","turn":"t","session_id":"s-1","state":"interrupted","reason":"canceled"}`
)

// storedError is the end of a turn that failed; origin are the fields behind the code.
func storedError(rest, code, origin string) []string {
	return []string{
		`{"type":"error",` + rest + `"code":"` + code + `",` + origin + `"turn":"t"}`,
		`{"type":"turn","turn":"t","session_id":"s-1","state":"error","reason":"` + code + `"}`,
	}
}

// wholeDone is the terminal packet of a whole turn.
const wholeDone = `{"type":"done","full_text":"Done.","iterations":2,"stop_reason":"stop","usage":{"input_tokens":5,"output_tokens":7,"cost_usd":0.01},"provider":"p","model":"m"}`

const (
	turnPayload     = `{"message":" hi <you> ","session_id":"s-1","root":"/r","events":true}`
	interruptedLast = `{"type":"error","message":"The turn was interrupted.","code":"canceled","service":"daemon"}`
)

// wholeTurn is what agr sends, wholeAnswer what a caller of events gets of it.
var (
	wholeTurn   = []string{reasoning, deltaA, deltaB, finalA, requested, usageA, checkCalls, started, output, finished, checkInfer, retry, deltaC, finalC, checkEnd}
	wholeAnswer = append(sentBy(len(wholeTurn)), finalC)
)

func isCheckpoint(p string) bool { return strings.Contains(p, `"checkpoint"`) }

// sentBy returns the packets that a caller of events gets of the first n packets of agr:
// those of an inference, and the results of a batch, wait for their append.
func sentBy(n int) (packets []string) {
	var waiting []string
	for _, p := range wholeTurn[:n] {
		switch p {
		case finalA, requested, usageA, finished, finalC:
			waiting = append(waiting, p)
		case checkCalls, checkInfer:
			packets, waiting = append(packets, waiting...), nil
		case checkEnd:
		default:
			packets = append(packets, p)
		}
	}
	return packets
}

// ends returns the terminal packet of agr in a whole turn.
func ends() proto.Text {
	two, cost := 2, 0.01
	return proto.Text{
		Content: "Done.", Iterations: &two, StopReason: "stop", Provider: "p", Model: "m",
		Usage: &proto.Usage{InputTokens: 5, OutputTokens: 7, CostUSD: &cost}, ToolCalls: proto.Raw(`[{}]`), State: proto.Raw(`{}`),
	}
}

// whole plays a whole turn.
func whole(_ context.Context, say func(...string) error) (proto.Text, error) {
	return ends(), say(wholeTurn...)
}

// TestSession checks the order of the requests to the neighbours, and the exact stored
// events and packets to the caller.
func TestSession(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	got, _ := b.turn(turnPayload)
	equalLists(t, "packets", got, append(slices.Clone(wholeAnswer), wholeDone))
	zinotest.Eventually(t, "the lock to be released", func() bool { return b.trail.has("released") })
	steps := b.trail.All()
	slices.Sort(steps[2:4])
	equalLists(t, "steps", steps, []string{
		"hold", "held", "ctx", "sys", "store " + storedBegin, "store " + storedUser, "agr", "store " + storedA, "store " + storedCall,
		"store " + storedUsage, "store " + storedDone, "store " + storedC, "store " + storedEnd, "released",
	})
	equalLists(t, "requests to mem", b.mem.heads[:2], []string{fmt.Sprintf(`s-1 create {"root":"/r","uid":%d}`, os.Geteuid()), "s-1"})
	run := b.runs.All()[0]
	if want := "[" + system + "," + old + `,{"role":"user","content":"hi <you>"}]`; string(run.Messages) != want {
		t.Errorf("agr was asked %s, want %s", run.Messages, want)
	}
	if build := b.builds.All()[0]; build != (proto.Build{SessionID: "s-1", UserMessage: "hi <you>"}) {
		t.Errorf("ctx was asked %+v", build)
	}
	if n := len(b.stored.All()); n > 0 {
		t.Errorf("%d histories are stored", n)
	}
}

// TestSessionRequest checks that agr and sys get the parameters of the request.
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
		run := b.runs.All()[0]
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
			t.Errorf("agr was asked %+v", got)
		}
		get := b.gets.All()[0]
		if get.Root != "/r" || (get.SystemPrompt == nil) != (c.prompt == nil) || c.prompt != nil && *get.SystemPrompt != *c.prompt {
			t.Errorf("sys was asked %+v", get)
		}
	}
}

// TestSessionNotices checks that the warnings of sys and the names of the loaded files
// are sent first.
func TestSessionNotices(t *testing.T) {
	n := all()
	n.sys = answers[proto.GetPrompt](`{"type":"system_prompt","content":"x","files":[{"path":"/a/AGENTS.md","bytes":1},{"path":"/b/AGENTS.md","bytes":0}],"warnings":["/c is not a file","d"]}`)
	notices := []string{
		`{"type":"notice","kind":"warning","text":"/c is not a file"}`, `{"type":"notice","kind":"warning","text":"d"}`,
		`{"type":"notice","kind":"agents","text":"Loaded AGENTS.md from: /a/AGENTS.md, /b/AGENTS.md"}`,
	}
	b := newSessionEnv(t, n, whole)
	for _, payload := range []string{turnPayload, `{"message":"hi","root":"/r","events":true}`} {
		packets, _ := b.turn(payload)
		equalLists(t, "notices", packets[:3], notices)
	}
	for _, payload := range []string{`{"message":"hi","session_id":"s","stream":true}`, `{"message":"hi","stream":true}`} {
		packets, _ := b.turn(payload)
		if text := strings.Join(packets, "\n"); strings.Contains(text, `"notice"`) {
			t.Errorf("a caller without events gets %s", text)
		}
	}
}

// TestSessionWithoutEvents checks the turn of TestSession for callers without events.
func TestSessionWithoutEvents(t *testing.T) {
	stored := []string{storedBegin, `{"type":"message","role":"user","text":"hi","turn":"t"}`, storedA, storedCall, storedUsage, storedDone, storedC, storedEnd}
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
		packets, _ := b.turn(`{"message":"hi","session_id":"s-1"` + c.more + `}`)
		equalLists(t, "packets", packets, c.want)
		equalLists(t, "stored", b.trail.stored(), stored)
		if head := b.mem.heads[0]; head != fmt.Sprintf(`s-1 create {"uid":%d}`, os.Geteuid()) {
			t.Errorf("without a root the session is created with %s", head)
		}
	}
}

// TestSessionChunks checks that chunks of an agr without events become events and are
// stored.
func TestSessionChunks(t *testing.T) {
	n := all()
	b := newSessionEnv(t, n, func(_ context.Context, say func(...string) error) (proto.Text, error) {
		return proto.Text{Content: "one two"}, say(`{"type":"chunk","delta":"one "}`, `{ "type":"chunk", "delta":"two"}`)
	})
	packets, _ := b.turn(turnPayload)
	equalLists(t, "packets", packets, []string{
		`{"type":"assistant_delta","text":"one "}`, `{"type":"assistant_delta","text":"two"}`,
		`{"type":"assistant_final","text":"one two"}`, `{"type":"done","full_text":"one two"}`,
	})
	equalLists(t, "stored", b.trail.stored(), []string{storedBegin, storedUser, `{"type":"message","role":"assistant","text":"one two","turn":"t","step":1}`, `{"type":"turn","turn":"t","session_id":"s-1","state":"done"}`})
}

// TestNoSave checks that with no_save nothing is locked or stored, but agr and ctx get
// the session.
func TestNoSave(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	packets, _ := b.turn(strings.TrimSuffix(turnPayload, "}") + `,"no_save":true}`)
	equalLists(t, "packets", packets, append(slices.Clone(wholeAnswer), wholeDone))
	steps := b.trail.All()
	slices.Sort(steps)
	equalLists(t, "steps", steps, []string{"agr", "ctx", "sys"})
	if id := b.builds.All()[0].SessionID + b.runs.All()[0].SessionID; id != "s-1s-1" {
		t.Errorf("the sessions of ctx and agr are %s", id)
	}
}

// TestSessionRefused checks that an invalid session name reaches no neighbour.
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
	if steps := b.trail.All(); len(steps) > 0 {
		t.Errorf("steps %s", steps)
	}
	for _, id := range []string{"a", "A.b_c-d", "_", "0", "séance", "会議", strings.Repeat("a", 200)} {
		if _, last := b.turn(`{"message":"hi","session_id":"` + id + `"}`); last.Type != "response" {
			t.Errorf("session %s: %s", id, last.Raw)
		}
	}
}

// TestSessionParts checks that a turn fails with the error of sys or ctx, and stores
// nothing, if a part of the prompt is missing.
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
		{"sys not running", func(n *neighbours) { n.sys = nil }, "Could not connect to sys: "},
		{"sys invalid", func(n *neighbours) {
			n.sys = func(context.Context, proto.GetPrompt, *rpc.Out) error {
				return proto.Errorf(proto.CodeInvalid, "/p cannot be read")
			}
		}, `{"type":"error","message":"/p cannot be read","code":"invalid","service":"sys"}`},
		{"sys malformed", func(n *neighbours) { n.sys = answers[proto.GetPrompt](`{"type":"system_prompt","content":5}`) }, "sys answered with something that is not a packet"},
		{"ctx not running", func(n *neighbours) { n.ctx = nil }, "Could not connect to ctx: "},
		{"too large", fails(handoff), `{"type":"error","message":"Go on in a new one: zino handoff","code":"too_large","service":"mem","kind":"session"}`},
		{"ctx malformed", func(n *neighbours) { n.ctx = answers[proto.Build](`{"type":"context","messages":[5]}`) }, "expected a list of messages"},
		{"both", func(n *neighbours) { n.sys, n.ctx = nil, nil }, "Could not connect to sys: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			c.with(&n)
			b := newSessionEnv(t, n, whole)
			packets, last := b.turn(turnPayload)
			if len(packets) != 1 || last.Type != "error" || !strings.Contains(last.Raw, c.want) {
				t.Errorf("packets %s", packets)
			}
			if c.name != "both" && strings.Contains(c.name, "sys") == strings.Contains(last.Raw, `"kind":"session"`) {
				t.Errorf("the kind of %s", last.Raw)
			}
			if b.trail.has("agr") || len(b.trail.stored()) > 0 {
				t.Errorf("steps %s", b.trail.All())
			}
		})
	}
}

// TestNoAgent checks that a turn of a session fails without agr: rtr has no tools.
func TestNoAgent(t *testing.T) {
	b := newSessionEnv(t, all(), nil)
	packets, last := b.turn(turnPayload)
	if len(packets) != 1 || !strings.HasPrefix(last.Message, "Could not connect to agr: ") || last.Code != "unavailable" || len(b.infers.All()) > 0 {
		t.Errorf("packets %s, %d inferences", packets, len(b.infers.All()))
	}
	stored := b.trail.stored()
	if len(stored) != 4 || stored[1] != storedUser || !strings.HasPrefix(stored[2], `{"type":"error","message":"Could not connect to agr: `) || !strings.HasSuffix(stored[2], `,"code":"unavailable","turn":"t"}`) {
		t.Errorf("stored %s", stored)
	}
}

// TestAgentFails checks that an error of agr reaches the caller unchanged, and is stored
// after the text so far.
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
			append([]string{storedPart}, storedError(`"message":"rtr error: <M>","kind":"http_status",`, "internal", `"service":"rtr","status":500,"details":"d",`)...),
			`{"type":"error","message":"rtr error: <M>","code":"internal","service":"rtr","kind":"http_status","status":500,"details":"d"}`,
		},
		{
			"blank text",
			[]string{`{"type":"assistant_delta","text":" \n"}`},
			failed,
			storedError(`"message":"rtr error: <M>","kind":"http_status",`, "internal", `"service":"rtr","status":500,"details":"d",`),
			`{"type":"error","message":"rtr error: <M>","code":"internal","service":"rtr","kind":"http_status","status":500,"details":"d"}`,
		},
		{
			"after a text",
			[]string{deltaA, deltaB, finalA},
			errors.New("it broke"),
			append([]string{storedA}, storedError(`"message":"agr run: it broke",`, "internal", `"service":"agr",`)...),
			`{"type":"error","message":"agr run: it broke","code":"internal","service":"agr"}`,
		},
		{
			"it stops",
			[]string{deltaA, deltaB, `{"type":"interrupted"}`},
			context.Canceled,
			[]string{storedPart, storedBreak, storedStop},
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
			got, _ := b.turn(turnPayload)
			want := slices.DeleteFunc(slices.Clone(c.said), func(p string) bool { return strings.Contains(p, "interrupted") })
			if c.last == interruptedLast {
				want = append(want, `{"type":"interrupted"}`)
			}
			equalLists(t, "packets", got, append(want, c.last))
			equalLists(t, "stored", b.trail.stored(), append([]string{storedBegin, storedUser}, c.stored...))
		})
	}
}

const waitNotice = `{"type":"notice","kind":"wait","text":"Another turn is under way on session s-1: waiting for its end."}`

// TestTurnsFollow checks that a second turn on a session sends a notice, waits, and
// starts when the first one is stored completely.
func TestTurnsFollow(t *testing.T) {
	var begun atomic.Int32
	goOn := make(chan struct{})
	waits := stops(2, func(ctx context.Context) {
		if err := rpctest.Until(ctx, goOn); err != nil {
			t.Error(err)
		}
	})
	b := newSessionEnv(t, all(), func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		if begun.Add(1) == 1 {
			return waits(ctx, say)
		}
		return whole(ctx, say)
	})
	first, second := b.dial(), b.dial()
	first.Send(turnPayload)
	first.Packets(2)
	second.Send(turnPayload)
	zinotest.Equal(t, "the first packet of the second turn", second.Receive(), waitNotice)
	b.turn(strings.Replace(turnPayload, "s-1", "s-2", 1)) // another session does not wait
	if asked := len(b.builds.All()); asked != 2 {
		t.Errorf("ctx was asked %d times", asked)
	}
	close(goOn)
	first.Rest()
	if packets, last := rest(second); last.Type != "done" {
		t.Errorf("the second turn ends with %s", packets)
	}
	turn := wholeStored()
	equalLists(t, "stored", b.mem.of("s-1"), append(slices.Clone(turn), turn...))
	for i := range turn {
		turn[i] = strings.Replace(turn[i], "s-1", "s-2", 1)
	}
	equalLists(t, "stored elsewhere", b.mem.of("s-2"), turn)
}

// TestWaitsQuietly checks that a caller without events gets no notice about the wait.
func TestWaitsQuietly(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	b.mem.lock("s-1") <- struct{}{}
	c := b.dial()
	c.Send(`{"message":"hi","session_id":"s-1"}`)
	zinotest.Eventually(t, "the lock to be asked for", func() bool { return b.trail.has("hold") })
	b.ask(`{"type":"ping"}`)
	<-b.mem.lock("s-1")
	packets, _ := rest(c)
	equalLists(t, "packets", packets, []string{`{"type":"response","content":"Done."}`})
}

// TestStopsWhileWaiting checks that a stopping daemon interrupts a waiting turn.
func TestStopsWhileWaiting(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	b.mem.lock("s-1") <- struct{}{}
	c := b.dial()
	c.Send(turnPayload)
	c.Packets(1)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- b.server.Shutdown(now) }()
	equalLists(t, "packets", rpctest.Raws(c.Packets(2)), []string{`{"type":"interrupted"}`, interruptedLast})
	zinotest.Receive(t, "the daemon to stop", stopped)
	if stored := b.trail.stored(); len(stored) > 0 {
		t.Errorf("stored %s", stored)
	}
}

// TestNotHeld checks that a turn fails before any other request if mem cannot lock the
// session.
func TestNotHeld(t *testing.T) {
	foreign := &proto.Error{Code: proto.CodeInvalid, Message: "sessions/s-1.jsonl is not a session", Service: "mem"}
	for _, c := range []struct {
		name string
		hold func(string) error
		down bool
		want string
	}{
		{"foreign", func(string) error { return foreign }, false, `{"type":"error","message":"sessions/s-1.jsonl is not a session","code":"invalid","service":"mem","kind":"session"}`},
		{"canceled", func(string) error { return proto.ErrCanceled }, false, `{"type":"error","message":"canceled","code":"canceled","service":"mem","kind":"session"}`},
		{"not running", nil, true, "Could not connect to mem: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			if c.down {
				n.mem = nil
			}
			b := newSessionEnv(t, n, whole)
			b.mem.hold = c.hold
			packets, last := b.turn(turnPayload)
			if len(packets) != 1 || !strings.Contains(last.Raw, c.want) || !strings.Contains(last.Raw, `"kind":"session"`) {
				t.Errorf("packets %s", packets)
			}
			if steps := b.trail.All(); len(steps) > 1 {
				t.Errorf("steps %s", steps)
			}
		})
	}
}

// TestReleased checks that a stopping mem ends the turns that wait for the lock.
func TestReleased(t *testing.T) {
	n := all()
	n.mem = nil
	b := newSessionEnv(t, n, whole)
	rpctest.New(t, "mem", b.cfg.Mem.Socket, func(s *rpc.Server) {
		rpc.HandleEvents(s, proto.MemHoldSession, func(_ context.Context, req proto.HoldSession, _ *rpc.Out) (proto.SessionName, error) {
			return proto.SessionName{SessionID: req.SessionID}, nil
		})
	})
	packets, _ := b.turn(turnPayload)
	equalLists(t, "packets", packets, []string{`{"type":"error","message":"mem is stopping","code":"unavailable","service":"mem","kind":"session"}`})
}

// TestSessionDeadline checks that an exceeded deadline ends the turn with the code
// timeout, which is also stored if the turn had started.
func TestSessionDeadline(t *testing.T) {
	const payload = `{"message":"hi <you>","session_id":"s-1","events":true,"meta":{"deadline_ms":300}}`
	b := newSessionEnv(t, all(), func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		if err := say(deltaA, deltaB); err != nil {
			return proto.Text{}, err
		}
		<-ctx.Done()
		return proto.Text{}, ctx.Err()
	})
	_, last := b.turn(payload)
	if last.Type != "error" || last.Code != "timeout" { // the message depends on which process notices first
		t.Errorf("the end is %s", last.Raw)
	}
	if stored := b.trail.stored(); len(stored) > 0 && !strings.HasSuffix(stored[len(stored)-1], `"state":"error","reason":"timeout"}`) {
		t.Errorf("stored %s", stored)
	}
	zinotest.Eventually(t, "the lock to be released", func() bool { return len(b.mem.lock("s-1")) == 0 })
	b.mem.lock("s-1") <- struct{}{}
	_, last = b.turn(payload)
	if want := `{"type":"error","message":"timed out waiting for the lock on session \"s-1\": context deadline exceeded","code":"timeout","service":"daemon"}`; last.Raw != want {
		t.Errorf("the end is %s", last.Raw)
	}
}

// malformed reports whether an error of rpc or of the daemon is about a malformed packet
// of agr.
func malformed(message string) bool {
	return strings.HasPrefix(message, "agr answered with something that is not a packet: ") || strings.HasPrefix(message, "agr sent a malformed packet: ")
}

// TestMalformedPackets checks that a malformed packet of agr ends the turn with an
// error.
func TestMalformedPackets(t *testing.T) {
	for _, packet := range []string{`{"type":"tool_requested","id":5}`, `{"type":"assistant_delta","text":x}`, `{"text":"x"}`, `[]`} {
		b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
			return ends(), say(deltaA, deltaB, packet)
		})
		_, last := b.turn(turnPayload)
		if last.Type != "error" || last.Code != "internal" || !malformed(last.Message) {
			t.Errorf("%s: %s", packet, last.Raw)
		}
		stored := b.trail.stored()
		if len(stored) != 5 || stored[2] != storedPart || !malformed(strings.TrimPrefix(stored[3], `{"type":"error","message":"`)) {
			t.Errorf("%s: stored %s", packet, stored)
		}
	}
	// A delta without a text adds no text and is passed on.
	odd := []string{`{"type":"assistant_delta"}`, `{"type":"assistant_delta","text":5}`, `{"type":"something_new","x":1}`}
	b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
		return proto.Text{}, say(odd...)
	})
	packets, _ := b.turn(turnPayload)
	equalLists(t, "packets", packets, append(slices.Clone(odd), `{"type":"done","full_text":""}`))
	equalLists(t, "stored", b.trail.stored(), []string{storedBegin, storedUser, `{"type":"turn","turn":"t","session_id":"s-1","state":"done"}`})
}

// TestManyDeltas checks that thousands of deltas arrive in order and form one text.
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
		if got, _ := b.turn(turnPayload); len(got) < count || !slices.Equal(got[:count], all5k) {
			t.Fatalf("received %d packets, want %d deltas in order", len(got), count)
		}
		stored := b.trail.stored()[2]
		if want := strings.ReplaceAll(strings.Join(text, ""), "\n", `\n`); !strings.Contains(stored, `"text":"`+want+`"`) || strings.Contains(stored, "partial") == (ending == "whole") {
			t.Errorf("%s: stored %.200s", ending, stored)
		}
	}
}
