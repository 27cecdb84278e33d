package cli

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestMemoryTimes(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a")
	for zone, want := range map[string]string{"UTC": "2026-11-21 14:03", "Asia/Tokyo": "2026-11-21 23:03", "America/Los_Angeles": "2026-11-21 06:03"} {
		cmd := newWorld(t).command("--socket", m.socket, "memory", "list")
		cmd.Env = append(cmd.Env, "TZ="+zone)
		if _, out, said := run(t, cmd, ""); !strings.Contains(out, want) {
			t.Errorf("%s: printed %q, said %q, want %s", zone, out, said, want)
		}
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
