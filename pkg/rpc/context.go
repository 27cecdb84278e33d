package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

type (
	traceKey struct{}
	peerKey  struct{}
	notesKey struct{}
)

// Trace returns the identifier that all hops of a request share, empty outside of
// a request.
func Trace(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

// PeerUID returns the user who sent the request, as the kernel reports it: -1
// outside of a request, and where the kernel does not report it.
func PeerUID(ctx context.Context) int {
	if p, ok := ctx.Value(peerKey{}).(*peer); ok {
		return p.uid()
	}
	return -1
}

// PeerPID returns the process that has opened the connection, as the kernel reports it: -1
// outside of a request, and where the kernel does not report it.
func PeerPID(ctx context.Context) int {
	if p, ok := ctx.Value(peerKey{}).(*peer); ok {
		return p.pid()
	}
	return -1
}

// notes are attributes that a handler adds to the log line of its request.
type notes struct {
	passive *atomic.Bool // see Passive
	mu      sync.Mutex
	attrs   []slog.Attr
	spare   [][]byte // see Recycle
}

// Recycle has the memory of b used again when the request has been answered: the answer
// may contain b, nothing else may keep a part of it. It is for long lists of messages,
// which are a turn's largest allocations.
func Recycle(ctx context.Context, b []byte) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.spare = append(n.spare, b)
	}
}

// free frees what was recycled.
func (n *notes) free() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.spare {
		poison(b)
		wire.Free(b)
	}
	n.spare = nil
}

// Passive marks a request that only waits for what others do: it does not keep the
// service from retiring when idle. Its handler must return when Shutdown begins.
func Passive(ctx context.Context) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.passive.Store(true)
	}
}

// Note adds attributes to the line that is logged at the end of this request.
// They name its subject, never its content.
func Note(ctx context.Context, attrs ...slog.Attr) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.attrs = append(n.attrs, attrs...)
	}
}

// maxDeadline bounds meta.deadline_ms: a day.
const maxDeadline = 24 * time.Hour

// readMeta decodes and checks the text of a request's "meta".
func readMeta(text []byte) (proto.Meta, error) {
	var meta proto.Meta
	if len(text) == 0 || string(text) == "null" {
		return meta, nil
	}
	if err := wire.Decode(text, &meta); err != nil {
		return meta, fmt.Errorf("field %q: %w", "meta", err)
	}
	valid := len(meta.Trace) <= 64
	for _, c := range meta.Trace {
		valid = valid && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	}
	if !valid {
		return meta, fmt.Errorf("field %q: trace must be up to 64 letters, digits, '-' or '_'", "meta")
	}
	valid = 0 <= meta.DeadlineMS && time.Duration(meta.DeadlineMS) <= maxDeadline/time.Millisecond
	if meta.DeadlineMS == 0 { // absent, null, or a 0 that was given
		for key, value := range wire.Members(text) {
			valid = valid && (string(key) != "deadline_ms" || string(value) == "null")
		}
	}
	if !valid {
		return meta, fmt.Errorf("field %q: deadline_ms must be 1 to %d", "meta", maxDeadline.Milliseconds())
	}
	return meta, nil
}

// requestContext returns the context of a handler.
func requestContext(parent context.Context, p *peer, meta proto.Meta) (context.Context, context.CancelFunc) {
	if meta.Trace == "" {
		meta.Trace = strconv.FormatUint(rand.Uint64()|1<<63, 16) // 16 digits
	}
	ctx := context.WithValue(context.WithValue(parent, peerKey{}, p), traceKey{}, meta.Trace)
	if meta.DeadlineMS > 0 {
		return context.WithTimeout(ctx, time.Duration(meta.DeadlineMS)*time.Millisecond)
	}
	return context.WithCancel(ctx)
}

// metaOf returns the meta of a call with ctx. The deadline is rounded up, so that the
// caller's passes first: a timeout of the next hop would look like its own error.
func metaOf(ctx context.Context) proto.Meta {
	meta := proto.Meta{Trace: Trace(ctx), Keepalive: true}
	if deadline, ok := ctx.Deadline(); ok {
		meta.DeadlineMS = max(1, min(time.Until(deadline)+time.Millisecond-1, maxDeadline).Milliseconds())
	}
	return meta
}
