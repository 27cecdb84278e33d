package web

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"zino/proto"
)

// cell is code and what it gives, as "json 1" or "text a", or as a regular expression:
// "~" for a value, "!" for an error.
type cell struct{ code, want string }

// cells runs cells in a page, one after another.
func (b *env) cells(page string, cells []cell) {
	b.t.Helper()
	for _, c := range cells {
		got := b.eval(page, c.code)
		value := got.Error
		if got.OK {
			value = got.Kind + " " + valueOf(got)
		}
		ok := got.OK && compact(value) == compact(c.want)
		if pattern, is := strings.CutPrefix(c.want, "!"); is {
			ok = !got.OK && matches(pattern, value)
		} else if pattern, is := strings.CutPrefix(c.want, "~"); is {
			ok = got.OK && matches(pattern, value)
		}
		if !ok {
			b.t.Errorf("%s\ngot  %v %s\nwant %s", c.code, got.OK, value, c.want)
		}
	}
}

func matches(pattern, s string) bool {
	return regexp.MustCompile(`(?s)^(?:` + pattern + `)$`).MatchString(s)
}

const cellsPage = `<!doctype html><html><head><title>Cells</title>
<script type=importmap>{"imports": {"mapped": "/lib/mapped.js"}}</script>
<script>const pageConst = "page's"; let pageLet = 1; window.listened = []; window.onerror = m => { listened.push(m) };
addEventListener("error", e => listened.push(e.message));</script>
<script type=module>import { counter } from "./lib/counter.js"; window.appCounter = counter; counter.n = 41;</script></head>
<body><iframe srcdoc="<p>"></iframe></body></html>`

var cellsSite = map[string]string{
	"cells.html":     cellsPage,
	"lib/counter.js": "export const counter = {n: 0}; export default 'default'; export const where = import.meta.url; const dashed = 3; export {dashed as 'a-b'}",
	"lib/mapped.js":  "export default 'mapped'",
	"lib/throws.js":  "throw new Error('module failed')",
	"sub/page.html":  "<title>Sub</title><p>",
	"sub/lib.js":     "export const v = 'sub'",
	"data.json":      `{"x": 5}`,
	"as.js":          "export const as = 1",
	"lib.js":         "export const v = 'top'",
	"based.html":     "<title>Based</title><base href='/sub/'><p>",
}

// TestCells runs cells of all forms in one page.
func TestCells(t *testing.T) {
	b := newSite(t, cellsSite)
	b.browse(b.url("/cells.html"))
	id := b.connected("cells", 1).ID
	for _, group := range []struct {
		name  string
		cells []cell
	}{
		{"values", []cell{
			{"12+13", "json 25"},
			{"{a: 1}", `json {"a":1}`},
			{"{}", "json {}"},
			{"// c\n{a: 1} // d", `json {"a":1}`},
			{"{a: 1}.a", "json 1"},
			{"1;", "json 1"},
			{"// nothing", "text undefined"},
			{"'use strict'", "text use strict"},
			{"function () { return 1 }", "text function () { return 1 }"},
			{"return 6", "json 6"},
			{"if (1) return 7", "json 7"},
			{"this === window", "json true"},
			{"await 1; this === window", "json true"},
			{"({then(ok) { ok(1) }}).x", "text undefined"},
			{"with ({x: 4}) x", "json 4"},
			{"await 1; with ({x: 4}) { x }", "json 4"},
			{"{a: await 1}", `json {"a":1}`},
			{"await (Promise.resolve(9));", "json 9"},
			{"[await 1, await 2]", "json [1,2]"},
			{"`${await 5}`", "text 5"},
			{"async () => { await 1 }", "text async () => { await 1 }"},
			{"'await'", "text await"},
			{"await 1 // end", "json 1"},
			{"/* a */ await 1 /* b */", "json 1"},
			{"(await 1, await 2)", "json 2"},
			{"await 1, await 3", "json 3"},
		}},
		// Each is run as it is and after "await 0;": the values are the same.
		{"the same with await", twice(
			cell{"5; var a1 = 1", "json 5"}, cell{"var a2 = 1", "text undefined"}, cell{"let a3 = 1; const a4 = 2", "text undefined"}, cell{"if (true) { 5 }", "json 5"},
			cell{"if (false) { 5 }", "text undefined"}, cell{"1; if (false) { 5 }", "text undefined"}, cell{"if (0) 1; else if (1) { 2; } else 3", "json 2"}, cell{"{ 7 }", "json 7"},
			cell{"{ 7; { 8 } }", "json 8"}, cell{"1; {}", "json 1"}, cell{"for (let i = 0; i < 3; i++) i * 10", "json 20"}, cell{"for (const x of [1, 2, 3]) { x * 2 }", "json 6"},
			cell{"for (const x of [1, 2]) { if (x == 1) 5 }", "text undefined"}, cell{"for (const k in {q: 1}) k", "text q"}, cell{"1; for (;false;) 2", "text undefined"},
			cell{"for (;;) { 5; break }", "json 5"}, cell{"for (let i = 0; ; i++) { if (i == 2) { 9; break } 5 }", "json 9"}, cell{"var w1 = 0; while (w1 < 3) w1++", "json 2"},
			cell{"var w2 = 0; do { w2 += 2 } while (w2 < 5)", "json 6"}, cell{"var w3 = 0; do w3++; while (w3 < 5) w3 + 1", "json 6"}, cell{"try { 1 } catch { 2 }", "json 1"},
			cell{"try { 1; null.x } catch { 2 }", "json 2"}, cell{"try { 1; null.x } catch (e) {}", "text undefined"}, cell{"try { 1 } finally { 2 }", "json 1"},
			cell{"switch (2) { case 1: 'a'; break; case 2: 'b'; default: 'c' }", "text c"}, cell{"switch (2) { case true ? 2 : 3: 'x'; break }", "text x"}, cell{"a: { 1; break a }", "json 1"},
			cell{"a: for (const x of [1, 2]) { for (;;) { x; continue a } }", "json 2"}, cell{"function f1() { return 4 }\nf1()", "json 4"}, cell{"5; function f2() {}", "json 5"},
			cell{"class C1 { static x = 3 }\nC1.x", "json 3"}, cell{"1, 2", "json 2"}, cell{"var s1 = 'a;b'; s1 + '}'", "text a;b}"}, cell{"`a;${1 + `b}${2}`}`; 3", "json 3"},
			cell{"var r1 = /[/;{]/g; r1.source", "text [/;{]"}, cell{"if (1) /x/.test('x')", "json true"}, cell{"1\n/2/1", "json 0.5"}, cell{"var x1 = 1\n++x1\nx1", "json 2"},
			cell{"var f3 = x => x + 1\nf3\n(1)", "json 2"}, cell{"var f4 = () => {}\n4", "json 4"}, cell{"var o1 = {if: 1, get a() { return 2 }, async *b() {}, [1 + 1]: 3}\no1.if + o1.a", "json 3"},
			cell{"var of = 1, let_ = 2, async = 3\nof + async", "json 4"}, cell{"async\n/1/1", "json 3"}, cell{"[1, 2]\n.map(x => { return x * 2 })\n.length", "json 2"}, cell{"null?.x ?? 7", "json 7"},
			cell{"var a5 = 1\n;[a5] = [6]\na5", "json 6"}, cell{"'a'\n'b'", "text b"}, cell{"x => {\n}\n1", "json 1"}, cell{"throw 5", "!.*5"}, cell{"if (1) { throw new Error('e1') }", "!Error: e1\n.*"},
			cell{"'\\u2028'.length; debugger_ = 1", "json 1"}, cell{"new class { #p = 5; static { this.q = 1 } get() { return this.#p } }().get()", "json 5"}, cell{"var re2 = 4 / 2 / 1, d = 'x/y'; re2", "json 2"},
			cell{"({a: 1}).a / 1", "json 1"}, cell{"(1) / 2", "json 0.5"}, cell{"a: 5", "json 5"}, cell{"var t1 = typeof\n1; t1", "text number"}, cell{"1 // {\n/* ; */ + 1", "json 2"}, cell{"if (1)\n{ 5 }\nelse\n{ 6 }", "json 5"},
			cell{"const fn = function ()\n{\n  return 3\n}\nfn()", "json 3"}, cell{"var q1 = 1 ? 2 : 3; q1", "json 2"}, cell{"void 0", "text undefined"}, cell{"delete globalThis.a1", "json true"},
		)},
		{"bindings", []cell{
			{"let a = 4", "text undefined"},
			{"a", "json 4"},
			{"a++; a", "json 5"},
			{"globalThis.a", "text undefined"},
			{"let a = 'again'; a", "text again"},
			{"const c = 1; class K { m() { return c } }", "text undefined"},
			{"new K().m()", "json 1"},
			{"c = 2", "!TypeError: Assignment to constant variable.\n    at eval \\(zino-job-[\\w-]+.js:1:3\\)"},
			{"c", "json 1"},
			{"const c = 9; c", "json 9"},
			{"let c = 8", "text undefined"},
			{"c = 7; c", "json 7"},
			{"function c() { return 'f' }", "text undefined"},
			{"c()", "text f"},
			{"window.c === c", "json true"},
			{"let shared = 1; function bump() { return ++shared }", "text undefined"},
			{"bump(); shared", "json 2"},
			{"shared = 10; bump()", "json 11"},
			{"typeof window.bump + typeof window.shared", "text functionundefined"},
			{"const r = await fetch('/lib.js')", "text undefined"},
			{"r.status", "json 200"},
			{"var av = await 1; function af() { return av } async function ag() { return av }", "text undefined"},
			{"av = 5; af()", "json 5"},
			{"ag()", "json 5"},
			{"typeof window.av + typeof window.af", "text undefinedundefined"},
			{"var gv = 1; function gf() { return gv } async function gag() {} function* gg() {}", "text undefined"},
			{"[window.gv, gf(), typeof window.gag, typeof window.gg]", `json [1,1,"function","function"]`},
			{"const location = 'x'; const name = 5; let status = [1]; class top2 {}", "text undefined"},
			{"[location, name, status]", `json ["x",5,[1]]`},
			{"window.name === '' && window.location.pathname", "text /cells.html"},
			{"const {d1, d2: {d3 = 3, ...d4}, [`d${5}`]: d5 = 5, 'd-6': d6, ...d7} = {d1: 1, d2: {x: 4}, y: 7, 'd-6': 6}, [e1, , [e2 = 2] = [], ...e3] = [1, 2, undefined, 3]", "text undefined"},
			{"[d1, d3, d4, d5, d6, d7, e1, e2, e3]", `json [1,3,{"x":4},5,6,{"y":7},1,2,[3]]`},
			{"[typeof d2, typeof x]", `json ["undefined","undefined"]`},
			{"let m1 = 1, m2 = (a, b) => { let inner1 = 1; return a }, m3 = function () { let inner2 }, m4 = `${(() => { let inner3 = 1; return 4 })()}`, m5", "text undefined"},
			{"[m1, m2(2), m4, typeof m5]", `json [1,2,"4","undefined"]`},
			{"[typeof inner1, typeof inner2, typeof inner3]", `json ["undefined","undefined","undefined"]`},
			{"{ let blocked = 1; const blocked2 = 2; class blocked3 {} } for (let blocked4 of [1]); 'let blocked5 = 1'; `let blocked6 = 1`; /let blocked7 = 1/; // let blocked8\n/* let blocked9 */ if (1) { let blocked10 }", "text undefined"},
			{"[typeof blocked, typeof blocked2, typeof blocked3, typeof blocked4, typeof blocked5, typeof blocked6, typeof blocked7, typeof blocked8, typeof blocked9, typeof blocked10]", `json [` + strings.TrimSuffix(strings.Repeat(`"undefined",`, 10), ",") + `]`},
			{"let kept1 = 1; const kept2 = 2; null.x; let lost1 = 3", "!TypeError.*"},
			{"[kept1, kept2, typeof lost1]", `json [1,2,"undefined"]`},
			{"const kept3 = await 1; var kept4 = 4; function kept5() { return kept3 } throw new Error('e'); const lost2 = 3", "!Error: e.*"},
			{"[kept3, kept4, kept5(), typeof lost2]", `json [1,4,1,"undefined"]`},
			{"let over = 'first'", "text undefined"},
			{"null.x; let over = 'second'", "!TypeError.*"},
			{"over", "text first"},
			{"await 1; null.x; let over = 'third'", "!TypeError.*"},
			{"over", "text first"},
			{"tdz; let tdz = 1", "!ReferenceError: Cannot access 'tdz' before initialization.*"},
			{"await 0; tdz2; let tdz2 = 1", "!ReferenceError: Cannot access 'tdz2' before initialization.*"},
			{"const k1 = 1; k1 = 2", "!TypeError: Assignment to constant variable..*"},
			{"await 0; const k2 = 1; k2 = 2", "!TypeError: Assignment to constant variable..*"},
			{"let dup; let dup", "!SyntaxError: Identifier 'dup' has already been declared.*"},
			{"let v1 = 1", "text undefined"},
			{"var v1 = 2; v1", "json 2"},
			{"[v1, window.v1]", "json [2,2]"},
			{"let v1 = 3; [v1, window.v1]", "json [3,2]"},
			{"v1", "json 3"},
			{"const v2 = 1", "text undefined"},
			{"if (1) { var v2 = 5 } v2", "json 5"},
			{"v2", "json 5"},
			{"for await (const x of [3]) { var last = x }", "text undefined"},
			{"last", "json 3"},
			{"await 1; for (var i1 = 0; i1 < 2; i1++) { var j1 = i1 }", "text undefined"},
			{"[i1, j1]", "json [2,1]"},
			{"'use strict'; let st = 1; st", "json 1"},
			{"st", "json 1"},
			{"'use strict'; undeclaredName = 1", "!ReferenceError.*"},
			{"'use strict'\nawait 1; undeclaredName = 1", "!ReferenceError.*"},
			{"await 1; sloppyName = 1; window.sloppyName", "json 1"},
			{"let \\u0061bc = 5; abc", "json 5"},
			{"abc", "json 5"},
			{"let größe = 6, $ = 7, _ = 8", "text undefined"},
			{"größe + $ + _", "json 21"},
			{"var let_ = 1; var async = 2; async", "json 2"},
			{"let async = 3; async", "json 3"},
			{"async", "json 3"},
			{"pageConst", "text page's"},
			{"let pageConst = 'mine'; pageConst", "text mine"},
			{"pageLet = 5; pageLet", "json 5"},
			{"var pageLet = 1", "!SyntaxError: Identifier 'pageLet' has already been declared.*"},
			{"let x9 = 1; eval('x9 + 1')", "json 2"},
			{"let arrow = async x => await x, arrow2 = async (x) => { await x; return 2 }; arrow2()", "json 2"},
			{"arrow(4)", "json 4"},
			{"class S { static { let inS = 1; this.v = inS } static async m() { await 1; return 3 } }\nS.m()", "json 3"},
			{"[S.v, typeof inS]", `json [1,"undefined"]`},
			{"let a11 = 1\nlet b11 = 2\nconst c11 = 3", "text undefined"},
			{"a11 + b11 + c11", "json 6"},
			{"let y1 = 1, y2 = y1 ? {a: [1, 2], b: 3} : {c: 4}, y3 = x => ({x}), y4 = class { a = 1; b() { const z1 = 2 } }, y5 = 5", "text undefined"},
			{"[y2.b, y5, typeof z1, typeof b]", `json [3,5,"undefined","undefined"]`},
			{"label: for (const q of [1]) { continue label } let afterLabel = 1", "text undefined"},
			{"afterLabel", "json 1"},
			{"let opt = {a: null}; opt?.a?.b ?? 'none'", "text none"},
			{"opt", `json {"a":null}`},
			{"Object.getOwnPropertyNames(window).filter(n => n.includes('$zino') || n === 'a' || n === 'kept1')", "json []"},
			{"let toString = 5; toString", "json 5"},
			{"toString", "json 5"},
			{"let eval_ = 1, undefined_ = 2; eval_", "json 1"},
			{"typeof $zino", "text undefined"},
			{"await 1; function self() { return this }", "json 1"},
			{"self() === window", "json true"},
			{"await 1; self() === window", "json true"},
			{"{a: self() === window}", `json {"a":true}`},
			{"const after = setTimeout, o5 = {self, m() { return self() === window }}", "text undefined"},
			{"after(() => {}) > 0 && o5.m()", "json true"},
			{"[o5.self() === o5, new self() instanceof self, self\n() === window, ((self) => self())(() => 5)]", "json [true,true,true,5]"},
			{"if (self()) { 6 }", "json 6"},
			{"function self2() { return self() }\nself2() === window", "json true"},
			{"class T { self() { return 8 } }\nnew T().self()", "json 8"},
		}},
		{"errors", []cell{
			{"null.foo", "!TypeError: Cannot read properties of null \\(reading 'foo'\\)\n    at eval \\(zino-job-[\\w-]+.js:1:6\\)"},
			{"const p1 = 1;\nconst p2 = 2;\nnull.foo", "!.*\n    at eval \\(zino-job-[\\w-]+.js:3:6\\)"},
			{"const p1 = await 1;\nconst p2 = 2;\nnull.foo", "!.*\n    at eval \\(zino-job-[\\w-]+.js:3:6\\)"},
			{"await 1; null.foo", "!.*\n    at eval \\(zino-job-[\\w-]+.js:1:15\\)"},
			{"const z = await 1; if (z) { 1; null.foo }", "!.*\n    at eval \\(zino-job-[\\w-]+.js:1:37\\)"},
			{"await null.foo", "!.*:1:12\\)"},
			{"{a: null.foo}", "!.*:1:10\\)"},
			{"{a: await null.foo}", "!.*:1:16\\)"},
			{"await 0\nif (1) { for (const x of [1]) {\n  1; 2; null.foo } }", "!.*:3:14\\)"},
			{"'use strict'; null.foo", "!.*:1:20\\)"},
			{"import {v} from './lib.js'; null.foo", "!.*:1:34\\)"},
			{"import {\n  v\n} from './lib.js'\nnull.foo", "!.*:4:6\\)"},
			{"function late() { null.foo }\nlate()", "!.*\n    at late \\(zino-job-[\\w-]+.js:1:24\\)\n    at eval \\(zino-job-[\\w-]+.js:2:1\\)"},
			{"await 1; function late2() { null.foo }", "json 1"},
			{"late2()", "!.*\n    at late2 \\(zino-job-[\\w-]+.js:1:34\\)\n    at eval \\(zino-job-[\\w-]+.js:1:1\\)"},
			{"let ok = 1;\n\n  let r = = 2", "!SyntaxError: Unexpected token '='\n    at zino-job-[\\w-]+.js:3:11"},
			{"const q = await 1;\n  let r = = 2", "!SyntaxError: Unexpected token '='\n    at zino-job-[\\w-]+.js:2:11"},
			{"await 1; let r = = 2", "!SyntaxError: Unexpected token '='\n    at zino-job-[\\w-]+.js:1:18"},
			{"let r = = 2", "!SyntaxError.*\n    at zino-job-[\\w-]+.js:1:9"},
			{"1 +", "!SyntaxError: Unexpected end of input\n    at zino-job-[\\w-]+.js:1:4"},
			{"let a = await 1;\nif (x)", "!SyntaxError: Unexpected end of input\n    at zino-job-[\\w-]+.js:2:7"},
			{"if (x) {", "!SyntaxError: .*"},
			{"'abc", "!SyntaxError: Invalid or unexpected token\n    at zino-job-[\\w-]+.js:1:1"},
			{"1);f();(2", "!SyntaxError: .*"},
			{"1];f();[2", "!SyntaxError: .*"},
			{"}); f(); (async () => {", "!SyntaxError: .*"},
			{"}, function () {", "!SyntaxError: .*"},
			{"} await 1; {", "!SyntaxError: .*"},
			{"*/ 1 /*", "!SyntaxError: .*"},
			{"}} class A { static {", "!SyntaxError: .*"},
			{"await", "!.*Error: .*"},
			{"a.#x", "!SyntaxError: Private field.*"},
			{"export const x = 1", "!SyntaxError: .*"},
			{"import.meta.url", "!SyntaxError: .*"},
			{"JSON.parse('{')", "!SyntaxError: .*\n    at JSON.parse \\(<anonymous>\\)\n    at eval \\(zino-job-[\\w-]+.js:1:6\\)"},
			{"listened.length", "json 0"},
			{"throw undefined", "!undefined"},
			{"throw null", "!Uncaught null"},
			{"throw {a: 1}", "!.*\"a\":1.*"},
			{"await 1; throw undefined", "!undefined"},
			{"new Promise((_, no) => no(new Error('late')))", "!Error: late\n.*"},
			{"window.runs = 0; try { new Function('runs++; throw 1')() } catch {} runs", "json 1"},
			{"runs++; throw new SyntaxError('mine')", "!SyntaxError: mine.*"},
			{"runs++, JSON.parse('{')", "!SyntaxError.*"},
			{"runs++; eval('1 +')", "!SyntaxError.*"},
			{"await 0; runs++; throw new SyntaxError('zz$')", "!SyntaxError: zz\\$.*"},
			{"runs++; throw new EvalError('mine')", "!EvalError: mine.*"},
			{"{a: runs++, b: null.x}", "!TypeError.*"},
			{"var x; let y; runs++; throw x", "!undefined"},
			{"runs", "json 8"},
		}},
		{"imports", []cell{
			{"const m = await import('./lib/counter.js'); m.counter === appCounter && m.counter.n", "json 41"},
			{"(await import('./lib/counter.js')).where", "text " + b.url("/lib/counter.js")},
			{"import('./lib.js').then(m => m.v)", "text top"},
			{"import def, {counter, where as place, 'a-b' as ab} from './lib/counter.js'\ncounter === appCounter && [def, place.slice(-10), ab]", `json ["default","counter.js",3]`},
			{"[counter === appCounter, def, ab]", `json [true,"default",3]`},
			{"import * as ns from './lib/counter.js'; ns.counter.n", "json 41"},
			{"import def2, * as ns2 from '/lib/counter.js'\n[def2, ns2.default]", `json ["default","default"]`},
			{"import mapped from 'mapped'; mapped", "text mapped"},
			{"import './lib.js'", "text undefined"},
			{"import {} from './lib.js'; 5", "json 5"},
			{"import data from './data.json' with {type: 'json'}\ndata.x", "json 5"},
			{"function counter() { return 2 }", "text undefined"},
			{"counter()", "json 2"},
			{"def = 5", "!TypeError: Assignment to constant variable..*"},
			{"import x from './missing.js'", "!TypeError: Failed to fetch dynamically imported module: http://127.0.0.1:\\d+/missing.js.*"},
			{"import './lib/throws.js'", "!Error: module failed.*"},
			{"import {as} from './as.js'; import {as as as2} from './as.js'\n[as, as2]", "json [1,1]"},
			{"const o2 = {import(x) { return x }}; o2.import(3)", "json 3"},
			{"history.pushState(0, '', '/sub/page.html'); 1", "json 1"},
			{"(await import('./lib.js')).v", "text sub"},
			{"history.pushState(0, '', '/cells.html'); (await import('./lib.js')).v", "~text (sub|top)"},
			{"(await import('./lib.js')).v", "text top"},
		}},
		{"promises", []cell{
			{"Promise.resolve(7)", "json 7"},
			{"frames[0].eval('Promise.resolve(5)')", "json 5"},
			{"frames[0].eval('Promise.reject(new Error(\"frame\"))')", "!Error: frame.*"},
			{"window.calls = 0; ({then(ok) { calls++; ok(1) }}); 1", "json 1"},
			{"({then(ok) { calls++; ok(1) }})", "~.*"},
			{"await 1; ({then(ok) { calls++; ok(1) }})", "~.*"},
			{"calls", "json 0"},
			{"await {then(ok) { calls++; ok(3) }}", "json 3"},
			{"calls", "json 1"},
			{"await 1; fetch('/lib.js').then(r => r.status)", "json 200"},
			{"class Sub extends Promise {}; Sub.resolve(4)", "json 4"},
			{"await 1; Promise.reject(new Error('second'))", "!Error: second.*"},
		}},
		{"dialogs", []cell{
			{"[alert('a'), confirm('b'), prompt('c')]", "~.*"},
			{"alert('x'); await 1; confirm('y')", "json false"},
			{"prompt('p')", "json null"},
			{"window.shown = Function.prototype.toString.call(alert); 1", "json 1"},
		}},
	} {
		t.Run(group.name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			b.cells(id, group.cells)
		})
	}
}

// twice returns each cell as it is and in a cell with await.
func twice(cells ...cell) []cell {
	var all []cell
	for _, c := range cells {
		all = append(all, c, cell{"const waited = await 0;\n" + c.code, c.want})
	}
	return all
}

// restricted returns the head of a page with a Content-Security-Policy.
func restricted(title, csp string) string {
	return `<!doctype html><title>` + title + `</title><meta http-equiv="Content-Security-Policy" content="` + csp + `">`
}

// zone is a class that replaces Promise as the one of zone.js does: it has no native
// promise inside, and the method then of native promises returns one.
const zone = `<script>{
const native = Promise, then = native.prototype.then;
class ZoneAwarePromise {
	constructor(executor) {
		this.state = null, this.queue = [];
		const settle = state => value => {
			if (this.state !== null) return;
			if (state && value && typeof value.then === "function") return void value.then(settle(true), settle(false));
			this.state = state, this.value = value;
			this.queue.forEach(f => f());
		};
		try { executor(settle(true), settle(false)) } catch (e) { settle(false)(e) }
	}
	static resolve(v) { return new this(ok => ok(v)) }
	static reject(v) { return new this((_, no) => no(v)) }
	then(ok, no) {
		return new this.constructor((resolve, reject) => {
			const run = () => queueMicrotask(() => {
				const f = this.state ? ok : no;
				try { f ? resolve(f(this.value)) : (this.state ? resolve : reject)(this.value) } catch (e) { reject(e) }
			});
			this.state === null ? this.queue.push(run) : run();
		});
	}
	catch(no) { return this.then(null, no) }
	get [Symbol.toStringTag]() { return "Promise" }
	static get [Symbol.species]() { return ZoneAwarePromise }
}
native.prototype.__zone_symbol__then = then;
native.prototype.then = function (ok, no) { return new ZoneAwarePromise((resolve, reject) => then.call(this, resolve, reject)).then(ok, no) };
window.Promise = ZoneAwarePromise;
}</script>`

// TestCellsElsewhere runs cells in pages with other base URLs, policies and built-ins,
// and in workers.
func TestCellsElsewhere(t *testing.T) {
	const noInline = `script-src 'self' 'unsafe-eval'`
	site := map[string]string{
		"nonce.html":   restricted("Nonce", "script-src 'nonce-abc' 'unsafe-eval'") + `<script nonce=abc>window.own = 1</script>`,
		"block.html":   restricted("Block", noInline),
		"typed.html":   restricted("Typed", "require-trusted-types-for 'script'"),
		"named.html":   restricted("Named", "require-trusted-types-for 'script'; trusted-types zino"),
		"refused.html": restricted("Refused", "require-trusted-types-for 'script'; trusted-types other"),
		"zone.html":    "<title>Zone</title>" + zone,
		"late.html":    "<title>Late</title>" + zone + "<script src=/zino.js></script>",
		"taken.html": `<title>Replaced</title><script>for (const o of [Document.prototype, Node.prototype, Element.prototype, HTMLScriptElement.prototype, EventTarget.prototype, RegExp.prototype, Function.prototype])
			for (const k of Reflect.ownKeys(o)) if (!["constructor", "title"].includes(k)) try { Object.defineProperty(o, k, {value() { throw "taken" }, configurable: true}) } catch {}
			Object.defineProperty(Object.prototype, "get", {get() { throw "taken" }, configurable: true});
			eval = Function = Promise = setTimeout = Symbol = URL = undefined</script>`,
		"worker.html":    `<title>Worker page</title><script>new Worker("/sub/classic.js", {name: "Classic"}); new Worker("/sub/module.js", {type: "module", name: "Module"})</script>`,
		"frames.html":    `<title>Frames</title><iframe sandbox="allow-scripts" src="/cells.html"></iframe>`,
		"sub/classic.js": `importScripts("/zino.js")`,
		"sub/module.js":  `import "/zino.js"`,
	}
	maps.Copy(site, cellsSite)
	b := newSite(t, site)
	sub, top := cell{"(await import('./lib.js')).v", "text sub"}, cell{"import {v} from './lib.js'; v", "text top"}
	syntax := cell{"let ok = 1;\n\n  let r = = 2", "!SyntaxError: Unexpected token '='\n    at zino-job-[\\w-]+.js:3:11"}
	bindings := []cell{{"const q = await 1; let p = 2", "text undefined"}, {"q + p", "json 3"}, {"await 1; if (q) { null.foo }", "!TypeError: [^\n]*\n    at eval \\(zino-job-[\\w-]+.js:1:24\\)"}, {"var g = 1", "text undefined"}, {"globalThis.g", "json 1"}, syntax}
	for _, page := range []struct {
		path, name string
		cells      []cell
	}{
		{"/sub/page.html", "sub", []cell{sub, {"import {v} from './lib.js'\nv", "text sub"}, {"import('../lib.js').then(m => m.v)", "text top"}}},
		{"/based.html", "based", []cell{sub, {"document.querySelector('base').href = '/'; 1", "json 1"}, {"(await import('./lib.js')).v", "text top"}}},
		{"/nonce.html", "nonce", append(bindings, top, cell{"import x from './missing.js'", "!TypeError: Failed to fetch dynamically imported module: [^\n]*/missing.js"}, cell{"document.querySelectorAll('script').length", "json 2"})},
		{"/block.html", "block", append(bindings, top, cell{"const o = {import(x) { return x }}; o.import(3)", "json 3"}, cell{"const name = 'lib'; (await import(`./${name}.js`)).v", "text top"},
			cell{"import('./missing.js')", "!Error: Failed to fetch dynamically imported module: [^\n]*/missing.js \\(import\\(\\) runs from [^\n]*/zino.js, because the page's Content-Security-Policy forbids inline scripts: allow a nonce or 'unsafe-inline' in script-src.*"})},
		{"/typed.html", "typed", append(bindings, top)},
		{"/named.html", "named", append(bindings, top)},
		{"/refused.html", "refused", []cell{{"1", "!Error: the page's Content-Security-Policy requires Trusted Types: allow the policy zino in trusted-types to run code here.*"}}},
		{"/zone.html", "zone", append(bindings, cell{"Promise.name", "text ZoneAwarePromise"}, cell{"Promise.resolve(7)", "json 7"}, cell{"Promise.reject(new Error('lost'))", "!Error: lost\n.*"}, cell{"fetch('/lib.js').then(r => r.status)", "json 200"}, cell{"await fetch('/lib.js').then(r => { throw new Error('in then') })", "!Error: in then.*"}, cell{"(async () => 5)()", "json 5"}, cell{"const z = await Promise.resolve(3); Promise.resolve(z + 1)", "json 4"})},
		{"/late.html", "late", []cell{{"Promise.resolve(7)", "json 7"}, {"Promise.reject(new Error('lost'))", "!Error: lost\n.*"}, {"(async () => 5)()", "json 5"}, {"({a: 1})", `json {"a":1}`}, {"await 6", "json 6"}}},
		{"/taken.html", "replaced", append(bindings, top, cell{"typeof eval", "text undefined"}, cell{"let dom = document.title; dom", "~.*"})},
	} {
		t.Run(page.name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			b.browse(b.url(page.path))
			b.cells(b.connected(page.name, 1).ID, page.cells)
		})
	}
	b.browse(b.url("/worker.html"))
	for _, name := range []string{"classic", "module"} {
		b.cells(b.connected(name, 1).ID, append(bindings, sub, cell{"import('./lib.js').then(m => m.v)", "text sub"}, cell{"import('./missing.js')", "!TypeError: Failed to fetch.*"}))
	}
	b.browse(b.url("/frames.html"))
	b.want(b.connected("frames", 1).ID, "frames.length", "json 1")
}

// TestCellsDialogs checks that dialogs are answered during a run only.
func TestCellsDialogs(t *testing.T) {
	b := newSite(t, cellsSite)
	v := b.browse(b.url("/cells.html"))
	id := b.connected("cells", 1).ID
	before := js[bool](v, "window.before = [alert, confirm, prompt], true")
	if !before {
		t.Fatal("not set")
	}
	for _, code := range []string{"alert('hello'), confirm('sure?') === false && prompt('name?') === null", "await 1; alert('hello'), confirm('sure?') === false && prompt('name?') === null", "alert('hello'); confirm('sure?'); prompt('name?'); throw 1", "alert('hello'); confirm('sure?'); prompt('name?'); let r = = 1"} {
		got := b.eval(id, code)
		if got.OK && valueOf(got) != "true" {
			t.Errorf("%s: %+v", code, got)
		}
		var all []string
		for _, e := range got.Background {
			all = append(all, e.Type+" "+e.Source+" "+e.Message)
		}
		want := "alert alert hello\nconfirm confirm sure?\nprompt prompt name?"
		if strings.Contains(code, "= =") {
			want = ""
		}
		if strings.Join(all, "\n") != want {
			t.Errorf("%s: background %q", code, all)
		}
		if !js[bool](v, "before[0] === alert && before[1] === confirm && before[2] === prompt") {
			t.Errorf("%s: the dialogs are not restored", code)
		}
	}
}

// TestCellsWaiting checks that the variables of a cell that never ends are kept, that
// its dialogs are not answered for ever, and that the page's listeners see no probe.
func TestCellsWaiting(t *testing.T) {
	b := newSite(t, cellsSite)
	v := b.browse(b.url("/cells.html"))
	id := b.connected("cells", 1).ID
	js[bool](v, "window.before = alert, true")
	got, err := b.service.Eval(t.Context(), proto.Eval{Page: id, Code: "const hung = await 5; var other = 6; await new Promise(ok => { window.go = ok }); const after = 7", TimeoutMS: 300})
	if err != nil || got.OK || !strings.Contains(got.Error, "timeout") {
		t.Fatalf("%+v, %v", got, err)
	}
	b.cells(id, []cell{{"[hung, other, typeof after]", `json [5,6,"undefined"]`}, {"let r = = 1", "!SyntaxError.*"}, {"go(), 1", "json 1"}, {"after", "json 7"}, {"[listened.length, hung]", "json [0,5]"}})
	b.until("the dialog is restored", func() bool { return js[bool](v, "before === alert") })
	if got := b.eval(id, "1 +"); len(got.Background) != 0 {
		t.Errorf("background %+v", got.Background)
	}
}
