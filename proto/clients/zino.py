#!/usr/bin/env python3
"""Make one request to a service of Zino and print each packet of the answer.

usage: zino.py SOCKET '{"type":"ping"}'

The exit status is 1 after an error. The protocol: ../PROTOCOL.md
"""
import json
import socket
import struct
import sys


def ask(path, request):
    """Yield the packets that answer request, up to the terminal one."""
    payload = request.encode()
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(struct.pack(">I", len(payload)) + payload)
        stream = s.makefile("rb")
        while len(head := stream.read(4)) == 4:
            packet = stream.read(struct.unpack(">I", head)[0])
            yield packet
            if json.loads(packet).get("type") not in ("chunk", "keepalive"):
                return
    raise ConnectionError("the service hung up before its answer was complete")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        for packet in ask(sys.argv[1], sys.argv[2]):
            sys.stdout.buffer.write(packet + b"\n")
            sys.stdout.flush()
    except OSError as err:
        sys.exit(f"zino.py: {sys.argv[1]}: {err}")
    sys.exit(json.loads(packet).get("type") == "error")
