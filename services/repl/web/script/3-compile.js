const { eval: evaluate, trustedTypes, Document, Node, URL } = G, { deleteProperty } = Reflect, { exec } = RegExp.prototype;
const { createPolicy } = trustedTypes ?? {}, { createScript } = G.TrustedTypePolicy?.prototype ?? {};
const install = (o, key, d) => define(o, key, { __proto__: null, configurable: true, ...d });
const intact = typeof evaluate === "function" && has(call(source, evaluate), "[native code]");

// trusted converts text for eval in a page that requires Trusted Types.
let policy;
const trusted = text => policy ? call(createScript, policy, text) : text;

// permit throws if the page cannot evaluate text, with an error that says why.
const permit = () => {
  const refused = () => { try { return evaluate(trusted("1")) !== 1 && Fault("it does nothing"); } catch (e) { return e; } };
  let e = refused();
  if (e && !policy && createPolicy) {
    policy = tried(createPolicy, trustedTypes, "zino", { __proto__: null, createScript: s => s });
    e = refused();
  }
  if (!e) return;
  const why = tried(read, 0, e, "message") ?? "", csp = "the page's Content-Security-Policy ";
  throw Fault((has(why, "Trusted") ? csp + "requires Trusted Types: allow the policy zino in trusted-types"
    : intact || tried(read, 0, e, "name") === "EvalError" ? csp + "forbids eval: allow 'unsafe-eval' in script-src"
    : "the page has replaced eval: load this script before the scripts of the page") + " to run code here (" + why + ")");
};

// insert runs text as an inline script of the page, with the nonce of its scripts.
const { createElementNS, querySelector } = Document?.prototype ?? {}, { appendChild, removeChild } = Node?.prototype ?? {}, root = brand(Document, "documentElement"), baseURI = brand(Node, "baseURI");
const scriptText = slot(G.HTMLScriptElement?.prototype ?? {}, "text")?.set, nonceOf = brand(G.HTMLElement, "nonce"), { setAttribute } = G.Element?.prototype ?? {};
const currentScript = brand(Document, "currentScript"), ownNonce = tried(nonceOf, tried(currentScript, doc));
const insert = text => {
  const s = call(createElementNS, doc, "http://www.w3.org/1999/xhtml", "script"), parent = call(root, doc);
  const n = ownNonce || tried(nonceOf, call(querySelector, doc, "script[nonce]"));
  if (n) call(setAttribute, s, "nonce", n);
  call(scriptText, s, trusted(text));
  call(appendChild, parent, s), call(removeChild, parent, s);
};

// scope holds what cells declared, and the helpers. outer evaluates global code. It is
// made by an inline script, whose base URL import() uses, and made again when the
// page's base URL changes; its text must differ then, because Chromium would reuse the
// first one. Workers, and pages that forbid inline scripts, import through importer.
const scope = { __proto__: null }, importer = "$imprt", own = "\n//# sourceURL=" + zino.script;
install(scope, "$call", { value: f => f });
let outer, base, inline = !!doc, made = 0;
const baseHere = () => (doc && tried(baseURI, doc)) ?? G.location.href;
const ready = () => {
  const now = baseHere();
  if (outer && (!inline || now === base)) return;
  base = now, outer = text => evaluate(text);
  let given;
  if (inline) {
    install(G, "$zino", { value: make => { outer = make(evaluate), given = true; } });
    tried(insert, 0, "$zino(e=>c=>e(c))//" + made++ + own);
    deleteProperty(G, "$zino");
    if (inline = !!given) return;
  }
  install(scope, importer, { value: async (name, options) => {
    name = "" + name;
    if (match(/^\.{0,2}\//, name)) name = new URL(name, baseHere()).href;
    try { return await import(name, options); } catch (e) {
      if (!doc) throw e;
      throw Fault(read(e, "message") + " (import() runs from " + zino.script + ", because the page's Content-Security-Policy forbids inline scripts: allow a nonce or 'unsafe-inline' in script-src)", { cause: e });
    }
  } });
};

// visible evaluates text that starts with "with($zino)": there this name is the scope.
const visible = text => {
  install(G, "$zino", { get: () => { deleteProperty(G, "$zino"); return scope; } });
  return outer(trusted(text));
};
// script evaluates text as a script that sees the scope: a direct eval in global code
// makes var and functions global, and nothing else.
const script = text => {
  text = trusted(text);
  const clean = () => { deleteProperty(scope, "$zino"), deleteProperty(scope, "eval"); };
  if (slot(G, "eval")?.value !== evaluate) install(scope, "eval", { value: evaluate });
  install(scope, "$zino", { get: () => { clean(); return text; } });
  try { return visible("with($zino)eval($zino)" + own); } finally { clean(); }
};

// refusal returns the SyntaxError of text that is not a valid script. The last line,
// an error too, prevents its execution, and what is declared stays undeclared.
const twice = "\nconst zz$=0,zz$=0";
const refusal = text => { try { evaluate(trusted(text + twice)); } catch (e) { return has("" + tried(read, 0, e, "message"), "zz$") ? undefined : e; } };
const parses = text => !refusal(text);
// An expression is valid in two kinds of brackets, because "1);f();(2" is in one. The
// body of a function cannot be left if it is valid in an expression and a statement.
const isExpression = (text, start = "", end = "") => parses(start + "(" + text + "\n)" + end) && parses(start + "[" + text + "\n]" + end);
const body = text => "(async()=>{" + text + "\n})", refusedBody = text => refusal(body(text)) ?? refusal("async function zz_(){" + text + "\n}");
