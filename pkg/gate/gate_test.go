package gate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// defaultEnv is that of [gate] env.
var defaultEnv = []string{"LANG", "LC_*", "TZ", "TERM", "NO_COLOR", "CI", "GO*"}

// newPolicy returns a policy with these rules of the host and of the user.
func newPolicy(t testing.TB, host, user string) *Policy {
	t.Helper()
	p := New(Places{Env: defaultEnv, DataDir: "/nonexistent/daemon", User: "/nonexistent/zino/policy.toml"})
	p.host.path, p.user.path = write(t, "host.toml", host), write(t, "user.toml", user)
	p.host.host = false // so that the file may belong to the user of the tests
	return p
}

func write(t testing.TB, name, rules string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if rules != "" {
		zinotest.Must(t, os.WriteFile(path, []byte("version = 1\n"+rules), 0o600))
	}
	return path
}

// rule returns a rule as it stands in a file.
func rule(action, keys string) string {
	return "[[rule]]\naction = \"" + action + "\"\n" + strings.ReplaceAll(keys, "; ", "\n") + "\n"
}

func TestModes(t *testing.T) {
	root := realTemp(t)
	p := newPolicy(t, "", "")
	for _, tt := range []struct {
		call Call
		want string // of plan, ask, auto and yolo
	}{
		{Call{Tool: "read", Path: "x"}, "allow allow allow allow"},
		{Call{Tool: "read", Path: "/etc/passwd"}, "allow ask allow allow"},
		{Call{Tool: "recall"}, "allow allow allow allow"},
		{Call{Tool: "job", Action: "wait"}, "allow allow allow allow"},
		{Call{Tool: "job", Action: "stop"}, "deny ask allow allow"},
		{Call{Tool: "remember"}, "deny ask allow allow"},
		{Call{Tool: "remember", Action: "propose"}, "allow allow allow allow"},
		{Call{Tool: "task"}, "deny ask allow allow"},
		{Call{Tool: "write", Path: "x"}, "deny ask allow allow"},
		{Call{Tool: "edit", Path: "a/b"}, "deny ask allow allow"},
		{Call{Tool: "edit", Path: "../b"}, "deny ask ask allow"},
		{Call{Tool: "write", Path: "/tmp/x"}, "deny ask ask allow"},
		{Call{Tool: "bash", Command: "make"}, "deny ask ask allow"},
		{Call{Tool: "bash", Command: "make", Sandbox: proto.LevelWorkspaceWrite}, "deny ask allow allow"},
		{Call{Tool: "bash", Command: "make > /tmp/x", Sandbox: proto.LevelUnit}, "deny ask allow allow"},
		{Call{Tool: "bash", Command: "make", Sandbox: proto.LevelReadOnly}, "allow ask allow allow"},
		{Call{Tool: "bash", Command: ")", Sandbox: proto.LevelReadOnly}, "allow ask allow allow"},
		{Call{Tool: "bash", Command: "# nothing"}, "deny ask ask allow"},
		{Call{Tool: "page_eval"}, "deny ask ask allow"},
		{Call{Tool: "page_eval", Sandbox: proto.LevelUnit}, "deny ask ask deny"},
		{Call{Tool: "page_eval", Sandbox: proto.LevelUnit, FromSandbox: true}, "deny ask allow allow"},
		{Call{Tool: "mcp:files/read"}, "deny ask ask allow"},
		{Call{Tool: "mcp:files/read", Trusted: true}, "deny ask allow allow"},
		{Call{Tool: "egress", Host: "example.com"}, "deny ask ask allow"},
		{Call{Tool: "write"}, "deny ask ask allow"},
	} {
		var got []string
		for _, mode := range Modes {
			c := tt.call
			c.Root, c.Mode = root, mode
			got = append(got, p.Decide(&c).Action.String())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%+v: %q, want %q", tt.call, got, tt.want)
		}
	}
	if d := p.Decide(&Call{Tool: "write", Path: root + "/x", Root: root, Mode: "other"}); d.Action != Deny {
		t.Errorf("an unknown mode: %v", d.Action)
	}
	if Derive(proto.LevelOff) != Yolo || Derive("") != Yolo || Derive(proto.LevelReadOnly) != Auto {
		t.Error("the derived mode")
	}
}

// realTemp returns a new directory without symbolic links.
func realTemp(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	zinotest.Must(t, err)
	return dir
}

// TestRules checks which rule decides, in mode ask unless the case says otherwise.
func TestRules(t *testing.T) {
	allowGit := rule("allow", `tool = ["bash"]; command = ["git status", "git diff *", "ls *"]`)
	denyRm := rule("deny", `command = ["rm *"]; reason = "keep"`)
	for name, tt := range map[string]struct {
		host, user string
		call       Call
		want       Action
	}{
		"allowed":                          {"", allowGit, Call{Command: "git status"}, Allow},
		"of the host":                      {allowGit, "", Call{Command: "git status"}, Allow},
		"not listed":                       {"", allowGit, Call{Command: "git push"}, Ask},
		"one of two":                       {"", allowGit, Call{Command: "git status; git push"}, Ask},
		"further words":                    {"", allowGit, Call{Command: "git diff"}, Allow},
		"no further words":                 {"", allowGit, Call{Command: "git status -s"}, Ask},
		"denied":                           {denyRm, "", Call{Command: "rm x", Mode: Yolo}, Deny},
		"denied by the user":               {"", denyRm, Call{Command: "ls && /bin/rm x", Mode: Yolo}, Deny},
		"stricter of two":                  {denyRm, rule("allow", `command = ["*"]`), Call{Command: "rm x"}, Deny},
		"stricter of two, user":            {rule("allow", `command = ["*"]`), rule("ask", `command = ["ls"]`), Call{Command: "ls", Mode: Auto}, Ask},
		"first of a file":                  {"", rule("allow", `command = ["rm x"]`) + denyRm, Call{Command: "rm x"}, Allow},
		"user's ask in yolo":               {"", rule("ask", `command = ["ls"]`), Call{Command: "ls", Mode: Yolo}, Allow},
		"host's ask in yolo":               {rule("ask", `command = ["ls"]`), "", Call{Command: "ls", Mode: Yolo}, Ask},
		"allow in plan":                    {allowGit, allowGit, Call{Command: "git status", Mode: Plan}, Deny},
		"assignment":                       {"", allowGit, Call{Command: "GIT_DIR=x git status"}, Ask},
		"assignment of the list":           {"", allowGit, Call{Command: "LC_ALL=C GOFLAGS=-v git status"}, Allow},
		"bare assignment":                  {"", allowGit, Call{Command: "PATH=/tmp; git status"}, Ask},
		"assignment in yolo":               {"", allowGit, Call{Command: "PATH=/tmp; git status", Mode: Yolo}, Allow},
		"confined":                         {"", allowGit, Call{Command: "PATH=/tmp; git status", Mode: Auto, Sandbox: proto.LevelUnit}, Allow},
		"broken syntax":                    {"", rule("allow", `tool = ["bash"]`), Call{Command: "ls ("}, Ask},
		"broken syntax, yolo":              {"", allowGit, Call{Command: "ls (", Mode: Yolo}, Allow},
		"broken syntax, yolo, deny":        {"", denyRm, Call{Command: "rm x\n(", Mode: Yolo}, Ask},
		"hidden in a wrapper":              {"", denyRm, Call{Command: "env -S 'rm x'", Mode: Yolo}, Ask},
		"in a function":                    {"", denyRm, Call{Command: "f() { rm x; }", Mode: Yolo}, Deny},
		"in eval":                          {"", denyRm, Call{Command: "eval rm x", Mode: Yolo}, Deny},
		"in a trap":                        {"", denyRm, Call{Command: "trap 'rm x' EXIT", Mode: Yolo}, Deny},
		"through a wrapper":                {"", allowGit, Call{Command: "timeout -s KILL 5 nice -n 3 git status"}, Allow},
		"wrapper asked":                    {"", rule("ask", `command = ["nice *"]`) + allowGit, Call{Command: "nice git status"}, Ask},
		"wrapper denied":                   {"", rule("deny", `command = ["sudo *"]`) + allowGit, Call{Command: "sudo git status"}, Deny},
		"wrapper that changes rights":      {"", allowGit, Call{Command: "sudo git status"}, Ask},
		"wrapper that changes rights, too": {"", rule("allow", `command = ["sudo *"]`) + allowGit, Call{Command: "sudo git status"}, Allow},
		"redirection below the root":       {"", allowGit, Call{Command: "git status > x", Mode: Auto}, Allow},
		"redirection outside":              {"", allowGit, Call{Command: "git status > /tmp/x", Mode: Auto}, Ask},
		"redirection behind cd":            {"", rule("allow", `command = ["*"]`), Call{Command: "cd y; git status > x", Mode: Auto}, Ask},
		"redirection denied":               {"", rule("deny", `tool = ["write"]; path = ["*.key"]`) + allowGit, Call{Command: "git status > a.key", Mode: Yolo}, Deny},
		"redirection asked":                {"", allowGit, Call{Command: "git status > x"}, Ask},
		"redirection to nothing":           {"", allowGit, Call{Command: "git status >/dev/null 2>&1"}, Allow},
		"own files":                        {"", rule("allow", `tool = ["write"]`), Call{Tool: "write", Path: "/etc/zino/policy.toml", Mode: Yolo}, Deny},
		"own files, user":                  {"", "", Call{Tool: "edit", Path: "/nonexistent/zino/policy.toml", Mode: Yolo}, Deny},
		"own files, config":                {"", "", Call{Tool: "edit", Path: "/nonexistent/zino/config.toml", Mode: Yolo}, Deny},
		"own files, key":                   {"", "", Call{Tool: "write", Path: "/nonexistent/daemon/gate.key", Mode: Yolo}, Deny},
		"own files, redirected":            {"", "", Call{Command: "echo > /nonexistent/daemon/grants.toml", Mode: Yolo}, Deny},
		"own files can be read":            {"", "", Call{Tool: "read", Path: "/etc/zino/policy.toml", Mode: Yolo}, Allow},
		"home":                             {"", rule("deny", `tool = ["read"]; path = ["~/.ssh/**"]`), Call{Tool: "read", Path: "/home/ann/.ssh/id", Mode: Yolo}, Deny},
		"absolute path":                    {"", rule("allow", `tool = ["read"]; path = ["/opt/*/x"]`), Call{Tool: "read", Path: "/opt/a/x"}, Allow},
		"path with dots":                   {"", rule("allow", `tool = ["read"]; path = ["/opt/*/x"]`), Call{Tool: "read", Path: "/opt/a/b/../x/../../x"}, Ask},
		"sandbox":                          {"", rule("deny", `sandbox = ["unit"]`), Call{Command: "ls", Sandbox: proto.LevelUnit, Mode: Auto}, Deny},
		"another sandbox":                  {"", rule("deny", `sandbox = ["unit"]`), Call{Command: "ls", Mode: Yolo}, Allow},
		"host":                             {"", rule("deny", `host = ["*.example.com"]`), Call{Tool: "mcp:a/b", Host: "API.example.com:443", Mode: Yolo}, Deny},
		"not a subdomain":                  {"", rule("deny", `host = ["*.example.com"]`), Call{Tool: "mcp:a/b", Host: "example.com", Mode: Yolo}, Allow},
		"port":                             {"", rule("deny", `host = ["example.com:8080"]`), Call{Tool: "mcp:a/b", Host: "example.com:443", Mode: Yolo}, Allow},
		"tool of a server":                 {"", rule("allow", `tool = ["mcp:files/*"]`), Call{Tool: "mcp:files/read"}, Allow},
		"unknown word":                     {"", allowGit, Call{Command: `git diff "$x"`}, Allow},
		"unknown word for a word":          {"", rule("allow", `command = ["git diff a"]`), Call{Command: `git diff $x`}, Ask},
		"shells differ":                    {"", rule("allow", `command = ["echo *"]`), Call{Command: `echo $'\'' ; rm x; echo $'\'' \'`}, Ask},
		"unknown command":                  {"", rule("allow", `command = ["*"]`), Call{Command: `$x`}, Ask},
	} {
		t.Run(name, func(t *testing.T) {
			c := tt.call
			if c.Tool == "" {
				c.Tool = "bash"
			}
			if c.Mode == "" {
				c.Mode = Asks
			}
			c.Root, c.Home = realTemp(t), "/home/ann"
			if d := newPolicy(t, tt.host, tt.user).Decide(&c); d.Action != tt.want {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestUser checks that a rule of the host holds for the users that it names.
func TestUser(t *testing.T) {
	p := newPolicy(t, "", "")
	f := parse("f", []byte(rule("deny", `user = ["ann", "1001"]`)), true)
	p.host.path, p.builtin = "", f
	for _, tt := range []struct {
		user string
		uid  int
		want Action
	}{{"ann", 5, Deny}, {"bob", 1001, Deny}, {"bob", 5, Allow}, {"", 5, Allow}, {"", -1, Deny}} {
		if d := p.Decide(&Call{Tool: "bash", Command: "ls", Mode: Yolo, User: tt.user, UID: tt.uid}); d.Action != tt.want {
			t.Errorf("%s %d: %v", tt.user, tt.uid, d.Action)
		}
	}
	p = newPolicy(t, "", "")
	p.host.path, p.builtin = "", parse("f", []byte(rule("allow", `user = ["root", "0"]`)), true)
	if d := p.Decide(&Call{Tool: "bash", Command: "ls", Mode: Asks, UID: -1}); d.Action != Ask {
		t.Errorf("an unknown user by a rule for root: %v", d.Action)
	}
}

// TestGrantable checks that the narrowest rule that asks limits the answer.
func TestGrantable(t *testing.T) {
	p := newPolicy(t, "", rule("ask", `command = ["a"]; grantable = "session"`)+rule("ask", `command = ["b"]; grantable = "once"`))
	for command, want := range map[string]string{"c": "always", "a": "session", "a; b": "once"} {
		if d := p.Decide(&Call{Tool: "bash", Command: command, Mode: Asks}); d.Grantable.String() != want {
			t.Errorf("%s: %v", command, d.Grantable)
		}
	}
}

// TestLinks checks that a link neither widens an allow rule nor evades a deny rule.
func TestLinks(t *testing.T) {
	root := realTemp(t)
	for _, dir := range []string{"build", "keys", "real"} {
		zinotest.Must(t, os.Mkdir(filepath.Join(root, dir), 0o700))
	}
	for name, to := range map[string]string{"build/out": "/etc", "k": "keys", "linked": "real", "build/new": "/etc/new"} {
		zinotest.Must(t, os.Symlink(to, filepath.Join(root, name)))
	}
	p := newPolicy(t, "", rule("deny", `path = ["keys/**", "linked/**"]`)+rule("allow", `path = ["build/**"]`))
	for path, want := range map[string]Action{
		"build/x": Allow, "build/out/passwd": Ask, "build/new": Ask, "build/../keys/x": Deny,
		"keys/x": Deny, "k/x": Deny, "linked/x": Deny, "real/x": Deny, "build/out/../keys": Ask,
	} {
		if d := p.Decide(&Call{Tool: "write", Path: path, Root: root, Mode: Asks}); d.Action != want {
			t.Errorf("%s: %+v", path, d)
		}
	}
}

// TestReload checks that a change holds at once, and that a broken file denies
// everything but reads.
func TestReload(t *testing.T) {
	p := newPolicy(t, "", "")
	decide := func(tool string) Decision {
		return p.Decide(&Call{Tool: tool, Command: "ls", Path: "/x", Mode: Yolo})
	}
	set := func(content string, mode os.FileMode) {
		t.Helper()
		zinotest.Must(t, os.WriteFile(p.user.path, []byte(content), 0o600))
		zinotest.Must(t, os.Chmod(p.user.path, mode))
	}
	for range 50 {
		set(rule("deny", `tool = ["bash"]`), 0o600)
		if d := decide("bash"); d.Action != Deny {
			t.Fatalf("after a change: %+v", d)
		}
		set(rule("deny", `tool = ["bosh"]`), 0o600)
		if d := decide("bash"); d.Action != Allow {
			t.Fatalf("after a change back: %+v", d)
		}
	}
	for p.user.file == nil { // until the file is old enough to be kept
		decide("bash")
	}
	set(rule("deny", `tool = ["bash"]`), 0o600)
	if d := decide("bash"); d.Action != Deny {
		t.Errorf("after a change of a file that was kept: %+v", d)
	}
	for content, mode := range map[string]os.FileMode{"x": 0o600, rule("deny", "x = 1"): 0o600, "version = 1\n": 0o622} {
		set(content, mode)
		if d := decide("bash"); d.Action != Deny || !strings.HasPrefix(d.Parts[0].Reason, p.user.path+":") {
			t.Errorf("%q: %+v", content, d)
		}
		if d := decide("read"); d.Action != Allow {
			t.Errorf("%q: a read: %+v", content, d)
		}
	}
	zinotest.Must(t, os.Remove(p.user.path))
	zinotest.Must(t, os.Mkdir(p.user.path, 0o700))
	if d := decide("bash"); d.Action != Deny {
		t.Errorf("a directory: %+v", d)
	}
}

// TestHostFile checks that the host's file must belong to root.
func TestHostFile(t *testing.T) {
	path := write(t, "policy.toml", rule("deny", `user = ["ann"]`))
	p := New(Places{Host: path})
	_, host, _ := p.Files()
	if os.Getuid() != 0 {
		if len(host.Problems) != 1 || !strings.Contains(host.Problems[0], "must belong to root") {
			t.Errorf("%q", host.Problems)
		}
		return
	}
	if len(host.Problems) > 0 || len(host.Rules) != 1 {
		t.Errorf("of root: %q", host.Problems)
	}
	for _, change := range []func() error{
		func() error { return os.Chown(path, 1234, 0) },
		func() error { return errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0o664)) },
	} {
		zinotest.Must(t, change())
		if _, host, _ := p.Files(); len(host.Problems) != 1 {
			t.Error("the file is used")
		}
		if d := p.Decide(&Call{Tool: "bash", Command: "ls", Mode: Yolo}); d.Action != Deny {
			t.Errorf("%+v", d)
		}
	}
}

func TestParse(t *testing.T) {
	for content, want := range map[string]string{
		"version = 2":                                "f:1:1: version must be 1",
		"version = 1\nx = 1":                         `f:2:1: unknown key "x"`,
		rule("allow", `tols = ["bash"]`):             `f:3:1: unknown key "rule.tols"`,
		rule("maybe", ""):                            "f:2:10: action must be allow, ask or deny, not \"maybe\"",
		"[[rule]]\ntool = [\"bash\"]":                "f:1:1: the rule has no action",
		rule("allow", `command = [""]`):              "f:3:12: the pattern is empty",
		rule("allow", `path = []`):                   "f:3:1: path is an empty list",
		rule("allow", `path = ["a["]`):               "f:3:9: \"a[\" is not a pattern of paths",
		rule("allow", `path = ["a/../b"]`):           "without ..",
		rule("allow", `path = ["~bob/x"]`):           "only ~/",
		rule("allow", `tool = ["a b"]`):              "is not the name of a tool",
		rule("allow", `host = ["http://x"]`):         "is not a host",
		rule("allow", `user = ["ann"]`):              "user is for the host's file only",
		rule("allow", `sandbox = ["none"]`):          "f:3:12:",
		rule("allow", `grantable = "never"`):         "grantable must be once, session or always",
		"rule = [{action = \"allow\"}]":              "f:1:1: write each rule as a table",
		"[[rule]\n":                                  "f:1:",
		strings.Repeat(rule("deny", ""), rulesMax+1): "more than 1000",
	} {
		f := parse("f", []byte(content), false)
		if len(f.Problems) != 1 || !strings.Contains(f.Problems[0], want) || len(f.Rules) > 0 {
			t.Errorf("%.60q: %q, want %q", content, f.Problems, want)
		}
	}
	if f := parse("f", nil, false); len(f.Problems) > 0 {
		t.Errorf("an empty file: %q", f.Problems)
	}
}

// TestEdit checks that adding and removing keep the rest of the file.
func TestEdit(t *testing.T) {
	content := "# mine\nversion = 1\n\n[[rule]] # first\naction = \"ask\"\n\n  [[rule]]\n  action = \"deny\"\n"
	f := parse("f", []byte(content), false)
	got, err := f.Add(Allow, "bash", `echo "a\b" *`)
	zinotest.Must(t, err)
	f = parse("f", got, false)
	if len(f.Rules) != 3 || f.Rules[2].Patterns() != `command echo "a\b" *` || !strings.HasPrefix(string(got), content) {
		t.Fatalf("%s", got)
	}
	for _, n := range []int{0, 4, -1} {
		if _, err := f.Remove(n); err == nil {
			t.Errorf("rule %d was removed", n)
		}
	}
	got, err = f.Remove(1)
	zinotest.Must(t, err)
	if f = parse("f", got, false); len(f.Rules) != 2 || f.Rules[0].Action != Deny || !strings.HasPrefix(string(got), "# mine\nversion = 1\n\n  [[rule]]") {
		t.Errorf("%s", got)
	}
	if _, err := f.Add(Deny, "write", "a["); err == nil {
		t.Error("an invalid pattern was added")
	}
}

func TestPropose(t *testing.T) {
	for command, want := range map[string]string{
		"make install": "make *", "make": "make *", "git push origin x": "git push *", "git": "git", "git -C x push": "git -C x push",
		"python3 x.py": "python3 x.py", "python3 -c 'a b'": "", "sudo make": "", "env": "env", "make && ls": "", "$x y": "", "make > out": "",
		"git $x": "", "make $x": "make *", "PATH=x make": "", "ls (": "", "git 'a$b'": "", "": "", "/opt/a/tool x": "/opt/a/tool *",
	} {
		if got := Propose(command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}
