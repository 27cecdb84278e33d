"""Tries to approve a call of its own turn, as code that a model has run.

TARGETS, a dict, is defined above this text: sockets, and daemon, the one of the daemon;
pid of the daemon; keys, files to read; files to change; zino, the command line of zino;
id and digest of a pending request. A line NAME<TAB>RESULT is printed for each attack:
GOT IT, or what stopped it.
"""
import ctypes
import json
import os
import re
import socket
import struct
import subprocess

PID = TARGETS["pid"]
libc = ctypes.CDLL(None, use_errno=True)


def ask(path, request):
    payload = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(path)
        s.sendall(struct.pack(">I", len(payload)) + payload)
        stream = s.makefile("rb")
        return json.loads(stream.read(struct.unpack(">I", stream.read(4))[0]))


def connect(path):
    ask(path, {"type": "ping"})


def approve():
    answer = ask(TARGETS["daemon"], {"type": "approve", "id": TARGETS["id"], "digest": TARGETS["digest"], "answer": "once"})
    if answer["type"] != "approval":
        raise OSError(answer)


def read(path):
    with open(path, "rb") as f:
        if not f.read():
            raise OSError("it is empty")


def change(path):
    with open(path, "a") as f:
        f.write("# attacked\n")


def replace(path):
    with open(path + ".attack", "w") as f:
        f.write("# attacked\n")
    os.rename(path + ".attack", path)


def call(number, *args):
    """Make a system call."""
    result = libc.syscall(number, *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def trace():
    if libc.ptrace(16, PID, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(PID, 0x40000000)
    libc.ptrace(17, PID, 0, 0)


def memory():
    with open(f"/proc/{PID}/maps") as f:
        begin = next(int(line.split("-")[0], 16) for line in f if " rw-p " in line)
    with open(f"/proc/{PID}/mem", "rb") as f:
        f.seek(begin)
        f.read(1)


def descriptor():
    pidfd = call(434, PID, 0)
    for fd in range(3, 20):
        try:
            os.close(call(438, pidfd, fd, 0))
            return
        except OSError as err:
            why = err
    raise why


def zino(job):
    env = dict(os.environ)
    if not job:
        env.pop("ZINO_JOB", None)
    elif "ZINO_JOB" not in env:
        return  # it is for exc to set it
    done = subprocess.run(TARGETS["zino"] + ["approve", "--yes", TARGETS["id"]], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(done.stderr.strip())


def attempt(name, attack, *args):
    try:
        attack(*args)
        result = "GOT IT"
    except Exception as err:
        result = re.sub(r"\s+", " ", f"{type(err).__name__}: {err}")
    print(name, result, sep="\t", flush=True)


attempt("approve with ZINO_JOB", zino, True)
for path in TARGETS["sockets"]:
    attempt("connect to " + os.path.basename(path), connect, path)
for path in TARGETS["keys"]:
    attempt("read " + os.path.basename(path), read, path)
    attempt("read by /proc " + os.path.basename(path), read, f"/proc/{PID}/root{path}")
attempt("environment of the daemon", read, f"/proc/{PID}/environ")
attempt("memory of the daemon", memory)
attempt("ptrace of the daemon", trace)
attempt("descriptors of the daemon", descriptor)
attempt("signal to the daemon", os.kill, PID, 0)
attempt("approve without ZINO_JOB", zino, False)
attempt("approve by the socket", approve)
for path in TARGETS["files"]:
    attempt("change " + os.path.basename(path), change, path)
    attempt("replace " + os.path.basename(path), replace, path)
