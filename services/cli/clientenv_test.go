package cli

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"zino/proto"
)

// TestWithEnvironment: a daemon of the user's own gets the environment, without
// secrets; the host's and one that this run started do not.
func TestWithEnvironment(t *testing.T) {
	t.Setenv("FOO", "bar")
	t.Setenv("DB_PW", "hidden")
	t.Setenv("PASSED_TOKEN", "passed")
	t.Setenv("BINARY", "\xff")
	defer syscall.Umask(syscall.Umask(0o027))
	dir := shortDir(t)
	socket := filepath.Join(dir, "daemon.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := at(place{socket: socket})
	d.passEnv = []string{"PASSED_TOKEN"}
	got := d.withEnvironment(proto.Chat{Message: "hi"})
	_, secret := got.Env["DB_PW"]
	_, binary := got.Env["BINARY"]
	wd, err := os.Getwd()
	if err == nil {
		wd, err = filepath.EvalSymlinks(wd)
	}
	if err != nil || got.Env["FOO"] != "bar" || got.Env["PASSED_TOKEN"] != "passed" || secret || binary || got.Cwd != wd || got.Umask == nil || *got.Umask != 0o027 {
		t.Errorf("got %+v, %v", got, err)
	}
	before := hostSocket
	defer func() { hostSocket = before }()
	hostSocket = socket
	if got := d.withEnvironment(proto.Chat{}); got.Env != nil || got.Cwd != "" || got.Umask != nil {
		t.Errorf("the host's daemon gets %+v", got)
	}
	hostSocket, d.own = before, &brought{}
	if got := d.withEnvironment(proto.Chat{}); got.Env != nil {
		t.Errorf("a daemon that was started for the run gets %+v", got)
	}
}
