package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/message"
	"zino/proto"
	"zino/services/cli/render"
)

// TestMemoryExport writes what an import into an empty store makes the same of.
func TestMemoryExport(t *testing.T) {
	t.Parallel()
	m, other := newFakeMem(t), newFakeMem(t)
	for i := range 1100 {
		req := proto.StoreHard{Messages: message.Close(message.Append(nil, "user", fmt.Sprintf("text %d\n\u202e\x1b", i)))}
		if i%3 == 0 {
			req.Tag, req.ChannelID, req.SessionID = "häuser", "c/..", "s"
		}
		m.add(req)
	}
	m.with(func() {
		clear(m.items[400:1050]) // more than a page of empty places
		m.items[0], m.most = nil, 120
	})
	status, out, said := m.zino(t, "", "memory", "export")
	if status != 0 || said != "" || strings.Count(out, "\n") != 449 || strings.Contains(out, "\u202e") {
		t.Fatalf("status %d, said %q, %d lines", status, said, strings.Count(out, "\n"))
	}
	other.expect(t, out, []string{"memory", "import", "-"}, 0, "", "449 added, 0 known already, 0 refused\n")
	stored := slices.DeleteFunc(slices.Clone(m.items), func(item *proto.HardItem) bool { return item == nil })
	for n, item := range stored {
		got := other.item(n)
		if render.MessageTexts(got.Messages) != render.MessageTexts(item.Messages) || got.Tag != item.Tag || got.ChannelID != item.ChannelID || got.SessionID != item.SessionID {
			t.Fatalf("memory %d: %+v, want %+v", n, got, item)
		}
	}
	other.expect(t, out, []string{"memory", "import", "-"}, 0, "", "0 added, 449 known already, 0 refused\n")
	if n := len(other.texts()); n != len(stored) {
		t.Errorf("%d memories, want %d", n, len(stored))
	}
}

func TestMemoryExportFile(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a", "b")
	path := filepath.Join(shortDir(t), "out.jsonl")
	m.expect(t, "", []string{"memory", "export", path}, 0, "", "2 memories are in "+path+"\n")
	const want = `{"id":0,"messages":[{"role":"user","content":"a"}],"created":"2026-11-21T14:03:00Z"}` + "\n" +
		`{"id":1,"messages":[{"role":"user","content":"b"}],"created":"2026-11-21T14:03:01Z"}` + "\n"
	data, err := os.ReadFile(path)
	if err != nil || string(data) != want {
		t.Errorf("it holds %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	m.expect(t, "", []string{"memory", "export", path}, 1, "", "Error [internal]: "+path+" exists already and is not overwritten: name another file\n")
	m.expect(t, "", []string{"memory", "export", "-"}, 0, want, "")
	newFakeMem(t).expect(t, "", []string{"memory", "export"}, 0, "", "")

	status, _, said := run(t, newWorld(t).command("--socket", "none", "memory", "export", path+"2"), "")
	if _, err := os.Stat(path + "2"); status != 1 || !strings.Contains(said, "Could not connect") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("status %d, said %q, the file: %v", status, said, err)
	}
}

// TestMemoryImport refuses lines one by one, and stores the others.
func TestMemoryImport(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "known")
	const lines = `{"messages":[{"role":"user","content":"known"}]}
{"messages":[{"role":"user","content":"new"}],"tag":"t","id":7,"score":1}

{"messages":[{"role":"user","content":"new"}],"tag":"t"}
{"messages":[]}
{"messages":null}
{"tag":"x"}
[1]
{"messages":[{"role":"user","content":null}]}
{"messages":[{"role":"user","content":"x"}],"tag":5}
{"messages":"x"}
{"messages":[{"role":"user"
{"messages":[{"role":"user","content":"last"}]}`
	const said = `line 5: there are no messages in it
line 6: missing field "messages"
line 7: missing field "messages"
line 8: expected a JSON object
line 9: messages[0]: missing field "content"
line 10: field "tag": expected a string, found a number
line 11: messages: expected a list, found a string
line 12: malformed JSON
2 added, 2 known already, 8 refused
`
	path := filepath.Join(shortDir(t), "in.jsonl")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	m.expect(t, "", []string{"memory", "import", path}, 1, "", said)
	if want := []string{"known", "new", "last"}; !slices.Equal(m.texts(), want) {
		t.Errorf("stored %q, want %q", m.texts(), want)
	}
	m.expect(t, "", []string{"memory", "import", path + "2"}, 1, "", "Error [internal]: open "+path+"2: no such file or directory\n")
}

// TestMemoryImportStops at what no other line would survive either.
func TestMemoryImportStops(t *testing.T) {
	t.Parallel()
	const lines = `{"messages":[{"role":"user","content":"a"}]}` + "\n" + `{"messages":[{"role":"user","content":"b"}]}` + "\n"
	m := newFakeMem(t)
	m.with(func() { m.fails = &proto.Error{Code: proto.CodeInternal, Message: "the disk is full"} })
	m.expect(t, lines, []string{"memory", "import", "-"}, 1, "",
		"0 added, 0 known already, 0 refused\nError [internal]: the import stopped at line 1: the disk is full; it can be repeated: what is stored is not stored twice\n")
	m.with(func() { m.fails = &proto.Error{Code: proto.CodeInvalid, Message: "not\nthis"} })
	m.expect(t, lines, []string{"memory", "import", "-"}, 1, "", "line 1: not this\n1 added, 0 known already, 1 refused\n")
}

// TestMemoryImportInterrupted ends while it waits for a line.
func TestMemoryImportInterrupted(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	cmd := newWorld(t).command("--socket", m.socket, "memory", "import", "-")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if _, err := io.WriteString(in, `{"messages":[{"role":"user","content":"a"}]}`+"\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the line is stored", func() bool { return len(m.texts()) == 1 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	// Whether mem's answer to the line was heard before the signal is chance.
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("%v, said %q", err, &said)
	}
	if added := strings.TrimLeft(said.String(), "01"); added != " added, 0 known already, 0 refused\n^C Interrupted.\n" {
		t.Errorf("said %q", &said)
	}
}
