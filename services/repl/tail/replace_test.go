package tail

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
)

func TestReplace(t *testing.T) {
	const before = "history\nfooter\nrequest\n"
	for name, c := range map[string]struct {
		from int64
		text string
		want string
	}{
		"longer":       {8, "request\nexecuting (0s)\n", "history\nrequest\nexecuting (0s)\n"},
		"shorter":      {8, "x\n", "history\nx\n"},
		"as long":      {15, "REQUEST\n", "history\nfooter\nREQUEST\n"},
		"appended":     {23, "more\n", before + "more\n"},
		"cut":          {8, "", "history\n"},
		"the same":     {8, "footer\nrequest\n", before},
		"whole":        {0, "all new, and longer than it was\n", "all new, and longer than it was\n"},
		"emptied":      {0, "", ""},
		"same begin":   {8, "footer\nrequired\n", "history\nfooter\nrequired\n"},
		"binary":       {8, "\xff\x00\r\n", "history\n\xff\x00\r\n"},
		"much longer":  {8, strings.Repeat("line\n", 50_000), "history\n" + strings.Repeat("line\n", 50_000)},
		"same, longer": {8, "footer\nrequest\n\n", before + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newDir(t)
			path := filepath.Join(dir, "f")
			write(t, path, before)
			inode := view(t, d, 0).Stamp.ino
			after, err := d.Replace("f", view(t, d, c.from), c.from, []byte(c.text))
			must(t, err)
			if got := content(t, path); got != c.want {
				t.Errorf("got %.200q, want %.200q", got, c.want)
			}
			if string(after.Bytes) != c.text || after.Offset != c.from || after.Stamp != view(t, d, 0).Stamp || after.Stamp.ino != inode {
				t.Errorf("the view afterwards: %+v", after)
			}
		})
	}
}

func TestReplaceMissing(t *testing.T) {
	d, dir := newDir(t)
	after, err := d.Replace("f", View{Missing: true}, 0, []byte("new\n"))
	if err != nil || string(after.Bytes) != "new\n" || content(t, filepath.Join(dir, "f")) != "new\n" {
		t.Errorf("%+v, %v", after, err)
	}
	if _, err := d.Replace("f", View{Missing: true}, 0, []byte("again\n")); !errors.Is(err, ErrChanged) {
		t.Errorf("it has appeared meanwhile: %v", err)
	}
	if _, err := d.Replace("no/f", View{Missing: true}, 0, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := d.Replace("g", View{Bytes: []byte("x")}, 0, nil); !errors.Is(err, ErrChanged) {
		t.Errorf("it has gone meanwhile: %v", err)
	}
	if _, err := d.Replace("f", view(t, d, 2), 1, nil); err == nil {
		t.Error("a place before the view")
	}
	if _, err := d.Replace("f", view(t, d, 2), 5, nil); err == nil {
		t.Error("a place behind the end")
	}
}

// TestCompared: a change before the comparison stops the edit.
func TestCompared(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"appended":  func(t *testing.T, path string) { add(t, path, "more\n") },
		"rewritten": func(t *testing.T, path string) { write(t, path, "history\nother, and of its own length\n") },
		"same size": func(t *testing.T, path string) { write(t, path, "history\nFOOTER\n") },
		"truncated": func(t *testing.T, path string) { write(t, path, "") },
		"shortened": func(t *testing.T, path string) { write(t, path, "history\nfoo") },
		"removed": func(t *testing.T, path string) {
			must(t, os.Remove(path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newDir(t)
			path := filepath.Join(dir, "f")
			write(t, path, "history\nfooter\n")
			v := view(t, d, 8)
			change(t, path)
			before, errBefore := os.ReadFile(path)
			if _, err := d.Replace("f", v, 8, []byte("reply\nfooter\n")); !errors.Is(err, ErrChanged) {
				t.Errorf("the error is %v", err)
			}
			if after, err := os.ReadFile(path); string(after) != string(before) || (err == nil) != (errBefore == nil) {
				t.Errorf("%q became %q", before, after)
			}
		})
	}
}

// add appends in one write. Goroutines may call it.
func add(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// TestBetween: another program writes between the comparison and the write. What it
// writes is there at the end, also if it had the file open all the time.
func TestBetween(t *testing.T) {
	const user = "> **me** to page\n```js\n1\n```\n"
	texts := map[string]string{
		"longer": "history\nreply\nfooter, which has moved down\n", "shorter": "history\nr\n", "as long": "history\nFOOTER\n",
	}
	for name, text := range texts {
		t.Run("appended, "+name, func(t *testing.T) {
			between(t, text, false, func(t *testing.T, path string, f *os.File) { add(t, path, user) }, user)
		})
		t.Run("rewritten, "+name, func(t *testing.T) {
			between(t, text, false, func(t *testing.T, path string, f *os.File) { write(t, path, user) }, user)
		})
		t.Run("appended to an open file, "+name, func(t *testing.T) {
			between(t, text, true, func(t *testing.T, path string, f *os.File) {
				if _, err := f.WriteString(user); err != nil {
					t.Error(err)
				}
			}, user)
		})
		t.Run("replaced, "+name, func(t *testing.T) {
			between(t, text, false, func(t *testing.T, path string, f *os.File) {
				write(t, path+"~", user)
				if err := os.Rename(path+"~", path); err != nil {
					t.Error(err)
				}
			}, user)
		})
	}
}

// between replaces the end of a file while save changes it, and checks that the user's
// text is there.
func between(t *testing.T, text string, open bool, save func(*testing.T, string, *os.File), user string) {
	d, dir := newDir(t)
	path := filepath.Join(dir, "f")
	write(t, path, "history\nfooter\n")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer f.Close()
	if !open {
		must(t, f.Close())
	}
	saved := make(chan bool)
	d.between = func() {
		started := make(chan bool)
		go func() { close(started); save(t, path, f); close(saved) }()
		<-started
		if open {
			<-saved // it is not delayed, so it writes in between
		}
	}
	_, err = d.Replace("f", view(t, d, 0), 0, []byte(text))
	<-saved
	if err != nil && !errors.Is(err, ErrChanged) {
		t.Fatal(err)
	}
	got := content(t, path)
	if strings.Count(got, user) != 1 {
		t.Errorf("after %v: what the user wrote is there %d times: %q", err, strings.Count(got, user), got)
	}
	if open && err != nil && strings.TrimRight(got, "\n") != strings.TrimRight("history\nfooter\n"+user, "\n") {
		t.Errorf("a refused edit left %q", got)
	}
}

// TestBlanks: while another program has the file open, an edit that makes it shorter
// leaves blank lines. Views do not show them, and the next edit removes them, unless
// another program has changed what stands there.
func TestBlanks(t *testing.T) {
	const history = "title\n\nhistory of the file\n\n"
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		seen   string // what the view shows behind the history afterwards
		text   string // what the next edit makes of it
		want   string // the file then, without blank lines at its end
	}{
		"appended":         {func(t *testing.T, path string) { add(t, path, "request\n") }, "b\nrequest\n", "b\nrequest\nreply\n", "b\nrequest\nreply\n"},
		"nothing changed":  {func(*testing.T, string) {}, "b\n", "b\nmore\n", "b\nmore\n"},
		"blanks are added": {func(t *testing.T, path string) { add(t, path, "\n\nc\n") }, "b\n\n\nc\n", "\n\nc\n", "\n\nc\n"},
		"shorter again":    {func(t *testing.T, path string) { add(t, path, "request\n") }, "b\nrequest\n", "", ""},
		"a person has removed some": {func(t *testing.T, path string) {
			must(t, os.Truncate(path, int64(len(history))+4))
		}, "b\n\n\n", "b\n\n\nmore\n", "b\n\n\nmore\n"},
		"a person has written another text above": {func(t *testing.T, path string) {
			write(t, path, strings.Replace(content(t, path), "b\n", "B\n", 1))
		}, "B\n" + strings.Repeat("\n", 7), "x\n" + strings.Repeat("\n", 7), "x\n"},
		"a person has moved them": {func(t *testing.T, path string) {
			write(t, path, strings.Replace(content(t, path), "title\n\n", "title", 1))
		}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newDir(t)
			path := filepath.Join(dir, "f")
			write(t, path, history+"footer\nx\n")
			follower, err := os.Open(path) // as tail -f does
			must(t, err)
			defer follower.Close()
			at := int64(len(history))
			after, err := d.Replace("f", view(t, d, 0), at, []byte("b\n"))
			if must(t, err); string(after.Bytes) != history+"b\n" {
				t.Errorf("the view after the edit is %q", after.Bytes)
			}
			if got := content(t, path); got != history+"b\n"+strings.Repeat("\n", 7) {
				t.Fatalf("the file is %q", got)
			}
			c.change(t, path)
			v := view(t, d, 0)
			if c.seen == "" { // they are shown again
				if string(v.Bytes) != content(t, path) {
					t.Errorf("the view is %q", v.Bytes)
				}
				return
			}
			if string(v.Bytes) != history+c.seen {
				t.Fatalf("the view is %q", v.Bytes)
			}
			same := int64(0) // the edit begins where the texts differ, as those of a page do
			for same < int64(min(len(c.seen), len(c.text))) && c.seen[same] == c.text[same] {
				same++
			}
			after, err = d.Replace("f", v, at+same, []byte(c.text[same:]))
			if must(t, err); string(after.Bytes) != history+c.text {
				t.Errorf("the view after the next edit is %q", after.Bytes)
			}
			if got := content(t, path); strings.TrimRight(got, "\n") != strings.TrimRight(history+c.want, "\n") {
				t.Errorf("the file is %q, want %q", got, history+c.want)
			}
			must(t, follower.Close())
			v = view(t, d, 0)
			_, err = d.Replace("f", v, v.end(), []byte("end\n"))
			must(t, err)
			if got := content(t, path); got != history+c.text+"end\n" {
				t.Errorf("blank lines are left: %q", got)
			}
		})
	}
}

// TestSavedAfterEdit: Replace distinguishes a file in which the edit was seen by the
// program that changed it from one that lost it.
func TestSavedAfterEdit(t *testing.T) {
	const text = "request\nfooter\n"
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		want   error
	}{
		"a copy with a remark": {func(t *testing.T, path string) { write(t, path, "remark\nhistory\n"+text) }, ErrSaved},
		"truncated":            {func(t *testing.T, path string) { write(t, path, "") }, ErrSaved},
		"a copy renamed over it": {func(t *testing.T, path string) {
			write(t, path+"~", "history\n"+text)
			must(t, os.Rename(path+"~", path))
		}, ErrSaved},
		"an older copy": {func(t *testing.T, path string) { write(t, path, "remark\nhistory\nfooter\nand more\n") }, ErrChanged},
		"an older copy renamed over it": {func(t *testing.T, path string) {
			write(t, path+"~", "history\nfooter\n")
			must(t, os.Rename(path+"~", path))
		}, ErrChanged},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newDir(t)
			path := filepath.Join(dir, "f")
			write(t, path, "history\nfooter\n")
			reader, err := os.Open(path) // no lease is granted
			must(t, err)
			defer reader.Close()
			d.written = func() { c.change(t, path) }
			_, err = d.Replace("f", view(t, d, 0), 8, []byte(text))
			if !errors.Is(err, ErrChanged) || errors.Is(err, ErrSaved) != (c.want == ErrSaved) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestTakeBack: what was appended in the wrong place is removed, and nothing that
// another program has written over it.
func TestTakeBack(t *testing.T) {
	const editor, ours = "editor\n", "ours\n"
	for name, c := range map[string]struct {
		change func(t *testing.T, path string, f *os.File)
		want   string
	}{
		"unchanged": {func(*testing.T, string, *os.File) {}, editor},
		"appended":  {func(t *testing.T, path string, f *os.File) { add(t, path, "more\n") }, editor + "\n\n\n\n\n" + "more\n"},
		"written over": {func(t *testing.T, path string, f *os.File) {
			_, err := f.WriteAt([]byte("a longer text\n"), 0)
			must(t, err)
		}, "a longer text\n"},
		"its begin written over": {func(t *testing.T, path string, f *os.File) {
			_, err := f.WriteAt([]byte("new text"), 0)
			must(t, err)
		}, "new text"},
		"truncated, longer":  {func(t *testing.T, path string, f *os.File) { write(t, path, "all that the user wrote\n") }, "all that the user wrote\n"},
		"truncated, shorter": {func(t *testing.T, path string, f *os.File) { write(t, path, "user\n") }, "user\n"},
		"emptied":            {func(t *testing.T, path string, f *os.File) { write(t, path, "") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			write(t, path, "")
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteString(editor + ours)
			must(t, err)
			c.change(t, path, f)
			zinotest.Error(t, (&edit{f: f}).takeBack([]byte(ours), ErrChanged), ErrChanged)
			must(t, f.Close()) // and the lease ends
			if got := content(t, path); got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

// TestFull: the file is unchanged when the disk is full.
func TestFull(t *testing.T) {
	d, dir := newDir(t)
	path := filepath.Join(dir, "f")
	write(t, path, "history\nfooter\n")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	// A seal of a file in memory stops its growth; a limit of the process would stop
	// other tests, too.
	sealed := sealedCopy(t, f)
	defer sealed.Close()
	e := edit{f: sealed, at: 8, old: []byte("footer\n"), text: []byte("request\nand more of it\n")}
	if _, err := e.apply(); err == nil {
		t.Error("the file has grown")
	}
	got := make([]byte, 100)
	n, _ := sealed.ReadAt(got, 0)
	if string(got[:n]) != "history\nfooter\n" {
		t.Errorf("it is %q", got[:n])
	}
	if v := view(t, d, 0); string(v.Bytes) != "history\nfooter\n" {
		t.Errorf("the file is %q", v.Bytes)
	}
}

// sealedCopy returns a copy of a file that cannot grow.
func sealedCopy(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("full", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	must(t, err)
	sealed := os.NewFile(uintptr(fd), "full")
	if _, err := sealed.ReadFrom(f); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(sealed.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	return sealed
}

// TestRace appends from several goroutines while the end of the file is replaced: every
// line is there at the end.
func TestRace(t *testing.T) {
	d, dir := newDir(t)
	path := filepath.Join(dir, "f")
	write(t, path, "footer\n")
	const writers, lines = 4, 150
	done := make(chan bool, writers)
	for w := range writers {
		go func() {
			for i := range lines {
				add(t, path, fmt.Sprintf("<%d.%d>\n", w, i))
			}
			done <- true
		}()
	}
	replaced := 0
	for running := writers; running > 0; {
		select {
		case <-done:
			running--
		default:
		}
		v := view(t, d, 0)
		text := strings.TrimPrefix(string(v.Bytes), "footer\n")
		text = strings.TrimRight(strings.ReplaceAll(text, "footer\n", ""), "=\n") + "\n" + strings.Repeat("=", rand.IntN(30)) + "\nfooter\n"
		switch _, err := d.Replace("f", v, 0, []byte(text)); {
		case err == nil:
			replaced++
		case !errors.Is(err, ErrChanged):
			t.Fatal(err)
		}
	}
	got := content(t, path)
	for w := range writers {
		for i := range lines {
			if line := fmt.Sprintf("<%d.%d>\n", w, i); strings.Count(got, line) != 1 {
				t.Errorf("%q is there %d times", line, strings.Count(got, line))
			}
		}
	}
	if replaced == 0 {
		t.Error("every edit was refused")
	}
}

// FuzzReplace replaces any end by any other.
func FuzzReplace(f *testing.F) {
	f.Add("history\n", "footer\n", "reply\nfooter\n")
	f.Add("", "", "x")
	f.Add("a", "bcd", "")
	f.Add("a", "bcd", "bc")
	f.Fuzz(func(t *testing.T, history, before, after string) {
		d, dir := newDir(t)
		path := filepath.Join(dir, "f")
		write(t, path, history+before)
		from := int64(len(history))
		if _, err := d.Replace("f", view(t, d, from), from, []byte(after)); err != nil {
			t.Fatal(err)
		}
		if got := content(t, path); got != history+after {
			t.Errorf("%q, %q -> %q: %q", history, before, after, got)
		}
	})
}
