package chat

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestCommandOf(t *testing.T) {
	for message, want := range map[string]string{ // "": text
		"/model":              "/model",
		"/model gpt ":         "/model gpt",
		"/model\ngpt":         "/model\ngpt",
		"/model\tgpt":         "/model\tgpt",
		"/a_b-c:d9":           "/a_b-c:d9",
		"exit":                "/exit",
		"quit\n":              "/exit",
		":q ":                 "/exit",
		"?":                   "/help",
		"!ls":                 "!ls",
		"!!ls":                "!!ls",
		"/usr/bin/x fails":    "",
		"/Model":              "",
		"/9":                  "",
		"/":                   "",
		"/modèle":             "",
		"//model":             "",
		" /model":             "",
		" exit":               "",
		"exit now":            "",
		"? what":              "",
		"see\n/model":         "",
		"\u202e/model":        "",
		"/model\u00a0no-word": "/model\u00a0no-word",
	} {
		line, ok := commandOf(message)
		if ok != (want != "") || ok && line != want {
			t.Errorf("%q: %q, %v; want %q", message, line, ok, want)
		}
	}
	for message, want := range map[string]string{
		"//model x":      "/model x",
		"//exit":         "/exit",
		" /model":        "/model",
		"// a comment":   "// a comment",
		"//usr/share/x":  "//usr/share/x",
		"/usr/bin/x":     "/usr/bin/x",
		"two\nlines\n\n": "two\nlines",
	} {
		if got := textOf(message); got != want {
			t.Errorf("%q sends %q, want %q", message, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{
		"modle": "model", "modelx": "model", "hlep": "help", "undoo": "undo", "MODEL": "", "xyzzy": "", "sesions": "sessions", "handof": "handoff",
	} {
		if got := new(chat).nearest(word); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// TestRemedies checks the command that is named for errors as the services send them.
func TestRemedies(t *testing.T) {
	for _, tt := range []struct {
		name  string
		e     proto.Error
		by    string // the provider
		want  string
		whole bool
	}{
		{"a key", proto.Error{Status: 401, Message: "HTTP 401: invalid x-api-key", Details: "Check the key for anthropic."}, "anthropic", "zino auth set anthropic", true},
		{"a key of a server on this host", proto.Error{Status: 401, Message: "HTTP 401"}, "ollama", "/provider", true},
		{"a model", proto.Error{Status: 404, Message: "HTTP 404: no such model", Details: `openai has no model "gpt-9"; the nearest are gpt-6, gpt-5: choose one with --model (zino models lists all).`}, "openai", "/model gpt-6", false},
		{"a model without others", proto.Error{Status: 404, Message: "HTTP 404: model: x"}, "anthropic", "/model", false},
		{"a base URL", proto.Error{Status: 404, Message: "HTTP 404: Not Found", Details: "Nothing answers below api.example.com: the base URL of such a server mostly ends in /v1."}, "openai", "add /v1 to [api] base_url (zino config edit)", false},
		{"a long session", proto.Error{Status: 400, Code: proto.CodeTooLarge, Message: "HTTP 400: prompt is too long: 300000 tokens > 200000 maximum"}, "anthropic", "/handoff GOAL", true},
		{"a budget", proto.Error{Code: proto.CodeBudget, Message: "[budget] usd_per_day = 5 is reached: $5.0012 spent and $0.0000 reserved for requests under way or lost; the limit starts anew at 2026-11-24T00:00:00Z: wait until then, or raise [budget] usd_per_day in /home/ada/.config/zino/config.toml"}, "anthropic", "raise [budget] usd_per_day in /home/ada/.config/zino/config.toml (zino config edit)", false},
		{"a quota", proto.Error{Status: 429, Message: "HTTP 429: credit balance is too low"}, "anthropic", "/model", false},
		{"a long pause", proto.Error{Code: proto.CodeLimit, Message: "anthropic asks not to be asked before 15:04"}, "anthropic", "/model", false},
		{"a refused connection", proto.Error{Code: proto.CodeUnavailable, Message: "cannot reach the model at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"}, "ollama", "/doctor", false},
		{"no network", proto.Error{Code: proto.CodeUnavailable, Message: "cannot reach the model at api.anthropic.com: dial tcp: lookup api.anthropic.com: no such host"}, "anthropic", "check the network, or /provider ollama for a model of this host", false},
		{"a full disk", proto.Error{Kind: "session", Message: "write sessions/x.jsonl: no space left on device"}, "anthropic", "free disk space (df -h), then send the message again", false},
		{"permissions", proto.Error{Kind: "session", Message: "open sessions/x.jsonl: permission denied"}, "anthropic", "/doctor", false},
		{"no model", proto.Error{Code: proto.CodeUnavailable, Message: "no model is connected: set a key"}, "", "/provider", false},
		{"another error", proto.Error{Message: "the turn ended"}, "anthropic", "", false},
	} {
		if got, whole := remedyOf(&tt.e, tt.by); got != tt.want || whole != tt.whole {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, whole, tt.want)
		}
	}
}

// TestPaths checks what is listed for completion, and how it is written behind @.
func TestPaths(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.go", "a b.txt", "quo\"te.txt", "line\nend", "sub/x.go", ".hidden/y", "ignored.log", "1/2/3/4/5/6/7/8/9/deep"} {
		zinotest.Write(t, filepath.Join(root, name), "")
	}
	want := []string{"a b.txt", "a.go", "line\nend", "quo\"te.txt", "sub/", "sub/x.go"}
	has := func(paths, want []string) {
		t.Helper()
		for _, path := range want {
			if !slices.Contains(paths, path) {
				t.Errorf("%q is not among %q", path, paths)
			}
		}
	}
	walked := below(context.Background(), root)
	has(walked, want)
	if slices.Contains(walked, ".hidden/y") || slices.ContainsFunc(walked, func(p string) bool { return strings.HasSuffix(p, "deep") }) {
		t.Errorf("hidden or deep names: %q", walked)
	}
	zinotest.Write(t, filepath.Join(root, ".gitignore"), "*.log\n")
	if out, err := exec.Command("git", "-C", root, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	known := below(context.Background(), root)
	has(known, append(want, ".gitignore", ".hidden/y", "1/2/"))
	if slices.Contains(known, "ignored.log") {
		t.Errorf("ignored files are listed: %q", known)
	}
	for word, want := range map[string][]string{
		"@a":       {"@a.go"},
		`@"a`:      {`@"a b.txt"`, `@"a.go"`},
		"@A":       {"@a.go"},
		"@x.go":    {"@sub/x.go"},
		"@quo":     {`@quo"te.txt`},
		"@line":    nil,
		"@missing": nil,
		"@b.t":     {`@"a b.txt"`},
	} {
		if got := matching(word, mentionsOf([]string{"a b.txt", "a.go", "quo\"te.txt", "line\nend", "sub/x.go"}, word)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
	for before, want := range map[string]string{
		"see @src/ma": "@src/ma", "ada@example": "", "@": "@", `in @"a b`: `@"a b`, `in @"a b" `: "", "@a b": "", "(@x": "@x", "one\n@two": "@two", "": "",
	} {
		if got := mentionAt(before); got != want {
			t.Errorf("%q: %q, want %q", before, got, want)
		}
	}
	zinotest.Must(t, os.Mkdir(filepath.Join(root, "zdir"), 0o755))
	names, err := inDirectory(root, "~/")
	if err != nil || !slices.Contains(names, "~/zdir/") || !slices.Contains(names, "~/a b.txt") || names[len(names)-1] != "~/.hidden/" {
		t.Errorf("a directory: %q, %v", names, err)
	}
}

// TestUndoLines checks what /undo says.
func TestUndoLines(t *testing.T) {
	refused := []proto.UndoRefused{{Path: "b", Reason: proto.UndoChanged}}
	for _, tt := range []struct {
		done proto.Undone
		all  bool
		want string
	}{
		{proto.Undone{Restored: []string{"a"}, Removed: []string{"d/"}}, false, "  restored a\n  removed d/"},
		{proto.Undone{Refused: refused}, false, "  refused b: changed (it is not what the turn left)\nNothing was changed of this turn. To take back the rest: /undo --partial"},
		{proto.Undone{Restored: []string{"a"}, Refused: refused}, true, "  restored a\n  refused b: changed (it is not what the turn left)"},
		{proto.Undone{}, false, "There is nothing to take back."},
	} {
		if got := strings.Join(undoLines([]proto.Undone{tt.done}, tt.all), "\n"); got != tt.want {
			t.Errorf("%+v: %q", tt.done, got)
		}
	}
}

// TestTabWaitsForCommands checks that a Tab before the daemon has listed the commands of
// files completes when it has.
func TestTabWaitsForCommands(t *testing.T) {
	x := newTestChat(t)
	x.editor.Insert("/rev")
	x.tab()
	zinotest.Equal(t, "before", x.editor.BeforeCursor(), "/rev")
	x.files, x.filesKnown = []proto.CommandInfo{{Name: "review"}}, true
	x.listed()
	zinotest.Equal(t, "after", x.editor.BeforeCursor(), "/review ")
}
