package agr

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

func TestPlainAnswer(t *testing.T) {
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		b := newEnv(t, says("It is ", "<b>fine</b>", " & done."))
		streamed, last := b.ask(request(question, more))
		const want = "It is <b>fine</b> & done."
		if last.Text() != want || last.Iterations != 1 {
			t.Errorf("last packet %s", last.Raw)
		}
		wanted := `{"type":"result","content":"It is <b>fine</b> & done.","iterations":1}`
		if stream {
			wanted = `{"type":"done","full_text":"It is <b>fine</b> & done.","iterations":1}`
		}
		if last.Raw != wanted || stream != (streamed == want) {
			t.Errorf("streamed %q, then %s, want %s", streamed, last.Raw, wanted)
		}
	})
}

// TestRequests checks the requests to rtr. Earlier messages are unchanged, including
// white space between them, unknown keys and escapes.
func TestRequests(t *testing.T) {
	const messages = `[ {"role":"system","content":"a\u003cb", "x":[1, 2]},` + "\n" + `{"content":"é","role":"user"} ]`
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		first := "Looking.\n" + bash("date") + " and " + block("execute_python3", `print("</x>")`) + "\nso"
		second := "again " + bash("id")
		b := newEnv(t, says(first), says(second), says("Done."))
		b.exc.returns(proto.Result{Stdout: "out\n"})
		streamed, last := b.ask(request(messages, more+`,"need_model":true`))
		if last.Text() != "Done." || last.Iterations != 3 {
			t.Fatalf("last packet %s", last.Raw)
		}
		one := "Looking.\n" + bash("date") + response("out\n") + " and " + block("execute_python3", `print("</x>")`) + response("out\n") + "\nso"
		two := "again " + bash("id") + response("out\n")
		base := "[" + strings.Trim(messages, "[ ]") // without the white space around the list
		wants := []string{messages, base + "," + assistant(one) + "]", base + "," + assistant(one) + "," + assistant(two) + "]"}
		asked := b.rtr.asked()
		if len(asked) != len(wants) {
			t.Fatalf("%d inferences", len(asked))
		}
		for i, want := range wants {
			req := asked[i]
			if string(req.Messages) != want {
				t.Errorf("inference %d\n got %s\nwant %s", i+1, req.Messages, want)
			}
			if req.Temperature != 0.3 || req.TopP != 0.9 || req.Stream != stream || !req.NeedModel {
				t.Errorf("inference %d: %+v", i+1, req)
			}
		}
		if got := b.exc.code(); !slices.Equal(got, []string{"bash:date", `python3:print("</x>")`, "bash:id"}) {
			t.Errorf("executed %q", got)
		}
		if want := strings.NewReplacer(bash("date"), "", bash("id"), "", block("execute_python3", `print("</x>")`), "").Replace(one+two) + "Done."; stream && streamed != want {
			t.Errorf("streamed\n%q, want\n%q", streamed, want)
		}
	})
}

// TestEmptyList checks that the answer becomes the first message of a list that
// contains only white space.
func TestEmptyList(t *testing.T) {
	e := newEnv(t, says(bash("x")), says("done"))
	e.ask(request("[ \n]", ""))
	asked := e.rtr.asked()
	if len(asked) != 2 || string(asked[1].Messages) != "["+assistant(bash("x")+response("(no output)"))+"]" {
		t.Errorf("%d requests, the last %s", len(asked), asked[len(asked)-1].Messages)
	}
}

// TestLimits checks that the request's limit overrides the configured one. At the
// limit a plain run carries out its last blocks; a session's turn ends with an error
// and without carrying out its last calls.
func TestLimits(t *testing.T) {
	t.Parallel()
	block, augmented := "A"+bash("x")+"B", "A"+bash("x")+response("(no output)")+"B"
	for _, c := range []struct {
		name, max  string
		configured int
		inferences int
	}{
		{"one", `,"max_iterations":1`, 5, 1},
		{"two", `,"max_iterations":2`, 5, 2},
		{"in a string", `,"max_iterations":"2"`, 5, 2},
		{"more than the configured limit", `,"max_iterations":7`, 5, 7},
		{"the configured limit", ``, 3, 3},
		{"null is the configured limit", `,"max_iterations":null`, 3, 3},
		{"zero", `,"max_iterations":0`, 5, 0},
		{"less than zero", `,"max_iterations":-3`, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
				e := startEnv(t, func(cfg *config.Config) { cfg.Agr.MaxIterations = c.configured }, slices.Repeat([]reply{says(block)}, 10)...)
				_, last := e.ask(request(question, c.max+more))
				want := augmented
				if c.inferences == 0 {
					want = ""
				}
				if last.Text() != want || last.Iterations != c.inferences || last.Type == "error" {
					t.Errorf("last packet %s", last.Raw)
				}
				e.checkRan(c.inferences, slices.Repeat([]string{"bash:x"}, c.inferences)...)

				e = startEnv(t, func(cfg *config.Config) { cfg.Agr.SessionIterations = c.configured },
					slices.Repeat([]reply{asks("more ", nativeBash("a", "x"))}, 10)...)
				streamed, last := e.ask(request(question, c.max+more+inSession))
				if c.inferences == 0 {
					if want := map[bool]string{false: `{"type":"result","content":"","iterations":0}`, true: `{"type":"done","full_text":"","iterations":0}`}[stream]; last.Raw != want {
						t.Errorf("last packet %s, want %s", last.Raw, want)
					}
					return
				}
				if last.Type != "error" || last.Code != "too_large" || !strings.Contains(last.Message, fmt.Sprintf("limit of %d inferences", c.inferences)) || !strings.Contains(last.Message, "session_iterations") {
					t.Errorf("last packet %s", last.Raw)
				}
				e.checkRan(c.inferences, slices.Repeat([]string{"bash:x"}, c.inferences-1)...)
				if want := strings.Repeat("more ", c.inferences); stream && streamed != want {
					t.Errorf("streamed %q", streamed)
				}
			})
		})
	}
}

// TestAtTheLimit checks that an answer without calls is an answer, even the last
// one. Blocks in the text count like calls.
func TestAtTheLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last reply
		code string
	}{
		"an answer":  {says("Done."), ""},
		"a block":    {says(bash("y")), "too_large"},
		"a cut call": {replies(proto.Text{ToolCalls: callList(native("a", "f", "{")), StopReason: "length"}), ""},
	} {
		e := newEnv(t, asks("", nativeBash("a", "x")), c.last)
		if _, last := e.ask(request(question, inSession+`,"max_iterations":2`)); last.Code != c.code {
			t.Errorf("%s: last packet %s", name, last.Raw)
		}
	}
}

// TestUnclosed checks that a block that is not closed is text and ends the turn.
func TestUnclosed(t *testing.T) {
	for _, pieces := range [][]string{{"a <tool_call>{", `"name"`}, {"a <task>", "</tas"}, {"a <tool_", "cal"}, {"a <"}, {""}} {
		rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
			b := newEnv(t, says(pieces...))
			want := strings.Join(pieces, "")
			streamed, last := b.ask(request(question, more))
			if last.Text() != want || last.Iterations != 1 || stream && streamed != want {
				t.Errorf("%q: streamed %q, then %s", pieces, streamed, last.Raw)
			}
		})
	}
}

// TestResultsAreNotParsed checks that tags in the output of a tool or a skill
// are text.
func TestResultsAreNotParsed(t *testing.T) {
	output := bash("rm") + `<task>{"skill":"disk","request":"x"}</task><tool_`
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		b := newEnv(t, says(bash("cat"), "call>"), says("done"))
		b.exc.returns(proto.Result{Stdout: output})
		streamed, last := b.ask(request(question, more))
		if last.Text() != "done" || len(b.exc.code()) != 1 || len(b.rtr.asked()) != 2 {
			t.Errorf("executed %q, last packet %s", b.exc.code(), last.Raw)
		}
		if want := response(output) + "call>done"; stream && streamed != want {
			t.Errorf("streamed %q, want %q", streamed, want)
		}
	})
}

// TestBig checks a conversation of 5 MB, sent twice, and an answer of 5 MB; 1 MB
// for collected requests.
func TestBig(t *testing.T) {
	t.Parallel()
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		size := map[bool]int{true: 5 << 10, false: 1 << 10}[stream]
		big := strings.Repeat(strings.Repeat("0123456789abcdef", 64)+"\n", size)
		messages := `[` + assistant(big) + `]`
		b := newEnv(t, says(bash("x")), says(big, "!"))
		streamed, last := b.ask(request(messages, more))
		if last.Text() != big+"!" || last.Iterations != 2 {
			t.Fatalf("the answer has %d bytes, %d iterations", len(last.Text()), last.Iterations)
		}
		if want := response("(no output)") + big + "!"; stream && streamed != want {
			t.Errorf("streamed %d bytes, want %d", len(streamed), len(want))
		}
		want := strings.TrimSuffix(messages, "]") + "," + assistant(bash("x")+response("(no output)")) + "]"
		if got := string(b.rtr.asked()[1].Messages); got != want {
			t.Errorf("the second request has %d bytes of messages, want %d", len(got), len(want))
		}
	})
}

// TestForwardsAtOnce checks that the caller gets each piece before the model sends the
// next one.
func TestForwardsAtOnce(t *testing.T) {
	release := make(chan struct{})
	b := newEnv(t, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		for _, piece := range []string{"one ", "two <", "three", "<ta", "b>"} {
			if err := errors.Join(emit(out, piece), rpctest.Until(ctx, release)); err != nil {
				return proto.Text{}, err
			}
		}
		return proto.Text{Content: "one two <three<tab>"}, nil
	})
	c := rpctest.Dial(t, b.path)
	c.Send(request(question, `,"stream":true`))
	for _, visible := range []string{"one ", "two ", "<three", "", "<tab>"} {
		if visible != "" {
			c.Streamed(visible)
		}
		release <- struct{}{}
	}
	if streamed, last := c.Finish(); streamed != "" || last.Text() != "one two <three<tab>" {
		t.Errorf("then %q, %s", streamed, last.Raw)
	}
}

// TestExecutesAtTheClosingTag checks that the tool runs, and the caller gets its
// result, while the model is still writing, and that the caller gets the text before
// the block while the tool runs.
func TestExecutesAtTheClosingTag(t *testing.T) {
	running, finish, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := newEnv(t, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		call := bash("x")
		err := errors.Join(emit(out, "Look: "+call[:20]), emit(out, call[20:len(call)-1]), emit(out, ">"), rpctest.Until(ctx, release), emit(out, "tail"))
		return proto.Text{Content: "Look: " + call + "tail"}, err
	}, says("end"))
	b.exc.onRun(func(ctx context.Context, _ proto.Execute) (proto.Result, error) {
		close(running)
		return proto.Result{Stdout: "result"}, rpctest.Until(ctx, finish)
	})
	c := rpctest.Dial(t, b.path)
	c.Send(request(question, `,"stream":true`))
	zinotest.Receive(t, "the tool", running)
	if got := c.Streamed("Look: "); got != "Look: " {
		t.Errorf("before the tool: %q", got)
	}
	close(finish)
	if got := c.Streamed("</tool_response>\n"); got != response("result") {
		t.Errorf("its result: %q", got)
	}
	close(release)
	if streamed, last := c.Finish(); streamed != "tailend" || last.Text() != "end" {
		t.Errorf("then %q, %s", streamed, last.Raw)
	}
}

// TestResultIsShownBeforeTheNextInference checks that the caller gets the result
// before the next inference, even if block and end of the answer arrive in one
// piece.
func TestResultIsShownBeforeTheNextInference(t *testing.T) {
	for _, c := range []struct{ name, answer, shown string }{
		{"block at the end", bash("x"), response("(no output)")},
		{"text after it", bash("x") + "tail", response("(no output)") + "tail"},
		{"half a tag after it", bash("x") + "<ta", response("(no output)") + "<ta"},
	} {
		t.Run(c.name, func(t *testing.T) {
			release := make(chan struct{})
			b := newEnv(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
				return proto.Text{Content: c.answer}, out.Text([]byte(c.answer)) // chunk and done in one write
			}, func(ctx context.Context, _ proto.Infer, _ *rpc.Out) (proto.Text, error) {
				return proto.Text{Content: ""}, rpctest.Until(ctx, release)
			})
			caller := rpctest.Dial(t, b.path)
			caller.Send(request(question, `,"stream":true`))
			if got := caller.Streamed(c.shown); got != c.shown {
				t.Errorf("shown %q", got)
			}
			close(release)
			if _, last := caller.Finish(); last.Iterations != 2 || last.Type != "done" {
				t.Errorf("last packet %s", last.Raw)
			}
		})
	}
}

// TestFormsAgree checks that collected and streamed requests return the same text
// however the router splits its answers, and that the stream omits only the blocks.
func TestFormsAgree(t *testing.T) {
	answer := "a <b <ta> é " + bash("1") + "<" + bash("2") + "\n<task>{}</task><tool_" + block("nope", "3") + " <task> unclosed"
	whole := strings.NewReplacer(
		bash("1"), bash("1")+response("out"), bash("2"), bash("2")+response("out"), "<task>{}</task>", "<task>{}</task>"+taskResponse("Error: Unknown skill ''"),
		block("nope", "3"), block("nope", "3")+response("Error: Unknown tool function 'nope'")).Replace(answer)
	visible := strings.NewReplacer(bash("1"), "", bash("2"), "", "<task>{}</task>", "", block("nope", "3"), "").Replace(whole)
	for _, size := range []int{1, 2, 7, 30, len(answer)} {
		var pieces []string
		for rest := answer; rest != ""; rest = rest[min(size, len(rest)):] {
			pieces = append(pieces, rest[:min(size, len(rest))])
		}
		pieces = wholeRunes(pieces)
		rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
			b := newEnv(t, says(pieces...))
			b.exc.returns(proto.Result{Stdout: "out"})
			streamed, last := b.ask(request(question, more+`,"max_iterations":1`))
			if last.Text() != whole {
				t.Errorf("pieces of %d: the text is\n%q, want\n%q", size, last.Text(), whole)
			}
			if stream && streamed != visible {
				t.Errorf("pieces of %d: streamed\n%q, want\n%q", size, streamed, visible)
			}
		})
	}
}

// wholeRunes moves the bytes of a split character to the piece where it ends, since
// packets are valid UTF-8.
func wholeRunes(pieces []string) []string {
	var whole []string
	pending := ""
	for _, piece := range pieces {
		if pending += piece; strings.ToValidUTF8(pending, "") == pending {
			whole, pending = append(whole, pending), ""
		}
	}
	return append(whole, pending)
}

// TestCollectedRouter checks that if the router does not stream, a caller that
// asked for a stream still gets the text, with tools carried out.
func TestCollectedRouter(t *testing.T) {
	whole := func(text string) reply {
		return func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			out.Collect()
			return proto.Text{Content: text}, nil
		}
	}
	b := newEnv(t, whole("first "+bash("x")+" then"), whole("last"))
	streamed, last := b.ask(request(question, `,"stream":true`))
	if streamed != "first "+response("(no output)")+" thenlast" || last.Raw != `{"type":"done","full_text":"last","iterations":2}` {
		t.Errorf("streamed %q, then %s", streamed, last.Raw)
	}
}

// TestKeepalives checks that keepalives of other services are not forwarded to a
// caller that did not ask for them.
func TestKeepalives(t *testing.T) {
	rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
		b := newEnv(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			alive := []byte(`{"type":"keepalive"}`)
			err := errors.Join(out.Frame(alive), out.Text([]byte("a")), out.Frame(alive), out.Text([]byte("b")), out.Frame(alive))
			return proto.Text{Content: "ab"}, err
		})
		streamed, last := b.ask(request(question, more))
		if last.Text() != "ab" || !strings.HasPrefix("ab", streamed) {
			t.Errorf("streamed %q, then %s", streamed, last.Raw)
		}
	})
}

// TestSpacedChunks checks that chunks may have blanks and any order of keys.
func TestSpacedChunks(t *testing.T) {
	b := newEnv(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		for _, packet := range []string{`{"delta": "a<task>{}</ta", "type": "chunk"}`, ` {"type": "chunk", "delta": "sk>\u00e9", "x": 1}`, `{"type":"chunk","delta":""}`, `{"type":"chunk","delta":null}`} {
			if err := out.Frame([]byte(packet)); err != nil {
				return proto.Text{}, err
			}
		}
		return proto.Text{Content: "ignored"}, nil
	}, says("done"))
	streamed, last := b.ask(request(question, `,"stream":true`))
	if want := "a" + taskResponse("Error: Unknown skill ''") + "édone"; streamed != want || last.Text() != "done" {
		t.Errorf("streamed %q, want %q; then %s", streamed, want, last.Raw)
	}
}

// costing returns a reply with usage and, if given, a cost in dollars.
func costing(text proto.Text, in, out int64, cost ...float64) reply {
	text.Usage = &proto.Usage{InputTokens: in, OutputTokens: out, CacheReadTokens: 1, CacheWriteTokens: 2, ReasoningTokens: 3}
	if len(cost) > 0 {
		text.Usage.CostUSD = &cost[0]
	}
	return replies(text)
}

// TestSessionRequests checks that every inference of a session's turn, including
// those of skills, has the parameters of the turn. Tools are offered to the main
// loop only, the same in each request of a turn.
func TestSessionRequests(t *testing.T) {
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		b := newEnv(t, asks("", native("a", "task", `{"skill":"disk","request":"x"}`)), says("i"), says("code"), says(delegate("snake", "y")), says("j"), says("1"), says("Done."))
		b.ask(request(question, more+inSession+`,"provider":"gemini","model":"m-1","max_tokens":77,"effort":"low","need_model":true`))
		asked := b.rtr.asked()
		if len(asked) != 7 {
			t.Fatalf("%d inferences", len(asked))
		}
		for i, req := range asked {
			main := i == 0 || i == 3 || i == 6
			want := proto.Infer{
				Temperature: 0.3, TopP: 0.9, NeedModel: true, Provider: "gemini", Model: "m-1", MaxTokens: 77, Effort: "low", SessionID: "s-1",
				Messages: req.Messages, Stream: stream && main,
			}
			if main {
				want.Tools = asked[0].Tools
			}
			if !reflect.DeepEqual(req, want) || main != (len(req.Tools) > 0) {
				t.Errorf("inference %d: %+v", i+1, req)
			}
		}
	})
}

// TestPlainRuns checks that without a session no tools are offered, native calls
// are ignored, and the answer does not name provider and usage. The model of the
// request is used.
func TestPlainRuns(t *testing.T) {
	t.Parallel()
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		full := proto.Text{Content: "a " + bash("x"), ToolCalls: callList(nativeBash("a", "native")), State: proto.Raw(`{"s":1}`), StopReason: "tool_calls", Provider: "openai", Model: "m"}
		end := full
		end.Content = "Done."
		b := newEnv(t, costing(full, 10, 20, 0.5), costing(end, 10, 20, 0.5))
		_, last := b.ask(request(question, more+`,"provider":"openai","model":"m-1","max_tokens":77,"session_id":""`))
		want := `{"type":"result","content":"Done.","iterations":2}`
		if stream {
			want = `{"type":"done","full_text":"Done.","iterations":2}`
		}
		if last.Raw != want {
			t.Errorf("got %s, want %s", last.Raw, want)
		}
		if got := b.exc.code(); !slices.Equal(got, []string{"bash:x"}) {
			t.Errorf("executed %q", got)
		}
		for i, messages := range []string{question, strings.TrimSuffix(question, "]") + "," + assistant("a "+bash("x")+response("(no output)")) + "]"} {
			want := proto.Infer{Messages: proto.Raw(messages), Temperature: 0.3, TopP: 0.9, Stream: stream, Provider: "openai", Model: "m-1", MaxTokens: 77}
			if got := b.rtr.asked()[i]; !reflect.DeepEqual(got, want) {
				t.Errorf("inference %d: %+v, messages %s", i+1, got, got.Messages)
			}
		}
	})
}

// TestUsage checks that the answer of a session's turn has the usage of all its
// inferences, and provider, model and stop reason of the last one.
func TestUsage(t *testing.T) {
	t.Parallel()
	task := proto.Text{ToolCalls: callList(native("a", "task", `{"skill":"disk","request":"x"}`)), StopReason: "tool_calls", Provider: "one", Model: "m-1"}
	skill := proto.Text{Content: "code", StopReason: "length", Provider: "two", Model: "m-2"}
	end := proto.Text{Content: "Done.", StopReason: "stop", Provider: "three", Model: "m-3"}
	for _, c := range []struct {
		name   string
		script []reply
		usage  string
	}{
		{
			"all known",
			[]reply{costing(task, 1000, 100, 0.5), costing(skill, 200, 20, 0.25), costing(skill, 30, 3, 0), costing(end, 4, 0, 0.125)},
			`{"input_tokens":1234,"output_tokens":123,"cache_read_tokens":4,"cache_write_tokens":8,"reasoning_tokens":12,"cost_usd":0.875}`,
		},
		{
			"some known",
			[]reply{costing(task, 1000, 100), replies(skill), costing(skill, 30, 3, 0.25), replies(end)},
			`{"input_tokens":1030,"output_tokens":103,"cache_read_tokens":2,"cache_write_tokens":4,"reasoning_tokens":6,"cost_usd":0.25}`,
		},
		{
			"no costs",
			[]reply{costing(task, 1, 1), costing(skill, 1, 1), costing(skill, 1, 1), costing(end, 1, 1)},
			`{"input_tokens":4,"output_tokens":4,"cache_read_tokens":4,"cache_write_tokens":8,"reasoning_tokens":12}`,
		},
		{"free", []reply{costing(end, 1, 1, 0)}, `{"input_tokens":1,"output_tokens":1,"cache_read_tokens":1,"cache_write_tokens":2,"reasoning_tokens":3,"cost_usd":0}`},
		{"no usage", []reply{replies(task), replies(skill), replies(skill), replies(end)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
				b := newEnv(t, c.script...)
				_, last := b.ask(request(question, more+inSession))
				usage := ""
				if c.usage != "" {
					usage = `,"usage":` + c.usage
				}
				want := fmt.Sprintf(`{"type":"result","content":"Done.","iterations":%d,"stop_reason":"stop"%s,"provider":"three","model":"m-3"}`, last.Iterations, usage)
				if stream {
					want = strings.Replace(want, `"result","content"`, `"done","full_text"`, 1)
				}
				if last.Raw != want {
					t.Errorf("got  %s\nwant %s", last.Raw, want)
				}
			})
		})
	}
}

// TestStopReasons checks that the calls decide whether the turn continues, not the
// stop reason. A truncated answer continues only if a call is complete.
func TestStopReasons(t *testing.T) {
	t.Parallel()
	whole, cut, begun := nativeBash("a", "x"), native("b", "execute_bash", `{"code":"rm -r`), native("c", "execute_bash", "")
	for _, c := range []struct {
		reason string
		calls  []string
		runs   bool
	}{
		{"tool_calls", nil, false},
		{"stop", nil, false},
		{"length", nil, false},
		{"", nil, false},
		{"stop", []string{whole}, true},
		{"", []string{whole}, true},
		{"SOMETHING", []string{whole}, true},
		{"length", []string{whole}, true},
		{"length", []string{whole, cut}, true},
		{"length", []string{cut}, false},
		{"length", []string{begun}, false},
	} {
		t.Run(c.reason+fmt.Sprint(len(c.calls)), func(t *testing.T) {
			b := newEnv(t, replies(proto.Text{Content: "text", ToolCalls: callList(c.calls...), StopReason: c.reason}), replies(proto.Text{Content: "Done.", StopReason: "stop"}))
			_, last := b.ask(request(question, inSession))
			if !c.runs {
				if last.Text() != "text" || last.StopReason != c.reason || last.Iterations != 1 || len(b.exc.code()) > 0 {
					t.Errorf("executed %q, last packet %s", b.exc.code(), last.Raw)
				}
				return
			}
			if last.Text() != "Done." || last.StopReason != "stop" || !slices.Equal(b.exc.code(), []string{"bash:x"}) {
				t.Errorf("executed %q, last packet %s", b.exc.code(), last.Raw)
			}
			base := strings.TrimSuffix(question, "]") + "," + calling("text", "", c.calls...) + "," + answering("a", ran(""))
			if got := string(b.rtr.asked()[1].Messages); !strings.HasPrefix(got, base) || strings.Count(got, `"role":"tool"`) != len(c.calls) {
				t.Errorf("the model sees %s", got)
			}
		})
	}
}

// TestEarlierMessages checks that earlier messages are copied and never decoded, with
// messages that are delimited like JSON but malformed.
func TestEarlierMessages(t *testing.T) {
	strange := `[{"role":"user","content":"\q` + strings.Repeat("0123456789", 10<<10) + "\xff" + `"}, {"role" :x}]`
	b := newEnv(t, asks("one", nativeBash("a", "x")), says("two "+bash("y")), asks("three", nativeBash("b", "z")), says("Done."))
	if _, last := b.ask(request(strange, inSession)); last.Text() != "Done." {
		t.Fatalf("last packet %s", last.Raw)
	}
	want := strings.TrimSuffix(strange, "]") + "," + calling("one", "", nativeBash("a", "x")) + "," + answering("a", ran("")) +
		"," + calling("two ", "", nativeBash("", "y")) + "," + answering("", ran("")) + "," + calling("three", "", nativeBash("b", "z")) + "," + answering("b", ran("")) + "]"
	if got := withoutIDs(b.rtr.asked()[3].Messages); got != want {
		t.Errorf("got %d bytes, ending\n%s, want\n%s", len(got), got[max(0, len(got)-600):], want[len(want)-600:])
	}
}

// TestReasoningState checks that the state is sent back with its calls, and only then.
func TestReasoningState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, state, want string }{
		{"none", "", ""},
		{"null", "null", ""},
		{"odd", "{ \"a\":1.0,\t\"b\" : \"\\u003c\\/\"}", "{ \"a\":1.0,\t\"b\" : \"\\u003c\\/\"}"},
		{"a list", `[1, 2]`, `[1, 2]`},
		{"large", `{"s":"` + strings.Repeat("x", 100<<10) + `"}`, `{"s":"` + strings.Repeat("x", 100<<10) + `"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
				var state proto.Raw // nil for none: an empty one goes out as an empty list
				if c.state != "" {
					state = proto.Raw(c.state)
				}
				b := newEnv(t, replies(proto.Text{ToolCalls: callList(nativeBash("a", "x")), State: state}),
					replies(proto.Text{Content: bash("y"), State: proto.Raw(`{"of":"text"}`)}), says("Done."))
				b.ask(request(question, more+inSession))
				want := strings.TrimSuffix(question, "]") + "," + calling("", c.want, nativeBash("a", "x")) + "," + answering("a", ran("")) + "," + calling("", `{"of":"text"}`, nativeBash("", "y")) + "," + answering("", ran("")) + "]"
				if got := withoutIDs(b.rtr.asked()[2].Messages); got != want {
					t.Errorf("got  %.500s\nwant %.500s", got, want)
				}
			})
		})
	}
}

// TestBrokenRouter checks that malformed calls or a malformed state are errors
// of rtr and end the turn, before anything is carried out.
func TestBrokenRouter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ calls, state, says string }{
		{`{}`, ``, "tool_calls"},
		{`"x"`, ``, "tool_calls"},
		{`[1]`, ``, "tool_calls"},
		{`[null]`, ``, "tool_calls"},
		{`[` + nativeBash("a", "x") + `,{"id":7}]`, ``, "tool_calls"},
		{`[` + nativeBash("a", "x") + `,x]`, ``, "tool_calls"},
		{`[` + nativeBash("a", "x") + `]`, `{x}`, "reasoning_state"},
		{`[` + nativeBash("a", "x") + `]`, "{\"a\":\"\xff\"}", "reasoning_state"},
	} {
		b := newEnv(t, replies(proto.Text{Content: "text", ToolCalls: proto.Raw(c.calls), State: proto.Raw(c.state)}))
		_, last := b.ask(request(question, inSession))
		if last.Type != "error" || last.Code != "internal" || !strings.Contains(last.Message, c.says) || !strings.Contains(last.Message, "rtr") || len(b.exc.code()) > 0 {
			t.Errorf("%s %s: executed %q, last packet %s", c.calls, c.state, b.exc.code(), last.Raw)
		}
	}
}
