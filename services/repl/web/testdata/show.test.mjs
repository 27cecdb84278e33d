import test from "node:test";
import assert from "node:assert/strict";
import { World } from "./world.mjs";

// Values whose text is not JSON.
const texts = [
  ["'a\\nb'", "a\nb"], ["''", ""], ["undefined", "undefined"], ["NaN", "NaN"], ["-0", "-0"], ["1/0", "Infinity"], ["12n", "12n"],
  ["Symbol('x')", "Symbol(x)"], ["(a, b) => a + b", "(a, b) => a + b"], ["(class A { x })", "class A { x }"],
  ["Object.assign(() => {}, {toString() { return ran = true }})", "() => {}"],
];

// The JSON of all other values.
const values = [
  ["25", "25"], ["-1.5e300", "-1.5e+300"], ["true", "true"], ["null", "null"], ["[]", "[]"], ["({})", "{}"], ["{}", "{}"],
  ['({status: "loaded"})', '{"status":"loaded"}'], ['[1, "a\\nb", [null]]', '[1,"a\\nb",[null]]'],
  ["Object.create(null)", "{}"], ["let o = {}; ({a: o, b: o})", '{"a":{},"b":{}}'],
  ["({constructor: 5})", '{"constructor":5}'], ["({__proto__: {constructor: {name: {}}}})", "{}"],
  ["JSON.parse('{\"__proto__\": 1}')", '{"__proto__":1}'],
  // Leaves that JSON does not have.
  ["({a: 10n, b: undefined, c: NaN, d: -0, e: -1/0, f: Symbol('x')})", '{"a":"10n","b":"undefined","c":"NaN","d":"-0","e":"-Infinity","f":"Symbol(x)"}'],
  ["[function f() {}, class A {}, () => 1, class { static name() {} }]", '["[Function: f]","[Function: A]","[Function]","[Function]"]'],
  ["var c = {}; c.self = c; c", '{"self":"[Circular]"}'], ["var a = []; a.push([a]); a", '[["[Circular]"]]'],
  ["({get x() { throw 1 }, set y(v) {}})", '{"x":"[Getter]","y":"[Setter]"}'], ["({[Symbol('k')]: 1})", '{"Symbol(k)":1}'],
  ["[1,,3]", '[1,"[empty]",3]'], ["[,,,4,,]", '["[3 empty]",4,"[empty]"]'], ["new Array(4294967295)", '["[4,294,967,295 empty]"]'],
  ["var s = []; s[5] = 1; s[4000000000] = 2; s.x = 3; s", '["[5 empty]",1,"[3,999,999,994 empty]",2]'],
  // Classes with a form of their own.
  ["new Date('2026-01-01')", '"2026-01-01T00:00:00.000Z"'], ["[new Date(NaN)]", '["Invalid Date"]'], ["[/a\\/b/gi]", '["/a\\\\/b/gi"]'],
  ["new URL('http://x/?a')", '"http://x/?a"'],
  ["new Map([['a', 1], [{}, [2]]])", '{"[Map]":[["a",1],[{},[2]]]}'], ["new Set([1, 'b'])", '{"[Set]":[1,"b"]}'], ["new Map", '{"[Map]":[]}'],
  ["new Headers({a: 1, B: 2})", '{"[Headers]":[["a","1"],["b","2"]]}'], ["new URLSearchParams('a=1&a=2')", '{"[URLSearchParams]":[["a","1"],["a","2"]]}'],
  ["var d = new FormData(); d.append('f', 'v'); d", '{"[FormData]":[["f","v"]]}'],
  ["new Uint8Array([1, 2])", '{"[Uint8Array]":[1,2]}'], ["new BigInt64Array(1)", '{"[BigInt64Array]":["0n"]}'], ["new Float32Array([NaN])", '{"[Float32Array]":["NaN"]}'],
  ["new Uint8Array([1, 2]).buffer", '{"[ArrayBuffer]":[1,2]}'], ["new SharedArrayBuffer(1)", '{"[SharedArrayBuffer]":[0]}'],
  ["new DataView(new Uint8Array([1, 2, 3]).buffer, 1)", '{"[DataView]":[2,3]}'],
  ["[new String('abc'), new Number(-0), new Boolean(false), Object(10n), Object(Symbol('x'))]",
    '[{"[String]":"abc"},{"[Number]":"-0"},{"[Boolean]":false},{"[BigInt]":"10n"},{"[Symbol]":"Symbol(x)"}]'],
  // Instances of other classes.
  ["class Point { x = 1; #y = 2; get z() { return 3 } }; new Point", '{"[class]":"Point","x":1}'], ["new WeakMap", '{"[class]":"WeakMap"}'],
  ["Promise.resolve({p: Promise.resolve(1)})", /^\{\s*"p":\{"\[class\]":"Promise"/], ["globalThis", '"[Window]"'],
  ["class Big extends Map {}; new Big([[1, 2]])", '{"[Map]":[[1,2]]}'],
  // Objects that only have the prototype, or the name, of a class.
  ["Object.create(Map.prototype)", '{"[class]":"Map"}'], ["class Set { y = 1 }; [new Set]", '[{"[class]":"Set","y":1}]'], ["Object.create(Date.prototype)", '{"[class]":"Date"}'],
  // Proxies.
  ["new Proxy([1, 2], {})", "[1,2]"], ["new Proxy({a: 1}, {getPrototypeOf() { throw 'no' }})", '"[throws Uncaught no]"'],
  ["({p: new Proxy({}, {ownKeys() { throw Error('trap') }})})", '{"p":"[throws Error: trap]"}'],
  ["(p => (p.revoke(), [1, p.proxy]))(Proxy.revocable({}, {}))", /^\[1,"\[throws TypeError: Cannot perform/],
  ["new Proxy(new Map([[1, 2]]), {})", '{"[class]":"Map"}'],
];

test("text for values that JSON does not have", async () => {
  const w = new World();
  for (const [code, want] of texts) assert.equal(await w.value(code), "text " + want, code);
});

test("every object and array is valid JSON", async () => {
  for (const [code, want] of values) {
    const got = await new World().value(code);
    assert.ok(got.startsWith("json "), code + ": " + got);
    JSON.parse(got.slice(5));
    if (want instanceof RegExp) assert.match(got.slice(5), want, code);
    else assert.equal(got.slice(5).replace(/\n */g, ""), want, code);
  }
});

const json = async (w, code) => {
  const got = await w.value(code);
  assert.ok(got.startsWith("json "), got.slice(0, 100));
  return JSON.parse(got.slice(5));
};

test("what a limit leaves out is counted", async () => {
  const w = new World();
  let deep = await json(w, "var d = ['end', 1]; for (let i = 0; i < 10000; i++) d = [d]; d");
  while (Array.isArray(deep)) deep = deep[0];
  assert.equal(deep, "… 1 more item");
  const deepest = await w.value("({a: d})");
  assert.ok(deepest.includes("more item"));
  let object = await json(w, "var o = {}; for (let i = 0; i < 100; i++) o = {o}; o");
  while (typeof object === "object") object = object.o;
  assert.equal(object, "… 1 more item");
  const kib = "'x'.repeat(1024)";
  const list = await json(w, `Array.from({length: 80000}, () => ${kib})`);
  assert.match(list.at(-1), /^… 1\d,\d\d\d more items$/);
  assert.equal(list.length - 1 + Number(list.at(-1).replace(/\D/g, "")), 80000);
  w.run("console.log(Object.fromEntries(Array.from({length: 5000}, (_, i) => ['key' + i, i]))); console.log(new Map(Array.from({length: 5000}, (_, i) => [i, i])))");
  w.tick();
  const [record, map] = w.of("events")[0].events.map(e => JSON.parse(e.message));
  assert.equal(Object.keys(record).length - 1 + Number(record["…"].replace(/\D/g, "")), 5000);
  assert.equal(map["[Map]"].length - 1 + Number(map["[Map]"].at(-1).replace(/\D/g, "")), 5000);
  const long = await json(w, "['\\u0000'.repeat(12 << 20), 1]");
  const [, left] = /… \((\d+) more characters\)$/.exec(long[0]);
  assert.equal(long[0].indexOf("…") + Number(left), 12 << 20);
});

test("long values have several lines", async () => {
  const w = new World();
  const value = await w.value("({name: 'x'.repeat(60), list: [1, 2], more: {text: 'y'.repeat(60)}})");
  assert.equal(value, 'json {\n  "name":"' + "x".repeat(60) + '",\n  "list":[1,2],\n  "more":{"text":"' + "y".repeat(60) + '"}\n}');
  assert.deepEqual(JSON.parse(value.slice(5)).list, [1, 2]);
  assert.equal(await w.value("({a: ['x'.repeat(120)], b: {}})"), 'json {\n  "a":[\n    "' + "x".repeat(120) + '"\n  ],\n  "b":{}\n}');
  const numbers = (await w.value("Array.from({length: 100}, (_, i) => i)")).split("\n");
  assert.deepEqual([numbers.length, numbers[1].slice(0, 12)], [5, "  0,1,2,3,4,"]);
  assert.ok(numbers.every(line => line.length < 110));
});

test("showing runs no code of the page", async () => {
  const w = new World();
  assert.equal(await w.value(`var ran = []; var note = name => () => { ran.push(name); };
    var Own = class { get x() { ran.push("getter"); } toString() { ran.push("toString"); } toJSON() { ran.push("toJSON"); } get [Symbol.toStringTag]() { ran.push("tag"); } };
    for (const o of [Object, Array, String, Number, Date]) o.prototype.toJSON = note("toJSON");
    for (const C of [Map, Set]) C.prototype[Symbol.iterator] = C.prototype.entries = C.prototype.values = C.prototype.forEach = note("iterate");
    Object.getPrototypeOf(new Map().keys()).next = note("next");
    Error.prepareStackTrace = note("prepareStackTrace");
    var fault = new Error("quiet");
    var own = [new Own, {get y() { ran.push("y"); }, then: note("then"), valueOf: note("valueOf"), [Symbol.toPrimitive]: note("toPrimitive")}, new Map([]), fault, {stack: 1}];
    own[1].bound = 0; Object.defineProperty(own[1], "bound", {get: note("bound").bind(), enumerable: true});
    Object.defineProperty(own[1], "comment", {get: function get() { ran.push("[native code]") }, enumerable: true});
    Object.defineProperty(own[1], "proxy", {get: new Proxy(note("proxy"), {}), enumerable: true});
    Object.defineProperty(own[4], "stack", {get: note("stack").bind(), enumerable: true});
    for (const key of ["value", "get", "enumerable", "done", "next", "0", "1"]) Object.defineProperty(Object.prototype, key, {__proto__: null, get: note("polluted " + key), set: note("set " + key), configurable: true});
    Array.prototype[Symbol.iterator] = note("array iterator");
    ran.length = 0; 'ready'`), "text ready");
  const shown = await w.value("own");
  assert.match(shown, /^json \[/);
  assert.match(shown, /"bound":"\[Getter\]"/);
  assert.match(shown, /"comment":"\[Getter\]"/);
  assert.match(shown, /"proxy":"\[Getter\]"/);
  assert.equal(await w.value("ran.join()"), "text ");
});

test("an error is shown with its stack and its causes, without frames of the script", async () => {
  const w = new World();
  const thrown = await w.value("function f() { throw new TypeError('no', {cause: new Error('because')}) }\nf()");
  assert.match(thrown, /^error TypeError: no\n    at f \(zino-job-1\.js:1:/);
  assert.match(thrown, /\nCaused by: Error: because\n/);
  assert.doesNotMatch(thrown, /zino\.js:/);
  assert.equal(await w.value("throw 'text'"), "error Uncaught text");
  assert.equal(await w.value("throw {code: 7}"), 'error Uncaught {"code":7}');
  assert.equal(await w.value("throw undefined"), "error undefined");
  assert.equal(await w.value("Promise.reject()"), "error undefined");
  assert.match(await w.value("throw new Proxy({}, {getPrototypeOf() { throw 1 }, getOwnPropertyDescriptor() { throw 2 }})"), /^error Uncaught \[throws /);
  assert.match(await w.value("var loop = new Error('loop'); loop.cause = loop; throw loop"), /^error (Error: loop[^]*){5}$/);
  assert.match(await w.value("throw Object.assign(new Error('a'), {message: 'changed'})"), /^error Error: changed\n    at /);
  const all = await w.value("await Promise.any([Promise.reject(new Error('first')), Promise.reject(5)])");
  assert.match(all, /^error AggregateError: All promises were rejected\n[^]*errors\[0\]: Error: first\n    at [^]*\nerrors\[1\]: Uncaught 5$/);
  assert.match(await w.value("throw new AggregateError(Array(25).fill('x'), 'many')"), /errors\[9\]: Uncaught x\n… 15 more errors$/);
});

test("an error that is returned is JSON", async () => {
  const w = new World();
  const kept = await json(w, "new RangeError('kept', {cause: Object.assign(new Error('why'), {code: 7})})");
  assert.equal(kept["[RangeError]"], "kept");
  assert.match(kept.stack[0], /^at eval \(zino-job-1\.js:1:/);
  assert.equal(kept.cause["[Error]"], "why");
  assert.equal(kept.cause.code, 7);
  const all = await json(w, "new AggregateError([new Error('one'), 2n], 'all')");
  assert.deepEqual([all["[AggregateError]"], all.errors[0]["[Error]"], all.errors[1]], ["all", "one", "2n"]);
  assert.deepEqual(await json(w, "var loop = new Error('l'); loop.stack = 'Error: l'; loop.cause = loop; loop"), { "[Error]": "l", stack: ["Error: l"], cause: "[Circular]" });
});
