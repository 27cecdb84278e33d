package constellation_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestExamples sends the examples of PROTOCOL.md to the real services and compares the
// types of all values.
func TestExamples(t *testing.T) {
	provider := fakellm.New() // for models and embeddings: the configured provider, offline, has none
	defer provider.Close()
	provider.SetModels("claude-sonnet-5-5")
	t.Setenv("ANTHROPIC_API_KEY", "key")
	t.Setenv("ANTHROPIC_BASE_URL", provider.Host)
	t.Setenv("OLLAMA_HOST", provider.Host) // for embeddings
	t.Setenv("ZINO_HOME", zinotest.Dir(t)) // for answers about files of projects
	cfg := start(t, func(cfg *config.Config) {
		cfg.Mem.Embed = "ollama/nomic-embed-text"
		cfg.Hooks.PreToolUse = []config.Hook{{Matcher: "Bash", Command: "echo use rg in place of grep >&2; exit 2"}}
	})
	recordTurn(t, cfg)
	// The places in the examples of turns: the id of the session that turn_start makes
	// depends on the caller's uid.
	const session = "5b0c6f1e-0d4e-4b8e-9d0a-2f3f5a1c7e11"
	root, made := zinotest.Dir(t), session
	const server = `{"mcpServers":{"pg":{"command":"pg-mcp","args":["--read-only"]}}}`
	zinotest.Write(t, filepath.Join(root, ".mcp.json"), server)
	grant := "g-7d2mx4qa" // that of the example of approve
	f, err := os.Open("../../proto/testdata/examples.jsonl")
	zinotest.Must(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var example struct {
			Service string
			Type    string
			Request json.RawMessage
			Replies []json.RawMessage
		}
		zinotest.Must(t, json.Unmarshal(lines.Bytes(), &example))
		switch example.Service {
		case "*":
			example.Service = "mem"
		case "repl", "run", "job", "audit", "mcp":
			continue // not in a constellation; the tests of repl, exc, audit and mcp check them
		}
		switch example.Type {
		case "job_output", "job_wait", "job_stop", "job_keep", "pipe_write":
			continue // they need a job or a program that runs; the tests of exc check them
		case "proceed":
			continue // ask sends one at each checkpoint of a run
		case "turn_say", "turn_mode", "input_request", "answer_input", "answer_file":
			continue // it needs an open turn; the tests of the daemon check it
		}
		request := strings.NewReplacer("/home/a/p", root, session, made, "g-7d2mx4qa", grant).Replace(string(example.Request))
		want := string(example.Replies[len(example.Replies)-1])
		if example.Type == "approvals" {
			storeApproval(t, cfg, want, made)
		}
		t.Run(example.Service, func(t *testing.T) { // its connections end with it
			got := lastOf(ask(t, cfg.Socket(example.Service), request))
			zinotest.Eventually(t, "the service is not busy", func() bool {
				if strings.Contains(got, `"code":"busy"`) {
					got = lastOf(ask(t, cfg.Socket(example.Service), request))
					return false
				}
				return true
			})
			if example.Type == "turn_start" {
				var turn proto.TurnStarted
				zinotest.Must(t, json.Unmarshal([]byte(got), &turn))
				made = turn.SessionID
			}
			if example.Type == "grants" {
				var list proto.GrantList
				zinotest.Must(t, json.Unmarshal([]byte(got), &list))
				grant = list.Grants[0].ID
			}
			if err := sameShape(want, got); err != nil {
				t.Errorf("%s: got %s, printed %s: %v", request, got, want, err)
			}
		})
	}
	zinotest.Must(t, lines.Err())
}

// storeApproval stores the request of an example, for this user and session.
func storeApproval(t *testing.T, cfg *config.Config, reply, session string) {
	var list proto.ApprovalList
	zinotest.Must(t, json.Unmarshal([]byte(reply), &list))
	a := list.Approvals[0]
	a.SessionID, a.By.UID, a.Expires = session, os.Geteuid(), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	line, err := json.Marshal(a)
	zinotest.Must(t, err)
	zinotest.Write(t, filepath.Join(cfg.Daemon.DataDir, "approvals.jsonl"), string(line)+"\n")
}

// recordTurn records the turn of the examples of undo: it has created a file.
func recordTurn(t *testing.T, cfg *config.Config) {
	root, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	zinotest.Write(t, filepath.Join(root, "a.go"), "new\n")
	line := fmt.Sprintf(`{"root":%q,"path":"a.go","kind":"file","before":null,"after":{"kind":"file","sha256":"%x","mode":384,"uid":%d,"gid":%d}}`,
		root, sha256.Sum256([]byte("new\n")), os.Geteuid(), os.Getegid())
	turns := filepath.Join(cfg.Exc.DataDir, "undo", "turns", "bread")
	zinotest.Must(t, os.MkdirAll(turns, 0o700))
	zinotest.Write(t, filepath.Join(turns, "t-k3v9q2m7xd4a.jsonl"), line+"\n")
}

func lastOf(packets []string) string { return packets[len(packets)-1] }

// mayLack are keys that depend on the configuration.
var mayLack = map[string]bool{"endpoint": true, "usage": true, "tool_calls": true, "model": true, "context": true, "problems": true}

// sameShape compares the type of two packets and the Go types of all values in want.
func sameShape(want, got string) error {
	var w, g map[string]any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return err
	}
	if w["type"] != g["type"] {
		return fmt.Errorf("the type is %v", g["type"])
	}
	for key, value := range w {
		if _, ok := g[key]; !ok && mayLack[key] {
			continue
		}
		if a, b := fmt.Sprintf("%T", value), fmt.Sprintf("%T", g[key]); a != b {
			return fmt.Errorf("%s is %s and not %s", key, b, a)
		}
	}
	return nil
}
