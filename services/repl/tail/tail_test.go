package tail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/durable"
	"zino/pkg/zinotest"
)

var must, write, content = zinotest.Must, zinotest.Write, zinotest.Read

func newDir(t testing.TB) (*Dir, string) {
	t.Helper()
	path := t.TempDir()
	d, err := OpenDir(path)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d, path
}

func view(t testing.TB, d *Dir, from int64) View {
	t.Helper()
	v, err := d.Read("f", from)
	must(t, err)
	return v
}

func TestRead(t *testing.T) {
	d, dir := newDir(t)
	if v := view(t, d, 3); !v.Missing || v.Offset != 0 || len(v.Bytes) != 0 {
		t.Errorf("no file: %+v", v)
	}
	write(t, filepath.Join(dir, "f"), "abcdef")
	for from, want := range map[int64]string{0: "abcdef", 4: "ef", 6: "", 9: "", -1: "abcdef"} {
		v := view(t, d, from)
		if string(v.Bytes) != want || v.Offset != int64(6-len(want)) || v.Missing || v.Stamp.Size() != 6 {
			t.Errorf("from %d: %+v", from, v)
		}
	}
}

func TestReadTooLong(t *testing.T) {
	d, dir := newDir(t)
	write(t, filepath.Join(dir, "f"), "")
	must(t, os.Truncate(filepath.Join(dir, "f"), Max+1))
	if _, err := d.Read("f", 0); !errors.Is(err, ErrTooLong) {
		t.Errorf("all of it: %v", err)
	}
	if v := view(t, d, Max); len(v.Bytes) != 1 {
		t.Errorf("its end: %d bytes", len(v.Bytes))
	}
}

// TestIrregular: links, directories and pipes are neither followed nor read.
func TestIrregular(t *testing.T) {
	for name, make := range map[string]func(dir string) error{
		"link":         func(dir string) error { return os.Symlink("other", filepath.Join(dir, "f")) },
		"link outside": func(dir string) error { return os.Symlink("/etc/hostname", filepath.Join(dir, "f")) },
		"dangling":     func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "f")) },
		"directory":    func(dir string) error { return os.Mkdir(filepath.Join(dir, "f"), 0o700) },
		"pipe":         func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "f"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newDir(t)
			write(t, filepath.Join(dir, "other"), "private")
			must(t, make(dir))
			if _, err := d.Read("f", 0); !errors.Is(err, ErrNotRegular) {
				t.Errorf("Read: %v", err)
			}
			if _, err := d.Stat("f"); !errors.Is(err, ErrNotRegular) {
				t.Errorf("Stat: %v", err)
			}
			if _, err := d.Replace("f", View{Bytes: []byte("private")}, 0, []byte("x")); !errors.Is(err, ErrNotRegular) {
				t.Errorf("Replace: %v", err)
			}
			if _, err := d.Replace("f", View{Missing: true}, 0, []byte("x")); !errors.Is(err, ErrChanged) {
				t.Errorf("Replace of what was missing: %v", err)
			}
			zinotest.Error(t, d.Create("f", ""), fs.ErrExist)
			if got := content(t, filepath.Join(dir, "other")); got != "private" {
				t.Errorf("the link's target is %q", got)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	d, dir := newDir(t)
	_, err := d.Names("none")
	zinotest.Error(t, err, fs.ErrNotExist)
	_, err = OpenDir(filepath.Join(dir, "none"))
	zinotest.Error(t, err, fs.ErrNotExist)
	_, err = d.Lock("none/sub")
	zinotest.Error(t, err, fs.ErrNotExist)
}

func TestOutside(t *testing.T) {
	d, dir := newDir(t)
	must(t, d.Make("a"))
	for _, name := range []string{"../f", "/etc/hostname", "a/../../f"} {
		if _, err := d.Read(name, 0); err == nil {
			t.Errorf("%s was read", name)
		}
		if err := d.Create(name, ""); err == nil {
			t.Errorf("%s was created", name)
		}
	}
	must(t, os.Symlink(t.TempDir(), filepath.Join(dir, "out")))
	if err := d.Create("out/f", ""); err == nil {
		t.Error("a file was created behind a link")
	}
	if err := d.Make("out"); err == nil {
		t.Error("a link is taken for a directory")
	}
}

func TestStamp(t *testing.T) {
	d, dir := newDir(t)
	path := filepath.Join(dir, "f")
	write(t, path, "one")
	before := view(t, d, 0).Stamp
	if now, err := d.Stat("f"); err != nil || now != before {
		t.Errorf("%+v, %+v, %v", before, now, err)
	}
	if !before.Young(time.Now()) || before.Young(time.Now().Add(time.Hour)) {
		t.Error("the age is wrong")
	}
	old := time.Unix(1, 0)
	write(t, path, "two")
	must(t, os.Chtimes(path, old, old))
	after, err := d.Stat("f")
	if err != nil || after == before || !after.Young(time.Now()) {
		t.Errorf("a time that was set back: %+v, %v", after, err)
	}
}

func TestLock(t *testing.T) {
	d, dir := newDir(t)
	l, err := d.Lock("sub")
	must(t, err)
	if _, err := d.Lock("sub"); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("twice: %v", err)
	}
	must(t, l.Close())
	if l, err = d.Lock("sub"); err != nil {
		t.Fatal(err)
	}
	must(t, l.Close())
	if names, err := d.Names("sub"); err != nil || len(names) != 0 {
		t.Errorf("it left %v, %v", names, err)
	}
	write(t, filepath.Join(dir, "file"), "")
	if _, err := d.Lock("file"); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
}
