// remember makes variables of cells visible in the scope, once they are initialised.
// Those of a cell that is not over are tried again later.
let waiting = bare();
const remember = (added, over) => {
  const all = waiting;
  if (added && !call(within, all, added)) all[all.length] = added;
  waiting = bare();
  for (let i = 0; i < all.length; i++) {
    const names = ownKeys(all[i]);
    let left = 0;
    for (let k = 0; k < names.length; k++) {
      const { 0: get, 1: set } = all[i][names[k]];
      try { get(); } catch { left++; continue; }
      install(scope, names[k], { get, set, enumerable: true });
      deleteProperty(all[i], names[k]);
    }
    if (left && i > all.length - 100 && !(over && all[i] === added)) waiting[waiting.length] = all[i];
  }
};

// access returns an object literal with a getter and a setter for each name.
const access = (names, chosen) => {
  const keys = ownKeys(names);
  let out = "";
  for (let i = 0; i < keys.length; i++) if (keys[i] !== "eval" && chosen(keys[i])) out += ',"' + keys[i] + '":[()=>' + keys[i] + ",$zino=>" + keys[i] + "=$zino]";
  return out && "{__proto__:null" + out + "}";
};

// chosen returns the first text that is a valid script.
const chosen = (...forms) => {
  for (let i = 0; i < forms.length; i++) {
    const text = forms[i]();
    if (parses(text)) return text;
  }
};

// prepare chooses a form of a cell by compiling it, and returns a function that runs
// it: an expression, a script, or the body of an async function whose $zino.v is the
// value. It returns nothing if the code is not valid; then failed gets the error.
const prepare = (code, job, failed) => {
  permit(), ready(), remember();
  const { names, edits, imports, strict, braced } = survey(code, !inline && importer);
  const url = "\n//# sourceURL=zino-job-" + job + ".js", awaits = has(code, "await");
  let budget = 2e7;
  const declares = (n, start, end) => (budget -= code.length) < 0 || !parses(start + "\n;let " + n + end);
  // form inserts the start, the text that keeps variables after "use strict", and the
  // edits of these kinds.
  const form = (kinds, start, keep) => {
    const all = bare();
    const add = (at, put) => { if (put) all[all.length] = { __proto__: null, kind: "ours", at, put, cut: 0 }; };
    add(0, start), add(strict, keep && (strict ? ";" : "") + keep);
    for (let i = 0; i < edits.length; i++) if (among(kinds, edits[i].kind)) all[all.length] = edits[i];
    return applied(code, all, job);
  };

  const valid = !imports && parses(code);
  // In a static block await is not an identifier: this distinguishes "await (f());"
  // from a call of a function named await.
  const plain = valid && (!awaits || parses("class zz_{static{" + code + "\n}}"));
  if (!imports && (plain ? braced : !valid) && isExpression(code)) {
    const whole = form("call", intact ? "(" : "with($zino)(") + "\n)" + url;
    return end => settle(intact ? script(whole) : visible(whole), end);
  }
  if (plain && !strict && intact) {
    const kept = access(names, n => {
      if (names[n]) return declares(n, code, "");
      if (hasOwn(scope, n) && declares(n, code, "")) deleteProperty(scope, n);
    });
    const add = kept && "\nfunction $zino(){return" + kept + "}";
    const cell = chosen(() => form("call") + add, () => form("") + add, () => form(""));
    return end => {
      let value;
      try { value = script(cell + url); } finally {
        const all = tried(slot(G, "$zino")?.value);
        deleteProperty(G, "$zino"), remember(all, true);
      }
      settle(value, end);
    };
  }

  const base = form("import"), e = refusedBody(base), start = "(async()=>{";
  if (e) {
    const wrong = awaits || imports ? form("import", start) + "\n})" : form("");
    return located(refusal(wrong) ?? e, wrong, job, failed);
  }
  const open = "with($zino)(async $zino=>{", close = "\nreturn $zino\n})";
  let whole;
  if (!imports && isExpression(code, "(async()=>", ")") && (!parses(body(code)) || parses(body("while(0)" + code)))) {
    whole = form("call", open + "$zino.v=(") + "\n)" + close;
  } else {
    const kept = access(names, n => declares(n, start + base, "\n})")), keep = kept && "$zino.k=" + kept + ";";
    whole = chosen(() => form("import value call", open, keep) + close, () => form("import value", open, keep) + close, () => form("import", open, keep) + close, () => form("import", open) + close);
  }
  return end => {
    const state = { __proto__: null }, result = visible(whole + url)(state);
    remember(state.k);
    settle(result, (ok, v) => {
      remember(state.k, true);
      if (v === state) settle(state.v, end); else end(ok, v);
    });
  };
};

// A promise is native, also one of another frame, or belongs to the class that the
// page uses as Promise, such as that of zone.js. Other objects with a method then are
// values.
const ofAsync = proto((async () => {})()), thens = slot(ofAsync, "then")?.value, then = has(call(source, thens), "[native code]") ? thens : read(ofAsync, "__zone_symbol__then");
const settle = (v, end) => {
  const ok = value => end(true, value), no = e => end(false, e);
  if (tried(then, v, ok, no)) return;
  const is = kind => kind && tried(isPrototypeOf, kind, v);
  // The page may have replaced what then needs to make another promise.
  if (is(ofAsync)) return void (async () => {
    try { v = await v; } catch (e) { return no(e); }
    ok(v);
  })();
  if (!is(tried(() => slot(slot(G, "Promise").value, "prototype").value))) return ok(v);
  try { call(read(v, "then"), v, ok, no); } catch (e) { no(e); }
};

// replace replaces a dialog, which would stop the page until a person answers.
const replace = (dialog, answer) => {
  const before = slot(G, dialog);
  const value = (...args) => { tried(() => keep("dialog", "info", args.length ? message(args) : "", caller(), "", dialog)); return answer; };
  if (before?.configurable) install(G, dialog, { value, writable: true, enumerable: true });
  return () => { if (slot(G, dialog)?.value === value) install(G, dialog, before); };
};
let runs = 0, restore;

// run evaluates code once and passes the result to done: true and the value, or false
// and what was thrown. suite is set for blocks of tests: it adds their functions to the
// scope, and returns a function that gets the result and passes the report to done.
const run = (code, job, done, test, limit = 6e4) => {
  if (!runs++) {
    const a = replace("alert"), b = replace("confirm", false), c = replace("prompt", null);
    restore = () => { a(), b(), c(); };
  }
  let over;
  const release = () => { if (!over) over = true, --runs || tried(restore); };
  setTimeout(release, limit);
  const finish = (ok, value) => { release(), done(ok, value); }, end = test ? suite(finish, limit) : finish;
  try {
    prepare(code, job, end)?.(end);
  } catch (e) { end(false, e); }
};
