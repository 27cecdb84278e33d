package rtr

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/mask"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestMaskHintsFindEveryKey masks the secrets of each place where rtr finds one, and
// checks that the hints do not contain them.
func TestMaskHintsFindEveryKey(t *testing.T) {
	alone(t)
	secrets := map[string]string{}
	secret := func(place string) string {
		secrets[place] = "sk-" + strings.ReplaceAll(place, " ", "-") + "-0123456789abcdef"
		return secrets[place]
	}
	t.Setenv("ANTHROPIC_API_KEY", secret("environment"))
	t.Setenv("ANTHROPIC_AUTH_TOKEN", secret("bearer token"))
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Tenant: "+secret("header"))
	t.Setenv("OPENROUTER_BASE_URL", "https://someone:"+secret("password of a base")+"@example.com/v1")
	t.Setenv("GEMINI_API_KEY", "short-key")
	file := filepath.Join(t.TempDir(), "key")
	zinotest.Write(t, file, secret("key file")+"\n")
	credentials := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	zinotest.Must(t, os.Chmod(credentials, 0o500))
	r := start(t, func(cfg *config.Config) {
		cfg.Provider = "openai"
		cfg.API.KeyFile = file
	})
	_, err := r.set.keys.Store.Set(t.Context(), "anthropic", secret("store"))
	zinotest.Must(t, err)
	ask := func() proto.MaskHints {
		hints, err := rpc.Call(t.Context(), r.client, proto.RtrMaskHints, proto.MaskHintsRequest{})
		zinotest.Must(t, err)
		return hints
	}
	hints := ask()
	if again := ask(); again.Base != hints.Base {
		t.Error("the hints were made again without a change of the keys")
	}
	m, err := mask.New(mask.Config{Salt: []byte("salt"), Hints: hints, NoShapes: true})
	zinotest.Must(t, err)
	sent, err := json.Marshal(hints)
	zinotest.Must(t, err)
	for place, value := range secrets {
		if masked, n := m.Text([]byte("it is " + value + ".")); n != 1 {
			t.Errorf("%s: %q is not masked", place, masked)
		}
		if strings.Contains(string(sent), value) {
			t.Errorf("%s: the hints contain the secret", place)
		}
	}
	for _, plain := range []string{"short-key", credentials, "example.com/v1 and more"} {
		if masked, n := m.Text([]byte(plain)); n != 0 {
			t.Errorf("%q became %q", plain, masked)
		}
	}
	_, err = r.set.keys.Store.Set(t.Context(), "openrouter", "sk-new-key-in-the-store")
	zinotest.Must(t, err)
	m, err = mask.New(mask.Config{Salt: []byte("salt"), Hints: ask(), NoShapes: true})
	zinotest.Must(t, err)
	if masked, n := m.Text([]byte("sk-new-key-in-the-store")); n != 1 {
		t.Errorf("a key stored later: %q", masked)
	}
}
