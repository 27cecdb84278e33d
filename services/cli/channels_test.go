package cli

import (
	"strings"
	"testing"
)

func TestChannels(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	m.expect(t, "", []string{"channels", "list"}, 0, "", "No channels.\n")
	m.with(func() {
		m.histories["a/b\x1b"] = `[{"role":"user","content":"q\n\u009b2J"},{"role":"assistant","content":"a","x":"\u202e"}]`
		m.histories["empty"] = `[]`
		m.histories["much"] = "large"
	})
	m.expect(t, "", []string{"channels", "list"}, 0,
		"UPDATED           BYTES  CHANNEL\n2026-11-21 14:03  89     a/b^[\n2026-11-21 14:03  2      empty\n2026-11-21 14:03  5      much\n", "")
	_, out, _ := m.zino(t, "", "channels", "list", "--json")
	if !strings.HasPrefix(out, `{"channel_id":"a/b\u001b","bytes":89,"updated":"2026-11-21T14:03:07Z"}`+"\n") || strings.Count(out, "\n") != 3 {
		t.Errorf("printed %q", out)
	}

	m.expect(t, "", []string{"channels", "show", "a/b\x1b"}, 0, "user: q\n  \\u009b2J\nassistant: a\n", "")
	m.expect(t, "", []string{"channels", "show", "a/b\x1b", "-n", "1"}, 0, "assistant: a\n", "")
	m.expect(t, "", []string{"channels", "show", "a/b\x1b", "--json"}, 0,
		`{"role":"user","content":"q\n\u009b2J"}`+"\n"+`{"role":"assistant","content":"a","x":"\u202e"}`+"\n", "")
	m.expect(t, "", []string{"channels", "show", "empty"}, 0, "", "")
	m.expect(t, "", []string{"channels", "show", "much"}, 1, "", "Error [internal]: too much; for the last 100 of them: -n 100\n")

	const unknown = "Error [internal]: there is no channel \"nope\"; zino channels list shows those there are\n"
	m.expect(t, "", []string{"channels", "show", "nope"}, 1, "", unknown)
	m.expect(t, "", []string{"channels", "clear", "nope"}, 1, "", unknown)
	for _, id := range []string{"a/b\x1b", "empty", "much"} {
		m.expect(t, "", []string{"channels", "clear", id}, 0, "", "")
	}
	m.expect(t, "", []string{"channels", "list"}, 0, "", "No channels.\n")
}
