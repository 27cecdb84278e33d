"""Keeps the list of pages open, as a browser does, until it is killed.

Prints "connected", or the line with which it was refused.
"""
import re
import socket
import urllib.request

ADDRESS = "127.0.0.1:8302"
page = urllib.request.urlopen(f"http://{ADDRESS}/zino/", timeout=20).read().decode()
token = re.search('data-token="([^"]+)"', page)[1]
with socket.create_connection(ADDRESS.split(":"), 20) as s:
    s.sendall((
        f"GET /zino/live HTTP/1.1\r\nHost: {ADDRESS}\r\nOrigin: http://{ADDRESS}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: zino, {token}\r\n\r\n").encode())
    status = s.makefile("rb").readline().decode()
    print("connected" if " 101 " in status else status, flush=True)
    s.settimeout(None)
    while s.recv(4096):
        pass
