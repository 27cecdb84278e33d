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
		methods                  []string
		chosen, request, sandbox string // sandbox: the level in use, configured or requested
		taken                    taken
		mode, sent               string
	}{
		{"a daemon without approvals", nil, "ask", "", "off", taken{}, "", ""},
		{"an unknown level", []string{"approve"}, "", "", "", taken{}, "", "derived"},
		{"level off", []string{"approve"}, "", "", "off", taken{}, "yolo", "derived"},
		{"a confined level", []string{"approve"}, "", "", "unit", taken{}, "auto", "derived"},
		{"a chosen mode", []string{"approve"}, "plan", "off", "off", taken{}, "plan", "plan"},
		{"the daemon has taken another", []string{"approve"}, "", "", "off", taken{mode: "ask"}, "ask", "derived"},
		{"a mode chosen since", []string{"approve"}, "auto", "", "off", taken{mode: "ask"}, "auto", "auto"},
		{"a level chosen since", []string{"approve"}, "", "off", "off", taken{mode: "auto"}, "yolo", "derived"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			x := newTestChat(t)
			x.methods = map[string]bool{}
			for _, m := range tt.methods {
				x.methods[m] = true
			}
			x.mode.chosen, x.mode.taken, x.sandbox, x.request.Sandbox = tt.chosen, tt.taken, tt.sandbox, proto.Level(tt.request)
			zinotest.Equal(t, "the mode", x.currentMode(), tt.mode)
			mode, reachable := x.gate()
			zinotest.Equal(t, "the mode that is sent", mode, tt.sent)
			zinotest.Equal(t, "reachable", reachable, tt.sent != "")
		})
	}
}

// TestFirstChat checks the line that says how to be asked, in a user's first chat only.
func TestFirstChat(t *testing.T) {
	x := newTestChat(t)
	x.methods, x.mode.first, x.sandbox = map[string]bool{"approve": true}, true, "off"
	x.learnMode()
	zinotest.Equal(t, "the line", x.printed(), "Commands run without asking (mode yolo). To be asked first: /mode ask, or\nShift-Tab.\n")
	x.learnMode()
	zinotest.Equal(t, "the second time", x.printed(), "")
	x.methods, x.mode.first, x.mode.chosen, x.version = map[string]bool{}, true, "ask", "0.1.3"
	x.learnMode()
	zinotest.Equal(t, "without approvals", x.printed(), "Not available: this daemon has no approvals (version 0.1.3).\n")
	zinotest.Equal(t, "the chosen mode", x.mode.chosen, "")
}
