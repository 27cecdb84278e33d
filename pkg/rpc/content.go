package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"zino/pkg/wire"
)

// contentMax is how many bytes of one field of a packet the debug log holds, and
// contentsMax how many of a packet.
const (
	contentMax  = 4 << 10
	contentsMax = 16 << 10
)

// logContent logs what a packet says, at the level DEBUG alone.
func (s *Server) logContent(ctx context.Context, message, typ string, packet []byte) {
	if quiet[typ] || !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	var text strings.Builder
	for key, value := range wire.Members(packet) {
		switch string(key) {
		case "type", "meta", "env": // env is the caller's whole environment
			continue
		}
		fmt.Fprintf(&text, "%s: %s\n", key, shortened(string(value), contentMax))
	}
	s.log.DebugContext(ctx, message, "type", nameOf(typ), "trace", Trace(ctx), "content", shortened(strings.TrimSuffix(text.String(), "\n"), contentsMax))
}

// shortened is the head and the tail of a text that is longer than limit.
func shortened(text string, limit int) string {
	if len(text) > limit {
		text = fmt.Sprintf("%s[%d bytes left out]%s", text[:limit/2], len(text)-limit/2*2, text[len(text)-limit/2:])
	}
	return strings.ToValidUTF8(text, "?")
}

// nameOf is the type of a request in the log. That of the daemon's chat requests
// is empty on the wire.
func nameOf(typ string) string {
	if typ == "" {
		return "chat"
	}
	return typ
}

type notesKey struct{}

// notes are attributes that a handler adds to the log line of its request.
type notes struct {
	mu    sync.Mutex
	attrs []slog.Attr
}

// Note adds attributes to the line that the log gets at the end of this request.
// They say what it is about, never what it contains.
func Note(ctx context.Context, attrs ...slog.Attr) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.attrs = append(n.attrs, attrs...)
	}
}
