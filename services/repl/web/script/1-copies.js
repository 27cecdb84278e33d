// The page may replace any built-in at any time, so the script uses copies. For the
// same reason it avoids iterators (no spread, no for-of), and lists and packets have
// no prototype, which could have a setter or a toJSON.
const G = globalThis, mark = Symbol.for("zino");
if (G[mark]) return;
G[mark] = true;
const { apply, defineProperty: define, getOwnPropertyDescriptor: slot, getPrototypeOf: proto, ownKeys } = Reflect;
const { parse, stringify } = JSON, { hasOwn, is, setPrototypeOf: setProto, prototype: { isPrototypeOf } } = Object, { isFinite } = Number, { Error: Fault, Proxy, setTimeout, Date, Uint8Array: Bytes, console, document: doc, performance: clock } = G;
const { isArray, prototype: { includes: within, join, splice } } = Array, { prototype: promise } = Promise, { toString: source } = Function.prototype;
const { includes, indexOf, lastIndexOf, padStart, slice, split, startsWith, toUpperCase, trim } = String.prototype;
const call = (f, self, ...args) => apply(f, self, args);
const tried = (f, self, ...args) => { try { return apply(f, self, args); } catch {} };
const bare = () => setProto([], null);
const has = (s, part) => call(includes, s, part);
const sub = (s, from, to) => call(slice, s, from, to);
const starts = (s, part) => call(startsWith, s, part);
const count = n => {
  let s = "" + n, out = "";
  for (; s.length > 3; s = sub(s, 0, -3)) out = "," + sub(s, -3) + out;
  return s + out;
};
const short = (s, n) => s.length > n ? sub(s, 0, n) + "… (" + (s.length - n) + " more characters)" : s;
const getter = (o, key) => { for (; o; o = proto(o)) { const d = slot(o, key); if (d) return d.get; } };
const brand = (kind, key) => getter(kind?.prototype, key);
const method = (kind, key) => slot(kind?.prototype ?? {}, key)?.value;
const { now: elapsed } = clock, now = () => call(elapsed, clock);
const { addEventListener: on } = G.EventTarget.prototype, listen = (target, type, f, capture = false) => call(on, target, type, f, capture);
