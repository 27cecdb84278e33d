package mcp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestCall: calls of tools over a program, and their results.
func TestCall(t *testing.T) {
	e := newRunning(t, server("test", ""))
	zinotest.Equal(t, "state", e.state("test").State, proto.MCPNew)
	zinotest.Equal(t, "echo", e.text("test", "echo", `{"name":"ada <a@b>"}`), "hello ada <a@b>")
	s := e.state("test")
	zinotest.Equal(t, "state", s.State, proto.MCPRunning)
	zinotest.Equal(t, "protocol", s.Protocol, "2026-07-28")
	if s.Tools < 10 || s.Instances != 1 || s.Calls != 1 {
		t.Errorf("%+v", s)
	}
	zinotest.Equal(t, "failure", e.fails("test", "fail", "{}"), "tool_error: it failed")
	zinotest.Contains(t, "unknown tool", e.fails("test", "ehco", "{}"), `unknown_tool: test has no tool "ehco"; the nearest are echo, `)
	zinotest.Equal(t, "unknown server", e.fails("tset", "echo", "{}"), `unknown_tool: no MCP server "tset"; did you mean "test"?`)
	a := e.ask("test", "echo", `{}`)
	zinotest.Equal(t, "missing argument", a.Error.Message, "test.echo: required: name")
	zinotest.Contains(t, "schema", string(a.Error.Schema), `"required":["name"]`)
	zinotest.Equal(t, "wrong type", e.ask("test", "echo", `{"name":1}`).Error.Code, proto.ToolInvalidInput)
	zinotest.Equal(t, "no object", e.ask("test", "echo", `[]`).Error.Code, proto.ToolInvalidInput)
	a = e.ask("test", "structured", `{}`)
	zinotest.Equal(t, "structured", string(a.Data.Structured), `{"a":1,"b":["<x>"]}`)
	zinotest.Equal(t, "its text", a.Data.Text, "")
	zinotest.Equal(t, "printed", e.text("test", "print", `{}`), "printed")
	a = e.ask("test", "picture", `{}`)
	zinotest.Equal(t, "text", a.Data.Text, "one\n[audio audio/wav, 3 bytes, left out]\ntwo")
	if len(a.attachments) != 2 || string(a.attachments[0].Data) != string(png) || a.Data.Files[1] != (file{Name: "b.pdf", MediaType: "application/pdf", Bytes: 8}) || a.Data.Files[0].Name != "1.png" {
		t.Errorf("%+v, %d attachments", a.Data, len(a.attachments))
	}
	if len(a.Data.Resources) != 1 || a.Data.Resources[0] != (link{"test://a", "a", "text/plain"}) {
		t.Errorf("%+v", a.Data.Resources)
	}
	a = e.ask("test", "question", `{}`)
	zinotest.Equal(t, "question", a.Data.Text, "cancel <nil>")
	zinotest.Equal(t, "wanted", strings.Join(a.Data.Wanted, "|"), "Which colour?")
	read, err := rpc.Call(t.Context(), e.client, proto.MCPRead, proto.ReadResource{Server: "test", URI: "test://readme"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "resource", string(read.Result), `{"ok":true,"data":{"text":"read me"}}`)
	prompts, err := rpc.Call(t.Context(), e.client, proto.MCPPrompts, proto.ListPrompts{})
	zinotest.Must(t, err)
	if len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "review" || !prompts.Prompts[0].Arguments[0].Required {
		t.Errorf("%+v", prompts)
	}
	text, err := rpc.Call(t.Context(), e.client, proto.MCPPrompt, proto.GetMCPPrompt{Server: "test", Name: "review", Arguments: map[string]string{"number": "12"}})
	zinotest.Must(t, err)
	zinotest.Equal(t, "prompt", text.Text, "Review 12.\n\nAssistant: I will.")
}

// TestLarge: an answer of 8 MiB passes; one of 20 MiB is an error, and the server goes on.
func TestLarge(t *testing.T) {
	e := newRunning(t, server("test", ""))
	zinotest.Equal(t, "bytes", len(e.text("test", "big", `{"bytes":8388608}`)), 8<<20)
	zinotest.Contains(t, "20 MiB", e.fails("test", "big", `{"bytes":20971520}`), "too_large: test: the answer has 209", "more than the 12582912 that are accepted")
	zinotest.Equal(t, "then", e.text("test", "echo", `{"name":"a"}`), "hello a")
	zinotest.Equal(t, "instances", e.state("test").Instances, 1)
}

// TestDiscover: a server that ignores discover, or dies of it, is started again, and from then
// on with initialize.
func TestDiscover(t *testing.T) {
	for _, kind := range []string{"ignore-discover", "die-discover"} {
		t.Run(kind, func(t *testing.T) {
			starts := filepath.Join(zinotest.Dir(t), "starts")
			e := newRunning(t, server("test", "", kind)+"STARTS = \""+starts+"\"\n")
			zinotest.Equal(t, "echo", e.text("test", "echo", `{"name":"a"}`), "hello a")
			zinotest.Equal(t, "protocol", e.state("test").Protocol, "2025-11-25")
			zinotest.Equal(t, "starts", strings.Count(zinotest.Read(t, starts), "\n"), 2)
			report, err := rpc.Call(t.Context(), e.client, proto.MCPTest, proto.TestServer{Server: "test"})
			zinotest.Must(t, err)
			zinotest.Equal(t, "state", report.Server.State, proto.MCPRunning)
			zinotest.Equal(t, "starts", strings.Count(zinotest.Read(t, starts), "\n"), 3)
		})
	}
}

// TestCrash: a call of a server that ends is repeated once if the tool claims that it may be.
func TestCrash(t *testing.T) {
	once := filepath.Join(zinotest.Dir(t), "once")
	e := newRunning(t, server("test", "")+"ONCE = \""+once+"\"\n")
	zinotest.Equal(t, "crash", e.fails("test", "crash", `{}`), "unavailable: test: panic: crashed")
	zinotest.Equal(t, "repeated", e.text("test", "crash_once", `{}`), "alive")
}

// TestFailed: a server that always ends is not started for ever.
func TestFailed(t *testing.T) {
	e := newRunning(t, server("test", "", "exit")+"[mcp.servers.none]\ncommand = [\"/none/such\"]\n")
	zinotest.Equal(t, "exit", e.fails("test", "echo", `{}`), "unavailable: test: giving up")
	zinotest.Contains(t, "no program", e.fails("none", "echo", `{}`), "unavailable: none: ", "/none/such")
	e.pool.mu.Lock()
	for _, h := range e.pool.history {
		for range failuresMax {
			h.fail(h.last, time.Now())
		}
	}
	e.pool.mu.Unlock()
	zinotest.Contains(t, "failed", e.fails("test", "echo", `{}`), "it failed 5 times in 5 minutes", "zino mcp test test")
	s := e.state("test")
	zinotest.Equal(t, "state", s.State+": "+s.Problem, "failed: giving up; run: zino mcp test test")
	report, err := rpc.Call(t.Context(), e.client, proto.MCPTest, proto.TestServer{Server: "test"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "problem", report.Server.Problem, "giving up")
	zinotest.Contains(t, "stderr", report.Stderr, "no configuration found")
}

// TestTimeout: a call ends in time, progress prolongs it, and the server hears of the end.
func TestTimeout(t *testing.T) {
	cancelled := filepath.Join(zinotest.Dir(t), "cancelled")
	e := newRunning(t, server("test", "timeout_secs = 1")+"CANCELLED = \""+cancelled+"\"\n")
	e.text("test", "echo", `{"name":"a"}`)
	zinotest.Equal(t, "timeout", e.fails("test", "sleep_seconds", `{"seconds":60}`), "timeout: test gave no answer in time")
	zinotest.Eventually(t, "the server reads the cancellation", func() bool { _, err := os.Stat(cancelled); return err == nil })
	a := e.ask("test", "sleep_seconds", `{"seconds":2,"progress":8}`)
	zinotest.Equal(t, "text", a.Data.Text, "slept")
	if len(a.progress) < 3 || a.progress[0] != "1/8 sleeping\n" {
		t.Errorf("progress: %q", a.progress)
	}
	zinotest.Must(t, os.Remove(cancelled))
	ctx, cancel := context.WithCancel(t.Context()) // a deadline would be the service's, too
	defer time.AfterFunc(300*time.Millisecond, cancel).Stop()
	if _, err := e.request(ctx, proto.CallTool{Server: "test", Tool: "sleep_seconds", Arguments: proto.Raw(`{"seconds":60}`)}); err == nil {
		t.Error("a call whose caller hung up has a result")
	}
	zinotest.Eventually(t, "the server reads the cancellation", func() bool { _, err := os.Stat(cancelled); return err == nil })
}

// TestBrokenDefinitions: what is wrong with the tools of a server is named, the others work.
func TestBrokenDefinitions(t *testing.T) {
	e := newRunning(t, server("test", "", "raw-tools"))
	report, err := rpc.Call(t.Context(), e.client, proto.MCPTest, proto.TestServer{Server: "test", Tool: "remote"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "call", string(report.Result), `{"ok":true,"data":{"text":"called"}}`)
	var names []string
	for _, tool := range report.Tools {
		names = append(names, tool.Name)
		if tool.Name == "described" {
			zinotest.Equal(t, "description", tool.Description, "a[31mbc")
		}
		if tool.Name == "twice" {
			zinotest.Equal(t, "description", tool.Description, "first")
		}
	}
	zinotest.Equal(t, "tools", strings.Join(names, " "), "twice none list remote lookahead draft4 described")
	zinotest.Contains(t, "problems", strings.Join(report.Problems, "\n"), "tool twice: defined twice", "no valid name", "tool list: its input schema is not an object")
	for _, tool := range []string{"none", "list", "lookahead", "draft4"} {
		zinotest.Equal(t, tool, e.text("test", tool, `{"a":1}`), "called")
	}
}

// TestListChanged: a tool that appears is known.
func TestListChanged(t *testing.T) {
	for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
		e := newRunning(t, server("test", "protocol = \""+protocol+"\""))
		e.text("test", "grow", `{}`)
		zinotest.Equal(t, "protocol", e.state("test").Protocol, protocol)
		zinotest.Eventually(t, "the tool is known", func() bool {
			found, err := rpc.Call(t.Context(), e.client, proto.MCPSearch, proto.SearchTools{Query: "grown"})
			return err == nil && len(found.Tools) > 0 && found.Tools[0].Name == "grown"
		})
	}
}

// TestIdle: a server without calls ends, and is still known.
func TestIdle(t *testing.T) {
	e := newRunning(t, "[mcp]\nidle_secs = 0.2\n"+server("test", ""))
	pid := e.text("test", "pid", `{}`)
	zinotest.Eventually(t, "it ends", func() bool { return e.state("test").State == proto.MCPIdle })
	if e.state("test").Tools == 0 {
		t.Error("its tools are forgotten")
	}
	found, err := rpc.Call(t.Context(), e.client, proto.MCPSearch, proto.SearchTools{Query: "echo"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "found", found.Tools[0].Name, "echo")
	zinotest.Equal(t, "state after the search", e.state("test").State, proto.MCPIdle)
	if next := e.text("test", "pid", `{}`); next == pid {
		t.Error("it has not ended")
	}
}

// TestSearch: names without words, schemas for the best hits, and problems.
func TestSearch(t *testing.T) {
	e := newRunning(t, server("test", "tools = [\"echo\", \"sleep_*\", \"big\"]")+server("dead", "", "exit"))
	found, err := rpc.Call(t.Context(), e.client, proto.MCPSearch, proto.SearchTools{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "names", strings.Join(found.Names, "|"), "test: big, echo, sleep_seconds")
	zinotest.Equal(t, "problems", strings.Join(found.Problems, "|"), "dead: giving up")
	zinotest.Equal(t, "instructions", found.Instructions["test"], "Use echo to echo.")
	found, err = rpc.Call(t.Context(), e.client, proto.MCPSearch, proto.SearchTools{Query: "sleep for seconds", Server: "test"})
	zinotest.Must(t, err)
	if len(found.Tools) != 1 || found.Tools[0].Name != "sleep_seconds" || !strings.Contains(string(found.Tools[0].Input), `"seconds"`) {
		t.Errorf("%+v", found)
	}
	found, err = rpc.Call(t.Context(), e.client, proto.MCPSearch, proto.SearchTools{Query: "returns echoes", Server: "test", Limit: 1})
	zinotest.Must(t, err)
	zinotest.Equal(t, "first", found.Tools[0].Name, "echo")
	zinotest.Equal(t, "more", strings.Join(found.Names, "|"), "test.big: Returns many bytes.")
	zinotest.Equal(t, "not allowed", e.fails("test", "crash", `{}`)[:12], "unknown_tool")
	list := e.servers(proto.ListServers{Definitions: true})
	if len(list.Tools) != 0 {
		t.Error("definitions although a server is not known")
	}
}

// TestShared: many sessions share the process of a server.
func TestShared(t *testing.T) {
	var text strings.Builder
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		text.WriteString(server(name, "", name))
	}
	e := newRunning(t, text.String())
	var mu sync.Mutex
	pids := map[string]bool{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for _, name := range names {
				pid := e.text(name, "pid", `{}`)
				mu.Lock()
				pids[pid] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	zinotest.Equal(t, "processes", len(pids), 5)
}

// TestConcurrency: calls of an instance run side by side, 16 of them.
func TestConcurrency(t *testing.T) {
	e := newRunning(t, server("test", ""))
	e.text("test", "echo", `{"name":"a"}`)
	start := time.Now()
	var wg sync.WaitGroup
	for range callsMax + 1 {
		wg.Go(func() { e.text("test", "sleep_seconds", `{"seconds":1}`) })
	}
	wg.Wait()
	if took := time.Since(start); took < 2*time.Second || took > 12*time.Second {
		t.Errorf("%d calls of a second took %v", callsMax+1, took)
	}
}

// TestReload: a definition that changes has a new instance, one that goes away ends.
func TestReload(t *testing.T) {
	e := newRunning(t, server("test", ""))
	pid := e.text("test", "pid", `{}`)
	file := filepath.Join(e.dir, "ZINO.toml")
	text := zinotest.Read(t, file)
	reload := func(text string) {
		zinotest.Write(t, file, text)
		_, err := rpc.Call(t.Context(), e.client, proto.MCPReload, proto.ReloadServers{})
		zinotest.Must(t, err)
	}
	reload(text)
	zinotest.Equal(t, "process", e.text("test", "pid", `{}`), pid)
	reload(strings.Replace(text, "ZINOTEST_ROLE", "NEW = \"1\"\nZINOTEST_ROLE", 1))
	zinotest.Eventually(t, "the old one ends", func() bool { return !alive(pid) })
	zinotest.Equal(t, "environment", e.text("test", "environment", `{"name":"NEW"}`), "1")
	zinotest.Write(t, file, "[mcp]\nsockte = 1\n")
	if _, err := rpc.Call(t.Context(), e.client, proto.MCPReload, proto.ReloadServers{}); err == nil || !strings.Contains(err.Error(), `ZINO.toml:2:1: unknown key "mcp.sockte"`) {
		t.Errorf("a broken file: %v", err)
	}
	zinotest.Equal(t, "environment", e.text("test", "environment", `{"name":"NEW"}`), "1")
}

func alive(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err == nil
}

// TestProject: servers of a .mcp.json run in the root, an instance for each.
func TestProject(t *testing.T) {
	e := newRunning(t, "")
	exe, err := os.Executable()
	zinotest.Must(t, err)
	file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"here": map[string]any{
		"command": exe, "args": []string{"${CLAUDE_PROJECT_DIR}"}, "env": map[string]string{"ZINOTEST_ROLE": "server", "GORACE": "atexit_sleep_ms=0"},
	}}})
	zinotest.Must(t, err)
	for _, root := range []string{zinotest.Dir(t), zinotest.Dir(t)} {
		call := func(tool, arguments string) string {
			a, err := e.request(t.Context(), proto.CallTool{Server: "here", Tool: tool, Arguments: proto.Raw(arguments), Root: root, Project: file})
			zinotest.Must(t, err)
			return a.Data.Text
		}
		zinotest.Equal(t, "directory", call("directory", `{}`), root)
		zinotest.Equal(t, "CLAUDE_PROJECT_DIR", call("environment", `{"name":"CLAUDE_PROJECT_DIR"}`), root)
		pid := call("pid", "{}")
		zinotest.Equal(t, "process", call("pid", "{}"), pid)
	}
	zinotest.Equal(t, "without the file", e.fails("here", "pid", "{}")[:12], "unknown_tool")
}
