package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/proto"
)

func TestMemoryAdd(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	m.expect(t, "", []string{"memory", "add", "The", "<key>", "--tag", "house"}, 0, "0\n", "")
	m.expect(t, "not read", []string{"memory", "add", "--", "--tag is a word"}, 0, "1\n", "")
	m.expect(t, "two\nlines\n\n", []string{"memory", "add"}, 0, "2\n", "")
	m.expect(t, "piped\r\n", []string{"memory", "add", "-", "--tag=x"}, 0, "3\n", "")
	m.expect(t, "", []string{"memory", "add", "The <key>", "--tag", "house"}, 0, "0\n", "")
	if want := []string{"The <key>", "--tag is a word", "two\nlines", "piped"}; !slices.Equal(m.texts(), want) {
		t.Errorf("stored %q", m.texts())
	}
	var got proto.StoreHard
	if m.with(func() { got = m.stored[0] }); got.Tag != "house" || string(got.Messages) != `[{"role":"user","content":"The <key>"}]` {
		t.Errorf("stored %+v", got)
	}
}

// TestMemoryAddNothing stores nothing.
func TestMemoryAddNothing(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	for _, test := range []struct {
		input, arg string
		status     int
		said       string
	}{
		{" \n", "", 1, "Error [internal]: nothing came on standard input, and nothing was changed\n"},
		{"\xff\n", "", 1, "Error [internal]: that is no text in UTF-8, and nothing was changed: convert it first, for example with iconv\n"},
		{"", "\xff", 1, "Error [internal]: that is no text in UTF-8, and nothing was changed: convert it first, for example with iconv\n"},
		{strings.Repeat("x", wire.MaxPayload), "", 1, "Error [internal]: standard input is larger than 16 MiB, and nothing was changed: pass a shorter text\n"},
		{"", " ", exitUsage, "Error [usage]: zino memory add: say what is to be remembered, or pass it on standard input; try zino memory add --help\n"},
	} {
		args := []string{"memory", "add"}
		if test.arg != "" {
			args = append(args, test.arg)
		}
		m.expect(t, test.input, args, test.status, "", test.said)
	}
	if len(m.texts()) > 0 {
		t.Errorf("stored %q", m.texts())
	}
}

// TestMemoryAddTerminal does not wait for a text that nobody announced.
func TestMemoryAddTerminal(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t)
	x := onTerminal(t, newWorld(t).command("--socket", m.socket, "memory", "add"))
	<-x.ended
	if got := x.cmd.ProcessState.ExitCode(); got != exitUsage {
		t.Errorf("status %d", got)
	}
	x.shows("say what is to be remembered")
}

func TestMemorySearch(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a key", "a clock", "the key\nand \x1b[31m")
	m.with(func() { m.items[2].Tag = "house" })
	const head = "ID  SCORE   TAG    TEXT\n"
	m.expect(t, "", []string{"memory", "search", "key"}, 0, head+"0   0.6547  -      a key\n2   0.6547  house  the key and ^[[31m\n", "")
	m.expect(t, "", []string{"memory", "search", "nothing", "like", "it"}, 1, "", "No memory matches.\n")
	m.expect(t, "", []string{"memory", "search", "clock", "--explain"}, 0,
		"ID  SCORE   TAG  WORDS                     TEXT\n1   0.6547  -    clock 0.60, \\u009bx 0.05  a clock\n", "")
	m.expect(t, "", []string{"memory", "search", "clock", "--json", "--explain"}, 0,
		`{"messages":[{"role":"user","content":"a clock"}],"score":0.6547,"id":1,"words":[{"word":"clock","share":0.6},{"word":"\u009bx","share":0.0547}]}`+"\n", "")
}

// TestMemorySearchAsks for what the command line says. Days are the caller's.
func TestMemorySearchAsks(t *testing.T) {
	t.Parallel()
	m := newFakeMem(t, "a", "a b")
	cmd := newWorld(t).command("--socket", m.socket, "memory", "search", "a", "-k", "1", "--tag", "t", "-ch", "c",
		"--since", "2026-11-21", "--until=2026-11-22T10:00:00.5Z", "--min-score", "0.25", "--json")
	cmd.Env = append(cmd.Env, "TZ=Asia/Tokyo")
	if status, out, said := run(t, cmd, ""); status != 0 || strings.Count(out, "\n") != 1 || said != "" {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	var got proto.SearchHard
	m.with(func() { got = m.searched[0] })
	since := "2026-11-21T00:00:00+09:00"
	text := fmt.Sprint(got.Query, *got.TopK, got.Tag, got.ChannelID, got.Since, got.Until, got.MinScore, got.Explain)
	if want := fmt.Sprint("a", 1, "t", "c", since, "2026-11-22T10:00:00.5Z", 0.25, false); text != want {
		t.Errorf("asked %s, want %s", text, want)
	}
}
