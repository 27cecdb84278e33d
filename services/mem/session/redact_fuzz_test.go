package session

import (
	"bytes"
	"encoding/json"
	"testing"

	"zino/pkg/zinotest"
)

// FuzzRedact checks that a masked line is one line, valid JSON if it was, and is not
// masked again.
func FuzzRedact(f *testing.F) {
	for _, c := range zinotest.Canaries() {
		f.Add([]byte(user(c.Text)))
		f.Add([]byte(c.Text))
	}
	f.Add([]byte(`{"type":"tool_use","id":"corporate-value-1","name":"a","input":{"corporate-value-1":"corporate-value-1","api_key": "a1b2c3d4e5f6g7h8i9"},"reasoning_state":{"a":"corporate-value-1"}}`))
	f.Add([]byte(`{"type":"message","text":"corporate-value-1`))
	m := newMasker(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSpace(line)
		if bytes.ContainsAny(line, "\r\n") {
			return
		}
		masked, n := maskLine(m, line)
		if n == 0 && !bytes.Equal(masked, line) {
			t.Fatalf("%q became %q without a mask", line, masked)
		}
		if bytes.ContainsAny(masked, "\r\n") || json.Valid(line) && !json.Valid(masked) {
			t.Fatalf("%q became %q", line, masked)
		}
		if bytes.Contains(line, []byte("PRIVATE")) {
			return // of a key with other characters in it more may be masked
		}
		if again, more := maskLine(m, bytes.Clone(masked)); more > 0 {
			t.Fatalf("%q became %q, and then %q", line, masked, again)
		}
	})
}
