package agr

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// bash is a block that runs code.
func bash(code string) string { return block("execute_bash", code) }

func block(function, code string) string {
	return fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": {\"code\": %q}}\n</tool_call>", function, code)
}

// response is what stands after a block.
func response(result string) string {
	return "\n<tool_response>\n" + result + "\n</tool_response>\n"
}

func TestPlainAnswer(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t, says("It is ", "<b>fine</b>", " & done."))
		streamed, last := b.ask(request(question, more))
		const want = "It is <b>fine</b> & done."
		if last.text() != want || last.iterations() != 1 {
			t.Errorf("last packet %s", last.raw)
		}
		wanted := `{"type":"result","content":"It is <b>fine</b> & done.","iterations":1}`
		if stream {
			wanted = `{"type":"done","full_text":"It is <b>fine</b> & done.","iterations":1}`
		}
		if last.raw != wanted || stream != (streamed == want) {
			t.Errorf("streamed %q, then %s, want %s", streamed, last.raw, wanted)
		}
	})
}

// TestRequests: what rtr is asked, and that the earlier messages stay as they
// are, white space, unknown keys and escapes included.
func TestRequests(t *testing.T) {
	const messages = `[ {"role":"system","content":"a\u003cb", "x":[1, 2]},` + "\n" + `{"content":"é","role":"user"} ]`
	modes(t, func(t *testing.T, stream bool, more string) {
		first := "Looking.\n" + bash("date") + " and " + block("execute_python3", `print("</x>")`) + "\nso"
		second := "again " + bash("id")
		b := newBench(t, says(first), says(second), says("Done."))
		b.exc.returns(proto.Result{Stdout: "out\n"})
		streamed, last := b.ask(request(messages, more+`,"need_model":true`))
		if last.text() != "Done." || last.iterations() != 3 {
			t.Fatalf("last packet %s", last.raw)
		}
		one := "Looking.\n" + bash("date") + response("out\n") + " and " + block("execute_python3", `print("</x>")`) + response("out\n") + "\nso"
		two := "again " + bash("id") + response("out\n")
		base := strings.TrimSuffix(messages, "]")
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

// assistant is a message as agr adds it.
func assistant(content string) string {
	escaped := strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n").Replace(content)
	return `{"role":"assistant","content":"` + escaped + `"}`
}

func TestEmptyList(t *testing.T) {
	b := newBench(t, says(bash("x")), says("done"))
	b.ask(request("[ \n]", ""))
	asked := b.rtr.asked()
	if len(asked) != 2 || string(asked[1].Messages) != "[ \n"+assistant(bash("x")+response("(no output)"))+"]" {
		t.Errorf("%d requests, the last %s", len(asked), asked[len(asked)-1].Messages)
	}
}

func TestLimits(t *testing.T) {
	answer := "A" + bash("x") + "B"
	augmented := "A" + bash("x") + response("(no output)") + "B"
	for _, c := range []struct {
		name, max        string
		configured       int
		inferences, runs int
		want             string
	}{
		{"one", `,"max_iterations":1`, 5, 1, 1, augmented},
		{"two", `,"max_iterations":2`, 5, 2, 2, augmented},
		{"in a string", `,"max_iterations":"2"`, 5, 2, 2, augmented},
		{"more than the configured limit", `,"max_iterations":7`, 5, 7, 7, augmented},
		{"the configured limit", ``, 3, 3, 3, augmented},
		{"null is the configured limit", `,"max_iterations":null`, 3, 3, 3, augmented},
		{"the default", ``, 5, 5, 5, augmented},
		{"zero", `,"max_iterations":0`, 5, 0, 0, ""},
		{"less than zero", `,"max_iterations":-3`, 5, 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, stream bool, more string) {
				b := startBench(t, func(cfg *config.Config) { cfg.Agr.MaxIterations = c.configured }, slices.Repeat([]reply{says(answer)}, 10)...)
				_, last := b.ask(request(question, c.max+more))
				if last.text() != c.want || last.iterations() != c.inferences || last.Type == "error" {
					t.Errorf("last packet %s", last.raw)
				}
				if n, m := len(b.rtr.asked()), len(b.exc.code()); n != c.inferences || m != c.runs {
					t.Errorf("%d inferences, %d runs, want %d and %d", n, m, c.inferences, c.runs)
				}
			})
		})
	}
}

// TestNoInference: the answer of no inference has its text, empty.
func TestNoInference(t *testing.T) {
	b := newBench(t)
	if _, last := b.ask(request(question, `,"max_iterations":0`)); last.raw != `{"type":"result","content":"","iterations":0}` {
		t.Errorf("collected: %s", last.raw)
	}
	if _, last := b.ask(request(question, `,"max_iterations":0,"stream":true`)); last.raw != `{"type":"done","full_text":"","iterations":0}` {
		t.Errorf("streaming: %s", last.raw)
	}
}

// TestUnclosed: a block that is not closed is the answer's text, and the end.
func TestUnclosed(t *testing.T) {
	for _, pieces := range [][]string{{"a <tool_call>{", `"name"`}, {"a <task>", "</tas"}, {"a <tool_", "cal"}, {"a <"}, {""}} {
		modes(t, func(t *testing.T, stream bool, more string) {
			b := newBench(t, says(pieces...))
			want := strings.Join(pieces, "")
			streamed, last := b.ask(request(question, more))
			if last.text() != want || last.iterations() != 1 || stream && streamed != want {
				t.Errorf("%q: streamed %q, then %s", pieces, streamed, last.raw)
			}
		})
	}
}

// TestResultsAreNotParsed: tags in a tool's output or in a skill's are text.
func TestResultsAreNotParsed(t *testing.T) {
	output := bash("rm") + `<task>{"skill":"disk","request":"x"}</task><tool_`
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t, says(bash("cat"), "call>"), says("done"))
		b.exc.returns(proto.Result{Stdout: output})
		streamed, last := b.ask(request(question, more))
		if last.text() != "done" || len(b.exc.code()) != 1 || len(b.rtr.asked()) != 2 {
			t.Errorf("executed %q, last packet %s", b.exc.code(), last.raw)
		}
		if want := response(output) + "call>done"; stream && streamed != want {
			t.Errorf("streamed %q, want %q", streamed, want)
		}
	})
}

// TestBig: a conversation of 5 MB goes out, twice, and an answer of 5 MB comes
// back. Collected, 1 MB is enough: the way is the same.
func TestBig(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, stream bool, more string) {
		size := map[bool]int{true: 5 << 10, false: 1 << 10}[stream]
		big := strings.Repeat(strings.Repeat("0123456789abcdef", 64)+"\n", size)
		messages := `[` + assistant(big) + `]`
		b := newBench(t, says(bash("x")), says(big, "!"))
		streamed, last := b.ask(request(messages, more))
		if last.text() != big+"!" || last.iterations() != 2 {
			t.Fatalf("the answer has %d bytes, %d iterations", len(last.text()), last.iterations())
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
