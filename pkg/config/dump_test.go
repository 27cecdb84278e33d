package config

import (
	"testing"

	"github.com/pelletier/go-toml/v2"

	"zino/pkg/zinotest"
)

// dump prints every key of c for comparison.
func dump(t *testing.T, c *Config) string {
	t.Helper()
	text, err := toml.Marshal(c)
	zinotest.Must(t, err)
	return string(text)
}
