package cli

import (
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
)

// TestConfigText checks that the initial file sets three keys to their defaults, each
// with a comment.
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
				t.Errorf("%s has no comment", key)
			}
		}
		remarked = strings.HasPrefix(line, "# ")
	}
	if !slices.Equal(keys, []string{"model", "max_tokens", "tool_timeout_secs"}) {
		t.Errorf("keys %q", keys)
	}
}
