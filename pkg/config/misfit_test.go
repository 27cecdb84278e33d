package config

import "testing"

// TestSameWords holds that loading a file says of a value that does not fit
// what the list of its problems says.
func TestSameWords(t *testing.T) {
	for _, text := range []string{
		"tool_timeout_secs = \"abc\"\n", "model = 1\n", "[exc]\nmax = 1\ntimeout = \"x\"\n", "exc = 3\n", "[[rtr.limit]]\nconcurrent = \"a\"\n",
		"[rtr]\nlimit = [{concurrent = 1.5}]\n", "max_tokens = 1\nmodel = \n", "[exc\n", "temperature = 9.0\n", "[exc]\ntimeout = -1\n",
	} {
		_, err := Parse([]byte(text), "Z", "/d", "cli")
		found := &faults{c: Default(), file: "Z", dir: "/d"}
		found.find([]byte(text))
		said := false
		for _, line := range found.lines() {
			said = said || err != nil && line == err.Error()
		}
		if !said {
			t.Errorf("%q: loading says %v, the problems are %q", text, err, found.lines())
		}
	}
}
