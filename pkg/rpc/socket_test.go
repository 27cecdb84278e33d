package rpc

import (
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// socketPair returns two connected sockets.
func socketPair(t *testing.T) (near, far net.Conn) {
	l, err := net.Listen("unix", filepath.Join(zinotest.Dir(t), "s"))
	zinotest.Must(t, err)
	defer l.Close()
	near, err = net.Dial("unix", l.Addr().String())
	zinotest.Must(t, err)
	far, err = l.Accept()
	zinotest.Must(t, err)
	t.Cleanup(func() { near.Close(); far.Close() })
	return newSocket(near), newSocket(far)
}

// TestSocketTransfersAll sends more than the kernel buffers, both ways at once.
func TestSocketTransfersAll(t *testing.T) {
	near, far := socketPair(t)
	sent := bytes.Repeat([]byte("bread"), 1<<20)
	written := make(chan error, 2)
	for _, nc := range []net.Conn{near, far} {
		go func() {
			_, err := nc.Write(sent)
			written <- err
		}()
	}
	for _, nc := range []net.Conn{far, near} {
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("received other bytes than were sent: %v", err)
		}
	}
	for range 2 {
		zinotest.Must(t, zinotest.Receive(t, "the end of a write", written))
	}
}

// TestSocketErrors compares the errors of a socket with those of a net.Conn.
func TestSocketErrors(t *testing.T) {
	near, far := socketPair(t)
	near.SetReadDeadline(past)
	if _, err := near.Read(make([]byte, 1)); !timedOut(err) {
		t.Errorf("a read after its deadline: %v", err)
	}
	near.SetReadDeadline(time.Time{})
	far.Close()
	if n, err := near.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("a read from a closed peer: %d bytes, %v", n, err)
	}
	_, err := near.Write([]byte("x"))
	if _, isNet := errors.AsType[net.Error](err); !isNet || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write to a closed peer: %v", err)
	}
	near.Close()
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read from a closed socket: %v", err)
	}
}
