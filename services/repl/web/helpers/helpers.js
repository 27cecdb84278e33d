// The helpers of cells, zino.outline, find, click, fill, wait and expect, and the report of
// a block of tests. The page script loads this module with the first job that needs it, and
// passes the copies that it made before scripts of the page ran.
export default ({
  G, doc, gets, sets, onPacket, Promise, Error, Math: { round, max, min }, MutationObserver, PointerEvent, MouseEvent, InputEvent, Event, getComputedStyle, escape, now, matches, toLowerCase, setTimeout,
  apply, call, bare, has, sub, slot, proto, ownKeys, is, isArray, isError, read, show, failure, stringify, indexOf, join, trim, split, within,
}) => {
  const words = (s, by = " ") => call(split, s, by), add = (list, v) => { list[list.length] = v; };
  const each = (list, f) => { for (let i = 0; i < list?.length; i++) f(list[i], i); };
  const map = (list, f) => { const out = bare(); each(list, (v, i) => add(out, f(v, i))); return out; };
  const only = (list, f) => { const out = bare(); each(list, v => { if (f(v)) add(out, v); }); return out; };
  const lines = (list, by = "\n") => call(join, list, by);
  const brief = v => show(v, { depth: 4, items: 50, size: 400, time: 20 }).value;

  // ask reads a property or calls a method of the DOM, and assign sets one. They try the
  // originals of all classes that have the name: these throw for objects of other classes.
  const first = (list, o, args) => { for (let i = 0; i < list?.length; i++) try { return apply(list[i], o, args); } catch {} };
  const ask = (o, key, ...args) => first(gets[key], o, args), assign = (o, key, v) => first(sets[key], o, [v]);
  const attr = (el, name) => ask(el, "getAttribute", name) ?? "", tag = el => ask(el, "localName"), fits = (el, selector) => ask(el, "matches", selector);
  const all = (root, selector) => ask(root, "querySelectorAll", selector), rootOf = el => ask(el, "getRootNode"), parentOf = el => ask(el, "parentElement"), docOf = el => ask(el, "ownerDocument");

  // clean returns s on one line, cut to n characters.
  const clean = (s, n = 80) => {
    let out = "", gap = "";
    for (let i = 0; i < s?.length && out.length <= n; i++) call(trim, s[i]) ? (out += gap + s[i], gap = "") : gap = out && " ";
    return out.length > n ? sub(out, 0, n - 1) + "…" : out;
  };
  const fail = text => { throw Error(text); };

  // The tree is the displayed one, with shadow roots, slots and frames of this origin.
  const kids = el => {
    if (tag(el) === "iframe") return [ask(ask(el, "contentDocument"), "body")];
    const slotted = tag(el) === "slot" && ask(el, "assignedNodes");
    return slotted?.length ? slotted : ask(ask(el, "shadowRoot") ?? el, "childNodes");
  };
  const viewOf = el => read(ask(el, "nodeType") === 9 ? el : docOf(el), "defaultView"), frameOf = el => { const w = viewOf(el); return w && read(w, "frameElement"); };
  const hidden = el => attr(el, "aria-hidden") === "true" || !ask(el, "checkVisibility") && read(getComputedStyle(el), "display") !== "contents";
  const visible = el => ask(el, "checkVisibility", { visibilityProperty: true });
  const field = "input,select,textarea,[contenteditable]", roles = { __proto__: null };
  each(words("button img main form table dialog option label summary:button textarea:textbox select:combobox nav:navigation header:banner footer:contentinfo tr:row td:cell th:cell ul:list ol:list li:listitem fieldset:group details:group iframe:frame svg:img input:textbox checkbox radio range:slider number:spinbutton submit:button reset:button image:button file"), s => { const parts = words(s, ":"); roles[parts[0]] = parts[parts.length - 1]; });
  const roleOf = el => {
    const name = tag(el);
    return clean(attr(el, "role"), 30) || (fits(el, "h1,h2,h3,h4,h5,h6") ? "heading " + name[1] : fits(el, "a[href]") ? "link"
      : (name === "input" && roles[ask(el, "type")]) || roles[name] || (fits(el, "[contenteditable]") ? "textbox" : fits(el, "[tabindex],[onclick]") ? "clickable" : attr(el, "aria-label") && "group"));
  };
  // textOf returns the text that a node displays, without that of fields.
  const textOf = n => {
    const data = ask(n, "data");
    let out = attr(n, "alt");
    if (data == null && tag(n) && !hidden(n) && !fits(n, field)) each(kids(n), k => { if (out.length < 400) out += " " + textOf(k); });
    return clean(data ?? out, 400);
  };
  const texts = list => lines(map(list, textOf), " ");
  const nameOf = el => {
    const by = lines(map(only(words(attr(el, "aria-labelledby")), id => id), id => "#" + escape(id)), ",");
    return clean((by && texts(all(rootOf(el), by))) || attr(el, "aria-label") || texts(ask(el, "labels")) || texts(only(kids(el), k => fits(k, "legend,caption,title,figcaption"))) || attr(el, "alt")
      || (fits(el, "[type=submit],[type=button],[type=reset]") && ask(el, "value")) || attr(el, "placeholder") || attr(el, "title") || (fits(el, field) ? attr(el, "name") : ""), 400);
  };
  const stateOf = el => {
    const type = ask(el, "type"), value = type === "select-one" || type === "select-multiple" ? lines(map(only(all(el, "option"), o => ask(o, "selected")), o => ask(o, "text")), ", ")
      : fits(el, "[contenteditable]") ? ask(el, "textContent") : fits(el, "button,li,option,[type=checkbox],[type=radio],[type=submit],[type=button],[type=reset]") ? "" : ask(el, "value") ?? attr(el, "value");
    let out = value ? " = " + stringify(type === "password" ? "•••" : clean(value, 60)) : "";
    each(words("disabled checked required focus modal"), s => { if (fits(el, ":" + s)) out += " " + s; });
    each(words("readonly open"), s => { if (fits(el, "[" + s + "]")) out += " " + s; });
    each(words("checked selected expanded pressed disabled invalid current"), s => {
      const v = attr(el, "aria-" + s);
      if (v && (v !== "false" || s === "expanded")) out += " " + s + (v === "true" ? "" : "=" + clean(v, 20));
    });
    return out;
  };

  // pathOf returns a short selector that only el matches.
  const pathOf = el => {
    const root = rootOf(el), host = ask(root, "host") ?? frameOf(root), one = s => all(root, s)?.length === 1 && s;
    const marked = (e, key, start = "") => attr(e, key) && one(start + "[" + key + "=" + stringify(attr(e, key)) + "]");
    const own = e => one("#" + escape(attr(e, "id"))) || marked(e, "data-testid") || marked(e, "name", tag(e)) || one(tag(e)) || one(tag(e) + "." + escape(words(attr(e, "class"))[0]));
    const step = e => {
      let n = 1;
      for (let s = e; (s = ask(s, "previousElementSibling"));) n += tag(s) === tag(e);
      return tag(e) + (n > 1 || all(parentOf(e) ?? root, ":scope > " + tag(e)).length > 1 ? ":nth-of-type(" + n + ")" : "");
    };
    const chain = bare();
    let e = el, path;
    for (; e && !(path = own(e)); e = parentOf(e)) add(chain, e);
    path ||= ":host";
    for (let i = chain.length; i--;) {
      const near = one(path + " " + step(el));
      if (near) { path = near; break; }
      path += " > " + step(chain[i]);
    }
    return (host ? pathOf(host) + " >>> " : "") + path;
  };
  const boxOf = el => {
    let { x, y, width, height } = ask(el, "getBoundingClientRect");
    for (let e = el, r; (e = frameOf(e)); x += r.x, y += r.y) r = ask(e, "getBoundingClientRect");
    return " [" + round(x) + "," + round(y) + " " + round(width) + "x" + round(height) + "] ";
  };
  const titled = (role, name) => role + (name && " " + stringify(clean(name))), lineOf = el => titled(roleOf(el) || tag(el), nameOf(el) || textOf(el)) + " " + pathOf(el);

  // build adds what is displayed at a node to a list. Elements without a role give their
  // place to what is in them.
  let left;
  const build = (n, out = bare()) => {
    const data = ask(n, "nodeType") === 3 && clean(ask(n, "data"), 400);
    if (data && visible(parentOf(n))) add(out, { el: parentOf(n), role: "text", name: data, kids: bare() });
    if (!tag(n) || hidden(n) || left-- < 0) return out;
    const seen = visible(n), drop = fits(n, "legend,caption") || (tag(n) === "label" && visible(ask(n, "control")));
    let inner = bare(), role = seen && !drop && roleOf(n), name = role && nameOf(n);
    if (!fits(n, field)) each(kids(n), k => build(k, inner));
    if (seen && !role && !drop && only(kids(n), k => clean(ask(k, "data")) && ask(k, "nodeType") === 3)[0]) role = "text";
    const leaf = role && has(" text button link option tab menuitem clickable row cell label treeitem heading ", " " + words(role)[0] + " ");
    if (leaf) name ||= textOf(n);
    if (leaf || drop) inner = only(inner, e => e.role !== "text" && e.role !== "img");
    if (role === "row") {
      if (!only(inner, e => !fits(e.el, "th"))[0]) role = "header";
      name = lines(map(inner, e => clean(e.name, 40)), " | ");
      const cells = inner;
      inner = bare();
      each(cells, e => each(e.kids, k => add(inner, k)));
    }
    if (!role || (role === "listitem" && !name && inner.length === 1)) each(inner, e => add(out, e));
    else add(out, { el: n, role, name, kids: inner });
    return out;
  };
  const flat = (list, out = bare()) => { each(list, e => { add(out, e), flat(e.kids, out); }); return out; };
  const start = el => { left = 2e4; return build(el ?? ask(doc, "body")); };

  // rows returns the lines of a list down to a depth. Of many alike it has the first and
  // the last.
  const rows = (list, depth, pad = "", out = bare()) => {
    for (let i = 0, end; i < list.length; i = end) {
      const { role } = list[i], few = role === "row" ? 1 : 3;
      for (end = i; list[end]?.role === role;) end++;
      const cut = end - i > few * 3 && !has("textbox combobox checkbox radio", role);
      for (let j = i; j < end; j++) {
        if (cut && j === i + few) add(out, () => pad + "… " + (end - i - few - 1) + " more " + role + "s"), j = end - 1;
        const e = list[j], inside = e.kids.length, n = role === "table" && only(e.kids, k => k.role === "row").length;
        add(out, () => pad + titled(role, e.name) + stateOf(role === "label" && ask(e.el, "control") || e.el) + boxOf(e.el) + pathOf(e.el) + (n ? " " + n + " rows" : depth < 2 && inside ? " (" + inside + " inside)" : ""));
        if (depth > 1) rows(e.kids, depth - 1, pad + "  ", out);
      }
    }
    return out;
  };
  const outline = (what, depth) => {
    if (!doc) fail("a worker has no document");
    const list = start(what && pick(what));
    let levels = depth || 30, found;
    while ((found = rows(list, levels)).length > (depth ? 1e3 : 60) && levels > 1) levels--;
    return (what ? "" : "page " + stringify(ask(doc, "title") ?? "") + " " + G.location.pathname + " " + G.innerWidth + "x" + G.innerHeight + " scrolled " + round(G.scrollY) + " of " + read(ask(doc, "documentElement"), "scrollHeight") + "\n")
      + lines(map(found, f => f())) + (left < 0 ? "\n… more elements" : "");
  };

  // named returns the elements with a text, a label, placeholder, title or alt: the
  // innermost, exact matches before others, and controls before texts.
  const named = text => {
    const want = call(toLowerCase, clean(text, 400)), list = flat(start());
    const search = test => {
      const ok = s => test(call(toLowerCase, s)), hit = e => ok(e.name) || ok(attr(e.el, "title")) || ok(attr(e.el, "placeholder"));
      const inmost = el => { const k = only(kids(el), k => tag(k) && ok(textOf(k)))[0]; return k ? inmost(k) : el; };
      const found = only(list, e => hit(e) && !only(flat(e.kids), hit)[0]), acting = only(found, e => !has("text img heading", words(e.role)[0]));
      return map(acting[0] ? acting : found, e => e.role === "text" ? inmost(e.el) : e.el);
    };
    const exact = want ? search(s => s === want) : bare();
    return exact[0] || !want ? exact : search(s => has(s, want));
  };
  const find = text => named(text)[0] ?? null;

  // pick returns the element that a selector or a text names.
  const pick = (what, suits = () => true) => {
    if (ask(what, "nodeType") === 1) return what;
    if (typeof what !== "string") fail("expected an element, a selector or a text, got " + brief(what));
    let found = [doc];
    each(words(what, ">>>"), (part, i) => {
      const next = bare();
      each(found, r => each(all(i ? ask(r, "shadowRoot") ?? ask(r, "contentDocument") : r, part), e => add(next, e)));
      found = next;
    });
    const seen = only(found, visible);
    let list = seen[0] ? seen : found[0] ? found : named(what), fitting = only(list, suits);
    if (list[1] && fitting[0]) list = fitting;
    if (list.length === 1) return list[0];
    const n = list.length, others = n ? list : only(map(flat(start()), e => e.el), suits);
    fail((n ? n + " elements match " + stringify(what) + ":" : "nothing matches " + stringify(what) + "; there are:")
      + lines(map(others, (e, i) => i < 8 ? "\n  " + lineOf(e) : i === 8 ? "\n  … " + (others.length - 8) + " more" : ""), ""));
  };

  // reach scrolls to an element and checks that a person could use it. It returns the
  // place, and the innermost element there.
  const reach = el => {
    const no = why => fail(lineOf(el) + " " + why);
    if (!visible(el)) no("is not visible");
    if (fits(el, ":disabled,[aria-disabled=true]")) no("is disabled");
    ask(el, "scrollIntoView", { block: "center", inline: "center", behavior: "instant" });
    const r = only(ask(el, "getClientRects"), r => r.width && r.height)[0] ?? no("has no size");
    const view = viewOf(el), middle = (from, size, end) => (max(from, 0) + min(from + size, end)) / 2, up = n => ask(n, "assignedSlot") ?? ask(n, "parentNode") ?? ask(n, "host");
    const x = middle(r.x, r.width, view.innerWidth), y = middle(r.y, r.height, view.innerHeight);
    let hit = ask(docOf(el), "elementFromPoint", x, y), inner;
    while ((inner = ask(ask(hit, "shadowRoot"), "elementFromPoint", x, y)) && inner !== hit) hit = inner;
    let n = hit;
    while (n && n !== el && ask(n, "control") !== el) n = up(n);
    if (!n) no(hit ? "is covered by " + lineOf(hit) : "is outside of the window");
    return { hit, x, y, view };
  };
  const fire = (el, Kind, type, more) => ask(el, "dispatchEvent", new Kind(type, { __proto__: null, bubbles: !has(type, "enter"), cancelable: true, composed: true, ...more }));
  const focus = el => ask(el, "focus", { preventScroll: true });
  const click = what => {
    const el = pick(what, roleOf), { hit, x, y, view } = reach(el), done = "clicked " + lineOf(el);
    each(words("pointerover pointerenter mouseover mouseenter pointermove mousemove pointerdown mousedown pointerup mouseup click"), type => {
      const goes = fire(hit, has(type, "mouse") ? MouseEvent : PointerEvent, type, { view, clientX: x, clientY: y, detail: 1, buttons: has(type, "down") ? 1 : 0, pointerId: 1, isPrimary: true, pointerType: "mouse" });
      if (type === "mousedown" && goes) for (let n = hit; n && ask(rootOf(n), "activeElement") !== n; n = parentOf(n)) focus(n);
    });
    return done;
  };
  const fill = (what, value) => {
    const el = pick(what, e => fits(e, field)), type = ask(el, "type"), text = "" + value, no = why => fail(lineOf(el) + " " + why);
    if (type === "checkbox" || type === "radio") return ask(el, "checked") === !!value ? "left " + lineOf(el) : click(visible(el) ? el : ask(el, "labels")[0]);
    if (!fits(el, field) || fits(el, "[readonly],[type=file]")) no("cannot be filled");
    reach(el), focus(el);
    if (fits(el, "[contenteditable]")) {
      viewOf(el).getSelection().selectAllChildren(el);
      ask(docOf(el), "execCommand", "insertText", false, text);
    } else {
      if (tag(el) === "select") {
        const wanted = map(isArray(value) ? value : [value], v => "" + v), options = all(el, "option"), is = o => call(within, wanted, ask(o, "value")) || call(within, wanted, ask(o, "text"));
        if (only(options, is).length < wanted.length) no("has no option " + lines(wanted, ", ") + "; it has: " + lines(map(options, o => ask(o, "text")), ", "));
        each(options, o => assign(o, "selected", is(o)));
      } else {
        assign(el, "value", text);
        if (text && !ask(el, "value")) no("does not take " + stringify(text));
      }
      fire(el, InputEvent, "input", { inputType: "insertText", data: text }), fire(el, Event, "change");
    }
    return "filled " + lineOf(el) + stateOf(el);
  };

  // poll calls look until it returns something. Browsers delay the timers of a hidden tab
  // for up to a minute, so it also looks when the document changes and when a packet
  // arrives: the service sends one each second while a job is out.
  const poll = (look, promise) => new Promise((done, no) => {
    let over, watcher;
    const deaf = onPacket(() => see());
    const see = () => {
      if (over) return;
      try { if (!(over = look())) return; done(over); } catch (e) { over = true, no(e); }
      watcher?.disconnect();
      deaf();
    };
    const again = () => { see(), over || setTimeout(again, 30); };
    if (doc && MutationObserver) (watcher = new MutationObserver(see)).observe(doc, { subtree: true, childList: true, attributes: true, characterData: true });
    again();
    promise?.then(see);
  });
  const wait = async (what, ms = 5e3) => {
    const end = now() + ms, get = typeof what === "function" ? what : () => find(what);
    let got, busy, why;
    const ask1 = async () => { busy = true; try { why = brief(got = await get()); } catch (e) { why = failure(e); } busy = false; };
    await poll(() => {
      if (!got && !busy) ask1();
      if (!got && now() > end) fail("waited " + ms + " ms for " + clean("" + what, 200) + ": " + clean(why ?? "no answer", 300));
      return got;
    });
    return got;
  };

  // same compares values as tests do: properties that are undefined do not count.
  const same = (a, b, depth = 0) => {
    if (is(a, b)) return true;
    if (typeof a !== "object" || typeof b !== "object" || !a || !b || proto(a) !== proto(b) || depth > 50) return false;
    const keys = v => only(ownKeys(v), k => slot(v, k).enumerable && v[k] !== undefined), k = keys(a);
    if (!k[0] && !keys(b)[0]) return isArray(a) ? a.length === b.length : isError(a) ? a.message === b.message : brief(a) === brief(b);
    return k.length === keys(b).length && a.length === b.length && !only(k, k => !same(a[k], b[k], depth + 1)).length;
  };
  const expect = value => {
    const checks = not => {
      const check = (name, want, ok, got = value) => { if (!ok === !not) fail("expected " + clean(brief(got), 300) + (not ? " not" : "") + " to " + name + (want === undefined ? "" : " " + clean(brief(want), 300))); };
      const like = (text, want) => typeof want === "string" ? has(text, want) : call(matches, want, text);
      return {
        toBe: want => check("be", want, is(value, want)),
        toEqual: want => check("equal", want, same(value, want)),
        toMatch: want => check("match", want, like("" + value, want)),
        toThrow: want => {
          const thrown = e => check("throw", want, want === undefined || (typeof want === "function" ? e instanceof want : like("" + (e?.message ?? e), want)), e), none = () => check("throw", want);
          let out;
          try { out = value(); } catch (e) { return thrown(e); }
          return out?.then ? out.then(none, thrown) : none();
        },
      };
    };
    return { ...checks(), not: checks(true) };
  };

  // suite puts test and expect into the scope of cells and returns what is called when the
  // block of tests is over: it runs them in their order, restores the scope and passes the
  // report to done. Each has its share of the time that is left, so that the report names
  // one that does not end.
  const suite = (done, ms, scope, install, deleteProperty) => {
    const list = bare(), end = now() + ms;
    const own = (key, value) => {
      const before = slot(scope, key);
      install(scope, key, { value, writable: true });
      return () => before ? install(scope, key, before) : deleteProperty(scope, key);
    };
    const restore = [own("test", (name, f) => add(list, { name: "" + name, f })), own("expect", expect)];
    const why = e => {
      const text = failure(e), at = call(indexOf, text, "zino-job-"), mark = at < 0 ? "" : words(words(words(sub(text, at), ".js:")[1] ?? "", ")")[0], "\n")[0];
      return clean(words(text, "\n")[0], 300) + (mark && " (" + mark + ")");
    };
    const report = async (ok, thrown) => {
      const out = bare();
      let failed = 0;
      const row = (name, error, took) => { failed += error ? 1 : 0, add(out, "\n" + clean(name) + "  " + (error || "ok") + "  " + took + "ms"); };
      for (let i = 0; i < list.length; i++) {
        const begin = now(), share = round((end - begin) / (list.length - i + 1));
        let error;
        const run = async () => { try { await list[i].f(); error = ""; } catch (e) { error = why(e); } };
        await poll(() => error != null || (now() - begin > share && (error = "did not end within " + share + " ms")), run());
        row(list[i].name, error, now() - begin);
      }
      if (!ok) row("(outside of test)", why(thrown), 0);
      return out[0] ? "passed " + (out.length - failed) + ", failed " + failed + lines(out, "") : "no tests: the block did not call test(name, fn)";
    };
    return async (ok, value) => {
      value = await report(ok, value);
      each(restore, f => f()), done(true, value);
    };
  };
  return { zino: { outline, find, click, fill, wait, expect }, suite };
};
