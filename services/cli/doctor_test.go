package cli

import (
	"cmp"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// answersAt sets the router's capabilities.
func (f *fake) answersAt(caps proto.RouterCapabilities) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.caps = caps
}

// refuse makes the list of models fail.
func (f *fake) refuse(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuses = why
}

// finding is a result in the output of zino doctor --json.
type finding struct{ Check, Status, Text, Remedy string }

// diagnose runs zino doctor and returns its findings by check.
func (w world) diagnose(t *testing.T, wantStatus int, env []string, args ...string) map[string][]finding {
	t.Helper()
	status, out, stderr := w.in(t, env, append(args, "doctor", "--json")...)
	var report struct {
		OK     bool
		Checks []finding
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || stderr != "" || status != wantStatus || report.OK != (status == 0) {
		t.Fatalf("status %d, stdout %s, stderr %q, %v", status, out, stderr, err)
	}
	byCheck := map[string][]finding{}
	for _, f := range report.Checks {
		if f.Text == "" || f.Status == "failed" && f.Remedy == "" {
			t.Errorf("a failure without a remedy: %+v", f)
		}
		byCheck[f.Check] = append(byCheck[f.Check], f)
	}
	for _, name := range []string{"programs", "configuration", "directories", "disk", "sockets", "host", "services", "tools", "analysers", "sandbox", "key", "provider", "clock"} {
		if byCheck[name] == nil {
			t.Errorf("nothing about %s", name)
		}
	}
	return byCheck
}

// says checks that one of the findings has a status, a text and a remedy.
func says(t *testing.T, findings []finding, status, text, remedy string) {
	t.Helper()
	for _, f := range findings {
		if f.Status == status && strings.Contains(f.Text, text) && strings.Contains(f.Remedy, remedy) {
			return
		}
	}
	t.Errorf("no %s %q with %q in %+v", status, text, remedy, findings)
}

// TestDoctorProvider checks the findings about a provider that answers and one that
// hangs, whose check times out alone.
func TestDoctorProvider(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), newFake(t, "")
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	f.answersAt(proto.RouterCapabilities{Provider: "openai", Model: "m", Endpoint: server.URL})
	found := w.diagnose(t, exitError, nil, "--socket", f.socket) // the programs are missing
	says(t, found["provider"], "ok", "and has 1 model", "")
	says(t, found["clock"], "ok", "as the provider's", "")
	says(t, found["key"], "ok", "no key; openai is asked for m", "")
	says(t, found["analysers"], "ok", "no tool has an analyser", "")

	f.answersAt(proto.RouterCapabilities{Provider: "openai", Model: "n", Endpoint: server.URL})
	says(t, w.diagnose(t, exitError, nil, "--socket", f.socket)["provider"], "warning", "does not list the model n", "zino models")
	f.refuse(&proto.Error{Code: proto.CodeUnavailable, Status: 401, Message: "HTTP 401: bad key"})
	says(t, w.diagnose(t, exitError, nil, "--socket", f.socket)["provider"], "failed", "and refuses the key: HTTP 401: bad key", "zino auth set openai")
	f.refuse(&proto.Error{Code: proto.CodeUnavailable, Status: 404, Message: "HTTP 404"})
	says(t, w.diagnose(t, exitError, nil, "--socket", f.socket)["provider"], "warning", "its models are not known: HTTP 404", "zino models")

	mute, err := net.Listen("tcp", "127.0.0.1:0")
	zinotest.Must(t, err)
	defer mute.Close()
	f.answersAt(proto.RouterCapabilities{Provider: "openai", Endpoint: "http://" + mute.Addr().String()})
	found = w.diagnose(t, exitError, []string{"CLI_TEST_LIMIT=100ms"}, "--socket", f.socket)
	says(t, found["provider"], "failed", "cannot be reached: no answer within 100ms", "curl -sSI http://"+mute.Addr().String())
	says(t, found["key"], "ok", "openai is asked for its default model", "")
	says(t, found["clock"], "ok", "", "")

	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	}))
	defer wrong.Close()
	f.answersAt(proto.RouterCapabilities{Provider: "openai", Endpoint: wrong.URL})
	found = w.diagnose(t, exitError, nil, "--socket", f.socket)
	says(t, found["clock"], "failed", " off that of ", "timedatectl")
}

// TestDoctorKey checks the findings about keys, and that no key is printed.
func TestDoctorKey(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), newFake(t, "")
	f.answersAt(proto.RouterCapabilities{Problem: "no model is connected: set much"})
	says(t, w.diagnose(t, exitError, nil, "--socket", f.socket)["key"], "failed", "no model is connected", "zino auth set anthropic")
	says(t, w.diagnose(t, exitError, []string{"OPENAI_API_KEY=" + secretKey}, "--socket", f.socket)["key"], "failed",
		"the running daemon was started without OPENAI_API_KEY, which this shell has", "zino auth set openai")
	f.answersAt(proto.RouterCapabilities{Provider: "offline", Fallback: true})
	says(t, w.diagnose(t, exitError, nil, "--socket", f.socket)["key"], "warning", "offline", "zino auth set anthropic")
	status, out, stderr := w.in(t, []string{"OPENAI_API_KEY=" + secretKey, "ANTHROPIC_API_KEY=a b"}, "doctor", "--socket", f.socket)
	if status != exitError || strings.Contains(out+stderr, secretKey) || !strings.Contains(out, "openai from environment OPENAI_API_KEY") && !strings.Contains(out, "offline") {
		t.Errorf("status %d, stdout %s, stderr %q", status, out, stderr)
	}
}

// TestDoctorBroken checks the findings about a broken installation.
func TestDoctorBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := filepath.Join(w.home, ".config", "zino")
	dir := filepath.Join(w.runtime, "zino")
	for _, d := range []string{base, dir} {
		zinotest.Must(t, os.MkdirAll(d, 0o700))
	}
	zinotest.Write(t, filepath.Join(base, "config.toml"), "[exc]\ntimeot = 5\n")
	stale, err := net.Listen("unix", filepath.Join(dir, "mem.sock"))
	zinotest.Must(t, err)
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	found := w.diagnose(t, exitError, nil)
	says(t, found["programs"], "failed", "zino-daemon is missing", "make")
	says(t, found["configuration"], "failed", `config.toml:2:1: unknown key "exc.timeot"`, "zino config edit")
	says(t, found["sockets"], "warning", "nothing listens on 1 socket in "+dir, "rm "+dir+"/mem.sock")
	says(t, found["services"], "failed", "do not start", "zino up")
	says(t, found["sandbox"], "skipped", "not checked: the services do not answer", "")
	says(t, found["provider"], "skipped", "not checked: the services do not answer", "")

	for _, bad := range []string{"/proc/none", os.Args[0]} {
		says(t, w.diagnose(t, exitError, []string{"ZINO_HOME=" + bad})["directories"], "failed", bad+" cannot be written", "ls -ld "+bad)
	}
	zinotest.Must(t, os.WriteFile(filepath.Join(dir, "rtr.sock"), nil, 0o600))
	for _, d := range []string{base, filepath.Join(base, "sessions")} { // made by an earlier run
		zinotest.Must(t, os.Chmod(d, 0o755))
	}
	found = w.diagnose(t, exitError, []string{"PATH=/bin:/usr/bin"}, "-c", filepath.Join(base, "none.toml"))
	says(t, found["configuration"], "failed", "cannot read the configuration", "ls -l ")
	says(t, found["sockets"], "failed", "rtr.sock is not a socket", "rm ")
	found = w.diagnose(t, exitError, nil)
	says(t, found["directories"], "warning", "others can read "+base+"/sessions", "chmod 700 ")
	zinotest.Must(t, os.MkdirAll(filepath.Join(base, "log", "audit.jsonl"), 0o700))
	zinotest.Must(t, os.Chmod(base, 0o700))
	says(t, w.diagnose(t, exitError, nil)["directories"], "warning", "nothing is recorded for the audit", "ls -ld "+base)
}

// in runs a command in the world with further environment variables.
func (w world) in(t *testing.T, env []string, args ...string) (status int, out, stderr string) {
	t.Helper()
	return run(t, with(w.command(args...), env...), "")
}

// TestDoctorUnits checks that a unit that starts or stops is not a failure, and one that
// failed is.
func TestDoctorUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.runtime, "zino")
	zinotest.Must(t, os.Mkdir(dir, 0o700))
	var text strings.Builder
	for _, name := range config.Services {
		state := map[string]string{"daemon": "active running success", "mem": "activating start success", "sys": "deactivating stop-sigterm success", "rtr": "failed failed watchdog"}[name]
		words := strings.Fields(cmp.Or(state, "inactive dead success"))
		text.WriteString(shown(name, words[0], words[1], words[2], "active"))
	}
	serveAs(t, "daemon", filepath.Join(dir, "daemon.sock"))
	cmd := with(w.command("doctor"), w.pretend(t, true, text.String()))
	_, out, _ := run(t, cmd, "")
	if strings.Contains(out, " mem is ") || strings.Contains(out, " sys is ") || strings.Count(out, "the last run ended with watchdog") != 1 {
		t.Errorf("printed:\n%s", out)
	}
}
