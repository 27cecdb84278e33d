package cli

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/services/cli/render"
)

// TestOneShotErrors checks that errors are one line with status 1.
func TestOneShotErrors(t *testing.T) {
	f := newFake(t, "")
	for _, test := range []struct{ name, message, stderr string }{
		{"an error", "fail", "Error [internal]: this fails ^[[31m\n"},
		{"a blank message", "", "Error [usage]: Empty message.\n"},
		{"blanks", " \n ", "Error [usage]: Empty message.\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, newWorld(t).command("--socket", f.socket, "-s", test.message), "", 1, "", test.stderr)
		})
	}
	expect(t, newWorld(t).command("--socket", f.socket, "-s", "nothing"), "", 0, "\n", render.EmptyAnswer+"\n")
}

// TestOneRequest checks that a socket that the user named gets only the request itself,
// on one connection.
func TestOneRequest(t *testing.T) {
	for _, named := range []string{"--socket", "--config"} {
		t.Run(named, func(t *testing.T) {
			w := newWorld(t)
			l, err := net.Listen("unix", filepath.Join(w.cwd, "d"))
			zinotest.Must(t, err)
			defer l.Close()
			zinotest.Write(t, filepath.Join(w.cwd, "own.toml"), "[daemon]\nsocket = \"d\"\n")
			heard := make(chan string, 1)
			go func() {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				defer nc.Close()
				heard <- answerOnce(nc, `{"type":"response","content":"fine"}`)
			}()
			value := map[string]string{"--socket": "d", "--config": "own.toml"}[named]
			expect(t, w.command(named, value, "hello", "you"), "", 0, "fine\n", "")
			if got := <-heard; !strings.Contains(got, `"message":"hello you"`) {
				t.Errorf("heard %s", got)
			}
		})
	}
}

func answerOnce(nc net.Conn, reply string) string {
	nc.SetDeadline(time.Now().Add(zinotest.Timeout))
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return err.Error()
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(nc, body); err != nil {
		return err.Error()
	}
	nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...))
	return string(body)
}

// TestWhichDaemon checks that the user's daemon is preferred to the host's, which is
// used for plain messages only, and the warning about another version.
func TestWhichDaemon(t *testing.T) {
	w := newWorld(t)
	host := newFake(t, filepath.Join(w.runtime, "host.sock"))
	plain := func(want *fake) {
		t.Helper()
		before := len(want.messages())
		status, out, stderr := run(t, w.command("hello", "you"), "")
		if status != 0 || out != "echo: hello you\n" || stderr != "" || len(want.messages()) != before+1 {
			t.Errorf("status %d, stdout %q, stderr %q, heard %q", status, out, stderr, want.messages())
		}
	}
	plain(host)
	if status, _, stderr := run(t, w.command(), "hello\n"); status != 1 || !strings.Contains(stderr, "no model is connected") {
		t.Errorf("a chat: status %d, stderr %q; want an error, not the host's daemon", status, stderr)
	}
	zinotest.Must(t, os.Mkdir(filepath.Join(w.runtime, "zino"), 0o700))
	own := newFake(t, filepath.Join(w.runtime, "zino", "daemon.sock"))
	plain(own)
	if status, out, _ := run(t, w.command(), "hello\n"); status != 0 || out != "echo: hello\n" {
		t.Errorf("a chat: status %d, stdout %q", status, out)
	}

	cmd := w.command("hello", "you")
	cmd.Env = append(cmd.Env, "CLI_TEST_VERSION=v9")
	status, out, stderr := run(t, cmd, "")
	warning := "Warning: the daemon is version " + rpc.Build + " and zino is version v9: restart the services (zino up, or systemctl restart 'zino-*.service')\n"
	if status != 0 || out != "echo: hello you\n" || stderr != warning {
		t.Errorf("another version: status %d, stdout %q, stderr %q", status, out, stderr)
	}
	cmd = w.command("--socket", own.socket, "hello", "you")
	cmd.Env = append(cmd.Env, "CLI_TEST_VERSION=v9")
	if _, _, stderr := run(t, cmd, ""); stderr != "" {
		t.Errorf("a socket that was named: stderr %q", stderr)
	}
}

// TestDeniedByHost checks the advice for a user who may not use the host's daemon.
func TestDeniedByHost(t *testing.T) {
	w := newWorld(t)
	newFake(t, w.runtime+"/host.sock")
	zinotest.Must(t, os.Chmod(w.runtime+"/host.sock", 0))
	for _, args := range [][]string{{"--host", "hello", "you"}, {"--host", "memory", "list"}} {
		cmd := w.command(args...)
		if os.Getuid() == 0 { // the mode does not apply to root
			cmd = asNobody(t, w, cmd)
		}
		status, out, stderr := run(t, cmd, "")
		if status != 1 || out != "" || !strings.Contains(stderr, "permission denied; root and members of the group zino may connect: run `sudo usermod -aG zino ") {
			t.Errorf("%v: status %d, stdout %q, stderr %q", args, status, out, stderr)
		}
	}
}

// TestNoModel checks the advice for a plain message without a daemon and a model.
func TestNoModel(t *testing.T) {
	w := newWorld(t)
	status, _, stderr := run(t, w.command("hello", "you"), "")
	const want = "Error [internal]: no model is connected: run `zino auth set PROVIDER` or "
	if status != 1 || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

// TestNoServices checks that the error names the missing program and no files are left.
func TestNoServices(t *testing.T) {
	w := newWorld(t)
	cmd := w.command("hello", "you")
	cmd.Env = append(cmd.Env, "LLM_API_KEY=sk-secret")
	status, out, stderr := run(t, cmd, "")
	if status != 1 || out != "" || !strings.HasPrefix(stderr, "Error [internal]: cannot start the services: the service zino-daemon is missing: it belongs beside ") ||
		strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "sk-secret") {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
	}
	zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
}
