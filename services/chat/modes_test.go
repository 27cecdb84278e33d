package chat

import (
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestMode checks which mode the next turn has, and what a request says.
func TestMode(t *testing.T) {
	for _, tt := range []struct {
		what                     string
		modes                    bool
		chosen, request, sandbox string // sandbox: the level in use, configured or requested
		taken                    taken
		mode, sent               string
	}{
		{"a daemon without modes", false, "ask", "", "off", taken{}, "", ""},
		{"an unknown level", true, "", "", "", taken{}, "", "derived"},
		{"level off", true, "", "", "off", taken{}, "yolo", "derived"},
		{"a confined level", true, "", "", "unit", taken{}, "auto", "derived"},
		{"a chosen mode", true, "plan", "off", "off", taken{}, "plan", "plan"},
		{"the daemon has taken another", true, "", "", "off", taken{mode: "ask"}, "ask", "derived"},
		{"a mode chosen since", true, "auto", "", "off", taken{mode: "ask"}, "auto", "auto"},
		{"a level chosen since", true, "", "off", "off", taken{mode: "auto"}, "yolo", "derived"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			x := newTestChat(t)
			x.modes, x.methods = tt.modes, map[string]bool{"approve": tt.modes}
			x.mode.chosen, x.mode.taken, x.sandbox, x.request.Sandbox = tt.chosen, tt.taken, tt.sandbox, proto.Level(tt.request)
			zinotest.Equal(t, "the mode", x.currentMode(), tt.mode)
			mode, reachable := x.gate()
			zinotest.Equal(t, "the mode that is sent", mode, tt.sent)
			zinotest.Equal(t, "reachable", reachable, tt.sent != "")
			x.methods = map[string]bool{}
			_, reachable = x.gate()
			zinotest.Equal(t, "reachable without approvals", reachable, false)
		})
	}
}

// TestFirstChat checks the line that says how to be asked, in a user's first chat only.
func TestFirstChat(t *testing.T) {
	x := newTestChat(t)
	x.modes, x.methods, x.mode.first, x.sandbox = true, map[string]bool{"approve": true}, true, "off"
	x.learnMode()
	zinotest.Equal(t, "the line", x.printed(), "Commands run without asking (mode yolo). To be asked first: /mode ask, or\nShift-Tab.\n")
	x.learnMode()
	zinotest.Equal(t, "the second time", x.printed(), "")
	x.methods, x.mode.first = map[string]bool{}, true
	x.learnMode()
	zinotest.Equal(t, "without approvals", x.printed(), "Commands run without asking (mode yolo). To have nothing changed: /plan, or\nShift-Tab.\n")
	x.setMode("ask")
	zinotest.Equal(t, "ask without approvals", x.printed(), "Mode ask from the next turn on: commands and changes are denied: this daemon\ncannot ask you yet.\n")
	x.modes, x.mode.first, x.mode.chosen, x.version = false, true, "ask", "0.1.3"
	x.learnMode()
	zinotest.Equal(t, "without modes", x.printed(), "Not available: this daemon has no approvals (version 0.1.3).\n")
	zinotest.Equal(t, "the chosen mode", x.mode.chosen, "")
}
