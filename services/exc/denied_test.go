package exc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/zinotest"
	"zino/proto"
)

// withRules has the harness decide calls by rules of the user.
func (a *harness) withRules(t *testing.T, rules string) {
	t.Helper()
	base := zinotest.Dir(t)
	t.Setenv("ZINO_HOME", base)
	zinotest.Must(t, os.WriteFile(filepath.Join(base, "policy.toml"), []byte("version = 1\n"+rules), 0o600))
	cfg := config.Default()
	cfg.Daemon.Socket, cfg.Daemon.DataDir = filepath.Join(base, "daemon.sock"), base
	a.guard = gate.NewGuard(cfg)
}

func denyRule(tools string, paths ...string) string {
	return fmt.Sprintf("[[rule]]\naction = \"deny\"\ntool = [%s]\npath = [\"%s\"]\n", tools, strings.Join(paths, `", "`))
}

// TestDeniedPaths: what rules deny to the tools of files, commands of confined levels can
// neither read nor change nor move away.
func TestDeniedPaths(t *testing.T) {
	a := newHarness(t, nil)
	for _, name := range []string{".env", "deep/er/.env", "secrets/key", "fixed"} {
		zinotest.Write(t, filepath.Join(a.root, name), secret)
	}
	a.withRules(t, denyRule(`"read", "write", "edit"`, "**/.env", "secrets/**", "missing", "/etc/hostname")+denyRule(`"write", "edit"`, "fixed"))
	hostname := zinotest.Read(t, "/etc/hostname")
	for _, attempt := range []struct{ name, code string }{
		{"read", "cat .env deep/er/.env secrets/*"},
		{"read by /proc", "cat /proc/self/cwd/.env /proc/self/root$PWD/secrets/key"},
		{"read a hard link", "ln .env hard; cat hard"},
		{"read a symbolic link", "ln -s secrets soft; cat soft/key"},
		{"copy", "cp -r . /tmp/copy; cat /tmp/copy/.env /tmp/copy/secrets/key"},
		{"uncover", "umount .env secrets; cat .env secrets/key"},
		{"mount again", "unshare -Urm sh -c 'umount .env; cat .env; mount --bind . /mnt; cat /mnt/secrets/key'"},
		{"move away", "mv secrets moved; mv deep away; mv .env e; cat moved/key away/er/.env e"},
		{"change", "echo x | tee .env secrets/key deep/er/.env fixed; rm -rf fixed secrets .env deep"},
		{"make", "rm -f fixed; echo x | tee missing fixed"},
		{"search", "grep -r " + secret[:10] + " . | grep -v fixed"},
		{"read outside", "cat /etc/hostname"},
	} {
		for _, level := range []proto.Level{proto.LevelReadOnly, proto.LevelWorkspaceWrite} {
			if !a.available(t, level) {
				continue
			}
			r := a.runIn(t, level, a.root, "bash", attempt.code)
			if strings.Contains(r.Stdout+r.Stderr, secret[:10]) || strings.Contains(r.Stdout, strings.TrimSpace(hostname)) && attempt.name == "read outside" {
				t.Errorf("%s at %s: %+v", attempt.name, level, r)
			}
			if slices.Contains(r.Confinement.Unlimited, "rules") {
				t.Errorf("%s at %s: %q", attempt.name, level, r.Stderr)
			}
			for _, name := range []string{".env", "deep/er/.env", "secrets/key", "fixed"} {
				zinotest.Equal(t, attempt.name+" at "+string(level)+": "+name, zinotest.Read(t, filepath.Join(a.root, name)), secret)
			}
			if exists(filepath.Join(a.root, "missing")) {
				t.Errorf("%s at %s: the file that rules deny is there", attempt.name, level)
			}
		}
	}
	if r := a.runIn(t, proto.LevelOff, a.root, "bash", "cat .env secrets/key"); r.Stdout != secret+secret {
		t.Errorf("at off commands read what rules deny: %+v", r)
	}

	if a.available(t, levelLandlock) { // it cannot hide files of the root
		_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "cat .env", Sandbox: a.at(levelLandlock), Root: a.root})
		zinotest.Error(t, err, proto.ErrUnavailable, "which code must not read, and without namespaces that cannot be hidden")
	}
}

// TestDeniedRoot: where rules deny more than can be hidden, commands do not run, or their
// result says so.
func TestDeniedRoot(t *testing.T) {
	a := newHarness(t, nil)
	a.withRules(t, denyRule(`"read"`, "/**"))
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "true", Sandbox: a.at(level), Root: a.root})
		zinotest.Error(t, err, proto.ErrUnavailable, "commands cannot work in "+a.root)
	})
	a.withRules(t, "[[rule]]\naction = \"allow\"\npath = [\"**\"]\n"+denyRule(`"read"`, "/**"))
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		r := a.run(t, level, "true")
		if !strings.Contains(r.Stderr, "/**: commands need directories below /") || !slices.Contains(r.Confinement.Unlimited, "rules") {
			t.Errorf("%+v", r)
		}
		req := call("bash", a.root, in{"command": "true"})
		req.Sandbox, req.SessionID = a.at(level), "s1"
		got, err := a.call(t.Context(), req, nil)
		if err != nil || !strings.Contains(string(got.Result), "/**: commands need directories below /") || !slices.Contains(got.Confinement.Unlimited, "rules") {
			t.Errorf("a job: %s, %+v, %v", got.Result, got.Confinement, err)
		}
	})
}
