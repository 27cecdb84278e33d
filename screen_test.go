package zino_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/fakellm"
)

// The last line of a screen that waits for input.
const (
	shell = `^\$ ?$`
	chat  = `^> ?$`
)

var update = flag.Bool("update", false, "write the screens of testdata/screens anew")

// screen is a terminal of 80 by 30 characters: a shell in tmux.
type screen struct {
	t   *testing.T
	dir string
}

// newScreen starts a shell, in an empty directory and with an empty home.
func newScreen(t *testing.T, env ...string) *screen {
	t.Helper()
	return screenOf(t, []string{"sh"}, env...)
}

// newUserScreen starts a shell that is not root's, also where the tests are: in
// a user namespace that shows this uid as another.
func newUserScreen(t *testing.T, env ...string) *screen {
	t.Helper()
	if os.Geteuid() != 0 {
		return newScreen(t, env...)
	}
	return screenOf(t, []string{"unshare", "--user", "--map-user=1000", "--map-group=1000", "sh"}, env...)
}

func screenOf(t *testing.T, shell []string, env ...string) *screen {
	t.Helper()
	dir, err := os.MkdirTemp("", "zs")
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t, dir}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"home", "work", "run"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env = append([]string{
		"HOME=" + filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "TMPDIR=" + filepath.Join(dir, "run"),
		"PATH=" + bin + ":" + os.Getenv("PATH"), "PS1=$ ", "TERM=screen", "LC_ALL=C.UTF-8",
	}, env...)
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "30", "-c", filepath.Join(dir, "work"), "env", "-i"}
	s.tmux(slices.Concat(args, env, shell)...) // tmux's own -e does not reach PATH
	t.Cleanup(func() { s.tmux("kill-server") })
	s.shows("", `^[$[]`)
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", filepath.Join(s.dir, "tmux")}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// types sends text and Enter.
func (s *screen) types(text string) {
	s.t.Helper()
	s.tmux("send-keys", "-l", text)
	s.tmux("send-keys", "Enter")
}

func (s *screen) text() string {
	s.t.Helper()
	return strings.TrimRight(s.tmux("capture-pane", "-p"), "\n")
}

// shows waits until the last line of the screen matches and part stands above.
func (s *screen) shows(part, last string) {
	s.t.Helper()
	want := regexp.MustCompile(last)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		text := s.text()
		if strings.Contains(text, part) && want.MatchString(text[strings.LastIndexByte(text, '\n')+1:]) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("waited in vain for %q and a last line like %q:\n%s", part, last, text)
		}
	}
}

// What differs from run to run, and what stands for it.
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

// is compares the screen with a golden one, and clears it.
func (s *screen) is(name string) {
	s.t.Helper()
	text := strings.ReplaceAll(s.text(), s.dir, "$DIR") + "\n"
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.with)
	}
	golden := filepath.Join("testdata", "screens", name+".txt")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		s.t.Fatal(err)
	}
	if text != string(want) {
		s.t.Errorf("the screen %s is not as it was (go test -run TestScreens -update writes it anew):\n%s\nwant:\n%s", name, text, want)
	}
}

// screenScript is what the model says in TestScreens.
var screenScript = []fakellm.Turn{
	{Match: "typo", Text: "I look at the file first.", Calls: []fakellm.Call{{Name: "read", Args: `{"path":"greeting.txt"}`}}},
	{Match: "Helo", Calls: []fakellm.Call{{Name: "edit", Args: `{"path":"greeting.txt","old":"Helo","new":"Hello"}`}}},
	{Match: "replacements", Text: "The greeting is spelled right now.", Size: 5},
	{Match: "wait", Text: "This takes a while.", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo begun; sleep 1000.5"}`}}},
	{Match: "were we", Text: "You had me mend a typo, and then you stopped a long command."},
}

// TestScreens is what a new user sees: a chat, a tool that edits a file, the
// diff, Ctrl-C in a long command, the session resumed, and its handoff.
func TestScreens(t *testing.T) {
	provider := fakellm.New(screenScript...)
	defer provider.Close()
	s := newScreen(t, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host)
	file := filepath.Join(s.dir, "work", "greeting.txt")
	if err := os.WriteFile(file, []byte("Dear all,\nHelo to you.\nYours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.types("clear; zino")
	s.shows("", chat)
	s.types("There is a typo in greeting.txt.")
	s.shows("spelled right now", chat)
	s.is("edit")
	s.types("Now wait for a thousand seconds.")
	s.shows("begun; sleep", "begun")
	s.tmux("send-keys", "C-c")
	s.shows("Interrupted", chat)
	s.is("interrupt")
	s.tmux("send-keys", "C-d")
	s.shows("sessions resume", shell)
	s.types("clear; zino sessions resume")
	s.shows("Loaded", chat)
	s.types("Where were we?")
	s.shows("a long command", chat)
	s.types(":q")
	s.shows("sessions resume", shell)
	s.is("resume")
	s.types("clear; zino handoff --goal 'Translate the greeting' --offline")
	s.shows("Repro", shell)
	s.is("handoff")
	if text, err := os.ReadFile(file); err != nil || string(text) != "Dear all,\nHello to you.\nYours\n" {
		t.Errorf("the file is %q, %v", text, err)
	}
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if left := processes("sleep 1000.5"); len(left) > 0 {
		t.Error(fmt.Sprint("the long command is left: ", left))
	}
}
