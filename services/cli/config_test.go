package cli

import (
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
)

// TestConfigText sets three keys to what holds without them.
func TestConfigText(t *testing.T) {
	t.Parallel()
	text := initialConfig(config.Default())
	c, err := config.Parse([]byte(text), "f", "/d", "cli")
	if err != nil || len(c.Warnings) > 0 {
		t.Fatalf("%v, warnings %q", err, c.Warnings)
	}
	d := config.Default()
	if c.Model != d.Model || c.MaxTokens != d.MaxTokens || c.ToolTimeoutSecs != d.ToolTimeoutSecs || c.Exc.Timeout != d.Exc.Timeout {
		t.Errorf("not the defaults:\n%s", text)
	}
	var keys []string
	remarked := false
	for line := range strings.Lines(text) {
		if key, _, is := strings.Cut(line, " = "); is {
			keys = append(keys, key)
			if !remarked {
				t.Errorf("%s has no remark", key)
			}
		}
		remarked = strings.HasPrefix(line, "# ")
	}
	if !slices.Equal(keys, []string{"model", "max_tokens", "tool_timeout_secs"}) {
		t.Errorf("it sets %q", keys)
	}
}
