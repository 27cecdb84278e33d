package constellation_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
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

// TestCanaries has a model meet each shape of a secret, and five known keys, in every kind
// of output, and looks for them in its requests, in packets, in the logs and in all files
// of the services but the raw ones: outputs of jobs and what undo keeps. zino sessions
// redact --all then masks those, too.
func TestCanaries(t *testing.T) {
	known := map[string]string{ // with characters that encodings change
		"key file": "corporate+U8hT5/R2fE9=dW6sQ3aZ0", "key of the environment": "environment&P7oI4uZ1tR8eW5qL2kJ9",
		"file of secrets": "vault/8Jk2Lm4Np6Qr=8St0Uv", "variable": "variable?Ab3Cd5Ef7Gh9Ij1Kl", "withheld": "withheld%Zy8Xw6Vu4Ts2Rq",
	}
	secrets, all, lines := map[string]string{}, "", ""
	for _, c := range zinotest.Canaries() {
		secrets[c.Name] = c.Secret
		all += c.Text + "\n"
		if !strings.Contains(c.Text, "\n") {
			lines += c.Text + "\n"
		}
	}
	for name, key := range known {
		b64 := base64.StdEncoding.EncodeToString([]byte(key + " and more"))
		forms := map[string]string{"": key, " in Base64": b64[:4*(len(key)/3)], " in hexadecimal": hex.EncodeToString([]byte(key)), " in a URL": url.QueryEscape(key)}
		for form, text := range forms {
			secrets[name+form] = text
		}
		all += fmt.Sprintf("%s is %s\n%s\nhttps://example.com/?q=%s&x=1\n%s\n", name, key, b64, url.QueryEscape(key), hex.EncodeToString([]byte(key)))
	}
	call := func(name string, input any) fakellm.Call {
		args, err := json.Marshal(input)
		zinotest.Must(t, err)
		return fakellm.Call{Name: name, Args: string(args)}
	}
	bash := func(command string) fakellm.Call { return call("bash", map[string]any{"command": command}) }
	e := newAgents(t, func(cfg *config.Config) {
		dir := t.TempDir()
		t.Setenv("ANTHROPIC_API_KEY", known["key of the environment"])
		t.Setenv("NOT_LIKE_OTHERS", known["variable"])
		t.Setenv("DEPLOY_TOKEN", known["withheld"])
		cfg.API.KeyFile = filepath.Join(dir, "key")
		zinotest.WriteFiles(t, dir, map[string]string{"key": known["key file"] + "\n", "secrets": "VAULT=" + known["file of secrets"] + "\n"})
		cfg.Mask.Files, cfg.Mask.ValuesFromEnv = []string{filepath.Join(dir, "secrets")}, []string{"NOT_LIKE_OTHERS"}
	},
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{
			call("read", map[string]any{"path": ".env"}),
			bash("cat .env; cat .env >&2"),
			bash("dd if=.env bs=1 status=none"), // a chunk for every byte
			bash("while read -r line; do printf 'error: %s: not found\\n' \"$line\" >&2; done <lines"),
			bash("echo \"NOT_LIKE_OTHERS=$NOT_LIKE_OTHERS\"; diff -u /dev/null .env"),     // the environment, a diff
			bash("for i in 1 2 3 4 5 6 7; do cat lines; sleep 0.01; done | tr '\\n' ' '"), // one long line
			call("execute_bash", map[string]any{"code": "cat .env; exit 3"}),
			call("edit", map[string]any{"path": ".env", "old": "not in the file", "new": ""}),
			call("edit", map[string]any{"path": ".env", "old": "last line", "new": "end"}), // its diff has lines of context
			call("bash", map[string]any{"command": "cat .env; echo up", "background": true}),
		}},
		fakellm.Turn{Text: "Done."})
	zinotest.WriteFiles(t, e.root, map[string]string{".env": all + "last line\n", "lines": lines})

	e.begin(proto.TurnStart{})
	var seen strings.Builder
	end, err := rpc.CallEvents(t.Context(), e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "parent"}, func(_ string, payload []byte) error {
		seen.Write(payload)
		return nil
	})
	zinotest.Must(t, err)
	if end.State != proto.TurnDone {
		t.Fatalf("the turn ended as %s: %s", end.State, seen.String())
	}
	places := map[string]string{"packets": seen.String()}
	for i, request := range e.provider.Requests() {
		places[fmt.Sprint("request ", i)] = string(request.Body)
	}
	places["diff"] = ask(t, e.cfg.Daemon.Socket, `{"type":"diff","session_id":"parent"}`)[0]
	zinotest.Eventually(t, "the job has ended", func() bool {
		return !strings.Contains(ask(t, e.cfg.Daemon.Socket, `{"type":"forward","service":"exc","request":{"type":"jobs"}}`)[0], `"state":"running"`)
	})
	raw := func(path string) bool {
		return strings.Contains(path, "/jobs/") || strings.Contains(path, "/undo/objects/")
	}
	find := func(places map[string]string) {
		t.Helper()
		for place, content := range places {
			for name, secret := range secrets {
				if at := strings.Index(content, secret); at >= 0 {
					t.Errorf("%s: the %s is there: %s", place, name, content[max(0, at-200):min(len(content), at+len(secret)+20)])
				}
			}
		}
	}
	kept, rawFiles := e.filesOfServices(), 0
	for path, content := range kept {
		if !raw(path) {
			places[path] = content
		} else if strings.Contains(content, known["key file"]) {
			rawFiles++
		}
	}
	places["logs"] = e.logs.String()
	zinotest.Contains(t, "logs", places["logs"], "content=") // they have the packets, too
	salt := base64.StdEncoding.EncodeToString([]byte(zinotest.Read(t, filepath.Join(e.cfg.Daemon.DataDir, "mask.salt"))))
	if strings.Contains(places["logs"], salt) {
		t.Error("the logs have the key of placeholders")
	}
	find(places)
	if rawFiles < 2 {
		t.Errorf("%d raw files have secrets, want the output of a job and an image of undo", rawFiles)
	}
	results := e.log("parent", proto.TypeToolResult)
	zinotest.Equal(t, "results", len(results), 10)
	for i, result := range results {
		if i != 7 && i != 8 && i != 9 && !strings.Contains(string(result.Output), `"masked":`) {
			t.Errorf("result %d has no placeholder: %.300s", i, result.Output)
		}
	}

	packets := ask(t, e.cfg.Daemon.Socket, `{"type":"redact","all":true,"undo":true}`)
	zinotest.Contains(t, "redacted", strings.Join(packets, "\n"), `"what":"job"`, `"what":"undo"`)
	find(map[string]string{"the answer": strings.Join(packets, "\n")})
	for path, content := range e.filesOfServices() {
		find(map[string]string{path: content})
	}
	zinotest.Equal(t, "redacted again", lastOf(ask(t, e.cfg.Daemon.Socket, `{"type":"redact","all":true}`)), `{"type":"redact_done","masked":0}`)
}

// filesOfServices returns the files that the services have written.
func (e *agentsEnv) filesOfServices() map[string]string {
	e.t.Helper()
	files := map[string]string{}
	zinotest.Must(e.t, filepath.WalkDir(filepath.Dir(e.cfg.Daemon.Socket), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var content []byte
			content, err = os.ReadFile(path)
			files[path] = string(content)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // a lock, for example, has been removed meanwhile
		}
		return err
	}))
	return files
}
