import test from "node:test";
import assert from "node:assert/strict";
import { World } from "./world.mjs";

const events = w => w.of("events").flatMap(p => p.events);

test("the console is captured and still works", async () => {
  const w = new World();
  w.run(`console.log("a", 1, {b: [2]}); console.info({only: true}); console.warn(); console.error(new Error("bad"))`);
  w.tick();
  assert.deepEqual(w.logged.map(([level]) => level), ["log", "info", "warn", "error"]);
  assert.equal(w.logged[0][3].b[0], 2);
  const got = events(w);
  assert.deepEqual(got.map(e => [e.type, e.level]), [["console", "log"], ["console", "info"], ["console", "warn"], ["console", "error"]]);
  assert.deepEqual(got.slice(0, 3).map(e => e.message), ['a 1 {"b":[2]}', '{"only":true}', ""]);
  assert.match(got[3].message, /^Error: bad\n    at /);
  assert.match(got[0].ts, /^\d\d:\d\d:\d\d\.\d{3}$/);
  assert.equal(w.of("events").length, 1, "one packet for all of them");
});

test("formats of the console", async () => {
  const w = new World();
  w.run(`console.log("%c styled", "color: red"); console.log("%s has %d and %o: 100%", "x", 5, {y: 1}, "more");
    console.log("%d", "%s", "x"); console.log("50% %q", 1); console.log({a: 1}, "%s", 2); console.log("%s")`);
  w.tick();
  assert.deepEqual(events(w).map(e => e.message), [" styled", 'x has 5 and {"y":1}: 100% more', "%s x", "50% %q 1", '{"a":1} %s 2', "%s"]);
});

test("uncaught errors", async () => {
  const w = new World();
  w.run(`var e = new TypeError("boom"); fire(null, "error", {message: "Uncaught TypeError: boom", filename: "http://127.0.0.1/a.js", lineno: 7, error: e});
    fire(null, "error", {message: "Script error.", filename: "", lineno: 0, error: null});
    fire(null, "unhandledrejection", {reason: new Error("refused")}); fire(null, "unhandledrejection", {reason: {code: 3}})`);
  w.tick();
  const got = events(w);
  assert.deepEqual(got.map(e => e.type), ["window.onerror", "window.onerror", "unhandledrejection", "unhandledrejection"]);
  assert.equal(got[0].message, "TypeError: boom");
  assert.match(got[0].stack, /^TypeError: boom\n    at /);
  assert.deepEqual([got[1].message, got[1].stack], ["Script error.", "    in a script of another origin; the attribute crossorigin shows more: "]);
  assert.equal(got[2].message, "Error: refused");
  assert.match(got[2].stack, /^Error: refused\n    at /);
  assert.equal(got[3].message, 'Uncaught {"code":3}');
});

test("events before the connection are kept up to a limit", async () => {
  const w = new World({ welcome: false });
  w.run(`for (let i = 0; i < 1000; i++) console.log("n" + i)`);
  w.tick();
  assert.deepEqual(w.of("events"), []);
  w.welcome();
  const got = events(w).map(e => e.message);
  assert.deepEqual([got.length, ...got.slice(0, 3), ...got.slice(-2)], [101, "n0", "n1", "n902", "n999", "900 earlier events not kept"]);
  w.run(`for (let i = 0; i < 50; i++) console.log("y".repeat(1e6))`);
  w.tick();
  const long = w.of("events").at(-1);
  assert.equal(long.events.length, 50);
  assert.ok(JSON.stringify(long).length < 2_000_000);
  assert.match(long.events[0].message, /^y+… \(800000 more characters\)$/);
  assert.match(long.events[4].message, /^y+… \(980000 more characters\)$/);
});

test("a flood of events is sent completely", async () => {
  const w = new World();
  await w.eval(`for (let i = 0; i < 10000; i++) console.log("n" + i)`);
  assert.deepEqual(events(w).map(e => e.message), Array.from({ length: 10000 }, (_, i) => "n" + i));
  assert.ok(w.of("events").every(p => p.events.length <= 100));
  w.tick();
  w.context.host.buffered = 1 << 21;
  w.run(`for (let i = 0; i < 10000; i++) console.log("m" + i)`);
  w.context.host.buffered = 0;
  w.tick();
  assert.deepEqual(events(w).slice(10000).map(e => e.message).slice(-2), ["m9999", "9900 earlier events not kept"]);
});

test("events wait while the socket is full", async () => {
  const w = new World();
  w.context.host.buffered = 1 << 21;
  w.run(`console.log("one")`);
  w.tick();
  assert.deepEqual(events(w), []);
  w.context.host.buffered = 0;
  w.run(`console.log("two")`);
  w.tick();
  assert.deepEqual(events(w).map(e => e.message), ["one", "two"]);
});

test("events of a run are sent before its result", async () => {
  const w = new World();
  await w.eval("console.log('during'); 1");
  assert.deepEqual(w.packets.slice(-2).map(p => p.type), ["events", "result"]);
});

test("showing a value may write to the console", async () => {
  const w = new World();
  w.run(`console.log(new Proxy({}, {ownKeys() { console.warn("trap"); return [] }})); console.log("after")`);
  w.tick();
  assert.deepEqual(events(w).map(e => e.message), ["{}", "after"]);
  assert.deepEqual(w.logged.map(([level]) => level).sort(), ["log", "log", "warn"]);
});

test("a console call never throws because of the script", async () => {
  const w = new World();
  w.run(`console.log(new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }, ownKeys() { throw 3 }, getOwnPropertyDescriptor() { throw 4 }}), Object.create(new Proxy({}, {getPrototypeOf() { throw 5 }})))`);
  w.tick();
  assert.match(events(w)[0].message, /throws/);
});
