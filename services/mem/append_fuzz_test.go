package mem

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// FuzzAppendSession appends any events with at. A request that succeeds has the same
// answer and results in the same file when it is repeated, also after a torn write; one
// that fails leaves no file.
func FuzzAppendSession(f *testing.F) {
	f.Add(`[`+hello+`]`, `{}`, 0)
	f.Fuzz(func(t *testing.T, events, header string, cut int) {
		dir, err := os.MkdirTemp("", "z") // TempDir is slow
		zinotest.Must(t, err)
		defer os.RemoveAll(dir)
		s := newSessions(config.Mem{SessionsDir: dir, Durability: "os"}, quiet())
		defer s.close()
		file, at := filepath.Join(dir, "s.jsonl"), int64(0)
		request := func() (proto.SessionPlace, error) {
			return s.append(context.Background(), proto.AppendSession{SessionID: "s", Create: true, At: &at, Events: proto.Raw(events), Header: proto.Raw(header)})
		}
		first, err := request()
		if err != nil {
			if entries, readErr := os.ReadDir(dir); readErr != nil || len(entries) > 0 {
				t.Fatalf("after %v: %v, %v", err, entries, readErr)
			}
			return
		}
		text := zinotest.Read(t, file)
		checkLines(t, text, first)
		for _, torn := range []string{text, text[:max(0, cut)%(len(text)+1)]} {
			zinotest.Must(t, os.WriteFile(file, []byte(torn), 0o600))
			again, err := request()
			if err != nil || again.Next != first.Next || !slices.Equal(again.Offsets, first.Offsets) || zinotest.Read(t, file) != text {
				t.Fatalf("a repeat after %q: %+v, %v, the file is\n%s\nwant %+v\n%s", torn, again, err, zinotest.Read(t, file), first, text)
			}
		}
	})
}

// checkLines checks that each line of a session is an event that ends at its offset.
func checkLines(t *testing.T, text string, place proto.SessionPlace) {
	t.Helper()
	end, ends := int64(0), []int64{}
	for line := range strings.Lines(text) {
		if !wire.Valid([]byte(line)) || line[0] != '{' || line[len(line)-1] != '\n' {
			t.Fatalf("a line %q", line)
		}
		end += int64(len(line))
		ends = append(ends, end)
	}
	if end != place.Next || !slices.Equal(ends[1:], place.Offsets) {
		t.Fatalf("%+v for lines that end at %v", place, ends)
	}
}
