package config

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
)

// rule is what a key's value must satisfy, and the words for a user.
type rule struct {
	key  string
	ok   bool
	want string
}

// check refuses values that no service could work with.
func (c *Config) check(file string, set keys) error {
	for _, r := range c.rules() {
		if r.ok {
			continue
		}
		for _, k := range set {
			if k.name == r.key {
				return fmt.Errorf("%s:%d:%d: %s must be %s", file, k.line, k.column, r.key, r.want)
			}
		}
		return fmt.Errorf("%s: %s must be %s", file, r.key, r.want)
	}
	return nil
}

func (c *Config) rules() []rule {
	seconds := "a number of seconds, 0 to 86400 (0: no limit)"
	return []rule{
		{"provider", slices.Contains([]string{"", "auto", "openai", "offline"}, c.Provider), `"auto", "openai" or "offline"`},
		{"max_tokens", c.MaxTokens >= 0, "0 or more"},
		{"temperature", within(c.Temperature, 0, 2), "from 0 to 2"},
		{"tool_timeout_secs", within(c.ToolTimeoutSecs, 0, 86400), seconds},
		{"agent.temperature", within(c.Agent.Temperature, 0, 2), "from 0 to 2"},
		{"agent.top_p", within(c.Agent.TopP, 0, 1), "from 0 to 1"},
		{"rtr.stall_timeout", within(c.Rtr.StallTimeout, 0, 86400), seconds},
		{"api.base_url", isURL(c.API.BaseURL), "an http or https URL such as http://127.0.0.1:8080/v1"},
		{"exc.timeout", within(c.Exc.Timeout, 0, 86400), seconds},
		{"exc.output_max", c.Exc.OutputMax >= 1024 && c.Exc.OutputMax <= 7<<20, "from 1024 to 7340032 bytes"},
		{"mem.durability", slices.Contains([]string{"fsync", "os"}, c.Mem.Durability), `"fsync" or "os"`},
		{"logging.level", isLevel(c.Logging.Level), `"DEBUG", "INFO", "WARN" or "ERROR"`},
	}
}

func within(v, low, high float64) bool { return !math.IsNaN(v) && v >= low && v <= high }

func isURL(s string) bool {
	u, err := url.Parse(s)
	return s == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func isLevel(s string) bool {
	return slices.Contains([]string{"DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL"}, strings.ToUpper(s))
}
