package repl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/watch"
	"zino/proto"
)

// styles are the ways in which programs save a file. Each puts text at its end.
var styles = map[string]func(t *testing.T, path, text string){
	"append": func(t *testing.T, path, text string) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = f.WriteString(text)
		must(t, err)
		must(t, f.Close())
	},
	"append in pieces": func(t *testing.T, path, text string) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		for i := range text {
			_, err = f.WriteString(text[i : i+1])
			must(t, err)
		}
		must(t, f.Close())
	},
	"in place": func(t *testing.T, path, text string) {
		whole := read(t, path) + text
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteString(whole)
		must(t, err)
		must(t, f.Close())
	},
	"truncate and write": func(t *testing.T, path, text string) {
		must(t, os.WriteFile(path, []byte(read(t, path)+text), 0o644))
	},
	"write and rename": func(t *testing.T, path, text string) {
		must(t, os.WriteFile(path+".tmp", []byte(read(t, path)+text), 0o644))
		must(t, os.Rename(path+".tmp", path))
	},
	"backup and write": func(t *testing.T, path, text string) {
		whole := read(t, path) + text
		must(t, os.Rename(path, path+"~"))
		must(t, os.WriteFile(path, []byte(whole), 0o644))
		must(t, os.Remove(path+"~"))
	},
	"sed -i": func(t *testing.T, path, text string) {
		part := filepath.Join(t.TempDir(), "part")
		must(t, os.WriteFile(part, []byte(text), 0o600))
		command(t, "sed", "-i", "$r "+part, path)
	},
	"vim": func(t *testing.T, path, text string) {
		vim(t, path, text, "yes")
	},
	"vim with a backup": func(t *testing.T, path, text string) {
		vim(t, path, text, "no")
	},
}

// vim appends a text with the editor itself. Whether it writes in place or renames
// the old file decides its option backupcopy.
func vim(t *testing.T, path, text, backupcopy string) {
	part := filepath.Join(t.TempDir(), "part")
	must(t, os.WriteFile(part, []byte(text), 0o600))
	command(t, "vim", "-N", "-u", "NONE", "-i", "NONE", "-es", "-c", "set writebackup backupcopy="+backupcopy,
		"-c", "$r "+part, "-c", "wq", path)
}

func command(t *testing.T, name string, arguments ...string) {
	t.Helper()
	cmd := exec.Command(name, arguments...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TERM=dumb")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// TestSaveStyles: however a request is saved, it is run once, and so is the next.
func TestSaveStyles(t *testing.T) {
	t.Parallel()
	for name, save := range styles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newEnv(t, "")
			f := b.page(proto.Attach{Name: "a"})
			file := f.Attached().File
			for i, code := range []string{"1", "22", "333"} {
				save(t, b.path(file), js(code))
				text := b.settled(file, i+1)
				if strings.Count(text, js(code)) != 1 {
					t.Errorf("after %q the file is\n%s", code, text)
				}
			}
			if got := strings.Fields(strings.Join(f.code(), " ")); strings.Join(got, " ") != "1 22 333" {
				t.Errorf("it ran %q", got)
			}
		})
	}
}

// TestOwnWrites: a write keeps the inode, and what the service wrote itself is
// nothing new to it.
func TestOwnWrites(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	file := f.Attached().File
	before, err := os.Stat(b.path(file))
	must(t, err)
	b.add(file, js("1"))
	b.settled(file, 1)
	after, err := os.Stat(b.path(file))
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("the file is another one")
	}
	tr := f.log
	eventually(func() bool { // the notifications of the own writes have come and gone
		tr.alarm.mu.Lock()
		defer tr.alarm.mu.Unlock()
		return tr.alarm.first.IsZero() && tr.alarm.set.IsZero()
	})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	now, err := b.Service.dir.Stat(file)
	if err != nil || now != tr.known.stamp || !tr.state.Deadline().IsZero() {
		t.Errorf("%+v, known %+v, %v; it wakes at %v", now, tr.known.stamp, err, tr.state.Deadline())
	}
}

// TestWithoutNotification: polling alone finds a change.
func TestWithoutNotification(t *testing.T) {
	t.Parallel()
	b := &env{t: t, dir: newDir(t), out: &syncBuffer{}}
	b.open(settings(b.dir))
	b.run(watch.Poll(200 * time.Millisecond))
	file := b.page(proto.Attach{Name: "a"}).Attached().File
	b.add(file, js("1"))
	b.settled(file, 1)
}

// TestDirectoryReplaced: the name of the directory counts, not the directory that
// was there at first.
func TestDirectoryReplaced(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	file := b.page(proto.Attach{Name: "a"}).Attached().File
	must(t, os.Rename(b.path("debug"), b.path("old")))
	b.has(file, b.cfg.Footer) // it is made anew
	b.add(file, js("1"))
	b.settled(file, 1)
}

// TestDraft: what is not complete is not touched.
func TestDraft(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f, other := b.page(proto.Attach{Name: "a"}), b.page(proto.Attach{Name: "b"})
	file := f.Attached().File
	before := b.file(file)
	b.add(file, fence+"js\n1+")
	b.add(other.Attached().File, js("1"))
	b.settled(other.Attached().File, 1)
	if got := b.file(file); got != before+fence+"js\n1+" {
		t.Errorf("the draft became %s", got)
	}
	b.add(file, "1\n"+fence+"\n")
	b.settled(file, 1)
	if got := strings.Join(f.code(), "|"); strings.TrimSpace(got) != "1+1" {
		t.Errorf("it ran %q", got)
	}
}
