import test from "node:test";
import assert from "node:assert/strict";
import { World, script } from "./world.mjs";

const page = { readyState: "complete", title: "Index - 7 Zen" };
const storage = (held = {}) => ({ held, getItem(key) { return this.held[key] ?? null; }, setItem(key, value) { this.held[key] = String(value); } });

test("the hello of a page", () => {
  const w = new World({ document: page, storage: storage() });
  assert.deepEqual(w.sockets.map(([, url, protocols]) => [url, [...protocols]]), [["ws://127.0.0.1:8302/zino/ws", ["zino", "first"]]]);
  const [hello] = w.packets;
  assert.match(hello.nonce, /^\d{16,}$/);
  assert.deepEqual(hello, { type: "hello", nonce: hello.nonce, name: "Index - 7 Zen", url: "http://127.0.0.1:8302/app.html?secret", kind: "page" });
});

test("the hello of workers", () => {
  assert.deepEqual([new World().packets[0]].map(({ kind, name }) => [kind, name]), [["worker", "app.html"]]);
  assert.equal(new World({ before: "globalThis.SharedWorkerGlobalScope = class {}; globalThis.name = 'hub'" }).packets[0].name, "hub");
  assert.equal(new World({ before: "globalThis.SharedWorkerGlobalScope = class {}" }).packets[0].kind, "shared worker");
});

test("a loading page connects when its title is known", () => {
  const heard = {};
  const document = { readyState: "loading", title: "", addEventListener: 0 };
  const w = new World({ document, welcome: false, before: `EventTarget.prototype.addEventListener = (old => function (type, f) {
    if (type === "DOMContentLoaded") globalThis.loaded = f; else old.call(this, type, f) })(EventTarget.prototype.addEventListener)` });
  assert.deepEqual([w.sockets, heard], [[], {}]);
  document.title = "read";
  w.run("loaded()");
  w.tick();
  assert.equal(w.sockets.length, 1, "and the timer opens no second one");
  w.welcome();
  assert.equal(w.packets[0].name, "read");
});

test("a page that never finishes loading connects", () => {
  const w = new World({ document: { ...page, readyState: "loading" }, welcome: false });
  assert.equal(w.sockets.length, 0);
  assert.equal(w.timers[0].ms, 2000);
  w.tick();
  assert.equal(w.sockets.length, 1);
});

test("a reloaded page keeps its id and sends its former nonce", () => {
  const kept = storage();
  const first = new World({ document: page, storage: kept });
  const { nonce } = first.packets[0];
  assert.deepEqual(kept.held, { zino: "1a2b " + nonce });
  const copy = new World({ document: page, storage: storage({ ...kept.held }), welcome: false });
  copy.fire("open");
  assert.equal(copy.packets[0].id, "1a2b");
  assert.equal(copy.packets[0].left, undefined, "a copied tab must not look like a reload");
  assert.notEqual(copy.packets[0].nonce, nonce);
  first.run("fire(null, 'pagehide')");
  assert.equal(first.closedBy, "page");
  const again = new World({ document: page, storage: kept });
  assert.deepEqual([again.packets[0].id, again.packets[0].left], ["1a2b", nonce]);
});

test("storage that throws or holds invalid values", () => {
  for (const getItem of [() => { throw new Error("denied"); }, () => "nonsense", () => "", () => null]) {
    const w = new World({ document: page, storage: { getItem, setItem() { throw new Error("full"); } } });
    assert.equal(w.of("hello").length, 1);
  }
});

test("frames have separate keys", () => {
  const kept = storage();
  new World({ document: page, storage: kept, before: `
    globalThis.parent = {length: 2, 0: {}, 1: globalThis}; parent.parent = {length: 1, 0: parent}; parent.parent.parent = parent.parent` });
  assert.deepEqual(Object.keys(kept.held), ["zino.1.0"]);
});

test("a lost connection is reopened with the new token of the script", async () => {
  const w = new World();
  const before = w.packets[0];
  w.fire("close");
  w.tick(); // the fetch fails
  await new Promise(setImmediate);
  w.answer = () => Promise.resolve(new Response(script.replace('"token":"first"', '"token":"second"')));
  w.tick();
  await w.opened(2);
  assert.deepEqual(w.fetched, ["http://127.0.0.1:8302/zino.js", "http://127.0.0.1:8302/zino.js"]);
  assert.deepEqual([...w.sockets[1][2]], ["zino", "second"]);
  w.welcome("1a2b");
  assert.deepEqual(w.packets.at(-1), { ...before, id: "1a2b", left: "" });
  assert.equal(await w.value("1"), "json 1");
});

test("the interval of attempts grows to five seconds", async () => {
  const w = new World();
  const waits = [];
  w.fire("close");
  for (let i = 0; i < 12; i++) {
    waits.push(w.timers.at(-1).ms);
    w.tick();
    await new Promise(setImmediate);
  }
  assert.equal(waits[0], 200);
  assert.ok(waits.every((ms, i) => i === 0 || ms >= waits[i - 1]) && waits.at(-1) <= 10000, waits.join());
});

test("a script that is loaded twice connects once", () => {
  const w = new World();
  w.load();
  assert.equal(w.sockets.length, 1);
});

test("a page that replaces everything the script uses", async () => {
  const w = new World({ document: page, storage: storage() });
  w.run(`{ const keys = Reflect.ownKeys, define = Object.defineProperty, Fault = Error, top = Array.prototype, all = [];
  for (const o of [JSON, Math, Reflect, Object, Promise, Promise.prototype, Array, Array.prototype, String.prototype, Function.prototype, Map.prototype, Set.prototype,
      Date.prototype, RegExp.prototype, Number, Error.prototype, console, WebSocket.prototype, MessageEvent.prototype, EventTarget.prototype, Symbol.prototype])
    for (const key of keys(o)) if (key !== "constructor" && key !== "prototype") all[all.length] = {o, key};
  for (let i = 0; i < all.length; i++) {
    const {o, key} = all[i];
    try { define(o, key, {get() { throw Fault("taken") }, set() { throw Fault("taken") }, configurable: true}); } catch {}
  }
  for (let i = 0; i < 5; i++) define(top, i, {set() { throw Fault("taken") }, configurable: true});
  globalThis.JSON = globalThis.Promise = globalThis.Array = globalThis.WebSocket = globalThis.setTimeout = globalThis.fetch = globalThis.console = undefined;
  globalThis.Reflect = globalThis.Object = globalThis.String = globalThis.Date = globalThis.eval = undefined; }`);
  for (const [code, want] of [
    ["1 + 1", "json 2"], ["({a: [1, {b: 2}]})", 'json {"a":[1,{"b":2}]}'], ["let s = 'x'; s + 1", "text x1"], ["const r = await 3; r", "json 3"],
    ["(async () => 4)()", "json 4"], ["throw 5", "error Uncaught 5"],
  ]) assert.equal(await w.value(code), want, code);
});

test("a long result is sent in parts of at most 1 MiB", async () => {
  const w = new World();
  for (const [code, kind, want] of [
    ["'x'.repeat(3 << 20)", "text", "x".repeat(3 << 20)], ["'\u{1f600}ü'.repeat(1e6)", "text", "\u{1f600}ü".repeat(1e6)],
    ["Array.from({length: 3e5}, (_, i) => i)", "json", null], ["throw 'y'.repeat(3e6)", undefined, "Uncaught " + "y".repeat(3e6)], ["'z'.repeat(1 << 20)", "text", "z".repeat(1 << 20)],
  ]) {
    const before = w.packets.length, result = await w.eval(code), sent = w.packets.slice(before), parts = sent.filter(p => p.type === "part");
    assert.equal(result.kind, kind);
    assert.equal(sent.at(-1), result);
    for (const p of parts) {
      assert.deepEqual([p.job, p.id, p.nonce], [result.job, result.id, result.nonce]);
      assert.ok(Buffer.byteLength(p.text) <= 1 << 20);
    }
    const text = parts.map(p => p.text).join("") + (result.value ?? result.error);
    if (want) assert.ok(text === want, code);
    else assert.deepEqual(JSON.parse(text), Array.from({ length: 3e5 }, (_, i) => i));
    assert.equal(parts.length, Math.ceil(Buffer.byteLength(text) / (1 << 20)) - 1);
  }
});

test("a result above 64 MiB is cut", async () => {
  const w = new World();
  for (const [code, end] of [
    ["'x'.repeat(80 << 20)", /… \(\d+ more characters\)$/], ["'ü'.repeat(60 << 20)", /… \(\d+ more characters\)$/],
    ["Array.from({length: 50}, () => 'ü'.repeat(1 << 20))", /^json "… \d\d,\d{3},\d{3} characters of JSON"$/],
  ]) {
    const value = await w.value(code);
    assert.match(value.slice(-60), end, code);
    const n = Buffer.byteLength(value);
    assert.ok(n <= 64 << 20, code + ": " + n);
    w.packets.length = 0;
  }
});

test("parts wait for the socket and end when the service refuses one", async () => {
  const w = new World();
  w.context.host.buffered = 1 << 21;
  const result = w.eval("console.log('first'); 'x'.repeat(3 << 20)");
  await new Promise(setImmediate);
  w.say({ type: "ping" });
  assert.deepEqual(w.packets.at(-1), { type: "pong", id: "1a2b", nonce: w.packets[0].nonce });
  assert.equal(w.of("part").length, 0);
  w.context.host.sent = (take => text => { w.context.host.buffered = 1 << 21; take(text); })(w.context.host.sent);
  w.context.host.buffered = 0;
  w.say({ type: "ok" });
  assert.equal(w.of("part").length, 1);
  w.context.host.buffered = 0;
  w.say({ type: "error", code: "too_large", message: "…" });
  const { ok, value, kind } = await result;
  assert.deepEqual([w.of("part").length, ok, value, kind], [1, true, "", "text"]);
  assert.deepEqual(w.packets.slice(-2).map(p => p.type), ["events", "result"]);
});

test("a ping is answered at once", () => {
  const w = new World();
  w.run("console.log('queued')");
  w.say({ type: "ping" });
  assert.equal(w.packets.at(-1).type, "pong");
  assert.equal(w.of("events").length, 0, "the batch is still queued");
});
