#!/usr/bin/env python3
"""List the calls of models that wait for an answer, and ask about each.

usage: approvals.py DAEMON_SOCKET
"""
import json
import sys

from zino import ask


def call(path, **request):
    """Return the answer to a request."""
    reply = json.loads(list(ask(path, json.dumps(request)))[-1])
    if reply["type"] == "error":
        sys.exit("approvals.py: " + reply["message"])
    return reply


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for a in call(sys.argv[1], type="approvals")["approvals"]:
        print(a["id"], json.dumps([a["call"], a["preview"], a["reasons"]], indent=2))
        answer = {"y": "once", "n": "deny"}.get(input("allow it? [y/n, else later] "))
        if answer:  # it holds for what was printed: the digest says so
            print(call(sys.argv[1], type="approve", id=a["id"], digest=a["digest"], answer=answer)["state"])
