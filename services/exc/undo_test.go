package exc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// undoEnv is a service that records file changes, and a root.
type undoEnv struct {
	*service
	client *rpc.Client
	root   string
	calls  int
}

func newUndoEnv(t *testing.T, change ...func(*config.Undo)) *undoEnv {
	t.Helper()
	e := &undoEnv{service: newService(t, nil, tools)}
	cfg := config.Default().Undo
	for _, c := range change {
		c(&cfg)
	}
	zinotest.Must(t, e.OpenUndo(cfg))
	root, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	e.root = root
	socket := filepath.Join(zinotest.Dir(t), "exc")
	rpctest.New(t, "exc", socket, e.Register)
	e.client = rpctest.Client(t, "exc", socket)
	return e
}

// tool calls a tool in a turn, and returns its result and the notices.
func (e *undoEnv) tool(t *testing.T, turn string, level proto.Level, name string, input map[string]any) (proto.CallResult, []string) {
	t.Helper()
	b, err := json.Marshal(input)
	zinotest.Must(t, err)
	e.calls++
	var notices []string
	reply, err := rpc.CallEvents(t.Context(), e.client, proto.ExcCall, proto.Call{
		Tool: name, Input: b, Root: e.root, SessionID: "s", Turn: turn, Key: "s/" + turn + "/1/c" + strings.Repeat("x", e.calls), Sandbox: level, Events: true,
	}, func(typ string, payload []byte) error {
		if typ == proto.TypeNotice {
			var n proto.Notice
			if err := json.Unmarshal(payload, &n); err != nil {
				return err
			}
			notices = append(notices, n.Kind+": "+n.Text)
		}
		return nil
	})
	zinotest.Must(t, err)
	zinotest.Contains(t, "the result of "+name, string(reply.Result), `"ok":true`)
	return reply, notices
}

// TestUndoOfCalls takes back what write, edit and commands of a turn have changed.
func TestUndoOfCalls(t *testing.T) {
	for _, level := range []proto.Level{proto.LevelOff, proto.LevelWorkspaceWrite} {
		t.Run(string(level), func(t *testing.T) {
			e := newUndoEnv(t)
			if err := e.levelProblem(t.Context(), level); err != nil {
				zinotest.NotTested(t, "undo at a confined level: %v", err)
			}
			zinotest.WriteFiles(t, e.root, map[string]string{"a": "a\n", "b": "b\n", "gone": "gone\n"})
			for _, call := range []struct {
				tool  string
				input map[string]any
			}{
				{"write", map[string]any{"path": "new/file", "content": "new\n"}},
				{"edit", map[string]any{"path": "a", "old": "a", "new": "changed"}},
				{"bash", map[string]any{"command": "echo more >> b; rm gone"}},
				{"read", map[string]any{"path": "a"}},
			} {
				reply, notices := e.tool(t, "t-1", level, call.tool, call.input)
				zinotest.Equal(t, "why", reply.Undo, "")
				zinotest.Equal(t, "notices", len(notices), 0)
			}
			diff, err := rpc.Call(t.Context(), e.client, proto.ExcDiff, proto.Undo{SessionID: "s"})
			zinotest.Must(t, err)
			zinotest.Contains(t, "the diff", diff.Diff, "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+changed\n", "deleted file mode", "+++ b/new/file\n")
			reply, err := rpc.Call(t.Context(), e.client, proto.ExcUndo, proto.Undo{SessionID: "s"})
			zinotest.Must(t, err)
			zinotest.Equal(t, "undone", strings.Join(append(reply.Restored, reply.Removed...), " "), "a b gone new/ new/file")
			zinotest.Equal(t, "files", zinotest.Names(t, e.root), "a b gone")
			zinotest.Equal(t, "contents", zinotest.Read(t, e.root+"/a")+zinotest.Read(t, e.root+"/b"), "a\nb\n")
			_, err = rpc.Call(t.Context(), e.client, proto.ExcRedo, proto.Undo{SessionID: "s"})
			zinotest.Must(t, err)
			zinotest.Equal(t, "content", zinotest.Read(t, e.root+"/new/file"), "new\n")
			_, err = rpc.Call(t.Context(), e.client, proto.ExcUndoRemove, proto.UndoRemove{SessionID: "s"})
			zinotest.Must(t, err)
			_, err = rpc.Call(t.Context(), e.client, proto.ExcUndo, proto.Undo{SessionID: "s"})
			zinotest.Error(t, err, proto.ErrNotFound)
		})
	}
}

// TestUndoNotice says once a turn that commands are not covered, and in every result.
func TestUndoNotice(t *testing.T) {
	e := newUndoEnv(t, func(c *config.Undo) { c.Files = 2 })
	zinotest.WriteFiles(t, e.root, map[string]string{"a": "", "b": "", "c": ""})
	const why = "undo does not cover shell commands here: more than 2 files (limit 2)"
	for i, turn := range []string{"t-1", "t-1", "t-2", "t-2", "t-2"} {
		reply, notices := e.tool(t, turn, "", "bash", map[string]any{"command": "echo x > a"})
		zinotest.Equal(t, "why", reply.Undo, why)
		want := ""
		if i == 0 || i == 2 {
			want = "undo: " + why
		}
		zinotest.Equal(t, "notices", strings.Join(notices, ", "), want)
	}
	reply, _ := e.tool(t, "t-2", "", "write", map[string]any{"path": "a", "content": "y"})
	zinotest.Equal(t, "why of write", reply.Undo, "")
	for i, turn := range []string{"t-2", "t-3", "t-3"} {
		result, err := rpc.Call(t.Context(), e.client, proto.ExcExecute, proto.Execute{Executor: "bash", Code: "echo x > a", Root: e.root, SessionID: "s", Turn: turn})
		zinotest.Must(t, err)
		zinotest.Equal(t, "why of code", result.Undo, why)
		zinotest.Equal(t, "the notice is due in "+turn, result.UndoNotice, i == 1)
	}
}

// TestUndoOfLargeFile changes a file that is too large to be kept.
func TestUndoOfLargeFile(t *testing.T) {
	e := newUndoEnv(t)
	f, err := os.Create(e.root + "/large")
	zinotest.Must(t, err)
	zinotest.Must(t, f.Truncate(64<<20+1))
	zinotest.Must(t, f.Close())
	reply, notices := e.tool(t, "t-1", "", "write", map[string]any{"path": "large", "content": "small"})
	zinotest.Equal(t, "why", reply.Undo, "too_large")
	zinotest.Equal(t, "notices", len(notices), 0)
	zinotest.Equal(t, "content", zinotest.Read(t, e.root+"/large"), "small")
}

// TestUndoOfJob takes back what a command changed before and after it went to the
// background.
func TestUndoOfJob(t *testing.T) {
	e := newUndoEnv(t)
	zinotest.WriteFiles(t, e.root, map[string]string{"a": "a", "b": "b"})
	reply, _ := e.tool(t, "t-1", "", "bash", map[string]any{"command": "echo early > a; while ! [ -e ../go" + filepath.Base(e.root) + " ]; do read x < /dev/null; done; echo late > b", "background": true})
	zinotest.Contains(t, "the result", string(reply.Result), `"running":true`)
	file := filepath.Join(filepath.Dir(e.root), "go"+filepath.Base(e.root))
	zinotest.Write(t, file, "")
	t.Cleanup(func() { os.Remove(file) })
	zinotest.Eventually(t, "the late change is recorded", func() bool {
		diff, err := rpc.Call(t.Context(), e.client, proto.ExcDiff, proto.Undo{SessionID: "s"})
		return err == nil && len(diff.Files) == 2 && diff.Files[1].Late
	})
	_, err := rpc.Call(t.Context(), e.client, proto.ExcUndo, proto.Undo{SessionID: "s"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "contents", zinotest.Read(t, e.root+"/a")+zinotest.Read(t, e.root+"/b"), "ab")
}

// TestUndoOfJobWithoutExc takes back what a command in the background changed while no
// exc was running, before its end and after it.
func TestUndoOfJobWithoutExc(t *testing.T) {
	e := newUndoEnv(t)
	zinotest.WriteFiles(t, e.root, map[string]string{"a": "a", "b": "b"})
	reply, _ := e.tool(t, "t-1", "", "bash", map[string]any{"command": "echo early > a; while ! [ -e " + e.dir + "/go ]; do sleep 0.01; done; echo late > b", "background": true})
	zinotest.Contains(t, "the result", string(reply.Result), `"running":true`)
	state := filepath.Join(e.jobs.All()[0].Dir(), "state.json")
	zinotest.Must(t, e.Close())
	zinotest.Write(t, e.dir+"/go", "")
	zinotest.Eventually(t, "the command has ended", func() bool { return strings.Contains(zinotest.Read(t, state), `"exited"`) })
	next := &service{dir: e.dir, log: e.log, cfg: e.cfg}
	next.open(t, e.catalog)
	zinotest.Must(t, next.OpenUndo(config.Default().Undo))
	zinotest.Eventually(t, "the late change is recorded", func() bool {
		diff, err := next.undo.Diff(t.Context(), proto.Undo{SessionID: "s"})
		return err == nil && len(diff.Files) == 2 && diff.Files[1].Late
	})
	_, err := next.undo.Undo(t.Context(), proto.Undo{SessionID: "s"}, false)
	zinotest.Must(t, err)
	zinotest.Equal(t, "contents", zinotest.Read(t, e.root+"/a")+zinotest.Read(t, e.root+"/b"), "ab")
}

func TestUndoConformance(t *testing.T) {
	e := newUndoEnv(t)
	const session = `"session_id":"s"`
	rpctest.Conformance(t, e.client.Path, []rpctest.Case{
		{Name: "undo", Request: `{"type":"undo",` + session + `}`, Code: "not_found", Message: "no file changes to take back in session s"},
		{Name: "undo of a turn", Request: `{"type":"undo",` + session + `,"turn":"t-1"}`, Code: "not_found", Message: "no file changes of turn t-1 are recorded in session s"},
		{Name: "invalid turn", Request: `{"type":"undo",` + session + `,"turn":"../1"}`, Code: "invalid", Message: `invalid turn "../1": want t- and letters and digits`},
		{Name: "redo", Request: `{"type":"redo",` + session + `}`, Code: "not_found", Message: "no undo to take back in session s"},
		{Name: "diff", Request: `{"type":"diff",` + session + `}`, Code: "not_found", Message: "no file changes to take back in session s"},
		{Name: "remove", Request: `{"type":"undo_remove",` + session + `}`, Reply: `{"type":"ok"}`},
		{Name: "invalid session", Request: `{"type":"undo_remove","session_id":"a/b"}`, Code: "invalid", Message: "invalid session name…"},
	})
}
