package files

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// The new file has the mode and the owner of the replaced one.
func TestReplaceKeepsModeAndOwner(t *testing.T) {
	dir := newDir(t)
	for _, mode := range []os.FileMode{0o600, 0o755, 0o666, 0o640 | os.ModeSetuid, 0o775 | os.ModeSetgid} {
		path := put(t, dir, "file", "old")
		give(t, path)
		zinotest.Must(t, os.Chmod(path, mode))
		was := stat(t, path)
		write(t, dir, "file", "new")
		is := stat(t, path)
		if is.Mode != was.Mode || is.Uid != was.Uid || is.Gid != was.Gid {
			t.Errorf("%v: was %o %d:%d, is %o %d:%d", mode, was.Mode, was.Uid, was.Gid, is.Mode, is.Uid, is.Gid)
		}
		if is.Ino == was.Ino {
			t.Errorf("%v: it was overwritten", mode)
		}
		zinotest.Must(t, os.Remove(path))
	}
}

// A process that has the file open reads its earlier content.
func TestReplaceIsAtomic(t *testing.T) {
	dir := newDir(t)
	f, err := os.Open(put(t, dir, "file", "old"))
	zinotest.Must(t, err)
	defer f.Close()
	write(t, dir, "file", "new")
	text := make([]byte, 10)
	if n, err := f.Read(text); err != nil || string(text[:n]) != "old" {
		t.Errorf("read %q, %v", text[:n], err)
	}
}

func TestReplaceKeepsAttributes(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "old")
	want := map[string]string{"user.origin": "here", "user.long": strings.Repeat("v", 2000)}
	for name, value := range want {
		if err := syscall.Setxattr(path, name, []byte(value), 0); errors.Is(err, syscall.ENOTSUP) {
			want = nil // not supported by the file system
		} else {
			zinotest.Must(t, err)
		}
	}
	write(t, dir, "file", "new")
	names, err := attributes(path)
	if err != nil || len(names) != len(want) {
		t.Fatalf("got %v, %v", names, err)
	}
	for name, value := range want {
		got, err := grown(func(buf []byte) (int, error) { return syscall.Getxattr(path, name, buf) })
		if err != nil || string(got) != value {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// All hard links of a file have the new content.
func TestHardLinksStayTogether(t *testing.T) {
	dir := newDir(t)
	a := put(t, dir, "a", "one two three")
	b := filepath.Join(dir, "b")
	zinotest.Must(t, os.Link(a, b))
	for _, content := range []string{"short", strings.Repeat("longer ", 5000), ""} {
		write(t, dir, "a", content)
		if zinotest.Read(t, b) != content || stat(t, a).Nlink != 2 {
			t.Errorf("b holds %d bytes, not %d", len(zinotest.Read(t, b)), len(content))
		}
	}
	write(t, dir, "b", "one two three")
	must(t, doEdit, dir, args{"path": "b", "old": "two", "new": "2"})
	if got := zinotest.Read(t, a); got != "one 2 three" || zinotest.Names(t, dir) != "a b" {
		t.Errorf("a holds %q, there are %s", got, zinotest.Names(t, dir))
	}
}

// Without rights to the directory a file is overwritten, and a copy of it is in the
// directory for temporary files meanwhile.
func TestOverwriteInForeignDirectory(t *testing.T) {
	dir, temp := newDir(t), newDir(t)
	t.Setenv("TMPDIR", temp)
	path := put(t, dir, "file", "old text")
	give(t, path)
	give(t, temp)
	for mode, at := range map[os.FileMode]string{0o555: dir, 0o700: temp} {
		zinotest.Must(t, os.Chmod(at, mode))
	}
	was := stat(t, path)
	zinotest.Unprivileged(t, func() {
		reply, err := doEdit(t.Context(), dir, args{"path": "file", "old": "old", "new": "a rather newer"}.input())
		if err != nil || reply.Data.(Edited).Replacements != 1 {
			t.Errorf("got %+v, %v", reply, err)
		}
		if reply, err := doWrite(t.Context(), dir, args{"path": "new", "content": "x"}.input()); errorCode(err) != WriteError {
			t.Errorf("a new file: %+v, %v", reply, err)
		}
	})
	if is := stat(t, path); zinotest.Read(t, path) != "a rather newer text" || is.Ino != was.Ino || is.Mode != was.Mode || is.Uid != was.Uid {
		t.Errorf("it holds %q, %+v", zinotest.Read(t, path), is)
	}
	zinotest.Equal(t, "left", zinotest.Names(t, temp), "")
}

// A read-only file is not replaced.
func TestProtectedFile(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "old")
	zinotest.Must(t, os.Chmod(path, 0o444))
	zinotest.Unprivileged(t, func() {
		for name, call := range map[string]tool{"write": doWrite, "edit": doEdit} {
			a := args{"path": "file", "content": "new", "old": "old", "new": "new"}
			if reply, err := call(t.Context(), dir, a.input()); errorCode(err) != WriteError || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%s: %+v, %v", name, reply, err)
			}
		}
	})
	if got := zinotest.Read(t, path); got != "old" || zinotest.Names(t, dir) != "file" {
		t.Errorf("it holds %q, there are %s", got, zinotest.Names(t, dir))
	}
}

// A failed overwrite is undone.
func TestPutBack(t *testing.T) {
	dir := newDir(t)
	const old = "the former content"
	for _, broken := range []string{"", "short", "longer than the former content was"} {
		f, err := os.OpenFile(put(t, dir, "file", old), os.O_RDWR, 0)
		zinotest.Must(t, err)
		kept, err := keep(f, dir)
		zinotest.Must(t, err)
		if err := rewrite(f, []byte(broken)); err != nil || zinotest.Read(t, f.Name()) != broken {
			t.Errorf("it holds %q, %v", zinotest.Read(t, f.Name()), err)
		}
		if err := putBack(f, kept); err != nil || zinotest.Read(t, f.Name()) != old {
			t.Errorf("it holds %q again, %v", zinotest.Read(t, f.Name()), err)
		}
		zinotest.Must(t, errors.Join(f.Close(), os.Remove(kept)))
	}
}

// If neither the new nor the old content can be written, the error names the copy.
func TestOverwriteFails(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "old")
	f, err := os.Open(path) // not to write
	zinotest.Must(t, err)
	defer f.Close()
	err = overwrite(f, dir, 3, []byte("new"))
	if err == nil || zinotest.Read(t, path) != "old" {
		t.Fatalf("got %v, it holds %q", err, zinotest.Read(t, path))
	}
	left := strings.TrimPrefix(zinotest.Names(t, dir), temporaryPrefix)
	kept, _, _ := strings.Cut(left, " ")
	kept = filepath.Join(dir, temporaryPrefix+kept)
	if !strings.Contains(err.Error(), "its former content is in "+kept) || zinotest.Read(t, kept) != "old" {
		t.Errorf("got %v", err)
	}
}

// A file that was replaced is not overwritten.
func TestOverwriteReplaced(t *testing.T) {
	dir := newDir(t)
	was, err := resolve(put(t, dir, "file", "old"))
	zinotest.Must(t, err)
	defer was.close()
	zinotest.Must(t, os.Rename(put(t, dir, "other", "theirs"), was.path))
	if err := was.overwrite([]byte("ours")); !errors.Is(err, errReplaced) || zinotest.Read(t, was.path) != "theirs" {
		t.Errorf("got %v, it holds %q", err, zinotest.Read(t, was.path))
	}
}

// A file of another user is overwritten: a new one could not get its owner.
func TestOverwriteForeignFile(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "old")
	for at, mode := range map[string]os.FileMode{path: 0o666, dir: 0o777} {
		zinotest.Must(t, os.Chmod(at, mode))
	}
	was := stat(t, path)
	zinotest.Unprivileged(t, func() {
		if reply, err := doWrite(t.Context(), dir, args{"path": "file", "content": "new"}.input()); err != nil {
			t.Errorf("got %+v, %v", reply, err)
		}
	})
	if is := stat(t, path); is.Uid != was.Uid || is.Gid != was.Gid || zinotest.Read(t, path) != "new" || zinotest.Names(t, dir) != "file" {
		t.Errorf("%d:%d, it holds %q, there are %s", is.Uid, is.Gid, zinotest.Read(t, path), zinotest.Names(t, dir))
	}
}

// list is an access control list in the kernel's form, with an entry for a user.
func list(user uint32, perm byte) []byte {
	const undefined = 1<<32 - 1
	b := []byte{2, 0, 0, 0}
	for _, e := range []struct {
		tag  byte
		perm byte
		id   uint32
	}{{1, 6, undefined}, {2, perm, user}, {4, 4, undefined}, {16, 6, undefined}, {32, 0, undefined}} {
		b = append(b, e.tag, 0, e.perm, 0)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// A file keeps its access control list, and gets none from the directory.
func TestReplaceKeepsAccessList(t *testing.T) {
	dir := newDir(t)
	plain := put(t, dir, "plain", "old")
	listed := put(t, dir, "listed", "old")
	supported := true
	for path, set := range map[string]struct {
		name string
		acl  []byte
	}{listed: {accessList, list(12345, 4)}, dir: {"system.posix_acl_default", list(54321, 6)}} {
		if err := syscall.Setxattr(path, set.name, set.acl, 0); errors.Is(err, syscall.ENOTSUP) {
			supported = false // then neither file has one
		} else {
			zinotest.Must(t, err)
		}
	}
	modes := map[string]uint32{plain: stat(t, plain).Mode, listed: stat(t, listed).Mode}
	for path, want := range map[string]bool{plain: false, listed: supported} {
		write(t, dir, path, "new")
		is := stat(t, path)
		names, err := attributes(path)
		if err != nil || names[accessList] != want || is.Mode != modes[path] {
			t.Errorf("%s: %v, %v, mode %o", path, names, err, is.Mode)
		}
	}
	if supported {
		got, err := grown(func(buf []byte) (int, error) { return syscall.Getxattr(listed, accessList, buf) })
		if err != nil || string(got) != string(list(12345, 4)) {
			t.Errorf("the list is %x, %v", got, err)
		}
	}
}
