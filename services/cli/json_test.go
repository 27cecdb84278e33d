package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestJSONErrorsBeforeTurn checks that a failure before the turn is a header and
// an error on standard output, and the usual line on standard error.
func TestJSONErrorsBeforeTurn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   string
		status int
		kind   string
	}{
		{"exec -p x --format json --session ../x", exitUsage, "usage"},
		{"exec --json", exitUsage, "usage"},
		{"exec --format json --nope -p x", exitUsage, "usage"},
		{"exec --nope -p x --json", exitUsage, "usage"},
		{"exec -p x --json --provider anthropic", exitError, "internal"},
	} {
		status, out, stderr := run(t, newWorld(t).command(strings.Fields(c.args)...), "")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var header, failure struct{ Type, Schema, Kind, Message string }
		if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &header) != nil || json.Unmarshal([]byte(lines[1]), &failure) != nil ||
			header.Type != "header" || header.Schema != "zino.events" || failure.Type != "error" || failure.Kind != c.kind || failure.Message == "" {
			t.Errorf("%s: stdout %q", c.args, out)
		}
		if status != c.status || !strings.HasPrefix(stderr, "Error ["+c.kind+"]: ") {
			t.Errorf("%s: status %d, stderr %q", c.args, status, stderr)
		}
	}
}

// TestErrorHasOnePrefix checks that the prefixes of relaying services are removed, and
// the advice to hand off if the session is not stored.
func TestErrorHasOnePrefix(t *testing.T) {
	t.Parallel()
	f := newFake(t, "")
	for args, want := range map[string]string{
		"exec -p":           `HTTP 400: too long. Go on in a new session: zino handoff --from-session x --goal "…"`,
		"exec --no-save -p": "HTTP 400: too long. Begin again with a shorter message; without --no-save a session can be handed off.",
	} {
		words := append(strings.Fields("--socket "+f.socket+" "+args), "too long")
		if status, _, stderr := run(t, newWorld(t).command(words...), ""); status != exitError || stderr != "Error [internal]: "+want+"\n" {
			t.Errorf("%s: status %d, stderr %q", args, status, stderr)
		}
		_, out, _ := run(t, newWorld(t).command(append(words, "--json")...), "")
		message, err := json.Marshal(want)
		if err != nil || !strings.Contains(out, `{"type":"error","message":`+string(message)) {
			t.Errorf("%s --json: stdout %q", args, out)
		}
	}
}
