package agr

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestConformance runs the checks that apply to every service, with plain runs and
// turns of sessions that wait for each other service.
func TestConformance(t *testing.T) {
	t.Parallel()
	rtr, exc, called, recalled, evaluated := rpctest.NewBlock(), rpctest.NewBlock(), rpctest.NewBlock(), rpctest.NewBlock(), rpctest.NewBlock()
	e := newEnv(t, slices.Repeat([]reply{func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
		if strings.Contains(string(req.Messages), "block") {
			return blocks(rtr, "text <to")(ctx, req, out)
		}
		if strings.Contains(string(req.Messages), "native") {
			return asks("", `{"id":"a","function":{"name":"bash"}}`, native("b", "bash", `{}`))(ctx, req, out)
		}
		return echo(ctx, req, out)
	}}, 1000)...).withMemory()
	p, _ := e.withPages()
	e.exc.blocks(exc)
	e.exc.onCall(func(ctx context.Context, _ proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		return proto.CallResult{}, called.Wait(ctx)
	})
	e.mem.onSearch(func(ctx context.Context, _ proto.SearchHard) (proto.HardMemories, error) {
		return proto.HardMemories{}, recalled.Wait(ctx)
	})
	p.onEval(func(ctx context.Context, _ proto.Eval) (proto.Evaluated, error) {
		return proto.Evaluated{}, evaluated.Wait(ctx)
	})
	user := func(content, more string) string {
		return request(`[{"role":"user","content":`+quote(content)+`}]`, more)
	}
	recall := `<tool_call>{"name":"recall","arguments":{"query":"x"}}</tool_call>`
	eval := `<tool_call>{"name":"page_eval","arguments":{"page":"shop","code":"x"}}</tool_call>`
	cases := []rpctest.Case{
		{Name: "tools", Request: `{"type":"tools"}`, Reply: `{"type":"tools","tools":` + string(offer(e.cat.Snapshot(), withPages)) + `}`},
		{Name: "plain", Request: user("hi", ""), Reply: `{"type":"result","content":"hi","iterations":1}`},
		{Name: "stream", Request: user("hi", `,"stream":true`), Reply: `{"type":"done","full_text":"hi","iterations":1}`},
		{Name: "inference", Request: user("block", ""), Block: rtr},
		{Name: "code", Request: user(bash("x"), ""), Block: exc},
		{Name: "tool of exc", Request: user("native", inSession), Block: called},
		{Name: "recall", Request: user(recall, ""), Block: recalled},
		{Name: "page", Request: user(eval, inSession), Block: evaluated},
	}
	for payload, message := range map[string]string{
		`{"type":"run"}`:                                             `Invalid request: missing field "messages"`,
		`{"type":"run","messages":[],"top_p":1}`:                     `Invalid request: missing field "temperature"`,
		`{"type":"run","messages":[],"temperature":1}`:               `Invalid request: missing field "top_p"`,
		`{"type":"run","messages":null,"temperature":1,"top_p":1}`:   `Invalid request: missing field "messages"`,
		request(`{}`, ""):                                            `Invalid request: field "messages": expected a list, found an object`,
		request(`"x"`, ""):                                           `Invalid request: field "messages": expected a list, found a string`,
		request(`7`, `,"stream":true`):                               `Invalid request: field "messages": expected a list, found a number`,
		request(question, `,"stream":1`):                             `Invalid request: field "stream": expected true or false, found a number`,
		request(question, `,"max_iterations":"many"`):                `Invalid request: field "max_iterations": expected a number, found a string`,
		request(question, `,"max_iterations":[]`):                    `Invalid request: field "max_iterations": expected a number, found a list`,
		request(question, `,"max_iterations":1.5`):                   `Invalid request: field "max_iterations": expected a whole number, found a number`,
		`{"type":"run","messages":[],"temperature":"hot","top_p":1}`: `Invalid request: field "temperature": expected a number, found a string`,
		request(`[x]`, `,"max_iterations":0`):                        `Invalid request: field "messages": malformed JSON`,
		request(question, inSession+`,"turn":"t-1"`):                 "Invalid request: a run with a turn or calls needs turn, session_id, events, and a first_step from 1",
		request(question, withEvents+`,"turn":"t-1"`):                "Invalid request: a run with a turn or calls needs turn, session_id, events, and a first_step from 1",
		request(question, inTurn+`,"first_step":-1`):                 "Invalid request: a run with a turn or calls needs turn, session_id, events, and a first_step from 1",
		request("[\"\xff\"]", `,"max_iterations":0`):                 `Invalid request: field "messages": not valid UTF-8`,
	} {
		cases = append(cases, rpctest.Case{Name: message, Request: payload, Code: "invalid", Message: message})
	}
	cases = append(cases, rpctest.Case{Name: "proceed", Request: `{"type":"proceed","turn":"t-1","step":1,"point":"end"}`, Code: "not_found", Message: `turn "t-1" is not running here`})
	rpctest.Conformance(t, e.path, cases)
}

// TestHangUp checks that a caller that hangs up cancels the work in progress,
// and nothing is started afterwards.
func TestHangUp(t *testing.T) {
	t.Parallel()
	task := native("a", "task", `{"skill":"disk","request":"x"}`)
	for _, c := range []struct {
		name, more string
		script     func(b *rpctest.Block) []reply
		blocked    string // the code that blocks
		inferences int
		code       []string
	}{
		{"inference", "", func(b *rpctest.Block) []reply { return []reply{blocks(b, "text <to")} }, "", 1, nil},
		{"later inference", "", func(b *rpctest.Block) []reply { return []reply{says(bash("x")), blocks(b, "more")} }, "", 2, []string{"bash:x"}},
		{"interpreter", "", func(b *rpctest.Block) []reply { return []reply{says(delegate("disk", "x") + bash("y")), blocks(b, "")} }, "", 2, nil},
		{"fabricator", "", func(b *rpctest.Block) []reply {
			return []reply{says(delegate("disk", "x") + bash("y")), says("i"), blocks(b, "")}
		}, "", 3, nil},
		{"code of a skill", "", func(*rpctest.Block) []reply {
			return []reply{says(delegate("disk", "x") + bash("y")), says("i"), says("code")}
		}, "code", 3, []string{"bash:code"}},
		{"calls", inSession, func(*rpctest.Block) []reply {
			return []reply{asks("", nativeBash("a", "1"), nativeBash("b", "2"), nativeBash("c", "3"))}
		}, "2", 1, []string{"bash:1", "bash:2"}},
		{"inference of a session", inSession + withEvents, func(b *rpctest.Block) []reply { return []reply{blocks(b, "text "+bash("x"))} }, "", 1, nil},
		{"pause before a retry", inSession + withEvents, func(b *rpctest.Block) []reply {
			return []reply{func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
				return proto.Text{}, cmp.Or(out.Event(proto.TypeNotice, proto.Notice{Kind: "retry", Text: "wait", WaitMS: 30_000}), b.Wait(ctx))
			}}
		}, "", 1, nil},
		{"skill of a session", inSession + withEvents, func(b *rpctest.Block) []reply {
			return []reply{asks("", task, native("b", "bash", `{}`)), blocks(b, "")}
		}, "", 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
				b := rpctest.NewBlock()
				e := newEnv(t, append(c.script(b), says("never"))...)
				e.exc.onRun(func(ctx context.Context, req proto.Execute) (proto.Result, error) {
					if req.Code == c.blocked {
						return proto.Result{}, b.Wait(ctx)
					}
					return proto.Result{}, nil
				})
				e.leave(request(question, more+c.more), b)
				e.checkRan(c.inferences, c.code...)
				if n := len(e.exc.called()); n > 0 {
					t.Errorf("%d calls of exc", n)
				}
			})
		})
	}
}

// TestHangUpWhileStreaming checks that a hang-up cancels both a running block and the
// inference that is still streaming.
func TestHangUpWhileStreaming(t *testing.T) {
	b, writing := rpctest.NewBlock(), make(chan struct{})
	e := newEnv(t, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		defer close(writing)
		if err := emit(out, bash("x")); err != nil {
			return proto.Text{}, err
		}
		<-ctx.Done()
		return proto.Text{Content: bash("x") + bash("y")}, nil
	}, says("never"))
	e.exc.blocks(b)
	e.leave(request(question, `,"stream":true`), b)
	zinotest.Receive(t, "the inference ends", writing)
	e.checkRan(1, "bash:x")
}

// TestDeadline checks that the text so far is sent before the error.
func TestDeadline(t *testing.T) {
	e := newEnv(t, blocks(rpctest.NewBlock(), "text"), asks("text", nativeBash("a", "1")), blocks(rpctest.NewBlock(), ""))
	e.exc.blocks(rpctest.NewBlock())
	for _, more := range []string{"", inSession} {
		streamed, last := e.ask(request(question, `,"stream":true,"meta":{"deadline_ms":2000}`+more))
		if last.Type != "error" || last.Code != "timeout" || streamed != "text" {
			t.Errorf("streamed %q, then %s", streamed, last.Raw)
		}
		rpctest.WaitIdle(t, e.path)
	}
}

// TestShutdown checks that a turn canceled by the end of the service sends its text,
// including text that was held back, and one terminal packet.
func TestShutdown(t *testing.T) {
	b := rpctest.NewBlock()
	e := newEnv(t, blocks(b, "text <task>{"), blocks(b, ""))
	c := rpctest.Dial(t, e.path)
	c.Send(request(question, `,"stream":true`))
	c.Streamed("text ")
	b.Begun(t)
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.server.Shutdown(expired) }()
	zinotest.Equal(t, "the rest", c.Streamed("{"), "<task>{")
	if p := c.Next(); p.Type != "error" || p.Code != "canceled" {
		t.Errorf("the turn ends with %s", p.Raw)
	}
	zinotest.Equal(t, "after the error", c.Receive(), "")
	zinotest.Receive(t, "the shutdown", stopped)
	b.Canceled(t)
}

// TestSideBySide checks that turns run concurrently.
func TestSideBySide(t *testing.T) {
	const turns = 8
	arrived, release := make(chan struct{}), make(chan struct{})
	e := newEnv(t, slices.Repeat([]reply{func(ctx context.Context, _ proto.Infer, _ *rpc.Out) (proto.Text, error) {
		arrived <- struct{}{}
		return proto.Text{Content: "done"}, rpctest.Until(ctx, release)
	}}, turns)...)
	callers := make([]*rpctest.Conn, turns)
	for i := range callers {
		callers[i] = rpctest.Dial(t, e.path)
		callers[i].Send(request(question, ""))
	}
	for range turns {
		zinotest.Receive(t, "all inferences are running", arrived)
	}
	close(release)
	for _, c := range callers {
		if _, last := c.Finish(); last.Text() != "done" {
			t.Errorf("last packet %s", last.Raw)
		}
	}
}

// TestProviderErrors checks that an error of rtr keeps its text, code, status and
// details, and is sent after the text so far.
func TestProviderErrors(t *testing.T) {
	t.Parallel()
	refused := &proto.Error{Code: proto.CodeBudget, Message: "Rate limit <reached>", Service: "rtr", Kind: "api_error", Status: 429, Details: `{"a":1}`}
	for _, c := range []struct {
		name, more string
		script     []reply
		text       string
	}{
		{"at once", "", []reply{fails(refused)}, ""},
		{"after text", "", []reply{fails(refused, "par", "tial")}, "partial"},
		{"after half a tag", "", []reply{fails(refused, "par<tool", "_ca")}, "par<tool_ca"},
		{"inside a block", "", []reply{fails(refused, "par<task>", "{", "</tas")}, "par<task>{</tas"},
		{"after a block", "", []reply{fails(refused, "a"+bash("x"), "b")}, "a" + response("(no output)") + "b"},
		{"in a later inference", "", []reply{says("a" + bash("x")), fails(refused)}, "a" + response("(no output)")},
		{"in a session", inSession, []reply{asks("", nativeBash("a", "x")), fails(refused)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
				streamed, last := newEnv(t, c.script...).ask(request(question, more+c.more))
				zinotest.Equal(t, "the error", last.Raw, `{"type":"error","message":"Agentic runtime error: rtr error: Rate limit <reached>","code":"budget","service":"rtr","kind":"api_error","status":429,"details":"{\"a\":1}"}`)
				if stream && streamed != c.text || !stream && streamed != "" {
					t.Errorf("streamed %q, want %q", streamed, c.text)
				}
			})
		})
	}
	for message, err := range map[string]error{
		"Agentic runtime error: rtr error: rtr infer: cut off": errors.New("cut off"),
		"Agentic runtime error: rtr error: no role":            proto.Errorf(proto.CodeInvalid, "no role"),
	} {
		_, last := newEnv(t, fails(err)).ask(request(`[{}]`, ""))
		if wantCode := map[bool]string{true: "invalid", false: "internal"}[errors.Is(err, proto.ErrInvalid)]; last.Message != message || last.Code != wantCode {
			t.Errorf("last packet %s, want %s", last.Raw, message)
		}
	}
}

// TestNoRouter checks that the error without rtr says so and what to check.
func TestNoRouter(t *testing.T) {
	rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
		e := newEnv(t)
		zinotest.Must(t, os.Remove(e.cfg.Rtr.Socket))
		streamed, last := e.ask(request(question, more))
		if last.Type != "error" || !strings.HasPrefix(last.Message, "Agentic runtime error: Could not connect to rtr: ") || last.Code != "unavailable" || streamed != "" {
			t.Errorf("streamed %q, then %s", streamed, last.Raw)
		}
	})
}

// TestRudeRouter checks that a router that hangs up, or sends something other than a
// packet, causes one error after the text.
func TestRudeRouter(t *testing.T) {
	const chunk = "\x00\x00\x00\x20" + `{"type":"chunk","delta":"a<tas"}`
	for _, c := range []struct{ name, answer, code string }{
		{"no answer", "", "unavailable"},
		{"hangs up", chunk, "unavailable"},
		{"hangs up inside a packet", chunk + "\x00\x00\x00\x20{", "unavailable"},
		{"no packet", chunk + "\x00\x00\x00\x02[]", "internal"},
		{"no JSON", chunk + "\x00\x00\x00\x01x", "internal"},
		{"too large", chunk + "\xff\xff\xff\xff", "too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			zinotest.Must(t, os.Remove(e.cfg.Rtr.Socket))
			rpctest.Raw(t, e.cfg.Rtr.Socket, c.answer)
			streamed, last := e.ask(request(question, `,"stream":true`))
			if last.Type != "error" || last.Code != c.code || last.Message == "" {
				t.Errorf("last packet %s, want code %s", last.Raw, c.code)
			}
			if want := "a<tas"; streamed != want && c.answer != "" {
				t.Errorf("streamed %q, want %q", streamed, want)
			}
		})
	}
}

// TestServicesDown checks that an unreachable exc or mem, or a malformed answer from
// one, is a result, and that the loop continues.
func TestServicesDown(t *testing.T) {
	t.Parallel()
	const noExc, noMem = "Could not connect to exc: …", "Could not connect to mem: …"
	memory := `<tool_call>{"name":"recall","arguments":{"query":"x"}}</tool_call>`
	e := newEnv(t, says(bash("x")), says(delegate("disk", "x")), says("i"), says("code"), says(memory), says("sorry"),
		asks("", native("a", "read", `{"path":"x"}`), nativeBash("b", "x"), native("c", "recall", `{"query":"x"}`), native("d", "remember", `{"text":"x"}`),
			native("e", "task", `{"skill":"disk","request":"x"}`)), says("i"), says("code"), says("sorry"),
		asks("", native("a", "read", `{"path":"x"}`)), says("sorry"),
		says(bash("x")), says("sorry")).withMemory()
	zinotest.Must(t, os.Remove(e.cfg.Exc.Socket))
	zinotest.Must(t, os.Remove(e.cfg.Mem.Socket))
	if _, last := e.ask(request(question, "")); last.Text() != "sorry" || last.Iterations != 4 {
		t.Errorf("last packet %s", last.Raw)
	}
	e.checkSeen(2, bash("x")+"\n<tool_response>\nError: "+noExc)
	e.checkSeen(5, delegate("disk", "x")+"\n<task_response>\nSkill pipeline error: "+noExc)
	e.checkSeen(6, memory+"\n<tool_response>\nError: "+noMem)
	e.ask(request(question, inSession))
	e.checkResults(10, "unavailable: "+noExc, "unavailable: "+noExc, "unavailable: "+noMem, "unavailable: "+noMem, "unavailable: Skill pipeline error: "+noExc)
	rpctest.Play(t, e.cfg.Exc.Socket, func(n int, c *rpctest.Conn) {
		if c.Receive(); n > 0 {
			c.Send(`{"type":"weird"}`)
		}
	})
	e.ask(request(question, inSession))
	e.checkResults(12, "unavailable: …")
	e.ask(request(question, ""))
	e.checkSeen(14, bash("x")+response(`Error: exc answered with a packet of type "weird": "result" was expected`))
}

// TestProblems checks that stats list skipped files, and that an added file is used
// without a restart.
func TestProblems(t *testing.T) {
	e := newEnv(t, echo)
	zinotest.Contains(t, "stats", rpctest.Dial(t, e.path).Ask(`{"type":"stats"}`), `broken.json:1:`)
	e.writeTool("perl", `{}`)
	_, last := e.ask(request(`[`+assistant(block("execute_perl", "1"))+`]`, `,"max_iterations":1`))
	zinotest.Equal(t, "the text", last.Text(), block("execute_perl", "1")+response("(no output)"))
	e.checkRan(1, "perl:1")
}
