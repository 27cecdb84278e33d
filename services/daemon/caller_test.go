package daemon

import (
	"context"
	"testing"

	"zino/pkg/zinotest/rpctest"
)

type packet = rpctest.Packet

// caller is a client that speaks bytes.
type caller struct {
	*rpctest.Conn
	t *testing.T
}

func (b *env) dial() *caller {
	b.t.Helper()
	return &caller{rpctest.Dial(b.t, b.cfg.Daemon.Socket), b.t}
}

// ask sends one request and reads its answer.
func (b *env) ask(payload string) (streamed string, last packet) {
	b.t.Helper()
	c := b.dial()
	c.Send(payload)
	return c.Finish()
}

// until waits for ch, or for the end of the request.
func until(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// modes runs f for collected and streamed requests; more is the field to add.
func modes(t *testing.T, f func(t *testing.T, stream bool, more string)) {
	t.Run("collected", func(t *testing.T) { f(t, false, "") })
	t.Run("streaming", func(t *testing.T) { f(t, true, `,"stream":true`) })
}
