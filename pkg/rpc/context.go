package rpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

type traceKey struct{}

// Trace is the identifier that all hops of a request share, empty outside one.
func Trace(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

type peerKey struct{}

// PeerUID is the user who sent the request, as the kernel knows it: -1 outside
// of one, and where the kernel does not say.
func PeerUID(ctx context.Context) int {
	if p, ok := ctx.Value(peerKey{}).(*peer); ok {
		return p.uid()
	}
	return -1
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
	if len(meta.Trace) > 64 || !plainName(meta.Trace) {
		return meta, fmt.Errorf("field %q: trace must be up to 64 letters, digits, '-' or '_'", "meta")
	}
	if meta.DeadlineMS < 0 || time.Duration(meta.DeadlineMS) > maxDeadline/time.Millisecond || meta.DeadlineMS == 0 && hasDeadline(text) {
		return meta, fmt.Errorf("field %q: deadline_ms must be 1 to %d", "meta", maxDeadline.Milliseconds())
	}
	return meta, nil
}

// hasDeadline reports whether a meta has a deadline at all.
func hasDeadline(text []byte) bool {
	for key, value := range wire.Members(text) {
		if string(key) == "deadline_ms" && string(value) != "null" {
			return true
		}
	}
	return false
}

func plainName(s string) bool {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// requestContext is the context that a handler gets.
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

// metaOf is what a call made under ctx tells the next hop.
func metaOf(ctx context.Context) proto.Meta {
	meta := proto.Meta{Trace: Trace(ctx), Keepalive: true}
	if deadline, ok := ctx.Deadline(); ok {
		meta.DeadlineMS = max(1, min(time.Until(deadline), maxDeadline).Milliseconds())
	}
	return meta
}
