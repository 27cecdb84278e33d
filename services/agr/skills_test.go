package agr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestPipeline checks the requests of the two inferences, and the executed code.
func TestPipeline(t *testing.T) {
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		answer := "Well: " + delegate("disk", "how <full>?") + " ok"
		b := newEnv(t, says(answer), says(" say\n", "how full\n"), says("```bash\ndf -h\n```"), says("It is full."))
		b.exc.returns(proto.Result{Stdout: "90%\n"})
		streamed, last := b.ask(request(question, more+`,"need_model":true`))
		if last.Text() != "It is full." || last.Iterations != 2 {
			t.Errorf("last packet %s", last.Raw)
		}
		if want := "Well: " + taskResponse("90%\n") + " okIt is full."; stream && streamed != want {
			t.Errorf("streamed %q, want %q", streamed, want)
		}
		if got := b.exc.code(); !slices.Equal(got, []string{"bash:df -h\n"}) {
			t.Errorf("executed %q", got)
		}
		asked := b.rtr.asked()
		for i, want := range []string{
			question,
			`[{"role":"system","content":"restate <it>"},{"role":"user","content":"e","name":"kept"},{"role":"user","content":"how <full>?"}]`,
			`[{"role":"system","content":"write"},{"role":"user","content":"how <full>? [KCR]  say\nhow full\n"}]`,
			strings.TrimSuffix(question, "]") + "," + assistant("Well: "+delegate("disk", "how <full>?")+taskResponse("90%\n")+" ok") + "]",
		} {
			if string(asked[i].Messages) != want {
				t.Errorf("inference %d\n got %s\nwant %s", i+1, asked[i].Messages, want)
			}
			if skill := i == 1 || i == 2; asked[i].Stream != (stream && !skill) || asked[i].Temperature != 0.3 || asked[i].TopP != 0.9 || !asked[i].NeedModel {
				t.Errorf("inference %d: %+v", i+1, asked[i])
			}
		}
	})
}

// TestSkillsDoNotCount checks that the inferences of a skill do not count towards the
// limit.
func TestSkillsDoNotCount(t *testing.T) {
	b := newEnv(t, says(delegate("disk", "1")+delegate("snake", "2")), says("i"), says("code"), says("j"), says("more"))
	_, last := b.ask(request(question, `,"max_iterations":1`))
	want := delegate("disk", "1") + taskResponse("(no output)") + delegate("snake", "2") + taskResponse("(no output)")
	if last.Text() != want || last.Iterations != 1 {
		t.Errorf("last packet %s", last.Raw)
	}
	if got := b.exc.code(); !slices.Equal(got, []string{"bash:code", "python3:more"}) {
		t.Errorf("executed %q", got)
	}
	if got := string(b.rtr.asked()[3].Messages); got != `[{"role":"user","content":"2"}]` {
		t.Errorf("a skill without messages is asked %s", got)
	}
}

// TestSkillResults checks that the replies of a skill are not parsed, and that
// failures are results.
func TestSkillResults(t *testing.T) {
	fails := func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error) {
		return proto.Text{}, &proto.Error{Code: proto.CodeUnavailable, Message: "no key", Status: 401}
	}
	for _, c := range []struct {
		name, task string
		script     []reply
		want, code string
	}{
		{"unknown skill", delegate("nope", "x"), nil, "Error: Unknown skill 'nope'", ""},
		{"a broken file's", delegate("broken", "x"), nil, "Error: Unknown skill 'broken'", ""},
		{"no skill", `<task>{"request":"x"}</task>`, nil, "Error: Unknown skill ''", ""},
		{"null skill", `<task>{"skill":null,"request":"x"}</task>`, nil, "Error: Unknown skill ''", ""},
		{"nothing", `<task>{}</task>`, nil, "Error: Unknown skill ''", ""},
		{"no request", `<task>{"skill":"disk"}</task>`, nil, "Error: Empty task request.", ""},
		{"null request", `<task>{"skill":"disk","request":null}</task>`, nil, "Error: Empty task request.", ""},
		{"empty request", delegate("disk", ""), nil, "Error: Empty task request.", ""},
		{"blank request", delegate("disk", ` \n `), nil, "Error: Empty task request.", ""},
		{"the interpreter fails", delegate("disk", "x"), []reply{fails}, "Skill pipeline error: interpreter: no key", ""},
		{"the fabricator fails", delegate("disk", "x"), []reply{says("i"), fails}, "Skill pipeline error: fabricator: no key", ""},
		{"no code", delegate("disk", "x"), []reply{says("i"), says("")}, "Skill pipeline error: the fabricator wrote no code", ""},
		{"an empty fence", delegate("disk", "x"), []reply{says("i"), says("```\n```")}, "Skill pipeline error: the fabricator wrote no code", ""},
		{"prose around the code", delegate("disk", "x"), []reply{says("i"), says("Here it is:\n```sh\ndf -h\n```\nDone.")}, "(no output)", "bash:df -h\n"},
		{"several blocks", delegate("disk", "x"), []reply{says("i"), says("```\na\n```\nor\n```\nb\n```\nor\n~~~\nc\n~~~")}, "Skill pipeline error: fabricator: the reply has 3 code blocks", ""},
		{"tags in the replies", delegate("disk", "x"), []reply{says(bash("no")), says("echo '" + bash("no") + "'")}, "(no output)", "bash:echo '" + bash("no") + "'"},
		{"other executor", delegate("snake", "x"), []reply{says(""), says("1")}, "(no output)", "python3:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newEnv(t, append([]reply{says(c.task)}, c.script...)...)
			_, last := b.ask(request(question, `,"max_iterations":1`))
			if want := c.task + taskResponse(c.want); last.Text() != want {
				t.Errorf("the text is %q, want %q", last.Text(), want)
			}
			if got := strings.Join(b.exc.code(), "|"); got != c.code || len(b.rtr.asked()) != len(c.script)+1 {
				t.Errorf("executed %q after %d inferences", got, len(b.rtr.asked()))
			}
		})
	}
}

// TestSkillWithoutExecutor checks that an error of exc is reported as a pipeline error.
func TestSkillWithoutExecutor(t *testing.T) {
	b := newEnv(t, says(delegate("disk", "x")), says("i"), says("code"), says("sorry"))
	b.exc.onRun(func(context.Context, proto.Execute) (proto.Result, error) {
		return proto.Result{}, errors.New("no space left")
	})
	_, last := b.ask(request(question, ""))
	got, err := lastMessage(b.rtr.asked()[3])
	want := delegate("disk", "x") + taskResponse("Skill pipeline error: exc execute: no space left")
	if err != nil || got != want || last.Text() != "sorry" {
		t.Errorf("the model sees %q, %v; last packet %s", got, err, last.Raw)
	}
}

var fences = []struct{ name, reply, code string }{
	{"none", "echo hi", "echo hi"},
	{"none, with space", "\n echo hi \n", "\n echo hi \n"},
	{"backticks", "```\necho hi\n```", "echo hi\n"},
	{"a language", "```bash\necho hi\n```", "echo hi\n"},
	{"more words", "```python title=\"a.py\"\nx\n```", "x\n"},
	{"space before the language", "``` sh \nx\n```", "x\n"},
	{"tildes", "~~~\nx\n~~~", "x\n"},
	{"tildes in the words of tildes", "~~~ a ~~~ `b`\nx\n~~~", "x\n"},
	{"space around it", " \n\n```sh\nx\n```\n \n", "x\n"},
	{"carriage returns", "```sh\r\nx\r\ny\r\n```\r\n", "x\r\ny\r\n"},
	{"many lines", "```\na\n\n  b\n```", "a\n\n  b\n"},
	{"a longer fence", "````\n```\nx\n```\n````", "```\nx\n```\n"},
	{"a longer end", "```\nx\n`````", "x\n"},
	{"an end of another kind", "```\nx\n~~~", "```\nx\n~~~"},
	{"tildes inside backticks", "```\n~~~\nx\n~~~\n```", "~~~\nx\n~~~\n"},
	{"a shorter end", "````\nx\n```", "````\nx\n```"},
	{"space around the end", "```\nx\n  ``` \t", "x\n"},
	{"an indented fence belongs to the code", "```sh\ncat <<E\n    ```\nE\n```", "cat <<E\n    ```\nE\n"},
	{"a tab indents as well", "```sh\ncat <<E\n\t```\nE\n```", "cat <<E\n\t```\nE\n"},
	{"words after the end", "```\nx\n``` done\n```", "x\n``` done\n"},
	{"empty", "```\n```", ""},
	{"no end", "```sh\nx", "```sh\nx"},
	{"one line", "```x```", "```x```"},
	{"backticks in the words", "```a`b\nx\n```", "```a`b\nx\n```"},
	{"two backticks", "``\nx\n``", "``\nx\n``"},
	{"text before", "Here:\n```sh\nx\n```", "x\n"},
	{"text after", "```sh\nx\n```\nThat is all.", "x\n"},
	{"an indented block", "- so:\n  ```py\n  if x:\n    y\n z\n  ```", "if x:\n  y\nz\n"},
	{"an indented opening is text", "    ```\nx\n", "    ```\nx\n"},
	{"inside a line", "a ```b``` c", "a ```b``` c"},
	{"nothing", "", ""},
	{"only a fence", "```", "```"},
}

func TestFences(t *testing.T) {
	for _, c := range fences {
		if got, err := codeIn(c.reply); err != nil || got != c.code {
			t.Errorf("%s: %q becomes %q, %v, want %q", c.name, c.reply, got, err, c.code)
		}
	}
	for reply, want := range map[string]string{
		"```\na\n```\n```\nb\n```":      "the reply has 2 code blocks",
		"```\na\n```\nthen\n~~~\nb\n~~": "the reply has 2 code blocks", // cut
		"~~~\n~~~\n```\n```\n```\n```":  "the reply has 3 code blocks",
	} {
		if code, err := codeIn(reply); err == nil || err.Error() != want {
			t.Errorf("%q becomes %q, %v, want %q", reply, code, err, want)
		}
	}
}

// FuzzFences checks that code is not longer than the reply, and that code inside a
// longer fence is returned unchanged, also with prose around it.
func FuzzFences(f *testing.F) {
	for _, c := range fences {
		f.Add(c.reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		if code, err := codeIn(reply); err == nil && code != reply && len(code)+7 > len(reply) {
			t.Errorf("%q becomes %q", reply, code)
		}
		code := strings.ReplaceAll(reply, "~", "-") + "\n"
		if got, err := codeIn("Here:\n~~~sh\n" + code + "~~~\nDone."); err != nil || got != code {
			t.Errorf("fenced, %q becomes %q, %v", code, got, err)
		}
	})
}
