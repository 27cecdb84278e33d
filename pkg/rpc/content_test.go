package rpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// lines is a log to look at.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestContents: the log holds what requests and replies say at DEBUG alone, in
// bounds and without the caller's environment; the line of a request has its
// type and what the handler notes.
func TestContents(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		log := &lines{}
		s := rpc.NewServer("daemon", slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})))
		rpc.HandleText(s, proto.DaemonChat, func(ctx context.Context, req proto.Chat, _ *rpc.Out) (proto.Text, error) {
			rpc.Note(ctx, slog.String("session", req.SessionID))
			return proto.Text{Content: "marked answer"}, nil
		})
		socket := serveOn(t, s)
		c := &rpc.Client{Service: "daemon", Path: socket}
		long := "head mark " + strings.Repeat("x", 1<<20) + " tail mark"
		for _, req := range []proto.Chat{
			{Message: "marked question", SessionID: "s-1", Env: map[string]string{"HIDDEN": "marked variable"}},
			{Message: long},
		} {
			if _, err := rpc.CallText(t.Context(), c, proto.DaemonChat, req, nil); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if err := s.Shutdown(t.Context()); err != nil { // the last line is behind the answer
			t.Fatal(err)
		}
		text := log.String()
		for mark, n := range map[string]int{
			"marked question": want, "marked answer": 2 * want, "head mark": want, "tail mark": want, "bytes left out": want, "marked variable": 0,
		} {
			if got := strings.Count(text, mark); got != n {
				t.Errorf("%v: %q stands in the log %d times, want %d", level, mark, got, n)
			}
		}
		if len(text) > 64<<10 {
			t.Errorf("%v: %d bytes", level, len(text))
		}
		if !strings.Contains(text, "msg=request type=chat ") || !strings.Contains(text, " session=s-1") {
			t.Errorf("%v: no type or session: %s", level, text)
		}
	}
}
