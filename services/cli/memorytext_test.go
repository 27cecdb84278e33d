package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/wire"
	"zino/proto"
)

func TestMemoryTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "-", "2026-11-21": "2026-11-21", "then\x1b": "then\x1b"} {
		if got := localTime(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	m := newFakeMem(t, "a")
	for zone, want := range map[string]string{"UTC": "2026-11-21 14:03", "Asia/Tokyo": "2026-11-21 23:03", "America/Los_Angeles": "2026-11-21 06:03"} {
		cmd := newWorld(t).command("--socket", m.socket, "memory", "list")
		cmd.Env = append(cmd.Env, "TZ="+zone)
		if _, out, said := run(t, cmd, ""); !strings.Contains(out, want) {
			t.Errorf("%s: printed %q, said %q, want %s", zone, out, said, want)
		}
	}
}

func TestMemoryContents(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`[]`: "", ` [ {"role":"a","content":"b\n"} , {"content":"c","role":"d","x":[{}]} ] `: "b\n c",
		`[{"role":"a"}]`:              `(cannot be read: messages[0]: missing field "content")`,
		`[{"role":1,"content":""}]`:   `(cannot be read: messages[0]: field "role": expected a string, found a number)`,
		`{}`:                          "(cannot be read: messages: expected a list, found an object)",
		`[{"role":"","content":null}`: "(cannot be read: messages: malformed JSON)",
	} {
		if got := contents(proto.Raw(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// TestPrintRaw: JSON stays what it says, in one line that no terminal acts on.
func TestPrintRaw(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\"a\":\r\n[ 1,\t2 ]}":              `{"a":[1,2]}`,
		`{"a":"<é\n\u001b>"}`:                `{"a":"<é\n\u001b>"}`,
		"\"\u009b\u2028\u202e\u061c\u007f\"": `"\u009b\u2028\u202e\u061c\u007f"`,
	} {
		var out strings.Builder
		if err := printRaw(&out, []byte(text)); err != nil || out.String() != want+"\n" || !wire.Valid([]byte(out.String())) {
			t.Errorf("%q: %q, %v; want %q", text, out.String(), err, want)
		}
	}
	var out strings.Builder
	if err := printRaw(&out, []byte("{\n")); err == nil || out.Len() > 0 {
		t.Errorf("half an object: %q, %v", out.String(), err)
	}
}

// TestMemoryFull tells of output that is lost, and leaves no half of a file.
func TestMemoryFull(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a")
	m.with(func() { m.histories["c"], m.soft = `[{"role":"user","content":"a"}]`, "soft" })
	for _, args := range []string{"memory list", "memory list --json", "memory show 0", "memory search a", "memory export", "memory soft", "channels list", "channels show c"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		cmd := newWorld(t).command(append([]string{"--socket", m.socket}, strings.Fields(args)...)...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = full, &said
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "no space left on device") {
			t.Errorf("%s: %v, said %q", args, err, &said)
		}
	}
}

// TestMemoryAddInterrupted ends while it waits for a text, and stores nothing.
func TestMemoryAddInterrupted(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	cmd := newWorld(t).command("--socket", m.socket, "memory", "add", "-")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	// A pipe does not hold that much: when it is written, somebody reads.
	if _, err := in.Write(bytes.Repeat([]byte("half a text "), 20_000)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitInterrupted || len(m.texts()) > 0 {
		t.Errorf("%v, stored %q", err, m.texts())
	}
}

// TestMemoryEndless ends with a mem whose pages do not end.
func TestMemoryEndless(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a", "b")
	d := at(place{socket: m.socket})
	defer d.close()
	m.with(func() { m.endless = true })
	n := 0
	err := memoryPages(context.Background(), d, proto.ListHard{}, 0, func([]proto.HardItem) (bool, error) { n++; return false, nil })
	if err == nil || !strings.Contains(err.Error(), "does not end") || n != 2 {
		t.Errorf("%d pages, %v", n, err)
	}
	stop := errors.New("enough")
	if err := memoryPages(context.Background(), d, proto.ListHard{}, 0, func([]proto.HardItem) (bool, error) { return false, stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
