package status

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
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

// TestDenied checks that a service that denies the caller is not reported as down.
func TestDenied(t *testing.T) {
	socket, _ := rpctest.New(t, "mem", filepath.Join(zinotest.Dir(t), "s"), func(s *rpc.Server) { s.Only(rpc.Callers{Text: "root"}) })
	r := Report{Service: "mem", Socket: socket}.AskSocket(t.Context())
	if r.State != "denied" || len(r.Problems) != 1 || !strings.HasSuffix(r.Problems[0], "may not call mem on "+socket+". Those who may: root") {
		t.Errorf("%+v", r)
	}
}

// TestInspectThroughDaemon checks that a caller other than root asks the host's daemon
// about other services, and connects to none if the daemon does not run.
func TestInspectThroughDaemon(t *testing.T) {
	dir := zinotest.Dir(t)
	cfg := config.Default()
	cfg.Daemon.Socket, cfg.Mem.Socket, cfg.Agr.Socket = dir+"/daemon.sock", dir+"/mem.sock", dir+"/agr.sock"
	var asked []string
	forward := func(_ context.Context, req proto.Forward, out *rpc.Out) error {
		typ, err := wire.RequestType(req.Request)
		asked = append(asked, req.Service+" "+typ)
		switch {
		case err != nil || req.Service != "mem":
			return &proto.Error{Code: proto.CodeUnavailable, Message: "Could not connect to agr: it is not there"}
		case typ == "ping":
			return out.Event("pong", proto.Pong{Service: "mem", Version: "v9", UptimeS: 7})
		}
		return out.Event("stats", proto.Stats{Problems: []string{"one"}, Info: map[string]string{"callers": "root, zino-mem"}})
	}
	rpctest.New(t, "daemon", cfg.Daemon.Socket, func(s *rpc.Server) { rpc.HandleRelay(s, proto.DaemonForward, forward) })
	zinotest.Untouched(t, cfg.Mem.Socket)
	zinotest.Untouched(t, cfg.Agr.Socket)

	u := units{parseUnits(shown("mem", "active", "running", "success", "active") + shown("agr", "active", "running", "success", "active")), false, 1000}
	if r := u.inspect(t.Context(), "mem", cfg); r.State != "up" || r.Version != "" || r.Callers != "root, zino-mem, zino-agr, group zino" || len(asked) > 0 {
		t.Errorf("without the daemon: %+v, asked %q", r, asked)
	}
	maps.Copy(u.byName, parseUnits(shown("daemon", "active", "running", "success", "active")))
	if r := u.inspect(t.Context(), "mem", cfg); r.State != "up" || r.Version != "v9" || r.Callers != "root, zino-mem" || len(r.Problems) != 1 {
		t.Errorf("%+v", r)
	}
	if r := u.inspect(t.Context(), "agr", cfg); r.State != "silent" || len(r.Problems) != 1 || r.Problems[0] != "Could not connect to agr: it is not there" {
		t.Errorf("%+v", r)
	}
	if r := u.inspect(t.Context(), "daemon", cfg); r.State != "up" || r.Version != rpc.Build {
		t.Errorf("%+v", r)
	}
	if got := strings.Join(asked, ", "); got != "mem ping, mem stats, agr ping" {
		t.Errorf("asked %s", got)
	}
}

func TestParseUnits(t *testing.T) {
	got := parseUnits("LoadState=not-found\nId=zino-agr.service\nActiveState=inactive\n\n\n" + shown("mem", "active", "running", "success", "active") +
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
		if got := parseCallers(command); got != want {
			t.Errorf("callers in %q: %q", command, got)
		}
	}
	for u, want := range map[unit]string{
		{}:                                "",
		{callers: "a"}:                    "root, a",
		{callers: "a,group:b", user: "c"}: "root, c, a, group b",
		{callers: "a,b=embed+usage"}:      "root, a, b (embed, usage)",
		{callers: "a", user: "root"}:      "root, a",
	} {
		if got := u.describeCallers(); got != want {
			t.Errorf("%+v may be called by %q, want %q", u, got, want)
		}
	}
}

// FuzzReadUnits checks that each parsed unit has a name and a state of one word.
func FuzzReadUnits(f *testing.F) {
	f.Add(shown("mem", "active", "running", "success", "active"))
	f.Add("Id=\nLoadState=loaded\n\n\n\nId=x\r\nLoadState=loaded")
	f.Fuzz(func(t *testing.T, text string) {
		for name, u := range parseUnits(text) {
			if name == "" || u.state() == "" || strings.ContainsAny(u.state(), " \n") {
				t.Errorf("%q: %+v", name, u)
			}
			if text := u.describeCallers(); strings.Contains(text, "\n") != strings.Contains(u.user+u.callers, "\n") {
				t.Errorf("%+v may be called by %q", u, text)
			}
		}
	})
}
