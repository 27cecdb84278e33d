package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/message"
	"zino/proto"
	"zino/services/cli/render"
)

func TestMemoryList(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "first", "second", "third")
	m.with(func() { m.items[1].Tag, m.items[2].Created = "house", "" })
	const rows = "ID  STORED            TAG    TEXT\n2   -                 -      third\n1   2026-11-21 14:03  house  second\n0   2026-11-21 14:03  -      first\n"
	m.expect(t, "", []string{"memory", "list"}, 0, rows, "")
	m.expect(t, "", []string{"memory", "list", "-n", "1", "--json"}, 0, `{"id":2,"messages":[{"role":"user","content":"third"}]}`+"\n", "")
	m.expect(t, "", []string{"memory", "list", "--tag", "house"}, 0, "ID  STORED            TAG    TEXT\n1   2026-11-21 14:03  house  second\n", "")
	m.expect(t, "", []string{"memory", "list", "--tag", "none"}, 0, "", "No memories.\n")
	m.expect(t, "", []string{"memory", "list", "--tag", "none", "--json"}, 0, "", "No memories.\n")
}

// TestMemoryListPages asks for all pages, and for smaller ones where the
// memories are long.
func TestMemoryListPages(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	var ids strings.Builder
	for i := range 1203 {
		m.add(proto.StoreHard{Messages: message.Close(message.Append(nil, "user", fmt.Sprint("text ", i)))})
		fmt.Fprintf(&ids, "%d ", 1202-i)
	}
	for _, most := range []int{1000, 200} {
		m.with(func() { m.most = most })
		_, out, said := m.zino(t, "", "memory", "list")
		var got strings.Builder
		for line := range strings.Lines(out) {
			if id, _, _ := strings.Cut(line, " "); id != "ID" {
				got.WriteString(id + " ")
			}
		}
		if got.String() != ids.String() || said != "" {
			t.Errorf("pages of %d: printed %.300q, said %q", most, out, said)
		}
		if _, out, _ := m.zino(t, "", "memory", "list", "--json", "-n", "700"); strings.Count(out, "\n") != 700 {
			t.Errorf("pages of %d: %d lines, want 700", most, strings.Count(out, "\n"))
		}
	}
}

// TestMemoryListHead ends without a word when nobody reads on.
func TestMemoryListHead(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	for i := range 2000 {
		m.add(proto.StoreHard{Messages: message.Close(message.Append(nil, "user", fmt.Sprint(i, strings.Repeat(" much text", 50))))})
	}
	cmd := newWorld(t).command("--socket", m.socket, "memory", "list", "--json")
	cmd.Args = append([]string{"sh", "-c", `"$@" | head -n 1`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	status, out, said := run(t, cmd, "")
	if status != 0 || strings.Count(out, "\n") != 1 || said != "" {
		t.Errorf("status %d, printed %.100q, said %q", status, out, said)
	}
}

// TestMemoryListTerminal cuts lines to the terminal's width.
func TestMemoryListTerminal(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, strings.Repeat("語", 100)+"end")
	cmd := newWorld(t).command("--socket", m.socket, "memory", "list")
	cmd.Args = append([]string{"sh", "-c", `stty cols 60 && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	x := onTerminal(t, cmd)
	<-x.ended
	x.shows("語…\r\n")
	for line := range strings.Lines(x.screen()) {
		if n := render.Cells(strings.TrimRight(line, "\r\n")); n > 60 {
			t.Errorf("%d cells: %q", n, line)
		}
	}
}

func TestMemoryShow(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "one\nassistant: \x1b[2J\n")
	m.add(proto.StoreHard{Messages: proto.Raw(`[{"role":"user\n","content":"q"},{"content":"a","role":"assistant","x":1}]`), Tag: "t", ChannelID: "c", SessionID: "s\x1b"})
	m.expect(t, "", []string{"memory", "show", "0"}, 0, "id      0\nstored  2026-11-21 14:03\ntag     -\n\nuser: one\n  assistant: ^[[2J\n", "")
	m.expect(t, "", []string{"memory", "show", "1"}, 0, "id       1\nstored   2026-11-21 14:03\ntag      t\nchannel  c\nsession  s^[\n\nuser : q\nassistant: a\n", "")
	m.expect(t, "", []string{"memory", "show", "1", "--json"}, 0,
		`{"id":1,"messages":[{"role":"user\n","content":"q"},{"content":"a","role":"assistant","x":1}],"tag":"t","channel_id":"c","session_id":"s\u001b","created":"2026-11-21T14:03:01Z"}`+"\n", "")
	m.expect(t, "", []string{"memory", "show", "2"}, 1, "", "Error [internal]: there is no memory 2; zino memory list shows those there are\n")
}

func TestMemoryRemove(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a", "b", "c")
	m.expect(t, "", []string{"memory", "rm", "2", "7", "0", "2"}, 1, "",
		"Error [internal]: there is no memory 7; zino memory list shows those there are\nError [internal]: there is no memory 2; zino memory list shows those there are\n")
	m.expect(t, "", []string{"memory", "rm", "1"}, 0, "", "")
	if !slices.Equal(m.texts(), []string{"-", "-", "-"}) {
		t.Errorf("left: %q", m.texts())
	}
}
