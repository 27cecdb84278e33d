// Command echo is the floor: bytes over a socket, with nothing that reads them.
package main

import (
	"io"
	"net"
	"strings"

	"zino/services/constellation/peers/peer"
)

// The bytes are those of Zino's protocol: frames with JSON.
const (
	ping  = "\x00\x00\x00\x0f" + `{"type":"ping"}`
	pong  = "\x00\x00\x00\x4a" + `{"type":"pong","service":"exc","version":"0123456","proto":1,"uptime_s":0}`
	chunk = "\x00\x00\x00\x3a" + `{"type":"chunk","delta":"` + peer.Chunk + `"}`
)

func main() {
	peer.Main(serve, func(path string) (peer.Conn, error) {
		nc, err := net.Dial("unix", path)
		return &conn{nc, make([]byte, 32<<10)}, err
	})
}

func serve(l net.Listener) error {
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(nc)
	}
}

// all are the chunks of a stream.
var all = []byte(strings.Repeat(chunk, peer.Chunks))

func answer(nc net.Conn) {
	defer nc.Close()
	buf := make([]byte, 4096)
	for {
		n, err := nc.Read(buf)
		if err != nil {
			return
		}
		switch string(buf[:n]) {
		case peer.Flushed:
			for rest := all; len(rest) > 0 && err == nil; rest = rest[len(chunk):] {
				_, err = nc.Write(rest[:len(chunk)])
			}
		case peer.AtOnce:
			_, err = nc.Write(all)
		default:
			_, err = nc.Write([]byte(pong))
		}
		if err != nil {
			return
		}
	}
}

type conn struct {
	net.Conn
	buf []byte
}

func (c *conn) Ping() error {
	return c.exchange(ping, len(pong))
}

func (c *conn) Stream(how string) (int, error) {
	return peer.Chunks * len(peer.Chunk), c.exchange(how, peer.Chunks*len(chunk))
}

func (c *conn) exchange(request string, n int) error {
	if _, err := io.WriteString(c.Conn, request); err != nil {
		return err
	}
	for n > 0 {
		got, err := c.Read(c.buf)
		if err != nil {
			return err
		}
		n -= got
	}
	return nil
}
