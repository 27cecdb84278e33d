import test from "node:test";
import assert from "node:assert/strict";
import { World } from "./world.mjs";

const show = {
  "json": [
    ["25", "25"], ["-1.5e300", "-1.5e+300"], ["true", "true"], ["null", "null"], ["[]", "[]"], ["({})", "{}"], ["{}", "{}"],
    ['({status: "loaded"})', '{"status":"loaded"}'], ['[1, "a\\nb", [null]]', '[1,"a\\nb",[null]]'],
    ["Object.create(null)", "{}"], ["let o = {}; ({a: o, b: o})", '{"a":{},"b":{}}'],
    ["({constructor: 5})", '{"constructor":5}'], ["({__proto__: {constructor: {name: {}}}})", "{}"],
    ["JSON.parse('{\"__proto__\": 1}')", '{"__proto__":1}'],
  ],
  "text": [
    ["'a\\nb'", "a\nb"], ["''", ""], ["undefined", "undefined"], ["NaN", "NaN"], ["-0", "-0"], ["1/0", "Infinity"], ["12n", "12n"],
    ["Symbol('x')", "Symbol(x)"], ["(a, b) => a + b", "(a, b) => a + b"], ["[function f() {}, class A {}, () => 1]", "[[Function f],[Function A],[Function ]]"],
    ["({a: undefined})", '{"a":undefined}'], ["({[Symbol('k')]: 1})", "{Symbol(k):1}"], ["[1,,3]", "[1,<empty>,3]"],
    ["new Map([['a', 1], [{}, [2]]])", 'Map(2) {"a" => 1,{} => [2]}'], ["new Set([1, 'b'])", 'Set(2) {1,"b"}'],
    ["new Date(0)", "1970-01-01T00:00:00.000Z"], ["new Date(NaN)", "Invalid Date"], ["/a\\/b/gi", "/a\\/b/gi"],
    ["new Uint8Array([1, 2])", "Uint8Array(2) [1,2]"], ["new BigInt64Array(1)", "BigInt64Array(1) [0n]"],
    ["class Point { x = 1 }; new Point", 'Point {"x":1}'], ["Promise.resolve({p: Promise.resolve(1)})", /^\{"p":Promise \{/],
    ["var c = {}; c.self = c; c", '{"self":[Circular]}'], ["var a = []; a.push([a]); a", "[[[Circular]]]"],
    ["({get x() { throw 1 }, set y(v) {}})", '{"x":[Getter],"y":[Getter]}'],
    ["new Proxy({}, {ownKeys() { throw Error('trap') }})", /^\[throws Error: trap/],
    ["(p => (p.revoke(), [p.proxy]))(Proxy.revocable({}, {}))", /^\[\s*\[throws TypeError: /],
    ["new Proxy({a: 1}, {getPrototypeOf() { throw 'no' }})", '[throws Uncaught no]'],
    ["new ArrayBuffer(2)", /^ArrayBuffer \{/], ["new WeakMap", "WeakMap {}"], ["globalThis", "[Window]"],
    ["Object.assign(() => {}, {toString() { return ran = true }})", "() => {}"],
      ],
};
for (const [kind, cases] of Object.entries(show)) {
  test("serialised as " + kind, async () => {
    const w = new World();
    for (const [code, want] of cases) {
      const got = await w.value(code);
      if (want instanceof RegExp) assert.match(got.replace(/^\w+ /, ""), want, code);
      else assert.equal(got, kind + " " + want, code);
    }
  });
}

test("a value is bounded in depth, count and size", async () => {
  const w = new World();
  const deep = await w.value("let d = []; for (let i = 0; i < 100; i++) d = [d]; d");
  assert.match(deep, /^text \[+…\]+$/);
  const many = await w.value("Array.from({length: 1e6}, (_, i) => i)");
  assert.ok(many.length < 300_000 && many.endsWith("…\n]"), many.slice(-20));
  const holes = await w.value("new Array(4294967295)");
  assert.ok(holes.length < 400_000, holes.length);
  const long = await w.value("'x'.repeat(3e6)");
  assert.equal(long, "text " + "x".repeat(1 << 20) + "… (1951424 more characters)");
  const texts = await w.value("Array.from({length: 300}, () => 'y'.repeat(1e5))");
  assert.ok(texts.length < 1_200_000 && texts.startsWith("text "), texts.length);
  const wide = await w.value("new Map(Array.from({length: 1e5}, (_, i) => [i, i]))");
  assert.ok(wide.length < 1_500_000 && wide.startsWith("text Map(100000) {"), wide.slice(0, 40));
});

test("long values have several lines", async () => {
  const w = new World();
  const value = await w.value("({name: 'x'.repeat(60), list: [1, 2], more: {text: 'y'.repeat(60)}})");
  assert.equal(value, 'json {\n  "name":"' + "x".repeat(60) + '",\n  "list":[1,2],\n  "more":{"text":"' + "y".repeat(60) + '"}\n}');
  assert.deepEqual(JSON.parse(value.slice(5)).list, [1, 2]);
});

test("showing runs no code of the page", async () => {
  const w = new World();
  await w.eval(`var ran = []; const note = name => () => ran.push(name);
    class Own { get x() { ran.push("getter"); } toString() { ran.push("toString"); } toJSON() { ran.push("toJSON"); } get [Symbol.toStringTag]() { ran.push("tag"); } }
    Object.prototype.toJSON = note("Object.prototype.toJSON"); Array.prototype.toJSON = note("Array.prototype.toJSON");
    var own = [new Own, {get y() { ran.push("y"); }, then: note("then"), valueOf: note("valueOf"), [Symbol.toPrimitive]: note("toPrimitive")}, new Map([[new Own, 1]])];
    undefined`);
  assert.match(await w.value("own"), /^text \[/);
  assert.match(await w.value("own[1]"), /"then":\[Function ran\]|"then":\[Function \]/);
  assert.equal(await w.value("ran"), "json []");
});

test("an error is shown with its stack and its causes, without frames of the script", async () => {
  const w = new World();
  const thrown = await w.value("function f() { throw new TypeError('no', {cause: new Error('because')}) }\nf()");
  assert.match(thrown, /^error TypeError: no\n    at f \(zino-job-1\.js:1:/);
  assert.match(thrown, /\nCaused by: Error: because\n/);
  assert.doesNotMatch(thrown, /zino\.js:/);
  assert.match(await w.value("new RangeError('kept')"), /^text RangeError: kept\n    at /);
  assert.equal(await w.value("throw 'text'"), "error Uncaught text");
  assert.equal(await w.value("throw {code: 7}"), 'error Uncaught {"code":7}');
  assert.equal(await w.value("throw undefined"), "error Uncaught undefined");
  assert.match(await w.value("Object.assign(new Error('a'), {message: 'changed'})"), /^text Error: changed\n    at /);
  assert.match(await w.value("throw new Proxy({}, {getPrototypeOf() { throw 1 }, getOwnPropertyDescriptor() { throw 2 }})"), /^error Uncaught \[throws /);
  assert.match(await w.value("var loop = new Error('loop'); loop.cause = loop; throw loop"), /^error (Error: loop[^]*){5}$/);
});
