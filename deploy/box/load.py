"""Sends requests until SIGTERM, then prints their results as JSON.

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
results = collections.Counter()
slowest = 0.0


def answer(path, worker):
    """Make one request on a new connection and return its result."""
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
    """Send requests in a loop. A request that the service had not read when it
    ended is sent once more, as the protocol demands."""
    global slowest
    while not ended.is_set():
        begin = time.monotonic()
        result = answer(path, worker)
        if result == RESET:
            with lock:
                results["sent again"] += 1
            result = answer(path, worker)
        with lock:
            results[result] += 1
            slowest = max(slowest, time.monotonic() - begin)
        if result.startswith("refused"):
            time.sleep(0.01)


signal.signal(signal.SIGTERM, lambda *_: ended.set())
workers = [threading.Thread(target=work, args=(sys.argv[1], i)) for i in range(int(sys.argv[2]))]
for w in workers:
    w.start()
for w in workers:
    w.join()
print(json.dumps({"results": results, "slowest_ms": round(slowest * 1000)}))
