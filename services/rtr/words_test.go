package rtr

import (
	"errors"
	"testing"
	"time"

	"zino/proto"
)

func TestWaitInWords(t *testing.T) {
	for _, tt := range []struct {
		wait           time.Duration
		seconds, about string
	}{
		{0, "0s", ""},
		{-time.Second, "-1s", ""},
		{437512 * time.Microsecond, "0.438s", ", in about 0.438s"},
		{2 * time.Second, "2s", ", in about 2s"},
		{59*time.Second + 400*time.Millisecond, "59.4s", ", in about 59.4s"},
		{90*time.Second + time.Millisecond, "1m30s", ", in about 1m30s"},
		{24 * time.Hour, "24h0m0s", ", in about 24h0m0s"},
	} {
		if got, about := seconds(tt.wait), about(tt.wait); got != tt.seconds || about != tt.about {
			t.Errorf("%v: got %q and %q", tt.wait, got, about)
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

func TestWithSystem(t *testing.T) {
	for _, tt := range []struct{ messages, want string }{
		{`[]`, `[{"role":"system","content":"be \"kind\" <ä>"}]`},
		{` [ {"role":"user","n": 1.0} , {"role":"user"} ] `, `[{"role":"system","content":"be \"kind\" <ä>"},{"role":"user","n": 1.0},{"role":"user"}]`},
	} {
		if got, err := withSystem(`be "kind" <ä>`, proto.Raw(tt.messages)); err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v", tt.messages, got, err)
		}
	}
	if got, err := withSystem("x", proto.Raw(`{`)); err == nil {
		t.Errorf("no list gives %s", got)
	}
}
