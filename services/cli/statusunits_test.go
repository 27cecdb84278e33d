package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// shown returns the output of systemctl show for a service and its socket.
func shown(name, active, sub, result, socket string) string {
	return "Result=" + result + "\nUser=zino-" + name + "\nExecStart={ path=/usr/bin/zino-" + name + " ; argv[]=/usr/bin/zino-" + name +
		" --config /etc/zino/ZINO.toml --callers zino-agr,group:zino ; ignore_errors=no ; start_time=[n/a] ; pid=0 }\nId=zino-" + name +
		".service\nLoadState=loaded\nActiveState=" + active + "\nSubState=" + sub + "\n\n" +
		"Id=zino-" + name + ".socket\nLoadState=loaded\nActiveState=" + socket + "\nSubState=listening\n\n"
}

// pretend installs a fake systemctl that prints text for one scope.
func (w world) pretend(t *testing.T, user bool, text string) (path string) {
	t.Helper()
	zinotest.Write(t, filepath.Join(w.cwd, "units"), text)
	other := map[bool]string{true: "!=", false: "="}[user]
	script := "#!/bin/sh\ntest \"$1\" " + other + " --user && exit 1\nexec cat " + w.cwd + "/units\n"
	zinotest.Must(t, os.WriteFile(filepath.Join(w.cwd, "systemctl"), []byte(script), 0o700))
	return "PATH=" + w.cwd + ":" + os.Getenv("PATH")
}

// TestStatusUnits checks the states that systemd reports, and that idle services are
// not started.
func TestStatusUnits(t *testing.T) {
	t.Parallel()
	for name, user := range map[string]bool{"the user's": true, "the host's": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			dir := filepath.Join(w.runtime, "zino")
			if !user {
				dir = filepath.Join(w.cwd, "run")
			}
			zinotest.Must(t, os.Mkdir(dir, 0o700))
			var text strings.Builder
			for name, state := range map[string]string{
				"daemon": "inactive dead success", "sys": "inactive dead success", "ctx": "deactivating stop-sigterm success", "mem": "active running success",
				"agr": "activating start success", "rtr": "failed failed watchdog", "exc": "activating auto-restart core-dump",
			} {
				words := strings.Fields(state)
				text.WriteString(shown(name, words[0], words[1], words[2], "active"))
				if name == "mem" {
					serveAs(t, name, filepath.Join(dir, name+".sock"), "a problem")
				} else {
					zinotest.Untouched(t, filepath.Join(dir, name+".sock"))
				}
			}
			cmd := with(w.command("status"), w.pretend(t, user, text.String()), "CLI_TEST_HOST="+dir+"/daemon.sock")
			if !user {
				cmd.Args = append(cmd.Args, "--config", w.hostConfig(t, dir))
			}
			status, out, stderr := run(t, cmd, "")
			if status != 1 || stderr != "3 of 7 services are up.\n" {
				t.Errorf("status %d, stderr %q", status, stderr)
			}
			journal := "journalctl --user -u"
			if !user {
				journal = "journalctl -u"
			}
			for _, want := range []string{
				`(?m)^daemon +idle +- +- +` + dir + `/daemon.sock +0$`,
				`(?m)^sys +idle +- +- `,
				`(?m)^ctx +stopping +- +- `,
				`(?m)^mem +up +` + regexp.QuoteMeta(rpc.Build) + ` +\d+s +\S+ +1$`,
				`(?m)^agr +starting +- +- +\S+ +0$`,
				`(?m)^rtr +failed +- +- +\S+ +1$`,
				`(?m)^exc +restarting +- +- +\S+ +1$`,
				`(?m)^rtr: the last run ended with watchdog; see: ` + journal + ` zino-rtr$`,
				`(?m)^exc: the last run ended with core-dump; see: ` + journal + ` zino-exc$`,
				`(?m)^mem: a problem$`,
				`(?m)^SERVICE +MAY BE CALLED BY$`,
				`(?m)^daemon +root, zino-daemon, zino-agr, group zino$`,
			} {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("no line %s in:\n%s", want, out)
				}
			}
		})
	}
}

// hostConfig is a configuration whose sockets are in dir.
func (w world) hostConfig(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range config.Services {
		text.WriteString("[" + name + "]\nsocket = \"" + dir + "/" + name + ".sock\"\n")
	}
	file := filepath.Join(w.cwd, "host.toml")
	zinotest.Write(t, file, text.String())
	return file
}

// TestStatusIdle checks that idle services give status 0.
func TestStatusIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var text strings.Builder
	for _, name := range config.Services {
		text.WriteString(shown(name, "inactive", "dead", "success", "active"))
	}
	status, out, stderr := run(t, with(w.command("status"), w.pretend(t, true, text.String())), "")
	if status != 0 || stderr != "" || strings.Count(out, " idle ") != 7 {
		t.Errorf("status %d, stderr %q, printed:\n%s", status, stderr, out)
	}
}

// TestStatusUnitsStopped checks that services are asked on their sockets if their units
// are stopped, as with zino up.
func TestStatusUnitsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.runtime, "zino")
	zinotest.Must(t, os.Mkdir(dir, 0o700))
	var text strings.Builder
	for _, name := range config.Services {
		text.WriteString(shown(name, "inactive", "dead", "success", "inactive"))
		rpctest.New(t, name, filepath.Join(dir, name+".sock"), func(s *rpc.Server) {
			s.OnStats(func(stats *proto.Stats) { stats.Info = map[string]string{"callers": "root, ada"} })
		})
	}
	status, out, stderr := run(t, with(w.command("status"), w.pretend(t, true, text.String())), "")
	if status != 0 || stderr != "" || strings.Count(out, " up ") != 7 || !strings.Contains(out, "\n\nAll may be called by: root, ada\n\n") {
		t.Errorf("status %d, stderr %q, printed:\n%s", status, stderr, out)
	}
}
