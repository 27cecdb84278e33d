package command

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// TestReadInput checks that the timeout applies to the first byte only.
func TestReadInput(t *testing.T) {
	timeout := make(chan time.Time)
	r, w := io.Pipe()
	defer w.Close()
	go func() { timeout <- time.Time{} }()
	if got, err := ReadInput(t.Context(), r, timeout); !errors.Is(err, ErrSilent) || got != "" {
		t.Errorf("timeout: %q, %v", got, err)
	}
	r, w = io.Pipe()
	go func() {
		w.Write([]byte("one "))
		select {
		case timeout <- time.Time{}:
			t.Error("the timeout applies after the first byte")
		default:
		}
		w.Write([]byte("two"))
		w.Close()
	}()
	if got, err := ReadInput(t.Context(), r, nil); err != nil || got != "one two" {
		t.Errorf("%q, %v", got, err)
	}
	r, w = io.Pipe()
	w.CloseWithError(errors.New("input/output error"))
	if _, err := ReadInput(t.Context(), r, nil); err == nil || err.Error() != "input/output error" {
		t.Errorf("%v", err)
	}
	for _, first := range []string{"", "x"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, w = io.Pipe()
		go func() {
			w.Write([]byte(first))
			cancel()
		}()
		if _, err := ReadInput(ctx, r, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
		w.Close()
	}
}
