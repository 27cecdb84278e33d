#!/usr/bin/env node
// Connects a running Node.js program (18 or later) to Zino's file REPL as a page: code
// written into its Markdown file, debug/<name>-<id>.md, runs in the program, and the
// result is written below it.
//
// usage: node zino_repl.mjs [--name NAME] [--socket PATH] [SCRIPT [ARGUMENT...]]
//    or: import { attach } from "./zino_repl.mjs"; const page = attach({ name: "shop" });
//
// The first form runs SCRIPT and stays until it is interrupted. Attaching does not keep
// a program running; page.close() detaches it. Code runs in the global scope: var, let,
// const, class and functions persist to the next block. In a block with top-level await
// they do not (assign to globalThis.x there), and the value of the block is that of its
// last expression or of its return. console.log, info, warn and error and uncaught
// errors are shown in the file too; uncaught errors do not end the program. The socket
// is $ZINO_REPL_SOCKET, or repl.sock in $XDG_RUNTIME_DIR/zino (without that variable:
// zino-UID in the directory of temporary files), or in /run/zino.
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import util from "node:util";
import vm from "node:vm";

const MAX = 2 << 20; // characters of a value; a packet must stay below 16 MiB
const ROOM = 1 << 20; // characters of the events of one packet
const AsyncFunction = (async () => {}).constructor;

const attempt = (make) => { try { return make(); } catch (e) { if (e?.name !== "SyntaxError") throw e; } };
const builds = (text) => attempt(() => new AsyncFunction(text));

// lastValue changes the body of an async function to return its last statement, if that
// is an expression: valid in two kinds of brackets and, unlike a declaration, as the body
// of a loop.
function lastValue(code) {
  const text = code.trim().replace(/[;\s]+$/, "");
  for (let p = text.length, tries = 0; p-- && tries < 64;) {
    const head = text.slice(0, p + 1), tail = text.slice(p + 1).trim();
    if (!";\n}".includes(text[p]) || !tail || text[p] !== ";" && "([`/+-*.,".includes(tail[0])) continue;
    tries++;
    const whole = builds(`return (${tail}\n)`) && builds(`return [${tail}\n]`) && (!builds(tail) || builds(`while (0) ${tail}`));
    if (whole && builds(head) && builds(`${head}return (${tail}\n)`)) return `${head}return (${tail}\n)`;
  }
  return code;
}

// compile compiles the code as a script with a completion value, an object literal, or
// the body of an async function. It does not run the code.
function compile(code) {
  const options = { filename: "zino" };
  if (/\bimport\s*\(/.test(code)) options.importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER; // prints a warning
  const script = (text, lineOffset = 0) => () => new vm.Script(text, { ...options, lineOffset });
  const whole = attempt(script(code));
  const literal = /^\s*\{/.test(code) && attempt(() => new Function(`return ${code.trim()}`)) && attempt(script(`(${code}\n)`));
  if (literal || whole) return literal || whole;
  if (!builds(code)) return script(code)(); // throws the syntax error
  if (builds(`return (${code}\n)`)) return script(`(async () => (${code}\n))()`)();
  return script(`(async () => {\n${lastValue(code)}\n})()`, -1)();
}

// plain reports whether JSON represents v exactly. It calls no getter or method of v.
function plain(v, room = { left: 100_000 }, above = []) {
  if (v === null || typeof v === "boolean" || typeof v === "string") return --room.left > 0;
  if (typeof v === "number") return Number.isFinite(v) && !Object.is(v, -0) && --room.left > 0;
  if (typeof v !== "object" || util.types.isProxy(v) || above.length > 50 || above.includes(v)) return false;
  const kind = Object.getPrototypeOf(v), keys = Reflect.ownKeys(v);
  if (kind !== Object.prototype && kind !== null && kind !== Array.prototype) return false;
  if ("toJSON" in v || Array.isArray(v) && keys.length !== v.length + 1) return false;
  return keys.every((k) => Array.isArray(v) && k === "length" ||
    typeof k === "string" && plain(Object.getOwnPropertyDescriptor(v, k).value, room, [...above, v]));
}

const cut = (s, max = MAX) => s.length <= max ? s : `${s.slice(0, max)}\n... (${s.length - max} more characters left out) ...`;
const inspect = (v) => {
  try { return util.inspect(v, { customInspect: false, depth: 4, maxArrayLength: 100, maxStringLength: 10_000 }); } catch { return `[${typeof v}]`; }
};

// serialise returns the kind and the text of a value: JSON or text.
function serialise(v) {
  if (typeof v === "string") return { kind: "text", value: cut(v) };
  const json = plain(v) ? JSON.stringify(v) : "";
  return json && json.length <= MAX ? { kind: "json", value: json } : { kind: "text", value: cut(inspect(v)) };
}

// trace returns an error as text.
const trace = (e) => cut(util.types.isNativeError(e) && typeof e.stack === "string" ? e.stack : inspect(e));

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
  let self = {}, live = false, closed = false, jobs, answers, timer, wait = 200, batch = [], dropped = 0, room = ROOM;
  const rest = (connection) => (keep ? connection : connection.unref());
  const answering = () => {
    if (!answers || answers.destroyed) {
      answers = rest(net.connect(socket)).on("error", () => {}); // the attach connection has the same error
      frames(answers, () => {}); // error replies are ignored
    }
    return answers;
  };
  const send = (packet) => {
    answering().write(frame({ id: self.id, nonce: self.nonce, ...packet }));
  };
  const flush = () => {
    timer = live ? undefined : rest(setTimeout(flush, 200)); // events are kept until the program is attached
    if (!live) return;
    if (dropped) batch.push({ type: "adapter", message: `${dropped} more events were left out` });
    send({ type: "events", events: batch });
    batch = []; dropped = 0; room = ROOM;
  };
  const capture = (event) => {
    const most = room > ROOM / 2 ? 250_000 : 10_000;
    event.message = cut(event.message, most);
    if (event.stack) event.stack = cut(event.stack, most);
    room -= event.message.length + (event.stack?.length ?? 0) + 100;
    if (room < 0) { dropped++; return; }
    batch.push(event);
    timer ??= rest(setTimeout(flush, 50));
  };
  const run = async ({ job, code, timeout_ms: timeout }) => {
    let result;
    try {
      const value = compile(code).runInThisContext({ timeout });
      result = { ok: true, ...serialise(util.types.isPromise(value) ? await value : value) }; // other objects with a then method are not awaited
    } catch (e) {
      result = { ok: false, error: trace(e) };
    }
    if (batch.length) { clearTimeout(timer); flush(); } // send the events of the code before its result
    send({ type: "result", job, ...result });
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
      capture({ type: "console", level, message: values.map((v) => serialise(v).value).join(" ") });
    };
  }
  const uncaught = (type) => (e) => {
    process.stderr.write(`${trace(e)}\n`);
    capture({ type, level: "error", message: String(util.types.isNativeError(e) ? e.message : inspect(e)), stack: trace(e) });
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
