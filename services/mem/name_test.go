package mem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestChannelFiles(t *testing.T) {
	m := start(t, "")
	long := strings.Repeat("x", 200)
	for id, want := range map[string]string{
		"kitchen":       "kitchen.json",
		"A-b_9":         "A-b_9.json",
		long:            long + ".json",
		"my channel":    "my%20channel.json",
		"a.b":           "a%2Eb.json",
		"../../x":       "%2E%2E%2F%2E%2E%2Fx.json",
		".":             "%2E.json",
		"a/b":           "a%2Fb.json",
		"nul\x00":       "nul%00.json",
		"über":          "%C3%BCber.json",
		"my%20channel":  "my%2520channel.json",
		"kitchen.json":  "kitchen%2Ejson.json",
		"x.json.id":     "x%2Ejson%2Eid.json",
		"line\nbreak\\": "line%0Abreak%5C.json",
	} {
		m.want(put(id, msg("this is "+want)), ok)
		if got := m.read("channels/" + want); !strings.Contains(got, want) {
			t.Errorf("%q: the file %s contains %q", id, want, got)
		}
	}
	if _, err := os.Stat(filepath.Join(m.dir, "..", "x.json")); !os.IsNotExist(err) {
		t.Errorf("a file was created outside of the directory: %v", err)
	}
}

// TestDistinctChannels checks that ids that are easily confused have different
// histories.
func TestDistinctChannels(t *testing.T) {
	m := start(t, "")
	long := strings.Repeat("y", 5000)
	ids := []string{
		"a b", "a_b", "a%20b", "a%2520b", "a/b", "a\\b", "A b", "a b ", " a b", "a.b", "a\u0000b", "é", "e\u0301", "日本", long, long + "y", long[:201],
		strings.Repeat(" ", 67), strings.Repeat(" ", 68), strings.Repeat("日", 90), strings.Repeat("日", 91), "con", "CON", "a%~b", "%", "%%", "-", "\ufffd",
	}
	for _, id := range ids {
		m.want(get(id), hist())
		m.want(put(id, msg(id)), ok)
	}
	for _, id := range ids {
		var text strings.Builder
		text.WriteString(msg(id))
		if got := m.ask(get(id)); strings.Count(got, "role") != 1 {
			t.Errorf("%.30q shares a history: %.200s", id, got)
		}
	}
	for _, id := range ids {
		m.want(`{"type":"clear_history","channel_id":`+quoted(id)+`}`, ok)
	}
	if left, err := os.ReadDir(m.file("channels")); err != nil || len(left) != 0 {
		t.Errorf("remaining files: %v, %v", left, err)
	}
}

// TestLongChannelHash simulates two long ids with the same hash: the id file names
// another channel.
func TestLongChannelHash(t *testing.T) {
	m := start(t, "")
	id := strings.Repeat("long id ", 100)
	m.want(put(id, msg("mine")), ok)
	files, err := filepath.Glob(m.file("channels/*.id"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if owner, err := os.ReadFile(files[0]); err != nil || string(owner) != id {
		t.Errorf("the id file contains %.50q, %v", owner, err)
	}
	zinotest.Must(t, os.WriteFile(files[0], []byte("another id"), 0o600))
	m.want(get(id), hist())
	m.want(put(id, msg("second")), ok)
	m.want(get(id), hist(msg("second")))
	m.want(`{"type":"clear_history","channel_id":`+quoted(id)+`}`, ok)
	m.want(get(id), hist())
	if owner, err := os.ReadFile(files[0]); err != nil || string(owner) != "another id" {
		t.Errorf("the other's id file: %q, %v", owner, err)
	}
	zinotest.Contains(t, "the other's history", m.read("channels/"+strings.TrimSuffix(filepath.Base(files[0]), ".id")+".json"), "mine")
}

// TestEarlierLayout reads files in the earlier layout, whose names are unescaped
// ids.
func TestEarlierLayout(t *testing.T) {
	m := start(t, "")
	old := "[\n  {\n    \"role\": \"user\",\n    \"content\": \"old\"\n  }\n]"
	longID := strings.Repeat("z", 220)
	for _, id := range []string{"plain", "my channel", "v1.2", "über", ".hidden", "50% off", longID} {
		m.write("channels/"+id+".json", old)
		m.want(get(id), hist(msg("old")))
		m.want(put(id, msg("new")), ok)
		m.want(get(id), hist(msg("old"), msg("new")))
		if got := m.read("channels/" + id + ".json"); !strings.Contains(got, "new") {
			t.Errorf("%.20q: the old file contains %q", id, got)
		}
		m.want(`{"type":"clear_history","channel_id":`+quoted(id)+`}`, ok)
		m.want(get(id), hist())
	}

	// This file belongs to "a b", not to "a%20b".
	m.want(put("a b", msg("x")), ok)
	m.want(get("a%20b"), hist())

	// If both exist, the new name is used, and clear_history deletes both.
	m.write("channels/a b.json", old)
	m.want(get("a b"), hist(msg("x")))
	m.want(`{"type":"clear_history","channel_id":"a b"}`, ok)
	m.want(get("a b"), hist())
}

// FuzzNames checks that different ids have different files, with safe names.
func FuzzNames(f *testing.F) {
	f.Add("a b", "a%20b")
	f.Add("..", "../x")
	f.Add(strings.Repeat("ü", 200), strings.Repeat("ü", 199))
	f.Add("a%~0", "a%7E0")
	f.Fuzz(func(t *testing.T, a, b string) {
		root, err := os.OpenRoot(t.TempDir())
		zinotest.Must(t, err)
		defer root.Close()
		names := map[string]string{}
		for _, id := range []string{a, b} {
			if id == "" {
				continue
			}
			c, err := fileOf(root, id)
			zinotest.Must(t, err)
			for _, name := range []string{c.name, c.legacy, c.idFile} {
				if len(name)+len(".damaged-1000") > nameMax && name != c.legacy || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
					t.Fatalf("%q: the name %q", id, name)
				}
				if other, taken := names[name]; taken && other != id && name != "" {
					t.Fatalf("%q and %q share %q", id, other, name)
				}
				names[name] = id
			}
		}
	})
}
