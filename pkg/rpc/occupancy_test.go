package rpc_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
)

// unfinished begins a frame of 2 MiB, of which it sends so much that the server
// allocates all of it.
func unfinished(t *testing.T, path string) (nc *net.UnixConn, rest []byte) {
	t.Helper()
	payload := []byte(`{"type":"ping","x":"` + strings.Repeat("x", 2<<20) + `"}`)
	all := append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
	nc = dial(t, path)
	write(t, nc, all[:1<<20+1<<10])
	return nc, all[1<<20+1<<10:]
}

// TestUnfinishedFrames: the memory of unfinished frames is bounded, of one user
// and of all, and is free again when they are complete or given up.
func TestUnfinishedFrames(t *testing.T) {
	for name, limits := range map[string][2]int{"of a user": {5 << 20, 1 << 30}, "of all": {1 << 30, 5 << 20}} {
		t.Run(name, func(t *testing.T) {
			path, s := start(t, "mem", func(s *rpc.Server) {
				s.SetLimits(time.Hour, time.Hour)
				s.SetFrameBytes(limits[0], limits[1])
			})
			first, rest := unfinished(t, path)
			second, _ := unfinished(t, path)
			until(t, func() bool { return s.FrameBytes() >= 4<<20 })
			refused, more := unfinished(t, path)
			go refused.Write(more) // as a client does, which reads then
			if got := receive(t, refused); !strings.Contains(got, "requests that are not complete. Try again later.") || !strings.Contains(got, `"code":"busy"`) {
				t.Errorf("got %s", got)
			}
			write(t, first, rest)
			if got := receive(t, first); !strings.Contains(got, `"pong"`) {
				t.Errorf("got %s", got)
			}
			second.Close()
			until(t, func() bool { return s.FrameBytes() == 0 })
			again, rest := unfinished(t, path)
			write(t, again, rest)
			if got := receive(t, again); !strings.Contains(got, `"pong"`) {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// TestIdleConnections: the oldest idle connections make room for new ones. Those
// with a request in flight stay.
func TestIdleConnections(t *testing.T) {
	for name, limits := range map[string][2]int{"of a user": {3, 100}, "of all": {100, 3}} {
		t.Run(name, func(t *testing.T) {
			b := newBlocking()
			path, s := start(t, "mem", func(s *rpc.Server) {
				b.register(s)
				s.SetFresh(time.Millisecond)
				s.SetHalf(time.Millisecond)
				s.SetIdle(limits[0], limits[1])
			})
			working, half, quiet := dial(t, path), dial(t, path), dial(t, path)
			send(t, working, getSoft)
			within(t, "the handler", b.begun)
			write(t, half, []byte{0, 0})
			until(t, func() bool { return s.Reading() == 1 })
			ping(t, quiet)
			for range 4 {
				ping(t, dial(t, path))
			}
			for _, nc := range []net.Conn{half, quiet} {
				if n, err := nc.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("an old connection: read %d bytes, %v", n, err)
				}
			}
			close(b.release)
			if got := receive(t, working); !strings.Contains(got, "released") {
				t.Errorf("got %s", got)
			}
			until(t, func() bool { return s.Connections() <= 4 })
		})
	}
}

func ping(t *testing.T, nc *net.UnixConn) {
	t.Helper()
	send(t, nc, `{"type":"ping"}`)
	if got := receive(t, nc); !strings.Contains(got, `"pong"`) {
		t.Errorf("got %s", got)
	}
}
