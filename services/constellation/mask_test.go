package constellation_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
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

// TestMasking has a model read secrets with each kind of tool, and checks that none of
// them is in its requests, in what clients see, in the session's file, in exc's journal
// and in the output of jobs.
func TestMasking(t *testing.T) {
	letters := "qW3eRt7yUi0pAs4dFg5hJk6lZx8cVb9nM1oP"
	keyFile, fromEnv := "corporate-U8hT5gR2fE9dW6sQ3aZ0", "environment-P7oI4uZ1tR8eW5qL2kJ9"
	secrets := map[string]string{
		"key of rtr": keyFile, "key of the environment": fromEnv,
		"token": "ghp_" + letters, "access key": "AKIA" + "QWERTZUIOPASDFGH", "password": "pw-Y5xC8vB1nM4kL7jH0gF3",
		"private key": strings.Repeat(letters[:32]+letters[:32]+"\n", 4),
	}
	text := fmt.Sprintf("one\nkey: %s\nother %s\n%s\n%s\nDB_PASSWORD=%s\n-----BEGIN PRIVATE KEY-----\n%s-----END PRIVATE KEY-----\nlast\n",
		keyFile, fromEnv, secrets["token"], secrets["access key"], secrets["password"], secrets["private key"])
	ordinary := "# Ordinary\r\nname = value\n\tif token != nil { \"quoted\" }\nkey: none\n\u00e9 <&> end"
	call := func(name string, input any) fakellm.Call {
		args, err := json.Marshal(input)
		zinotest.Must(t, err)
		return fakellm.Call{Name: name, Args: string(args)}
	}
	// What is left out of the middle begins and ends within a secret.
	long := strings.Repeat("a", 2030) + " " + keyFile + "\n" + strings.Repeat("b", 5000) + " " + keyFile + " " + strings.Repeat("c", 2025)
	e := newAgents(t, func(cfg *config.Config) {
		t.Setenv("ANTHROPIC_API_KEY", fromEnv)
		cfg.API.KeyFile = filepath.Join(t.TempDir(), "key")
		zinotest.Write(t, cfg.API.KeyFile, keyFile+"\n")
		cfg.Agr.ToolOutputBytes = 4096
	},
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{
			call("read", map[string]any{"path": "all.txt"}),
			call("bash", map[string]any{"command": "cat all.txt; cat all.txt >&2"}),
			call("bash", map[string]any{"command": "cat long.txt"}),
			call("execute_bash", map[string]any{"code": "cat all.txt"}),
			call("read", map[string]any{"path": "ordinary.txt"}),
			call("write", map[string]any{"path": "copy.txt", "content": "token: [masked:github:1a2b]\n"}),
			call("edit", map[string]any{"path": "all.txt", "old": "last", "new": "end"}),
			call("bash", map[string]any{"command": "cat all.txt; exec sleep 6174.2", "background": true}),
		}},
		fakellm.Turn{Text: "Done."})
	zinotest.Write(t, filepath.Join(e.root, "all.txt"), text)
	zinotest.Write(t, filepath.Join(e.root, "long.txt"), long)
	zinotest.Write(t, filepath.Join(e.root, "ordinary.txt"), ordinary)
	e.begin(proto.TurnStart{})
	var seen []string
	end, err := rpc.CallEvents(t.Context(), e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "parent"}, func(_ string, payload []byte) error {
		seen = append(seen, string(payload))
		return nil
	})
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", end.State, proto.TurnDone)

	zinotest.Contains(t, "packets", strings.Join(seen, "\n"), `"kind":"masked"`, `"type":"tool_output"`)
	places := map[string]string{"packets": strings.Join(seen, "\n"), "session": zinotest.Read(t, e.file("parent"))}
	for i, request := range e.provider.Requests() {
		places[fmt.Sprint("request ", i)] = string(request.Body)
	}
	zinotest.Must(t, filepath.WalkDir(filepath.Join(e.cfg.Exc.DataDir, "calls"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			places[path] = zinotest.Read(t, path)
		}
		return err
	}))
	jobs := ask(t, e.cfg.Daemon.Socket, `{"type":"forward","service":"exc","request":{"type":"jobs","session_id":"parent"}}`)[0]
	var list proto.JobList
	zinotest.Must(t, json.Unmarshal([]byte(jobs), &list))
	for _, job := range list.Jobs {
		places["job "+job.ID] = ask(t, e.cfg.Daemon.Socket, fmt.Sprintf(`{"type":"forward","service":"exc","request":{"type":"job_output","job":%q,"from":"0"}}`, job.ID))[0]
		ask(t, e.cfg.Daemon.Socket, fmt.Sprintf(`{"type":"forward","service":"exc","request":{"type":"job_stop","job":%q}}`, job.ID))
	}
	for place, content := range places {
		for name, secret := range secrets {
			for from := 0; from+12 <= len(secret); from++ {
				if piece := secret[from : from+12]; strings.Contains(content, piece) {
					at := strings.Index(content, piece)
					t.Errorf("%s: %q of the %s is there:\n%s", place, piece, name, content[max(0, at-300):min(len(content), at+100)])
					break
				}
			}
		}
	}
	results := e.log("parent", proto.TypeToolResult)
	zinotest.Equal(t, "results", len(results), 8)
	var masked, plain, written struct {
		OK     bool
		Masked int
		Data   struct{ Content string }
		Error  proto.ToolError
	}
	zinotest.Must(t, json.Unmarshal(results[0].Output, &masked))
	zinotest.Must(t, json.Unmarshal(results[4].Output, &plain))
	zinotest.Must(t, json.Unmarshal(results[5].Output, &written))
	zinotest.Equal(t, "ordinary file", plain.Data.Content, ordinary)
	zinotest.Equal(t, "number of placeholders", fmt.Sprint(masked.Masked, plain.Masked), "6 0")
	zinotest.Contains(t, "masked file", masked.Data.Content, "one\nkey: [masked:secret:", "\nDB_PASSWORD=[masked:value:", "]\nlast\n")
	zinotest.Equal(t, "write of a placeholder", written.Error.Code, proto.ToolMaskedText)
	zinotest.Equal(t, "the file after an edit", zinotest.Read(t, filepath.Join(e.root, "all.txt")), strings.Replace(text, "last", "end", 1))
	info, err := os.Stat(filepath.Join(e.cfg.Daemon.DataDir, "mask.salt"))
	zinotest.Must(t, err)
	zinotest.Equal(t, "mask.salt", fmt.Sprint(info.Size(), info.Mode()), "32 -rw-------")
}
