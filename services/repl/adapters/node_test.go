package adapters

import (
	"path/filepath"
	"strings"
	"testing"
)

const fence = "```"

func TestNode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("node", "zino_repl.mjs", "--name", "My Shop")
	p := b.page()
	if p.Name != "my-shop" || p.Lang != "js" || p.Kind != "program" {
		t.Errorf("%+v", p)
	}
	b.follow([]step{
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
		{"const d = await Promise.resolve(1)\nlet e = 2\nd + e;", "json", "3"},
		{"await Promise.resolve(1); if (true) { 5 }", "text", "undefined"},
		{"await Promise.resolve(1); function h() {}", "text", "undefined"},
		{"(await import('node:path')).basename('/a/b')", "text", "b"},
		{"require('node:path').basename('/a/c')", "text", "c"},
		{"Promise.resolve(8)", "json", "8"},
		{"throw new Error('oh no')", "error", "Error: oh no\n    at zino:1"},
		{"throw 'a string'", "error", "'a string'"},
		{"nowhere", "error", "ReferenceError: nowhere is not defined"},
		{"let a = 2", "error", "already been declared"},
		{"if (", "error", "SyntaxError"},
		{"globalThis.ran = (globalThis.ran ?? 0) + 1; null.x", "error", "TypeError"},
		{"ran", "json", "1"},
		{"{a:1}); globalThis.ran = 99; ({b:2}", "error", "SyntaxError"},
		{"ran", "json", "1"},
		{"null", "json", "null"},
		{"-0", "text", "-0"},
		{"10n", "text", "10n"},
		{"Symbol('s')", "text", "Symbol(s)"},
		{"new Map([[1, {a: 2}]])", "text", "Map(1) { 1 => { a: 2 } }"},
		{"globalThis.o = {}; o.o = o; o", "text", "<ref *1> { o: [Circular *1] }"},
		{"({ get x() { globalThis.ran = 99; throw 1 } })", "text", "{ x: [Getter] }"},
		{"({ toJSON() { globalThis.ran = 99 } })", "text", "{ toJSON: [Function: toJSON] }"},
		{"new Proxy({}, { get() { globalThis.ran = 99 }, ownKeys() { globalThis.ran = 99; return [] } })", "text", "{}"},
		{"ran", "json", "1"},
		{"[, 1]", "text", "[ <1 empty item>, 1 ]"},
	})
	if r := b.eval("'x'.repeat(3 << 20)"); !r.OK || len(r.Value) > 3<<20 || !strings.HasSuffix(r.Value, "more characters left out) ...") {
		t.Errorf("a long string: %d bytes, ending %.60q", len(r.Value), r.Value[max(0, len(r.Value)-60):])
	}
}

// TestNodeEvents: the console and uncaught errors are shown, reach the program's
// own output, and do not end it.
func TestNodeEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("node", "zino_repl.mjs", b.script("shop.mjs", `
		console.log("open", { sold: 3 });
		globalThis.sold = 3;
		setTimeout(() => { throw new Error("from a timer") }, 1);
		Promise.reject(new Error("nobody waits"));
	`))
	b.has(fence+"Text console.log\nopen {\"sold\":3}\n", fence+"Error uncaughtException\nError: from a timer", fence+"Error unhandledrejection\nError: nobody waits")
	if p := b.page(); p.Name != "shop-mjs" {
		t.Errorf("its name is %q", p.Name)
	}
	r := b.eval("console.warn([1]); console.error('bad'); sold")
	if !r.OK || r.Value != "3" || len(r.Background) != 2 || r.Background[0].Source != "console.warn" || r.Background[0].Message != "[1]" {
		t.Errorf("%+v", r)
	}
	b.has(fence+"JSON console.warn\n[1]\n", fence+"Error console.error\nbad\n")
	for _, want := range []string{"open { sold: 3 }", "from a timer", "nobody waits", "bad"} {
		if !strings.Contains(b.err.String(), want) {
			t.Errorf("%q is not in its output", want)
		}
	}
}

// TestNodeReconnects: the program keeps its file when the service starts again.
func TestNodeReconnects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("node", "zino_repl.mjs")
	before := b.page()
	b.follow([]step{{"let kept = 5", "text", "undefined"}})
	b.stop()
	b.start()
	if after := b.page(); after.ID != before.ID || after.File != before.File {
		t.Errorf("%+v, before %+v", after, before)
	}
	b.follow([]step{{"kept", "json", "5"}})
}

// TestNodeImport: a program that attaches itself ends as it would have without.
func TestNodeImport(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	module, err := filepath.Abs("zino_repl.mjs")
	if err != nil {
		t.Fatal(err)
	}
	b.run("node", b.script("own.mjs", `
		import { attach } from "`+module+`";
		attach({ name: "own" });
		const wait = setInterval(() => { if (globalThis.over) clearInterval(wait); }, 5);
	`))
	if p := b.page(); p.Name != "own" {
		t.Errorf("%+v", p)
	}
	b.eval("over = true") // which may end it before it has answered
	b.gone()
}
