package mem

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/services/mem/store"
)

// logged opens memories that write a snapshot after every element, and returns their
// log.
func logged(t *testing.T, dir string) (*memories, *zinotest.Buffer) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	zinotest.Must(t, err)
	t.Cleanup(func() { root.Close() })
	log := new(zinotest.Buffer)
	m := openMemories(root, newProblems(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))), true)
	if _, err := m.Len(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.work.Wait()
	m.turn.Lock()
	defer m.turn.Unlock()
	m.least = 1
	return m, log
}

// snapped returns a directory with memories and a snapshot without the last changes.
func snapped(t *testing.T) string {
	t.Helper()
	dir := zinotest.Dir(t)
	m, _ := logged(t, dir)
	for i := range 40 {
		v := store.Memory{Messages: said(fmt.Sprintf("memory %d of %s", i, strings.Repeat("tea ", i))), Tag: fmt.Sprint("t", i%3), Channel: fmt.Sprint("c", i%2)}
		if _, err := m.Put(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	m.work.Wait()
	m.turn.Lock()
	m.catalog.saved = 0
	m.save()
	m.turn.Unlock()
	m.work.Wait()
	zinotest.Must(t, m.Update(t.Context(), 3, store.Change{Messages: said("a plum")}))
	zinotest.Must(t, m.Delete(t.Context(), 5))
	zinotest.Must(t, m.Close())
	return dir
}

// answers returns the results of several searches and of a scan.
func answers(t *testing.T, m *memories) string {
	t.Helper()
	var b strings.Builder
	for _, q := range []string{"tea", "memory 7", "plum", "t2", "of"} {
		for _, channel := range []string{"", "c1"} {
			list, err := m.Search(t.Context(), store.Query{Text: q, K: 100, Explain: true, Filter: store.Filter{Channel: channel}})
			fmt.Fprintln(&b, q, list, err)
		}
	}
	for v, err := range m.Scan(t.Context(), store.Filter{Tag: "t1"}) {
		fmt.Fprintln(&b, v, err)
	}
	fmt.Fprintln(&b, m.catalog.elements, m.catalog.duplicates, len(m.catalog.first), m.catalog.names.list)
	return b.String()
}

func TestSnapshot(t *testing.T) {
	dir := snapped(t)
	m, log := logged(t, dir)
	defer m.Close()
	if m.catalog.saved < 30 || strings.Contains(log.String(), "snapshot") {
		t.Errorf("%d elements came from the snapshot; log %s", m.catalog.saved, log)
	}
	fresh := zinotest.Dir(t)
	zinotest.Must(t, os.WriteFile(filepath.Join(fresh, hardFile), []byte(fileIn(t, dir)), 0o600))
	if got, want := answers(t, m), answers(t, openStore(t, fresh)); got != want {
		t.Errorf("with the snapshot\n%s\nand without\n%s", got, want)
	}
	id, err := m.Put(t.Context(), store.Memory{Messages: said("one more")})
	if err != nil || id != 40 {
		t.Errorf("id %d, %v", id, err)
	}
	names, err := os.ReadDir(dir)
	for _, n := range names {
		if n.Name() != hardFile && n.Name() != snapshotFile && n.Name() != snapshotLock && n.Name() != snapshotNew {
			t.Errorf("there is a file %s", n.Name())
		}
	}
	if fi, statErr := os.Stat(filepath.Join(dir, snapshotFile)); err != nil || statErr != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v %v", err, statErr, fi)
	}
}

// TestBadSnapshots checks that a damaged or stale snapshot is ignored and logged,
// and does not change any result.
func TestBadSnapshots(t *testing.T) {
	for what, spoil := range map[string]func(snapshot, memories []byte) ([]byte, []byte){
		"empty":         func(s, m []byte) ([]byte, []byte) { return nil, m },
		"cut":           func(s, m []byte) ([]byte, []byte) { return s[:len(s)/2], m },
		"cut early":     func(s, m []byte) ([]byte, []byte) { return s[:len(snapshotMagic)+3], m },
		"longer":        func(s, m []byte) ([]byte, []byte) { return append(s, 0), m },
		"a bit":         func(s, m []byte) ([]byte, []byte) { s[len(s)-20] ^= 1; return s, m },
		"an early bit":  func(s, m []byte) ([]byte, []byte) { s[len(snapshotMagic)+60] ^= 1; return s, m },
		"its length":    func(s, m []byte) ([]byte, []byte) { s[len(snapshotMagic)] = 0x7f; return s, m },
		"other version": func(s, m []byte) ([]byte, []byte) { s[len(snapshotMagic)-2]++; return s, m },
		"changed memories": func(s, m []byte) ([]byte, []byte) {
			return s, bytes.Replace(m, []byte("memory 7 of"), []byte("memory 8 or"), 1)
		},
		"fewer memories": func(s, m []byte) ([]byte, []byte) {
			return s, append(m[: len(m)/2 : len(m)/2][:bytes.LastIndex(m[:len(m)/2], []byte(",\n"))], "\n]"...)
		},
		"another beginning": func(s, m []byte) ([]byte, []byte) { return s, append([]byte(" "), m...) },
	} {
		t.Run(what, func(t *testing.T) {
			dir, fresh := snapped(t), zinotest.Dir(t)
			name := filepath.Join(dir, snapshotFile)
			snapshot, err := os.ReadFile(name)
			zinotest.Must(t, err)
			snapshot, text := spoil(snapshot, []byte(fileIn(t, dir)))
			for file, data := range map[string][]byte{name: snapshot, filepath.Join(dir, hardFile): text, filepath.Join(fresh, hardFile): text} {
				zinotest.Must(t, os.WriteFile(file, data, 0o600))
			}
			m, log := logged(t, dir)
			defer m.Close()
			if m.catalog.saved != 0 || !strings.Contains(log.String(), "is not used") || strings.Contains(log.String(), "level=WARN") {
				t.Errorf("%d elements came from the snapshot; log %s", m.catalog.saved, log)
			}
			if got, want := answers(t, m), answers(t, openStore(t, fresh)); got != want {
				t.Errorf("with the snapshot\n%s\nand without\n%s", got, want)
			}
		})
	}
}

// TestSnapshotDamagedAnywhere changes every byte of a snapshot and truncates it there.
func TestSnapshotDamagedAnywhere(t *testing.T) {
	dir := zinotest.Dir(t)
	m, _ := logged(t, dir)
	for _, text := range []string{"tea and plums", "memory 7 of tea"} {
		if _, err := m.Put(t.Context(), store.Memory{Messages: said(text), Tag: "t1"}); err != nil {
			t.Fatal(err)
		}
		m.work.Wait()
	}
	want := answers(t, m)
	zinotest.Must(t, m.Close())
	name := filepath.Join(dir, snapshotFile)
	whole := []byte(zinotest.Read(t, name))
	try := func(what string, snapshot []byte, elements int) {
		t.Run(what, func(t *testing.T) {
			zinotest.Must(t, os.WriteFile(name, snapshot, 0o600))
			m := openStore(t, dir)
			if got := answers(t, m); got != want || m.catalog.saved != elements {
				t.Errorf("%d elements came from the snapshot\n%s\nwant\n%s", m.catalog.saved, got, want)
			}
		})
	}
	try("whole", whole, 2)
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1 << (i % 8)
		try(fmt.Sprint("changed at ", i), changed, 0)
		try(fmt.Sprint("cut at ", i), whole[:i], 0)
	}
}

// TestSnapshotGrowth checks that a snapshot is written whenever the catalog has
// grown by a tenth.
func TestSnapshotGrowth(t *testing.T) {
	dir := zinotest.Dir(t)
	m, _ := logged(t, dir)
	defer m.Close()
	m.least = 20
	last, writes := os.FileInfo(nil), 0
	for i := range 60 {
		if _, err := m.Put(t.Context(), store.Memory{Messages: said(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
		m.work.Wait()
		fi, err := os.Stat(filepath.Join(dir, snapshotFile))
		if i < 19 && err == nil {
			t.Fatalf("a snapshot of %d memories", i+1)
		}
		if err == nil && (last == nil || !os.SameFile(fi, last)) {
			last = fi
			writes++
		}
	}
	if writes < 8 || writes > 13 {
		t.Errorf("%d snapshots of 20 to 60 memories", writes)
	}
}

// TestSnapshotUnwritable checks that a failure to write the snapshot is only logged.
func TestSnapshotUnwritable(t *testing.T) {
	dir := zinotest.Dir(t)
	zinotest.Must(t, os.Mkdir(filepath.Join(dir, snapshotNew), 0o700))
	m, log := logged(t, dir)
	defer m.Close()
	if _, err := m.Put(t.Context(), store.Memory{Messages: said("a")}); err != nil {
		t.Error(err)
	}
	m.work.Wait()
	if !strings.Contains(log.String(), "no snapshot") || strings.Contains(log.String(), "level=WARN") {
		t.Errorf("log %s", log)
	}
}

// FuzzHead checks that an accepted head of a snapshot survives encoding and
// decoding.
func FuzzHead(f *testing.F) {
	c := newCatalog(nil)
	for i, line := range []string{`{"messages":[{"role":"user","content":"a"}],"tag":"t","time":"2026-01-01T00:00:00Z"}`, `null`, `7`, `{"messages":[],"channel_id":"c"}`} {
		c.add(parse([]byte(line), int64(10*i)))
	}
	c.end = 50
	f.Add(c.appendHead(nil, make([]byte, 32)))
	f.Add([]byte{})
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, head []byte) {
		c, print, err := parseHead(head)
		if err != nil {
			return
		}
		again := c.appendHead(nil, print)
		if d, _, err := parseHead(again); err != nil || !bytes.Equal(d.appendHead(nil, print), again) {
			t.Errorf("%x is encoded as %x, which is decoded with %v", head, again, err)
		}
	})
}

// FuzzElement checks that an accepted element survives encoding and decoding.
func FuzzElement(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"a"}],"tag":"t","channel_id":"c","session_id":"s","time":"2026-01-01T00:00:00Z","x":1}`,
		`{"id":0,"updated":"2026-01-01T00:00:00Z","messages":[]}`, `{"id":3,"deleted":true}`, `{"id":-1,"deleted":true}`, `null`, `{"messages":[{"role":"user","content":"\ud800"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseElement(line)
		if err != nil || e.kind == isDeletion {
			return
		}
		if e.created == noTime {
			e.created = 0
		}
		again, err := parseElement(e.line())
		if err != nil || again.fingerprint() != e.fingerprint() || again.text != e.text || again.channel != e.channel {
			t.Fatalf("%q is written as %q: %v", line, e.line(), err)
		}
	})
}
