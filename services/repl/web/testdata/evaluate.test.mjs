import test from "node:test";
import assert from "node:assert/strict";
import { World } from "./world.mjs";

test("the form of code is chosen by compiling it", async () => {
  const w = new World();
  for (const [code, want] of [
    // Expressions.
    ["12+13", "json 25"], ["{a: 1}", 'json {"a":1}'], ["// note\n{a: 1} // end", 'json {"a":1}'], ["1, 2", "json 2"], ["'use strict'", "text use strict"],
    ["function () { return 1 }", "text function () { return 1 }"], ["(function () { return this === globalThis })()", "json true"],
    // Scripts: the value is that of the last statement, declarations persist.
    ["var kept = 1; kept + 1", "json 2"], ["kept", "json 1"], ["function twice(x) { return 2 * x }", "text undefined"], ["twice(4)", "json 8"],
    ["/* note */ async function later() { return await 3 }", "text undefined"], ["later()", "json 3"], ["let stays = 1; stays", "json 1"], ["stays", "json 1"], ["globalThis.stays", "text undefined"],
    ["if (kept) { 'yes' } else { 'no' }", "text yes"], ["for (var i = 0; i < 3; i++) i * 10", "json 20"], ["", "text undefined"], ["// nothing", "text undefined"],
    ["var await_ = 1; await_", "json 1"], ["function a() {}\nfunction b() { return 5 }\nb()", "json 5"], ["1;", "json 1"], ["with ({x: 4}) x", "json 4"],
    // Promises are awaited, other objects with a then method are not.
    ["Promise.resolve(7)", "json 7"], ["new Promise((ok, no) => no(new Error('late')))", /^error Error: late\n/], ["({then: 1})", 'json {"then":1}'],
    ["({then(ok) { ok(1) }})", 'json {"then":"[Function: then]"}'],
    // Top-level await.
    ["await Promise.resolve(8)", "json 8"], ["await (Promise.resolve(9))", "json 9"], ["await (Promise.resolve(10));", "json 10"],
    ["const r = await Promise.resolve(2); r * 3", "json 6"], ["const r = await 2\nr * 4;\n", "json 8"], ["const r = await 2;\n({r})", 'json {"r":2}'],
    ["await 1; // a; b\n'end'", "text end"], ["let s = ''; for (const x of await [1, 2]) { s += x }\ns", "text 12"], ["await 1; if (1) { 2 }", "json 2"],
    ["const f = await (x => x + 1)\nf\n(1)", "json 2"], ["await 1; return 5", "json 5"], ["return 6", "json 6"], ["for await (const x of [3]) { var last = x }; last", "json 3"],
    ["await Promise.reject(new Error('gone'))", /^error Error: gone\n/], ["const t = await `a;b`; t + ';'", "text a;b;"], ["'await'", "text await"],
    ["async function g() { await 1; return 4 }\ng()", "json 4"], ["typeof g", "text function"], ["const k = await 1; function h() { return k }", "text undefined"], ["h()", "json 1"],
    // Code that does not parse.
    ["1 +", /^error SyntaxError: /], ["1);f();(2", /^error SyntaxError: /], ["1];f();[2", /^error SyntaxError: /], ["}); f(); (async () => {", /^error SyntaxError: /],
    ["await", /^error /], ["*/ 1 /*", /^error SyntaxError: /], ["import 'x'", /^error TypeError/],
  ]) {
    const got = await w.value(code);
    if (want instanceof RegExp) assert.match(got, want, code);
    else assert.equal(got, want, code);
  }
});

test("code that throws runs once", async () => {
  const w = new World();
  for (const code of [
    "runs++, null.x", "runs++; null.x", "runs++; throw new SyntaxError('mine')", "runs++, JSON.parse('{')", "runs++; eval('1 +')", "runs++; throw new EvalError('mine')",
    "runs++; throw 0", "throw runs++", "await 0; runs++; throw new SyntaxError('mine')", "await (runs++, Promise.reject(0))", "var x = runs++; let y; throw x",
  ]) {
    w.run("globalThis.runs = 0");
    const result = await w.eval(code);
    assert.equal(result.ok, false, code);
    assert.equal(w.run("runs"), 1, code);
  }
});

test("a page whose policy forbids eval", async () => {
  const w = new World({ before: "globalThis.eval = () => { throw new EvalError('unsafe-eval is not allowed') };" });
  const got = await w.value("1");
  assert.match(got, /^error Error: the page's Content-Security-Policy forbids eval: allow 'unsafe-eval' in script-src/);
});

test("a job is announced, and its result names it", async () => {
  const w = new World();
  w.say({ type: "job", job: "j-7", code: "1", lang: "", timeout_ms: 1 });
  assert.deepEqual(await w.when("started"), { type: "started", id: "1a2b", nonce: w.packets[0].nonce, job: "j-7" });
  assert.deepEqual(await w.when("result"), { type: "result", id: "1a2b", nonce: w.packets[0].nonce, job: "j-7", ok: true, kind: "json", value: "1" });
  w.say({ type: "cancel", job: "j-7" });
  w.say({ type: "ok" });
  assert.equal(w.of("result").length, 1);
});

test("a second job runs while the first waits", async () => {
  const w = new World();
  w.say({ type: "job", job: "slow", code: "new Promise(ok => { globalThis.go = ok })" });
  assert.equal(await w.value("2"), "json 2");
  w.run("go('late')");
  assert.equal((await w.when("result", 2)).value, "late");
});
