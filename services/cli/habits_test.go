package cli

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
)

// TestVersion checks the output of zino --version and zino version.
func TestVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expect(t, w.command("--version"), "", 0, "zino "+rpc.VersionText()+"\n", "")
	_, out, _ := run(t, w.command("version"), "")
	if !strings.HasPrefix(out, "zino "+rpc.VersionText()+"\nbuild "+rpc.Build+"\n") || !strings.Contains(out, "\n"+runtime.Version()+" ") {
		t.Errorf("version: %q", out)
	}
	for _, args := range [][]string{{"version", "--json"}, {"--format", "json", "version"}} {
		var v struct {
			Build string
			Proto int
		}
		if _, out, _ := run(t, w.command(args...), ""); json.Unmarshal([]byte(out), &v) != nil || v.Build != rpc.Build || v.Proto != proto.Version {
			t.Errorf("%q: %q", args, out)
		}
	}
}

// TestLoginLists checks that zino login without a provider lists all providers.
func TestLoginLists(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"login"}, {"auth", "login"}} {
		w := newWorld(t)
		status, out, stderr := run(t, w.command(args...), "")
		if status != 0 || stderr != "" || strings.Count(out, "\n") != 5 || !strings.Contains(out, "zino login openrouter") || !strings.Contains(out, "zino auth set gemini") {
			t.Errorf("%q: status %d, stdout %q, stderr %q", args, status, out, stderr)
		}
	}
}

// TestAuthStatus checks the alias of auth list.
func TestAuthStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, list, _ := run(t, w.auth("list"), "")
	expect(t, w.auth("status"), "", 0, list, "")
}

// TestChatCommand checks the commands and flags that open a chat.
func TestChatCommand(t *testing.T) {
	t.Parallel()
	for args, session := range map[string]string{"chat": "", "resume": "notes", "resume no": "notes", "--resume notes": "notes", "--continue": "notes", "chat --continue": "notes"} {
		f := newFake(t, "")
		f.has(map[string]int{"notes": 4})
		all := strings.Fields(args)
		if all[0] == "--resume" {
			all = append(all, "--socket", f.socket)
		} else {
			all = append([]string{"--socket", f.socket}, all...)
		}
		status, out, stderr := run(t, newWorld(t).command(all...), "hello\n")
		if status != 0 || out != "echo: hello\n" || len(f.requests()) != 1 {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, out, stderr)
		} else if got := f.requests()[0].SessionID; session != "" && got != session || session == "" && !uuid.MatchString(got) {
			t.Errorf("%s: the session is %s", args, got)
		}
	}
}

// TestHelpGroups checks that every command is in a group of the help.
func TestHelpGroups(t *testing.T) {
	t.Parallel()
	root := newCommand(&command.Env{})
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && cmd.Name() != "help" {
			t.Errorf("%s is in no group: see newCommand", cmd.Name())
		}
	}
	if _, out, _ := run(t, newWorld(t).command("--help"), ""); strings.Contains(out, "Additional") || !strings.Contains(out, "\nEveryday:\n  chat ") {
		t.Errorf("the help: %s", out)
	}
}
