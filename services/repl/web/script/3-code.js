// The code of a cell is divided into tokens and statements, to find the variables that
// it declares and the values of its statements. Expressions are only skipped. What is
// found is compiled before it is used, so a mistake here costs a name or a value.
const match = (re, s, at = 0) => { re.lastIndex = at; return call(exec, re, s); };
const among = (words, t) => has(" " + words + " ", " " + t + " ");

// survey returns the names that a cell declares (true: let, const, class and import) and
// edits by kind: "import" makes it the body of an async function, "value" assigns the value
// of each statement to $zino.v, "call" corrects calls.
const survey = (code, importer) => {
  const blank = /(?:\s+|\/\/.*|\/\*[^]*?\*\/)*/y, newline = /[\n\r\u2028\u2029]/;
  const token = /\.?\d(?:[eE][-+]|[\w.])*|(?:[\w$#@\\]|[^\0-\x7f\s])+|"[^"\\\n]*(?:\\[^][^"\\\n]*)*"?|'[^'\\\n]*(?:\\[^][^'\\\n]*)*'?|=>|[=!]==?|\+\+|--|\?\?|\?\.(?!\d)|\.{3}|[^]/y;
  const template = /[`}][^`\\$]*(?:(?:\\[^]|\$(?!\{))[^`\\$]*)*(?:`|\$\{|$)/y, regexp = /\/(?:[^\/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\]?)*\/?\w*/y;
  const operand = /^(?:[\w$#@\\"'`]|[^\0-\x7f]|\.\d|[\/}].)/, word = /^(?:[\w$#\\]|[^\0-\x7f])/;
  const text = bare(), at = bare(), fresh = bare(), pair = bare(), back = bare(), open = bare(), edits = bare(), names = { __proto__: null };
  let n = 0, valued = true, imports = false;
  // ends reports whether token k can be the last one of an operand.
  const ends = k => {
    const t = text[k], before = text[k - 1];
    if (t === ")") return !among("if while for with", text[back[k] - 1]);
    if (t === "++" || t === "--") return !fresh[k] && ends(k - 1);
    if (t === "]" || !t) return !!t;
    return !!match(operand, t) && sub(t, -2) !== "${" && (before === "." || before === "?." || !among("await case delete do else extends in instanceof new of return throw typeof void yield", t));
  };
  for (let i = 0, from = 0; ; n++, from = i) {
    i += match(blank, code, i)[0].length;
    if (i >= code.length) break;
    const c = code[i], inner = text[open[open.length - 1]]?.[0] === "`";
    const re = c === "`" || (c === "}" && inner) ? template : c === "/" && !ends(n - 1) ? regexp : token;
    let t = (match(re, code, i) ?? c)[0];
    if (t === "(" || t === "[" || t === "{" || (c === "`" && sub(t, -2) === "${")) open[open.length] = n;
    else if (t === ")" || t === "]" || (c === "}" && sub(t, -2) !== "${")) {
      const k = open[open.length - 1];
      if (open.length) open.length--, pair[k] = n, back[n] = k;
    }
    text[n] = t, at[n] = i;
    fresh[n] = i > from && !!match(newline, sub(code, from, i));
    i += t.length;
  }
  const close = i => pair[i] ?? n, next = i => close(i) + 1, after = k => at[k] + text[k].length;
  const seek = (i, t) => { while (i < n && text[i] !== t) i = text[i] && pair[i] && t !== "(" ? pair[i] + 1 : i + 1; return i; };
  const edit = (kind, at, put, cut = 0) => { if (valued || kind !== "value") edits[edits.length] = { __proto__: null, kind, at, put, cut }; };
  const ended = i => text[i] === ";" ? i + 1 : i;
  // expression returns the index after an expression that starts at token i.
  const expression = (i, comma) => {
    for (const first = i; i < n; i++) {
      const t = text[i], before = text[i - 1];
      if (has(";)]}", t) || (comma && t === ",")) break;
      if (i > first && fresh[i] && (before === "}" || ends(i - 1)) && (among("{ ! ~ ++ --", t) || t[0] === '"' || t[0] === "'" || (match(word, t) && !among("in instanceof", t)))) break;
      if (t === "function" && before !== ".") i = close(next(seek(i, "(")));
      else if (t === "class" && before !== ".") i = close(seek(i, "{"));
      else if (pair[i]) {
        i = pair[i];
        // The body of an arrow function ends its expression.
        if (t === "{" && before === "=>" && fresh[i + 1] && text[i + 1] !== ",") return i + 1;
      }
    }
    return i;
  };
  // target returns the index after a variable or pattern, and adds its names.
  const target = (i, lexical) => {
    const t = text[i], end = close(i);
    if (t !== "{" && t !== "[") {
      if (lexical !== undefined) names[t] = lexical;
      return i + 1;
    }
    for (i++; i < end; i++) {
      if (text[i] === ",") continue;
      if (text[i] === "...") i++;
      else if (t === "{" && text[i] === "[") i = next(i) + 1;
      else if (t === "{" && text[i + 1] === ":") i += 2;
      i = target(i, lexical);
      if (text[i] === "=") i = expression(i + 1, true);
    }
    return end + 1;
  };
  const variables = (i, lexical) => {
    do {
      i = target(i + 1, lexical);
      if (text[i] === "=") i = expression(i + 1, true);
    } while (text[i] === ",");
    return i;
  };
  // Of many statements of a cell, the last ones give the value.
  const list = (i, end, top) => {
    for (; i < end; i = statement(i, top)) if (top && edits.length > 2e4 && !imports) edits.length = 0;
    return end;
  };
  const block = i => list(i + 1, close(i)) + 1;
  const imported = i => {
    let whole = "", parts = "", from = i + 1;
    while (from < n && !has("\"'", text[from][0])) from = (pair[from] ?? from) + 1;
    const add = (key, local) => { names[local] = true, parts += key + ":" + local + ","; };
    for (let k = i + 1; k < from; k++) {
      if (text[k] === "*") names[whole = text[k += 2]] = true;
      else if (text[k] === "{") for (const end = close(k); ++k < end;) {
        const as = text[k + 1] === "as" && k + 2 < end ? 2 : 0;
        if (text[k] !== ",") add(text[k], text[k += as]);
      } else if (k === i + 1) add("default", text[k]);
    }
    let end = from, given = "";
    if (text[end + 1] === "with") end = close(end + 2), given = ",{with:" + sub(code, at[from + 2], after(end)) + "}";
    const it = "await " + (importer || "import") + "(" + text[from] + given + ");";
    let put = whole ? "const " + whole + "=" + it + (parts && "const{" + parts + "}=" + whole + ";") : parts ? "const{" + parts + "}=" + it : it;
    for (let p = at[i]; (p = call(indexOf, code, "\n", p) + 1) && p <= at[end];) put += "\n";
    edit("import", at[i], put, after(end) - at[i]), imports = true;
    return ended(end + 1);
  };
  const empty = "$zino.v=void 0;";
  // compound returns the index after a statement that contains statements and whose
  // value is undefined unless they set it.
  const compound = (t, i) => {
    if (t === "do") return ended(next(statement(i + 1) + 1));
    if (t === "switch") return block(next(i + 1));
    if (t === "try") {
      i = block(i + 1);
      if (text[i] === "catch") {
        if (text[++i] === "(") i = next(i);
        edit("value", after(i), empty);
        i = block(i);
      }
      if (text[i] !== "finally") return i;
      const outside = valued;
      valued = false, i = block(i + 1), valued = outside;
      return i;
    }
    const head = seek(i, "(");
    if (t === "for" && text[head + 1] === "var") variables(head + 1, false);
    i = statement(next(head));
    return t === "if" && text[i] === "else" ? statement(i + 1) : i;
  };
  const statement = (start, top) => {
    let i = start;
    while (text[i + 1] === ":" && match(word, text[i])) i += 2;
    const t = text[i], following = text[i + 1];
    if (t === "{") return block(i);
    if (t === ";" || !t) return i + 1;
    if (t === "function" || (t === "async" && following === "function" && !fresh[i + 1])) {
      i += t === "async" ? 2 : 1;
      if (text[i] === "*") i++;
      if (top) names[text[i]] = false;
      return next(next(seek(i, "(")));
    }
    if (t === "class") {
      if (top) names[following] = true;
      return next(seek(i, "{"));
    }
    if (t === "var" || t === "const" || (t === "let" && (match(word, following ?? "=") ? !among("in instanceof of", following) : has("[{", following)))) {
      return ended(variables(i, t === "var" ? false : top ? true : undefined));
    }
    if (t === "import" && following !== "(" && following !== ".") return imported(i);
    if (t === "case") {
      for (let depth = 0; ++i < n && (text[i] !== ":" || depth--); i = pair[i] ?? i) if (text[i] === "?") depth++;
      return i + 1;
    }
    if (among("return throw break continue debugger", t)) return ended(fresh[i + 1] ? i + 1 : expression(i + 1));
    if (among("if for while with do switch try", t)) {
      edit("value", at[start], "{" + empty);
      i = compound(t, i);
      edit("value", after(i > n ? n - 1 : i - 1), "}");
      return i;
    }
    const end = expression(i);
    if (end === i) return i + 1;
    if (i || !strict) edit("value", at[i], "$zino.v=("), edit("value", after(end - 1), ")");
    return ended(end);
  };
  // with passes its object as this to functions that are called by name: $call prevents
  // it for the names in the scope. The name for import has the length of the word.
  const merge = () => {
    const all = bare();
    let e = 0;
    const add = (at, put, cut = 0, back = 0) => {
      while (e < edits.length && edits[e].at <= at) all[all.length] = edits[e++];
      all[all.length] = { __proto__: null, kind: "call", at, put, cut, back };
    };
    for (let k = 0; k < n; k++) {
      const t = text[k], imports = importer && t === "import";
      if (text[k + 1] !== "(" || !(imports || hasOwn(scope, t)) || among("new function * . ?. get set static async", text[k - 1]) || among("{ =>", text[next(k + 1)])) continue;
      if (imports) add(at[k], importer, 6);
      else add(at[k], "$call("), add(after(k), ")", 0, t.length);
    }
    while (e < edits.length) all[all.length] = edits[e++];
    return all;
  };
  const strict = n && sub(text[0], 1, -1) === "use strict" ? after(0) : 0;
  if (tried(list, 0, 0, n, true) === undefined) edits.length = 0, imports = false;
  return { __proto__: null, names, edits: merge(), imports, strict, braced: text[0] === "{" };
};
