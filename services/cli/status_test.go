package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// serveAs starts a service that answers the common requests and reports problems.
func serveAs(t *testing.T, name, socket string, problems ...string) {
	t.Helper()
	rpctest.New(t, name, socket, func(s *rpc.Server) {
		s.OnStats(func(stats *proto.Stats) { stats.Problems = append(stats.Problems, problems...) })
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.runtime, "zino")
	zinotest.Must(t, os.Mkdir(dir, 0o700))
	const problem = "skills/x.json:2: broken\x1b[31m"
	for _, name := range config.Services {
		socket := filepath.Join(dir, name+".sock")
		switch name {
		case "mem", "exc": // they are asked concurrently
			zinotest.Listen(t, socket) // and never answers
		case "rtr":
		case "agr", "ctx":
			serveAs(t, name, socket, problem)
		default:
			serveAs(t, name, socket)
		}
	}
	status, out, stderr := run(t, w.command("status"), "")
	if status != 1 || stderr != "4 of 7 services are up.\n" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{
		`(?m)^SERVICE +STATE +VERSION +UPTIME +SOCKET +PROBLEMS$`,
		`(?m)^daemon +up +\S+\+dev +\d+s +` + dir + `/daemon.sock +0$`,
		`(?m)^agr +up +\S+\+dev +\d+s +\S+ +1$`,
		`(?m)^mem +silent +- +- +\S+ +1$`,
		`(?m)^exc +silent +- +- +\S+ +1$`,
		`(?m)^rtr +down +- +- +\S+ +0$`,
		`(?m)^ctx, agr: skills/x.json:2: broken\^\[\[31m$`,
		`(?m)^mem, exc: no answer within 3s$`,
		`(?m)^Audit: plain log \S+/log/audit.jsonl \(not written yet\)$`,
		`(?m)^At sandbox level off a model's command runs as you: nothing keeps it from approving its own calls\. Confined levels do\.$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no line %s in:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "\n"); n != 1+7+2+2+2 {
		t.Errorf("%d lines:\n%s", n, out)
	}
}

// TestStatusWhere checks a named constellation, and the output without any.
func TestStatusWhere(t *testing.T) {
	w := newWorld(t)
	named := filepath.Join(w.cwd, "own.toml")
	var text strings.Builder
	for _, name := range config.Services {
		text.WriteString("[" + name + "]\nsocket = \"" + name + ".sock\"\n")
		serveAs(t, name, filepath.Join(w.cwd, name+".sock"))
	}
	zinotest.Write(t, named, text.String())
	status, out, stderr := run(t, w.command("status", "--config", named), "")
	if status != 0 || stderr != "" || strings.Count(out, " up ") != 7 {
		t.Errorf("status %d, stderr %q, printed:\n%s", status, stderr, out)
	}
	status, out, stderr = run(t, w.command("status"), "")
	if status != 0 || stderr != "" || !strings.HasPrefix(out, "No services are running: zino starts its own for each run.") {
		t.Errorf("status %d, stderr %q, printed:\n%s", status, stderr, out)
	}
	zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
}

// TestStatusWithoutDaemon checks the settings that a run would use.
func TestStatusWithoutDaemon(t *testing.T) {
	for _, test := range []struct {
		name, config string
		env          []string
		want         []string // "name  value" with blanks joined
	}{
		{"nothing", "", nil, []string{
			"configuration defaults (BASE/config.toml does not exist: zino config init)", "provider none: connect one with", "model none", "key none",
			"sandbox off", "budget none", "sockets RUNTIME/zino (with zino up)", "log BASE/log/zino.log", "template none (BASE/SYSTEM.md is missing)", "session template none (BASE/SESSION.md is missing)",
		}},
		{"a key", "[exc]\nsandbox = \"read-only\"\n[budget]\nusd_per_day = 2.5\ntokens_per_session = 1000\n", []string{"ANTHROPIC_API_KEY=sk-secret"}, []string{
			"configuration BASE/config.toml", "provider anthropic", "model claude-sonnet-5-5", "key environment ANTHROPIC_API_KEY",
			"sandbox read-only, no network", "budget 2.5 USD a day, 1000 tokens a session",
		}},
		{"a token", "", []string{"ANTHROPIC_AUTH_TOKEN=sk-secret"}, []string{"provider anthropic", "key environment ANTHROPIC_AUTH_TOKEN"}},
		{"an endpoint", "[api]\nbase_url = \"http://me:sk-secret@127.0.0.1:9/v1\"\n", []string{"ANTHROPIC_API_KEY=sk-secret"}, []string{
			"provider openai", "endpoint http://(hidden)@127.0.0.1:9/v1", "model the first that the server names", "key none",
		}},
		{"a key in the file", "provider = \"gemini\"\nmodel = \"m\"\n[api]\nkey = \"sk-secret\"\n", nil, []string{
			"provider gemini", "model m", "key [api] key in BASE/config.toml",
		}},
		{"auto", "provider = \"auto\"\n", nil, []string{"provider auto: a model server on this host, else the offline provider (no AI)"}},
		{"offline", "provider = \"offline\"\n", nil, []string{"provider offline", "model none", "key none"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			base := filepath.Join(w.home, ".config", "zino")
			zinotest.Must(t, os.MkdirAll(base, 0o700))
			if test.config != "" {
				zinotest.Write(t, filepath.Join(base, "config.toml"), test.config)
			}
			cmd := w.command("status")
			cmd.Env = append(cmd.Env, test.env...)
			status, out, stderr := run(t, cmd, "")
			if status != 0 || stderr != "" || strings.Contains(out, "sk-secret") || strings.Contains(out, " down ") {
				t.Errorf("status %d, stderr %q, printed:\n%s", status, stderr, out)
			}
			var lines []string
			for line := range strings.Lines(out) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			for _, want := range test.want {
				if want = strings.NewReplacer("BASE", base, "RUNTIME", w.runtime).Replace(want); !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("no line %q in:\n%s", want, out)
				}
			}
		})
	}
}

// TestDescribe checks the methods of a service that does not run.
func TestDescribe(t *testing.T) {
	w := newWorld(t)
	for name, want := range map[string][]string{
		"mem":    {"search_hard -> hard_memories  (call)\n", "    -> query (string", "    <- "},
		"daemon": {"(no type) -> response  (text)\n", "forward -> ", "ping -> pong"},
	} {
		status, known, stderr := run(t, w.command("describe", name), "")
		if status != 0 || stderr != "" {
			t.Errorf("status %d, stderr %q", status, stderr)
		}
		for _, text := range want {
			if !strings.Contains(known, text) {
				t.Errorf("no %q in the description of %s:\n%s", text, name, known)
			}
		}
	}
	status, _, stderr := run(t, w.command("--socket", "none", "describe", "mem"), "")
	if status != 1 || !strings.HasPrefix(stderr, "Error [internal]: Could not connect to daemon: ") {
		t.Errorf("no daemon: status %d, stderr %q", status, stderr)
	}
}
