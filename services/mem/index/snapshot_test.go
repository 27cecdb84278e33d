package index

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"zino/pkg/zinotest"
)

func snapshot(t testing.TB, x *Index, stamp string) []byte {
	t.Helper()
	var b bytes.Buffer
	zinotest.Must(t, x.Snapshot(&b, []byte(stamp)))
	return b.Bytes()
}

// worn returns an index after all kinds of changes, with deleted documents and
// terms.
func worn() *pair {
	p := newPair(8)
	for range 300 {
		p.step()
	}
	for id := range p.ids / 2 {
		p.drop(id)
	}
	return p
}

// TestSnapshot checks that a restored index equals the original, also after further
// changes.
func TestSnapshot(t *testing.T) {
	p := worn()
	if len(p.free) == 0 || len(p.large) == 0 {
		t.Fatal("no term was deleted, or no count is large")
	}
	b := snapshot(t, p.Index, "state 1")
	x, err := Restore(bytes.NewReader(b), []byte("state 1"))
	zinotest.Must(t, err)
	if again := snapshot(t, x, "state 1"); !bytes.Equal(again, b) {
		t.Errorf("the snapshot of the restored index differs")
	}
	p.Index = x
	for range 20 {
		p.search(t)
		p.consistent(t)
		for range 10 {
			p.step()
		}
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	for what, x := range map[string]*Index{"new": New(), "no words": indexOf("", "?!"), "emptied": emptied()} {
		got, err := Restore(bytes.NewReader(snapshot(t, x, "")), nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if got.Len() != x.Len() {
			t.Errorf("%s: %d documents, want %d", what, got.Len(), x.Len())
		}
	}
}

func emptied() *Index {
	x := indexOf("red fox", "blue whale")
	x.Delete(0)
	x.Delete(1)
	return x
}

func TestRestoreStale(t *testing.T) {
	b := snapshot(t, indexOf("red fox"), "state 1")
	other := bytes.Clone(b)
	other[len(magic)]++
	for what, c := range map[string]struct {
		b     []byte
		stamp string
	}{
		"another stamp":   {b, "state 2"},
		"a longer stamp":  {b, "state 12"},
		"no stamp":        {b, ""},
		"another version": {other, "state 1"},
	} {
		if _, err := Restore(bytes.NewReader(c.b), []byte(c.stamp)); !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRestoreDamaged truncates a snapshot at every byte, and changes and removes
// every byte.
func TestRestoreDamaged(t *testing.T) {
	b := snapshot(t, indexOf("red fox", "", strings.Repeat("fox ", 100)), "s")
	for i := range b {
		cut, changed := b[:i], bytes.Clone(b)
		changed[i] ^= 1 << (i % 8)
		for what, damaged := range map[string][]byte{"cut": cut, "changed": changed, "without": slices.Delete(bytes.Clone(b), i, i+1)} {
			x, err := Restore(bytes.NewReader(damaged), []byte("s"))
			if err == nil || x != nil || !strings.Contains(err.Error(), "rebuild the index") {
				t.Errorf("%s at %d of %d: %v, %v", what, i, len(b), x, err)
			}
		}
	}
	if _, err := Restore(bytes.NewReader(append(bytes.Clone(b), 0)), []byte("s")); err == nil {
		t.Error("restored with an additional byte")
	}
}

// TestRestoreForeign reads invalid contents with a valid checksum.
func TestRestoreForeign(t *testing.T) {
	for what, body := range map[string]string{
		"nothing":                    "",
		"a term without bytes":       "\x01\x00\x01\x02\x00\x01",
		"a term that is not text":    "\x01\x01\xff\x01\x02\x00\x01",
		"a term twice":               "\x02\x01a\x01a\x01\x03\x00\x01\x01\x01",
		"a term in no document":      "\x02\x01a\x01b\x01\x02\x00\x01",
		"a term that is cut":         "\x01\x05ab",
		"more terms than bytes":      "\xff\xff\xff\xff\x0f",
		"an unknown term":            "\x01\x01a\x01\x02\x01\x01",
		"a term, but no terms":       "\x00\x01\x02\x00\x01",
		"terms not in order":         "\x02\x01a\x01b\x02\x02\x01\x01\x03\x00\x01\x00\x01",
		"a count of 0":               "\x01\x01a\x01\x02\x00\x00",
		"a count that is too large":  "\x01\x01a\x01\x02\x00\xff\xff\xff\xff\x7f",
		"more documents than bytes":  "\x01\x01a\xff\xff\xff\xff\x0f",
		"a document longer than all": "\x01\x01a\x01\xff\xff\xff\xff\x0f",
		"trailing bytes":             "\x01\x01a\x01\x02\x00\x01\x00",
		"a number that never ends":   strings.Repeat("\xff", 20),
		"missing documents":          "\x01\x01a\x02\x02\x00\x01",
	} {
		var b bytes.Buffer
		zinotest.Must(t, writeFrame(&b, nil, []byte(body)))
		if x, err := Restore(&b, nil); err == nil || x != nil || errors.Is(err, ErrStale) {
			t.Errorf("%s: %v, %v", what, x, err)
		}
	}
}

func TestSnapshotErrors(t *testing.T) {
	x := indexOf("red fox")
	if err := x.Snapshot(io.Discard, make([]byte, stampMax+1)); err == nil {
		t.Error("a stamp that is too long was accepted")
	}
	for name := range map[string]bool{"no such file": true} {
		f, err := os.OpenFile(filepath.Join(t.TempDir(), name), os.O_CREATE|os.O_RDONLY, 0o600)
		zinotest.Must(t, err)
		defer f.Close()
		if err := x.Snapshot(f, nil); err == nil {
			t.Error("wrote to a file that was opened for reading")
		}
	}
	if _, err := Restore(iotest.ErrReader(os.ErrPermission), nil); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a reader that fails: %v", err)
	}
	b := snapshot(t, x, "")
	if _, err := Restore(io.MultiReader(bytes.NewReader(b), iotest.ErrReader(os.ErrPermission)), nil); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a reader that fails at the end: %v", err)
	}
	if x, err := Restore(iotest.OneByteReader(bytes.NewReader(b)), nil); err != nil || x.Len() != 1 {
		t.Errorf("byte by byte: %v", err)
	}
}

// FuzzRestore reads any bytes as a whole snapshot and, with a valid checksum, as a
// body. An accepted snapshot must give a usable index.
func FuzzRestore(f *testing.F) {
	whole := snapshot(f, worn().Index, "")
	f.Add(whole)
	f.Add(snapshot(f, indexOf("red fox", "red whale"), ""))
	f.Add(whole[len(magic)+4 : len(whole)-4])
	f.Add([]byte("\x02\x01a\x01b\x02\x02\x00\x01\x03\x00\x01\x01\x02"))
	f.Add([]byte(magic + "\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var framed bytes.Buffer
		zinotest.Must(t, writeFrame(&framed, nil, b))
		for _, in := range [][]byte{b, framed.Bytes()} {
			x, err := Restore(bytes.NewReader(in), nil)
			if (err == nil) != (x != nil) {
				t.Fatalf("%v, %v", x, err)
			}
			if err == nil {
				use(t, x)
			}
		}
	})
}

// use changes a restored index and searches it.
func use(t *testing.T, x *Index) {
	n := x.Len()
	x.Put(len(x.docs), "red fox")
	hits := x.Search(Query{Text: "red fox", K: 3})
	if x.Len() != n+1 || len(hits) == 0 {
		t.Fatalf("%d documents after one was added to %d; found %v", x.Len(), n, hits)
	}
	for id := range x.docs {
		x.Delete(id)
	}
	if x.Len() != 0 || len(x.numbers) != 0 {
		t.Fatalf("%d documents, %d terms after all were deleted", x.Len(), len(x.numbers))
	}
}
