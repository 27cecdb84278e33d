// A simulated browser for the page script: a context with the browser APIs that the
// script uses, and a socket that the tests control.
import vm from "node:vm";
import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

export const script = readFileSync(process.env.ZINO_SCRIPT, "utf8");

const browser = `
class EventTarget {
  addEventListener(type, f) { ((this.heard ??= {})[type] ??= []).push(f); }
}
const target = new EventTarget();
globalThis.fire = (at, type, event) => { const list = (at ?? target).heard?.[type]; for (let i = 0; i < (list?.length ?? 0); i++) list[i](event); };
globalThis.EventTarget = function () {};
globalThis.EventTarget.prototype.addEventListener = function (type, f) {
  EventTarget.prototype.addEventListener.call(this === globalThis ? target : this, type, f);
};
globalThis.MessageEvent = class { constructor(data) { this.text = data; } get data() { return this.text; } };
globalThis.WebSocket = class extends EventTarget {
  constructor(url, protocols) { super(); host.opened(this, url, protocols); }
  send(text) { host.sent(text); }
  close() { host.closed(); }
  get bufferedAmount() { return host.buffered ?? 0; }
};
globalThis.location = { href: "http://127.0.0.1:8302/app.html?secret", pathname: "/app.html" };
globalThis.name = "";
`;

// World is a context with the loaded script, connected unless welcome is false.
export class World {
  constructor({ before = "", storage, document, welcome = true } = {}) {
    this.packets = [];
    this.logged = [];
    this.timers = [];
    this.fetched = [];
    this.sockets = [];
    this.waiting = [];
    this.context = vm.createContext({
      host: { opened: (...args) => { this.sockets.push(args); this.look(); }, sent: text => this.take(text), closed: () => { this.closedBy = "page"; } },
      setTimeout: (f, ms) => this.timers.push({ f, ms }),
      console: Object.fromEntries(["log", "info", "warn", "error"].map(level => [level, (...args) => this.logged.push([level, ...args])])),
      fetch: url => { this.fetched.push(url); return this.answer(); },
      crypto: webcrypto, performance, TextEncoder, URLSearchParams, Headers, FormData, Response, URL,
      ...(document && { document }),
      ...(storage && { sessionStorage: storage }),
    }, { codeGeneration: { strings: true, wasm: false } });
    this.answer = () => Promise.reject(new Error("connection refused"));
    this.run(browser);
    if (document) this.run("globalThis.window = globalThis.parent = globalThis;");
    this.run(before);
    this.load();
    if (welcome) this.welcome();
  }

  load() { vm.runInContext(script, this.context, { filename: "http://127.0.0.1:8302/zino.js" }); }
  run(code) { return vm.runInContext(code, this.context); }
  // fire dispatches an event on the last socket.
  fire(type, event) { this.context.fire(this.sockets.at(-1)[0], type, event); }
  welcome(id = "1a2b") {
    this.fire("open");
    this.say({ type: "welcome", id, name: "app", file: "debug/app-1a2b.md", nonce: this.packets.at(-1)?.nonce });
  }
  say(packet) {
    this.context.text = JSON.stringify(packet);
    this.fire("message", this.run("new MessageEvent(text)"));
  }
  take(text) {
    this.packets.push(JSON.parse(text));
    this.look();
  }
  look() { for (const f of this.waiting.splice(0)) f(); }
  async opened(n) { while (this.sockets.length < n) await new Promise(resolve => this.waiting.push(resolve)); }
  of(type) { return this.packets.filter(p => p.type === type); }
  // when waits for a packet.
  async when(type, n = 1) {
    while (this.of(type).length < n) await new Promise(resolve => this.waiting.push(resolve));
    return this.of(type)[n - 1];
  }
  // tick runs all pending timers.
  tick() { for (const { f } of this.timers.splice(0)) f(); }
  // eval sends a job to the page and returns the result.
  async eval(code) {
    const n = this.of("result").length + 1;
    this.say({ type: "job", job: String(n), code, lang: "js", timeout_ms: 60000 });
    return this.when("result", n);
  }
  async value(code) {
    const r = await this.eval(code);
    const whole = this.of("part").filter(p => p.job === r.job).map(p => p.text).join("") + (r.ok ? r.value : r.error);
    return (r.ok ? r.kind : "error") + " " + whole;
  }
}
