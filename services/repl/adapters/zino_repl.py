#!/usr/bin/env python3
"""Connects a running Python program to Zino's file REPL as a page: code written into
its Markdown file, debug/<name>-<id>.md, runs in the program, and the result is written
below it. Standard library only, Python 3.8 or later.

usage: python3 zino_repl.py [--name NAME] [--socket PATH] [SCRIPT [ARGUMENT...]]
   or: import zino_repl; page = zino_repl.attach(name="shop", names=globals())

The first form runs SCRIPT as __main__ and stays until it is interrupted. Attaching does
not keep a program running; page.close() detaches it. Code runs in a thread of its own,
in the namespace "names" (default: __main__), and its names persist to the next block.
The result is the value of the last expression; await works. Lists, tuples, dicts, sets,
errors and instances of classes without a __repr__ are shown as JSON. Printed lines, log
records and uncaught errors are shown in the file too. The socket is $ZINO_REPL_SOCKET,
or repl.sock in $XDG_RUNTIME_DIR/zino (without that variable: zino-UID in the directory
of temporary files), or in /run/zino.
"""
import ast
import asyncio
import datetime
import inspect
import json
import linecache
import logging
import math
import os
import socket as sockets
import stat
import struct
import sys
import tempfile
import threading
import time
import traceback
import types

WHOLE = 64 << 20  # bytes of a value
EVENTS = 300  # events in the queue
DEPTH = 48  # levels of objects in a value


def cut(text, limit):
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def more(count):
    return f"… {count:,} more item{'' if count == 1 else 's'}"


def size(text):
    return len(json.encoder.encode_basestring(text).encode(errors="replace")) + 2


class Shown:
    """A value as a tree for JSON, in which strings stand for what JSON does not have."""

    def __init__(self, value, room):
        self.room, self.above = room, []
        self.tree = self.walk(value, 0)

    def text(self, text):
        room = max(self.room, 0)
        short = cut(text, room)
        if size(short) > room + 99:
            short = cut(text, room // 6)  # an escaped character has up to 6 bytes
        self.room -= size(short)
        return short

    def walk(self, value, deep):
        kind = type(value)
        if value is None or kind in (bool, int) or kind is float and math.isfinite(value):
            self.room -= len(repr(value)) + 2
            return value
        if kind is str:
            return self.text(value)
        if id(value) in self.above:
            return self.text("[Circular]")
        self.above.append(id(value))
        self.room -= 4
        try:
            return self.object(value, deep)
        except BaseException as error:  # __repr__ may raise anything
            return f"<{kind.__name__} that cannot be shown: {type(error).__name__}>"
        finally:
            self.above.pop()

    def object(self, value, deep):
        kind = type(value)
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
            return self.text(f"[Function: {value.__name__}]")
        if isinstance(value, (datetime.date, datetime.time)):
            return self.text(value.isoformat())
        if isinstance(value, BaseException):
            stack = [f"{at.filename}:{at.lineno} in {at.name}" for at in traceback.extract_tb(value.__traceback__)]
            cause = {"cause": self.walk(value.__cause__, deep + 1)} if value.__cause__ else {}
            return {f"[{kind.__name__}]": self.text(str(value)), "stack": stack, **cause, **self.record(vars(value), deep)}
        if isinstance(value, (list, tuple)):
            return self.array(value, deep)
        if isinstance(value, (set, frozenset)):
            return {f"[{kind.__name__}]": self.array(list(value), deep)}
        if isinstance(value, dict):
            return self.record(value, deep)
        if hasattr(value, "__dict__") and (kind.__repr__ is object.__repr__ or hasattr(kind, "__dataclass_fields__")):
            return {"[class]": kind.__name__, **self.record(vars(value), deep)}
        return self.text(repr(value))

    def array(self, value, deep):
        out = []
        for i, item in enumerate(value):
            if self.room < 0 or deep > DEPTH:
                return [*out, more(len(value) - i)]
            out.append(self.walk(item, deep + 1))
        return out

    def record(self, value, deep):
        out = {}
        for i, (key, item) in enumerate(list(value.items())):
            if self.room < 0 or deep > DEPTH:
                return {**out, "…": more(len(value) - i)}
            out[self.text(key if type(key) is str else repr(key))] = self.walk(item, deep + 1)
        return out


def serialise(value, room=WHOLE - (1 << 16)):
    """Returns the kind and the text of a value: JSON or text."""
    if type(value) is str:
        return {"kind": "text", "value": value}
    tree = Shown(value, room).tree
    if tree is None or type(tree) is str:
        return {"kind": "text", "value": str(tree)}
    return {"kind": "json", "value": json.dumps(tree, ensure_ascii=False)}


def parts(packet):
    """Divides the text of a result: the texts of its parts, and the result with the rest."""
    key = "value" if packet.get("ok") else "error"
    text = packet.get(key, "")
    data = text.encode(errors="replace")
    if len(data) > WHOLE:
        text = cut(text, len(data[: WHOLE - 100].decode(errors="ignore")))
    size = 1 << 18 if len(data) > 1 << 20 else len(text) + 1  # code points of up to 4 bytes
    *texts, last = [text[i : i + size] for i in range(0, len(text), size)] or [""]
    return texts, {**packet, key: last}


def place(frame):
    """Returns the file and line of the first frame of the program, if it is known."""
    while frame and frame.f_code.co_filename in (__file__, logging.__file__):
        frame = frame.f_back
    return position(frame.f_code.co_filename, frame.f_lineno) if frame else ""


def position(path, line):
    return "" if path.startswith("<") else f"{os.path.basename(path)}:{line}"


def default_socket():
    if named := os.environ.get("ZINO_REPL_SOCKET"):
        return named
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    own = os.path.join(runtime, "zino") if runtime else os.path.join(tempfile.gettempdir(), f"zino-{os.getuid()}")
    if not os.path.exists(os.path.join(own, "repl.sock")):
        return "/run/zino/repl.sock"
    info = os.lstat(own)  # a socket in this directory can run code here
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise PermissionError(f"{own} is not a directory that only you can use (mode 0700): remove it, or set ZINO_REPL_SOCKET")
    return os.path.join(own, "repl.sock")


def send(connection, packet):
    payload = json.dumps(packet, ensure_ascii=False).encode(errors="replace")
    connection.sendall(struct.pack(">I", len(payload)) + payload)


def receive(connection):
    def exactly(n):
        data = b""
        while len(data) < n:
            if not (more := connection.recv(n - len(data))):
                raise ConnectionError("the service hung up")
            data += more
        return data
    return json.loads(exactly(struct.unpack(">I", exactly(4))[0]))


class Tee:
    """Standard output whose lines are also captured."""

    def __init__(self, page, stream):
        self.page, self.stream, self.line = page, stream, ""

    def write(self, text):
        written = self.stream.write(text)
        *lines, self.line = (self.line + text).split("\n")
        for line in lines:
            self.page.capture("print", "log", line, place=place(sys._getframe(1)))
        if len(self.line) > 250_000:
            self.rest()
        return written

    def rest(self):
        line, self.line = self.line, ""
        if line:
            self.page.capture("print", "log", line)

    def __getattr__(self, name):
        return getattr(self.stream, name)


class Page(logging.Handler):
    """This program as a page of the REPL."""

    def __init__(self, name, names, path):
        super().__init__()
        self.name, self.names, self.path, self.me = name, names, path, {}
        self.live = self.closed = False
        self.blocks, self.jobs, self.answers = 0, None, None
        self.guard, self.events, self.dropped, self.news = threading.RLock(), [], 0, threading.Event()
        self.hooks = sys.excepthook, threading.excepthook
        sys.excepthook = lambda *error: (self.uncaught(*error), self.hooks[0](*error))
        threading.excepthook = lambda args: (self.uncaught(*args[:3]), self.hooks[1](args))
        sys.stdout = self.tee = Tee(self, sys.stdout)
        logging.getLogger().addHandler(self)
        for work in self.attach, self.send_batches:
            threading.Thread(target=work, name="zino_repl", daemon=True).start()

    def close(self):
        self.closed = True
        sys.stdout, (sys.excepthook, threading.excepthook) = self.tee.stream, self.hooks
        logging.getLogger().removeHandler(self)
        for connection in self.jobs, self.answers:
            if connection:
                connection.shutdown(sockets.SHUT_RDWR)

    def connect(self):
        connection = sockets.socket(sockets.AF_UNIX)
        connection.connect(self.path)
        return connection

    def attach(self):
        """Runs jobs, and reconnects after the connection is lost."""
        wait = 0.2
        while not self.closed:
            try:
                with self.connect() as self.jobs:
                    me = {key: self.me[key] for key in ("id", "nonce") if key in self.me}
                    send(self.jobs, {"type": "attach", "name": self.name, "lang": "python", "kind": "program", **me})
                    while packet := receive(self.jobs):
                        if packet["type"] == "attached":
                            with self.guard:
                                self.answers = self.connect()  # a stopping service still reads from this connection
                            self.me, self.live, wait = packet, True, 0.2
                        elif packet["type"] == "job":
                            self.report(type="result", job=packet["job"], **self.run(packet))
                        elif packet["type"] == "error":
                            sys.stderr.write(f"zino_repl: {packet['message']}\n")
            except (OSError, ValueError):
                self.live = False
            if not self.closed:
                time.sleep(wait)
            wait = min(wait * 2, 5)

    def run(self, job):
        if job.get("test"):
            return {"ok": False, "error": "blocks of tests run in JavaScript only: remove the word test, and use assert or unittest"}
        if job.get("outline"):
            return {"ok": False, "error": "a Python program has no elements to outline: evaluate code in it"}
        code = job["code"]
        self.blocks += 1
        name = f"<zino {self.blocks}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)  # for tracebacks
        try:
            *body, last = ast.parse(code, name).body or [ast.Pass()]
            if not isinstance(last, ast.Expr):
                body, last = [*body, last], None
            self.evaluate(ast.Module(body, []), name, "exec")
            return {"ok": True, **serialise(last and self.evaluate(ast.Expression(last.value), name, "eval"))}
        except BaseException as error:
            own = error.__traceback__
            while own and not own.tb_frame.f_code.co_filename.startswith("<zino"):
                own = own.tb_next
            return {"ok": False, "error": "".join(traceback.format_exception(type(error), error, own)).rstrip()}

    def evaluate(self, tree, name, mode):
        code = compile(tree, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, self.names)
        return asyncio.run(value) if code.co_flags & inspect.CO_COROUTINE else value

    def capture(self, kind, level, message, stack="", place=""):
        with self.guard:
            if len(self.events) >= EVENTS:
                self.dropped += 1
                return
            most = 250_000 if len(self.events) < 4 else 5_000
            ts = datetime.datetime.now().strftime("%H:%M:%S.%f")[:-3]
            event = {"type": kind, "level": level, "ts": ts, "place": place, "message": cut(message, most), "stack": cut(stack, most)}
            self.events.append(event)
        self.news.set()

    def uncaught(self, kind, error, trace):
        stack = "".join(traceback.format_exception(kind, error, trace)).rstrip()
        *_, at = [None, *traceback.extract_tb(trace)]
        self.capture("uncaught", "error", f"{kind.__name__}: {error}", stack, at and position(at.filename, at.lineno) or "")

    def emit(self, record):
        level = "error" if record.levelno >= 40 else "warn" if record.levelno >= 30 else "info"
        self.capture(f"logging.{record.name}", level, self.format(record), place=position(record.pathname, record.lineno))
        if logging.getLogger().handlers == [self] and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record)  # as logging does without handlers

    def send_batches(self):
        """Sends the captured events in batches."""
        while not self.closed:
            self.news.wait()
            time.sleep(0.05)
            if self.live:  # events are kept until the program is attached
                self.report()

    def report(self, **packet):
        """Sends the captured events, followed by the result, if any."""
        with self.guard:
            if packet:
                self.tee.rest()
            self.news.clear()
            events, self.events = self.events, []
            if self.dropped:
                events.append({"type": "adapter", "message": f"{self.dropped} more events were left out"})
                self.dropped = 0
            if events:
                self.send({"type": "events", "events": events})
            if packet:
                texts, packet = parts(packet)
                for text in texts:
                    if (self.send({"type": "part", "job": packet["job"], "text": text}) or {}).get("type") != "ok":  # too_large
                        packet["value" if packet["ok"] else "error"] = ""
                        break
                self.send(packet)

    def send(self, packet):
        packet = {"id": self.me.get("id", ""), "nonce": self.me.get("nonce", ""), **packet}
        for _ in range(2):  # the open connection may be stale: retry with a new one
            try:
                self.answers = self.answers or self.connect()
                send(self.answers, packet)
                return receive(self.answers)
            except (OSError, ValueError):
                self.answers = None


def attach(name=None, names=None, socket=None):
    """Connects this program. names is the namespace of the code; socket is a path."""
    main = sys.modules["__main__"]
    name = name or os.path.basename(getattr(main, "__file__", "") or "python")
    return Page(name, main.__dict__ if names is None else names, socket or default_socket())


def command(arguments):
    settings = {}
    while arguments and arguments[0].startswith("--"):
        key = arguments.pop(0)[2:]
        if key not in ("name", "socket") or not arguments:
            sys.exit("usage: python3 zino_repl.py [--name NAME] [--socket PATH] [SCRIPT [ARGUMENT...]]")
        settings[key] = arguments.pop(0)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    settings.setdefault("name", os.path.basename(arguments[0]) if arguments else "python")
    try:
        attach(names=main.__dict__, **settings)
    except PermissionError as error:
        sys.exit(str(error))
    if arguments:
        main.__file__, sys.argv, sys.path[0] = arguments[0], arguments, os.path.dirname(os.path.abspath(arguments[0]))
        try:
            with open(arguments[0], "rb") as script:
                exec(compile(script.read(), arguments[0], "exec"), main.__dict__)
        except Exception:
            sys.excepthook(*sys.exc_info())
    threading.Event().wait()


if __name__ == "__main__":
    try:
        command(sys.argv[1:])
    except KeyboardInterrupt:
        pass
