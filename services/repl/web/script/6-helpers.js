// The helpers of cells are a module that is loaded with the first job that needs it, from
// the place of this script. What it needs is copied here, before scripts of the page run:
// getters, setters and methods of the DOM by their names, from all classes that have them.
const gets = { __proto__: null }, sets = { __proto__: null };
const domClasses = ["Node", "Element", "HTMLElement", "SVGElement", "Document", "ShadowRoot", "DocumentFragment", "CharacterData", "EventTarget", "HTMLInputElement", "HTMLTextAreaElement", "HTMLSelectElement", "HTMLOptionElement", "HTMLLabelElement", "HTMLSlotElement", "HTMLIFrameElement"];
const copyClass = o => {
  const keys = doc && o ? ownKeys(o) : [];
  for (let i = 0; i < keys.length; i++) {
    const { get, set, value = get } = slot(o, keys[i]);
    const keep = (all, f) => { const list = all[keys[i]] ??= bare(); list[list.length] = f; };
    if (typeof value === "function") keep(gets, value);
    if (set) keep(sets, set);
  }
};
for (let i = 0; i < domClasses.length; i++) copyClass(G[domClasses[i]]?.prototype);

const kit = (({ Promise, Error, Math: { round, max, min }, MutationObserver, PointerEvent, MouseEvent, InputEvent, Event, CSS, getComputedStyle }) => ({
  __proto__: null, G, doc, gets, sets, Promise, Error, Math: { round, max, min }, MutationObserver, PointerEvent, MouseEvent, InputEvent, Event, getComputedStyle, escape: CSS?.escape,
  now: Date.now, matches: RegExp.prototype.test, toLowerCase: "".toLowerCase, setTimeout,
  apply, call, bare, has, sub, slot, proto, ownKeys, is, isArray, isError, read, show, failure, stringify, indexOf, join, trim, split, within,
  // onPacket calls f at each packet of the service until the returned function is called.
  onPacket: f => { const heard = e => f(e), s = socket; tried(listen, 0, s, "message", heard); return () => tried(unlisten, 0, s, "message", heard); },
}))(G);
const { removeEventListener } = G.EventTarget.prototype, unlisten = (target, type, f) => call(removeEventListener, target, type, f);
let helpers, missing;
const help = async () => { helpers ??= (await import(zino.script + "?helpers")).default(kit); };
const loaded = () => helpers ?? raise("the helpers could not be loaded from " + zino.script + ": " + missing);
const raise = text => { throw Fault(text); };
install(scope, "zino", { get: () => loaded().zino });

// equip calls next, and before that loads the helpers if they are needed.
const equip = async (needed, next) => {
  try { if (needed && !helpers) await help(); } catch (e) { missing = read(e, "message"); }
  next();
};

// suite puts test and expect into the scope until the report of the tests is passed to done.
const suite = (done, limit) => { try { return loaded().suite(done, limit, scope, install, deleteProperty); } catch (e) { return () => done(false, e); } };

// look answers a job that asks for an outline. It is not recorded and runs no code of its
// sender.
const look = async (job, { selector, depth }) => {
  try {
    await help();
    put("result", { job, ok: true, kind: "text", value: helpers.zino.outline(selector, depth) });
  } catch (e) { put("result", { job, ok: false, error: failure(e) }); }
};
