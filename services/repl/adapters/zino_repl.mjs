#!/usr/bin/env node
// Connects a running Node.js program (18 or later) to Zino's file REPL as a page: code
// written into its Markdown file, debug/<name>-<id>.md, runs in the program, and the
// result is written below it.
//
// usage: node zino_repl.mjs [--name NAME] [--socket PATH] [SCRIPT [ARGUMENT...]]
//    or: import { attach } from "./zino_repl.mjs"; const page = attach({ name: "shop" });
//
// The first form runs SCRIPT and stays until it is interrupted. Attaching does not keep
// a program running; page.close() detaches it. Code runs as in a console of the developer
// tools: what a block declares persists, also with top-level await, and may be declared
// again; var and let of one name exclude each other, and a block with a return keeps
// nothing. import() resolves against SCRIPT (Node.js 20.12 or later). Values are shown as those of browser pages. console.log, info,
// warn and error and uncaught errors are shown in the file too; uncaught errors do not end
// the program. The socket is $ZINO_REPL_SOCKET, or repl.sock in $XDG_RUNTIME_DIR/zino
// (without that variable: zino-UID in the directory of temporary files), or in /run/zino.
import fs from "node:fs";
import inspector from "node:inspector";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import util from "node:util";
import vm from "node:vm";

const WHOLE = 64 << 20; // bytes of a value
const ROOM = 1 << 20; // characters of the events of one packet
const LOGGED = { depth: 8, room: 32 << 10 }; // of an object in the console
const { types } = util;

const count = (n) => n.toLocaleString("en-US");
const more = (n) => `… ${count(n)} more item${n === 1 ? "" : "s"}`;
const short = (s, max) => s.length <= max ? s : `${s.slice(0, max)}… (${s.length - max} more characters)`;
const isError = (v) => types.isNativeError(v) || !types.isProxy(v) && v instanceof Error; // a DOMException is not native
const share = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });

// evaluate runs code with the semantics of a console. A syntax error is reported before
// anything runs.
const session = new inspector.Session();
const evaluate = (expression, options, done) => session.post("Runtime.evaluate", { expression, replMode: true, silent: true, ...options }, done);

// parses reports whether text is valid code. The last line, an error too, prevents its
// execution.
function parses(text) {
  let error = "";
  evaluate(text + "\nconst zz$=0,zz$=0", { objectGroup: "zino" }, (_, r) => { error = r?.exceptionDetails?.exception?.description ?? ""; });
  return error.includes("zz$");
}
const isExpression = (text) => parses(`(${text}\n)`) && parses(`[${text}\n]`); // "1);f();(2" is valid in one of them

// form returns the form of the code that runs: an expression, a script, or the body of an
// async function if the code has a return. An import() in a text stays as it is: with a
// wrong character in front the code is still valid.
function form(code) {
  code = code.replace(/(?<![\w$.])import(?=\s*\()/g, (word, at) => parses(`${code.slice(0, at)}@${code.slice(at)}`) ? word : "$imprt");
  const body = `async () => {${code}\n}`;
  if (/^\s*\{/.test(code) && isExpression(code)) return `(${code}\n)`;
  return !parses(code) && isExpression(body) ? `(${body})()` : code;
}

// prepare connects to the console, which has no import() and returns descriptions of
// values: taker is the description of a function that stores a value in taken.
let taken, taker;
function prepare() {
  if (taker) return;
  const script = fs.realpathSync(process.argv[1] ?? "."), filename = script === fileURLToPath(import.meta.url) || !process.argv[1] ? path.resolve("x.mjs") : script;
  const load = new vm.Script("(name, options) => import(name, options)", { filename, importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER }).runInThisContext();
  share("$imprt", (name, options) => {
    const { emitWarning } = process;
    process.emitWarning = () => {}; // "an experimental feature"
    try { return load(name, options); } finally { process.emitWarning = emitWarning; }
  });
  share("$zino", (v) => { taken = v; });
  session.connect();
  evaluate("$zino", {}, (_, r) => { taker = r.result.objectId; });
  delete globalThis.$zino;
}

// perform runs the code of a job and returns its value, or throws what it threw.
function perform(job, code, timeout) {
  prepare();
  const expression = `${form(code)}\n//# sourceURL=zino-job-${job}.js`;
  return new Promise((resolve, reject) => evaluate(expression, { awaitPromise: true, timeout, objectGroup: "zino" }, (error, r) => {
    if (error) return reject(error);
    const { exceptionDetails: failed, result } = r, { objectId, value, unserializableValue } = failed?.exception ?? result;
    taken = value; // of a string 1 MiB takes about 0.1 s: not sent back
    if (objectId || unserializableValue) session.post("Runtime.callFunctionOn", { objectId: taker, functionDeclaration: "function(v) { this(v); }", arguments: [{ objectId, unserializableValue }] });
    session.post("Runtime.releaseObjectGroup", { objectGroup: "zino" });
    if (!failed) return resolve(types.isPromise(taken) ? taken.then((value) => ({ value })) : { value: taken }); // other objects with a method then are values
    if (taken?.name === "SyntaxError" && types.isNativeError(taken) && !taken.stack.includes("zino-job-"))
      taken.stack = `${taken}\n    at zino-job-${job}.js:${failed.lineNumber + 1}:${failed.columnNumber + 1}`;
    reject(taken);
  }));
}

// show returns the kind and the text of a value: JSON for all objects, in which strings
// stand for what JSON does not have. It calls no getter, method or trap of the program.
function show(value, { depth = 48, room = WHOLE - (1 << 16) } = {}) {
  const above = [], has = Object.getOwnPropertyDescriptor, size = (leaf) => Buffer.byteLength(JSON.stringify(leaf)) + 1;
  const spend = (leaf) => { room -= size(leaf); return leaf; };
  const text = (s) => {
    const most = Math.max(room, 0), cut = short(s, most);
    return spend(size(cut) > most + 99 ? short(s, most / 6 | 0) : cut); // an escaped character has up to 6 bytes
  };
  const property = (d, deep) => "value" in d ? walk(d.value, deep) : text(d.get ? "[Getter]" : "[Setter]");
  const array = (v, deep) => {
    const out = [];
    let at = 0;
    const gap = (n) => { if (n > at) out.push(n - at > 1 ? `[${count(n - at)} empty]` : "[empty]"); at = n + 1; };
    for (const k of Object.keys(v)) {
      if (String(k >>> 0) !== k) break;
      if (room < 0) { out.push(more(v.length - at)); return out; }
      gap(+k), out.push(property(has(v, k), deep));
    }
    gap(v.length);
    return out;
  };
  const record = (v, deep, out) => {
    const keys = Reflect.ownKeys(v).filter((k) => has(v, k).enumerable);
    for (const [i, k] of keys.entries()) {
      if (room < 0) { out["…"] = more(keys.length - i); break; }
      out[text(String(k))] = property(has(v, k), deep);
    }
    return out;
  };
  const error = (v, deep) => {
    const out = { [`[${v.name}]`]: text(String(v.message)), stack: trace(v, 9).split("\n    at ").slice(1).map(text) };
    for (const k of ["cause", "errors"]) if (has(v, k)) out[k] = property(has(v, k), deep);
    return record(v, deep, out);
  };
  const object = (v, deep) => {
    if (types.isProxy(v)) return text(util.inspect(v)); // calls no trap
    const prototype = Object.getPrototypeOf(v), own = prototype && has(prototype, "constructor")?.value;
    const name = typeof own === "function" && own !== Object ? own.name : "", is = (kind) => name === kind && v instanceof globalThis[kind];
    const content = (tag, items) => deep > depth ? more(items.length) : { [`[${tag}]`]: array(Array.from(items), deep) };
    if (types.isDate(v)) return text(isFinite(Date.prototype.getTime.call(v)) ? Date.prototype.toISOString.call(v) : "Invalid Date");
    if (types.isRegExp(v)) return text(RegExp.prototype.toString.call(v));
    if (types.isMap(v)) return content("Map", [...Map.prototype.entries.call(v)]);
    if (types.isSet(v)) return content("Set", [...Set.prototype.values.call(v)]);
    if (types.isTypedArray(v)) return content(name, v);
    if (types.isAnyArrayBuffer(v)) return content(name, new Uint8Array(v));
    if (types.isDataView(v)) return content(name, new Uint8Array(v.buffer, v.byteOffset, v.byteLength));
    if (types.isBoxedPrimitive(v)) return { [`[${name}]`]: walk(own.prototype.valueOf.call(v), deep) };
    if (is("URL")) return text(v.href);
    if (is("Headers") || is("URLSearchParams") || is("FormData")) return content(name, [...v]);
    if (deep > depth) return more(Array.isArray(v) ? v.length : Reflect.ownKeys(v).length);
    if (isError(v)) return error(v, deep + 1);
    return Array.isArray(v) ? array(v, deep + 1) : record(v, deep + (name ? depth / 4 : 1), Object.assign(Object.create(null), name && { "[class]": name }));
  };
  const walk = (v, deep) => {
    if (typeof v === "string") return text(v);
    if (typeof v === "function") return text(v.name && typeof v.name === "string" ? `[Function: ${v.name}]` : "[Function]");
    if (v === null || typeof v === "boolean" || Number.isFinite(v) && !Object.is(v, -0)) return spend(v);
    if (typeof v !== "object") return text(typeof v === "bigint" ? `${v}n` : Object.is(v, -0) ? "-0" : String(v));
    if (above.includes(v)) return text("[Circular]");
    above.push(v), room -= 3;
    try { return object(v, deep); } catch (e) { return text(`[throws ${trace(e).split("\n")[0]}]`); } finally { above.pop(); }
  };
  if (typeof value === "string") return { kind: "text", value };
  if (typeof value === "function") return { kind: "text", value: Function.prototype.toString.call(value) };
  const json = walk(value, 0);
  return typeof value !== "object" && typeof json === "string" ? { kind: "text", value: json } : { kind: "json", value: JSON.stringify(json) };
}

// trace returns an exception as text: of an error the stack, without the frames below the
// code of a block, and its causes.
function trace(e, depth = 0) {
  if (!isError(e)) return e === undefined ? "undefined" : `Uncaught ${show(e).value}`;
  try {
    const lines = String(e.stack ?? e).split("\n"), last = lines.findLastIndex((line) => line.includes("zino-job-"));
    let text = lines.slice(0, last < 0 ? lines.length : last + 1).join("\n");
    if (depth > 3) return text;
    if (Object.hasOwn(e, "cause")) text += `\nCaused by: ${trace(e.cause, depth + 1)}`;
    for (const [i, inner] of (Array.isArray(e.errors) ? e.errors.slice(0, 10) : []).entries()) text += `\nerrors[${i}]: ${trace(inner, depth + 1)}`;
    return text;
  } catch { return "[cannot be shown]"; }
}
const plain = (v, limits) => isError(v) ? trace(v) : show(v, limits).value;

// parts divides a text into the texts of packets, the last of which is that of the result.
function parts(text) {
  if (Buffer.byteLength(text) > WHOLE) text = short(text, Buffer.from(text).subarray(0, WHOLE - 100).toString().length - 1);
  return Buffer.byteLength(text) <= 1 << 20 ? [text] : text.match(/[^]{1,262144}/gu); // code points of up to 4 bytes
}

// within runs a block of tests and returns its report, that of blocks in browser pages.
async function within(job, code, timeout) {
  const tests = [], rows = [], end = performance.now() + timeout, before = Object.getOwnPropertyDescriptors(globalThis);
  const line = (s, max = 300) => short(s.replace(/\s+/g, " ").trim(), max), brief = (v) => line(plain(v, { depth: 4, room: 400 }));
  const why = (e) => { const at = /zino-job-[^:]*:(\d+:\d+)/.exec(trace(e)); return line(trace(e).split("\n")[0]) + (at ? ` (${at[1]})` : ""); };
  const expect = (value, not = false) => {
    const check = (name, want, ok, got = value) => { if (ok === not) throw new Error(`expected ${brief(got)}${not ? " not" : ""} to ${name}${want === undefined ? "" : ` ${brief(want)}`}`); };
    const like = (text, want) => typeof want === "string" ? text.includes(want) : want.test(text);
    const thrown = (want) => (e) => check("throw", want, want === undefined || (typeof want === "function" ? e instanceof want : like(`${e?.message ?? e}`, want)), e);
    const checks = {
      toBe: (want) => check("be", want, Object.is(value, want)),
      toEqual: (want) => check("equal", want, util.isDeepStrictEqual(value, want)),
      toMatch: (want) => check("match", want, like(`${value}`, want)),
      toThrow: (want) => {
        let out;
        try { out = value(); } catch (e) { return thrown(want)(e); }
        return out?.then ? out.then(() => check("throw", want, false), thrown(want)) : check("throw", want, false);
      },
    };
    return not ? checks : { ...checks, not: expect(value, true) };
  };
  const row = (name, error, took) => rows.push({ error, text: `\n${line(name, 80)}  ${error || "ok"}  ${Math.round(took)}ms` });
  share("test", (name, run) => { tests.push([`${name}`, run]); }), share("expect", (value) => expect(value));
  try {
    const outside = await perform(job, code, timeout).then(() => [], (e) => [why(e)]);
    for (const [i, [name, run]] of tests.entries()) {
      const begin = performance.now(), limit = Math.round((end - begin) / (tests.length - i + 1));
      let timer;
      const late = new Promise((resolve) => { timer = setTimeout(resolve, limit, `did not end within ${limit} ms`); });
      row(name, await Promise.race([late, (async () => run())().then(() => "", why)]), performance.now() - begin);
      clearTimeout(timer);
    }
    for (const error of outside) row("(outside of test)", error, 0);
  } finally {
    for (const key of ["test", "expect"]) before[key] ? Object.defineProperty(globalThis, key, before[key]) : delete globalThis[key];
  }
  const failed = rows.filter((r) => r.error).length;
  return { value: rows.length ? `passed ${rows.length - failed}, failed ${failed}${rows.map((r) => r.text).join("")}` : "no tests: the block did not call test(name, fn)" };
}

const now = () => { const d = new Date(); return `${d.toTimeString().slice(0, 8)}.${String(d.getMilliseconds()).padStart(3, "0")}`; };
// place returns file and line of the first frame of the program.
const place = (stack) => /([^\s(/\\]+:\d+):\d+\)?$/.exec(stack.split("\n").find((line) => /^ +at .*:\d+:\d+\)?$/.test(line) && !line.includes(import.meta.url) && !/node:|\/node_modules\//.test(line)) ?? "")?.[1];

function defaultSocket() {
  const { XDG_RUNTIME_DIR: runtime, ZINO_REPL_SOCKET: named } = process.env;
  if (named) return named;
  const own = runtime ? path.join(runtime, "zino") : path.join(os.tmpdir(), "zino-" + process.getuid());
  if (!fs.existsSync(path.join(own, "repl.sock"))) return "/run/zino/repl.sock";
  const info = fs.lstatSync(own); // a socket in this directory can run code here
  if (!info.isDirectory() || info.uid !== process.getuid() || info.mode & 0o077)
    throw new Error(`${own} is not a directory that only you can use (mode 0700): remove it, or set ZINO_REPL_SOCKET`);
  return path.join(own, "repl.sock");
}

// frames calls each with every packet of a connection.
function frames(connection, each) {
  let received = Buffer.alloc(0);
  connection.on("data", (data) => {
    received = Buffer.concat([received, data]);
    while (received.length >= 4 && received.length >= 4 + received.readUInt32BE()) {
      const end = 4 + received.readUInt32BE(), text = received.toString("utf8", 4, end);
      received = received.subarray(end);
      each(JSON.parse(text));
    }
  });
}

function frame(packet) {
  const payload = Buffer.from(JSON.stringify(packet)), head = Buffer.alloc(4);
  head.writeUInt32BE(payload.length);
  return Buffer.concat([head, payload]);
}

// attach connects this program, and reconnects after the connection is lost.
export function attach({ name = path.basename(process.argv[1] ?? "node"), socket = defaultSocket(), keep = false } = {}) {
  let self = {}, live = false, closed = false, jobs, answers, replies, timer, wait = 200, batch = [], dropped = 0, room = ROOM;
  const rest = (connection) => (keep ? connection : connection.unref());
  const answering = () => {
    if (!answers || answers.destroyed) {
      const waiting = replies = [];
      answers = rest(net.connect(socket)).on("error", () => {}); // the attach connection has the same error
      frames(answers, (reply) => waiting.shift()(reply));
      answers.on("close", () => { for (const heard of waiting.splice(0)) heard({ type: "error" }); });
    }
    return answers;
  };
  const send = (packet) => new Promise((heard) => {
    answering().write(frame({ id: self.id, nonce: self.nonce, ...packet }));
    replies.push(heard);
  });
  const flush = () => {
    timer = live ? undefined : rest(setTimeout(flush, 200)); // events are kept until the program is attached
    if (!live) return;
    if (dropped) batch.push({ type: "adapter", message: `${dropped} more events were left out` });
    send({ type: "events", events: batch });
    batch = []; dropped = 0; room = ROOM;
  };
  const capture = (event) => {
    const most = room > ROOM / 2 ? 250_000 : 10_000;
    event.ts = now();
    event.message = short(event.message, most);
    if (event.stack) event.stack = short(event.stack, most);
    room -= event.message.length + (event.stack?.length ?? 0) + 100;
    if (room < 0) { dropped++; return; }
    batch.push(event);
    timer ??= rest(setTimeout(flush, 50));
  };
  const run = async ({ job, code, timeout_ms: timeout, test, outline }) => {
    let kind = "", value;
    try {
      if (outline) throw new Error("a Node.js program has no elements to outline: evaluate code in it");
      ({ kind, value } = show((await (test ? within : perform)(job, code, timeout)).value));
    } catch (e) {
      value = trace(e);
    }
    if (batch.length) { clearTimeout(timer); flush(); } // send the events of the code before its result
    let left = parts(value);
    while (left.length > 1) left = (await send({ type: "part", job, text: left.shift() })).type === "ok" ? left : [""]; // too_large
    send({ type: "result", job, ok: !!kind, ...(kind ? { kind, value: left[0] } : { error: left[0] }) });
  };
  const take = (packet) => {
    if (packet.type === "attached") { self = packet; live = true; wait = 200; answering(); } // a stopping service still reads from this connection
    if (packet.type === "job") run(packet);
    if (packet.type === "error") process.stderr.write(`zino_repl: ${packet.message}\n`);
  };
  const connect = () => {
    jobs = rest(net.connect(socket, () => jobs.write(frame({ type: "attach", name, lang: "js", kind: "program", id: self.id, nonce: self.nonce }))));
    frames(jobs, take);
    jobs.on("error", () => {}).on("close", () => {
      live = false;
      if (!closed) rest(setTimeout(connect, wait));
      wait = Math.min(wait * 2, 5000);
    });
  };
  const original = {};
  for (const level of ["log", "info", "warn", "error"]) {
    original[level] = console[level];
    console[level] = (...values) => {
      original[level].apply(console, values);
      const texts = values.map((v) => typeof v === "string" || typeof v === "number" ? v : plain(v, LOGGED));
      capture({ type: "console", level, place: place(new Error().stack), message: typeof values[0] === "string" ? util.format(...texts) : texts.join(" ") });
    };
  }
  const uncaught = (type) => (e) => {
    process.stderr.write(`${trace(e)}\n`);
    capture({ type, level: "error", message: trace(e, 9).split("\n")[0], stack: trace(e), place: place(trace(e, 9)) });
  };
  const handlers = { uncaughtException: uncaught("uncaughtException"), unhandledRejection: uncaught("unhandledrejection") };
  for (const [event, handler] of Object.entries(handlers)) process.on(event, handler);
  connect();
  return {
    close() {
      closed = true;
      Object.assign(console, original);
      for (const [event, handler] of Object.entries(handlers)) process.off(event, handler);
      jobs.destroy();
      answers?.destroy();
    },
  };
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const settings = { keep: true }, rest = process.argv.slice(2);
  while (rest[0]?.startsWith("--")) {
    const key = rest.shift().slice(2);
    if (!["name", "socket"].includes(key) || !rest.length) {
      console.error("usage: node zino_repl.mjs [--name NAME] [--socket PATH] [SCRIPT [ARGUMENT...]]");
      process.exit(2);
    }
    settings[key] = rest.shift();
  }
  if (rest[0]) settings.name ??= path.basename(rest[0]);
  try {
    attach({ name: "node", ...settings });
  } catch (e) {
    console.error(e.message);
    process.exit(1);
  }
  globalThis.require ??= createRequire(path.join(process.cwd(), "x.js"));
  if (rest[0]) {
    process.argv.splice(1, process.argv.length, path.resolve(rest[0]), ...rest.slice(1));
    await import(pathToFileURL(process.argv[1]));
  }
}
