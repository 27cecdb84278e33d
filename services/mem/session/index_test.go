package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestIndex lists sessions with a valid, an outdated, an invalid and no index.
func TestIndex(t *testing.T) {
	b := newEnv(t, "")
	for _, id := range []string{"a", "b", "c"} {
		b.put(id, user("text of "+id))
	}
	want := fmt.Sprint(b.list(0))
	path := filepath.Join(b.dir, indexFile)
	data, err := os.ReadFile(path)
	zinotest.Must(t, err)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	// Change a text in the index to see that List uses it.
	lie := strings.ReplaceAll(string(data), "text of b", "a lie")
	zinotest.Must(t, os.WriteFile(path, []byte(lie), 0o600))
	zinotest.Equal(t, "the list with a changed index", fmt.Sprint(newEnv(t, b.dir).list(0)), strings.ReplaceAll(want, "text of b", "a lie"))
	for what, text := range map[string]string{
		"none": "", "no JSON": "{", "null": "null", "a list": "[]", "cut": string(data[:len(data)/2]),
		"another version": strings.Replace(lie, fmt.Sprintf(`"version":%d`, indexVersion), `"version":99`, 1),
		"impossible":      strings.NewReplacer(`"end":`, `"end":9`, "text of", "lie of").Replace(string(data)),
		"other files":     strings.NewReplacer(`"inode":`, `"inode":1`, "text of", "lie of").Replace(string(data)),
		"older files":     strings.NewReplacer(`"mtime":`, `"mtime":1`, "text of", "lie of").Replace(string(data)),
		"shorter files":   strings.NewReplacer(`"size":`, `"size":1`, "text of", "lie of").Replace(string(data)),
	} {
		zinotest.Must(t, os.WriteFile(path, []byte(text), 0o600))
		zinotest.Equal(t, what, fmt.Sprint(newEnv(t, b.dir).list(0)), want)
	}
	// A removed session is also removed from the index.
	again := newEnv(t, b.dir)
	if _, err := again.Remove(t.Context(), proto.RemoveSession{SessionID: "b"}); err != nil {
		t.Fatal(err)
	}
	zinotest.Must(t, os.Remove(b.path("c")))
	again.list(0)
	data, err = os.ReadFile(path)
	if err != nil || !json.Valid(data) || !strings.Contains(string(data), "text of a") || strings.Contains(string(data), "of b") || strings.Contains(string(data), "of c") {
		t.Errorf("the index is %s, %v", data, err)
	}
}

// TestDigest appends random events in the ways that there are. The digest that the
// store keeps must be that of the whole file, also where another store or a person has
// written to it.
func TestDigest(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		b := newEnv(t, "")
		other := newEnv(t, b.dir)
		for step := range 30 {
			id := fmt.Sprint(rnd.IntN(3))
			event := timed([]string{
				user(id), says(id), use(id), result(id), turn(id, "queued"), turn(id, "running"), turn(id, "parked"), turn(id, "done"),
				with(says(id), "turn", quoted(id)), `{"type":"usage","cost_usd":0.25}`, `{"type":"title","text":"` + id + `"}`,
			}[rnd.IntN(11)])
			switch rnd.IntN(8) {
			case 0:
				other.put("s", event)
			case 1:
				zinotest.Must(t, b.hold("s", b.unexpected()).release())
			case 2:
				b.put("s")
				text := b.file("s")
				b.writeText("s", text[:len(text)-rnd.IntN(min(len(text), 40))])
			case 3:
				end := b.put("s")
				_, err := b.add(proto.AppendSession{SessionID: "s", At: &end}, event, event)
				zinotest.Must(t, err)
			default:
				b.put("s", event, timed(user("on")))
			}
			have, err := b.look(t.Context(), "s")
			if errors.Is(err, proto.ErrNotFound) {
				continue
			}
			zinotest.Must(t, err)
			fresh := newEnv(t, b.dir)
			fresh.digests = map[string]digest{}
			want, err := fresh.look(t.Context(), "s")
			zinotest.Must(t, err)
			zinotest.Equal(t, fmt.Sprintf("seed %d, step %d", seed, step), jsonOf(t, have), jsonOf(t, want))
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	zinotest.Must(t, err)
	return string(data)
}

// FuzzIndex reads any file as an index. Every accepted entry must have a valid name
// and an offset within the file.
func FuzzIndex(f *testing.F) {
	for _, sessions := range []string{
		`{"a":{"size":10,"mtime":1,"inode":3,"end":10,"schema":1,"events":1,"messages":1,"open":[{"id":"x"}],"open_turns":[{"turn":"t-1","state":"running"}],"last_turn":"running"}}`,
		`{"../a":{},"b":{"end":-1},"c":{"size":1,"end":3},"d":{"messages":-1},"e":null}`, `null`,
	} {
		f.Add(fmt.Appendf(nil, `{"version":%d,"sessions":%s}`, indexVersion, sessions))
	}
	f.Add([]byte(`[]`))
	b := newEnv(f, "")
	b.write("a", head, user("x"))
	want := fmt.Sprint(b.list(0))
	f.Fuzz(func(t *testing.T, data []byte) {
		for id, d := range parseIndex(data) {
			if proto.CheckSessionID(id) != nil || d.End < 0 || d.End > d.Size+1 || d.Messages < 0 {
				t.Fatalf("%q: %+v", id, d)
			}
		}
		zinotest.Must(t, os.WriteFile(filepath.Join(b.dir, indexFile), data, 0o600))
		// Only an index with the file's size, time and end is used.
		if got := fmt.Sprint(newEnv(t, b.dir).list(0)); got != want {
			t.Fatalf("%s\nwant %s", got, want)
		}
	})
}
