package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
)

// TestFormatRefused holds that a command which prints text only says so.
func TestFormatRefused(t *testing.T) {
	for _, args := range []string{"config path", "config check", "config init", "auth list", "memory add x", "memory soft", "sessions rm x", "handoff --goal x", "describe mem", "up", "completion bash"} {
		status, out, said := run(t, newWorld(t).command(append(strings.Fields(args), "--format", "json")...), "")
		if status != exitUsage || out != "" || !strings.HasSuffix(said, " prints text: leave --format json out\n") {
			t.Errorf("%s: status %d, printed %q, said %q", args, status, out, said)
		}
	}
	if status, out, said := run(t, newWorld(t).command("--format", "text", "config", "path"), ""); status != 0 || out == "" || said != "" {
		t.Errorf("--format text: status %d, printed %q, said %q", status, out, said)
	}
}

// TestFormatIsJSON holds that --format json is --json where there is one.
func TestFormatIsJSON(t *testing.T) {
	m := newFakeMem(t, "first", "second")
	for _, args := range []string{"memory list", "memory show 1", "memory search first", "channels list", "channels show c"} {
		_, want, _ := m.zino(t, "", append(strings.Fields(args), "--json")...)
		if _, got, _ := m.zino(t, "", append(strings.Fields(args), "--format=json")...); got != want {
			t.Errorf("%s: printed %q, want %q", args, got, want)
		}
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
		var got struct{ Services []serviceStatus }
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
