package repl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/proto"
)

// TestDamage: whatever becomes of the file while a job is out, the job's answer is
// taken, the file has it in the end, and the next request runs.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *testing.T, path string)
		mend func(t *testing.T, path string) // nil: the service does it
	}{
		"deleted":   {func(t *testing.T, path string) { must(t, os.Remove(path)) }, nil},
		"emptied":   {func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, nil},
		"cut short": {func(t *testing.T, path string) { must(t, os.Truncate(path, 20)) }, nil},
		"replaced":  {func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("# other\n"), 0o600)) }, nil},
		"moved":     {func(t *testing.T, path string) { must(t, os.Rename(path, path+".old")) }, nil},
		"an older copy": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(read(t, path+".before")), 0o600))
		}, nil},
		"a link": {func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".real"))
			must(t, os.Symlink(filepath.Base(path)+".real", path))
		}, func(t *testing.T, path string) { must(t, os.Rename(path+".real", path)) }},
		"a directory": {func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".real"))
			must(t, os.Mkdir(path, 0o700))
		}, func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Rename(path+".real", path))
		}},
		"all of debug/": {func(t *testing.T, path string) { must(t, os.RemoveAll(filepath.Dir(path))) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newEnv(t, "")
			f := b.silentPage(proto.Attach{Name: "a"})
			file := f.Attached().File
			must(t, os.WriteFile(b.path(file)+".before", []byte(b.file(file)), 0o600))
			b.add(file, js("first"))
			job := f.job(0)
			c.harm(t, b.path(file))
			must(t, f.answer(job.Job, "12345"))
			if c.mend != nil {
				eventually(func() bool { return len(b.problems()) == 1 })
				c.mend(t, b.path(file))
			}
			text := b.has(file, "12345", b.cfg.Footer)
			if strings.Count(text, "12345") != 1 {
				t.Errorf("the file has the reply more than once: %s", text)
			}
			eventually(func() bool { return len(b.problems()) == 0 })
			b.add(file, js("second"))
			must(t, f.answer(f.job(1).Job, "67890"))
			b.has(file, "67890")
			if got := strings.Fields(strings.Join(f.code(), " ")); strings.Join(got, " ") != "first second" {
				t.Errorf("it ran %q", got)
			}
		})
	}
}

// problems are what the stats show.
func (b *env) problems() []string {
	stats := proto.Stats{}
	b.stats(&stats)
	return stats.Problems
}

// TestLink: what a link leads to is neither read nor written, whether it was there
// before the page or came later.
func TestLink(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	private := filepath.Join(newDir(t), "private")
	text := b.cfg.Footer + "\n" + js("secret")
	must(t, os.WriteFile(private, []byte(text), 0o600))
	must(t, os.Symlink(private, b.path("debug/a-1a2b.md")))
	must(t, os.Symlink(private, b.path("debug.md.link")))
	f := b.page(proto.Attach{Name: "a", ID: "1a2b"})
	eventually(func() bool { return len(b.problems()) == 1 })
	if got := read(t, private); got != text || len(f.code()) != 0 {
		t.Errorf("the target is %q, and it ran %q", got, f.code())
	}
	must(t, os.Remove(b.path("debug/a-1a2b.md")))
	eventually(func() bool { return len(b.problems()) == 0 })
	b.has("debug/a-1a2b.md", b.cfg.Footer)
}

// TestLongBody: what is too long for the log is kept beside it, under a number
// that nobody has.
func TestLongBody(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	long := strings.Repeat("0123456789", 100_000)
	for round, number := range []string{"1", "2"} {
		b := newEnv(t, dir)
		f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b"})
		file := f.Attached().File
		b.add(file, js("1"))
		must(t, f.answer(f.job(0).Job, `"`+long+`"`))
		b.settled(file, round+1)
		b.has("debug/a-1a2b/"+number+".txt", long)
		f.leave()
		must(t, b.Close())
	}
}

// TestReadOnly: a file that cannot be written holds its requests up, and nothing is
// lost meanwhile.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	file := f.Attached().File
	b.add(file, js("1"))
	job := f.job(0)
	must(t, os.Rename(b.path(file), b.path(file)+".real"))
	must(t, os.Symlink("nowhere", b.path(file)))
	must(t, f.answer(job.Job, "41"))
	r, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "2"}) // and is answered at once
	if err != nil || r.OK || r.Error != "not run: the page's file cannot be used: "+file+": not a regular file" {
		t.Errorf("a request that cannot be written: %+v, %v", r, err)
	}
	must(t, os.Rename(b.path(file)+".real", b.path(file)))
	text := b.settled(file, 1)
	if !strings.Contains(text, "JSON\n41\n") || len(f.code()) != 1 {
		t.Errorf("it ran %q, and the file is %s", f.code(), text)
	}
}
