package zinotest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// Buffer is output that a test reads while it is written. Its zero value is
// empty.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Reset forgets what was written so far.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}

// Contains reports whether all parts were written.
func (b *Buffer) Contains(parts ...string) bool {
	text := b.String()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// Count returns how often part was written.
func (b *Buffer) Count(part string) int { return strings.Count(b.String(), part) }

// WaitFor waits until all parts were written.
func (b *Buffer) WaitFor(t testing.TB, parts ...string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() && !b.Contains(parts...) {
			t.Logf("waited for %q in:\n%s", parts, b)
		}
	})
	Eventually(t, strings.Join(parts, ", "), func() bool { return b.Contains(parts...) })
}

// Logger returns a logger of all levels that writes lines of key=value here.
func (b *Buffer) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
