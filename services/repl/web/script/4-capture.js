// Events are sent in batches of up to 100, after at most 200 ms. If they cannot be
// sent, the first two and the latest are kept, as in the file. The first events of a
// batch have a higher length limit, so that long JSON is not truncated. The time and the
// place, an Error, become texts when the batch is sent, which costs more than the rest.
let queue = bare(), lost = 0, timer, inside;
const stamp = d => sub(call(toTimeString, d), 0, 8) + "." + sub("" + (1e3 + call(getMilliseconds, d)), 1);
const keep = (type, level, message, place, stack, source) => {
  if (queue[99]) flush();
  if (queue[99]) call(splice, queue, 2, 1), lost++;
  queue[queue.length] = { __proto__: null, type, level, source, ts: new Date, place, message: short(message, queue[3] ? 2e4 : 2e5), stack: stack && short(stack, 2e4) };
  timer ||= setTimeout(flush, 200);
};

// position returns "app.js:12" for a frame "    at f (http://x/app.js?t=1:12:5)" or, in
// other browsers, "f@http://x/app.js:12:5".
const position = line => {
  const s = line[line.length - 1] === ")" ? sub(line, 0, -1) : line, column = call(lastIndexOf, s, ":"), row = call(lastIndexOf, s, ":", column - 1);
  if (row < 1 || !(sub(s, row + 1, column) > 0) || !(starts(s, "    at ") || has(s, "@"))) return;
  let file = sub(s, 0, row), at = starts(s, "    at ") ? 0 : call(indexOf, file, "@") + 1;
  for (let i = 0; i < 2; i++) { const n = call(lastIndexOf, file, " ("[i]) + 1; if (n > at) at = n; }
  file = call(split, call(split, sub(file, at), "?")[0], "#")[0];
  const name = sub(file, call(lastIndexOf, file, "/") + 1) || (file && "(index)");
  if (name && name[0] !== "<") return sub(name, -60) + ":" + sub(s, row + 1, column);
};
// placeOf returns the position of the first frame that is neither of this script nor of
// a library, if there is one.
const placeOf = stack => {
  let other;
  for (let i = 0, lines = call(split, stack, "\n"); i < lines.length; i++) {
    const at = !has(lines[i], zino.script) && position(lines[i]);
    if (at && !has(lines[i], "/node_modules/") && !has(lines[i], "/@vite/")) return at;
    other ||= at || undefined;
  }
  return other;
};
// limited calls f with short stacks, which cost less where the page has raised the limit.
const limited = f => {
  const limit = slot(Fault, "stackTraceLimit"), own = limit && hasOwn(limit, "value") && limit.writable && limit.value !== 10;
  if (own) Fault.stackTraceLimit = 10;
  try { return f(); } finally { if (own) Fault.stackTraceLimit = limit.value; }
};
const caller = () => limited(() => new Fault);

// message formats the arguments of a console call.
const message = (args, limits = logged, i = 0, n = args.length) => {
  const text = v => typeof v === "string" ? v : tried(isError, 0, v) ? failure(v, limits) : plain(v, limits);
  let out = i < n ? text(args[i]) : "", at = typeof args[i] === "string" ? -1 : out.length;
  for (i++; i < n && (at = call(indexOf, out, "%", at + 1)) >= 0;) {
    const c = out[at + 1];
    if (!c || !has("sdifoOc", c)) continue;
    const value = c === "c" ? "" : text(args[i]);
    out = sub(out, 0, at) + value + sub(out, at + 2);
    at += value.length - 1, i++;
  }
  for (; i < n; i++) out += " " + text(args[i]);
  return out;
};

// In a burst of over 200 calls in 200 ms objects are shown in brief.
let burst = 0, since = 0;
const brief = { depth: 2, items: 20, size: 1e3, time: 0.05, inner: true };
const note = (name, args) => {
  if (name === "assert" && args[0]) return;
  const at = now();
  if (at - since > 200) since = at, burst = 0;
  const limits = ++burst > 200 ? brief : logged, place = caller(), show = (from, end) => message(args, limits, from, end);
  const log = (text, level = "log") => keep("console", level, text, place, "", "console." + name);
  if (name === "assert") return log("Assertion failed" + (args.length > 1 ? ": " + show(1, args.length) : ""), "error");
  if (name === "table" || name === "dir") return log(show(0, args.length && 1));
  const text = show(0, args.length);
  if (name === "trace") return log((text || "Trace") + sub(frames(new Fault), 5));
  if (name === "group" || name === "groupCollapsed") return log(text);
  keep("console", name, text, place);
};
const capture = name => {
  const original = slot(console ?? {}, name)?.value;
  if (typeof original !== "function") return;
  const wrapper = {
    [name](...args) {
      if (!inside) {
        inside = true;
        tried(note, 0, name, args);
        inside = false;
      }
      return apply(original, this, args);
    },
  }[name];
  define(console, name, { __proto__: null, value: wrapper, configurable: true, enumerable: true, writable: true });
};
// The page may have replaced the console, also by a Proxy whose traps throw.
for (let i = 0, names = call(split, "log info warn error debug trace assert table dir group groupCollapsed", " "); i < names.length; i++) tried(capture, 0, names[i]);

// The properties of an event.
const peek = (kind, key) => { const get = brand(kind, key); return e => { const v = get && tried(get, e); return v === undefined ? tried(read, 0, e, key) : v; }; };
const errorOf = peek(G.ErrorEvent, "error"), textOfError = peek(G.ErrorEvent, "message"), fileOf = peek(G.ErrorEvent, "filename"), rowOf = peek(G.ErrorEvent, "lineno"), colOf = peek(G.ErrorEvent, "colno");
const reasonOf = peek(G.PromiseRejectionEvent, "reason"), targetOf = peek(G.Event, "target"), { URL: Address } = G;

// address resolves a URL and removes what may be secret: values of the query, the
// fragment, a user and a password.
const resolve = url => call(href, new Address(url, doc ? call(baseURI, doc) : G.location.href));
const clean = url => {
  url = call(split, url, "#")[0];
  if (starts(url, "data:") || starts(url, "blob:")) return sub(url, 0, 60);
  const host = call(indexOf, url, "//") + 2, user = call(indexOf, url, "@"), path = call(indexOf, url, "/", host), query = call(indexOf, url, "?");
  let out = host > 1 && user > 0 && (path < 0 || user < path) ? sub(url, 0, host) + sub(url, user + 1, query < 0 ? url.length : query) : sub(url, 0, query < 0 ? url.length : query);
  for (let i = 0, pairs = query < 0 ? "" : call(split, sub(url, query + 1), "&"); i < pairs.length; i++) {
    const n = call(indexOf, pairs[i], "=");
    out += (i ? "&" : "?") + (n < 0 ? "…" : sub(pairs[i], 0, n) + "=…");
  }
  return short(out, 500);
};

const caught = (type, e, text, file, at) => {
  let stack = tried(isError, 0, e) ? failure(e, logged) : "";
  if (stack) text = sub(stack, 0, call(indexOf, stack + "\n", "\n"));
  if (has(stack, "at JSON.parse (")) at = ""; // it is the position in the text
  if (at && !has(stack, file)) stack += (stack && "\n") + at;
  keep(type, "error", text, (at && position(at)) || placeOf(stack), stack);
};

// Failed resources: the element, its address, and for a module what it could not import.
const byName = method(G.Performance, "getEntriesByName"), byType = method(G.Performance, "getEntriesByType"), codeOf = peek(G.PerformanceResourceTiming, "responseStatus"), nameOfEntry = peek(G.PerformanceEntry, "name"), startOf = peek(G.PerformanceEntry, "startTime"), endOf = peek(G.PerformanceResourceTiming, "responseEnd");
const resource = el => {
  const keys = ["src", "href", "data", "srcset"];
  let i = 0, url;
  while (i < 3 && call(attribute, el, keys[i]) === null) i++;
  let text = "<" + call(localName, el) + " " + keys[i] + "=" + clean(url = call(attribute, el, keys[i]) ?? "") + "> failed to load";
  tried(() => {
    url = resolve(url);
    const own = call(byName, clock, url, "resource"), last = own[own.length - 1], code = last && codeOf(last);
    const report = (url, code) => { text += "\n    " + clean(url) + (code > 399 ? " answered " + code : ""); };
    report(url, code);
    if (call(attribute, el, "type") !== "module" || code > 399) return;
    for (let i = 0, all = call(byType, clock, "resource"); i < all.length; i++) if (codeOf(all[i]) > 399 && startOf(all[i]) >= endOf(last)) report(nameOfEntry(all[i]), codeOf(all[i]));
  });
  keep("resource", "error", text);
};

listen(G, "error", e => tried(() => {
  const target = targetOf(e);
  if (nodeType && target && target !== G && tried(nodeType, target) === 1) return resource(target);
  const text = "" + (textOfError(e) ?? "error");
  let file = fileOf(e), at = file ? "    at " + file + ":" + rowOf(e) + ":" + (colOf(e) ?? 0) : "";
  // Of a script of another origin only its element is known, while it is loaded.
  if (text === "Script error.") at = file = "    in a script of another origin; the attribute crossorigin shows more: " + clean(tried(attribute, tried(currentScript, doc), "src") ?? "");
  caught("window.onerror", errorOf(e), text, file, at);
}), true);
listen(G, "unhandledrejection", e => caught("unhandledrejection", reasonOf(e), failure(reasonOf(e), logged)));

// Requests that failed. A Proxy keeps the text and the properties of the built-in
// function, and the caller gets the same response or rejection.
const { fetch } = G, { get: property } = Reflect;
// The name is in two pieces because no name of the status page may stand in this script.
const requestURL = brand(G.Request, "url"), requestMethod = brand(G.Request, "method"), code = "sta" + "tus", responseCode = brand(G.Response, code), responseURL = brand(G.Response, "url"), aborted = brand(G.AbortSignal, "aborted");
const wrap = (o, name, f) => {
  const d = slot(o ?? {}, name);
  if (typeof d?.value !== "function" || !d.configurable) return;
  const text = () => call(source, d.value);
  define(o, name, {
    __proto__: null, configurable: true, enumerable: d.enumerable, writable: true,
    value: new Proxy(d.value, { __proto__: null, apply: f, get: (target, key) => key === "toString" ? text : property(target, key) }),
  });
};
const begin = (source, input, verb) => {
  const url = typeof input === "string" ? input : tried(requestURL, input) ?? tried(href, input) ?? "[" + typeof input + "]";
  verb = typeof verb === "string" ? verb : tried(requestMethod, input) ?? "GET";
  return { __proto__: null, source, text: call(toUpperCase, verb) + " " + clean(tried(resolve, 0, url) ?? url), place: caller(), at: now() };
};
const ended = (it, how) => keep("request", "error", it.text + " " + how + " (" + count(now() - it.at | 0) + "ms)", it.place, "", it.source);
const answered = (it, code) => code > 399 && ended(it, "answered " + code);
const watch = (response, it, init) => it && tried(isPrototypeOf, promise, response) ? watched(response, it, init) : response;
const watched = async (response, it, init) => {
  try {
    const r = await response;
    tried(() => answered(it, call(responseCode, r)));
    return r;
  } catch (e) {
    tried(() => {
      const name = tried(read, 0, e, "name"), signal = tried(read, 0, init, "signal");
      if (name === "TimeoutError" || !(name === "AbortError" || (signal && tried(aborted, signal)))) ended(it, "failed: " + call(split, failure(e, logged), "\n")[0]);
    });
    throw e;
  }
};
wrap(G, "fetch", (f, self, args) => {
  const it = tried(() => begin("fetch", args[0], tried(read, 0, args[1], "method")));
  return watch(apply(f, self, args), it, args[1]);
});
// Chromium has no event for a body that is not JSON if the page does not handle it.
wrap(G.Response?.prototype, "json", (f, self, args) => {
  const it = tried(() => begin("fetch", call(responseURL, self), "JSON"));
  return watch(apply(f, self, args), it);
});
const requests = new WeakMap, { get: recall, set: store } = WeakMap.prototype, xhr = G.XMLHttpRequest?.prototype, xhrCode = brand(G.XMLHttpRequest, code);
wrap(xhr, "open", (f, self, args) => {
  tried(store, requests, self, { __proto__: null, verb: args[0], url: args[1] });
  return apply(f, self, args);
});
wrap(xhr, "send", (f, self, args) => {
  const it = tried(() => { const { verb, url } = call(recall, requests, self); return begin("XMLHttpRequest", url, verb); }), once = { __proto__: null, once: true };
  let over = !it;
  if (it) tried(() => {
    listen(self, "abort", () => { over = true; }, once);
    listen(self, "loadend", () => {
      if (!over) call(xhrCode, self) ? answered(it, call(xhrCode, self)) : ended(it, "failed");
      over = true;
    }, once);
  });
  try { return apply(f, self, args); } catch (e) {
    // A synchronous request that fails has no events.
    if (!over && tried(read, 0, e, "name") === "NetworkError") ended(it, "failed");
    throw e;
  }
});
