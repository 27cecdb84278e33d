package files

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file is replaced by another one, which looks the same.
func TestReplaceKeepsLooks(t *testing.T) {
	dir := place(t)
	for _, mode := range []os.FileMode{0o600, 0o755, 0o666, 0o640 | os.ModeSetuid, 0o775 | os.ModeSetgid} {
		path := put(t, dir, "file", "old")
		give(t, path)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		was := stat(t, path)
		write(t, dir, "file", "new")
		is := stat(t, path)
		if is.Mode != was.Mode || is.Uid != was.Uid || is.Gid != was.Gid {
			t.Errorf("%v: was %o %d:%d, is %o %d:%d", mode, was.Mode, was.Uid, was.Gid, is.Mode, is.Uid, is.Gid)
		}
		if is.Ino == was.Ino {
			t.Errorf("%v: it was overwritten", mode)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever has the file open goes on reading what was in it.
func TestReplaceIsAtomic(t *testing.T) {
	dir := place(t)
	f, err := os.Open(put(t, dir, "file", "old"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(t, dir, "file", "new")
	text := make([]byte, 10)
	if n, err := f.Read(text); err != nil || string(text[:n]) != "old" {
		t.Errorf("read %q, %v", text[:n], err)
	}
}

func TestReplaceKeepsAttributes(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "old")
	want := map[string]string{"user.origin": "here", "user.long": strings.Repeat("v", 2000)}
	for name, value := range want {
		if err := syscall.Setxattr(path, name, []byte(value), 0); errors.Is(err, syscall.ENOTSUP) {
			want = nil // a file system without attributes: there are none to keep
		} else if err != nil {
			t.Fatal(err)
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

// Other names of a file lead to what was written.
func TestHardLinksStayTogether(t *testing.T) {
	dir := place(t)
	a := put(t, dir, "a", "one two three")
	b := filepath.Join(dir, "b")
	if err := os.Link(a, b); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"short", strings.Repeat("longer ", 5000), ""} {
		write(t, dir, "a", content)
		if holds(t, b) != content || stat(t, a).Nlink != 2 {
			t.Errorf("b holds %d bytes, not %d", len(holds(t, b)), len(content))
		}
	}
	write(t, dir, "b", "one two three")
	must(t, New().Edit, dir, args{"path": "b", "old": "two", "new": "2"})
	if got := holds(t, a); got != "one 2 three" || names(t, dir) != "a b" {
		t.Errorf("a holds %q, there are %s", got, names(t, dir))
	}
}

// Without rights to the directory a file is overwritten, and what was in it is
// kept elsewhere meanwhile.
func TestOverwriteInForeignDirectory(t *testing.T) {
	dir, temp := place(t), place(t)
	t.Setenv("TMPDIR", temp)
	path := put(t, dir, "file", "old text")
	give(t, path)
	give(t, temp)
	for mode, at := range map[os.FileMode]string{0o555: dir, 0o700: temp} {
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	was := stat(t, path)
	asOther(t, func() {
		reply, err := New().Edit(t.Context(), dir, args{"path": "file", "old": "old", "new": "a rather newer"}.input())
		if err != nil || reply.Data.(Edited).Replacements != 1 {
			t.Errorf("got %+v, %v", reply, err)
		}
		if reply, err := New().Write(t.Context(), dir, args{"path": "new", "content": "x"}.input()); errorCode(err) != WriteError {
			t.Errorf("a new file: %+v, %v", reply, err)
		}
	})
	if is := stat(t, path); holds(t, path) != "a rather newer text" || is.Ino != was.Ino || is.Mode != was.Mode || is.Uid != was.Uid {
		t.Errorf("it holds %q, %+v", holds(t, path), is)
	}
	if names(t, temp) != "" {
		t.Errorf("left: %s", names(t, temp))
	}
}

// A file that must not be written is not replaced either.
func TestProtectedFile(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "old")
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	asOther(t, func() {
		for name, call := range map[string]tool{"write": New().Write, "edit": New().Edit} {
			a := args{"path": "file", "content": "new", "old": "old", "new": "new"}
			if reply, err := call(t.Context(), dir, a.input()); errorCode(err) != WriteError || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%s: %+v, %v", name, reply, err)
			}
		}
	})
	if got := holds(t, path); got != "old" || names(t, dir) != "file" {
		t.Errorf("it holds %q, there are %s", got, names(t, dir))
	}
}

// A failed overwriting is undone.
func TestPutBack(t *testing.T) {
	dir := place(t)
	const old = "the former content"
	for _, broken := range []string{"", "short", "longer than the former content was"} {
		f, err := os.OpenFile(put(t, dir, "file", old), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := keep(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := rewrite(f, []byte(broken)); err != nil || holds(t, f.Name()) != broken {
			t.Errorf("it holds %q, %v", holds(t, f.Name()), err)
		}
		if err := putBack(f, kept); err != nil || holds(t, f.Name()) != old {
			t.Errorf("it holds %q again, %v", holds(t, f.Name()), err)
		}
		if err := errors.Join(f.Close(), os.Remove(kept)); err != nil {
			t.Error(err)
		}
	}
}

// What cannot be overwritten stays, and its copy goes away; what cannot be put
// back stays in its copy, which the error names.
func TestOverwriteFails(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "old")
	f, err := os.Open(path) // not to write
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = overwrite(f, 3, []byte("new"))
	if err == nil || holds(t, path) != "old" {
		t.Fatalf("got %v, it holds %q", err, holds(t, path))
	}
	left := strings.TrimPrefix(names(t, dir), temporaryPrefix)
	kept, _, _ := strings.Cut(left, " ")
	kept = filepath.Join(dir, temporaryPrefix+kept)
	if !strings.Contains(err.Error(), "its former content is in "+kept) || holds(t, kept) != "old" {
		t.Errorf("got %v", err)
	}
}

// A file that another one took the place of is not overwritten.
func TestOverwriteReplaced(t *testing.T) {
	dir := place(t)
	was, err := resolve(put(t, dir, "file", "old"), asTheyAre)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(put(t, dir, "other", "theirs"), was.path); err != nil {
		t.Fatal(err)
	}
	if err := was.overwrite([]byte("ours")); !errors.Is(err, errReplaced) || holds(t, was.path) != "theirs" {
		t.Errorf("got %v, it holds %q", err, holds(t, was.path))
	}
}

// A file of another user cannot be made anew as his: it is overwritten.
func TestOverwriteForeignFile(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "old")
	for at, mode := range map[string]os.FileMode{path: 0o666, dir: 0o777} {
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	was := stat(t, path)
	asOther(t, func() {
		if reply, err := New().Write(t.Context(), dir, args{"path": "file", "content": "new"}.input()); err != nil {
			t.Errorf("got %+v, %v", reply, err)
		}
	})
	if is := stat(t, path); is.Uid != was.Uid || is.Gid != was.Gid || holds(t, path) != "new" || names(t, dir) != "file" {
		t.Errorf("%d:%d, it holds %q, there are %s", is.Uid, is.Gid, holds(t, path), names(t, dir))
	}
}

// list is an access control list as the kernel has it: what a user of that
// number may do beside owner, group and others.
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

// A file's access control list stays, and none comes from the directory.
func TestReplaceKeepsAccessList(t *testing.T) {
	dir := place(t)
	plain := put(t, dir, "plain", "old")
	listed := put(t, dir, "listed", "old")
	supported := true
	for path, set := range map[string]struct {
		name string
		acl  []byte
	}{listed: {accessList, list(12345, 4)}, dir: {"system.posix_acl_default", list(54321, 6)}} {
		if err := syscall.Setxattr(path, set.name, set.acl, 0); errors.Is(err, syscall.ENOTSUP) {
			supported = false // the lists are none then, before and after
		} else if err != nil {
			t.Fatal(err)
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
