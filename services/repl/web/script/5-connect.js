const { WebSocket, fetch, location: place } = G, { send, close } = WebSocket.prototype, buffered = brand(WebSocket, "bufferedAmount"), data = brand(G.MessageEvent, "data");
let live, socket, id, name, left, key = "zino", wait = 100, storage, { token } = zino;
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
  const old = storage.getItem(key).split(" ");
  id = old[0], left = old[2] && old[1];
});
const save = how => id && tried(() => storage.setItem(key, id + " " + nonce + how));

const put = (type, packet) => tried(send, socket, stringify({ __proto__: null, type, id, nonce, ...packet }));
const kind = doc ? (G.parent === G ? "page" : "frame") : G.SharedWorkerGlobalScope ? "shared worker" : "worker";
const hello = () => {
  name ||= doc?.title || G.name || sub(place.pathname, 1) || kind;
  put("hello", { name, url: place.href, kind, left });
};

const flush = () => {
  timer = 0;
  if (!live || !queue[0] || tried(buffered, socket) > 1e6) return;
  const n = lost;
  lost = 0;
  if (n) keep("console", "warn", n + " earlier events not kept");
  put("events", { events: queue });
  queue = bare();
};

const receive = ({ type, id: given, job, code }) => {
  if (type === "welcome") {
    id = given, left = "", wait = 100, live = true;
    save(""), flush();
  }
  if (type !== "job") return;
  put("started", { job });
  run(code, job, (ok, it) => {
    const out = ok ? show(it, 12, 2e4, 1 << 20) : { error: short(failure(it), 1 << 20) };
    flush();
    put("result", { job, ok, ...out });
  });
};

const open = () => {
  socket = new WebSocket(zino.socket, ["zino", token]);
  listen(socket, "open", hello);
  listen(socket, "message", e => receive(parse(call(data, e))));
  listen(socket, "close", () => { live = false, again(); });
};

// again reconnects with the token of the current script.
const again = () => setTimeout(async () => {
  try {
    const script = await fetch(zino.script, { cache: "no-store" });
    token = /"token":"(\w+)"/.exec(await script.text())[1];
    open();
  } catch { again(); }
}, wait = wait < 5e3 ? wait * 2 : wait);

listen(G, "pagehide", () => { save(" left"), tried(close, socket); });
// Wait for the title: the script may be the first element of the page.
const begin = () => socket || tried(open);
if (doc?.readyState === "loading") listen(doc, "DOMContentLoaded", begin), setTimeout(begin, 2e3); else begin();
