package rpc_test

import (
	"context"
	"net"
	"testing"
	"time"

	"zino/pkg/rpc"
)

// TestDrainHalf: a frame that does not come to its end holds up no shutdown,
// whether it began before that or after. A whole one is answered.
func TestDrainHalf(t *testing.T) {
	for _, tt := range []struct {
		name  string
		half  time.Duration
		first int // bytes before the shutdown
		whole bool
	}{
		{"inside the head", time.Millisecond, 2, false},
		{"inside the body", time.Millisecond, 9, false},
		{"completed in time", time.Hour, 9, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, s := start(t, "mem", func(s *rpc.Server) {
				s.SetLimits(time.Hour, time.Hour)
				s.SetHalf(tt.half)
			})
			nc := dial(t, path)
			ping := frame(`{"type":"ping","x":1}`)
			write(t, nc, ping[:tt.first])
			until(t, func() bool { return s.Reading() == 1 })
			done := make(chan struct{})
			go func() { defer close(done); s.Shutdown(context.Background()) }()
			<-s.Draining()
			if tt.whole {
				write(t, nc, ping[tt.first:])
			}
			if got := receive(t, nc); (got != "") != tt.whole {
				t.Errorf("got %q", got)
			}
			within(t, "the end", done)
		})
	}
}

// TestDrainHalfBegun: the frame begins when the drain has begun already.
func TestDrainHalfBegun(t *testing.T) {
	path, s := start(t, "mem", func(s *rpc.Server) {
		s.SetLimits(time.Hour, time.Hour)
		s.SetFresh(time.Hour)
		s.SetHalf(time.Millisecond)
	})
	nc := dial(t, path)
	until(t, func() bool { return s.Connections() == 1 })
	done := make(chan struct{})
	go func() { defer close(done); s.Shutdown(context.Background()) }()
	<-s.Draining()
	write(t, nc, frame(`{"type":"ping"}`)[:9])
	if got := receive(t, nc); got != "" {
		t.Errorf("got %q", got)
	}
	within(t, "the end", done)
}

func write(t *testing.T, nc net.Conn, b []byte) {
	t.Helper()
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
}
