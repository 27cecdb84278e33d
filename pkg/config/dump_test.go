package config

import (
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// dump prints every key of c for comparison.
func dump(t *testing.T, c *Config) string {
	t.Helper()
	text, err := toml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
