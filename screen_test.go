package zino_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// The last line of a screen that waits for input.
const (
	shell = `^\$ ?$`
	chat  = `^> ?$`
)

var update = flag.Bool("update", false, "write the screens of testdata/screens")

// changing lists the parts of screens that differ between runs, with replacements.
var changing = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "SESSION"},
	{regexp.MustCompile(`resume [0-9a-f]{8}`), "resume SESSION"},
	{regexp.MustCompile(`\b\d+\.\d+s\b`), "0.00s"},
	{regexp.MustCompile(`\d+ tokens in, \d+ out(, \$\d\.\d+)?`), "N tokens in, N out"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "YYYY-MM-DD"},
}

// checkScreen compares the screen with testdata/screens/NAME.txt.
func checkScreen(t *testing.T, s *zinotest.Screen, name string) {
	t.Helper()
	checkText(t, s, name, s.Text())
}

func checkText(t *testing.T, s *zinotest.Screen, name, text string) {
	t.Helper()
	text = strings.ReplaceAll(text, s.Dir, "$DIR") + "\n"
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.with)
	}
	golden := filepath.Join("testdata", "screens", name+".txt")
	if *update {
		zinotest.Must(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	if want := zinotest.Read(t, golden); text != want {
		t.Errorf("the screen %s differs (go test -run TestScreens -update writes it):\n%s\nwant:\n%s", name, text, want)
	}
}

// screenScript is the provider's script of TestScreens.
var screenScript = []fakellm.Turn{
	{Match: "typo", Text: "I look at the file first.", Calls: []fakellm.Call{{Name: "read", Args: `{"path":"greeting.txt"}`}}},
	{Match: "Helo", Calls: []fakellm.Call{{Name: "edit", Args: `{"path":"greeting.txt","old":"Helo","new":"Hello"}`}}},
	{Match: "replacements", Text: "The greeting is spelled right now.", Size: 5},
	{Match: "wait", Text: "This takes a while.", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo begun; sleep 1000.5"}`}}},
	{Match: "were we", Text: "You had me mend a typo, and then you stopped a long command."},
}

// TestScreens checks the screens of a chat, a tool that edits a file with its diff,
// Ctrl-C in a long command, a resumed session, and a handoff.
func TestScreens(t *testing.T) {
	provider := fakellm.New(screenScript...)
	defer provider.Close()
	s := zinotest.NewScreen(t, bin, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host)
	file := filepath.Join(s.Dir, "work", "greeting.txt")
	zinotest.Write(t, file, "Dear all,\nHelo to you.\nYours\n")
	s.Enter("clear; zino --plain")
	s.Shows("", chat)
	s.Enter("There is a typo in greeting.txt.")
	s.Shows("spelled right now", chat)
	checkScreen(t, s, "edit")
	s.Enter("Now wait for a thousand seconds.")
	s.Shows("begun; sleep", "begun")
	s.Tmux("send-keys", "C-c")
	s.Shows("Interrupted", chat)
	checkScreen(t, s, "interrupt")
	s.Tmux("send-keys", "C-d")
	s.Shows("sessions resume", shell)
	s.Enter("clear; zino sessions resume --plain")
	s.Shows("Loaded", chat)
	s.Enter("Where were we?")
	s.Shows("a long command", chat)
	s.Enter(":q")
	s.Shows("sessions resume", shell)
	checkScreen(t, s, "resume")
	s.Enter("clear; zino handoff --goal 'Translate the greeting' --offline")
	s.Shows("Repro", shell)
	checkScreen(t, s, "handoff")
	zinotest.Equal(t, "the edited file", zinotest.Read(t, file), "Dear all,\nHello to you.\nYours\n")
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if left := zinotest.Processes("sleep 1000.5"); len(left) > 0 {
		t.Error(fmt.Sprint("the long command is still running: ", left))
	}
}
