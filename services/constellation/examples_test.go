package constellation_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// TestExamples sends the examples of PROTOCOL.md to the real services and compares the
// types of all values.
func TestExamples(t *testing.T) {
	provider := fakellm.New() // for the list of models: the configured provider, offline, has none
	defer provider.Close()
	provider.SetModels("claude-sonnet-5-5")
	t.Setenv("ANTHROPIC_API_KEY", "key")
	t.Setenv("ANTHROPIC_BASE_URL", provider.Host)
	cfg := start(t)
	f, err := os.Open("../../proto/testdata/examples.jsonl")
	zinotest.Must(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var example struct {
			Service string
			Request json.RawMessage
			Replies []json.RawMessage
		}
		zinotest.Must(t, json.Unmarshal(lines.Bytes(), &example))
		switch example.Service {
		case "*":
			example.Service = "mem"
		case "repl", "run":
			continue // not in a constellation; the tests of repl and exc check them
		}
		want := string(example.Replies[len(example.Replies)-1])
		t.Run(example.Service, func(t *testing.T) { // its connections end with it
			got := lastOf(ask(t, cfg.Socket(example.Service), string(example.Request)))
			zinotest.Eventually(t, "the service is not busy", func() bool {
				if strings.Contains(got, `"code":"busy"`) {
					got = lastOf(ask(t, cfg.Socket(example.Service), string(example.Request)))
					return false
				}
				return true
			})
			if err := sameShape(want, got); err != nil {
				t.Errorf("%s: got %s, printed %s: %v", example.Request, got, want, err)
			}
		})
	}
	zinotest.Must(t, lines.Err())
}

func lastOf(packets []string) string { return packets[len(packets)-1] }

// mayLack are keys that depend on the configuration.
var mayLack = map[string]bool{"endpoint": true, "usage": true, "tool_calls": true, "model": true, "problems": true}

// sameShape compares the type of two packets and the Go types of all values in want.
func sameShape(want, got string) error {
	var w, g map[string]any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return err
	}
	if w["type"] != g["type"] {
		return fmt.Errorf("the type is %v", g["type"])
	}
	for key, value := range w {
		if _, ok := g[key]; !ok && mayLack[key] {
			continue
		}
		if a, b := fmt.Sprintf("%T", value), fmt.Sprintf("%T", g[key]); a != b {
			return fmt.Errorf("%s is %s and not %s", key, b, a)
		}
	}
	return nil
}
