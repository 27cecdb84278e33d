package keys

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRefused: files that other users can write or read are not read.
func TestRefused(t *testing.T) {
	tool(t, oneWay)
	for _, test := range []struct {
		name string
		make func(dir string) error
		want string
	}{
		{"a directory open to all", func(dir string) error { return os.Chmod(dir, 0o755) }, "DIR, where keys are kept, is open to other users: chmod 700 DIR"},
		{"a file for the group", func(dir string) error { return os.Chmod(dir+"/openai", 0o640) }, "cannot read DIR/openai: it is open to other users: chmod 600 DIR/openai"},
		{"a link to the outside", func(dir string) error { return relink("/etc/hostname", dir) }, "cannot read DIR/openai: "},
		{"a link upwards", func(dir string) error { return relink("../outside", dir) }, "cannot read DIR/openai: "},
		{"a pipe", func(dir string) error {
			return either(os.Remove(dir+"/openai"), syscall.Mkfifo(dir+"/openai", 0o600))
		}, "cannot read DIR/openai: it is not a regular file"},
		{"a directory", func(dir string) error {
			return either(os.Remove(dir+"/openai"), os.Mkdir(dir+"/openai", 0o700))
		}, "cannot read DIR/openai: it is not a regular file"},
		{"too much", func(dir string) error { return os.Truncate(dir+"/openai", maxFile+1) }, "cannot read DIR/openai: it is larger than 65536 bytes"},
		{"two words", func(dir string) error {
			return os.WriteFile(dir+"/openai", []byte(secret+" and more"), 0o600)
		}, "DIR/openai holds no key: it has a blank"},
		{"not to be decrypted", func(dir string) error { return os.Rename(dir+"/openai", dir+"/openai.cred") }, "cannot decrypt DIR/openai.cred: systemd-creds: exit status 1: no  host key; set the key again with: zino auth set openai"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, base := newStore(t)
			write(t, filepath.Join(base, "outside"), secret, 0o600)
			write(t, filepath.Join(s.Dir(), "openai"), secret, 0o600)
			if err := test.make(s.Dir()); err != nil {
				t.Fatal(err)
			}
			key, err := s.Get(context.Background(), "openai")
			if want := strings.ReplaceAll(test.want, "DIR", s.Dir()); key != "" || err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Fatalf("%q, %v\nwant %s", key, err, want)
			}
			if strings.Contains(err.Error(), secret) || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestOpenDirectory: nothing is written to a directory that other users can use.
func TestOpenDirectory(t *testing.T) {
	noTool(t)
	s, _ := newStore(t)
	set(t, s, "openai", secret)
	if err := os.Chmod(s.Dir(), 0o750); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"set": second(s.Set(context.Background(), "openai", secret)), "delete": second(s.Delete("openai")), "list": second(s.List()),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "is open to other users: chmod 700 "+s.Dir()) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func either(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// relink replaces openai's key by a link.
func relink(target, dir string) error {
	return either(os.Remove(dir+"/openai"), os.Symlink(target, dir+"/openai"))
}

// TestSetOverLink: Set replaces a link, and does not follow it.
func TestSetOverLink(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	outside := filepath.Join(base, "outside")
	write(t, outside, "precious", 0o600)
	write(t, filepath.Join(s.Dir(), "openai"), "", 0o600)
	if err := relink(outside, s.Dir()); err != nil {
		t.Fatal(err)
	}
	set(t, s, "openai", secret)
	holds(t, s, "openai", secret)
	if data, err := os.ReadFile(outside); string(data) != "precious" || err != nil {
		t.Errorf("outside: %q, %v", data, err)
	}
}

// TestStamp: the stamp changes with each change, and only then.
func TestStamp(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	path := filepath.Join(base, "keys", "openai")
	seen := map[string]string{s.Stamp(): "nothing there"}
	if s.Stamp() != "" {
		t.Errorf("without a directory: %q", s.Stamp())
	}
	for _, step := range []struct {
		name   string
		change func() error
	}{
		{"set", func() error { return second(s.Set(context.Background(), "openai", "one")) }},
		{"set again", func() error { return second(s.Set(context.Background(), "openai", "two")) }},
		{"another one", func() error { return second(s.Set(context.Background(), "gemini", "two")) }},
		{"edited in place", func() error { return os.WriteFile(path, []byte("three and more"), 0o600) }},
		{"opened to others", func() error { return os.Chmod(path, 0o644) }},
		{"the directory opened", func() error { return os.Chmod(s.Dir(), 0o755) }},
		{"the directory closed", func() error { return os.Chmod(s.Dir(), 0o700) }},
		{"deleted", func() error { return second(s.Delete("openai")) }},
		{"no directory", func() error { return either(os.RemoveAll(base), os.WriteFile(base, nil, 0o600)) }},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		stamp := s.Stamp()
		if before := seen[stamp]; before != "" {
			t.Errorf("%s: the stamp is that of: %s", step.name, before)
		}
		seen[stamp] = step.name
		holdsStamp(t, s, stamp)
	}
}

func holdsStamp(t *testing.T, s *Store, want string) {
	t.Helper()
	if got := s.Stamp(); got != want {
		t.Errorf("it changed by itself: %s, was %s", got, want)
	}
}
