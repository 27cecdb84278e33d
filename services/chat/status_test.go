package chat

import (
	"fmt"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestStatus checks what the status line shows at different widths, and its styles.
func TestStatus(t *testing.T) {
	x := newTestChat(t)
	x.model, x.title, x.sandbox, x.windows = "claude-sonnet-5-5", "why does it fail?", "workspace-write", map[string]int64{"claude-sonnet-5-5": 200_000}
	x.used(usageOf(7_000, 1_000, 0.0231))
	x.queued = []*queued{{}, {}}
	for _, test := range []struct {
		width int
		want  string
	}{
		{120, "claude-sonnet-5-5 · /srv/proj · why does it fail? · workspace-write · $0.0231 · 4 % · 2 queued"},
		{93, "claude-sonnet-5-5 · /srv/proj · why does it fail? · workspace-write · $0.0231 · 4 %"},
		{80, "claude-sonnet-5-5 · /srv/proj · why does it fail? · workspace-write · 4 %"},
		{60, "claude-sonnet-5-5 · /srv/proj · why does it fail? · 4 %"},
		{54, "claude-sonnet-5-5 · /srv/proj · 4 %"},
		{34, "claude-sonnet-5-5 · 4 %"},
		{16, "claude-so… · 4 %"},
		{3, "4 %"},
	} {
		got := strip(x.status(test.width))
		if test.width == 3 {
			got = strings.TrimSpace(got)
			if x.widths.Of(got) > 3 {
				t.Errorf("%d cells in 3: %s", x.widths.Of(got), got)
			}
			continue
		}
		zinotest.Equal(t, fmt.Sprint("width ", test.width), got, test.want)
	}
	zinotest.Contains(t, "the styles", x.status(120), "\x1b[2mclaude-sonnet-5-5\x1b[m\x1b[2m · \x1b[m")
	x.sandbox = "off"
	x.used(usageOf(160_000, 0, 0.1))
	zinotest.Contains(t, "the styles", x.status(120), "\x1b[1msandbox off\x1b[m", "\x1b[1m80 % · /handoff\x1b[m")
	x.model, x.ready = "", true
	zinotest.Contains(t, "without a model", x.status(120), "no model: /provider", "160k")
	x.noSave = true
	zinotest.Contains(t, "without storage", x.status(120), "not saved")
}
