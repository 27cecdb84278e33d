// parses reports whether text is a valid script. The throw statement before the text
// prevents its execution. builds does the same for the body of an async function.
const { eval: evaluate } = G, AsyncFunction = (async () => {}).constructor;
const parses = text => { try { evaluate("throw 0;" + text); } catch (e) { return e === 0; } };
const builds = text => { try { return new AsyncFunction(text); } catch {} };
// isExpression tries two kinds of brackets, because "1);f();(2" is valid in one of
// them, and the body of a loop, because a declaration is invalid there.
const isExpression = (text, ok, start) => ok(start + "(" + text + "\n)") && ok(start + "[" + text + "\n]") && (!ok(text) || ok("while(0)" + text));
const isAsync = text => isExpression(text, builds, "return");

// asyncBody returns the body of an async function that returns the value of the last
// statement if that is an expression.
const asyncBody = code => {
  let text = call(trim, code);
  while (text[text.length - 1] === ";") text = call(trim, sub(text, 0, -1));
  for (let p = text.length, tries = 0; p-- && tries < 64;) {
    if (!has(";\n}", text[p])) continue;
    const tail = call(trim, sub(text, p + 1));
    // After a newline these characters would continue the previous line.
    if (!tail || (text[p] !== ";" && has("([`/+-*.,", tail[0]))) continue;
    tries++;
    const head = sub(text, 0, p + 1), body = head + "return(" + tail + "\n)";
    if (isAsync(tail) && builds(head) && builds(body)) return body;
  }
  return isAsync(text) ? "return(" + text + "\n)" : code;
};

// prepare compiles the code as an expression, a script or an async function, and
// returns a function that runs it.
const prepare = (code, job) => {
  try { evaluate("0"); } catch (e) {
    throw Error("the page's Content-Security-Policy forbids eval: allow 'unsafe-eval' in script-src to run code here (" + e.message + ")");
  }
  const name = "\n//# sourceURL=zino-job-" + job + ".js", waits = has(code, "await");
  if (waits && isAsync(code)) return builds("return(" + code + "\n)" + name);
  if (isExpression(code, parses, "")) return () => evaluate("(" + code + "\n)" + name);
  // In a static block await is not an identifier: this distinguishes "await (f());"
  // from a call of a function named await.
  if (builds(code) && !parses(waits ? "class _{static{" + code + "\n}}" : code)) return builds(asyncBody(code) + name);
  return () => evaluate(code + name);
};

// run evaluates code once and passes the result to done. It awaits only native
// promises, to avoid calling then methods of the page.
const run = async (code, job, done) => {
  let value;
  try {
    value = prepare(code, job)();
    if (tried(isPrototypeOf, promise, value)) value = await value;
  } catch (e) { return done(false, e); }
  done(true, value);
};
