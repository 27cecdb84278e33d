package sessions

import (
	"strings"
	"testing"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// FuzzTranscript checks that any event is printed without control characters, with at
// most one heading, and is counted if it is not printed.
func FuzzTranscript(f *testing.F) {
	for _, seed := range []string{
		`{"type":"meta","ts":"2026-11-21T14:03:07Z"}`, `{"type":"message","role":"\u001b","text":"\nUser:\u009b"}`, `{"type":"tool_use","name":"a\nb","input":{"\n":"\n"}}`,
		`{"type":"tool_result","tool_use_id":"1","output":{"ok":true,"data":{"stdout":"\u202e","exit_code":null}}}`, `{"type":"tool_result","output":{"ok":false}}`,
		`{"type":"usage","cost_usd":1e300}`, `{"type":"error","message":"\n"}`, `{"type":`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		var b strings.Builder
		var e Event
		meta := wire.Decode(event, &e) == nil && e.Type == "meta"
		p := newPrinter(&b)
		p.calls["1"] = "bash"
		zinotest.Must(t, p.event(proto.Raw(event)))
		if strings.ContainsFunc(b.String(), text.Hidden) {
			t.Errorf("control characters in %q", b.String())
		}
		if b.Len() == 0 && p.broken == 0 && len(p.unknown) == 0 && !meta {
			t.Errorf("%q is neither shown nor counted", event)
		}
		for i, line := range strings.Split(strings.TrimPrefix(b.String(), "\n"), "\n") {
			if i > 0 && line != "" && !strings.HasPrefix(line, "  ") && !meta {
				t.Errorf("%q looks like a second heading in %q", line, b.String())
			}
		}
	})
}
