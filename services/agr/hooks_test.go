package agr

import (
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestRecoverHooked checks that a call of an earlier attempt keeps to what hooks have decided
// about it, and that none of them runs again.
func TestRecoverHooked(t *testing.T) {
	t.Parallel()
	hooks := `,"hooks":[{"event":"PreToolUse","command":"exit 2","timeout_ms":1000,"on_failure":"block"},{"event":"PostToolUse","command":"exit 2","timeout_ms":1000,"on_failure":"block"}]`
	with := func(members string) string {
		return strings.TrimSuffix(open("a", "bash", `{"command":"asked"}`, "recover"), "}") + "," + members + "}"
	}
	for _, c := range []struct {
		name, call string
		exc        []string
		input      string // that exc got; empty: it was not called
		packet     string
	}{
		{
			"denied", with(`"hook":{"decision":"deny","reason":"no"}`), nil, "",
			finished("a", "bash", failedWith("denied", "hook: no")),
		},
		{
			"changed", with(`"run_input":{"command":"changed"},"hook":{"context":"mind the gap"}`),
			[]string{recorded},
			`"input":{"command":"changed"}`,
			marked(finished("a", "bash", `{"ok":true,"data":{"n":1},"hook":"mind the gap"}`), "recovered"),
		},
		{
			"asked about", with(`"hook":{"decision":"ask","reason":"sure?"}`),
			[]string{recorded},
			`"ask":"sure?"`,
			marked(finished("a", "bash", `{"ok":true,"data":{"n":1}}`), "recovered"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t, says("Done.")).withMemory()
			x := e.playExc(c.exc...)
			f := e.follow(question, resumed(c.call)+hooks)
			packets, at := f.until()
			compare(t, packets, begun("a", "bash"), c.packet, checkpoint(4, "infer"))
			f.ok(at, "")
			zinotest.Equal(t, "terminal packet", f.finish(), `{"type":"done","full_text":"Done.","iterations":1}`)
			zinotest.Equal(t, "requests to exc", len(x.requests.All()), len(c.exc))
			if c.input != "" {
				zinotest.Contains(t, "request", x.requests.All()[0], c.input)
			}
		})
	}
}
