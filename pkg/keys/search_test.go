package keys

import (
	"maps"
	"os"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// TestSearchOrder removes one source after the other.
func TestSearchOrder(t *testing.T) {
	noTool(t)
	store, base := newStore(t)
	account, _ := Find("openai")
	creds, file := base+"/creds", base+"/file"
	set(t, store, "openai", "from-store")
	write(t, file, "from-file\n", 0o644) // as containers get their secrets
	write(t, creds+"/zino-openai", "from-zino-openai\n", 0o400)
	write(t, creds+"/zino.openai", "from-zino.openai\n", 0o400)
	write(t, creds+"/OPENAI_API_KEY", "from-variable", 0o440)
	write(t, creds+"/openai", "from-name", 0o600)
	env := map[string]string{"CREDENTIALS_DIRECTORY": creds, "LLM_API_KEY": " from-llm ", "OPENAI_API_KEY": " from-environment\n"}
	search := Search{First: "openai", Key: "configured", KeyFile: file, File: "FILE", Getenv: getenv(env), Store: store}
	remove := func(path string) func() { return func() { zinotest.Must(t, os.Remove(path)) } }
	for _, test := range []struct {
		key  string
		from Source
		text string
		then func()
	}{
		{"configured", Source{Kind: "[api] key", Place: "in FILE"}, "[api] key in FILE", func() { search.Key = "" }},
		{"from-zino-openai", Source{Kind: "credential", Place: creds + "/zino-openai"}, "credential " + creds + "/zino-openai", remove(creds + "/zino-openai")},
		{"from-zino.openai", Source{Kind: "credential", Place: creds + "/zino.openai"}, "", remove(creds + "/zino.openai")},
		{"from-variable", Source{Kind: "credential", Place: creds + "/OPENAI_API_KEY"}, "", remove(creds + "/OPENAI_API_KEY")},
		{"from-name", Source{Kind: "credential", Place: creds + "/openai"}, "", func() { write(t, creds+"/openai", "\n", 0o600) }},
		{"from-file", Source{Kind: "key_file", Place: file}, "", func() { search.KeyFile = "" }},
		{"from-llm", Source{Kind: "environment", Place: "LLM_API_KEY"}, "environment LLM_API_KEY", func() { env["LLM_API_KEY"] = " " }},
		{"from-environment", Source{Kind: "environment", Place: "OPENAI_API_KEY"}, "", func() {
			clear(env)
			env["CREDENTIALS_DIRECTORY"] = base + "/missing"
		}},
		{"from-store", Source{Kind: "store", Place: base + "/keys/openai"}, "store", remove(base + "/keys/openai")},
		{"", Source{}, "none", func() { search.Store = nil }},
		{"", Source{}, "none", func() {}},
	} {
		key, from, err := search.Lookup(t.Context(), account)
		if key != test.key || from != test.from || err != nil || test.text != "" && from.String() != test.text {
			t.Errorf("%q from %+v (%s), %v; want %q from %+v", key, from, from, err, test.key, test.from)
		}
		test.then()
	}
}

// TestSearchErrors: a key that cannot be used is an error that names its source,
// and no other source is used.
func TestSearchErrors(t *testing.T) {
	noTool(t)
	const bad = secret + " " + secret
	for _, test := range []struct {
		name  string
		files map[string]string // below the base
		env   map[string]string
		file  string
		kind  string
		want  string
	}{
		{"a credential", map[string]string{"c/zino-gemini": bad}, map[string]string{"CREDENTIALS_DIRECTORY": "BASE/c"}, "", "credential", "BASE/c/zino-gemini contains no valid key: it has a blank"},
		{"a credential that is a directory", map[string]string{"c/gemini/x": bad}, map[string]string{"CREDENTIALS_DIRECTORY": "BASE/c"}, "", "credential", "cannot read BASE/c/gemini: it is not a regular file"},
		{"a credential that links to the outside", map[string]string{"c/x": bad, "c/gemini": "-> BASE/keys/gemini"}, map[string]string{"CREDENTIALS_DIRECTORY": "BASE/c"}, "", "credential", "cannot open the unit's credential: "},
		{"credentials that are a device", nil, map[string]string{"CREDENTIALS_DIRECTORY": "/dev/null"}, "", "credential", "cannot open the unit's credentials: "},
		{"a file", map[string]string{"f": bad}, nil, "BASE/f", "key_file", "BASE/f contains no valid key: it has a blank"},
		{"no file", nil, nil, "BASE/f", "key_file", "cannot read [api] key_file: open BASE/f: no such file"},
		{"an empty file", map[string]string{"f": " \n"}, nil, "BASE/f", "key_file", "[api] key_file is empty: put the key in BASE/f"},
		{"a device", nil, nil, "/dev/zero", "key_file", "cannot read [api] key_file: /dev/zero: it is not a regular file"},
		{"a large file", map[string]string{"f": strings.Repeat("k", maxFile+1)}, nil, "BASE/f", "key_file", "cannot read [api] key_file: BASE/f: it is larger than 65536 bytes"},
		{"the environment", nil, map[string]string{"GEMINI_API_KEY": bad}, "", "environment", "GEMINI_API_KEY contains no valid key: it has a blank"},
		{"the store", map[string]string{"keys/gemini": bad}, nil, "", "store", "BASE/keys/gemini contains no valid key: it has a blank"},
		{"an open store", nil, nil, "", "store", "BASE/keys, where keys are kept, is open to other users: chmod 700 BASE/keys"},
		{"a token", nil, map[string]string{"ANTHROPIC_AUTH_TOKEN": bad}, "", "environment", "ANTHROPIC_AUTH_TOKEN contains no valid key: it has a blank"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, base := newStore(t)
			below := func(s string) string { return strings.ReplaceAll(s, "BASE", base) }
			set(t, store, "gemini", "from-store")
			zinotest.Must(t, os.MkdirAll(base+"/c", 0o700))
			for name, text := range test.files {
				if target, ok := strings.CutPrefix(text, "-> "); ok {
					zinotest.Must(t, os.Symlink(below(target), base+"/"+name))
					continue
				}
				zinotest.Write(t, base+"/"+name, text)
			}
			if test.name == "an open store" {
				zinotest.Must(t, os.Chmod(base+"/keys", 0o777))
			}
			env := maps.Clone(test.env)
			for name, value := range env {
				env[name] = below(value)
			}
			account, _ := Find("gemini")
			if test.name == "a token" {
				account, _ = Find("anthropic")
			}
			key, from, err := Search{First: account.Name, KeyFile: below(test.file), Getenv: getenv(env), Store: store}.Lookup(t.Context(), account)
			if key != "" || from.Kind != test.kind || from.Place == "" {
				t.Errorf("%q from %+v", key, from)
			}
			refused(t, test.name, err, account.Name+"'s key: "+below(test.want))
		})
	}
}

// TestSearchAccounts: [api] and LLM_API_KEY are for the first provider only, a
// stored key is for the provider itself, and a token for anthropic comes last.
func TestSearchAccounts(t *testing.T) {
	noTool(t)
	store, base := newStore(t)
	for _, name := range []string{"openai", "gemini", "anthropic"} {
		set(t, store, name, "stored-"+name)
	}
	zinotest.Write(t, base+"/file", "from-file")
	llm := map[string]string{"LLM_API_KEY": "from-llm"}
	token := map[string]string{"ANTHROPIC_AUTH_TOKEN": "a-token\n"}
	api := config.API{Key: "configured", KeyFile: base + "/file"}
	for _, test := range []struct {
		name                  string
		provider              string // of the configuration
		api                   config.API
		env                   map[string]string
		first                 string
		openai, gemini, other string // the keys; other is anthropic's
	}{
		{"nothing", "", config.API{}, nil, "", "stored-openai", "stored-gemini", "stored-anthropic"},
		{"blank", "", config.API{}, map[string]string{"LLM_API_KEY": " "}, "", "stored-openai", "stored-gemini", "stored-anthropic"},
		{"a key", "", api, nil, "openai", "configured", "stored-gemini", "stored-anthropic"},
		{"a key file", "auto", config.API{KeyFile: api.KeyFile}, nil, "openai", "from-file", "stored-gemini", "stored-anthropic"},
		{"LLM_API_KEY", "", config.API{}, llm, "openai", "from-llm", "stored-gemini", "stored-anthropic"},
		{"another's key", "gemini", api, llm, "gemini", "stored-openai", "configured", "stored-anthropic"},
		{"another's LLM_API_KEY", "gemini", config.API{}, llm, "gemini", "stored-openai", "stored-gemini", "stored-anthropic"},
		{"offline", "offline", api, llm, "offline", "stored-openai", "stored-gemini", "stored-anthropic"},
		{"a server", "", config.API{BaseURL: "http://host/v1"}, nil, "openai", "", "stored-gemini", "stored-anthropic"},
		{"a URL that is not valid", "openai", config.API{BaseURL: ":"}, nil, "openai", "", "stored-gemini", "stored-anthropic"},
		{"OpenAI's own server", "", config.API{BaseURL: "https://api.openai.com/v1"}, nil, "openai", "stored-openai", "stored-gemini", "stored-anthropic"},
		{"a server that is not used", "anthropic", config.API{BaseURL: "http://host/v1"}, nil, "anthropic", "stored-openai", "stored-gemini", "stored-anthropic"},
		{"a token besides a key", "", config.API{}, token, "", "stored-openai", "stored-gemini", "stored-anthropic"},
	} {
		cfg := config.Default()
		cfg.Provider, cfg.API = test.provider, test.api
		env := map[string]string{"ZINO_HOME": base}
		maps.Copy(env, test.env)
		search := NewSearch(cfg, getenv(env))
		zinotest.Equal(t, test.name+": first", search.First, test.first)
		for name, want := range map[string]string{"openai": test.openai, "gemini": test.gemini, "anthropic": test.other} {
			account, _ := Find(name)
			if key, _, err := search.Lookup(t.Context(), account); key != want || err != nil {
				t.Errorf("%s: %s has %q, %v; want %q", test.name, name, key, err, want)
			}
		}
	}
	account, _ := Find("anthropic")
	for value, want := range map[string]Source{"a-token\n": {Kind: "environment", Place: "ANTHROPIC_AUTH_TOKEN", Token: true}, " \n": {}} {
		key, from, err := Search{Getenv: getenv(map[string]string{"ANTHROPIC_AUTH_TOKEN": value})}.Lookup(t.Context(), account)
		if key != strings.TrimSpace(value) || from != want || err != nil {
			t.Errorf("token %q: %q from %+v, %v", value, key, from, err)
		}
	}
}
