package config

import "testing"

// TestTypeErrors checks that loading a file and listing its problems report the same
// error for a value of the wrong type.
func TestTypeErrors(t *testing.T) {
	for _, text := range []string{
		"tool_timeout_secs = \"abc\"\n", "model = 1\n", "[exc]\nmax = 1\ntimeout = \"x\"\n", "exc = 3\n", "[[rtr.limit]]\nconcurrent = \"a\"\n",
		"[rtr]\nlimit = [{concurrent = 1.5}]\n", "max_tokens = 1\nmodel = \n", "[exc\n", "temperature = 9.0\n", "[exc]\ntimeout = -1\n",
	} {
		_, err := Parse([]byte(text), "Z", "/d", "cli")
		found := &faults{c: Default(), file: "Z", dir: "/d"}
		found.find([]byte(text))
		same := false
		for _, line := range found.lines() {
			same = same || err != nil && line == err.Error()
		}
		if !same {
			t.Errorf("%q: Parse: %v, problems: %q", text, err, found.lines())
		}
	}
}
