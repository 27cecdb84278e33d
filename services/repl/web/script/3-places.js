// Text is inserted into some cells before they are compiled. fixes holds what, by job,
// to correct the positions in stacks: lines is the number of lines of the cell, and
// list has the line, column and length of each insertion.
const fixes = { __proto__: null }, fixed = bare();

// apply inserts edits into code, for a job.
const applied = (code, edits, job) => {
  const parts = bare(), list = bare();
  let from = 0, line = 1, start = 0, p;
  for (let i = 0; i < edits.length; i++) {
    const e = edits[i];
    while ((p = call(indexOf, code, "\n", start)) >= 0 && p < e.at) line++, start = p + 1;
    list[i] = { __proto__: null, line, column: e.at - start, more: e.put.length, less: e.cut, ours: e.kind === "ours", back: e.back };
    parts[i] = sub(code, from, e.at) + e.put;
    from = e.at + e.cut;
  }
  while ((p = call(indexOf, code, "\n", start)) >= 0) line++, start = p + 1;
  if (!fixes[job]) fixed[fixed.length] = job;
  if (fixed.length > 500) deleteProperty(fixes, call(splice, fixed, 0, 1)[0]);
  fixes[job] = { __proto__: null, lines: line, end: code.length - start + 1, list };
  return call(join, parts, "") + sub(code, from);
};

// original returns the column before the insertions, or 0 for code that is not of the
// cell.
const original = ({ lines, list }, line, column) => {
  let shift = 0;
  for (let i = 0; i < list.length; i++) {
    const e = list[i], at = e.column + shift + 1;
    if (e.line !== line || column < at) continue;
    if (e.back && column === at + e.more) return e.column + 1 - e.back; // the position of a call
    if (column < at + e.more) return e.ours ? 0 : e.column + 1;
    shift += e.more - e.less;
  }
  return line > lines ? 0 : column - shift;
};

// cellFrame corrects the position in a line of a stack. It returns nothing for frames of
// this script, and of code that it added to a cell.
const inCell = /zino-job-([\w-]+)\.js:(\d+):(\d+)/;
const cellFrame = (text, next = "") => {
  if (has(text, zino.script) || (has(text, "at eval (<anonymous>)") && has(next, zino.script))) return "";
  const m = call(exec, inCell, text), fix = m && fixes[m[1]], column = fix && original(fix, +m[2], +m[3]);
  if (column === 0) return "";
  return "\n" + (fix ? sub(text, 0, m.index + m[0].length - m[3].length) + column + sub(text, m.index + m[0].length) : text);
};

// The position of a syntax error is only in the event of a script that fails: of an
// element, or where the page allows none and in workers of a timer. The page's own
// listeners do not get it.
let probe;
const lineOf = brand(G.ErrorEvent, "lineno"), columnOf = brand(G.ErrorEvent, "colno"), messageOf = brand(G.ErrorEvent, "message");
const { stopImmediatePropagation, preventDefault } = G.Event?.prototype ?? {};
call(on, G, "error", e => {
  if (!probe || !has("" + tried(messageOf, e), probe.message)) return;
  call(stopImmediatePropagation, e), call(preventDefault, e);
  const found = probe;
  probe = undefined;
  found.done(call(lineOf, e), call(columnOf, e));
}, true);
// located adds the position to a SyntaxError of text, and passes it to done.
const located = (e, text, job, done) => {
  const add = (line, column) => {
    const fix = fixes[job], message = line > fix.lines ? "Unexpected end of input" : e.message;
    deleteProperty(fixes, job); // the position is corrected here
    const place = line ? ":" + (line > fix.lines ? fix.lines + ":" + fix.end : line + ":" + (original(fix, line, column) || 1)) : "";
    done(false, { __proto__: null, message, stack: "SyntaxError: " + message + "\n    at zino-job-" + job + ".js" + place });
  };
  let over;
  probe = { __proto__: null, message: e.message, done: (line, column) => { over = true, add(line, column); } };
  const give = () => { if (!over) probe = undefined, add(); };
  if (!lineOf) give();
  else if (inline) tried(insert, 0, text + twice), give();
  else setTimeout(trusted(text + twice)), setTimeout(give);
};
