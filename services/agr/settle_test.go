package agr

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// open returns a call of an earlier attempt, of step 4.
func open(id, name, input, action string) string {
	return fmt.Sprintf(`{"id":%q,"step":4,"name":%q,"input":%s,"action":%q,"since":"2026-11-22T10:31:07Z"}`, id, name, input, action)
}

// resumed are the fields of a run with calls of an earlier attempt.
func resumed(calls ...string) string {
	return `,"first_step":5,"calls":[` + strings.Join(calls, ",") + `]`
}

// script is an exc that is killed: it answers the n-th request with the n-th packet,
// and hangs up where that is empty.
type script struct {
	requests rpctest.Record[string]
}

func (e *env) playExc(answers ...string) *script {
	e.t.Helper()
	x := &script{}
	zinotest.Must(e.t, os.Remove(e.cfg.Exc.Socket))
	rpctest.Play(e.t, e.cfg.Exc.Socket, func(_ int, c *rpctest.Conn) {
		payload := c.Receive()
		if payload == "" {
			return
		}
		if n := x.requests.Add(payload); n <= len(answers) && answers[n-1] != "" {
			c.Send(answers[n-1])
		}
	})
	return x
}

// asked returns key, recover and since of each request, and whether there was a since.
func (x *script) asked(t *testing.T) (all []string) {
	t.Helper()
	for _, raw := range x.requests.All() {
		var req struct {
			Key       string
			Recover   bool
			Since     string
			SessionID string `json:"session_id"`
			Turn      string
		}
		zinotest.Must(t, json.Unmarshal([]byte(raw), &req))
		s := req.Key
		if req.Recover {
			s += " recover"
		}
		if req.Since != "" {
			s += " since"
		}
		if req.Since == "2026-11-22T10:31:07Z" {
			s += " tool_use"
		}
		if req.SessionID != "s-1" || req.Turn != "t-1" {
			t.Errorf("request without its turn: %s", raw)
		}
		all = append(all, s)
	}
	return all
}

const (
	notBegun  = `{"type":"error","message":"no call with this key","code":"not_found","service":"exc"}`
	recorded  = `{"type":"call_result","result":{"ok":true,"data":{"n":1}},"recovered":true}`
	fresh     = `{"type":"call_result","result":{"ok":true,"data":{"n":2}}}`
	undecided = `{"type":"call_result","result":` + proto.InterruptedResult + `,"recovered":true}`
	codeRan   = `{"type":"result","exit_code":0,"stdout":"x","stderr":"","recovered":true}`
	codeLost  = `{"type":"result","exit_code":-1,"stdout":"","stderr":"` + proto.InterruptedCall + `","interrupted":true,"recovered":true}`
	stopping  = `{"type":"error","message":"exc is stopping: try again","code":"unavailable","service":"exc","kind":"transport"}`
	canceled  = `{"type":"error","message":"exc stops","code":"canceled","service":"exc"}`
	tooMany   = `{"type":"error","message":"too many jobs","code":"busy","service":"exc"}`
)

// marked adds a field to a packet tool_finished.
func marked(packet, field string) string {
	return strings.TrimSuffix(packet, "}") + `,"` + field + `":true}`
}

// TestRecover checks what becomes of a call that may have run, for each tool.
func TestRecover(t *testing.T) {
	t.Parallel()
	const first, second = `{"ok":true,"data":{"n":1}}`, `{"ok":true,"data":{"n":2}}`
	key := "s-1/t-1/4/a"
	for _, c := range []struct {
		name, tool, input string
		exc               []string // answers
		asked             []string
		packet            string
	}{
		{"recorded", "bash", `{"command":"x"}`, []string{recorded}, []string{key + " recover since tool_use"}, marked(finished("a", "bash", first), "recovered")},
		{"never begun", "write", `{"path":"p","content":"x"}`, []string{notBegun, fresh}, []string{key + " recover since tool_use", key + " since tool_use"}, finished("a", "write", second)},
		{"undecided", "edit", `{"path":"p"}`, []string{undecided}, []string{key + " recover since tool_use"}, marked(finished("a", "edit", proto.InterruptedResult), "synthetic")},
		{"code", "execute_python3", `{"code":"x"}`, []string{codeRan}, []string{key + " recover since tool_use"}, marked(finished("a", "execute_python3", ran("x")), "recovered")},
		{"code that ended with exc", "execute_python3", `{"code":"x"}`, []string{codeLost}, []string{key + " recover since tool_use"}, marked(finished("a", "execute_python3", proto.InterruptedResult), "synthetic")},
		{"read", "read", `{"path":"p"}`, []string{fresh}, []string{""}, finished("a", "read", second)},
		{"remember", "remember", `{"text":"x"}`, nil, nil, finished("a", "remember", `{"ok":true,"data":{"text":"Remembered as memory 7."}}`)},
		{"recall", "recall", `{"query":"x"}`, nil, nil, finished("a", "recall", `{"ok":true,"data":{"text":"No memories found."}}`)},
		{"skill", "task", `{"skill":"disk","request":"x"}`, nil, nil, marked(finished("a", "task", proto.InterruptedResult), "synthetic")},
		{"unknown tool", "mcp_x", `{}`, nil, nil, marked(finished("a", "mcp_x", proto.InterruptedResult), "synthetic")},
		{"malformed", "write", `{"_malformed":"{\"path"}`, nil, nil, finished("a", "write", failedWith("invalid_input", "Malformed tool_call JSON: arguments: unexpected end of JSON input"))},
		{"exc comes back", "bash", `{"command":"x"}`, []string{"", stopping, canceled, recorded}, []string{key + " recover since tool_use", key + " recover since tool_use", key + " recover since tool_use", key + " recover since tool_use"}, marked(finished("a", "bash", first), "recovered")},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t, says("Done.")).withMemory()
			x := e.playExc(c.exc...)
			f := e.follow(question, resumed(open("a", c.tool, c.input, "recover")))
			packets, at := f.until()
			compare(t, packets, begun("a", c.tool), c.packet, checkpoint(4, "infer"))
			f.ok(at, "")
			zinotest.Equal(t, "terminal packet", f.finish(), `{"type":"done","full_text":"Done.","iterations":1}`)
			zinotest.Equal(t, "asked", strings.Join(x.asked(t), ", "), strings.Join(c.asked, ", "))
			var packet struct{ Result proto.Raw }
			zinotest.Must(t, json.Unmarshal([]byte(c.packet), &packet))
			zinotest.Equal(t, "messages", string(e.rtr.asked()[0].Messages), strings.TrimSuffix(question, "]")+","+answering("a", string(packet.Result))+"]")
		})
	}
}

// TestPagesAreNotRepeated checks that code in a page is not run again.
func TestPagesAreNotRepeated(t *testing.T) {
	t.Parallel()
	e := newEnv(t, says("Done."))
	p, _ := e.withPages()
	f := e.follow(question, resumed(open("a", "page_list", `{}`, "recover"), open("b", "page_eval", `{"page":"shop","code":"x"}`, "recover")))
	packets, at := f.until()
	compare(t, packets, begun("a", "page_list"), finished("a", "page_list", string(success(proto.Pages{Pages: []proto.Page{shop}}))),
		begun("b", "page_eval"), marked(finished("b", "page_eval", proto.InterruptedResult), "synthetic"), checkpoint(4, "infer"))
	f.ok(at, "")
	f.finish()
	zinotest.Equal(t, "evaluations", len(p.asked()), 0)
}

// TestRunAction checks that calls that were never started run after a checkpoint, and
// those that may have run before without one.
func TestRunAction(t *testing.T) {
	t.Parallel()
	e := newEnv(t, says("Done."))
	x := e.playExc(recorded, fresh, fresh)
	f := e.follow(question, resumed(open("a", "bash", `{"command":"1"}`, "recover"), open("b", "bash", `{"command":"2"}`, "run"), open("c", "write", `{"path":"3"}`, "run"))+`,"says":[{"say":"s-1","text":"more"}]`)
	for _, want := range [][]string{
		{begun("a", "bash"), marked(finished("a", "bash", `{"ok":true,"data":{"n":1}}`), "recovered"), checkpoint(4, "calls", "b")},
		{begun("b", "bash"), finished("b", "bash", `{"ok":true,"data":{"n":2}}`), checkpoint(4, "calls", "c")},
		{begun("c", "write"), finished("c", "write", `{"ok":true,"data":{"n":2}}`), checkpoint(4, "infer")},
		{delta("Done."), final("Done."), checkpoint(5, "end")},
	} {
		packets, at := f.until()
		compare(t, packets, want...)
		zinotest.Equal(t, "inferences", len(e.rtr.asked()), map[bool]int{true: 1}[at.Step == 5])
		f.ok(at, "")
	}
	zinotest.Equal(t, "asked", strings.Join(x.asked(t), ", "), "s-1/t-1/4/a recover since tool_use, s-1/t-1/4/b since, s-1/t-1/4/c since")
	want := strings.TrimSuffix(question, "]") + "," + answering("a", `{"ok":true,"data":{"n":1}}`) + "," + answering("b", `{"ok":true,"data":{"n":2}}`) + "," + answering("c", `{"ok":true,"data":{"n":2}}`) + `,{"role":"user","content":"more"}]`
	zinotest.Equal(t, "messages", string(e.rtr.asked()[0].Messages), want)
}

// TestExcEnds checks what becomes of a call in whose middle exc ends.
func TestExcEnds(t *testing.T) {
	t.Parallel()
	const again = "s-1/t-1/1/a recover since"
	for _, c := range []struct {
		name   string
		exc    []string
		asked  string
		result string
	}{
		{"it was recorded", []string{"", recorded}, "s-1/t-1/1/a since, " + again, `{"ok":true,"data":{"n":1}}`},
		{"it was never begun", []string{"", "", notBegun, fresh}, "s-1/t-1/1/a since, " + again + ", " + again + ", s-1/t-1/1/a since", `{"ok":true,"data":{"n":2}}`},
		{"it ends twice", []string{"", notBegun, "", recorded}, "s-1/t-1/1/a since, " + again + ", s-1/t-1/1/a since, " + again, `{"ok":true,"data":{"n":1}}`},
		{"a planned stop", []string{stopping, recorded}, "s-1/t-1/1/a since, " + again, `{"ok":true,"data":{"n":1}}`},
		{"the end of a planned stop", []string{canceled, recorded}, "s-1/t-1/1/a since, " + again, `{"ok":true,"data":{"n":1}}`},
		{"another level", []string{strings.Replace(stopping, `,"kind":"transport"`, "", 1)}, "s-1/t-1/1/a since", failedWith("unavailable", "exc is stopping: try again")},
		{"an error", []string{tooMany}, "s-1/t-1/1/a since", failedWith("tool_error", "too many jobs")},
		{"an error later", []string{"", tooMany}, "s-1/t-1/1/a since, " + again, failedWith("tool_error", "too many jobs")},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t, asks("", native("a", "bash", `{"command":"x"}`)), says("Done."))
			x := e.playExc(c.exc...)
			zinotest.Equal(t, "terminal packet", e.follow(question, "").finish(), `{"type":"done","full_text":"Done.","iterations":2}`)
			zinotest.Equal(t, "asked", strings.Join(x.asked(t), ", "), c.asked)
			zinotest.Equal(t, "result", toolResults(t, e.rtr.asked()[1])[0], c.result)
		})
	}
}

// TestExcEndsWhileItReads checks that calls that change nothing are repeated, without a
// key, if exc ends in their middle.
func TestExcEndsWhileItReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tool, input, answer, result string }{
		{"read", `{"path":"p"}`, fresh, `{"ok":true,"data":{"n":2}}`},
		{"job", `{"action":"wait","job":"j-1"}`, `{"type":"job","id":"j-1","state":"exited","exit_code":0}`, `{"ok":true,"data":{"job":"j-1","state":"exited","exit_code":0,"stdout_bytes":0,"stderr_bytes":0}}`},
	} {
		e := newEnv(t, asks("", native("a", c.tool, c.input)), says("Done."))
		x := e.playExc("", stopping, c.answer)
		zinotest.Equal(t, "terminal packet", e.follow(question, "").finish(), `{"type":"done","full_text":"Done.","iterations":2}`)
		zinotest.Equal(t, "requests", len(x.requests.All()), 3)
		zinotest.Equal(t, "result", toolResults(t, e.rtr.asked()[1])[0], c.result)
		if all := strings.Join(x.requests.All(), ""); strings.Contains(all, `"key"`) || strings.Contains(all, `"recover"`) {
			t.Errorf("requests %s", all)
		}
	}
}

// TestExcStaysAway checks that a call is interrupted if exc does not come back, and
// unavailable if it was not there to begin with.
func TestExcStaysAway(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "bash", `{"command":"x"}`), nativeBash("b", "y")), asks("", native("c", "bash", `{"command":"x"}`)), says("Done."))
	e.service.excGone = 0
	e.playExc()
	f := e.follow(question, "")
	for at := (proto.Checkpoint{}); at.Point != proto.PointInfer; {
		_, at = f.until()
		f.ok(at, "")
	}
	_, at := f.until() // calls of the second step
	zinotest.Must(t, os.Remove(e.cfg.Exc.Socket))
	f.ok(at, "")
	f.finish()
	for _, result := range toolResults(t, e.rtr.asked()[2])[:2] {
		zinotest.Equal(t, "result", result, proto.InterruptedResult)
	}
	if got := brief(t, toolResults(t, e.rtr.asked()[2])[2]); !strings.HasPrefix(got, "unavailable: Could not connect to exc: ") {
		t.Errorf("result %s", got)
	}
}

// TestCancelWhileExcIsGone checks that a run ends at once if its caller hangs up while
// a call waits for exc.
func TestCancelWhileExcIsGone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "bash", `{"command":"x"}`)), says("never"))
	x := e.playExc()
	f := e.follow(question, "")
	_, at := f.until()
	f.ok(at, "")
	zinotest.Eventually(t, "two requests", func() bool { return len(x.requests.All()) > 1 })
	f.Close()
	rpctest.WaitIdle(t, e.path)
	e.checkRan(1)
}

// TestNoKeys checks that calls outside of turns, those that only read, and the code of
// skills have no key.
func TestNoKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "bash", `{"command":"x"}`)), says("Done."),
		asks("", native("a", "read", `{"path":"x"}`), native("b/c", "edit", `{}`), native("d", "task", `{"skill":"disk","request":"x"}`)), says("i"), says("code"), says("Done."))
	e.ask(request(question, inSession))
	e.follow(question, "").finish()
	calls, code := e.exc.called(), e.exc.ran()
	if calls[0].Key != "" || calls[0].Turn != "" || calls[0].SessionID != "s-1" || calls[1].Key != "" || calls[1].Turn != "t-1" || code[0].Key != "" || code[0].Turn != "t-1" {
		t.Errorf("calls %+v, code %+v", calls, code)
	}
	// A slash cannot be part of a key: such a call has another id.
	if parts := strings.Split(calls[2].Key, "/"); len(parts) != 4 || len(parts[3]) != 9 {
		t.Errorf("key %q", calls[2].Key)
	}
}

// TestOpenCallsAreChecked checks the errors of malformed calls.
func TestOpenCallsAreChecked(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const message = `Invalid request: field "calls": element 0 needs an id, a name, a step from 1, and the action run or recover`
	for _, c := range []string{
		open("", "bash", `{}`, "run"), open("a", "", `{}`, "run"), open("a", "bash", `{}`, "again"),
		strings.Replace(open("a", "bash", `{}`, "run"), `"step":4`, `"step":0`, 1),
	} {
		_, last := e.ask(request(question, inTurn+resumed(c)))
		if last.Code != "invalid" || last.Message != message {
			t.Errorf("%s: %s", c, last.Raw)
		}
	}
	if _, last := e.ask(request(question, inSession+withEvents+resumed(open("a", "bash", `{}`, "run")))); last.Code != "invalid" {
		t.Errorf("without a turn: %s", last.Raw)
	}
}
