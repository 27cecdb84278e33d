package zino_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// newCommandChat opens a chat in ~/proj. setup makes files before it starts.
func newCommandChat(t *testing.T, setup func(home string), env []string, turns ...fakellm.Turn) (*zinotest.Screen, *fakellm.Server) {
	t.Helper()
	provider := fakellm.New(append(turns, fakellm.Turn{Times: fakellm.Forever, Text: "done"})...)
	t.Cleanup(provider.Close)
	provider.SetModels("claude-sonnet-5-5", "claude-haiku-5-5")
	s := zinotest.NewScreen(t, bin, append([]string{"ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL=" + provider.Host, "TMUX=yes", "TZ=UTC"}, env...)...)
	home := filepath.Join(s.Dir, "home")
	zinotest.Write(t, filepath.Join(home, ".config", "zino", "config.toml"), "[chat]\nplain = false\n")
	zinotest.Must(t, os.MkdirAll(filepath.Join(home, "proj"), 0o755))
	if setup != nil {
		setup(home)
	}
	s.Tmux("set", "-g", "status", "off")
	s.Tmux("set", "-g", "history-limit", "20000")
	s.Enter("PATH=~/programs:$PATH; cd ~/proj; stty -a > ../before; clear; zino")
	s.Shows("/help", `\$0\.00`)
	return s, provider
}

// leaveChat leaves a chat and checks the terminal.
func leaveChat(s *zinotest.Screen) {
	s.Tmux("send-keys", "C-d")
	s.Shows("", shell)
	s.Enter("clear; stty -a > ../after; cmp ../before ../after && echo same terminal")
	s.Shows("same terminal", shell)
}

// checkRows compares the rows from the last one that begins with first to the one before
// last, without blank ones, with a golden screen. The cursor is shown as a block.
func checkRows(t *testing.T, s *zinotest.Screen, name, first, last string) {
	t.Helper()
	position := strings.Fields(s.Tmux("display-message", "-p", "#{cursor_x} #{cursor_y}"))
	x, err := strconv.Atoi(position[0])
	zinotest.Must(t, err)
	y, err := strconv.Atoi(position[1])
	zinotest.Must(t, err)
	var shown []string
	for i, row := range strings.Split(s.Text(), "\n") {
		if i == y {
			row += strings.Repeat(" ", max(0, x-len([]rune(row))))
			if strings.HasPrefix(row, "> ") && x > 0 {
				row += "█"
			}
		}
		if strings.HasPrefix(row, first) {
			shown = nil
		} else if len(shown) == 0 || row == "" {
			continue
		}
		if last != "" && len(shown) > 0 && strings.HasPrefix(row, last) {
			break
		}
		shown = append(shown, row)
	}
	checkText(t, s, name, strings.Join(shown, "\n"))
}

// writeSession stores a session.
func writeSession(t *testing.T, home, id, root, title, first string, messages int, cost float64, updated time.Time) {
	t.Helper()
	var b strings.Builder
	ts := updated.Format(time.RFC3339)
	fmt.Fprintf(&b, `{"type":"meta","schema_version":1,"ts":%q,"root":%q}`+"\n", ts, root)
	for i := range messages {
		role, text := "user", first
		if i%2 == 1 {
			role, text = "assistant", "an answer"
		}
		fmt.Fprintf(&b, `{"type":"message","role":%q,"text":%q,"ts":%q}`+"\n", role, text, ts)
	}
	fmt.Fprintf(&b, `{"type":"usage","input_tokens":1,"output_tokens":1,"cost_usd":%v,"ts":%q}`+"\n", cost, ts)
	if title != "" {
		fmt.Fprintf(&b, `{"type":"title","text":%q,"ts":%q}`+"\n", title, ts)
	}
	path := filepath.Join(home, ".config", "zino", "sessions", id+".jsonl")
	zinotest.Write(t, path, b.String())
	zinotest.Must(t, os.Chtimes(path, updated, updated))
}

const (
	meanSession  = "6467336c-1f30-429b-8d2f-0123456789ab"
	varSession   = "1f30029b-1f30-429b-8d2f-0123456789ab"
	otherSession = "77777777-1f30-429b-8d2f-0123456789ab"
)

// TestChatCommands checks the golden screens of completion, refused commands, errors and
// the list of sessions, and that no command reaches the provider.
func TestChatCommands(t *testing.T) {
	t.Parallel()
	s, provider := newCommandChat(t, func(home string) {
		proj, other := filepath.Join(home, "proj"), filepath.Join(home, "other")
		writeSession(t, home, meanSession, proj, "", "fix mean", 14, 0.02, time.Date(2026, 11, 22, 14, 3, 0, 0, time.UTC))
		writeSession(t, home, varSession, proj, "", "What is filling /var?", 3, 0, time.Date(2026, 11, 21, 9, 40, 0, 0, time.UTC))
		writeSession(t, home, otherSession, other, "", "paint the shed", 2, 0, time.Date(2026, 11, 20, 9, 40, 0, 0, time.UTC))
		zinotest.Must(t, os.MkdirAll(other, 0o755))
		zinotest.Write(t, filepath.Join(proj, "src", "main.go"), "package main\n")
		zinotest.Write(t, filepath.Join(proj, "src", "mathutil.go"), "package main\n")
		zinotest.Write(t, filepath.Join(proj, "a b.txt"), "blanks\n")
	}, nil, fakellm.Turn{Match: "denied", Status: 401, Text: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`})

	// 08: a paste and completion
	s.Tmux("send-keys", "-l", "summarise ")
	s.Tmux("set-buffer", strings.Repeat("line\n", 2000))
	s.Tmux("paste-buffer", "-p")
	s.Tmux("send-keys", "-l", " with @src/ma")
	s.Shows("mathutil.go", `\$0\.00`)
	checkRows(t, s, "chat-08", "> summarise", "YOLO · claude-")
	s.Tmux("send-keys", "Escape")
	s.Eventually("no list", func(text string) bool { return !strings.Contains(text, "mathutil") })
	s.Tmux("send-keys", "C-c")
	s.Eventually("an empty editor", func(text string) bool { return !strings.Contains(text, "summarise") })

	// 09: commands that are refused here
	s.Enter("/modle gpt")
	s.Shows("Nothing was sent.", `\$0\.00`)
	checkRows(t, s, "chat-09", "> /modle", ">")
	for _, c := range [][2]string{
		{"/xyzzy", "Unknown command /xyzzy. Nothing was sent."},
		{"/clera", "Did you mean /clear?"},
		{"?", "//TEXT"},
		{"/help keys", "Ctrl-X Ctrl-E"},
		{"/show 99", "There is no item 99."},
		{"/copy", "There is no answer yet."},
		{"/export", "The session is empty."},
		{"/effort sideways", "takes the efforts"},
		{"/model claude-hiaku", "Nearest: claude-haiku-5-5"},
		{"/sandbox none", "Unknown level none"},
		{"/resume nowhere", "There is no session nowhere."},
		{"/mcp", "No MCP servers. Add one: zino mcp add NAME -- COMMAND"},
		{"/diff", "The session is empty."},
		{"/tools", "bash"},
		{"/skills", "  agent "},
		{"/context", "tokens, estimated"},
		{"/cost", "today"},
		{"/memory add the key hangs behind the clock", "Remembered as 0."},
		{"/memory clock", "the key hangs"},
		{"/new", "This is a new session."},
	} {
		s.Tmux("send-keys", "C-l")
		s.Enter(c[0])
		s.Shows(c[1], `\$0\.00`)
	}
	// 11: the list of sessions, this directory first
	s.Tmux("send-keys", "C-l")
	s.Enter("/resume")
	s.Shows("Sessions in ~/proj", "What is filling")
	checkRows(t, s, "chat-11", "Sessions in", "")
	s.Tmux("send-keys", "-l", "/var")
	s.Eventually("the filter", func(text string) bool { return !strings.Contains(text, "fix mean") })
	s.Tmux("send-keys", "C-u")
	s.Shows("fix mean", "What is filling")
	s.Tmux("send-keys", "a")
	s.Shows("a: this directory", "paint the shed")
	s.Tmux("send-keys", "End", "Enter")
	s.Shows("Session 77777777 is of ~/other", `uit\?`)
	s.Tmux("send-keys", "t")
	s.Shows("an answer", `~/other · paint the shed`)
	s.Enter("/resume 6467")
	s.Shows("Session 6467336c is of ~/proj", `uit\?`)
	s.Tmux("send-keys", "t")
	s.Shows("── 10 earlier messages", `~/proj · fix mean`)
	s.Enter("/new")
	s.Shows("New session. The old one: /resume 6467336c", `~/proj · sandbox`)

	for _, r := range provider.Requests() {
		if strings.Contains(r.Path, "messages") {
			t.Errorf("the provider received %s", r.Body)
		}
	}

	// 10: an error of the provider, in a session of its own
	s.Tmux("send-keys", "C-l")
	s.Enter("denied")
	s.Shows("Try:", `\$0\.00`)
	checkRows(t, s, "chat-10", "Error [", "YOLO · claude-")

	leaveChat(s)
}

// TestChatSessionCommands checks the commands that change the session, files and the
// clipboard, and completion of their arguments.
func TestChatSessionCommands(t *testing.T) {
	t.Parallel()
	var draft, copied string
	s, provider := newCommandChat(t, func(home string) {
		draft, copied = filepath.Join(home, "draft"), filepath.Join(home, "copied")
		zinotest.Write(t, filepath.Join(home, "proj", "mean.go"), "package p\n")
		zinotest.Write(t, filepath.Join(home, "proj", "exists.md"), "mine\n")
		program := func(name, script string) {
			path := filepath.Join(home, "programs", name)
			zinotest.Write(t, path, "#!/bin/sh\n"+script)
			zinotest.Must(t, os.Chmod(path, 0o755))
		}
		program("editor", `cp "$1" `+draft+"\necho 'Sent from the editor.' > \"$1\"\n")
		zinotest.Must(t, os.MkdirAll(filepath.Join(home, ".config", "zino", "commands"), 0o700))
		zinotest.Write(t, filepath.Join(home, ".config", "zino", "commands", "fix.md"), "Fix issue $1.\n")
		program("wl-copy", "cat > "+copied+"\n")
	}, []string{"EDITOR=~/programs/editor"},
		fakellm.Turn{Match: "change files", Calls: []fakellm.Call{
			{Name: "write", Args: `{"path":"new.txt","content":"one\ntwo\n"}`},
			{Name: "edit", Args: `{"path":"mean.go","old":"package p","new":"package q"}`},
		}},
		fakellm.Turn{Match: "bytes", Text: "Changed.\n\n```go\nfirst()\n```\n\n```sh\nsecond\n```\n"},
		fakellm.Turn{Match: "wait", Wait: "slow", Text: "Waited."},
	)
	proj := filepath.Join(s.Dir, "home", "proj")
	idle := `^YOLO · claude-`
	s.Enter("change files with @mean.go and @missing")
	s.Shows("attached mean.go, 1 line", "")
	answered(s, "second")
	if r := provider.Requests(); !strings.Contains(string(r[0].Body), `Contents of mean.go:\n`+"```"+`\npackage p\n`+"```") {
		t.Errorf("the file was not sent: %s", r[0].Body)
	}
	check := func(command, want string) {
		t.Helper()
		s.Tmux("send-keys", "C-l")
		s.Enter(command)
		s.Shows(want, idle)
	}
	check("/copy 2", "Copied 1 line.")
	if got := zinotest.Read(t, copied); got != "second\n" {
		t.Errorf("copied: %q", got)
	}
	check("/copy 3", "The last answer has 2 code blocks.")
	check("/diff", "+package q")
	check("/undo 2", "restored mean.go")
	s.Shows("There are changes of 1 turn only.", idle)
	if zinotest.Read(t, filepath.Join(proj, "mean.go")) != "package p\n" {
		t.Error("the file was not restored")
	}
	check("/diff", "There are no changes.")
	check("/undo", "There is nothing to take back.")
	check("/redo", "restored mean.go")
	zinotest.Write(t, filepath.Join(proj, "mean.go"), "package mine\n")
	check("/undo", "refused mean.go: changed (it is not what the turn left)")
	s.Shows("/undo --partial", idle)
	check("/undo --partial", "removed new.txt")
	check("/rename the mean of nothing", "is now: the mean of nothing")
	check("/export exists.md", "exists and was not changed")
	check("/export .", "is a directory")
	check("/export missing/dir.md", "There is no directory ~/proj/missing.")
	check("/export out.md", "proj/out.md")
	if !strings.Contains(zinotest.Read(t, filepath.Join(proj, "out.md")), "change files") {
		t.Error("the session was not exported")
	}
	check("/fork", "Going on with a copy. The original: /resume ")

	// Commands during a turn.
	s.Enter("wait")
	s.Shows("Working", idle)
	s.Enter("/new")
	s.Shows("Wait for the turn to end, or press Esc.", idle)
	s.Shows("> /new", idle)
	s.Tmux("send-keys", "C-c")
	s.Enter("/model claude-haiku-5-5")
	s.Shows("The next turns use claude-haiku-5-5.", "")
	s.Enter("/fix 12 twice")
	s.Shows("then: /fix 12 twice", idle)
	provider.Open("slow")
	answered(s, "Waited.")
	s.Shows("> /fix 12 twice", idle)
	answered(s, "done")
	if r := provider.Requests(); !strings.Contains(string(r[len(r)-1].Body), `Fix issue 12.`) {
		t.Errorf("the command that waited has sent: %s", r[len(r)-1].Body)
	}
	s.Tmux("send-keys", "C-l")
	s.Tmux("send-keys", "Escape", "Escape") // edits the last message
	s.Shows("> /fix 12 twice", idle)
	s.Enter(" or more")
	s.Shows("The earlier version stays as session", idle)
	answered(s, "done")

	// Completion of arguments.
	s.Tmux("send-keys", "-l", "/effort m")
	s.Shows("  medium", idle)
	s.Tmux("send-keys", "Tab", "Tab", "Enter")
	s.Shows("> /effort max", idle)
	s.Tmux("send-keys", "Enter")
	s.Shows("The next turns use effort max.", idle)

	// A handoff that the editor has changed begins a session.
	check("/handoff finish the mean", "Sent from the editor.")
	answered(s, "New session. The old one: /resume ")
	if !strings.Contains(zinotest.Read(t, draft), "finish the mean") {
		t.Error("the editor did not get the draft")
	}
	leaveChat(s)
}
