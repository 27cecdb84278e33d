// native reports whether f is a built-in function, so that calling it runs no code of
// the page.
const native = f => typeof f === "function" && has(call(source, f), "[native code]");

// read reads a property without calling getters of the page.
const read = (o, key) => {
  for (let p = o; p; p = proto(p)) {
    const d = slot(p, key);
    if (d) return hasOwn(d, "value") ? d.value : native(d.get) ? call(d.get, o) : undefined;
  }
};
const isError = v => typeof read(v, "stack") === "string" && typeof read(v, "message") === "string";

// These getters and methods throw for objects of other classes.
const nodeType = brand(G.Node, "nodeType"), windowOf = doc && getter(G, "window");
const mapSize = brand(Map, "size"), setSize = brand(Set, "size"), { forEach: mapEach } = Map.prototype, { forEach: setEach } = Set.prototype;
const bytes = brand(Uint8Array, Symbol.toStringTag), length = brand(Uint8Array, "length");
const { getTime, toISOString, toTimeString } = Date.prototype, { toString: nameOf } = Symbol.prototype;
const pattern = brand(RegExp, "source"), flags = brand(RegExp, "flags");

const node = (v, inner) => {
  const html = read(v, "outerHTML");
  if (html) return inner ? sub(html, 0, call(indexOf, html, ">") + 1) : html;
  return read(v, "nodeName") + " " + (read(v, "URL") ?? stringify(read(v, "nodeValue")));
};

// failure returns the text of an exception, without the frames of this script.
const failure = (e, depth = 0) => tried(() => {
  if (!tried(isError, 0, e)) return "Uncaught " + show(e).value;
  let stack = read(e, "stack");
  const message = read(e, "message"), cause = read(e, "cause"), ours = call(indexOf, stack, zino.script);
  if (ours > 0) stack = sub(stack, 0, call(lastIndexOf, stack, "\n", ours));
  if (!has(stack, message)) stack = read(e, "name") + ": " + message + "\n" + stack;
  return stack + (cause && depth < 4 ? "\nCaused by: " + failure(cause, depth + 1) : "");
}) ?? "[cannot be shown]";

// show serialises a value as JSON if that is exact, otherwise as similar text; kind
// says which. It never throws, and reads a property at most once.
const show = (value, depth = 5, count = 300, size = 1 << 14) => {
  let kind = "json";
  const path = bare();
  const cut = s => {
    const room = size;
    if ((size -= s.length) < 0) kind = "text", s = short(s, room), size = 0;
    return s;
  };
  const odd = s => { kind = "text"; return cut(s); };
  const guard = f => { try { return f(); } catch (e) { return odd("[throws " + failure(e) + "]"); } };
  // list joins the parts that the callback adds, on one line if they are short.
  const list = (open, close, pad, each) => {
    const parts = bare();
    let all = 0, full;
    each(write => {
      if (full) return;
      full = size < 1 || --count < 0;
      const s = parts[parts.length] = full ? (kind = "text", "…") : write();
      all += has(s, "\n") ? 100 : s.length;
      return !full;
    });
    const line = all < 100 ? "" : "\n" + pad;
    return open + line + call(join, parts, "," + line) + (line && sub(line, 0, -2)) + close;
  };
  const property = (o, d, pad) => {
    if (!hasOwn(d, "value") && !native(d.get)) return odd("[Getter]");
    return guard(() => walk(d.get ? call(d.get, o) : d.value, pad));
  };
  const items = (open, v, n, pad) => list(open + "[", "]", pad, add => {
    const item = d => add(() => d ? property(v, d, pad) : odd("<empty>"));
    for (let i = 0; i < n && item(slot(v, i));) i++;
  });
  const record = (v, pad) => {
    const name = tried(() => slot(slot(proto(v), "constructor").value, "name").value);
    const seen = { __proto__: null };
    return list((typeof name !== "string" || name === "Object" ? "" : odd(name + " ")) + "{", "}", pad, add => {
      // Objects of the browser keep their properties in getters of their prototypes.
      for (let o = v; o && (o === v || proto(o)); o = proto(o)) {
        const keys = ownKeys(o);
        for (let i = 0; i < keys.length; i++) {
          const d = slot(o, keys[i]);
          if (d?.enumerable && (o === v || native(d.get)) && !seen[keys[i]]) seen[keys[i]] = add(() => walk(keys[i]) + ":" + property(v, d, pad));
        }
      }
    });
  };
  const object = (v, top) => {
    const pad = top + "  ", of = (kind, n) => odd(kind + "(" + n + ") ");
    let n;
    if (v === G || (windowOf && tried(windowOf, v) === v)) return odd("[Window]");
    if (nodeType && tried(nodeType, v)) return odd(node(v, top));
    if ((n = tried(getTime, v)) != null) return odd(isFinite(n) ? call(toISOString, v) : "Invalid Date");
    if ((n = call(bytes, v))) return items(of(n, call(length, v)), v, call(length, v), pad);
    if ((n = tried(setSize, v)) >= 0) return list(of("Set", n) + "{", "}", pad, add => call(setEach, v, x => add(() => walk(x, pad))));
    if ((n = tried(mapSize, v)) >= 0) return list(of("Map", n) + "{", "}", pad, add => call(mapEach, v, (x, k) => add(() => walk(k, pad) + " => " + walk(x, pad))));
    if (isArray(v)) return items("", v, read(v, "length"), pad);
    if (isError(v)) return odd(failure(v));
    if (hasOwn(v, "lastIndex") && (n = tried(pattern, v))) return odd("/" + n + "/" + tried(flags, v));
    return record(v, pad);
  };
  const walk = (v, pad) => {
    const type = typeof v;
    if (v === null || type === "boolean" || (isFinite(v) && !is(v, -0))) return cut("" + v);
    if (type === "string") return stringify(cut(v));
    if (type === "symbol") return odd(call(nameOf, v));
    if (type === "function") return odd(pad ? "[Function " + slot(v, "name")?.value + "]" : call(source, v));
    if (type !== "object") return odd(type === "bigint" ? v + "n" : is(v, -0) ? "-0" : "" + v);
    if (call(within, path, v)) return odd("[Circular]");
    if (path.length > depth) return odd("…");
    path[path.length] = v;
    const s = guard(() => object(v, pad));
    path.length--;
    return s;
  };
  if (typeof value === "string") return { value: odd(value), kind };
  value = tried(walk, 0, value, "") ?? odd("[cannot be shown]");
  return { kind, value };
};
