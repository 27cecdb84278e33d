package constellation_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/constellation"
	"zino/services/exc"
)

func TestMain(m *testing.M) {
	exc.Supervise()
	os.Exit(m.Run())
}

// deadline ends a test that waits for an answer which never comes.
const deadline = 20 * time.Second

// files are what the constellation under test finds in its directory.
var files = map[string]string{
	"SYSTEM.md":        "You are Zino. Soft: %%SOFT_MEMORIES%%\nTools:\n%%TOOL_LIST%%",
	"tools/bash.json":  `{"meta":{"executor":"bash","file_extension":".sh"}}`,
	"skills/bash.json": `{"interpreter":[{"role":"system","content":"interpret"}],"fabricator":[{"role":"user","content":"say hello"},{"role":"assistant","content":"echo hello"}]}`,
}

// newConfig returns a configuration whose files and sockets are in a short
// directory of the test's own, with the provider "offline".
func newConfig(t testing.TB) *config.Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("RUNTIME_DIRECTORY", dir) // for the code that exc runs
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := []byte("provider = \"offline\"\n")
	for _, name := range config.Services {
		text = fmt.Appendf(text, "[%s]\nsocket = %q\n", name, name+".sock")
	}
	cfg, err := config.Parse(text, "ZINO.toml", dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start starts all services for a test.
func start(t testing.TB) *config.Config {
	t.Helper()
	cfg := newConfig(t)
	c, err := constellation.Start(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return cfg
}

// dial connects for a test that speaks bytes.
func dial(t testing.TB, path string) *net.UnixConn {
	t.Helper()
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	return nc.(*net.UnixConn)
}

// frame is written without the help of pkg/wire: another language would have to.
func frame(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// receive reads one packet; io.EOF is the end between two.
func receive(nc net.Conn) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(nc, body); err != nil {
		return "", err
	}
	return string(body), nil
}

// ask sends one packet and returns those of the answer up to the terminal one.
func ask(t testing.TB, path, payload string) (packets []string) {
	t.Helper()
	nc := dial(t, path)
	if _, err := nc.Write(frame(payload)); err != nil {
		t.Fatal(err)
	}
	for {
		packet, err := receive(nc)
		if err != nil {
			t.Fatalf("%s: after %d packets: %v", payload, len(packets), err)
		}
		if packets = append(packets, packet); !between(packet) {
			return packets
		}
	}
}

// between reports whether a packet stands before the terminal one: a chunk, or
// an event of a turn.
func between(packet string) bool {
	is := func(typ string) bool { return strings.HasPrefix(packet, `{"type":"`+typ+`"`) }
	return is("chunk") || slices.ContainsFunc(proto.Events(), func(e proto.Event) bool { return is(e.Type) })
}
