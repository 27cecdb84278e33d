package mem

import (
	"testing"

	"zino/pkg/zinotest/rpctest"
)

// TestConformance covers the methods that the daemon uses for turns. The requests may
// be repeated.
func TestConformance(t *testing.T) {
	m := start(t, "")
	const first = `{"type":"turn","turn":"t-1","session_id":"s","state":"running","ts":"2026-11-22T10:00:00Z"}`
	const at = `{"type":"append_session","session_id":"s","create":true,"at":0,"header":{"ts":"2026-11-22T09:00:00Z"},"events":[` + first + `]}`
	const stored = `{"type":"session","session_id":"s","next":155,"offsets":[155]}`
	m.want(at, stored)
	rpctest.Conformance(t, m.path, []rpctest.Case{
		{Name: "a repeated append", Request: at, Reply: stored},
		{Name: "another end", Request: `{"type":"append_session","session_id":"s","at":12,"events":[` + first + `]}`, Code: "busy", Message: `session "s" ends at 155, expected 12`},
		{Name: "no time", Request: `{"type":"append_session","session_id":"s","at":155,"events":[{"type":"x"}]}`, Code: "invalid", Message: `events[0]: with at an event needs a ts, in RFC 3339`},
		{Name: "no time in the header", Request: `{"type":"append_session","session_id":"t","create":true,"at":0,"events":[]}`, Code: "invalid", Message: `header: with at 0 it needs a ts, in RFC 3339`},
		{Name: "at of a wrong type", Request: `{"type":"append_session","session_id":"s","at":[],"events":[]}`, Code: "invalid", Message: "Invalid request: …"},
		{Name: "offsets", Request: about("read_session", "s", `,"from":63,"max_bytes":1`), Reply: `{"type":"session_events","session_id":"s","events":[` + first + `],"offsets":[155],"next":155}`},
		{Name: "not a start", Request: about("read_session", "s", `,"from":17`), Code: "invalid", Message: "from 17 is not the start of an event"},
		{Name: "behind the end", Request: about("read_session", "s", `,"from":156`), Code: "invalid", Message: "from 156 is not the start of an event"},
		{Name: "open turns", Request: `{"type":"open_turns"}`, Reply: `{"type":"open_turns","turns":[{"session_id":"s","turn":"t-1","state":"running","updated":"2026-11-22T10:00:00Z"}]}`},
		{Name: "mend of a wrong type", Request: about("hold_session", "s", `,"mend":"no"`), Code: "invalid", Message: "Invalid request: …"},
	})
}
