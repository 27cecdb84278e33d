package zino_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// keysChat is an interactive chat in ~/proj, and its provider.
type keysChat struct {
	*zinotest.Screen
	provider *fakellm.Server
	t        *testing.T
}

// newKeysChat opens an interactive chat. ahead is typed before it starts. Requests that no
// turn matches are answered "done".
func newKeysChat(t *testing.T, start, ahead string, env []string, turns ...fakellm.Turn) *keysChat {
	provider := fakellm.New(append(turns, fakellm.Turn{Times: fakellm.Forever, Text: "done"})...)
	t.Cleanup(provider.Close)
	s := zinotest.NewScreen(t, bin, append([]string{"ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL=" + provider.Host, "TMUX=yes"}, env...)...)
	zinotest.Write(t, filepath.Join(s.Dir, "home", ".config", "zino", "config.toml"), "[chat]\nplain = false\n")
	zinotest.Must(t, os.Mkdir(filepath.Join(s.Dir, "home", "proj"), 0o700))
	s.Tmux("set", "-g", "status", "off")
	s.Tmux("set", "-g", "history-limit", "20000")
	c := &keysChat{s, provider, t}
	if ahead == "" {
		s.Enter("cd ~/proj; clear; " + start)
	} else {
		gate := filepath.Join(s.Dir, "home", "gate")
		zinotest.Must(t, syscall.Mkfifo(gate, 0o600))
		s.Enter("cd ~/proj; clear; echo begun; cat ~/gate; " + start)
		s.Shows("begun", "begun")
		c.keys(ahead)
		zinotest.Must(t, os.WriteFile(gate, nil, 0))
	}
	c.Eventually("the first line", func(text string) bool { return strings.Contains(text, "/help") && c.editor() == "" })
	return c
}

// keys sends bytes to the terminal, at once.
func (c *keysChat) keys(bytes string) {
	c.t.Helper()
	args := []string{"send-keys", "-H"}
	for _, b := range []byte(bytes) {
		args = append(args, strconv.FormatUint(uint64(b), 16))
	}
	c.Tmux(args...)
}

var promptRow = regexp.MustCompile(`^> ?`)

// editor returns what the editor shows: the last prompt of the screen and the rows below
// it, without the status line.
func (c *keysChat) editor() string {
	rows := strings.Split(c.Text(), "\n")
	for i := len(rows) - 1; i >= 0; i-- {
		if promptRow.MatchString(rows[i]) {
			shown := []string{promptRow.ReplaceAllString(rows[i], "")}
			for _, row := range rows[i+1 : max(i+1, len(rows)-1)] {
				shown = append(shown, strings.TrimPrefix(row, "  "))
			}
			return strings.Join(shown, "\n")
		}
	}
	return ""
}

// shows waits until the editor shows a text.
func (c *keysChat) shows(want string) {
	c.t.Helper()
	c.Eventually(fmt.Sprintf("%q in the editor", want), func(string) bool { return c.editor() == want })
}

// idle waits until no turn is open and the editor is empty.
func (c *keysChat) idle() {
	c.t.Helper()
	c.Eventually("the prompt", func(text string) bool { return !strings.Contains(text, "Esc stops") && c.editor() == "" })
}

// received returns the text of the user's last message of request n, counted from 1.
func (c *keysChat) received(n int) string {
	c.t.Helper()
	r, err := c.provider.Wait(c.t.Context(), n)
	zinotest.Must(c.t, err)
	var body struct {
		Messages []struct{ Content json.RawMessage }
	}
	zinotest.Must(c.t, json.Unmarshal(r.Body, &body))
	content := body.Messages[len(body.Messages)-1].Content
	var whole string
	if json.Unmarshal(content, &whole) == nil {
		return whole
	}
	var blocks []struct{ Type, Text string }
	zinotest.Must(c.t, json.Unmarshal(content, &blocks))
	for _, block := range blocks {
		whole += block.Text
	}
	return whole
}

// leave ends the chat.
func (c *keysChat) leave() {
	c.t.Helper()
	c.keys("\x04")
	c.Shows("Go on with: zino sessions resume", shell)
}

// Names of keys as a terminal sends them.
const (
	keyEsc   = "\x1b"
	keyLeft  = "\x1b[D"
	pasteOn  = "\x1b[200~"
	pasteOff = "\x1b[201~"
	keyClear = "\x15" // Ctrl-U
)

// TestChatKeys checks that what is on the screen is what is sent, for each key of the
// table, in the forms that terminals send it.
func TestChatKeys(t *testing.T) {
	t.Parallel()
	c := newKeysChat(t, "zino", "", nil)
	n := 0
	for _, test := range []struct{ name, bytes, want string }{
		{"wide characters", "日本語テキスト" + keyLeft + keyLeft + "X\x7f\x7f", "日本語テスト"},
		{"emoji of several code points", "a👨‍👩‍👧👍b" + keyLeft + keyLeft + "\x7fx", "ax👍b"},
		{"combining marks", "cafe\u0301s" + keyLeft + "\x7fX", "cafXs"},
		{"flags", "🇩🇪🇫🇷x" + keyLeft + "\x7f", "🇩🇪x"},
		{"right-to-keyLeft text", "שלום עולם\x7f!", "שלום עול!"},
		{"Left, Ctrl-B, Right, Ctrl-F", "abcd\x1b[D\x1bOD\x02\x1b[C\x06X", "abcXd"},
		{"Home, Ctrl-A, End, Ctrl-E", "b\x1b[Ha\x1b[1~0\x1bOH1\x01_\x1b[Fc\x1b[4~d\x1bOFe\x01\x05f", "_10abcdef"},
		{"Alt-B, Ctrl-Left, Alt-Left", "one two three four\x1bb1\x1b[1;5D\x1b[1;5D2\x1b[1;3D\x1b[1;3D3\x1b[98;3u4", "one 43two 2three 1four"},
		{"Alt-F, Ctrl-Right, Alt-Right", "one two three four\x01\x1bf1\x1b[1;5C2\x1b[1;3C3\x1b[27;3;102~4", "one1 two2 three3 four4"},
		{"Ctrl-W, Alt-Backspace, Ctrl-Backspace", "one two three four five six\x17\x1b\x7f\b\x1b[127;5u\x1b[27;3;127~", "one"},
		{"Alt-D", "xone two three\x01\x06\x1bd\x1b[100;3u", "x three"},
		{"Ctrl-K, Ctrl-Y", "one two\x1bb\x0b\x01\x19", "twoone"},
		{"Ctrl-U, Ctrl-Y, Alt-Y", "one\x15two\x15\x19\x1by", "one"},
		{"Ctrl-_", "one two\x17\x1f", "one two"},
		{"Ctrl-_ of other terminals", "one two\x17\x1b[45;6u", "one two"},
		{"kitty's and modifyOtherKeys' forms", "ac\x1b[98;5ub\x1b[27;5;101~d\x1b[97;5u_", "_abcd"},
		{"Ctrl-J, Alt-Enter, Shift-Enter", "1\n2\x1b\r3\x1b[13;2u4\x1b[27;2;13~5\x1b[13;3u6", "1\n2\n3\n4\n5\n6"},
		{"Up and Down in rows", "abc\ndef\nghi\x1b[AX\x1b[A\x1b[B\x1b[BY", "abc\ndefX\nghiY"},
		{"Esc eats no key", keyEsc + "rm it", "rm it"},
		{"Esc and a bracket", keyEsc + "[", "["},
		{"Delete", "abc\x01\x1b[3~\x04", "c"},
		{"a tab in a paste", pasteOn + "a\tb" + pasteOff, "a\tb"},
		{"//", "//etc is a directory", "/etc is a directory"},
		{"a path", "/usr/bin/x fails", "/usr/bin/x fails"},
	} {
		c.keys(test.bytes)
		shown := strings.ReplaceAll(test.want, "\t", "   ")
		if test.name == "//" {
			shown = "/" + shown
		}
		c.shows(shown)
		c.keys("\r")
		n++
		zinotest.Equal(t, test.name, c.received(n), strings.TrimRight(test.want, "\n"))
		c.idle()
	}
	// The backslash that is on the screen when Enter comes continues the message.
	c.keys(`one\`)
	c.shows(`one\`)
	c.keys("\r")
	c.shows("one\n")
	c.keys("two\r")
	n++
	zinotest.Equal(t, "\\ Enter", c.received(n), "one\ntwo")
	c.idle()
	long := strings.Repeat("0123456789", 600)
	c.Tmux("send-keys", "-l", long[:3000])
	c.Tmux("send-keys", "-l", long[3000:]+"#")
	c.Eventually("the end of 6,000 characters", func(text string) bool { return strings.Contains(text, "9#") })
	c.keys("\r")
	n++
	zinotest.Equal(t, "6,000 characters", c.received(n), long+"#")
	c.idle()
	c.history(n)
	c.leave()
}

// history checks Up, Ctrl-P, Ctrl-R, Ctrl-C and Ctrl-D, after a message of 6,000
// characters.
func (c *keysChat) history(n int) {
	t := c.t
	c.keys("draft")
	c.shows("draft")
	c.keys("\x10\x10") // Ctrl-P
	c.shows("one\ntwo")
	c.keys("\x1b[A\x1b[A") // a row of the message, then the one before it
	c.shows("/usr/bin/x fails")
	c.keys("\x0e\x0e\x0e") // Ctrl-N
	c.shows("draft")
	c.keys("\x12")
	c.Shows("\nhistory:", ``)
	c.keys("usr")
	c.Eventually("the match, and the cursor behind the words", func(text string) bool {
		return strings.Contains(text, "> /usr/bin/x fails") && c.row(c.cursorRow()) == "history: usr" && c.cursorColumn() == len("history: usr")
	})
	c.keys(keyEsc)
	c.shows("draft")
	c.keys("\x12xyzzy")
	c.Shows("history, no match: xyzzy", ``)
	c.keys("\x07") // Ctrl-G
	c.shows("draft")
	c.keys("\x12usr\r")
	c.shows("/usr/bin/x fails")
	c.keys("\r")
	zinotest.Equal(t, "found by Ctrl-R", c.received(n+1), "/usr/bin/x fails")
	c.idle()
	stored := zinotest.Read(t, filepath.Join(c.Dir, "home", ".config", "zino", "chat_history"))
	zinotest.Contains(t, "the history", stored, `"one\ntwo"`, `"/usr/bin/x fails"`)
	c.keys("gone")
	c.shows("gone")
	c.keys("\x03") // Ctrl-C
	c.shows("")
	c.keys("\x19") // Ctrl-Y
	c.shows("gone")
	c.keys("\x03")
	c.shows("")
	c.keys("\x03")
	c.Shows("Press Ctrl-C again to leave", ``)
	c.keys("x\x7f")
	c.shows("")
	c.keys("\f") // Ctrl-L
	c.Eventually("a clear screen", func(text string) bool { return !strings.Contains(text, "Ctrl-C again") && c.editor() == "" })
	zinotest.Contains(t, "the scrollback", c.History(), "Ctrl-C again", "/usr/bin/x fails")
}

func (c *keysChat) cursorRow() int    { return c.cursor("#{cursor_y}") }
func (c *keysChat) cursorColumn() int { return c.cursor("#{cursor_x}") }

func (c *keysChat) cursor(format string) int {
	n, err := strconv.Atoi(strings.TrimSpace(c.Tmux("display", "-p", format)))
	zinotest.Must(c.t, err)
	return n
}

// row returns a row of the screen.
func (c *keysChat) row(n int) string {
	rows := strings.Split(c.Text(), "\n")
	if n >= len(rows) {
		return ""
	}
	return rows[n]
}

// paste pastes a text: with marks as terminals do that were asked for them, else as it is.
func (c *keysChat) paste(text string, marks bool) {
	c.t.Helper()
	path := filepath.Join(c.Dir, "paste")
	zinotest.Write(c.t, path, text)
	c.Tmux("load-buffer", path)
	args := []string{"paste-buffer"}
	if marks {
		args = append(args, "-p")
	}
	c.Tmux(args...)
}

// TestChatPaste checks pastes with and without marks, at the prompt and during a turn, and
// what was typed before the chat had the terminal.
func TestChatPaste(t *testing.T) {
	t.Parallel()
	editor := filepath.Join(zinotest.Dir(t), "editor")
	zinotest.Write(t, editor, "#!/bin/sh\nstat -c %a \"$2\" \"$(dirname \"$2\")\" > ~/modes\ncat \"$2\" > ~/opened\necho \"$2\" > ~/name\necho $1 >> \"$2\"\n")
	zinotest.Must(t, os.Chmod(editor, 0o700))
	c := newKeysChat(t, "zino", "typed ahead\r", []string{"VISUAL=" + editor + " last"}, fakellm.Turn{Match: "wait here", Wait: "gate", Text: "so far"})
	n := 1
	zinotest.Equal(t, "typed ahead", c.received(n), "typed ahead")
	c.idle()
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "line %d of the paste\n", i+1)
	}
	long := b.String()
	c.paste(long, true)
	c.shows("[pasted 2,000 lines]")
	c.keys("\x7f")
	c.shows("")
	c.keys("\x1f")
	c.shows("[pasted 2,000 lines]")
	c.keys("\x18\x05") // Ctrl-X Ctrl-E
	c.shows("[pasted 2,000 lines]last")
	home := filepath.Join(c.Dir, "home")
	zinotest.Equal(t, "the editor's file", zinotest.Read(t, filepath.Join(home, "opened")), long)
	zinotest.Equal(t, "its mode and that of its directory", zinotest.Read(t, filepath.Join(home, "modes")), "600\n700\n")
	if _, err := os.Stat(filepath.Dir(strings.TrimSpace(zinotest.Read(t, filepath.Join(home, "name"))))); !os.IsNotExist(err) {
		t.Errorf("the directory of the editor's file: %v", err)
	}
	c.keys("\r")
	n++
	zinotest.Equal(t, "a paste with marks", c.received(n), long+"last")
	c.idle()
	zinotest.Contains(t, "the screen", c.Text(), "> [pasted 2,000 lines]last")

	c.paste(strings.TrimSuffix(long, "\n"), false)
	c.shows("[pasted 2,000 lines]")
	c.keys("\r")
	n++
	zinotest.Equal(t, "a paste without marks", c.received(n), strings.TrimSuffix(long, "\n"))
	c.idle()

	c.keys(pasteOn + "two\r\nlines\x03\x04" + pasteOff + "\rrm -rf build\r" + pasteOn + "\x1b[A" + pasteOff)
	c.Eventually("the paste with marks in it", func(string) bool { return strings.HasPrefix(c.editor(), "two\nlines") })
	c.keys("\r")
	n++
	zinotest.Equal(t, "marks and control characters in a paste", c.received(n), "two\nlines\x03\x04\nrm -rf build\n\x1b[A")
	c.idle()

	c.Enter("wait here")
	n++
	c.received(n)
	huge := strings.Repeat(strings.Repeat("x", 499)+"\n", 2097)
	c.paste(huge, true)
	c.shows("[pasted 2,097 lines]")
	c.keys("\r")
	c.Eventually("the message that waits", func(text string) bool { return strings.Contains(text, "then: [pasted 2,097 lines]") })
	c.paste("first\nrm -rf build\nlast", false)
	c.shows("first\nrm -rf build\nlast")
	c.keys("\r")
	c.Eventually("the message that steers", func(text string) bool { return strings.Contains(text, "next: first rm -rf build last") })
	c.provider.Open("gate")
	zinotest.Equal(t, "a paste without marks that steers", c.received(n+1), "first\nrm -rf build\nlast")
	zinotest.Equal(t, "1 MB during a turn", c.received(n+2), strings.TrimSuffix(huge, "\n"))
	c.idle()
	zinotest.Equal(t, "requests", len(c.provider.Requests()), n+2)
	c.leave()
}

// cursorScreen returns the rows of the screen from the activity line on, with the cursor.
func (c *keysChat) cursorScreen() string {
	rows := strings.Split(c.Text(), "\n")
	y, x := c.cursorRow(), c.cursorColumn()
	for i, row := range rows {
		if i == y {
			at, cells := 0, 0
			for at < len(row) && cells < x {
				r, size := utf8.DecodeRuneInString(row[at:])
				at, cells = at+size, cells+1
				if r >= 0x1100 { // wide, in this test
					cells++
				}
			}
			rows[i] = row[:at] + "█" + row[at:]
		}
	}
	for i, row := range rows {
		if strings.Contains(row, "Esc stops") {
			return strings.Join(rows[i:], "\n")
		}
	}
	return ""
}

// TestChatSteering checks what is typed during a turn: steering, queueing, taking back,
// an interruption, and the last message that is edited again.
func TestChatSteering(t *testing.T) {
	t.Parallel()
	editor := filepath.Join(zinotest.Dir(t), "editor")
	zinotest.Write(t, editor, "#!/bin/sh\necho begun > ~/began; cat ~/program > /dev/null; exit 3\n")
	zinotest.Must(t, os.Chmod(editor, 0o700))
	c := newKeysChat(t, "zino --sandbox workspace-write", "", []string{"EDITOR=" + editor},
		fakellm.Turn{Match: "fix mean", Text: "fixed", Usage: &fakellm.Usage{In: 18500, Out: 2, CacheRead: 13148}},
		fakellm.Turn{Match: "go on", Wait: "gate", Text: "going on"},
		fakellm.Turn{Match: "also look", Text: "looked", Usage: &fakellm.Usage{In: 18500, Out: 2}},
		fakellm.Turn{Match: "commit message", Wait: "never"},
		fakellm.Turn{Match: "while the editor", Wait: "editor", Text: numbered(50)})
	c.Enter("fix mean")
	zinotest.Equal(t, "the first message", c.received(1), "fix mean")
	c.idle()
	c.Enter("go on")
	c.received(2)
	c.keys("taken back\r")
	c.Eventually("what waits", func(text string) bool { return strings.Contains(text, "next: taken back") })
	c.keys("\x1b[A")
	c.shows("taken back")
	c.keys(keyClear + "also look at 漢字.txt\r")
	c.Eventually("what steers", func(text string) bool { return strings.Contains(text, "next: also look") })
	c.keys("write a commit message\t")
	c.Eventually("what is queued", func(text string) bool { return strings.Contains(text, "then: write a commit") })
	c.keys("你好世界" + keyLeft + keyLeft)
	c.Eventually("the cursor", func(string) bool { return c.cursorColumn() == 6 })
	checkText(t, c.Screen, "chat-06", regexp.MustCompile(`Working \d+s`).ReplaceAllString(c.cursorScreen(), "Working 12s"))

	c.provider.Open("gate")
	zinotest.Equal(t, "the message that steers", c.received(3), "also look at 漢字.txt")
	zinotest.Equal(t, "the message that was queued", c.received(4), "write a commit message")
	c.shows("你好世界")
	c.keys("\x01one \r") // Ctrl-A
	c.Eventually("a steer", func(text string) bool { return strings.Contains(text, "next: one 你好世界") })
	c.keys("two\t")
	c.Eventually("a queued message", func(text string) bool { return strings.Contains(text, "then: two") })
	c.keys("three")
	c.shows("three")
	c.keys(keyEsc)
	c.shows("one 你好世界\n\ntwo\n\nthree")
	c.keys("\x03")
	c.shows("")
	history := c.History()
	if looked, queued := strings.Index(history, "> also look"), strings.Index(history, "> write a commit"); looked < strings.Index(history, "going on") || queued < strings.Index(history, "looked") {
		t.Errorf("messages are not printed where they were delivered:\n%s", history)
	}
	c.editLast()
	c.program()
	c.leave()
}

// editLast checks Esc Esc: the last message is edited, and sent in a copy of the session.
func (c *keysChat) editLast() {
	t := c.t
	n := len(c.provider.Requests())
	c.keys(keyEsc + keyEsc)
	c.shows("write a commit message")
	c.keys(keyEsc) // drops the mark, the text stays
	c.Eventually("no mark", func(text string) bool { return !strings.Contains(text, "copy of the session") })
	c.keys("\x03")
	c.shows("")
	c.keys(keyEsc + keyEsc)
	c.shows("write a commit message")
	c.keys("s\r")
	zinotest.Equal(t, "the edited message", c.received(n+1), "write a commit messages")
	c.Eventually("the earlier version", func(text string) bool {
		return regexp.MustCompile(`The earlier version stays as session [0-9a-f]{8}\. Files were not changed back:\s/undo`).MatchString(text)
	})
	r := c.provider.Requests()[n]
	if body := string(r.Body); strings.Contains(body, "commit message\"") || !strings.Contains(body, "also look") {
		t.Errorf("the copy has the wrong messages: %s", body)
	}
	c.idle()
}

// program checks an editor program that ends with an error while a turn goes on.
func (c *keysChat) program() {
	t := c.t
	home := filepath.Join(c.Dir, "home")
	zinotest.Must(t, syscall.Mkfifo(filepath.Join(home, "program"), 0o600))
	n := len(c.provider.Requests())
	c.Enter("while the editor runs")
	c.received(n + 1)
	c.keys("a draft\x07") // Ctrl-G
	zinotest.Eventually(t, "the editor", func() bool { _, err := os.Stat(filepath.Join(home, "began")); return err == nil })
	c.provider.Open("editor")
	c.Tmux("resize-window", "-x", "70", "-y", "24")
	zinotest.Eventually(t, "the answer in the session", func() bool {
		logs, err := filepath.Glob(filepath.Join(home, ".config", "zino", "sessions", "*.jsonl"))
		zinotest.Must(t, err)
		return slices.ContainsFunc(logs, func(path string) bool { return strings.Contains(zinotest.Read(t, path), "line 50 of") })
	})
	if strings.Contains(c.Text(), "line 50 of") {
		t.Errorf("something is written while the editor has the terminal:\n%s", c.Text())
	}
	zinotest.Must(t, os.WriteFile(filepath.Join(home, "program"), nil, 0))
	c.shows("a draft")
	answered(c.Screen, "line 50 of the answer")
	zinotest.Contains(t, "the screen", c.Text(), "The message is unchanged: ", "exit status 3")
	c.keys("\x03")
	c.shows("")
}
