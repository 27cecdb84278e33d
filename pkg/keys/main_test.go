package keys

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// secret is a key that must not appear outside of its file.
const secret = "sk-secret-0123456789"

// newStore returns a store in a base directory that does not exist yet. The real
// systemd-creds, if there is one, uses a host key of the test.
func newStore(t *testing.T) (*Store, string) {
	t.Helper()
	dir := zinotest.Dir(t)
	t.Setenv("SYSTEMD_CREDENTIAL_SECRET", filepath.Join(dir, "host.secret"))
	base := filepath.Join(dir, "base")
	return Open(filepath.Join(base, "keys")), base
}

// Scripts in place of systemd-creds. rot is its own inverse.
const (
	rot     = "tr a-zA-Z n-za-mN-ZA-M\n"
	works   = rot
	fails   = "cat >&2; exit 3\n"
	lies    = "cat >/dev/null; echo all is well\n"
	oneWay  = "case \"$*\" in *decrypt*) printf 'one\\nno \\033host key\\n\\n' >&2; exit 1;; esac\n" + rot
	hangs   = "exec sleep 1000\n"
	signals = "kill -9 $$\n"
)

// tool puts a script in the place of systemd-creds, and returns a file with its
// arguments and environment.
func tool(t *testing.T, script string) (log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	text := "#!/bin/sh\necho \"$*\" >>" + log + "\nenv >>" + log + "\n" + script
	if err := os.WriteFile(filepath.Join(dir, "systemd-creds"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return log
}

// noTool hides systemd-creds.
func noTool(t *testing.T) { t.Setenv("PATH", t.TempDir()) }

func set(t *testing.T, s *Store, name, key string) (how string) {
	t.Helper()
	how, err := s.Set(context.Background(), name, key)
	if err != nil {
		t.Fatal(err)
	}
	return how
}

// holds checks the key of an account.
func holds(t *testing.T, s *Store, name, want string) {
	t.Helper()
	if got, err := s.Get(context.Background(), name); got != want || err != nil {
		t.Errorf("%s: %q, %v; want %q", name, got, err, want)
	}
}

// files lists the files below dir with their modes, and those that contain the
// secret.
func files(t *testing.T, dir string) (modes string, open []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, filepath.Dir(dir)+"/")
		modes += name + " " + info.Mode().String() + "\n"
		if !info.Mode().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			open = append(open, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return modes, open
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	zinotest.Write(t, path, text)
	zinotest.Must(t, os.Chmod(path, mode))
}
