package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// write calls write and expects success.
func write(t testing.TB, root, path, content string) Written {
	t.Helper()
	return must(t, doWrite, root, args{"path": path, "content": content}).Data.(Written)
}

func TestWrite(t *testing.T) {
	dir := newDir(t)
	tests := []struct{ name, path, content string }{
		{"plain", "file", "one\ntwo\n"},
		{"empty", "empty", ""},
		{"directories", "a/b/c/file", "x"},
		{"absolute", dir + "/abs/file", "x"},
		{"detour", "a/./b/../b2/file", "x"},
		{"no text", "nul", "a\x00b\r\n"},
		{"a name of two lines", "one\ntwo", "x"},
		{"a long name", strings.Repeat("n", 255), "x"},
		{"large", "large", strings.Repeat("0123456789abcde\n", 1<<17)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.path
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			for _, created := range []bool{true, false} {
				got := write(t, dir, tt.path, tt.content)
				if got != (Written{path, int64(len(tt.content)), created}) || zinotest.Read(t, path) != tt.content {
					t.Errorf("got %+v", got)
				}
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), temporaryPrefix+"*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestMaskedTextIsNotWritten: the placeholder of a secret would replace the secret.
func TestMaskedTextIsNotWritten(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "A_TOKEN=the secret\nB=1\n")
	masked := "A_TOKEN=[masked:value:1a2b]\n"
	for call, a := range map[*tool]args{
		&doWrite: {"path": "file", "content": masked},
		&doEdit:  {"path": "file", "old": "B=1\n", "new": masked},
	} {
		message := refused(t, *call, dir, a, MaskedText)
		zinotest.Equal(t, "the message", message, "the text contains a masked value; leave those lines unchanged")
		zinotest.Equal(t, "the file", zinotest.Read(t, path), "A_TOKEN=the secret\nB=1\n")
	}
	// In the old text of an edit it does no harm, and other brackets are text.
	refused(t, doEdit, dir, args{"path": "file", "old": masked, "new": "x"}, OldNotFound)
	must(t, doWrite, dir, args{"path": "file", "content": "[masked:KIND:xxxx]"})
}

// The modes of new files and directories obey the umask.
func TestWriteUmask(t *testing.T) {
	dir := newDir(t)
	defer syscall.Umask(syscall.Umask(0o027))
	write(t, dir, "sub/file", "x")
	for name, want := range map[string]uint32{"sub": syscall.S_IFDIR | 0o750, "sub/file": syscall.S_IFREG | 0o640} {
		if st := stat(t, filepath.Join(dir, name)); st.Mode != want {
			t.Errorf("%s has the mode %o, not %o", name, st.Mode, want)
		}
	}
}

func TestWriteThroughLinks(t *testing.T) {
	dir := newDir(t)
	put(t, dir, "file", "old")
	link(t, dir, map[string]string{
		"link": "file", "second": dir + "/link", "new": "made", "deep": "x/y/made", "over": dir + "/../" + filepath.Base(dir) + "/back",
	})
	tests := []struct {
		asked, path string
		created     bool
	}{
		{"link", "file", false},
		{"second", "file", false},
		{"new", "made", true},
		{"new", "made", false},
		{"deep", "x/y/made", true},
		{"over", "back", true},
	}
	for _, tt := range tests {
		got := write(t, dir, tt.asked, tt.asked)
		if got != (Written{filepath.Join(dir, tt.path), int64(len(tt.asked)), tt.created}) || zinotest.Read(t, got.Path) != tt.asked {
			t.Errorf("%s: got %+v", tt.asked, got)
		}
		if fi, err := os.Lstat(filepath.Join(dir, tt.asked)); err != nil || fi.Mode().IsRegular() {
			t.Errorf("%s is not a link any more: %v", tt.asked, err)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	dir := newDir(t)
	put(t, dir, "file", "x")
	addOddFiles(t, dir)
	link(t, dir, map[string]string{"todir": "."})
	before := zinotest.Names(t, dir)
	tests := []struct{ path, code, message string }{
		{"file/sub/x", MkdirError, "Cannot make the directory " + dir + "/file"},
		{"loop/x", MkdirError, "Cannot make the directory " + dir + "/loop"},
		{strings.Repeat("d", 300) + "/x", MkdirError, "name too long"},
		{".", WriteError, "is a directory: only regular files"},
		{"/", WriteError, "names a directory"},
		{"/.", WriteError, "is a directory"},
		{"todir", WriteError, "is a directory"},
		{"made/", WriteError, "names a directory"},
		{"loop", WriteError, "symbolic links"},
		{"pipe", WriteError, "is a named pipe: only regular files can be written"},
		{"socket", WriteError, "is a socket"},
		{"/dev/null", WriteError, "is a device"},
		{strings.Repeat("n", 300), WriteError, "name too long"},
		{"", InvalidInput, "empty"},
		{"a\x00", InvalidInput, "NUL"},
	}
	for _, tt := range tests {
		if got := refused(t, doWrite, dir, args{"path": tt.path, "content": "y"}, tt.code); !strings.Contains(got, tt.message) {
			t.Errorf("%q: got %q, want %q", tt.path, got, tt.message)
		}
	}
	if zinotest.Names(t, dir) != before || zinotest.Read(t, filepath.Join(dir, "file")) != "x" {
		t.Errorf("left: %s", zinotest.Names(t, dir))
	}
}

// A directory that cannot be listed, and so not synced, can be written to.
func TestWriteIntoHiddenDirectory(t *testing.T) {
	dir := newDir(t)
	zinotest.Must(t, os.Mkdir(filepath.Join(dir, "drop"), 0o777))
	give(t, filepath.Join(dir, "drop"))
	zinotest.Must(t, os.Chmod(filepath.Join(dir, "drop"), 0o300))
	zinotest.Unprivileged(t, func() {
		reply, err := doWrite(t.Context(), dir, args{"path": "drop/file", "content": "x"}.input())
		if err != nil || !reply.Data.(Written).Created {
			t.Errorf("got %+v, %v", reply, err)
		}
	})
	zinotest.Must(t, os.Chmod(filepath.Join(dir, "drop"), 0o700))
	zinotest.Equal(t, "the file", zinotest.Read(t, filepath.Join(dir, "drop/file")), "x")
}
