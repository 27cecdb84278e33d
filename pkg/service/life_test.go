package service

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestDrainAnswersRequestInFlight(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			h := holdOne(t, c.socket)
			c.Signal(signal)
			zinotest.Eventually(t, "new connections are refused", func() bool {
				nc, err := net.Dial("unix", c.socket)
				if err == nil {
					nc.Close()
				}
				return err != nil
			})
			if err := call(c.socket, holdRequest{}); !errors.Is(err, rpc.ErrConnect) {
				t.Errorf("a request after the signal: %v, want a refused connection", err)
			}
			h.gate.Close()
			zinotest.Must(t, <-h.answer)
			c.exits(0)
			if _, err := os.Lstat(c.socket); !os.IsNotExist(err) {
				t.Errorf("the socket's file is still there: %v", err)
			}
		})
	}
}

func TestSecondSignalCancelsRequests(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			h := holdOne(t, c.socket)
			c.Signal(signal)
			zinotest.Eventually(t, "the drain has begun", func() bool { _, err := os.Lstat(c.socket); return err != nil })
			c.Signal(signal)
			if err := <-h.answer; !errors.Is(err, proto.ErrCanceled) {
				t.Errorf("the request in flight: %v, want a cancelled one", err)
			}
			c.exits(0)
		})
	}
}

// TestSecondSignalAtOnce checks that a second signal counts while the first one is being
// handled. They differ, because the kernel merges pending signals that are equal.
func TestSecondSignalAtOnce(t *testing.T) {
	c := serve(t)
	h := holdOne(t, c.socket)
	c.Signal(syscall.SIGTERM)
	c.Signal(syscall.SIGINT)
	c.WaitFor("stopping now")
	if err := <-h.answer; !errors.Is(err, proto.ErrCanceled) {
		t.Errorf("the request in flight: %v, want a cancelled one", err)
	}
	c.exits(0)
}

func TestThirdSignalKills(t *testing.T) {
	c := serve(t)
	h := holdWith(t, c.socket, holdRequest{Deaf: true})
	c.Signal(syscall.SIGTERM)
	zinotest.Eventually(t, "the drain has begun", func() bool { _, err := os.Lstat(c.socket); return err != nil })
	c.Signal(syscall.SIGINT)
	c.WaitFor("stopping now")
	c.Signal(syscall.SIGTERM)
	c.exits(-1)
	if err := <-h.answer; err == nil {
		t.Error("the request in flight was answered")
	}
}

func TestStartAfterSIGKILL(t *testing.T) {
	c := serve(t)
	c.Signal(syscall.SIGKILL)
	c.Exit()
	again := command(t, c.Dir, socketOnly).start().listening()
	zinotest.Must(t, call(again.socket, holdRequest{}))
}

func TestSIGHUPReloadsLogLevel(t *testing.T) {
	c := serve(t)
	file := filepath.Join(c.Dir, "ZINO.toml")
	h := holdOne(t, c.socket)

	zinotest.Write(t, file, "[mem\n")
	c.Signal(syscall.SIGHUP)
	c.WaitFor("the configuration is unchanged")
	zinotest.Write(t, file, socketOnly+"[logging]\nlevel = \"DEBUG\"\n")
	c.Signal(syscall.SIGHUP)
	c.WaitFor("reloaded")
	client := &rpc.Client{Service: "mem", Path: c.socket}
	defer client.Close()
	if _, err := rpc.Call(t.Context(), client, proto.GetStats, proto.StatsRequest{}); err != nil {
		t.Fatal(err)
	}
	c.WaitFor("level=DEBUG")

	h.gate.Close()
	zinotest.Must(t, <-h.answer)
	c.Signal(syscall.SIGTERM)
	c.exits(0)
}

func TestReloadKeepsLevelOfEnvironment(t *testing.T) {
	c := command(t, zinotest.Dir(t), socketOnly)
	c.Env = append(c.Env, "ZINO_LOG_LEVEL=info")
	c.start().listening()
	zinotest.Write(t, filepath.Join(c.Dir, "ZINO.toml"), socketOnly+"[logging]\nlevel = \"ERROR\"\n")
	c.Signal(syscall.SIGHUP)
	c.WaitFor("reloaded")
	c.Signal(syscall.SIGTERM)
	c.WaitFor("stopped")
}

func TestLevelOrder(t *testing.T) {
	for _, test := range []struct{ env, configured, shown, hidden string }{
		{"", "", "INFO", "DEBUG"},
		{"", "WARNING", "WARN", "INFO"},
		{"", "debug", "DEBUG", ""},
		{"ERROR", "DEBUG", "ERROR", "WARN"},
		{" Debug ", "ERROR", "DEBUG", ""},
		{"LOUD", "ERROR", "ERROR", "WARN"},
	} {
		t.Run(test.env+"/"+test.configured, func(t *testing.T) {
			t.Setenv("ZINO_LOG_LEVEL", test.env)
			var text strings.Builder
			log := Logger(&text, "mem", test.configured)
			log.Debug("said")
			log.Info("said")
			log.Warn("said")
			log.Error("said")
			if !strings.Contains(text.String(), "level="+test.shown) {
				t.Errorf("%s is missing: %s", test.shown, &text)
			}
			if test.hidden != "" && strings.Contains(text.String(), "level="+test.hidden) {
				t.Errorf("unexpected %s: %s", test.hidden, &text)
			}
			if !strings.Contains(text.String(), "service=mem") || !strings.Contains(text.String(), "time=") {
				t.Errorf("the name or the time is missing: %s", &text)
			}
		})
	}
}

func TestWarningsAreLogged(t *testing.T) {
	c := command(t, zinotest.Dir(t), socketOnly+"[rtr]\nnonsense = 1\n")
	c.Env = append(c.Env, "ZINO_LOG_LEVEL=LOUD")
	c.start().listening()
	c.WaitFor(`ZINO.toml:4:1: unknown key \"rtr.nonsense\"`)
	c.WaitFor("ignored ZINO_LOG_LEVEL")
	if n := strings.Count(c.output(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings, want 2: %s", n, c.output())
	}
}
