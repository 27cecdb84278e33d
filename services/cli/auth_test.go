package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// secretKey must not be seen where it does not belong.
const secretKey = "sk-secret-0123456789"

// auth is zino auth in that world. Unless the test says otherwise nothing
// encrypts there, so that a key that was kept can be seen.
func (w world) auth(args ...string) *exec.Cmd {
	cmd := w.command(append([]string{"auth"}, args...)...)
	return with(cmd, "PATH="+w.cwd)
}

// with adds to the environment of a command.
func with(cmd *exec.Cmd, env ...string) *exec.Cmd {
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// store is where keys are kept in that world.
func (w world) store() string { return filepath.Join(w.home, ".config", "zino", "keys") }

// kept is what lies in the store, NAME=CONTENT each.
func (w world) kept(t *testing.T) string {
	t.Helper()
	var list []string
	entries, err := os.ReadDir(w.store())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(w.store(), e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Name()+"="+strings.TrimSpace(string(data)))
	}
	return strings.Join(list, " ")
}

// holders lists the files in that world that hold a text.
func (w world) holders(t *testing.T, text string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(w.home), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// keep puts a file into the store.
func (w world) keep(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(w.store(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.store(), name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAuthList shows where keys come from and nothing of them.
func TestAuthList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep(t, "anthropic", secretKey+"-a\n")
	w.keep(t, "openai", secretKey+"-b\n")
	if err := os.WriteFile(filepath.Join(w.runtime, "zino-gemini"), []byte(secretKey), 0o400); err != nil {
		t.Fatal(err)
	}
	env := []string{"OPENAI_API_KEY=" + secretKey + "-c", "CREDENTIALS_DIRECTORY=" + w.runtime}
	status, out, said := run(t, with(w.auth("list"), env...), "")
	for _, want := range []string{
		"PROVIDER KEY FROM STORED",
		"anthropic store not encrypted, " + w.store() + "/anthropic",
		"openai environment OPENAI_API_KEY not encrypted, " + w.store() + "/openai",
		"gemini credential " + w.runtime + "/zino-gemini -",
		"openrouter none -",
	} {
		if !strings.Contains(fields(out), want+"\n") {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if status != 0 || said != "" || strings.Contains(out, "sk-") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
}

// fields makes all columns one blank wide.
func fields(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// TestAuthListProblems tells of keys that cannot be used, each once.
func TestAuthListProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep(t, "openai", secretKey+" more\n")
	status, out, said := run(t, with(w.auth("list"), "GEMINI_API_KEY="+secretKey+"\x1b[31m"), "")
	for _, want := range []string{"openai unusable: store not encrypted, " + w.store() + "/openai\n", "gemini unusable: environment GEMINI_API_KEY -\n", "anthropic none -\n"} {
		if !strings.Contains(fields(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if status != exitError || strings.Count(said, "\n") != 2 || !strings.Contains(said, "Error [internal]: gemini's key: GEMINI_API_KEY holds no key: ") || strings.Contains(out+said, "sk-") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	if err := os.Chmod(w.store(), 0o755); err != nil {
		t.Fatal(err)
	}
	status, out, said = run(t, w.auth("list"), "")
	want := "Error [internal]: " + w.store() + ", where keys are kept, is open to other users: chmod 700 " + w.store() + "\n"
	if status != exitError || said != want || !strings.Contains(fields(out), "openai none -\n") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	for _, command := range []string{"set", "logout"} {
		if status, out, said = run(t, w.auth(command, "openai"), secretKey); status != exitError || out != "" || said != want {
			t.Errorf("%s: status %d, printed %q, said %q", command, status, out, said)
		}
	}
}

func TestAuthLogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep(t, "openai", secretKey)
	w.keep(t, "openai.cred", "what was there before")
	w.keep(t, "gemini", "another")
	for _, want := range []string{
		"The key of openai is removed from " + w.store() + ". It stays valid until you revoke it: https://platform.openai.com/api-keys\n",
		"There was no key of openai in " + w.store() + ".\n",
	} {
		status, out, said := run(t, w.auth("logout", "openai"), "")
		if status != 0 || out != "" || said != want || w.kept(t) != "gemini=another" {
			t.Errorf("status %d, printed %q, said %q; kept %s", status, out, said, w.kept(t))
		}
	}
	for _, value := range []string{secretKey, "no key at all"} {
		status, _, said := run(t, with(w.auth("logout", "openai"), "OPENAI_API_KEY="+value), "")
		if status != 0 || !strings.HasSuffix(said, "\nNote: there is still one in environment OPENAI_API_KEY.\n") || strings.Contains(said, value) {
			t.Errorf("status %d, said %q", status, said)
		}
	}
}

// TestAuthNoPlace has a home that cannot be used.
func TestAuthNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{{"set", "openai"}, {"list"}, {"logout", "openai"}} {
		status, out, said := run(t, with(w.auth(args...), "ZINO_HOME=/dev/null"), secretKey)
		if status != exitError || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "Error [internal]: cannot ") || strings.Contains(out+said, secretKey) {
			t.Errorf("%v: status %d, printed %q, said %q", args, status, out, said)
		}
	}
}
