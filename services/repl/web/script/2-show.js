// Values are shown as JSON that a parser reads. What JSON does not have:
//
//   undefined, NaN, -0, Infinity, 10n, Symbol(x)   strings: "undefined", "10n"
//   function, class                                "[Function: name]", "[Function]"
//   getter, setter of the page (never called)      "[Getter]", "[Setter]"
//   a value that contains itself                   "[Circular]"
//   a trap of a Proxy that throws                  "[throws Error: message]"
//   Date, RegExp, URL                              "2026-01-01T00:00:00.000Z", "/a/g", "http://x/"
//   window, element, other node                    "[Window]", "<p id=\"p\">…", "#text \"a\""
//   Map, FormData, Headers, URLSearchParams        {"[Map]":[["key","value"]]}
//   Set, typed array, ArrayBuffer, DataView        {"[Set]":[1,2]}, {"[Uint8Array]":[1,2]}
//   NodeList and other lists of the browser        {"[NodeList]":["<p>"]}
//   style of an element                            {"[CSSStyleDeclaration]":"color: red;"}
//   new String("a"), Object(1n)                    {"[String]":"a"}, {"[BigInt]":"1n"}
//   Error                                          {"[TypeError]":"message","stack":[…],"cause":…,"errors":[…]}
//   instance of another class                      {"[class]":"Point","x":1}
//   empty slots of an array                        "[empty]", "[3 empty]"
//   what a limit leaves out                        "… 79,980 more items", in an object with the key "…"
//
// A value that is not an object is shown as text where JSON does not have it: a
// string as it is, and a function as its source.

// unhooked calls f while the page's hook for stacks, which would be called, is removed.
const unhooked = f => {
  const hook = slot(Fault, "prepareStackTrace");
  if (hook && setProto(hook, null) && !define(Fault, "prepareStackTrace", { __proto__: null, value: undefined, configurable: true, writable: true })) return;
  try { return f(); } finally { if (hook) define(Fault, "prepareStackTrace", hook); }
};

// native reports whether f is a built-in getter, so that calling it runs no code of
// the page. The text of a built-in function is not valid JavaScript, so no function of
// the page has it; the one of a bound function or a proxy has no name.
const native = f => {
  const text = typeof f === "function" ? call(source, f) : "";
  return starts(text, "function get ") && has(text, "[native code]");
};

// read reads a property without calling getters of the page.
const read = (o, key) => {
  for (let p = o; p; p = proto(p)) {
    const d = slot(p, key);
    if (d) return hasOwn(d, "value") ? d.value : native(d.get) ? call(d.get, o) : undefined;
  }
};
// In V8 the getter of a stack is the same for all errors, and gives the own stack of
// the object, whatever the page has defined there.
const stackGetter = slot(new Fault, "stack")?.get;
const stackOf = v => {
  const stack = stackGetter && v ? unhooked(() => tried(stackGetter, v)) : undefined;
  return typeof stack === "string" ? stack : read(v, "stack");
};
const isError = v => typeof read(v, "message") === "string" && (typeof stackOf(v) === "string" || hasOwn(v, "stack"));
const nameOf = f => { const name = typeof f === "function" && slot(f, "name")?.value; return typeof name === "string" ? name : ""; };

// frames returns the stack of an error without the frames of this script. A hook of the
// page may have replaced the stack by something else.
const frames = v => {
  const stack = stackOf(v), lines = call(split, typeof stack === "string" ? stack : "", "\n");
  let out = lines[0];
  for (let i = 1; i < lines.length; i++) out += cellFrame(lines[i], lines[i + 1]);
  return out;
};

// failure returns the text of an exception.
const failure = (e, limits, depth = 0) => tried(() => {
  if (e === undefined) return "undefined";
  if (!tried(isError, 0, e)) return "Uncaught " + plain(e, limits);
  let stack = frames(e);
  const message = read(e, "message"), cause = read(e, "cause"), errors = read(e, "errors");
  if (!stack || !has(stack, message)) stack = (read(e, "name") ?? "Error") + ": " + message + (stack && "\n" + stack);
  if (depth > 3) return stack;
  if (cause !== undefined) stack += "\nCaused by: " + failure(cause, limits, depth + 1);
  const n = isArray(errors) ? read(errors, "length") : 0;
  for (let i = 0; i < n && i < 10; i++) stack += "\nerrors[" + i + "]: " + failure(read(errors, i), limits, depth + 1);
  return n > 10 ? stack + "\n… " + count(n - 10) + " more errors" : stack;
}) ?? "[cannot be shown]";

const nodeType = brand(G.Node, "nodeType"), nodeName = brand(G.Node, "nodeName"), nodeValue = brand(G.Node, "nodeValue"), address = brand(G.Document, "URL");
const outerHTML = brand(G.Element, "outerHTML"), attributes = method(G.Element, "getAttributeNames"), attribute = method(G.Element, "getAttribute"), localName = brand(G.Element, "localName");
const node = (v, inner) => {
  const type = call(nodeType, v);
  if (type === 9) return "#document " + call(address, v);
  if (type !== 1) return call(nodeName, v) + " " + stringify(call(nodeValue, v));
  if (!inner) return call(outerHTML, v);
  let tag = "<" + call(localName, v);
  for (let i = 0, names = call(attributes, v); i < names.length && i < 50; i++) tag += " " + names[i] + "=" + stringify(short(call(attribute, v, names[i]), 200));
  return tag + ">";
};

// kinds maps the names of classes to functions that return the text of an instance, an
// object with its content, or n values: { tag, n, next }. They throw, or return
// undefined, for an object that only has that prototype.
const kinds = { __proto__: null };
const sequence = (tag, n, next) => ({ __proto__: null, tag, n, next });
const boxed = name => {
  const { valueOf } = G[name].prototype;
  kinds[name] = v => ({ __proto__: null, ["[" + name + "]"]: call(valueOf, v) });
};
boxed("String"), boxed("Number"), boxed("Boolean"), boxed("BigInt"), boxed("Symbol");
// Iterators of the browser are built-in, and their results are new objects.
const iterated = (name, items, size) => tried(() => {
  const { prototype } = G[name], iterate = prototype[items], length = size && brand(G[name], size), { next } = proto(call(iterate, new G[name]));
  kinds[name] = v => {
    const each = () => { const it = call(iterate, v); return () => call(next, it); };
    let n = 0, step = each();
    if (length) n = call(length, v);
    else while (!step().done) n++;
    step = each();
    return sequence(name, n, () => step().value);
  };
});
iterated("Map", "entries", "size"), iterated("Set", "values", "size"), iterated("URLSearchParams", "entries"), iterated("Headers", "entries"), iterated("FormData", "entries");
const listed = name => {
  const length = brand(G[name], "length");
  if (length) kinds[name] = v => { let i = 0; return sequence(name, call(length, v), () => slot(v, "" + i++)?.value); };
};
listed("NodeList"), listed("HTMLCollection"), listed("HTMLAllCollection"), listed("DOMTokenList"), listed("FileList"), listed("NamedNodeMap"), listed("StyleSheetList"), listed("CSSRuleList");
const style = brand(G.CSSStyleDeclaration, "cssText");
kinds.CSSStyleDeclaration = v => ({ __proto__: null, "[CSSStyleDeclaration]": call(style, v) });
const bytes = brand(Bytes, Symbol.toStringTag), length = brand(Bytes, "length"), typed = (tag, v) => { let i = 0; return sequence(tag, call(length, v), () => v[i++]); };
kinds.TypedArray = v => typed(call(bytes, v), v);
const { isView } = ArrayBuffer, bufferOf = brand(DataView, "buffer"), offset = brand(DataView, "byteOffset"), extent = brand(DataView, "byteLength");
kinds.ArrayBuffer = kinds.SharedArrayBuffer = v => isView(v) ? undefined : typed(nameOf(slot(proto(v), "constructor").value), new Bytes(v));
kinds.DataView = v => typed("DataView", new Bytes(call(bufferOf, v), call(offset, v), call(extent, v)));
const { getTime, toISOString, toTimeString, getMilliseconds } = Date.prototype, { toString: symbolName } = Symbol.prototype;
kinds.Date = v => isFinite(call(getTime, v)) ? call(toISOString, v) : "Invalid Date";
const pattern = brand(RegExp, "source"), flags = brand(RegExp, "flags"), href = brand(G.URL, "href"), windowOf = doc && getter(G, "window");
kinds.RegExp = v => hasOwn(v, "lastIndex") ? "/" + call(pattern, v) + "/" + call(flags, v) : undefined;
kinds.URL = v => call(href, v);
kinds.Node = node;
kinds.Window = v => call(windowOf, v) === v ? "[Window]" : undefined;
kinds.Error = v => {
  if (!isError(v)) return;
  const out = { __proto__: null, ["[" + (read(v, "name") || "Error") + "]"]: read(v, "message") }, stack = frames(v), at = call(indexOf, stack, "\n    at ");
  out.stack = call(split, at < 0 ? stack : sub(stack, at + 5), at < 0 ? "\n" : "\n    ");
  for (let i = 0, keys = ownKeys(v); i < keys.length; i++) {
    const key = keys[i], d = slot(v, key);
    if (d && key !== "stack" && key !== "message" && (d.enumerable || key === "cause" || key === "errors")) out[key] = hasOwn(d, "value") ? d.value : "[Getter]";
  }
  return out;
};

// Limits: levels of objects (an instance of a class counts as a quarter of them), items,
// bytes, and milliseconds, which end a value after its first hundred items.
const whole = { depth: 48, items: 1 / 0, size: (64 << 20) - (1 << 16), time: 5e3 }, logged = { depth: 8, items: 2e3, size: 1 << 15, time: 0.3, inner: true };

// show serialises a value; kind is "json" or "text". It never throws, calls no code of
// the page but traps of a Proxy, and reads a property at most once.
const show = (value, { depth, items, size, time, inner } = whole) => {
  const path = bare(), until = now() + time;
  let steps = 0, skipped = 0;
  const raw = s => { size -= s.length; return s; };
  const text = s => {
    let json = stringify(short(s, size > 0 ? size : 0));
    if (json.length > size + 99) json = stringify(short(s, size > 6 ? size / 6 | 0 : 0));
    return raw(json);
  };
  const more = n => stringify("… " + count(n) + (n === 1 ? " more item" : " more items"));
  const spent = () => {
    if (!(++steps & 15) && steps > 99 && now() > until) size = 0;
    return size < 1 || steps > items;
  };
  // list joins a first part, which may be empty, and n parts: on one line if they are
  // short, else one a line, where short items of an array share lines. The callback
  // returns undefined for a part that does not exist.
  const list = (open, close, n, pad, part, rest = more, first = "") => {
    let one = first, lines = first && "\n" + pad + first, used = first.length, column = 100;
    size -= pad.length + 3;
    for (let i = 0; i < n; i++) {
      const end = spent(), s = end ? rest(n - i) : part(i);
      if (s === undefined) continue;
      const comma = used ? "," : "";
      column = s.length > 20 || rest !== more ? 100 : column + s.length + 1;
      const line = comma + (column < 100 ? "" : "\n" + pad);
      if (column > 99 && s.length <= 20) column = s.length;
      used += s.length + 1, size -= line.length;
      if (used < 100) one += comma + s;
      lines += line + s;
      if (end) break;
      i += skipped, skipped = 0;
    }
    return open + (used < 100 ? one : lines + "\n" + sub(pad, 2)) + close;
  };
  const property = (o, d, pad, deep) => {
    if (hasOwn(d, "value")) return walk(d.value, pad, deep);
    if (!d.get) return text("[Setter]");
    if (!native(d.get)) return text("[Getter]");
    try { return walk(call(d.get, o), pad, deep); } catch (e) { return thrown(e); }
  };
  const thrown = e => text("[throws " + call(split, failure(e, logged), "\n")[0] + "]");
  const array = (v, pad, deep) => {
    const n = read(v, "length");
    let keys, k = 0;
    return list("[", "]", n, pad, i => {
      const d = slot(v, "" + i);
      if (d) return property(v, d, pad, deep);
      // One item for all empty slots up to the next index, which ownKeys has in order.
      keys ??= ownKeys(v);
      while (k < keys.length && typeof keys[k] === "string" && +keys[k] < i) k++;
      const next = k < keys.length && typeof keys[k] === "string" && +keys[k] < n ? +keys[k] : n;
      skipped = next - i - 1;
      return text(skipped > 0 ? "[" + count(skipped + 1) + " empty]" : "[empty]");
    });
  };
  const record = (v, pad, deep, name) => {
    const keys = bare(), seen = { __proto__: null }, own = ownKeys(v);
    if (name) {
      // Objects of the browser keep their properties in getters of their prototypes.
      for (let o = proto(v); o && proto(o); o = proto(o)) {
        const more = ownKeys(o);
        for (let i = 0; i < more.length; i++) if (!seen[more[i]] && !hasOwn(v, more[i]) && native(slot(o, more[i])?.get) && slot(o, more[i]).enumerable) seen[more[i]] = keys[keys.length] = { __proto__: null, key: more[i], d: slot(o, more[i]) };
      }
    }
    const n = own.length;
    return list("{", "}", n + keys.length, pad, i => {
      const key = i < n ? own[i] : keys[i - n].key, d = i < n ? slot(v, key) : keys[i - n].d;
      if (d?.enumerable) return text(typeof key === "symbol" ? call(symbolName, key) : key) + ":" + property(v, d, pad, deep);
    }, left => '"…":' + more(left), name && '"[class]":' + text(name));
  };
  const object = (v, top, deep) => {
    const pad = top + "  ", cut = n => deep > depth && n;
    if (isArray(v)) return cut(read(v, "length")) ? more(read(v, "length")) : array(v, pad, deep + 1);
    const p = proto(v);
    if (v === G || (!p && windowOf && slot(v, "window")?.get && tried(windowOf, v))) return text("[Window]");
    let name = "";
    if (p && proto(p)) {
      for (let o = p; o; o = proto(o)) {
        const kind = nameOf(slot(o, "constructor")?.value), view = kinds[kind] && tried(kinds[kind], 0, v, inner || path.length > 1);
        name ||= kind === "Object" ? "" : kind;
        if (view === undefined) continue;
        if (typeof view === "string") return text(view);
        if (!view.next) return record(view, pad, deep + 1);
        if (cut(view.n)) return more(view.n);
        return list("{" + text("[" + view.tag + "]") + ":[", "]}", view.n, pad, () => walk(view.next(), pad, deep + 1));
      }
    }
    const n = cut(1) && ownKeys(v).length;
    return n ? more(n) : record(v, pad, deep + (name ? depth / 4 : 1), name);
  };
  const leaf = v => {
    const type = typeof v;
    if (type === "symbol") return call(symbolName, v);
    if (type === "function") return nameOf(v) ? "[Function: " + nameOf(v) + "]" : "[Function]";
    return type === "bigint" ? v + "n" : is(v, -0) ? "-0" : "" + v;
  };
  const walk = (v, pad, deep) => {
    const type = typeof v;
    if (type === "string") return text(v);
    if (v === null || type === "boolean" || (isFinite(v) && !is(v, -0))) return raw("" + v);
    // document.all is an object whose type is undefined.
    if (type !== "object" && (type !== "undefined" || v === undefined)) return text(leaf(v));
    if (call(within, path, v)) return text("[Circular]");
    const n = path.length;
    path[n] = v;
    try { return object(v, pad, deep); } catch (e) { return thrown(e); } finally { path.length = n; }
  };
  const type = typeof value;
  if (type === "string" || (type === "number" && leaf(value) !== stringify(value)) || (type !== "object" && type !== "number" && type !== "boolean" && (type !== "undefined" || value === undefined)))
    return { kind: "text", value: short(type === "string" ? value : type === "function" ? call(source, value) : leaf(value), size) };
  return { kind: "json", value: tried(walk, 0, value, "", 0) ?? '"[cannot be shown]"' };
};

// plain shows a value inside of a text: a string without its quotes.
const plain = (v, limits = whole) => {
  const { value } = show(v, limits);
  return typeof v === "object" && value[0] === '"' ? parse(value) : value;
};
