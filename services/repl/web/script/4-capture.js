// Events are sent in batches of up to 100, after at most 200 ms. If they cannot be
// sent, the first two and the latest are kept, as in the file. The first events of a
// batch have a higher length limit, so that long JSON is not truncated.
let queue = bare(), lost = 0, timer, inside;
const keep = (type, level, message, stack = "") => {
  if (queue[99]) flush();
  if (queue[99]) call(splice, queue, 2, 1), lost++;
  queue[queue.length] = { __proto__: null, type, level, ts: sub(call(toTimeString, new Date), 0, 8), message: short(message, queue[3] ? 2e4 : 2e5), stack };
  timer ||= setTimeout(flush, 200);
};

// message formats the arguments of a console call.
const message = args => {
  const text = v => typeof v === "string" ? v : show(v).value;
  let out = args.length ? text(args[0]) : "", i = 1;
  for (let at = typeof args[0] === "string" ? -1 : out.length; i < args.length && (at = call(indexOf, out, "%", at + 1)) >= 0;) {
    const c = out[at + 1];
    if (!c || !has("sdifoOc", c)) continue;
    const value = c === "c" ? "" : text(args[i]);
    out = sub(out, 0, at) + value + sub(out, at + 2);
    at += value.length - 1, i++;
  }
  for (; i < args.length; i++) out += " " + text(args[i]);
  return out;
};

const capture = level => {
  const original = console[level];
  console[level] = function (...args) {
    if (!inside) {
      inside = true;
      tried(() => keep("console", level, message(args)));
      inside = false;
    }
    return apply(original, this, args);
  };
};
capture("log"), capture("info"), capture("warn"), capture("error");

const caught = (type, e, message) => {
  const stack = tried(isError, 0, e) ? failure(e) : "";
  keep(type, "error", stack ? sub(stack, 0, call(indexOf, stack + "\n", "\n")) : message, short(stack, 8e3));
};
listen(G, "error", e => caught("window.onerror", e.error, e.message + " (" + e.filename + ":" + e.lineno + ")"));
listen(G, "unhandledrejection", e => caught("unhandledrejection", e.reason, failure(e.reason)));
