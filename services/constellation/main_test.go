package constellation_test

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/constellation"
	"zino/services/exc"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"zino-mcp-serve": serveMCP, "mcp-server": badServer})
	exc.Supervise()
	os.Exit(m.Run())
}

// files are the files of the constellation under test.
var files = map[string]string{
	"SYSTEM.md":        "You are Zino. Soft: %%SOFT_MEMORIES%%\nTools:\n%%TOOL_LIST%%",
	"tools/bash.json":  `{"meta":{"executor":"bash","file_extension":".sh"}}`,
	"skills/bash.json": `{"interpreter":[{"role":"system","content":"interpret"}],"fabricator":[{"role":"user","content":"say hello"},{"role":"assistant","content":"echo hello"}]}`,
}

// newConfig returns a configuration with the provider "offline", whose files and
// sockets are in a directory of the test.
func newConfig(t testing.TB) *config.Config {
	t.Helper()
	return configWith(t, `provider = "offline"`)
}

// configWith is newConfig with a configuration that begins with text.
func configWith(t testing.TB, begin string) *config.Config {
	t.Helper()
	dir := zinotest.Dir(t)
	t.Setenv("RUNTIME_DIRECTORY", dir) // for the code that exc runs
	zinotest.WriteFiles(t, dir, files)
	text := []byte(begin + "\n")
	for _, name := range config.Services {
		text = fmt.Appendf(text, "[%s]\nsocket = %q\n", name, name+".sock")
	}
	cfg, err := config.Parse(text, "ZINO.toml", dir, "")
	zinotest.Must(t, err)
	return cfg
}

// start starts all services for a test.
func start(t testing.TB, changes ...func(*config.Config)) *config.Config {
	t.Helper()
	cfg := newConfig(t)
	for _, change := range changes {
		change(cfg)
	}
	c, err := constellation.Start(cfg, slog.New(slog.DiscardHandler))
	zinotest.Must(t, err)
	t.Cleanup(func() { zinotest.Must(t, c.Close()) })
	return cfg
}

// ask sends one packet and returns the packets of the answer.
func ask(t testing.TB, path, payload string) (packets []string) {
	t.Helper()
	c := rpctest.Dial(t, path)
	c.Send(payload)
	for {
		packet := c.Receive()
		if packet == "" {
			t.Fatalf("%s: no terminal packet after %d packets", payload, len(packets))
		}
		if packets = append(packets, packet); !between(packet) {
			return packets
		}
		if rest, ok := strings.CutPrefix(packet, `{"type":"checkpoint"`); ok { // a proceed has the same fields
			zinotest.Equal(t, "the answer to proceed", lastOf(ask(t, path, `{"type":"proceed"`+rest)), `{"type":"ok"}`)
		}
	}
}

// between reports whether a packet comes before the terminal one: a chunk, or an
// event of a turn.
func between(packet string) bool {
	is := func(typ string) bool { return strings.HasPrefix(packet, `{"type":"`+typ+`"`) }
	if is(proto.TypeTools) && !strings.HasPrefix(packet, `{"type":"tools","mode"`) { // the answer of agr, not the offer in a turn
		return false
	}
	return is("chunk") || is(proto.TypeRedacted) || is(proto.TypePipeStarted) || is(proto.TypePipeOutput) || slices.ContainsFunc(slices.Concat(proto.Events(), proto.FollowEvents()), func(e proto.Event) bool { return is(e.Type) })
}
