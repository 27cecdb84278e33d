const { WebSocket, location: here } = G, { send, close } = WebSocket.prototype, buffered = brand(WebSocket, "bufferedAmount"), data = brand(G.MessageEvent, "data"), textOf = method(G.Response, "text");
let live, socket, id, left, key = "zino", wait = 100, storage, { token } = zino;
let nonce = G.crypto.getRandomValues(new Uint32Array(4)).join("");

// The id is stored under a key that identifies the frame. A duplicated tab has a copy
// of it; "left" means that the page with that nonce was unloaded, so this is a reload.
tried(() => {
  for (let w = doc && G; w && w !== w.parent; w = w.parent) {
    let i = 0;
    while (i < w.parent.length && w.parent[i] !== w) i++;
    key += "." + i;
  }
  storage = doc && G.sessionStorage;
  const old = call(split, storage.getItem(key), " ");
  id = old[0], left = old[2] && old[1];
});
const save = how => id && tried(() => storage.setItem(key, id + " " + nonce + how));

const put = (type, packet) => tried(send, socket, stringify({ __proto__: null, type, id, nonce, ...packet }));
const kind = doc ? (G.parent === G ? "page" : "frame") : G.SharedWorkerGlobalScope ? "shared worker" : "worker";
const titleOf = brand(Document, "title");
const hello = () => {
  const own = tried(() => G.name), name = tried(titleOf, doc) || tried(() => doc.title) || (typeof own === "string" && own) || sub(here.pathname, 1) || kind;
  put("hello", { name, url: here.href, kind, left });
};

// flush sends the queued events, unless the socket is congested.
const flush = force => {
  timer = 0;
  if (!live || !queue[0] || (!force && tried(buffered, socket) > 2e6)) return;
  const n = lost;
  lost = 0;
  if (n) keep("console", "warn", n + " earlier events not kept");
  for (let i = 0; i < queue.length; i++) {
    const e = queue[i], { place } = e;
    e.ts = stamp(e.ts), e.place = typeof place === "object" ? tried(() => placeOf(stackOf(place))) : place;
  }
  put("events", { events: queue });
  queue = bare();
};

// A result above 1 MiB is sent in parts, at most about 2 MiB ahead of the socket, so
// that the page stays responsive and a ping is answered in between. The server answers
// each packet, which continues the sending also where the browser delays timers.
let sending = bare();
const { encodeInto } = TextEncoder.prototype, encoder = new TextEncoder, room = new Bytes(1 << 20), wholeMax = 64 << 20;
// chunk returns the end of the longest part from a position on.
const chunk = (text, at) => {
  const { read, written } = call(encodeInto, encoder, sub(text, at, at + room.length), room);
  return { __proto__: null, end: at + read, bytes: written };
};
// bounded cuts a text above 64 MiB; show has counted characters, which are fewer.
const bounded = (kind, text) => {
  let at = 0, total = 0;
  if (text.length * 3 <= wholeMax) return text;
  while (at < text.length) {
    const { end, bytes } = chunk(text, at);
    if ((total += bytes) > wholeMax - 100) return kind === "json" ? stringify("… " + count(text.length) + " characters of JSON") : short(text, at);
    at = end;
  }
  return text;
};
const pump = () => {
  for (let it; (it = sending[0]) && live && !(tried(buffered, socket) > 1e6);) {
    const { end } = chunk(it.text, it.at);
    const part = sub(it.text, it.at, end);
    it.at = end;
    if (end < it.text.length) put("part", { job: it.job, text: part });
    else {
      flush(true);
      put("result", it.kind ? { job: it.job, ok: true, kind: it.kind, value: part } : { job: it.job, ok: false, error: part });
      call(splice, sending, 0, 1);
    }
  }
};
const deliver = (job, kind, text) => { sending[sending.length] = { __proto__: null, job, kind, text, at: 0 }, pump(); };

const receive = ({ type, id: given, job, code, test, timeout_ms, outline }) => {
  if (type === "ping") put("pong");
  if (type === "welcome") {
    id = given, left = "", wait = 100, live = true;
    save(""), flush();
  }
  // The service refuses parts above its limit, and those of a job that has timed out.
  if (type === "error" && sending[0]?.at) sending[0].at = sending[0].text.length;
  pump(), timer || flush();
  if (type !== "job") return;
  if (outline) return look(job, setProto(outline, null));
  put("started", { job });
  equip(test || has(code, "zino"), () => run(code, job, (ok, it) => {
    const { kind, value } = ok ? show(it) : { kind: "", value: failure(it) };
    deliver(job, kind, bounded(kind, value));
  }, test, timeout_ms));
};

const open = () => {
  socket = new WebSocket(zino.socket, ["zino", token]);
  listen(socket, "open", hello);
  listen(socket, "message", e => receive(setProto(parse(call(data, e)), null)));
  listen(socket, "close", () => { live = false, sending = bare(), again(); });
};

// again reconnects with the token of the current script. A service worker of the page may
// keep an old copy: the next request has another query. It may also answer with something
// else: then the old token stays, and the log of the service says why it is refused.
let query = "";
const again = () => setTimeout(async () => {
  try {
    const script = await fetch(zino.script + query, { __proto__: null, cache: "no-store" });
    const text = await call(textOf, script), at = call(lastIndexOf, text, '"token":"') + 9;
    const next = at > 8 ? sub(text, at, call(indexOf, text, '"', at)) : token;
    query = next === token ? "?" + now() : "", token = next;
    open();
  } catch { again(); }
}, wait = wait < 5e3 ? wait * 2 : wait);

listen(G, "pagehide", () => { save(" left"), tried(close, socket); });
// Wait for the title: the script may be the first element of the page.
const start = () => socket || tried(open);
if (tried(() => doc.readyState) === "loading") listen(doc, "DOMContentLoaded", start), setTimeout(start, 2e3); else start();
