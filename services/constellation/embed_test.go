package constellation_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/proto"
)

// embedding runs a constellation with two providers, of which the second is named by
// [mem] embed.
func embedding(t *testing.T, model string, changes ...func(*config.Config)) (cfg *config.Config, other, named *fakellm.Server) {
	t.Helper()
	other, named = fakellm.New(), fakellm.New()
	t.Cleanup(other.Close)
	t.Cleanup(named.Close)
	t.Setenv("ANTHROPIC_API_KEY", "key")
	t.Setenv("OPENAI_API_KEY", "key")
	t.Setenv("ANTHROPIC_BASE_URL", other.Host)
	t.Setenv("OPENAI_BASE_URL", other.URL)
	t.Setenv("OLLAMA_HOST", named.Host)
	return start(t, append(changes, func(cfg *config.Config) { cfg.Mem.Embed, cfg.Provider = model, "anthropic" })...), other, named
}

func storeMemory(t *testing.T, cfg *config.Config, text string) {
	t.Helper()
	reply := lastOf(ask(t, cfg.Mem.Socket, fmt.Sprintf(`{"type":"store_hard","messages":[{"role":"user","content":%q}]}`, text)))
	if !strings.HasPrefix(reply, `{"type":"ok"`) {
		t.Fatalf("not stored: %s", reply)
	}
}

func searchMemories(t *testing.T, cfg *config.Config, query string) (found proto.HardMemories) {
	t.Helper()
	reply := lastOf(ask(t, cfg.Mem.Socket, fmt.Sprintf(`{"type":"search_hard","query":%q,"top_k":1}`, query)))
	zinotest.Must(t, json.Unmarshal([]byte(reply), &found))
	return found
}

// TestEmbeddingsGoToTheNamedProvider stores and finds memories by the vectors of a
// provider over HTTP: no other one gets a text, and none without a model.
func TestEmbeddingsGoToTheNamedProvider(t *testing.T) {
	cfg, other, named := embedding(t, "ollama/nomic-embed-text")
	storeMemory(t, cfg, "the carriage waits")
	storeMemory(t, cfg, "tea is at five")
	zinotest.Eventually(t, "a memory is found by its vector", func() bool {
		found := searchMemories(t, cfg, "cargo")
		return len(found.Results) == 1 && *found.Results[0].ID == 0 && found.Results[0].Lexical == nil && *found.Results[0].Vector > 0.3
	})
	zinotest.Eventually(t, "both memories are sent", func() bool { return slices.Contains(named.Embedded(), "tea is at five ") })
	texts := named.Embedded()
	slices.Sort(texts)
	zinotest.Equal(t, "texts", strings.Join(slices.Compact(texts), "|"), "cargo|tea is at five |the carriage waits ")
	zinotest.Equal(t, "requests to another provider", len(other.Requests()), 0)

	cfg, other, named = embedding(t, "")
	storeMemory(t, cfg, "the carriage waits")
	searchMemories(t, cfg, "cargo")
	zinotest.Equal(t, "requests", len(other.Requests())+len(named.Requests()), 0)
}

// TestEmbeddingsFail has a provider that is down, slow, limited, or that
// changes the size of its vectors: memories are stored and found by their words.
func TestEmbeddingsFail(t *testing.T) {
	cfg, _, named := embedding(t, "ollama/nomic-embed-text", func(cfg *config.Config) { cfg.Rtr.StallTimeout = 0.1 })
	storeMemory(t, cfg, "tea is at five")
	zinotest.Eventually(t, "a memory has its vector", func() bool { return searchMemories(t, cfg, "tea").Notice == "" })
	end := make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release() // before the provider is closed, which waits for its answers
	status := func(code int) func(http.ResponseWriter, []string) bool {
		return func(w http.ResponseWriter, _ []string) bool {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(code)
			return true
		}
	}
	for i, fault := range []struct {
		name, want, code string
		answer           func(http.ResponseWriter, []string) bool
	}{
		{"another size", "the vectors in the cache have 64 dimensions, this one has 2", "internal", func(w http.ResponseWriter, texts []string) bool {
			_, err := fmt.Fprintf(w, `{"embeddings":[%s[1,2]]}`, strings.Repeat("[1,2],", len(texts)-1))
			return err == nil
		}},
		{"not JSON", "broken or not a list of embeddings", "internal", func(w http.ResponseWriter, _ []string) bool {
			_, err := w.Write([]byte(`{"embeddings":[[1,x]]}`))
			return err == nil
		}},
		{"unknown", "HTTP 404", "not_found", status(404)},
		{"slow", "the model took too long", "timeout", func(http.ResponseWriter, []string) bool { <-end; return true }},
		{"limited", "embeddings unavailable", "busy", status(429)}, // the last one: rtr pauses afterwards, with another text
	} {
		t.Run(fault.name, func(t *testing.T) {
			named.SetEmbed(fault.answer)
			storeMemory(t, cfg, fmt.Sprintf("the gate %d is open", i))
			query := "tea " + fault.name
			zinotest.Eventually(t, "the notice "+fault.want, func() bool { // a slow host may take longer than a search waits
				query += "x" // has no vector yet
				found := searchMemories(t, cfg, query)
				if len(found.Results) != 1 || *found.Results[0].ID != 0 || found.Results[0].Vector != nil || !strings.HasPrefix(found.Notice, "embeddings unavailable: ") {
					t.Errorf("got %+v", found)
				}
				return strings.Contains(found.Notice, fault.want)
			})
			if got := lastOf(ask(t, cfg.Mem.Socket, `{"type":"embed_hard"}`)); !strings.Contains(got, `"code":"`+fault.code+`"`) {
				t.Errorf("embed_hard: %s, want the code %s", got, fault.code)
			}
		})
	}
	release()
	named.Close()
	storeMemory(t, cfg, "the cat is out")
	if found := searchMemories(t, cfg, "cat"); len(found.Results) != 1 || found.Notice == "" {
		t.Errorf("without the provider: %+v", found)
	}
}
