package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
)

// TestConfigCheckJSON checks the object for a file with a mistake.
func TestConfigCheckJSON(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "x.toml")
	zinotest.Write(t, path, "modle = 1\n")
	status, out, stderr := run(t, w.command("config", "check", "--json", "--config", path), "")
	var got struct {
		Path     string
		OK       *bool
		Problems []string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 1 || stderr != "" || got.Path != path || got.OK == nil || *got.OK || len(got.Problems) != 1 {
		t.Errorf("status %d, stdout %q, stderr %q: %v", status, out, stderr, err)
	}
}

func TestStatusJSON(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.runtime, "zino")
	zinotest.Must(t, os.Mkdir(dir, 0o700))
	serveAs(t, "daemon", filepath.Join(dir, "daemon.sock"), "odd")
	for _, flag := range []string{"--json", "--format=json"} {
		status, out, _ := run(t, w.command("status", flag), "")
		var got struct{ Services []report }
		if err := json.Unmarshal([]byte(out), &got); err != nil || status != 1 || strings.Count(out, "\n") != 1 || len(got.Services) != 7 {
			t.Fatalf("status %d, stdout %q: %v", status, out, err)
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
