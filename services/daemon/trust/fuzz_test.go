package trust

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// FuzzParse checks for any .mcp.json and any settings file that what is used is JSON, that
// parsing it again changes nothing, and that it has the servers and hooks of the summary.
func FuzzParse(f *testing.F) {
	for _, content := range []string{
		covered[".mcp.json"], covered[".claude/settings.json"], `{"mcpServers":null}`, `{"mcpServers":{"a":1,"a":{"command":["x",2]}}}`,
		`{"hooks":{"Stop":[{"hooks":[{"type":"prompt"}]},1]}}`, "\ufeff{}", "{} {}", `{"a":` + "[[[[", `{"mcpServers":{"\u0000":{"env":{"a":1e999}}}}`,
	} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, parse := range []func(*found, []byte) error{(*found).parseMCP, (*found).parseHooks} {
			var first, second found
			if parse(&first, content) != nil {
				continue
			}
			if !json.Valid(first.content) {
				t.Fatalf("not JSON: %q", first.content)
			}
			if err := parse(&second, first.content); err != nil || second.count != first.count || second.Details != first.Details || !bytes.Equal(first.content, second.content) {
				t.Fatalf("%q: %v, %+v and %+v", content, err, first, second)
			}
			mergeServers(first.content, second.content)
		}
	})
}

// FuzzStore checks for any trust.json that what is read can be written and read again.
func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"version":1,"entries":[{"path":"/a","sha256":"` + string(bytes.Repeat([]byte("0a"), 32)) + `","trusted":true,"time":"2026-11-23T10:00:00Z"}]}`))
	f.Add([]byte(`{"version":1,"entries":[{"path":"a","sha256":"","trusted":1}]}`))
	f.Add([]byte(`{"version":2}x`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseStore(data)
		if err != nil {
			return
		}
		for _, a := range list {
			if y := a.Time.Year(); y < 0 || y > 9999 || a.Time.Equal(time.Time{}) {
				return
			}
		}
		again, err := json.Marshal(storeFile{1, list})
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseStore(again)
		if err != nil || len(back) != len(list) {
			t.Fatalf("%v: %s", err, again)
		}
		for i, a := range list {
			if state(back, a.Path, a.SHA256) != state(list, a.Path, a.SHA256) || back[i].Path != a.Path {
				t.Fatalf("entry %d differs: %s", i, again)
			}
		}
	})
}
