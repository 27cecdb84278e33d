package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// secretKey must appear only in the store.
const secretKey = "sk-secret-0123456789"

// auth returns a zino auth command that stores keys unencrypted, because PATH has no
// systemd-creds.
func (w world) auth(args ...string) *exec.Cmd {
	cmd := w.command(append([]string{"auth"}, args...)...)
	return with(cmd, "PATH="+w.cwd)
}

// with adds to the environment of a command.
func with(cmd *exec.Cmd, env ...string) *exec.Cmd {
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// store returns the directory of stored keys.
func (w world) store() string { return filepath.Join(w.home, ".config", "zino", "keys") }

// kept lists the stored keys as NAME=CONTENT.
func (w world) kept(t *testing.T) string {
	t.Helper()
	var list []string
	entries, err := os.ReadDir(w.store())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(w.store(), e.Name()))
		zinotest.Must(t, err)
		list = append(list, e.Name()+"="+strings.TrimSpace(string(data)))
	}
	return strings.Join(list, " ")
}

// TestAuthPrompt checks that the key is not echoed and the terminal is restored.
func TestAuthPrompt(t *testing.T) {
	for _, test := range []struct {
		name, keys string
		signal     os.Signal
		status     int
		kept, says string
	}{
		{"typed", secretKey + "\r", nil, 0, "openai=" + secretKey, "is kept in "},
		{"corrected", "xx\x7f\x7f" + secretKey + "\r", nil, 0, "openai=" + secretKey, "is kept in "},
		{"nothing", "\r", nil, exitError, "", "no key was given"},
		{"Ctrl-D", "\x04", nil, exitError, "", "no key was given"},
		{"Ctrl-C", "sk-half\x03", nil, exitInterrupted, "", ""},
		{"SIGINT", "", os.Interrupt, exitInterrupted, "", ""},
		{"SIGTERM", "", syscall.SIGTERM, exitInterrupted, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x := onTerminal(t, w.auth("set", "openai"))
			x.Shows("Get a key of openai at https://platform.openai.com/api-keys")
			x.Shows("Key of openai (it is not shown): ")
			x.Type(test.keys)
			if test.signal != nil {
				x.Signal(test.signal)
			}
			x.leaves(test.status)
			x.Shows(test.says)
			if x.Written.Contains("sk-") || w.kept(t) != test.kept {
				t.Errorf("kept %q, on the screen: %q", w.kept(t), x.Written.String())
			}
		})
	}
}

// TestAuthLoginOnTerminal checks that a typed code ends the login, and that the key is
// stored and not printed.
func TestAuthLoginOnTerminal(t *testing.T) {
	t.Parallel()
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/auth/keys" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"key":%q}`, secretKey)
	}))
	defer router.Close()
	w := newWorld(t)
	x := onTerminal(t, with(w.auth("login", "openrouter"), "OPENROUTER_BASE_URL="+router.URL+"/api/v1"))
	x.Shows("paste that page's address here.")
	x.Type("code-0123456789\r")
	x.leaves(0)
	x.Shows("The key of openrouter is kept ")
	if w.kept(t) != "openrouter="+secretKey || x.Written.Contains(secretKey) {
		t.Errorf("kept %q; on the screen: %q", w.kept(t), x.Written.String())
	}
}
