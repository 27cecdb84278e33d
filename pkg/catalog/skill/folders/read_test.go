package folders

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

var must, write = zinotest.Must, zinotest.Write

// folder makes a skill's folder with a script.
func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "greet")
	must(t, os.MkdirAll(filepath.Join(dir, "scripts"), 0o700))
	write(t, filepath.Join(dir, File), "---\ndescription: Greets.\n---\nSay hello.\n")
	write(t, filepath.Join(dir, "scripts/hello.sh"), "echo hello\n")
	return dir
}

func read(t *testing.T, dir string) Folder {
	t.Helper()
	f, err := Read(dir, nil)
	must(t, err)
	return f
}

func TestReadHash(t *testing.T) {
	dir := folder(t)
	must(t, os.Symlink("scripts/hello.sh", filepath.Join(dir, "link")))
	must(t, os.Chmod(filepath.Join(dir, File), 0o644))
	must(t, os.Chmod(filepath.Join(dir, "scripts/hello.sh"), 0o755))
	f := read(t, dir)
	sum := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	want := sum("SKILL.md\x00100644\x00" + sum("---\ndescription: Greets.\n---\nSay hello.\n") + "\n" +
		"link\x00120000\x00" + sum("scripts/hello.sh") + "\n" +
		"scripts/hello.sh\x00100755\x00" + sum("echo hello\n") + "\n")
	if f.SHA256 != want {
		t.Errorf("hash %s, want %s", f.SHA256, want)
	}
	if got := strings.Join(f.Files, " "); got != "link scripts/hello.sh" || !strings.HasSuffix(string(f.Main), "Say hello.\n") {
		t.Errorf("files %q, main %q", got, f.Main)
	}
}

// TestReadSeesEveryByte changes each byte, name and mode of a folder, with a
// cache that has the hashes of the unchanged files.
func TestReadSeesEveryByte(t *testing.T) {
	dir := folder(t)
	var sums Sums
	hash := func() string {
		f, err := Read(dir, &sums)
		must(t, err)
		return f.SHA256
	}
	before := hash()
	differs := func(what string) {
		t.Helper()
		if hash() == before {
			t.Errorf("%s: the hash is the same", what)
		}
	}
	for _, name := range []string{File, "scripts/hello.sh"} {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		for i := range content {
			changed := append([]byte{}, content...)
			changed[i] ^= 1
			write(t, path, string(changed))
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
			differs(fmt.Sprintf("byte %d of %s", i, name))
		}
		write(t, path, string(content))
		must(t, os.Chmod(path, 0o700))
		differs("mode of " + name)
		must(t, os.Chmod(path, info.Mode()))
		must(t, os.Rename(path, path+"x"))
		differs("name of " + name)
		must(t, os.Rename(path+"x", path))
	}
	write(t, filepath.Join(dir, "more"), "")
	differs("another file")
	must(t, os.Remove(filepath.Join(dir, "more")))
	if hash() != before {
		t.Error("the hash of the unchanged folder differs")
	}
}

// TestSumsAreUsed gives the cache a wrong hash: if the folder's hash is another then,
// the file was not read.
func TestSumsAreUsed(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "scripts/hello.sh")
	info, err := os.Stat(path)
	must(t, err)
	key := StampOf(info)
	sums := Sums{sums: map[Stamp]string{key: "wrong"}}
	f, err := Read(dir, &sums)
	must(t, err)
	if f.SHA256 == read(t, dir).SHA256 {
		t.Error("the file was read although its hash is known")
	}
	var young Sums
	young.put(key, "sum")
	if _, ok := young.get(key); ok {
		t.Error("the hash of a young file is kept")
	}
	key.ctime = syscall.NsecToTimespec(time.Now().Add(-time.Minute).UnixNano())
	young.put(key, "sum")
	if _, ok := young.get(key); !ok {
		t.Error("the hash of an old file is not kept")
	}
}

func TestReadRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"missing": {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, "no such file or directory"},
		"link out": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "../secret"), "")
			must(t, os.Symlink("../secret", filepath.Join(dir, "x")))
		}, "x: is a link that leads out of the folder"},
		"absolute link": {func(t *testing.T, dir string) { must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "x"))) }, "x: is a link that leads out of the folder"},
		"dangling link": {func(t *testing.T, dir string) { must(t, os.Symlink("nothing", filepath.Join(dir, "x"))) }, "x: no such file or directory"},
		"linked main": {func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, File), filepath.Join(dir, "x")))
			must(t, os.Symlink("x", filepath.Join(dir, File)))
		}, "SKILL.md: is a link: put the file there"},
		"pipe": {func(t *testing.T, dir string) { must(t, syscall.Mkfifo(filepath.Join(dir, "x"), 0o600)) }, "x: is not a regular file"},
		"many files": {func(t *testing.T, dir string) {
			for i := range maxFiles {
				write(t, filepath.Join(dir, fmt.Sprint(i)), "")
			}
		}, "has more than 2000 files"},
		"large": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "x"), "")
			must(t, os.Truncate(filepath.Join(dir, "x"), maxBytes+1))
		}, "x: the folder has more than 64 MiB"},
		"large main": {func(t *testing.T, dir string) {
			must(t, os.Truncate(filepath.Join(dir, File), MaxMain+1))
		}, "SKILL.md: is larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			tt.change(t, dir)
			_, err := Read(dir, nil)
			zinotest.Error(t, err, nil, tt.want)
		})
	}
}
