package web

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"zino/pkg/wire"
)

// FuzzHandle: whatever a page says, it gets an answer that it can read.
func FuzzHandle(f *testing.F) {
	for _, text := range []string{
		`{"type":"result","id":"1a2b","nonce":"n","job":"1","ok":true,"kind":"json","value":"1"}`, `{"type":"events","id":"1a2b","nonce":"n","events":[{"type":"console","message":"x"}]}`,
		`{"type":"started","id":"1a2b","nonce":"n","job":"1"}`, `{"type":"hello","name":"x"}`, `{"type":"\ud800"}`, "", "[]", `{"type":{}}`,
	} {
		f.Add([]byte(text))
	}
	b := newBench(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		typ, packet := b.handle(t.Context(), text)
		got, err := wire.AppendObject(nil, typ, packet)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := wire.ReplyType(got); err != nil || again != typ || typ != "ok" && typ != "error" {
			t.Fatalf("%q: answered %s, %v", text, got, err)
		}
	})
}

// FuzzAddress: no address leads out of the directory, to a dotfile or to a log.
func FuzzAddress(f *testing.F) {
	for _, address := range []string{"/", "/a/b.html", "/sub/", "/../x", "//x", "/.git/config", "/debug/x.md", "/a\x00", "/debug.md", "/a/./b", "/DEBUG/"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !isPublic(name) {
			return
		}
		if !fs.ValidPath(name) || path.Clean("/"+name) != "/"+name || strings.Contains("/"+name, "/.") || strings.ContainsAny(name, "\\\x00") {
			t.Fatalf("%q may be asked for", name)
		}
		if first, _, _ := strings.Cut(name, "/"); strings.EqualFold(first, "debug") || strings.EqualFold(first, "debug.md") {
			t.Fatalf("%q may be asked for, which is a log", name)
		}
	})
}
