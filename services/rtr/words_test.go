package rtr

import (
	"errors"
	"testing"
	"time"
)

func TestWaitInWords(t *testing.T) {
	for _, tt := range []struct {
		wait time.Duration
		want string
	}{
		{0, "0s"},
		{-time.Second, "-1s"},
		{437512 * time.Microsecond, "0.438s"},
		{2 * time.Second, "2s"},
		{59*time.Second + 400*time.Millisecond, "59.4s"},
		{90*time.Second + time.Millisecond, "1m30s"},
		{24 * time.Hour, "24h0m0s"},
	} {
		if got := seconds(tt.wait); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.wait, got, tt.want)
		}
	}
}

func TestFirstLine(t *testing.T) {
	for in, want := range map[string]string{"": "", "one": "one", "one\ntwo": "one"} {
		if got := firstLine(errors.New(in)); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}
