package keys

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// secret is a key that must not appear outside of its file.
const secret = "sk-secret-0123456789"

// newStore returns a store in a base directory that does not exist yet. The host's
// systemd-creds uses a host key of the test.
func newStore(t *testing.T) (s *Store, base string) {
	t.Helper()
	dir := zinotest.Dir(t)
	t.Setenv("SYSTEMD_CREDENTIAL_SECRET", filepath.Join(dir, "host.secret"))
	base = filepath.Join(dir, "base")
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
	write(t, filepath.Join(dir, "systemd-creds"), "#!/bin/sh\necho \"$*\" >>"+log+"\nenv >>"+log+"\n"+script, 0o700)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return log
}

// noTool hides systemd-creds.
func noTool(t *testing.T) { t.Setenv("PATH", t.TempDir()) }

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	zinotest.Write(t, path, text)
	zinotest.Must(t, os.Chmod(path, mode))
}

// files lists the files below dir with their modes, and the names of those that
// contain the secret.
func files(t *testing.T, dir string) (modes, open string) {
	t.Helper()
	var names []string
	zinotest.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, filepath.Dir(dir)+"/")
		modes += name + " " + info.Mode().String() + "\n"
		if info.Mode().IsRegular() && strings.Contains(zinotest.Read(t, path), secret) {
			names = append(names, name)
		}
		return nil
	}))
	return modes, strings.Join(names, " ")
}

// keyStore is a Store or a Host.
type keyStore interface {
	Set(ctx context.Context, name, key string) (string, error)
	Delete(name string) (bool, error)
}

func set(t *testing.T, s keyStore, name, key string) (how string) {
	t.Helper()
	how, err := s.Set(t.Context(), name, key)
	zinotest.Must(t, err)
	return how
}

// deleted deletes a key and checks whether one was found.
func deleted(t *testing.T, s keyStore, name string, want bool) {
	t.Helper()
	if found, err := s.Delete(name); found != want || err != nil {
		t.Errorf("delete %s: %v, %v; want %v", name, found, err, want)
	}
}

func getKey(t *testing.T, s *Store, name, want string) {
	t.Helper()
	if got, err := s.Get(t.Context(), name); got != want || err != nil {
		t.Errorf("%s: %q, %v; want %q", name, got, err, want)
	}
}

// refused checks an error of one line that begins with want and has no key in it.
func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), secret) || strings.ContainsAny(err.Error(), "\n\x1b") {
		t.Errorf("%s: %v\nwant %s", what, err, want)
	}
}

// checkSet: invalid names and keys are refused by Store and Host alike.
func checkSet(t *testing.T, s keyStore) {
	t.Helper()
	for _, test := range []struct{ name, key, want string }{
		{"openai", "", "the key is empty"},
		{"openai", " \n", "the key is empty"},
		{"openai", secret + " " + secret, "invalid key: it has a blank"},
		{"../openai", secret, `no account can be called "../openai"`},
		{"", secret, `no account can be called ""`},
		{"Openai", secret, `no account can be called "Openai"`},
	} {
		how, err := s.Set(t.Context(), test.name, test.key)
		zinotest.Equal(t, "kept", how, "")
		refused(t, test.name, err, test.want)
	}
	for _, name := range []string{"..", ".openai1", "a/b", ""} {
		refused(t, "delete "+name, second(s.Delete(name)), "no account can be called")
	}
}

func second[T any](_ T, err error) error { return err }

func getenv(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// TestAccounts: the accounts agree with the providers of the configuration.
func TestAccounts(t *testing.T) {
	for _, a := range Accounts() {
		if got, ok := Find(a.Name); !ok || got != a {
			t.Errorf("%s is found as %+v, %v", a.Name, got, ok)
		}
		if !slices.Contains(config.Providers, a.Name) || checkName(a.Name) != nil {
			t.Errorf("%s is not a provider of the configuration", a.Name)
		}
		if a.Variable != strings.ToUpper(a.Name)+"_API_KEY" || !strings.HasPrefix(a.Page, "https://") {
			t.Errorf("%+v", a)
		}
	}
	Accounts()[0].Name = "changed"
	if got, ok := Find("ollama"); ok || Accounts()[0].Name != "anthropic" {
		t.Errorf("found %+v; the first is %+v", got, Accounts()[0])
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		" \t\r\n":                 "",
		secret:                    secret,
		"\u00a0 " + secret + "\n": secret,
		"!~":                      "!~",
		strings.Repeat("x", 8192): strings.Repeat("x", 8192),
	} {
		if got, err := Clean(text); got != want || err != nil {
			t.Errorf("%.30q: %.30q, %v", text, got, err)
		}
	}
	for _, text := range []string{
		secret + " " + secret, secret + "\nmore", secret + "\x00", secret + "\x7f", secret + "é", "\ufeff" + secret, secret + "\xff", "a\x1b[31m",
		strings.Repeat(secret, 1000),
	} {
		got, err := Clean(text)
		if got != "" || err == nil || strings.Contains(err.Error(), "sk-") {
			t.Errorf("%.30q: %.30q, %v", text, got, err)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{"", " ", secret, secret + "\r\n", "a b", "\ufeffsk", "sk\xff", "\x1b[0m", strings.Repeat("k", 8193)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := Clean(text)
		if err != nil && key != "" || err == nil && key != strings.TrimSpace(text) {
			t.Fatalf("%q, %v", key, err)
		}
		for i := range len(key) {
			if key[i] <= ' ' || key[i] > '~' {
				t.Fatalf("byte %d is %#x", i, key[i])
			}
		}
	})
}

func TestBase(t *testing.T) {
	for _, test := range []struct{ home, old, xdg, user, want string }{
		{"/a", "/b", "/c", "/d", "/a"},
		{"", "/b", "/c", "/d", "/b"},
		{"", "", "/c", "/d", "/c/zino"},
		{"", "", "", "/d", "/d/.config/zino"},
		{"/a/../b", "", "", "", "/b"},
	} {
		getenv := getenv(map[string]string{"ZINO_HOME": test.home, "ZDX_HOME": test.old, "XDG_CONFIG_HOME": test.xdg, "HOME": test.user})
		if got, err := Base(getenv); got != test.want || err != nil {
			t.Errorf("%+v: %s, %v", test, got, err)
		}
		if s, err := OpenUser(getenv); err != nil || s.Dir() != test.want+"/keys" {
			t.Errorf("%+v: the store is in %s, %v", test, s.Dir(), err)
		}
	}
	if got, err := Base(getenv(map[string]string{"ZINO_HOME": "rel"})); !filepath.IsAbs(got) || err != nil {
		t.Errorf("a relative path: %s, %v", got, err)
	}
}

// TestTempDir: the directory for hosts without a home.
func TestTempDir(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	own := filepath.Join(tmp, "zino-"+strconv.Itoa(os.Getuid()))
	nothing := getenv(nil)
	if got, err := Base(nothing); got != own+"/home" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	write(t, own, "a file", 0o600)
	if _, err := OpenUser(nothing); err == nil || !strings.Contains(err.Error(), own+" is not a directory that only you can use") {
		t.Errorf("a file in its place: %v", err)
	}
	t.Setenv("TMPDIR", filepath.Join(own, "below")) // a file cannot be passed
	if got, err := TempDir(); err == nil {
		t.Errorf("%s", got)
	}
}
