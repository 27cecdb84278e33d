"""Keeps asking a service until it is told to end (SIGTERM), and then says what came of it.

usage: load.py SOCKET WORKERS
"""
import collections
import json
import signal
import socket
import struct
import sys
import threading
import time

RESET = "cut off before it was read"
ended = threading.Event()
lock = threading.Lock()
outcomes = collections.Counter()
slowest = 0.0


def answer(path, worker):
    """Make one request as a first-time caller, and name what became of it."""
    request = json.dumps({"message": "hello there", "channel_id": f"load-{worker}"}).encode()
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        try:
            s.connect(path)
        except OSError as err:
            return f"refused: {err.strerror}"
        try:
            s.sendall(struct.pack(">I", len(request)) + request)
            stream = s.makefile("rb")
            head = stream.read(4)
            if len(head) < 4:
                return "cut off"
            packet = json.loads(stream.read(struct.unpack(">I", head)[0]))
        except (ConnectionResetError, BrokenPipeError):
            return RESET
        except OSError as err:
            return f"cut off: {err}"
    if packet["type"] == "error":
        return "error: " + packet["message"]
    return "answered"


def work(path, worker):
    """Ask again and again. A request that was not taken, because the service
    ended before it had read it, is made once more, as the protocol has it."""
    global slowest
    while not ended.is_set():
        begin = time.monotonic()
        outcome = answer(path, worker)
        if outcome == RESET:
            with lock:
                outcomes["sent again"] += 1
            outcome = answer(path, worker)
        with lock:
            outcomes[outcome] += 1
            slowest = max(slowest, time.monotonic() - begin)
        if outcome.startswith("refused"):
            time.sleep(0.01)


signal.signal(signal.SIGTERM, lambda *_: ended.set())
workers = [threading.Thread(target=work, args=(sys.argv[1], i)) for i in range(int(sys.argv[2]))]
for w in workers:
    w.start()
for w in workers:
    w.join()
print(json.dumps({"outcomes": outcomes, "slowest_ms": round(slowest * 1000)}))
