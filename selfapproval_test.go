package zino_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestNoSelfApproval has commands of a model try to approve a call that waits for a person:
// by the sockets, the files and the process of the daemon. Confined ones have no success.
// At the level off only the variable ZINO_JOB is in their way, which prevents accidents.
func TestNoSelfApproval(t *testing.T) {
	provider := fakellm.New(
		fakellm.Turn{Match: "ask first", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"touch allowed"}`}}},
		fakellm.Turn{Text: "Done.", Times: fakellm.Forever},
	)
	defer provider.Close()
	f := startFleet(t, fmt.Sprintf("provider = \"anthropic\"\nanthropic_base_url = %q\n", provider.Host), "ANTHROPIC_API_KEY=test")
	daemon := &rpc.Client{Service: "daemon", Path: f.socket("daemon")}
	defer daemon.Close()
	root := zinotest.Dir(t)
	zinotest.Must(t, os.Link(filepath.Join(bin, "zino"), filepath.Join(root, "zino"))) // where confined commands see it

	turn, err := rpc.Call(t.Context(), daemon, proto.DaemonTurnStart, proto.TurnStart{Message: "ask first", Root: root, Mode: "ask", Reachable: true})
	zinotest.Must(t, err)
	var asked proto.Approval
	zinotest.Eventually(t, "a call waits for a person", func() bool {
		list, err := rpc.Call(t.Context(), daemon, proto.DaemonApprovals, proto.ListApprovals{})
		zinotest.Must(t, err)
		if len(list.Approvals) == 1 {
			asked = list.Approvals[0]
		}
		return asked.ID != ""
	})

	data, home := filepath.Join(f.dir, "data", "daemon"), filepath.Join(f.dir, "home")
	files := []string{
		filepath.Join(f.dir, "gate.pub"), filepath.Join(data, "gate.pub"), filepath.Join(data, "gate.key"), filepath.Join(data, "approvals.jsonl"),
		filepath.Join(data, "grants.toml"), filepath.Join(home, "policy.toml"), filepath.Join(home, "config.toml"), f.config,
	}
	before := map[string]string{}
	for _, path := range files {
		if !exists(path) {
			zinotest.Write(t, path, "")
		}
		before[path] = zinotest.Read(t, path)
	}
	var sockets []string
	for _, name := range config.Services {
		sockets = append(sockets, f.socket(name))
	}
	f.mu.Lock()
	pid := f.running["daemon"].Process.Pid
	f.mu.Unlock()
	targets, err := json.Marshal(map[string]any{
		"daemon": f.socket("daemon"), "sockets": sockets, "pid": pid, "keys": files[2:3], "files": files,
		"zino": []string{filepath.Join(root, "zino"), "--config", f.config}, "id": asked.ID, "digest": asked.Digest,
	})
	zinotest.Must(t, err)
	zinotest.Write(t, filepath.Join(root, "attack.py"), "TARGETS = "+string(targets)+"\n"+zinotest.Read(t, "testdata/selfapproval.py"))

	const got = "GOT IT"
	for _, level := range []proto.Level{proto.LevelReadOnly, proto.LevelWorkspaceWrite, proto.LevelOff} {
		var output strings.Builder
		_, err = rpc.CallEvents(t.Context(), daemon, proto.DaemonRunCommand, proto.SessionCommand{
			SessionID: "attack-" + string(level), Command: "python3 attack.py", Root: root, Sandbox: level, Env: map[string]string{"PATH": os.Getenv("PATH")},
		}, func(typ string, payload []byte) error {
			var out proto.ToolOutput
			if typ == proto.TypeToolOutput {
				zinotest.Must(t, json.Unmarshal(payload, &out))
				output.WriteString(out.Text)
			}
			return nil
		})
		zinotest.Must(t, err)
		results := map[string]string{}
		for line := range strings.Lines(output.String()) {
			name, result, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			results[name] = result
		}
		for _, path := range files {
			if exists(path+".attack") || zinotest.Read(t, path) != before[path] {
				results["outside: "+path] = got
			}
		}
		if exists(filepath.Join(root, "allowed")) {
			results["outside: the call"] = got
		}
		list, err := rpc.Call(t.Context(), daemon, proto.DaemonApprovals, proto.ListApprovals{})
		zinotest.Must(t, err)
		if len(list.Approvals) != 1 {
			results["outside: the request"] = got
		}
		if len(results) < 20 {
			t.Errorf("%s: not all attacks were run: %q", level, results)
		}
		for name, result := range results {
			t.Logf("%-15s  %-40s  %s", level, name, result)
			if level != proto.LevelOff || name == "approve with ZINO_JOB" {
				if result == got {
					t.Errorf("%s: %s: %s", level, name, result)
				}
				continue
			}
			hosts := strings.HasSuffix(name, "of the daemon") || strings.HasPrefix(name, "read by /proc") // the host may restrict ptrace
			answered := name == "approve by the socket"                                                   // before
			if result != got && !hosts && !answered {
				t.Errorf("%s, where nothing stops it: %s: %s", level, name, result)
			}
		}
	}
	_, err = rpc.Call(t.Context(), daemon, proto.DaemonTurnCancel, proto.TurnCancel{SessionID: turn.SessionID})
	zinotest.Must(t, err) // else the daemon would wait for its end
}
