package keys

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/config"
)

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
		env := map[string]string{"ZINO_HOME": test.home, "ZDX_HOME": test.old, "XDG_CONFIG_HOME": test.xdg, "HOME": test.user}
		getenv := func(name string) string { return env[name] }
		if got, err := Base(getenv); got != test.want || err != nil {
			t.Errorf("%+v: %s, %v", test, got, err)
		}
		if s, err := OpenUser(getenv); err != nil || s.Dir() != test.want+"/keys" {
			t.Errorf("%+v: the store is in %s, %v", test, s.Dir(), err)
		}
	}
	if got, err := Base(func(name string) string { return map[string]string{"ZINO_HOME": "rel"}[name] }); !filepath.IsAbs(got) || err != nil {
		t.Errorf("a relative one: %s, %v", got, err)
	}
}

// TestTempDir: the directory for hosts without a home.
func TestTempDir(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	own := filepath.Join(tmp, "zino-"+strconv.Itoa(os.Getuid()))
	nothing := func(string) string { return "" }
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
