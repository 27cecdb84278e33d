package agr

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestPagesOffered checks that the tools for pages are offered in turns that start
// while repl listens, and that the method tools returns the same list.
func TestPagesOffered(t *testing.T) {
	t.Parallel()
	b := newEnv(t, says("none yet"), says("there"), says("a plain run"), asks("", native("a", "page_list", "")), says("gone"))
	plain, paged := string(offer(b.cat.Snapshot(), withTodo)), string(offer(b.cat.Snapshot(), withPages))
	b.ask(request(question, inSession))
	_, gone := b.withPages()
	b.ask(request(question, inSession))
	b.ask(request(question, ""))
	if _, last := b.ask(`{"type":"tools"}`); last.Raw != `{"type":"tools","tools":`+paged+`}` {
		t.Errorf("withEvents %s", last.Raw)
	}
	gone()
	b.ask(request(question, inSession))
	asked := b.rtr.asked()
	for i, want := range []string{plain, paged, "", plain, plain} {
		if got := string(asked[i].Tools); got != want {
			t.Errorf("inference %d is offered %s", i+1, got)
		}
	}
	want := "unknown_tool: There is no tool 'page_list'. There are: " + ownNames + ", execute_python3, task."
	if got := toolResults(t, asked[4]); len(got) != 1 || brief(t, got[0]) != want {
		t.Errorf("the model sees %q", got)
	}
}

// TestPageTools checks that pages are listed, code runs in them, and code that
// fails is a failed call.
func TestPageTools(t *testing.T) {
	t.Parallel()
	rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
		b := newEnv(t, asks("", native("a", "page_list", ""), native("b", "page_list", "{}"),
			native("c", "page_eval", `{"page":"shop","code":" 12+13\n"}`), native("d", "page_eval", `{"page":"shop-1a2b","code":"x","timeout_ms":1500}`)), says("Done."))
		p, _ := b.withPages()
		p.onEval(func(_ context.Context, req proto.Eval) (proto.Evaluated, error) {
			if req.Code == "x" {
				return proto.Evaluated{Error: "ReferenceError: x", Background: []proto.PageEvent{{Type: "console", Message: "m"}}, DurationMS: 3, File: shop.File}, nil
			}
			return proto.Evaluated{OK: true, Kind: "json", Value: new("25"), DurationMS: 17, File: shop.File}, nil
		})
		if _, last := b.ask(request(question, more+inSession)); last.Text() != "Done." {
			t.Fatalf("last packet %s", last.Raw)
		}
		list := string(success(proto.Pages{Pages: []proto.Page{shop}}))
		want := []string{
			list, list,
			`{"ok":true,"data":{"kind":"json","value":"25","duration_ms":17,"file":"debug/shop-1a2b.md"}}`,
			`{"ok":false,"error":{"code":"page_error","message":"ReferenceError: x"},"data":{"background":[{"type":"console","message":"m"}],"duration_ms":3,"file":"debug/shop-1a2b.md"}}`,
		}
		if got := toolResults(t, b.rtr.asked()[1]); !slices.Equal(got, want) {
			t.Errorf("the model sees %q\nwant %q", got, want)
		}
		evals := []proto.Eval{{Page: "shop", Code: " 12+13\n", Sandbox: "off"}, {Page: "shop-1a2b", Code: "x", TimeoutMS: 1500, Sandbox: "off"}}
		if got := p.asked(); !reflect.DeepEqual(got, evals) {
			t.Errorf("asked for %+v", got)
		}
	})
}

// TestPageFaults checks that a malformed call or an error of repl is a result.
func TestPageFaults(t *testing.T) {
	t.Parallel()
	cases := []struct{ call, want string }{
		{native("a", "page_eval", ""), `invalid_input: The field "page" is missing.`},
		{native("a", "page_eval", `{"page":"shop"}`), `invalid_input: The field "code" is missing.`},
		{native("a", "page_eval", `{"page":null,"code":"x"}`), `invalid_input: The field "page" is missing.`},
		{native("a", "page_eval", `{"page":"shop","code":" \n"}`), "invalid_input: Empty code block."},
		{native("a", "page_eval", `{"page":["shop"],"code":7}`), "invalid_input: Malformed tool_call JSON: page must be a string; code must be a string"},
		{native("a", "page_eval", `{"page":"shop","code":"x","timeout_ms":0.5}`), "invalid_input: Malformed tool_call JSON: timeout_ms must be a whole number from 1 to 86400000"},
		{native("a", "page_eval", `{"page":"sh`), "invalid_input: Malformed tool_call JSON: arguments: unexpected end of JSON input"},
		{native("a", "page_list", `[]`), "invalid_input: Malformed tool_call JSON: arguments: expected an object"},
		{native("a", "page_eval", `{"page":"none","code":"x"}`), `invalid_input: No page "none" is connected. page_list shows the pages.`},
		{native("a", "page_eval", `{"page":"busy","code":"x"}`), "tool_error: too much"},
		{native("a", "page_eval", `{"page":"ending","code":"x"}`), "unavailable: stopping"},
		{native("a", "page_go", ``), "unknown_tool: There is no tool 'page_go'. There are: " + ownNames + ", page_list, page_eval, page_log, page_outline, execute_python3, task."},
	}
	var calls, want []string
	for _, c := range cases {
		calls, want = append(calls, c.call), append(want, c.want)
	}
	b := newEnv(t, asks("", calls...), says("Done."))
	p, _ := b.withPages()
	p.onEval(func(_ context.Context, req proto.Eval) (proto.Evaluated, error) {
		return proto.Evaluated{}, map[string]*proto.Error{
			"none":   {Code: proto.CodeNotFound, Message: `No page "none" is connected.`},
			"busy":   {Code: proto.CodeBusy, Message: "too much"},
			"ending": {Code: proto.CodeUnavailable, Message: "stopping"},
		}[req.Page]
	})
	b.ask(request(question, inSession))
	b.checkResults(2, want...)
}

// TestPageLooks checks the tools that look at a page: a log and an outline.
func TestPageLooks(t *testing.T) {
	t.Parallel()
	rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
		b := newEnv(t, asks("", native("a", "page_log", `{"page":"shop"}`), native("b", "page_log", `{"page":"shop","after":"e-1"}`),
			native("c", "page_outline", `{"page":"shop"}`), native("d", "page_outline", `{"page":"shop","selector":"main","depth":"2"}`)), says("Done."))
		p, _ := b.withPages()
		p.events = []proto.PageEvent{
			{Type: "console", Level: "warn", Source: "console.warn", TS: "10:02:12.120", Place: "app.js:12", Message: "no total"},
			{Type: "window.onerror", Message: "Error: x", Stack: "Error: x\n    at app.js:3"},
		}
		if _, last := b.ask(request(question, `,"sandbox":"read-only"`+more+inSession)); last.Text() != "Done." {
			t.Fatalf("last packet %s", last.Raw)
		}
		log := `{"ok":true,"data":{"events":[{"source":"console.warn","ts":"10:02:12.120","place":"app.js:12","message":"no total"},` +
			`{"source":"window.onerror","stack":"Error: x\n    at app.js:3"}],"next":"e-2","left_out":2}}`
		outline := `{"ok":true,"data":{"text":"main\n  button \"Pay\" #pay\n"}}`
		if got, want := toolResults(t, b.rtr.asked()[1]), []string{log, log, outline, outline}; !slices.Equal(got, want) {
			t.Errorf("the model sees %q\nwant %q", got, want)
		}
		logs, outlines := p.logs.All(), p.outlines.All()
		slices.SortFunc(logs, func(a, b proto.ReadPageLog) int { return strings.Compare(a.After, b.After) }) // they run side by side
		slices.SortFunc(outlines, func(a, b proto.OutlinePage) int { return a.Depth - b.Depth })
		if want := []proto.ReadPageLog{{Page: "shop", Limit: 64}, {Page: "shop", After: "e-1", Limit: 64}}; !slices.Equal(logs, want) {
			t.Errorf("logs %+v", logs)
		}
		if want := []proto.OutlinePage{{Page: "shop"}, {Page: "shop", Selector: "main", Depth: 2}}; !slices.Equal(outlines, want) {
			t.Errorf("outlines %+v", outlines)
		}
	})
}

// TestPageLookFaults checks malformed calls of the tools that look at a page.
func TestPageLookFaults(t *testing.T) {
	t.Parallel()
	b := newEnv(t, asks("", native("a", "page_log", ""), native("b", "page_log", `{"page":"none"}`), native("c", "page_log", `{"page":1,"after":2}`),
		native("d", "page_outline", ""), native("e", "page_outline", `{"page":"none"}`), native("f", "page_outline", `{"page":"shop","selector":[],"depth":101}`)), says("Done."))
	b.withPages()
	b.ask(request(question, inSession))
	const malformed, missing, unknown = "invalid_input: Malformed tool_call JSON: ", `invalid_input: The field "page" is missing.`, `invalid_input: No page "none" is connected. page_list shows the pages.`
	b.checkResults(2, missing, unknown, malformed+"page must be a string; after must be a string",
		missing, unknown, malformed+"selector must be a string; depth must be a whole number from 1 to 100")
}

// TestLongPageLooks checks that long logs and outlines are short for the model, and that
// the log continues where it was cut.
func TestLongPageLooks(t *testing.T) {
	t.Parallel()
	b := newEnv(t, asks("", native("a", "page_log", `{"page":"shop"}`), native("b", "page_outline", `{"page":"shop","depth":100}`)), says("Done."))
	p, _ := b.withPages()
	p.events = slices.Repeat([]proto.PageEvent{{Source: "console.log", Message: strings.Repeat("x", 500)}}, 1000)
	b.ask(request(question, inSession))
	got := toolResults(t, b.rtr.asked()[1])
	if len(got) != 2 || len(got[0]) > pageBytes || strings.Count(got[0], "console.log") != 8 || !strings.Contains(got[0], `"next":"e-8"`) {
		t.Errorf("the model sees %q", got)
	}
	if len(got[1]) > pageBytes+200 || !strings.Contains(got[1], "bytes are left out here: give a selector, or a smaller depth") {
		t.Errorf("the model sees %q", got[1])
	}
}

// TestPagesConfined checks that the sandbox level of the turn reaches repl,
// which refuses the code or runs it outside the sandbox; the model is informed
// in both cases.
func TestPagesConfined(t *testing.T) {
	t.Parallel()
	rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
		b := newEnv(t, asks("", native("a", "page_eval", `{"page":"shop","code":"x"}`), native("b", "page_eval", `{"page":"shop","code":"y"}`)), says("Done."))
		p, _ := b.withPages()
		p.onEval(func(_ context.Context, req proto.Eval) (proto.Evaluated, error) {
			if req.Code == "x" {
				return proto.Evaluated{}, &proto.Error{Code: proto.CodeDenied, Message: "Pages are not confined."}
			}
			return proto.Evaluated{OK: true, Kind: "json", Value: new("25")}, nil
		})
		b.ask(request(question, `,"sandbox":"read-only"`+more+inSession))
		for _, req := range p.asked() {
			if req.Sandbox != "read-only" {
				t.Errorf("asked for %+v", req)
			}
		}
		want := []string{
			`{"ok":false,"error":{"code":"denied","message":"Pages are not confined."}}`,
			`{"ok":true,"data":{"kind":"json","value":"25","duration_ms":0,"note":"Pages are not confined: this code ran outside the sandbox (read-only) of this turn."}}`,
		}
		if got := toolResults(t, b.rtr.asked()[1]); !slices.Equal(got, want) {
			t.Errorf("the model sees %q\nwant %q", got, want)
		}
	})
}

// TestPagesConfiguredLevel checks that a turn without a sandbox level has the
// configured one.
func TestPagesConfiguredLevel(t *testing.T) {
	t.Parallel()
	b := startEnv(t, func(cfg *config.Config) { cfg.Exc.Sandbox = "workspace-write" },
		says(`<tool_call>{"name":"page_eval","arguments":{"page":"shop","code":"x"}}</tool_call>`), says("Done."))
	p, _ := b.withPages()
	b.ask(request(question, inSession))
	if got := p.asked(); len(got) != 1 || got[0].Sandbox != "workspace-write" {
		t.Errorf("asked for %+v", got)
	}
}

// TestPagesGone checks that the tools for pages are unavailable if repl ends during a
// turn.
func TestPagesGone(t *testing.T) {
	t.Parallel()
	b := newEnv(t)
	_, gone := b.withPages()
	b.rtr.script = []reply{func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error) {
		gone()
		return proto.Text{ToolCalls: callList(native("a", "page_list", ""), native("b", "page_eval", `{"page":"shop","code":"x"}`))}, nil
	}, says("Done.")}
	b.ask(request(question, inSession))
	for _, got := range toolResults(t, b.rtr.asked()[1]) {
		if !strings.HasPrefix(brief(t, got), "unavailable: Could not connect to repl: ") {
			t.Errorf("the model sees %s", got)
		}
	}
}

// TestPageBlocks checks that a model without native calls can use pages with
// blocks, and that the calls are reported.
func TestPageBlocks(t *testing.T) {
	t.Parallel()
	b := newEnv(t, says(`Look. <tool_call>{"name":"page_eval","arguments":{"page":"shop","code":"1<2"}}</tool_call>`), says("Done."))
	p, _ := b.withPages()
	withEvents := strings.Join(b.watch(request(question, inSession+withEvents)), "\n")
	for _, want := range []string{`"name":"page_eval","input":{"page":"shop","code":"1<2"}`, `"result":{"ok":true,"data":{"kind":"json","value":"25"`} {
		if !strings.Contains(withEvents, want) {
			t.Errorf("no %s in %s", want, withEvents)
		}
	}
	if got := p.asked(); len(got) != 1 || got[0].Code != "1<2" {
		t.Errorf("asked for %+v", got)
	}
}

// TestStrangeSocket checks that a listener that never answers does not delay a turn:
// no request is sent before a tool is called.
func TestStrangeSocket(t *testing.T) {
	t.Parallel()
	b := newEnv(t, says("Done."))
	l, err := net.Listen("unix", b.cfg.Repl.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, last := b.ask(request(question, inSession)); last.Text() != "Done." {
		t.Errorf("last packet %s", last.Raw)
	}
	if got, want := string(b.rtr.asked()[0].Tools), string(offer(b.cat.Snapshot(), withPages)); got != want {
		t.Errorf("offered %s", got)
	}
}

func TestEvaluated(t *testing.T) {
	console := proto.PageEvent{Type: "console", Level: "log", Source: "console.log", Message: "<hi>"}
	for _, c := range []struct {
		name string
		in   proto.Evaluated
		want string
	}{
		{
			"a value",
			proto.Evaluated{OK: true, Kind: "json", Value: new(`{"a":1}`), DurationMS: 17, File: "debug/a-1.md"},
			`{"ok":true,"data":{"kind":"json","value":"{\"a\":1}","duration_ms":17,"file":"debug/a-1.md"}}`,
		},
		{
			"with background",
			proto.Evaluated{OK: true, Kind: "text", Value: new(""), Background: []proto.PageEvent{console}, Omitted: 3},
			`{"ok":true,"data":{"kind":"text","background":[{"type":"console","level":"log","source":"console.log","message":"<hi>"}],"background_omitted":3,"duration_ms":0}}`,
		},
		{
			"an error",
			proto.Evaluated{Error: "TypeError: x\n  at y", Background: []proto.PageEvent{console}, DurationMS: 16, File: "f"},
			`{"ok":false,"error":{"code":"page_error","message":"TypeError: x\n  at y"},"data":{"background":[{"type":"console","level":"log","source":"console.log","message":"<hi>"}],"duration_ms":16,"file":"f"}}`,
		},
	} {
		if got := evaluated(c.in, 1000, "off"); string(got) != c.want || !isEnvelope(got) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if got := string(success(proto.Pages{Pages: []proto.Page{}})); got != `{"ok":true,"data":{"pages":[]}}` {
		t.Errorf("no pages: %s", got)
	}
}

// TestLongEvaluated checks that the model gets the beginning and the end of a long
// text.
func TestLongEvaluated(t *testing.T) {
	const limit = 4096
	long := "begin " + strings.Repeat("語", 100_000) + " end"
	event := proto.PageEvent{Message: long, Stack: long}
	for _, ok := range []bool{true, false} {
		in := proto.Evaluated{OK: ok, Value: &long, Background: slices.Repeat([]proto.PageEvent{event}, 10)}
		if !ok {
			in.Value, in.Error = nil, long
		}
		got := evaluated(in, limit, "off")
		if len(got) > 3*limit || !isEnvelope(got) {
			t.Errorf("%d bytes: %s", len(got), got)
		}
		if n := strings.Count(string(got), "begin 語"); n != 21 || strings.Count(string(got), "語 end") != n || strings.Count(string(got), "bytes are left out here") != n {
			t.Errorf("%d texts: %s", n, got)
		}
		if event.Message != long || in.Background[0].Message != long {
			t.Error("the argument was changed")
		}
	}
}

// FuzzEvaluated checks that every answer of a page is an envelope, and short
// texts are complete.
func FuzzEvaluated(f *testing.F) {
	for _, seed := range []string{"", "25", "\xff\u2028\x00", strings.Repeat("é", 600), strings.Repeat("\x80", 2000)} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, ok bool) {
		const limit = 1024
		var got struct {
			OK    bool
			Error struct{ Code, Message string }
			Data  struct {
				Value      string
				Background []struct{ Message string }
			}
		}
		raw := evaluated(proto.Evaluated{OK: ok, Value: &text, Error: text, Background: []proto.PageEvent{{Message: text}}}, limit, "read-only")
		if err := json.Unmarshal(raw, &got); err != nil || !isEnvelope(raw) || got.OK != ok || len(got.Data.Background) != 1 || !ok && got.Error.Code != proto.ToolPageError {
			t.Fatalf("%q: %s, %v", text, raw, err)
		}
		if utf8.ValidString(text) && len(text) <= limit && (got.Data.Value != text || !ok && got.Error.Message != text) {
			t.Errorf("%q became %q", text, got.Data.Value)
		}
		if utf8.ValidString(text) && strings.ContainsRune(got.Data.Value, utf8.RuneError) && !strings.ContainsRune(text, utf8.RuneError) {
			t.Errorf("a character of %q was split", text)
		}
	})
}

// TestOffered checks that a turn offers the tools that the catalog has when it starts,
// and that the method tools returns the same list.
func TestOffered(t *testing.T) {
	b := newEnv(t, says("one"), says("two"))
	dir := filepath.Dir(b.path)
	wants := []string{string(offer(b.cat.Snapshot(), withTodo))}
	b.ask(request(question, inSession))
	if err := os.WriteFile(filepath.Join(dir, "tools", "perl.json"), []byte(`{"description":"the \"pearl\""}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "skills")); err != nil {
		t.Fatal(err)
	}
	wants = append(wants, string(offer(b.cat.Reload(), withTodo)))
	if wants[0] == wants[1] {
		t.Fatal("nothing has changed")
	}
	b.ask(request(question, inSession))
	for i, want := range wants {
		if got := string(b.rtr.asked()[i].Tools); got != want {
			t.Errorf("turn %d\n got %s\nwant %s", i+1, got, want)
		}
	}
	if _, last := b.ask(`{"type":"tools"}`); last.Raw != `{"type":"tools","tools":`+wants[1]+`}` {
		t.Errorf("withEvents %s", last.Raw)
	}
}

// TestNoFiles checks that without files a session still has the tools of exc;
// the tool task does not exist.
func TestNoFiles(t *testing.T) {
	b := newEnv(t, asks("", native("a", "task", `{"skill":"disk","request":"x"}`)), says("Done."))
	dir := filepath.Dir(b.path)
	for _, name := range []string{"tools", "skills"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.cat.Reload()
	if _, last := b.ask(request(question, inSession)); last.Text() != "Done." {
		t.Errorf("last packet %s", last.Raw)
	}
	asked := b.rtr.asked()
	var offered []proto.Raw
	if err := json.Unmarshal(asked[0].Tools, &offered); err != nil || len(offered) != len(ownTools)+2 {
		t.Errorf("offered %s", asked[0].Tools)
	}
	if got, err := lastMessage(asked[1]); brief(t, got) != "unknown_tool: There is no tool 'task'. There are: "+ownNames+"." || err != nil {
		t.Errorf("the model sees %q, %v", got, err)
	}
}

// TestHiddenNames checks that a file cannot redefine a tool of exc in a session. A
// plain run, which does not have exc's tools, uses the file's tool.
func TestHiddenNames(t *testing.T) {
	b := newEnv(t, asks("", native("a", "read", `{"path":"x"}`)), says("Done."), says(`<tool_call>{"name":"read","arguments":{"query":"x"}}</tool_call>`), says("Done."))
	b.writeTool("read", `{"name":"read","builtin":"recall"}`)
	b.exc.answers(func(proto.Call) proto.Raw { return said("from exc") })
	b.ask(request(question, inSession))
	b.ask(request(question, ""))
	asked := b.rtr.asked()
	if got := toolResults(t, asked[1]); len(got) != 1 || brief(t, got[0]) != "from exc" {
		t.Errorf("the session's model sees %q", got)
	}
	if got := string(asked[0].Tools); got != string(offer(b.cat.Snapshot(), withTodo)) {
		t.Errorf("offered %s", got)
	}
	if got, err := lastMessage(asked[3]); err != nil || got != `<tool_call>{"name":"read","arguments":{"query":"x"}}</tool_call>`+response("No memories found.") {
		t.Errorf("the plain run's model sees %q, %v", got, err)
	}
}

// executeJSON returns the description of an executor's function.
func executeJSON(name, description string) string {
	return `{"type":"function","function":{"name":"` + name + `","description":"` + description + `","parameters":{"type":"object","properties":` +
		`{"code":{"type":"string","description":"The whole program."}},"required":["code"]}}}`
}

// taskJSON returns the description of the tool task.
func taskJSON(description, names string) string {
	return `{"type":"function","function":{"name":"task","description":"Gives a request to a skill, which writes a program for it, runs it and returns the output.",` +
		`"parameters":{"type":"object","properties":{"request":{"type":"string","description":"What to do, in plain words."},` +
		`"skill":{"type":"string","description":"` + description + `","enum":` + names + `}},"required":["skill","request"]}}}`
}

func TestOffer(t *testing.T) {
	perl := executeJSON("execute_perl", "perl executor: runs code and returns its output")
	long := strings.Repeat("x", 56)
	for _, c := range []struct {
		name     string
		snapshot catalog.Snapshot
		want     string
	}{
		{"nothing", catalog.Snapshot{}, ""},
		{"an executor", catalog.Snapshot{Tools: []catalog.Tool{{Executor: "perl"}}}, perl},
		{
			"described",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "python3", Description: "runs <Python>"}, {Executor: "perl"}}},
			executeJSON("execute_python3", "runs <Python>") + "," + perl,
		},
		{
			"two files of one executor",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "lua", Description: "first"}, {Executor: "lua", Description: "second"}}},
			executeJSON("execute_lua", "first"),
		},
		{
			"names that providers refuse",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "c++"}, {Executor: "my tool"}, {Executor: "é"}, {Executor: "python3.12"}, {Executor: long + "x"}, {Executor: long}}},
			executeJSON("execute_"+long, long+" executor: runs code and returns its output"),
		},
		{"shells", catalog.Snapshot{Tools: []catalog.Tool{{Executor: "bash"}, {Executor: "sh"}, {Executor: "/bin/bash"}, {Executor: "zsh"}}}, executeJSON("execute_zsh", "zsh executor: runs code and returns its output")},
		{"only invalid names", catalog.Snapshot{Tools: []catalog.Tool{{Executor: "c++"}}}, ""},
		{"skills", catalog.Snapshot{Skills: []catalog.Skill{{Name: "disk"}, {Name: "a b"}}}, taskJSON("The skill.", `["disk","a b"]`)},
		{
			"built-in",
			catalog.Snapshot{Tools: []catalog.Tool{{Name: "recall", Builtin: "recall", Parameters: proto.Raw(`{"type":"object"}`)}, {Name: "read", Builtin: "recall"}, {Name: "note", Builtin: "remember", Description: "n", Parameters: proto.Raw(`{"type":"object","x":1}`)}}},
			`{"type":"function","function":{"name":"recall","description":"built-in tool: recall","parameters":{"type":"object"}}},{"type":"function","function":{"name":"note","description":"n","parameters":{"type":"object","x":1}}}`,
		},
		{
			"all",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "perl"}}, Skills: []catalog.Skill{{Name: "disk", Description: "how full it is\n"}, {Name: "x"}, {Name: "y", Description: "z"}}},
			perl + "," + taskJSON(`The skill.\ndisk: how full it is\ny: z`, `["disk","x","y"]`),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(offer(&c.snapshot, withTodo))
			rest, ok := strings.CutPrefix(got, strings.TrimSuffix(string(offer(&catalog.Snapshot{}, withTodo)), "]"))
			if want := strings.TrimSuffix(","+c.want, ","); !ok || strings.TrimSuffix(rest, "]") != want {
				t.Errorf("got  %s\nwant the four, %s", got, want)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("%s is not JSON", got)
			}
		})
	}
}

// TestOwn checks that the tools of every session come first and describe every parameter.
// They are short, since every turn sends them.
func TestOwn(t *testing.T) {
	raw := offer(&catalog.Snapshot{}, kit{})
	job := (len(encode(jobTool.function)) + len(`,{"type":"function","function":}`)) / 4
	if tokens := len(raw)/4 - job; tokens >= 540 || job > 80 {
		t.Errorf("%d tokens, and %d of job", tokens, job)
	}
	if tokens := (len(offer(&catalog.Snapshot{}, withTodo)) - len(raw)) / 4; tokens > 100 {
		t.Errorf("todo has %d tokens", tokens)
	}
	var list []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        struct {
				Type       string
				Properties map[string]struct{ Type, Description string }
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	wants := map[string]string{readTool: "path", writeTool: "path content", editTool: "path old new", bashTool: "command", "job": "action job"}
	if len(list) != len(wants) {
		t.Fatalf("the tools are %s, want those of %q", raw, wants)
	}
	for _, f := range list {
		p := f.Function.Parameters
		if f.Type != "function" || f.Function.Description == "" || p.Type != "object" || strings.Join(p.Required, " ") != wants[f.Function.Name] {
			t.Errorf("%+v", f)
		}
		if f.Function.Name == jobTool.Name { // the names say it
			continue
		}
		for name, property := range p.Properties {
			optional := property.Type != "string" || name == "escalate"
			if property.Description == "" || optional == slices.Contains(p.Required, name) {
				t.Errorf("%s of %s: %+v", name, f.Function.Name, property)
			}
		}
	}
	for _, name := range []string{"", "Read", "execute_bash", proto.TaskTool, "recall"} {
		if indexOf(ownTools, name) >= 0 {
			t.Errorf("%q is in ownTools", name)
		}
	}
}

func TestNames(t *testing.T) {
	got := toolNames(offered(&catalog.Snapshot{
		Tools:  []catalog.Tool{{Executor: "bash"}, {Executor: "perl"}, {Name: "recall", Builtin: "recall"}},
		Skills: []catalog.Skill{{Name: "disk"}},
	}, withTodo))
	if want := []string{"read", "write", "edit", "bash", "job", "todo", "execute_perl", "recall", "task"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestOfferPages checks that with repl the four tools for pages follow the four of exc,
// are short, and cannot be redefined by a file. Without repl a file can define them.
func TestOfferPages(t *testing.T) {
	snapshot := &catalog.Snapshot{Tools: []catalog.Tool{{Name: "page_eval", Builtin: "recall"}, {Name: "recall", Builtin: "recall"}}}
	for k, want := range map[kit]string{withTodo: ownNames + ", page_eval, recall", withPages: ownNames + ", page_list, page_eval, page_log, page_outline, recall"} {
		if got := strings.Join(toolNames(offered(snapshot, k)), ", "); got != want {
			t.Errorf("%+v: %s", k, got)
		}
	}
	without, with := offer(&catalog.Snapshot{}, withTodo), offer(&catalog.Snapshot{}, withPages)
	if tokens := (len(with) - len(without)) / 4; tokens > 400 {
		t.Errorf("%d tokens", tokens)
	}
	var list []struct {
		Function struct {
			Name, Description string
			Parameters        struct {
				Type       string
				Properties map[string]struct{ Type, Description string }
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(with, &list); err != nil || len(list) != len(ownTools)+6 {
		t.Fatalf("%s: %v", with, err)
	}
	for i, required := range []string{"", "page code", "page", "page"} {
		f := list[len(ownTools)+2+i].Function
		if indexOf(pageTools, f.Name) < 0 || f.Description == "" || f.Parameters.Type != "object" || f.Parameters.Required == nil || strings.Join(f.Parameters.Required, " ") != required {
			t.Errorf("%+v", f)
		}
		for name, p := range f.Parameters.Properties {
			if p.Description == "" || slices.Contains(f.Parameters.Required, name) && p.Type != "string" {
				t.Errorf("%s of %s: %+v", name, f.Name, p)
			}
		}
	}
}
