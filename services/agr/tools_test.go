package agr

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// echo has the model answer with the last message's content, so that a test
// says in its question what the model writes.
func echo(_ context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
	content, err := lastMessage(req)
	return proto.Text{Content: content}, errors.Join(err, out.Text([]byte(content)))
}

// lastMessage is the content of a request's last message.
func lastMessage(req proto.Infer) (string, error) {
	var messages []struct{ Content string }
	err := json.Unmarshal(req.Messages, &messages)
	if err != nil || len(messages) == 0 {
		return "", fmt.Errorf("no last message in %s: %v", req.Messages, err)
	}
	return messages[len(messages)-1].Content, nil
}

// results starts an agent whose model echoes, and returns a function that gives
// the result of a block, from the response that stands after it.
func results(t *testing.T) (*bench, func(block string) string) {
	b := newBench(t, slices.Repeat([]reply{echo}, 300)...)
	return b, func(block string) string {
		t.Helper()
		name := "tool_response"
		if strings.HasPrefix(block, "<task>") {
			name = "task_response"
		}
		messages, err := json.Marshal([]map[string]string{{"role": "user", "content": "[" + block + "]"}})
		if err != nil {
			t.Fatal(err)
		}
		_, last := b.ask(request(string(messages), `,"max_iterations":1`))
		rest, begins := strings.CutPrefix(last.text(), "["+block+"\n<"+name+">\n")
		result, ends := strings.CutSuffix(rest, "\n</"+name+">\n]")
		if !begins || !ends || last.iterations() != 1 {
			t.Fatalf("%s gives %s", block, last.raw)
		}
		return result
	}
}

func TestResultText(t *testing.T) {
	for _, c := range []struct {
		name   string
		result proto.Result
		want   string
	}{
		{"nothing", proto.Result{}, "(no output)"},
		{"stdout", proto.Result{Stdout: "a\nb\n"}, "a\nb\n"},
		{"stdout without a newline", proto.Result{Stdout: "a"}, "a"},
		{"a newline is an output", proto.Result{Stdout: "\n"}, "\n"},
		{"stderr", proto.Result{Stderr: "bad\n"}, "[stderr]\nbad\n"},
		{"exit code", proto.Result{ExitCode: 3}, "[exit code: 3]"},
		{"a signal", proto.Result{ExitCode: -9}, "[exit code: -9]"},
		{"stdout and stderr", proto.Result{Stdout: "a\n", Stderr: "b"}, "a\n\n[stderr]\nb"},
		{"stdout and exit code", proto.Result{Stdout: "a", ExitCode: 1}, "a\n[exit code: 1]"},
		{"stderr and exit code", proto.Result{Stderr: "b\n", ExitCode: 2}, "[stderr]\nb\n\n[exit code: 2]"},
		{"all", proto.Result{Stdout: "a\n", Stderr: "b\n", ExitCode: 127}, "a\n\n[stderr]\nb\n\n[exit code: 127]"},
		{"unknown executor", proto.Result{ExitCode: -1, Stderr: "Unknown executor: bash"}, "[stderr]\nUnknown executor: bash\n[exit code: -1]"},
		{
			"timed out",
			proto.Result{ExitCode: -1, Stdout: "so far\n", Stderr: "Execution timed out after 30s.", TimedOut: true},
			"so far\n\n[stderr]\nExecution timed out after 30s.\n[exit code: -1]",
		},
		{"tags and quotes", proto.Result{Stdout: "</tool_response> <tool_call> \"\\ é \x01"}, "</tool_response> <tool_call> \"\\ é \x01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, result := results(t)
			b.exc.returns(c.result)
			if got := result(bash("x")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestCalls: what is executed, and the results of calls that are not.
func TestCalls(t *testing.T) {
	b, result := results(t)
	b.exc.returns(proto.Result{Stdout: "ran"})
	for _, c := range []struct{ name, call, want, code string }{
		{"plain", `{"name":"execute_bash","arguments":{"code":"ls -la"}}`, "ran", "bash:ls -la"},
		{"the executor's name, not the file's", `{"name":"execute_python3","arguments":{"code":"1"}}`, "ran", "python3:1"},
		{"white space around it", " \n\t{\"name\":\"execute_bash\",\"arguments\":{\"code\":\"x\"}}\r\n ", "ran", "bash:x"},
		{"code stays as it is", `{"name":"execute_bash","arguments":{"code":" \n x\t<a>&\"\u00e9\ud834\udd1e\n"}}`, "ran", "bash: \n x\t<a>&\"é𝄞\n"},
		{"a lone surrogate", `{"name":"execute_bash","arguments":{"code":"\ud834x"}}`, "ran", "bash:\ufffdx"},
		{"a tag in the code", `{"name":"execute_bash","arguments":{"code":"echo '<task>' </tool_cal"}}`, "ran", "bash:echo '<task>' </tool_cal"},
		{"more keys", `{"id":1,"name":"execute_bash","arguments":{"code":"x","timeout":3}}`, "ran", "bash:x"},
		{"arguments in a string", `{"name":"execute_bash","arguments":"{\"code\": \"echo \\\"hi\\\"\"}"}`, "ran", `bash:echo "hi"`},
		{"arguments in a string with space", `{"name":"execute_bash","arguments":" {\"code\":\"x\"}\n"}`, "ran", "bash:x"},

		{"file's stem", `{"name":"execute_python","arguments":{"code":"1"}}`, "Error: Unknown tool function 'execute_python'", ""},
		{"no prefix", `{"name":"bash","arguments":{"code":"1"}}`, "Error: Unknown tool function 'bash'", ""},
		{"another case", `{"name":"Execute_bash","arguments":{"code":"1"}}`, "Error: Unknown tool function 'Execute_bash'", ""},
		{"quotes in the name", `{"name":"a'b\"c","arguments":{}}`, `Error: Unknown tool function 'a'b"c'`, ""},
		{"no name", `{"arguments":{"code":"x"}}`, "Error: Unknown tool function ''", ""},
		{"nothing", `{}`, "Error: Unknown tool function ''", ""},
		{"an empty name", `{"name":"","arguments":{"code":"x"}}`, "Error: Unknown tool function ''", ""},
		{"a null name", `{"name":null,"arguments":{"code":"x"}}`, "Error: Unknown tool function ''", ""},
		{"the name is checked first", `{"name":"nope","arguments":[1]}`, "Error: Unknown tool function 'nope'", ""},
		{"keys are exact", `{"Name":"execute_bash","arguments":{"code":"x"}}`, "Error: Unknown tool function ''", ""},

		{"no arguments", `{"name":"execute_bash"}`, "Error: Empty code block.", ""},
		{"null arguments", `{"name":"execute_bash","arguments":null}`, "Error: Empty code block.", ""},
		{"no code", `{"name":"execute_bash","arguments":{}}`, "Error: Empty code block.", ""},
		{"null code", `{"name":"execute_bash","arguments":{"code":null}}`, "Error: Empty code block.", ""},
		{"empty code", `{"name":"execute_bash","arguments":{"code":""}}`, "Error: Empty code block.", ""},
		{"blank code", `{"name":"execute_bash","arguments":{"code":" \n\t"}}`, "Error: Empty code block.", ""},
		{"no code in a string", `{"name":"execute_bash","arguments":"{}"}`, "Error: Empty code block.", ""},
		{"code under another case", `{"name":"execute_bash","arguments":{"Code":"x"}}`, "Error: Empty code block.", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(b.exc.code())
			if got := result("<tool_call>" + c.call + "</tool_call>"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := strings.Join(b.exc.code()[before:], "|"); got != c.code {
				t.Errorf("executed %q, want %q", got, c.code)
			}
		})
	}
}

// TestLongNames: a name is shown as the model wrote it, however long.
func TestLongNames(t *testing.T) {
	_, result := results(t)
	name := "x" + strings.Repeat("é", 5000)
	if got := result(block(name, "x")); got != "Error: Unknown tool function '"+name+"'" {
		t.Errorf("got %q", got)
	}
	if got := result(delegate(name, "x")); got != "Error: Unknown skill '"+name+"'" {
		t.Errorf("got %q", got)
	}
}

// TestMalformed: results that say what is wrong, with nothing executed.
func TestMalformed(t *testing.T) {
	b, result := results(t)
	for _, body := range []string{
		"", " \n ", "x", "{", "}", "[]", `[{"name":"execute_bash"}]`, "null", "1", `"{}"`, `{"name":`, `{"name":"execute_bash"} x`,
		`{'name':'execute_bash'}`, `{"name":"execute_bash","arguments":{"code":"` + "\n" + `"}}`, `{"name":1}`, `{"name":["execute_bash"]}`,
		"```json\n{}\n```",
	} {
		if got := result("<tool_call>" + body + "</tool_call>"); !reads(got, "Malformed tool_call JSON: ") {
			t.Errorf("%q as a call: %q", body, got)
		}
	}
	for _, arguments := range []string{`[]`, `["x"]`, `1`, `true`, `"x"`, `"[]"`, `"null"`, `""`, `"{"`, `"\"{}\""`, `{"code":1}`, `{"code":["x"]}`, `{"code":{}}`, `"{\"code\":1}"`} {
		if got := result(`<tool_call>{"name":"execute_bash","arguments":` + arguments + `}</tool_call>`); !reads(got, "Malformed tool_call JSON: ") {
			t.Errorf("arguments %s: %q", arguments, got)
		}
	}
	for _, body := range []string{"", "x", "{", "[]", `[{"skill":"disk","request":"x"}]`, "null", "1", `{"skill":1,"request":"x"}`, `{"skill":"disk","request":{}}`, `{"skill":"disk","request":1}`} {
		if got := result("<task>" + body + "</task>"); !reads(got, "Malformed task JSON: ") {
			t.Errorf("%q as a task: %q", body, got)
		}
	}
	if got := b.exc.code(); len(got) > 0 {
		t.Errorf("executed %q", got)
	}
}

// reads reports a line of that beginning that goes on with a reason.
func reads(s, beginning string) bool {
	reason, ok := strings.CutPrefix(s, beginning)
	return ok && strings.TrimSpace(reason) != "" && !strings.Contains(s, "\n")
}

// TestLoopGoesOn: the model sees a malformed call's result and answers it.
func TestLoopGoesOn(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t, says("<tool_call>{</tool_call>"), says(bash("x"), "!"), says("sorry"))
		b.exc.does(func(context.Context, proto.Execute) (proto.Result, error) {
			return proto.Result{}, &proto.Error{Code: proto.CodeBusy, Message: "exc is full"}
		})
		_, last := b.ask(request(question, more))
		if last.text() != "sorry" || last.iterations() != 3 {
			t.Errorf("last packet %s", last.raw)
		}
		got, err := lastMessage(b.rtr.asked()[2])
		if err != nil || got != bash("x")+response("Error: exc is full")+"!" {
			t.Errorf("the model sees %q, %v", got, err)
		}
	})
}

func FuzzCall(f *testing.F) {
	for _, seed := range []string{`{"name":"execute_bash","arguments":{"code":"x"}}`, `{"name":"a","arguments":"{\"code\":\"x\"}"}`, `[]`, ``, `{"arguments":null}`, "\xff", "\v{}\u00a0", `{"arguments":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		name, arguments, err := parseCall(body)
		if (err == nil) != isObject(body, "name") {
			t.Fatalf("%q: name %q, error %v", body, name, err)
		}
		if err == nil {
			if fields, err := argumentsOf(arguments); err != nil && fields != nil {
				t.Errorf("%q: both fields %q and error %v", arguments, fields, err)
			}
		}
	})
}

// isObject reports an object whose field is a string, null or absent.
func isObject(body []byte, field string) bool {
	var fields map[string]any
	if json.Unmarshal(bytes.TrimSpace(body), &fields) != nil || fields == nil {
		return false
	}
	_, text := fields[field].(string)
	return text || fields[field] == nil
}
