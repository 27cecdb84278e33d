package cli

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// shown is what systemctl show prints of a service and its socket.
func shown(name, active, sub, result, socket string) string {
	return "Result=" + result + "\nUser=zino-" + name + "\nExecStart={ path=/usr/bin/zino-" + name + " ; argv[]=/usr/bin/zino-" + name +
		" --config /etc/zino/ZINO.toml --callers zino-agr,group:zino ; ignore_errors=no ; start_time=[n/a] ; pid=0 }\nId=zino-" + name +
		".service\nLoadState=loaded\nActiveState=" + active + "\nSubState=" + sub + "\n\n" +
		"Id=zino-" + name + ".socket\nLoadState=loaded\nActiveState=" + socket + "\nSubState=listening\n\n"
}

// pretend puts a systemctl into the world that prints text for one scope.
func (w world) pretend(t *testing.T, user bool, text string) (path string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.cwd, "units"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	other := map[bool]string{true: "!=", false: "="}[user]
	script := "#!/bin/sh\ntest \"$1\" " + other + " --user && exit 1\nexec cat " + w.cwd + "/units\n"
	if err := os.WriteFile(filepath.Join(w.cwd, "systemctl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + w.cwd + ":" + os.Getenv("PATH")
}

// untouched is a socket that nobody may connect to.
func untouched(t *testing.T, socket string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if nc, err := l.Accept(); err == nil {
			nc.Close()
			t.Errorf("somebody connected to %s, and would have started a service that is idle", socket)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// TestStatusUnits starts nothing that is idle, and tells what systemd knows.
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
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
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
					untouched(t, filepath.Join(dir, name+".sock"))
				}
			}
			cmd := with(w.command("status"), w.pretend(t, user, text.String()), "CLI_TEST_HOST="+dir+"/daemon.sock")
			if !user {
				cmd.Args = append(cmd.Args, "--config", w.hostConfig(t, dir))
			}
			status, out, said := run(t, cmd, "")
			if status != 1 || said != "3 of 7 services are up.\n" {
				t.Errorf("status %d, said %q", status, said)
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
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestStatusIdle is no failure.
func TestStatusIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var text strings.Builder
	for _, name := range config.Services {
		text.WriteString(shown(name, "inactive", "dead", "success", "active"))
	}
	status, out, said := run(t, with(w.command("status"), w.pretend(t, true, text.String())), "")
	if status != 0 || said != "" || strings.Count(out, " idle ") != 7 {
		t.Errorf("status %d, said %q, printed:\n%s", status, said, out)
	}
}

// TestStatusNotKept asks the sockets where systemd has the units and does not
// keep them, as where somebody runs zino up.
func TestStatusNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.runtime, "zino")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, name := range config.Services {
		text.WriteString(shown(name, "inactive", "dead", "success", "inactive"))
		serveFor(t, name, filepath.Join(dir, name+".sock"), "root, somebody")
	}
	status, out, said := run(t, with(w.command("status"), w.pretend(t, true, text.String())), "")
	if status != 0 || said != "" || strings.Count(out, " up ") != 7 || !strings.HasSuffix(out, "\n\nAll may be called by: root, somebody\n") {
		t.Errorf("status %d, said %q, printed:\n%s", status, said, out)
	}
}

// serveFor has a service say who may call it.
func serveFor(t *testing.T, name, socket, callers string) {
	t.Helper()
	s := rpc.NewServer(name, slog.New(slog.DiscardHandler))
	s.OnStats(func(stats *proto.Stats) { stats.Info = map[string]string{"callers": callers} })
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
}

// TestStatusDenied is told apart from a service that is not there.
func TestStatusDenied(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(newWorld(t).cwd, "s")
	s := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
	s.Only(rpc.Callers{Text: "root"})
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	r := inspect(t.Context(), "mem", socket)
	if r.state != "denied" || len(r.problems) != 1 || !strings.HasSuffix(r.problems[0], "may not call mem on "+socket+". Those who may: root") {
		t.Errorf("%+v", r)
	}
}

// TestStatusThroughDaemon has the host's daemon ask the others for who is not
// root, and asks nobody if that does not run.
func TestStatusThroughDaemon(t *testing.T) {
	t.Parallel()
	dir := newWorld(t).cwd
	cfg := config.Default()
	cfg.Daemon.Socket, cfg.Mem.Socket, cfg.Agr.Socket = dir+"/daemon.sock", dir+"/mem.sock", dir+"/agr.sock"
	s := rpc.NewServer("daemon", slog.New(slog.DiscardHandler))
	var asked []string
	rpc.HandleRelay(s, proto.DaemonForward, func(_ context.Context, req proto.Forward, out *rpc.Out) error {
		typ, err := wire.RequestType(req.Request)
		asked = append(asked, req.Service+" "+typ)
		switch {
		case err != nil || req.Service != "mem":
			return &proto.Error{Code: proto.CodeUnavailable, Message: "Could not connect to agr: it is not there"}
		case typ == "ping":
			return out.Event("pong", proto.Pong{Service: "mem", Version: "v9", UptimeS: 7})
		}
		return out.Event("stats", proto.Stats{Problems: []string{"one"}, Info: map[string]string{"callers": "root, zino-mem"}})
	})
	l, err := net.Listen("unix", cfg.Daemon.Socket)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	untouched(t, cfg.Mem.Socket)
	untouched(t, cfg.Agr.Socket)

	u := units{readUnits(shown("mem", "active", "running", "success", "active") + shown("agr", "active", "running", "success", "active")), false, 1000}
	if r := u.inspect(t.Context(), "mem", cfg); r.state != "up" || r.pong.Version != "" || r.callers != "root, zino-mem, zino-agr, group zino" || len(asked) > 0 {
		t.Errorf("without the daemon: %+v, asked %q", r, asked)
	}
	maps.Copy(u.byName, readUnits(shown("daemon", "active", "running", "success", "active")))
	if r := u.inspect(t.Context(), "mem", cfg); r.state != "up" || r.pong.Version != "v9" || r.callers != "root, zino-mem" || len(r.problems) != 1 {
		t.Errorf("%+v", r)
	}
	if r := u.inspect(t.Context(), "agr", cfg); r.state != "silent" || len(r.problems) != 1 || r.problems[0] != "Could not connect to agr: it is not there" {
		t.Errorf("%+v", r)
	}
	if r := u.inspect(t.Context(), "daemon", cfg); r.state != "up" || r.pong.Version != rpc.Build {
		t.Errorf("%+v", r)
	}
	if got := strings.Join(asked, ", "); got != "mem ping, mem stats, agr ping" {
		t.Errorf("asked %s", got)
	}
}

// TestReadUnits reads what systemctl prints, whatever it prints.
func TestReadUnits(t *testing.T) {
	t.Parallel()
	got := readUnits("LoadState=not-found\nId=zino-agr.service\nActiveState=inactive\n\n\n" + shown("mem", "active", "running", "success", "active") +
		"Id=zino-x.service\nLoadState=loaded\nExecStart={ argv[]=/usr/bin/zino-x --callers=a,b ; }\nActiveState=failed\nnonsense\n")
	want := map[string]unit{
		"zino-mem.service": {"active", "running", "success", "zino-mem", "zino-agr,group:zino"},
		"zino-mem.socket":  {active: "active", sub: "listening"},
		"zino-x.service":   {active: "failed", callers: "a,b"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for command, want := range map[string]string{"": "", "--callers": "", "x --callers y z": "y", "--callers=": ""} {
		if got := callersIn(command); got != want {
			t.Errorf("callers in %q: %q", command, got)
		}
	}
	for u, want := range map[unit]string{
		{}:                                "",
		{callers: "a"}:                    "root, a",
		{callers: "a,group:b", user: "c"}: "root, c, a, group b",
		{callers: "a", user: "root"}:      "root, a",
	} {
		if got := u.mayCall(); got != want {
			t.Errorf("%+v may be called by %q, want %q", u, got, want)
		}
	}
}

// FuzzReadUnits: nothing that systemctl prints is taken for a unit without a
// name, and every unit has a state in one word.
func FuzzReadUnits(f *testing.F) {
	f.Add(shown("mem", "active", "running", "success", "active"))
	f.Add("Id=\nLoadState=loaded\n\n\n\nId=x\r\nLoadState=loaded")
	f.Fuzz(func(t *testing.T, text string) {
		for name, u := range readUnits(text) {
			if name == "" || u.state() == "" || strings.ContainsAny(u.state(), " \n") {
				t.Errorf("%q: %+v", name, u)
			}
			if text := u.mayCall(); strings.Contains(text, "\n") != strings.Contains(u.user+u.callers, "\n") {
				t.Errorf("%+v may be called by %q", u, text)
			}
		}
	})
}
