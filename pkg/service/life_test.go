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
	"zino/proto"
)

// TestDrain stops a service during a request: that one is answered, no other
// is taken.
func TestDrain(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			h := holdOne(t, c.socket)
			c.signal(signal)
			until(t, "new connections are refused", func() bool {
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
			if err := <-h.answer; err != nil {
				t.Errorf("the request in flight: %v", err)
			}
			if status := c.status(); status != 0 {
				t.Errorf("status %d, want 0: %s", status, c.said)
			}
			if _, err := os.Lstat(c.socket); !os.IsNotExist(err) {
				t.Errorf("the socket's file is still there: %v", err)
			}
		})
	}
}

// TestSecondSignal cancels what is in flight: it gets its answer, and what it
// has begun is put away.
func TestSecondSignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			h := holdOne(t, c.socket)
			c.signal(signal)
			until(t, "the drain has begun", func() bool { _, err := os.Lstat(c.socket); return err != nil })
			c.signal(signal)
			if err := <-h.answer; !errors.Is(err, proto.ErrCanceled) {
				t.Errorf("the request in flight: %v, want one that was cancelled", err)
			}
			if status := c.status(); status != 0 {
				t.Errorf("status %d, want 0: %s", status, c.said)
			}
		})
	}
}

// TestThirdSignal kills, whatever a request that was cancelled still does.
func TestThirdSignal(t *testing.T) {
	c := serve(t)
	h := holdWith(t, c.socket, holdRequest{Deaf: true})
	c.signal(syscall.SIGTERM)
	until(t, "the drain has begun", func() bool { _, err := os.Lstat(c.socket); return err != nil })
	c.signal(syscall.SIGINT)
	c.says("second signal")
	c.signal(syscall.SIGTERM)
	if status := c.status(); status != -1 {
		t.Errorf("status %d, want the signal's death", status)
	}
	if err := <-h.answer; err == nil {
		t.Error("the request in flight was answered")
	}
}

// TestKilled starts again where a killed service left its socket.
func TestKilled(t *testing.T) {
	c := serve(t)
	c.signal(syscall.SIGKILL)
	c.status()
	again := command(t, c.Dir, socketOnly).start().listening()
	if err := call(again.socket, holdRequest{}); err != nil {
		t.Error(err)
	}
}

// TestReload changes the log's level by SIGHUP, which harms no request.
func TestReload(t *testing.T) {
	c := serve(t)
	file := filepath.Join(c.Dir, "ZINO.toml")
	h := holdOne(t, c.socket)

	rewrite(t, file, "[mem\n")
	c.signal(syscall.SIGHUP)
	c.says("the configuration is unchanged")
	rewrite(t, file, socketOnly+"[logging]\nlevel = \"DEBUG\"\n")
	c.signal(syscall.SIGHUP)
	c.says("reloaded")
	client := &rpc.Client{Service: "mem", Path: c.socket}
	defer client.Close()
	if _, err := rpc.Call(t.Context(), client, proto.GetStats, proto.StatsRequest{}); err != nil {
		t.Fatal(err)
	}
	c.says("level=DEBUG")

	h.gate.Close()
	if err := <-h.answer; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	c.signal(syscall.SIGTERM)
	if status := c.status(); status != 0 {
		t.Errorf("status %d: %s", status, c.said)
	}
}

// TestReloadEnvironment holds that the variable stays stronger than the file.
func TestReloadEnvironment(t *testing.T) {
	c := command(t, shortDir(t), socketOnly)
	c.Env = append(c.Env, "ZINO_LOG_LEVEL=info")
	c.start().listening()
	rewrite(t, filepath.Join(c.Dir, "ZINO.toml"), socketOnly+"[logging]\nlevel = \"ERROR\"\n")
	c.signal(syscall.SIGHUP)
	c.says("reloaded")
	c.signal(syscall.SIGTERM)
	c.says("stopped")
}

func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLevel holds the order: environment, configuration, INFO.
func TestLevel(t *testing.T) {
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
				t.Errorf("%s is not wanted: %s", test.hidden, &text)
			}
			if !strings.Contains(text.String(), "service=mem") || !strings.Contains(text.String(), "time=") {
				t.Errorf("the name or the time is missing: %s", &text)
			}
		})
	}
}

// TestWarnings logs what is odd about configuration and environment.
func TestWarnings(t *testing.T) {
	c := command(t, shortDir(t), socketOnly+"[rtr]\nnonsense = 1\n")
	c.Env = append(c.Env, "ZINO_LOG_LEVEL=LOUD")
	c.start().listening()
	c.says(`ZINO.toml:4:1: unknown key \"rtr.nonsense\"`)
	c.says("ignored ZINO_LOG_LEVEL")
	if n := strings.Count(c.said.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings, want 2: %s", n, c.said)
	}
}
