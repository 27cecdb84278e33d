package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
)

// TestFormatRefused checks that a command which prints text only says so.
func TestFormatRefused(t *testing.T) {
	for _, args := range []string{"memory rm 1", "memory soft set x", "channels clear x", "up", "completion bash", "auth set openai"} {
		for _, flag := range []string{"--format=json", "--json"} {
			status, out, said := run(t, newWorld(t).command(append(strings.Fields(args), flag)...), "")
			if status != exitUsage || out != "" || !strings.HasSuffix(said, " prints text: leave --json and --format json out\n") {
				t.Errorf("%s %s: status %d, printed %q, said %q", args, flag, status, out, said)
			}
		}
	}
	if status, out, said := run(t, newWorld(t).command("--format", "text", "config", "path"), ""); status != 0 || out == "" || said != "" {
		t.Errorf("--format text: status %d, printed %q, said %q", status, out, said)
	}
	for _, args := range []string{"--json --format text config path", "sessions export x --json --format md"} {
		if status, out, said := run(t, newWorld(t).command(strings.Fields(args)...), ""); status != exitUsage || out != "" || !strings.Contains(said, "exclude each other") {
			t.Errorf("%s: status %d, printed %q, said %q", args, status, out, said)
		}
	}
}

// TestFormatIsJSON checks that both spellings print the same lines of JSON.
func TestFormatIsJSON(t *testing.T) {
	m := newFakeMem(t, "first", "second")
	for _, args := range []string{
		"memory list", "memory show 1", "memory search first", "memory soft", "memory add first", "memory export",
		"config check", "auth list", "describe mem",
	} {
		_, want, _ := m.zino(t, "", append(strings.Fields(args), "--json")...)
		if _, got, _ := m.zino(t, "", append(strings.Fields(args), "--format=json")...); got != want {
			t.Errorf("%s: printed %q, want %q", args, got, want)
		}
		for line := range strings.Lines(want) {
			if !json.Valid([]byte(line)) || line[0] != '{' {
				t.Errorf("%s: printed the line %q", args, line)
			}
		}
		if want == "" {
			t.Errorf("%s: printed nothing", args)
		}
	}
}

// TestConfigCheckJSON checks the object for a file with a mistake.
func TestConfigCheckJSON(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "x.toml")
	if err := os.WriteFile(path, []byte("modle = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, said := run(t, w.command("config", "check", "--json", "--config", path), "")
	var got struct {
		Path     string
		OK       *bool
		Problems []string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 1 || said != "" || got.Path != path || got.OK == nil || *got.OK || len(got.Problems) != 1 {
		t.Errorf("status %d, printed %q, said %q: %v", status, out, said, err)
	}
}

func TestStatusJSON(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.runtime, "zino")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	serveAs(t, "daemon", filepath.Join(dir, "daemon.sock"), "odd")
	for _, flag := range []string{"--json", "--format=json"} {
		status, out, _ := run(t, w.command("status", flag), "")
		var got struct{ Services []report }
		if err := json.Unmarshal([]byte(out), &got); err != nil || status != 1 || strings.Count(out, "\n") != 1 || len(got.Services) != 7 {
			t.Fatalf("status %d, printed %q: %v", status, out, err)
		}
		for _, s := range got.Services {
			switch {
			case s.Service == "daemon" && s.State == "up" && s.Version == rpc.Build && len(s.Problems) == 1 && s.Problems[0] == "odd":
			case s.Service != "daemon" && s.State == "down" && s.Socket != "" && len(s.Problems) == 0:
			default:
				t.Errorf("printed %+v", s)
			}
		}
	}
}

// report is a service in the output of zino status --json.
type report struct {
	Service, State, Version, Socket string
	Problems                        []string
}
