package term

import (
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/history"
	"zino/pkg/text"
	"zino/pkg/zinotest"
)

// TestRecalledMessages checks that messages are shown on one line without control
// characters, and given back as they were typed.
func TestRecalledMessages(t *testing.T) {
	h, err := history.Open(filepath.Join(zinotest.Dir(t), "chat_history"))
	zinotest.Must(t, err)
	r := &recalled{History: h}
	for message, want := range map[string]string{"one": "one", "two\n\tlines": "two⏎⇥lines", "a\x1b[31mb": "a^[[31mb"} {
		zinotest.Must(t, h.Add(message))
		shown := r.At(0)
		if shown != want || strings.ContainsFunc(shown, text.Hidden) {
			t.Errorf("%q is shown as %q, want %q", message, shown, want)
		}
		if got := r.original(shown); !strings.Contains(message, "\x1b") && got != message {
			t.Errorf("%q comes back as %q", message, got)
		}
	}
}
