package keys

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// environmentOf returns a getenv.
func environmentOf(pairs ...string) func(string) string {
	env := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return env[name] }
}

// TestLookup removes one source after the other.
func TestLookup(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	account, _ := Find("openai")
	creds, file := filepath.Join(base, "creds"), filepath.Join(base, "file")
	getenv := environmentOf("CREDENTIALS_DIRECTORY", creds, "OPENAI_API_KEY", " from-environment\n")
	set(t, s, "openai", "from-store")
	write(t, file, "from-file\n", 0o644) // as containers get their secrets
	write(t, creds+"/zino-openai", "from-zino-openai\n", 0o400)
	write(t, creds+"/zino.openai", "from-zino.openai\n", 0o400)
	write(t, creds+"/OPENAI_API_KEY", "from-variable", 0o440)
	write(t, creds+"/openai", "from-name", 0o600)
	remove := func(path string) func() { return func() { os.Remove(path) } }
	for _, test := range []struct {
		key, kind, place string
		then             func()
	}{
		{"from-zino-openai", "credential", creds + "/zino-openai", remove(creds + "/zino-openai")},
		{"from-zino.openai", "credential", creds + "/zino.openai", remove(creds + "/zino.openai")},
		{"from-variable", "credential", creds + "/OPENAI_API_KEY", remove(creds + "/OPENAI_API_KEY")},
		{"from-name", "credential", creds + "/openai", func() { write(t, creds+"/openai", "\n", 0o600) }},
		{"from-file", "key_file", file, func() { file = "" }},
		{"from-environment", "environment", "OPENAI_API_KEY", func() { getenv = environmentOf("CREDENTIALS_DIRECTORY", base+"/none") }},
		{"from-store", "store", base + "/keys/openai", func() { s.Delete("openai") }},
		{"", "", "", func() { s = nil }},
		{"", "", "", func() {}},
	} {
		key, from, err := Lookup(context.Background(), account, file, getenv, s)
		if key != test.key || from != (Source{Kind: test.kind, Place: test.place}) || err != nil {
			t.Errorf("%q from %+v, %v; want %q from %s %s", key, from, err, test.key, test.kind, test.place)
		}
		test.then()
	}
}

// TestLookupErrors: a key that cannot be used is an error that names its source,
// and no other source is used.
func TestLookupErrors(t *testing.T) {
	noTool(t)
	account, _ := Find("gemini")
	const bad = secret + " " + secret
	for _, test := range []struct {
		name string
		make func(base string) (keyFile string, env []string)
		kind string
		want string
	}{
		{"a credential", func(base string) (string, []string) {
			write(t, base+"/c/zino-gemini", bad, 0o400)
			return "", []string{"CREDENTIALS_DIRECTORY", base + "/c"}
		}, "credential", "gemini's key: BASE/c/zino-gemini holds no key: it has a blank"},
		{"a credential that is a directory", func(base string) (string, []string) {
			write(t, base+"/c/gemini/x", bad, 0o400)
			return "", []string{"CREDENTIALS_DIRECTORY", base + "/c"}
		}, "credential", "gemini's key: cannot read BASE/c/gemini: it is not a regular file"},
		{"a credential that leads away", func(base string) (string, []string) {
			write(t, base+"/c/x", bad, 0o400)
			if err := os.Symlink(base+"/keys/gemini", base+"/c/gemini"); err != nil {
				t.Fatal(err)
			}
			return "", []string{"CREDENTIALS_DIRECTORY", base + "/c"}
		}, "credential", "gemini's key: cannot open the unit's credential: "},
		{"credentials that are a device", func(base string) (string, []string) {
			return "", []string{"CREDENTIALS_DIRECTORY", "/dev/null"}
		}, "credential", "gemini's key: cannot open the unit's credentials: "},
		{"a file", func(base string) (string, []string) {
			write(t, base+"/f", bad, 0o600)
			return base + "/f", nil
		}, "key_file", "gemini's key: BASE/f holds no key: it has a blank"},
		{"no file", func(base string) (string, []string) { return base + "/f", nil }, "key_file", "gemini's key: cannot read [api] key_file: open BASE/f: no such file"},
		{"an empty file", func(base string) (string, []string) {
			write(t, base+"/f", " \n", 0o600)
			return base + "/f", nil
		}, "key_file", "gemini's key: [api] key_file is empty: put the key in BASE/f"},
		{"a device", func(string) (string, []string) { return "/dev/zero", nil }, "key_file", "gemini's key: cannot read [api] key_file: /dev/zero: it is not a regular file"},
		{"a large file", func(base string) (string, []string) {
			write(t, base+"/f", strings.Repeat("k", maxFile+1), 0o600)
			return base + "/f", nil
		}, "key_file", "gemini's key: cannot read [api] key_file: BASE/f: it is larger than 65536 bytes"},
		{"the environment", func(string) (string, []string) { return "", []string{"GEMINI_API_KEY", bad} }, "environment", "gemini's key: GEMINI_API_KEY holds no key: it has a blank"},
		{"the store", func(base string) (string, []string) {
			write(t, base+"/keys/gemini", bad, 0o600)
			return "", nil
		}, "store", "gemini's key: BASE/keys/gemini holds no key: it has a blank"},
		{"an open store", func(base string) (string, []string) {
			if err := os.Chmod(base+"/keys", 0o777); err != nil {
				t.Fatal(err)
			}
			return "", nil
		}, "store", "gemini's key: BASE/keys, where keys are kept, is open to other users: chmod 700 BASE/keys"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, base := newStore(t)
			set(t, s, "gemini", "from-store")
			file, env := test.make(base)
			key, from, err := Lookup(context.Background(), account, file, environmentOf(env...), s)
			want := strings.ReplaceAll(test.want, "BASE", base)
			if key != "" || from.Kind != test.kind || from.Place == "" || err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Fatalf("%q from %+v, %v\nwant %s", key, from, err, want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestSearch: the configured key and key file and LLM_API_KEY are for the first
// provider only, and a token for anthropic comes last.
func TestSearch(t *testing.T) {
	noTool(t)
	s, base := newStore(t)
	set(t, s, "gemini", "from-store")
	file := filepath.Join(base, "file")
	zinotest.Write(t, file, "from-file")
	env := environmentOf("LLM_API_KEY", " from-llm ", "OPENAI_API_KEY", "from-openai", "ANTHROPIC_AUTH_TOKEN", "a-token\n")
	for _, test := range []struct {
		account string
		search  Search
		key     string
		from    Source
	}{
		{"openai", Search{First: true, Key: "configured", KeyFile: file}, "configured", Source{Kind: "configuration", Place: "[api] key"}},
		{"openai", Search{First: true, KeyFile: file}, "from-file", Source{Kind: "key_file", Place: file}},
		{"openai", Search{First: true}, "from-llm", Source{Kind: "environment", Place: "LLM_API_KEY"}},
		{"openai", Search{Key: "configured", KeyFile: file}, "from-openai", Source{Kind: "environment", Place: "OPENAI_API_KEY"}},
		{"gemini", Search{Key: "configured", KeyFile: file, Store: s}, "from-store", Source{Kind: "store", Place: base + "/keys/gemini"}},
		{"gemini", Search{First: true}, "", Source{}},
		{"anthropic", Search{First: true, Key: "configured"}, "configured", Source{Kind: "configuration", Place: "[api] key"}},
		{"anthropic", Search{}, "a-token", Source{Kind: "environment", Place: "ANTHROPIC_AUTH_TOKEN", Token: true}},
	} {
		account, _ := Find(test.account)
		test.search.Getenv = env
		key, from, err := test.search.Lookup(t.Context(), account)
		if key != test.key || from != test.from || err != nil {
			t.Errorf("%s, first %v: %q from %+v, %v; want %q from %+v", test.account, test.search.First, key, from, err, test.key, test.from)
		}
	}
	account, _ := Find("anthropic")
	for token, want := range map[string]string{" \n": "", "a b": "ANTHROPIC_AUTH_TOKEN: it has a blank"} {
		key, _, err := Search{Getenv: environmentOf("ANTHROPIC_AUTH_TOKEN", token)}.Lookup(t.Context(), account)
		if key != "" || want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("token %q: %q, %v", token, key, err)
		}
	}
}
