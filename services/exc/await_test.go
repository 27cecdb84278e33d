package exc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zino/services/exc/files"
	"zino/services/exc/run"
)

// blocked is an operation on a disk that answers when dead is closed.
func blocked(dead <-chan struct{}) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		<-dead
		return "late", nil
	}
}

func TestAwait(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name  string
		limit time.Duration
		op    func(context.Context) (string, error)
		want  string
		err   error
	}{
		{"value", time.Second, func(context.Context) (string, error) { return "done", nil }, "done", nil},
		{"no limit", 0, func(context.Context) (string, error) { return "done", nil }, "done", nil},
		{"error", time.Second, func(context.Context) (string, error) { return "", boom }, "", boom},
		{"just in time", time.Second, func(context.Context) (string, error) { <-time.After(time.Second - 1); return "done", nil }, "done", nil},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			got, err := await(t.Context(), tt.limit, tt.op)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s: got %q, %v", tt.name, got, err)
			}
		})
	}
}

// An operation on a dead disk ends with the code timeout.
func TestAwaitDeadDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := make(chan struct{})
		defer close(dead)
		_, err := await(t.Context(), 30*time.Second, blocked(dead))
		if e, ok := errors.AsType[*files.Error](err); !ok || e.Code != files.Timeout || !strings.Contains(e.Message, "did not answer within 30s") {
			t.Errorf("got %v", err)
		}
	})
}

// When the caller hangs up, the operation has StopLimit to finish.
func TestAwaitHangUp(t *testing.T) {
	for name, after := range map[string]time.Duration{"ends": time.Second, "never ends": 2 * run.StopLimit} {
		synctest.Test(t, func(t *testing.T) {
			dead, started := make(chan struct{}), time.Now()
			time.AfterFunc(after, func() { close(dead) })
			ctx, hangUp := context.WithCancel(t.Context())
			hangUp()
			got, err := await(ctx, 0, blocked(dead))
			if waited := time.Since(started); waited != min(after, run.StopLimit) {
				t.Errorf("%s: waited for %v", name, waited)
			}
			if ended := got == "late" && err == nil; !ended && !errors.Is(err, context.Canceled) || ended != (after < run.StopLimit) {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
			<-dead
		})
	}
}

// A panic of the operation is passed on to the goroutine that waits.
func TestAwaitPanic(t *testing.T) {
	defer func() {
		if p, ok := recover().(string); !ok || !strings.Contains(p, "boom\n") || !strings.Contains(p, "await_test.go") {
			t.Errorf("got %q", p)
		}
	}()
	_, err := await(t.Context(), 0, func(context.Context) (string, error) { panic("boom") })
	t.Errorf("no panic, but %v", err)
}
