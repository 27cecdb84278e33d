package config

import (
	"strings"
	"testing"
)

// TestEmbedWarns checks that a provider that is not on this host is named.
func TestEmbedWarns(t *testing.T) {
	for text, want := range map[string]string{
		"[mem]\nembed = \"\"\n":                                                                       "",
		"[mem]\nembed = \"ollama/nomic-embed-text\"\n":                                                "",
		"[mem]\nembed = \"ollama/some/embed:cloud\"\n":                                                "f:2:1: mem.embed sends the memories, and what is searched in them, to Ollama's cloud, which is not on this host",
		"[mem]\nembed = \"openai/text-embedding-3-small\"\n":                                          "to https://api.openai.com/v1, which",
		"[mem]\nembed = \"openrouter/a/b\"\n[api]\nbase_url = \"http://127.0.0.1:1/v1\"\n":            "to https://openrouter.ai/api/v1, which",
		"[mem]\nembed = \"openai/m\"\n[api]\nbase_url = \"http://127.0.0.1:8080/v1\"\n":               "",
		"[mem]\nembed = \"openai/m\"\n[api]\nbase_url = \"http://u:secret@example.org/v1\"\n":         "to http://example.org/v1, which",
		"provider = \"gemini\"\n[mem]\nembed = \"openai/m\"\n[api]\nbase_url = \"http://[::1]/v1\"\n": "to https://api.openai.com/v1, which",
		"openai_base_url = \"http://localhost:1/v1\"\n[mem]\nembed = \"openai/m\"\n":                  "",
		"provider = \"ollama\"\n[mem]\nembed = \"ollama/m\"\n[api]\nbase_url = \"http://10.0.0.7\"\n": "to http://10.0.0.7, which",
	} {
		t.Setenv("OLLAMA_HOST", "0.0.0.0")
		t.Setenv("OPENAI_BASE_URL", "")
		t.Setenv("OPENROUTER_BASE_URL", "")
		problems, warnings := found(t, text)
		if got := strings.Join(warnings, " "); len(problems) > 0 || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: problems %q, warnings %q, want %q", text, problems, got, want)
		}
	}
	t.Setenv("OLLAMA_HOST", "gpu.example.org:11434")
	if _, warnings := found(t, "[mem]\nembed = \"ollama/m\"\n"); len(warnings) != 1 || !strings.Contains(warnings[0], "http://gpu.example.org:11434") {
		t.Errorf("OLLAMA_HOST: %q", warnings)
	}
}

func TestEmbedIsChecked(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "ollama/m": true, "openai/a/b:c": true, "openrouter/x": true,
		"ollama": false, "ollama/": false, "/m": false, "anthropic/m": false, "gemini/m": false, "auto/m": false, "offline/m": false, "ollama/a b": false, "ollama/a\\nb": false,
	} {
		_, err := Parse([]byte("[mem]\nembed = \""+name+"\"\n"), "Z", "/d", "mem")
		if ok != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), "Z:2:1: mem.embed must be empty (off), or provider/model") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
