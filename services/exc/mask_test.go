package exc

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/mask"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/run"
)

// TestLiveOutputIsMasked cuts output in two at every place, and one byte at a time.
func TestLiveOutputIsMasked(t *testing.T) {
	secret := "ghp_" + strings.Repeat("aB3dE6gH9", 4)
	text := "before\ntoken " + secret + "\nafter " + secret
	m, err := mask.NewSource(config.Default().Mask, nil).Masker(nil, nil)
	zinotest.Must(t, err)
	show := func(pieces ...string) string {
		var shown strings.Builder
		live := run.NewLive(func(o proto.ToolOutput) error { shown.WriteString(o.Text); return nil })
		c := &turnCall{mask: m, lives: map[*run.Live]bool{live: true}}
		for _, piece := range pieces {
			c.tap("stdout", []byte(piece))
		}
		c.flush()
		live.Stop()
		return shown.String()
	}
	want := show(text)
	if strings.Contains(want, secret) || strings.Count(want, "[masked:github:") != 2 || !strings.HasPrefix(want, "before\ntoken [") {
		t.Errorf("whole: %q", want)
	}
	zinotest.Equal(t, "bytes", show(strings.Split(text, "")...), want)
	for i := range text {
		zinotest.Equal(t, text[:i], show(text[:i], text[i:]), want)
	}
}
