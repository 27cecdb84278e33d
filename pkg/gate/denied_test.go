package gate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestDeniedPaths resolves patterns of rules in directories that a command sees: root,
// and system, which has other files of the same names.
func TestDeniedPaths(t *testing.T) {
	dir := realTemp(t)
	for _, name := range []string{
		"root/.env", "root/a/.env", "root/a/b/key.pem", "root/a/b/key.txt", "root/secrets/x", "root/own.txt", "system/ssl/key.pem", "system/ssl/deep/key.pem",
		"home/.ssh/id", "other/.env",
	} {
		zinotest.Write(t, filepath.Join(dir, name), "x")
	}
	zinotest.Must(t, os.Symlink("secrets", dir+"/root/link"))
	zinotest.Must(t, os.Symlink(dir+"/system/ssl", dir+"/linked"))
	zinotest.Must(t, os.Symlink("../own.txt", dir+"/root/a/.env.local"))
	const deny = "deny"
	tools := `tool = ["read", "write", "edit"]; `
	for _, tt := range []struct {
		name, host, user string
		want             string // "read PATH", "write PATH", "root", "gap", in order
	}{
		{"a file", "", rule(deny, `path = [".env"]`), "read root/.env"},
		{"a missing file", "", rule(deny, tools+`path = [".netrc"]`), "write root/.netrc"},
		{"a missing file that may be written", "", rule(deny, `tool = ["read"]; path = [".netrc"]`), ""},
		{"a directory", "", rule(deny, tools+`path = ["secrets/**"]`), "read root/secrets"},
		{"a directory by a link", "", rule(deny, tools+`path = ["link/**"]`), "read root/secrets"},
		{"an absolute directory by a link", "", rule(deny, tools+`path = ["DIR/linked/*.pem"]`), "read system/ssl/key.pem"},
		{"its files", "", rule(deny, `path = ["a/*/*.pem"]`), "read root/a/b/key.pem"},
		{"not deeper", "", rule(deny, `path = ["*.pem", "*/*.pem", "DIR/system/*/*.pem"]`), "read system/ssl/key.pem"},
		{"at any depth", "", rule(deny, `path = ["**/.env"]`), "read root/.env, read root/a/.env"},
		{"at any depth, absolute", "", rule(deny, `path = ["/**/key.pem"]`), "read system/ssl/key.pem, read root/a/b/key.pem, read system/ssl/deep/key.pem"},
		{"braces with a slash", "", rule(deny, `path = ["{a/b/key.pem,secrets/x}"]`), "read root/secrets/x, read root/a/b/key.pem"},
		{"a link", "", rule(deny, `path = ["**/.env.local"]`), "read root/own.txt"},
		{"writing only", "", rule(deny, `tool = ["write"]; path = ["own.txt", "new.txt", "DIR/system/ssl/**"]`), "write root/own.txt, write root/new.txt"},
		{"editing only", "", rule(deny, `tool = ["edit"]; path = ["a/**"]`), "write root/a"},
		{"not visible", "", rule(deny, `path = ["~/.ssh/**", "DIR/other/**"]`), ""},
		{"both files", rule(deny, `path = ["own.txt"]`), rule(deny, `path = [".env"]`), "read root/own.txt, read root/.env"},
		{"an exception", "", rule("allow", `path = ["a/.env"]`) + rule(deny, `path = ["**/.env"]`), "read root/.env"},
		{"the exception of another file", rule("allow", `path = ["a/.env"]`), rule(deny, `path = ["a/.env"]`), "read root/a/.env"},
		{"another level", "", rule(deny, `sandbox = ["off"]; path = [".env"]`), ""},
		{"another user", rule(deny, `user = ["nobody"]; path = [".env"]`), "", ""},
		{"this user", rule(deny, `user = ["ann"]; path = [".env"]`), "", "read root/.env"},
		{"another tool", "", rule(deny, `tool = ["bash"]; path = [".env"]`), ""},
		{"a command", "", rule(deny, `command = ["cat *"]; path = [".env"]`), ""},
		{"asking", "", rule("ask", `path = [".env"]`), ""},
		{"the root", "", rule(deny, `path = ["**"]`), "root"},
		{"above the root", "", rule(deny, `path = ["DIR/**"]`), "root"},
		{"above an allowed root", "", rule("allow", `path = ["**"]`) + rule(deny, `path = ["DIR/**"]`), "gap"},
		{"writing in the root", "", rule(deny, `tool = ["write", "edit"]; path = ["**"]`), "gap"},
		{"an unreadable policy", "", "nonsense", ""},
	} {
		p := newPolicy(t, "", strings.ReplaceAll(tt.user, "DIR", dir))
		p.builtin = parse("host.toml", []byte(tt.host), true) // only that of the host may name users
		d := p.deniedPaths(&Call{Root: dir + "/root", Home: dir + "/home", UID: 1000, User: "ann", Sandbox: proto.LevelWorkspaceWrite}, []string{dir + "/root", dir + "/system"})
		var got []string
		for _, path := range d.Read {
			got = append(got, "read "+strings.TrimPrefix(path, dir+"/"))
		}
		for _, path := range d.Write {
			got = append(got, "write "+strings.TrimPrefix(path, dir+"/"))
		}
		if d.Root != "" {
			got = append(got, "root")
		}
		for range d.Gaps {
			got = append(got, "gap")
		}
		zinotest.Equal(t, tt.name, strings.Join(got, ", "), tt.want)
	}
}

// TestDeniedPathsLimits: what a limit leaves out is reported.
func TestDeniedPathsLimits(t *testing.T) {
	root := realTemp(t)
	for i := range 3 {
		zinotest.Write(t, filepath.Join(root, strings.Repeat("d/", i), ".env"), "x")
	}
	file := parse("user.toml", []byte("version = 1\n"+rule("deny", `path = ["**/.env"]`)), false)
	s := &denial{call: &Call{Root: root}, dirs: []string{root}, left: 4, file: file, rule: &file.Rules[0], read: true}
	s.resolve(s.rule.Paths[0])
	zinotest.Equal(t, "found", strings.Join(s.found.Read, " "), root+"/.env "+root+"/d/.env")
	zinotest.Equal(t, "not found", strings.Join(s.found.Gaps, "; "), "user.toml:2: **/.env: more than 50000 files to look at")
}
