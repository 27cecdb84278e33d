package adapters

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/repl"
)

var must = zinotest.Must

const fence = "```"

// The commands that start a program with each adapter.
var (
	node   = []string{"node", "zino_repl.mjs"}
	python = []string{"python3", "-u", "zino_repl.py"}
)

// each runs a test for each program, in parallel with other tests.
func each(t *testing.T, test func(t *testing.T, program []string)) {
	t.Parallel()
	for _, program := range [][]string{node, python} {
		t.Run(program[0], func(t *testing.T) { test(t, program) })
	}
}

// of returns the value for the given program.
func of[T any](program []string, forNode, forPython T) T {
	if program[0] == "node" {
		return forNode
	}
	return forPython
}

// env is a service on a socket and an attached program.
type env struct {
	t       testing.TB
	dir     string
	socket  string
	client  *rpc.Client
	stop    func() // stops the service
	program *zinotest.Process
}

func newEnv(t testing.TB) *env {
	t.Helper()
	b := &env{t: t, dir: zinotest.Dir(t)}
	b.socket = filepath.Join(b.dir, "s")
	b.client = rpctest.Client(t, "repl", b.socket)
	b.start()
	return b
}

// start serves until stop is called or the test ends.
func (b *env) start() {
	b.t.Helper()
	cfg := config.Default().Repl
	cfg.Dir = b.dir
	log := slog.New(slog.DiscardHandler)
	s, err := repl.New(cfg, nil, log)
	must(b.t, err)
	srv := rpc.NewServer("repl", log)
	s.Register(srv)
	_, shutdown := rpctest.Serve(b.t, srv, b.socket)
	b.stop = sync.OnceFunc(func() {
		must(b.t, s.Close())
		shutdown()
	})
	b.t.Cleanup(b.stop)
}

// script writes a file for a runtime.
func (b *env) script(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	zinotest.Write(b.t, path, text)
	return path
}

// run starts a program with the adapter's socket in its environment.
func (b *env) run(program []string, args ...string) {
	b.t.Helper()
	name := program[0]
	cmd := exec.Command(name, append(program[1:len(program):len(program)], args...)...)
	cmd.Env = append(os.Environ(), "ZINO_REPL_SOCKET="+b.socket, "HOME="+b.dir, "PYTHONDONTWRITEBYTECODE=1")
	out := new(zinotest.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	b.program = zinotest.Start(b.t, cmd)
	b.program.Err = out
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("output of %s: %s", name, out)
		}
	})
}

func (b *env) pages() []proto.Page {
	b.t.Helper()
	pages, err := rpc.Call(b.t.Context(), b.client, proto.ReplPages, proto.PagesRequest{})
	must(b.t, err)
	return pages.Pages
}

// until waits for a condition.
func (b *env) until(what string, condition func() bool) {
	b.t.Helper()
	zinotest.Eventually(b.t, what, condition)
}

// page waits until exactly one page is attached and returns it.
func (b *env) page() (p proto.Page) {
	b.t.Helper()
	b.until("one page", func() bool {
		pages := b.pages()
		if len(pages) == 1 {
			p = pages[0]
		}
		return len(pages) == 1
	})
	return p
}

// gone waits until no page is attached.
func (b *env) gone() {
	b.t.Helper()
	b.until("no page", func() bool { return len(b.pages()) == 0 })
}

// eval runs code in the page.
func (b *env) eval(code string) proto.Evaluated {
	b.t.Helper()
	r, err := rpc.Call(b.t.Context(), b.client, proto.ReplEval, proto.Eval{Page: b.page().ID, Code: code})
	must(b.t, err)
	return r
}

var logged = regexp.MustCompile("(?m)^(```+(?:Text|JSON|Error) [^ ]+) [0-9:]{8}(?:\\.[0-9]{3})?(?: .*)?$")

// has waits for texts in the page's file, without the time and place of events.
func (b *env) has(parts ...string) {
	b.t.Helper()
	file := filepath.Join(b.dir, b.page().File)
	b.until(fmt.Sprintf("%q in the log", parts), func() bool {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a page is listed before its file is created
			b.t.Fatal(err)
		}
		text = logged.ReplaceAll(text, []byte("$1"))
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				return false
			}
		}
		return true
	})
}

// step is code and its result. The kind "error" is an error that contains value.
type step struct{ code, kind, value string }

func (b *env) follow(steps []step) {
	b.t.Helper()
	for _, s := range steps {
		r := b.eval(s.code)
		switch {
		case s.kind == "error" && (r.OK || !strings.Contains(r.Error, s.value)),
			s.kind != "error" && (!r.OK || r.Kind != s.kind || valueOf(r) != s.value):
			b.t.Errorf("%s\ngot  %s %q %+v\nwant %s %q", s.code, r.Kind, valueOf(r), r, s.kind, s.value)
		}
	}
}

// TestForeignDirectory checks that a program does not connect to a socket in a directory
// that other users can write to, because the service can run code in the program.
func TestForeignDirectory(t *testing.T) {
	each(t, func(t *testing.T, program []string) {
		dir := t.TempDir()
		own := filepath.Join(dir, "zino")
		must(t, errors.Join(os.Mkdir(own, 0o700), os.Chmod(own, 0o777), os.WriteFile(filepath.Join(own, "repl.sock"), nil, 0o600)))
		cmd := exec.Command(program[0], program[1:]...)
		cmd.Env = append(os.Environ(), "ZINO_REPL_SOCKET=", "XDG_RUNTIME_DIR="+dir)
		output, err := cmd.CombinedOutput()
		want := own + " is not a directory that only you can use (mode 0700): remove it, or set ZINO_REPL_SOCKET\n"
		if cmd.ProcessState.ExitCode() != 1 || string(output) != want {
			t.Errorf("%v, printed %q", err, output)
		}
	})
}

// TestEarly checks that events of a program that starts before the service are kept.
func TestEarly(t *testing.T) {
	each(t, func(t *testing.T, program []string) {
		b := newEnv(t)
		b.stop()
		b.run(program, b.script("early", of(program, `console.log("early")`, `print("early")`)))
		b.program.WaitFor("early")
		b.start()
		b.has("\nearly\n")
	})
}

// TestAnswerConnection checks that an attached program opens its connection for results
// at once, because a stopping service accepts no new one, and that it sends long events.
func TestAnswerConnection(t *testing.T) {
	each(t, func(t *testing.T, program []string) {
		b := newEnv(t)
		b.run(program)
		b.page()
		b.until("three connections", func() bool { // including the test's own
			stats, err := rpc.Call(t.Context(), b.client, proto.GetStats, proto.StatsRequest{})
			must(t, err)
			return stats.Connections >= 3
		})
		r := b.eval(of(program, `console.log({ a: "x".repeat(20_000) })`, `import json; print(json.dumps({"a": "x" * 20_000}))`))
		if len(r.Background) != 1 || len(r.Background[0].Message) < 20_000 {
			t.Errorf("%+v", r)
		}
	})
}

// TestEval checks which names persist between blocks, and the form of values and errors.
func TestEval(t *testing.T) {
	each(t, func(t *testing.T, program []string) {
		b := newEnv(t)
		b.run(program, "--name", "My Shop")
		if p := b.page(); p.Name != "my-shop" || p.Lang != of(program, "js", "python") || p.Kind != "program" {
			t.Errorf("%+v", p)
		}
		b.follow(of(program, nodeSteps, pythonSteps))
		text := strings.Repeat("x€😀", 1<<18)
		r := b.eval(of(program, "'x€😀'.repeat(1 << 18)", "'x€😀' * (1 << 18)"))
		if whole := b.whole(r); !r.OK || whole != text {
			t.Errorf("a long string: %d bytes, ending %.60q, error %q", len(whole), whole[max(0, len(whole)-60):], r.Error)
		}
		r = b.eval(of(program, "throw new Error('x€😀'.repeat(1 << 18))", "raise Exception('x€😀' * (1 << 18))"))
		if whole := b.whole(r); r.OK || !strings.Contains(whole, text) {
			t.Errorf("a long error: %d bytes, ending %.60q", len(whole), whole[max(0, len(whole)-60):])
		}
	})
}

var nodeSteps = []step{
	{"12+13", "json", "25"},
	{"'a\\nb'", "text", "a\nb"},
	{"let a = 1; const f = (x) => x + a; class C { m() { return 7 } }", "text", "undefined"},
	{"f(1) + new C().m()", "json", "9"},
	{"function g() { return a }", "text", "undefined"},
	{"g() // and a remark", "json", "1"},
	{"{a: 1, b: [true, null, 'x']}", "json", `{"a":1,"b":[true,null,"x"]}`},
	{"{a}", "json", `{"a":1}`},
	{"{ let hidden = 5; hidden }", "json", "5"},
	{"await Promise.resolve([1, 2])", "json", "[1,2]"},
	{"const late = await Promise.resolve(3); return late + 1", "json", "4"},
	{"const c = await Promise.resolve(1); c", "json", "1"},
	{"let d = await Promise.resolve(1)\nlet e = c + 1\nd + e;", "json", "3"},
	{"const later = () => d; d = 7; later()", "json", "7"},
	{"const c = await later(); c", "json", "7"},
	{"let first = 4; await null; throw new Error('between')", "error", "Error: between"},
	{"first", "json", "4"},
	{"(await import('node:path')).basename('/a/b')", "text", "b"},
	{"['import(1)', `${typeof import('node:os')}`]", "json", `["import(1)","object"]`},
	{"require('node:path').basename('/a/c')", "text", "c"},
	{"Promise.resolve(8)", "json", "8"},
	{"throw new Error('oh no')", "error", "Error: oh no\n    at zino-job-"},
	{"await 1\n;null.foo", "error", ".js:2:7"},
	{"1\n  let let = 2", "error", ".js:2:7"},
	{"throw 'a string'", "error", "Uncaught a string"},
	{"throw undefined", "error", "undefined"},
	{"throw new Error('outer', { cause: new RangeError('inner') })", "error", "\nCaused by: RangeError: inner"},
	{"throw Object.defineProperty(new Error('no'), 'stack', { get() { throw 1 } })", "error", "[cannot be shown]"},
	{"const one = new Error('one'), two = new Error('two', { cause: one }); one.cause = two; throw one", "error", "\nCaused by: Error: two\n    at zino-job-"},
	{"throw new DOMException('late', 'TimeoutError')", "error", "TimeoutError: late"},
	{"nowhere", "error", "ReferenceError: nowhere is not defined"},
	{"let a = 2; a", "json", "2"},
	{"if (", "error", "SyntaxError: Unexpected end of input"},
	{"globalThis.ran = (globalThis.ran ?? 0) + 1; null.x", "error", "TypeError"},
	{"ran", "json", "1"},
	{"{a:1}); globalThis.ran = 99; ({b:2}", "error", "SyntaxError"},
	{"ran", "json", "1"},
	{"null", "json", "null"},
	{"-0", "text", "-0"},
	{"10n", "text", "10n"},
	{"Symbol('s')", "text", "Symbol(s)"},
	{"(x) => x + 1", "text", "(x) => x + 1"},
	{
		"[10n, -0, NaN, Symbol('s'), undefined, () => 1, g, class Q {}, /a/g, new Date(0), new Date(NaN), new URL('http://x/a')]", "json",
		`["10n","-0","NaN","Symbol(s)","undefined","[Function]","[Function: g]","[Function: Q]","/a/g","1970-01-01T00:00:00.000Z","Invalid Date","http://x/a"]`,
	},
	{"new Map([[1, {a: 2}]])", "json", `{"[Map]":[[1,{"a":2}]]}`},
	{
		"[new Set([1]), new Uint8Array([1, 2]), new Headers({ a: 'b' }), new String('a'), Object(1n), Buffer.from('a')]", "json",
		`[{"[Set]":[1]},{"[Uint8Array]":[1,2]},{"[Headers]":[["a","b"]]},{"[String]":"a"},{"[BigInt]":"1n"},{"[Buffer]":[97]}]`,
	},
	{"globalThis.o = {}; o.o = o; o", "json", `{"o":"[Circular]"}`},
	{"({ get x() { globalThis.ran = 99; throw 1 }, set y(v) {} })", "json", `{"x":"[Getter]","y":"[Setter]"}`},
	{"({ toJSON() { globalThis.ran = 99 }, then(f) { f(1) } })", "json", `{"toJSON":"[Function: toJSON]","then":"[Function: then]"}`},
	{"new (class Point { x = 1 })", "json", `{"[class]":"Point","x":1}`},
	{"const failed = new TypeError('no'); failed.stack = 'TypeError: no\\n    at x.js:1:2'; failed.code = 5; failed", "json", `{"[TypeError]":"no","stack":["x.js:1:2"],"code":5}`},
	{"new Proxy({ a: 1 }, { get() { globalThis.ran = 99 }, ownKeys() { globalThis.ran = 99; return [] } })", "json", `"{ a: 1 }"`},
	{"ran", "json", "1"},
	{"[, 1, , , 2]", "json", `["[empty]",1,"[2 empty]",2]`},
	{"new Array(80_000)", "json", `["[80,000 empty]"]`},
	{"let deep = 1; for (let i = 0; i < 60; i++) deep = [deep]; JSON.stringify(deep).length", "json", "121"},
	{"var v = 1; let v = 2", "error", "SyntaxError: Identifier 'v' has already been declared"},
	{"({ ['__proto__']: 1, constructor: 2 })", "json", `{"__proto__":1,"constructor":2}`},
	{"Object.create(null)", "json", "{}"},
	{"deep", "json", strings.Repeat("[", 49) + `"… 1 more item"` + strings.Repeat("]", 49)},
}

var pythonSteps = []step{
	{"12 + 13", "json", "25"},
	{"'a\\nb'", "text", "a\nb"},
	{"a = 1\ndef f(x):\n    return x + a\nclass C:\n    m = 7", "text", "None"},
	{"b = f(1)\nb + C.m  # and a remark", "json", "9"},
	{"{'a': 1, 'b': [True, None, 'x'], 'c': 1.5}", "json", `{"a": 1, "b": [true, null, "x"], "c": 1.5}`},
	{"import asyncio\nasync def g():\n    return 4\nawait g()", "json", "4"},
	{"await asyncio.sleep(0)\nz = 6", "text", "None"},
	{"z", "json", "6"},
	{"raise ValueError('oh no')", "error", "Traceback (most recent call last):\n  File \"<zino"},
	{"def deep():\n    raise KeyError('deep')\ndeep()", "error", "    raise KeyError('deep')"},
	{"nowhere", "error", "NameError: name 'nowhere' is not defined"},
	{"if (", "error", "SyntaxError"},
	{"exit()", "error", "SystemExit"},
	{"ran = globals().get('ran', 0) + 1\nNone.x", "error", "AttributeError"},
	{"ran", "json", "1"},
	{"None", "text", "None"},
	{"float('nan')", "text", "nan"},
	{"{1: 2, 'n': float('nan'), 'b': b'x', 'f': f, 'none': None, 'i': 2 ** 70}", "json", `{"1": 2, "n": "nan", "b": "b'x'", "f": "[Function: f]", "none": null, "i": 1180591620717411303424}`},
	{"(1, {2})", "json", `[1, {"[set]": [2]}]`},
	{"import datetime\n[datetime.datetime(2026, 1, 1), 1 + 2j, C]", "json", `["2026-01-01T00:00:00", "(1+2j)", "<class '__main__.C'>"]`},
	{"c = C()\nc.x = 1\nc", "json", `{"[class]": "C", "x": 1}`},
	{"try:\n    None.x\nexcept Exception as e:\n    failed = e\nfailed", "json", "{\"[AttributeError]\": \"'NoneType' object has no attribute 'x'\", \"stack\": [\"<zino 22>:2 in <module>\"]}"},
	{"d = 1\nfor i in range(60):\n    d = [d]\nd", "json", strings.Repeat("[", 50) + `"… 1 more item"` + strings.Repeat("]", 50)},
	{"class Bad:\n    def __repr__(self):\n        raise Exception\nBad()", "text", "<Bad that cannot be shown: Exception>"},
	{"'\\ud800'", "text", "?"},
	{"l = []\nl.append(l)\nl", "json", `["[Circular]"]`},
}

// TestLimits checks that an object above a limit is cut so that it stays valid JSON, and
// that what is cut is counted. For Node.js the limit is that of logged objects, 32 KiB.
func TestLimits(t *testing.T) {
	each(t, func(t *testing.T, program []string) {
		b := newEnv(t)
		b.run(program)
		for _, c := range []struct{ forNode, forPython, more string }{
			{"Array(3).fill('€\\n'.repeat(10_000))", "['€\\n' * 10_000] * 3", ` more characters)"]`},
			{"Array(50_000).fill(0.125)", "[0.125] * 50_000", ` more items"]`},
			{"Object.fromEntries(Array(50_000).fill(0).map((_, i) => ['k' + i, []]))", "{f'k{i}': [] for i in range(50_000)}", ` more items"}`},
		} {
			code := of(program, "console.log("+c.forNode+")", "import zino_repl; print(zino_repl.serialise("+c.forPython+", 32 << 10)['value'])")
			r := b.eval(code)
			if len(r.Background) != 1 {
				t.Fatalf("%s: %+v", code, r)
			}
			got := r.Background[0].Message
			if !json.Valid([]byte(got)) || len(got) < 16<<10 || len(got) > 34<<10 || !strings.HasSuffix(got, c.more) {
				t.Errorf("%s: %d bytes, ending %.60q", code, len(got), got[max(0, len(got)-60):])
			}
		}
	})
}

// TestPlaces checks that events have their time and the place that logged them.
func TestPlaces(t *testing.T) {
	each(t, func(t *testing.T, program []string) {
		b := newEnv(t)
		b.run(program, b.script(of(program, "app.mjs", "app.py"), of(program, `
globalThis.work = () => console.log("sold", { at: new Date(0), by: 1n });
globalThis.later = () => new Promise((over) => setTimeout(() => { setTimeout(over, 5); throw new Error("late"); }, 1));
`, `
import logging, threading, sys
def work(): print('sold {"at": 0}')
def later():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    logging.warning("low")
`)))
		var events []proto.PageEvent
		for _, code := range []string{"work()", of(program, "await later()", "later()")} {
			b.until("the script's functions", func() bool {
				r := b.eval(code)
				events = append(events, r.Background...)
				return r.OK
			})
		}
		want := of(program, []string{`sold {"at":"1970-01-01T00:00:00.000Z","by":"1n"} app.mjs:2`, "Error: late app.mjs:3"},
			[]string{`sold {"at": 0} app.py:3`, "ZeroDivisionError: division by zero app.py:5", "low app.py:8"})
		if len(events) != len(want) {
			t.Fatalf("%+v", events)
		}
		for i, e := range events {
			if got := e.Message + " " + e.Place; got != want[i] || !regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3}$`).MatchString(e.TS) {
				t.Errorf("%+v, want %q", e, want[i])
			}
		}
	})
}

// TestBlocksOfTests checks the report of a block of tests, and that a Python program
// refuses it.
func TestBlocksOfTests(t *testing.T) {
	each(t, func(t *testing.T, program []string) {
		b := newEnv(t)
		b.run(program)
		info := of(program, "js test\n"+`const total = await 7;
test("total", () => expect(total).toBe(7));
test("async", async () => { await null; expect({ a: [1] }).toEqual({ a: [1] }); });
test("fails", () => expect({ a: 1n }).toEqual({ a: 2n }));
test("others", async () => {
  expect("abc").toMatch(/b/);
  expect("abc").not.toMatch("x");
  expect(() => null.x).toThrow(TypeError);
  await expect(async () => { throw Error("refused") }).toThrow("refused");
});
throw new Error("outside");`, "py test\nassert True")
		b.has("Write code in a fenced ") // the file is complete
		zinotest.Append(t, filepath.Join(b.dir, b.page().File), "\n"+fence+info+"\n"+fence+"\n")
		b.has(of(program, "passed 3, failed 2\ntotal  ok  ", "blocks of tests run in JavaScript only: remove the word test, and use assert or unittest"))
		if program[0] == "node" {
			b.has("\nasync  ok  ", "\nfails  Error: expected {\"a\":\"1n\"} to equal {\"a\":\"2n\"} (4:", "\nothers  ok  ", "\n(outside of test)  Error: outside (11:7)  0ms")
			b.follow([]step{{"[typeof test, typeof expect, total]", "json", `["undefined","undefined",7]`}})
		}
	})
}

// TestModules checks that import() resolves against the script.
func TestModules(t *testing.T) {
	t.Parallel()
	b := newEnv(t)
	must(t, os.Mkdir(filepath.Join(b.dir, "app"), 0o700))
	b.script("app/counter.mjs", "export let n = 0; export const add = () => ++n;")
	b.run(node, b.script("app/main.mjs", `import { add } from "./counter.mjs"; add(); globalThis.ready = true;`))
	b.until("the script", func() bool { return valueOf(b.eval("globalThis.ready")) == "true" })
	if r := b.eval("typeof await import('node:os')"); valueOf(r) != "object" || len(r.Background) != 0 { // no warning
		t.Errorf("%+v", r)
	}
	b.follow([]step{
		{"const { n } = await import('./counter.mjs'); n", "json", "1"},
		{"await import('./nowhere.mjs')", "error", "Cannot find module"},
	})
}

// TestEvents checks that output, logs and uncaught errors are captured and still printed,
// and that errors do not end the program.
func TestEvents(t *testing.T) {
	for _, c := range []struct {
		program             []string
		file, name, script  string
		shown               []string // in the page's file
		code                string
		background          proto.PageEvent // the first one of the code
		count               int
		shownAfter, printed []string
	}{
		{
			node, "shop.mjs", "shop-mjs", `
		console.log("open", { sold: 3 });
		globalThis.sold = 3;
		setTimeout(() => { throw new Error("from a timer") }, 1);
		Promise.reject(new Error("rejected"));
	`,
			[]string{fence + "Text console.log\nopen {\"sold\":3}\n", fence + "Error uncaughtException\nError: from a timer", fence + "Error unhandledrejection\nError: rejected"},
			"console.warn([1]); console.error('bad'); sold",
			proto.PageEvent{Source: "console.warn", Message: "[1]"},
			2,
			[]string{fence + "JSON console.warn\n[1]\n", fence + "Error console.error\nbad\n"},
			[]string{"open { sold: 3 }", "from a timer", "rejected", "bad"},
		},
		{
			python, "shop.py", "shop-py", `
import logging, threading
print("open", 3)
logging.getLogger("till").warning("low on %s", "change")
def work(): raise ValueError("from a thread")
thread = threading.Thread(target=work)
thread.start()
thread.join()
sold = 3
raise KeyError("from the script")
`,
			[]string{fence + "Text print\nopen 3\n", fence + "Text logging.till\nlow on change\n", "ValueError: from a thread", "KeyError: 'from the script'"},
			"print('one'); print('two', end='')\nlogging.error('bad')\nsold",
			proto.PageEvent{Source: "print", Message: "one"},
			3,
			[]string{fence + "Text print\none\n", fence + "Error logging.root\nbad\n", fence + "Text print\ntwo\n"},
			[]string{"open 3", "low on change", "from a thread", "from the script", "two"},
		},
	} {
		t.Run(c.program[0], func(t *testing.T) {
			t.Parallel()
			b := newEnv(t)
			b.run(c.program, b.script(c.file, c.script))
			b.has(c.shown...)
			if p := b.page(); p.Name != c.name {
				t.Errorf("the name of the page is %q", p.Name)
			}
			r := b.eval(c.code)
			if !r.OK || valueOf(r) != "3" || len(r.Background) != c.count || r.Background[0].Source != c.background.Source || r.Background[0].Message != c.background.Message {
				t.Errorf("%+v", r)
			}
			b.has(c.shownAfter...)
			for _, want := range c.printed {
				if !strings.Contains(b.program.Err.String(), want) {
					t.Errorf("the output lacks %q", want)
				}
			}
		})
	}
}

// TestReconnects checks that a program keeps its file and its state over a restart of
// the service.
func TestReconnects(t *testing.T) {
	each(t, func(t *testing.T, program []string) {
		b := newEnv(t)
		b.run(program)
		old := b.page()
		b.follow([]step{of(program, step{"let kept = 5", "text", "undefined"}, step{"kept = 5", "text", "None"})})
		b.stop()
		b.start()
		if p := b.page(); p.ID != old.ID || p.File != old.File {
			t.Errorf("%+v, before %+v", p, old)
		}
		b.follow([]step{{"kept", "json", "5"}})
	})
}

// TestImport checks a program that imports the adapter: it chooses its name, and
// attaching does not keep it running. A Python program also chooses its variables and
// detaches itself.
func TestImport(t *testing.T) {
	here, err := filepath.Abs(".")
	must(t, err)
	each(t, func(t *testing.T, program []string) {
		b := newEnv(t)
		b.run(program[:1], b.script("own"+filepath.Ext(program[len(program)-1]), of(program, `
		import { attach } from "`+here+`/zino_repl.mjs";
		attach({ name: "own" });
		const wait = setInterval(() => { if (globalThis.over) clearInterval(wait); }, 5);
	`, `
import sys, threading
sys.path.insert(0, "`+here+`")
import zino_repl
over = threading.Event()
page = zino_repl.attach(name="own", names={"over": over, "answer": 42})
over.wait()
page.close()
`)))
		if p := b.page(); p.Name != "own" {
			t.Errorf("%+v", p)
		}
		b.follow(of(program, nil, []step{{"answer", "json", "42"}, {"threading", "error", "NameError"}}))
		b.eval(of(program, "over = true", "over.set()")) // the program may exit before it sends the result
		b.gone()
	})
}

// whole returns a value that is too long for the answer from its file.
func (b *env) whole(r proto.Evaluated) string {
	b.t.Helper()
	if r.Whole == "" {
		b.t.Fatalf("no file: %+v", r)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, r.Whole))
	must(b.t, err)
	return string(text)
}

// valueOf returns the value of code that ran, or "".
func valueOf(r proto.Evaluated) string {
	if r.Value == nil {
		return ""
	}
	return *r.Value
}
