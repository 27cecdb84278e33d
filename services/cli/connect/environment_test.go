package connect

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestWithEnvironment checks that only the user's own daemon gets the environment,
// without secrets; the host's and one started for the run do not.
func TestWithEnvironment(t *testing.T) {
	t.Setenv("FOO", "bar")
	t.Setenv("DB_PW", "hidden")
	t.Setenv("PASSED_TOKEN", "passed")
	t.Setenv("BINARY", "\xff")
	defer syscall.Umask(syscall.Umask(0o027))
	socket := filepath.Join(zinotest.Dir(t), "daemon.sock")
	zinotest.Listen(t, socket)
	d := At(Place{Socket: socket})
	d.passEnv = []string{"PASSED_TOKEN"}
	got := d.WithEnvironment(proto.Chat{Message: "hi"})
	_, secret := got.Env["DB_PW"]
	_, binary := got.Env["BINARY"]
	wd, err := os.Getwd()
	if err == nil {
		wd, err = filepath.EvalSymlinks(wd)
	}
	if err != nil || got.Env["FOO"] != "bar" || got.Env["PASSED_TOKEN"] != "passed" || secret || binary || got.Cwd != wd || got.Umask == nil || *got.Umask != 0o027 {
		t.Errorf("got %+v, %v", got, err)
	}
	before := HostSocket
	defer func() { HostSocket = before }()
	HostSocket = socket
	if got := d.WithEnvironment(proto.Chat{}); got.Env != nil || got.Cwd != "" || got.Umask != nil {
		t.Errorf("the host's daemon gets %+v", got)
	}
	HostSocket, d.private = before, &private{}
	if got := d.WithEnvironment(proto.Chat{}); got.Env != nil {
		t.Errorf("a private daemon gets %+v", got)
	}
}
